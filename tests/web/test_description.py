"""Every route keeps what its description promises, whatever it is asked (schemathesis)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pyrula.store.open import open_store
from pyrula.web import create_app
from pyrula.web.app import DESCRIPTION
from pyrula.workflows import WorkflowClient
from tests.web import scene
from tests.web.until import until

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# These answer for as long as they are listened to, or are the page's own files.
_LEFT_OUT = ("/ui/live", "/static/{file:path}")


class _Serving(threading.Thread):
    """A server with a loop of its own, since schemathesis asks from plain code."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.ready = threading.Event()
        self.address = ""
        self.server: uvicorn.Server | None = None

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with open_store(self._url) as store:
            client = WorkflowClient(store, scene.registry)
            await scene.fill(client)
            app = create_app(store, registry=scene.registry)
            self.server = uvicorn.Server(
                uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=2)
            )
            running = asyncio.ensure_future(self.server.serve())
            await until(lambda: self.server.started)
            self.address = f"http://localhost:{self.server.servers[0].sockets[0].getsockname()[1]}"
            self.ready.set()
            await running


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without tokens, over a store with a night's work in it."""
    folder: Path = tmp_path_factory.mktemp("store")
    serving = _Serving(f"sqlite:///{folder / 'runs.db'}")
    serving.start()
    assert serving.ready.wait(20)
    yield serving.address
    assert serving.server is not None
    serving.server.should_exit = True
    serving.join(10)


schema = schemathesis.openapi.from_dict(DESCRIPTION)
ASKED = [
    (path, method.upper())
    for path, item in DESCRIPTION["paths"].items()
    for method in item
    if path not in _LEFT_OUT
]
# What is there: beside whatever is made up, so that routes are asked about real things too.
THERE = {
    "name": ["order", "mail", "digest", "sync_account"],
    "workflow": ["digest", "reindex", "order"],
    "run_id": ["order:7001", "order:7002"],
    "gate": ["sync_account.limit", "mail.rate", "openai"],
}


@pytest.mark.parametrize(("path", "method"), ASKED, ids=[f"{method} {path}" for path, method in ASKED])
def test_no_request_breaks_a_route_or_gets_an_answer_that_is_not_described(
    path: str, method: str, address: str
) -> None:
    operation = schema[path][method]
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

    @settings(
        max_examples=30,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=cases, real=st.booleans(), which=st.integers(0, 3))
    def ask(case: schemathesis.Case, real: bool, which: int) -> None:
        for name in case.path_parameters or {}:
            if real and name in THERE:
                case.path_parameters[name] = THERE[name][which % len(THERE[name])]
        if case.query and "wait" in case.query:
            case.query["wait"] = 0.01
        case.call_and_validate(base_url=address, checks=CHECKS, timeout=30)

    ask()

"""What the page and `pyrula why` tell of streams: each partition's lag and flight, and where one has stopped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO

import msgspec
import pytest
from msgspec.structs import replace
from playwright.async_api import Browser, expect
from rich.console import Console

from pyrula.cli.because import Known, explain
from pyrula.model.outcome import Failed
from pyrula.policies.stamp import stamp_run
from pyrula.store.protocol import Registration, Store, Submission, TurnRequest
from pyrula.web.app import App
from pyrula.workflows import WorkflowClient
from tests.web import scene
from tests.web.conftest import serving
from tests.web.test_page import browser, looking

__all__ = ["browser"]
pytestmark = pytest.mark.xdist_group("browser")
RUN = "sync/orders/1/7"
WHY = f"record {RUN} failed for good: ValueError: no such order; retry run {RUN} once its cause is mended"
FACTS = {
    "streams": [
        {
            "workflow": "mail",
            "topic": "orders",
            "in_flight": 3,
            "trouble": None,
            "stopped": [{"partition": "orders/1", "run_id": RUN, "why": WHY}],
            "partitions": [
                {"partition": 0, "lag": 12, "in_flight": 3, "waiting": 9, "committed": 40, "paused": False,
                 "stopped": None},
                {"partition": 1, "lag": 5, "in_flight": 0, "waiting": 4, "committed": 7, "paused": False,
                 "stopped": WHY},
            ],
        }
    ]
}  # fmt: skip


async def _stopped(store: Store) -> None:
    """A worker that owns two partitions, one of which has stopped at a run that failed."""
    workflow = scene.registry.get("mail")
    await store.register(
        Registration(
            incarnation="w1",
            worker_id="kafka-1",
            lease=60_000_000,
            declarations={"mail": msgspec.json.encode(workflow.declaration())},
            codes={"mail": workflow.code},
            facts=msgspec.json.encode(FACTS),
            units=["mail@orders/1"],
        )
    )
    stamped = stamp_run(workflow, {"user": "u"})
    stamped = replace(
        stamped, stamp=replace(stamped.stamp, owned=True, gates=()), keys=(), unit_key="orders/1"
    )
    await store.submit([Submission(workflow="mail", params=b'{"user":"u"}', stamped=stamped, run_id=RUN)])
    (claim,) = (await store.turn(TurnRequest(incarnation="w1", wanted=1))).claims
    error = msgspec.json.encode({"type": "ValueError", "message": "no such order"})
    await store.turn(TurnRequest(incarnation="w1", outcomes=((claim.lease, Failed(error)),)))


async def test_the_page_shows_each_partition_and_where_one_has_stopped(
    browser: Browser, make_app: Callable[..., App], store: Store
) -> None:
    await _stopped(store)
    async with serving(make_app()) as at, looking(browser) as it:
        await it.page.goto(f"{at}/ui/workers")
        streams = it.page.get_by_role("table", name="Streams")
        await expect(streams.get_by_role("row", name="orders/0")).to_contain_text("consumed")
        await expect(streams.get_by_role("row", name="orders/1")).to_contain_text("no such order")
        await streams.get_by_role("link", name="orders/1").click()
        await it.page.get_by_role("link", name=RUN).first.click()
        await expect(it.page.locator(".why")).to_contain_text("Partition orders/1 has stopped at it")
        assert it.wrong == []


async def test_pyrula_why_says_that_a_partition_has_stopped_at_a_failed_run(store: Store) -> None:
    await _stopped(store)
    client = WorkflowClient(store, scene.registry)
    out = Console(file=StringIO(), width=200)
    explain(out, await client.get(RUN), await client.why(RUN), Known({}, datetime.now(UTC)))
    told = out.file.getvalue()
    assert "It is over: failed" in told
    assert f"partition orders/1 has stopped at it, on kafka-1: {WHY}" in told

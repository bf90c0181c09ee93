"""The route table, and the ASGI app that is made of it: `create_app(store)`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pyrula.clock import Clock
from pyrula.errors import expect
from pyrula.limiters.config import finite, whole
from pyrula.store.protocol import Store, check_store
from pyrula.web import wire
from pyrula.web.access import Tokens
from pyrula.web.call import ANSWER_SECONDS, MAX_BODY, Call, Operation, Services, problem_response, serve
from pyrula.web.edge import Edge
from pyrula.web.live import Feeds
from pyrula.web.metrics import Metrics
from pyrula.web.openapi import document
from pyrula.web.problems import Problem
from pyrula.web.resources import gates, others, pages, runs, submitting
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.client.waits import Waits
from pyrula.workflows.workflow import Registry, check_registry


async def openapi(call: Call) -> Response:
    """This interface, described."""
    return Response(wire.encode(DESCRIPTION), media_type=wire.JSON, headers={"Cache-Control": "no-cache"})


_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]-]+")
# The order is that of the routes: `/{name}`, which submits, comes last.
OPERATIONS: Final[tuple[Operation, ...]] = (
    *runs.OPERATIONS,
    *gates.OPERATIONS,
    *others.OPERATIONS,
    *pages.OPERATIONS,
    Operation("GET", "/openapi.json", openapi, "open", "This interface, described", {200: dict[str, Any]}),
    *submitting.OPERATIONS,
)
DESCRIPTION: Final = document([each for each in OPERATIONS if not each.path.startswith("/static")])


class App:
    """An ASGI app. stop(): end what waits (long polls, live views), so that the server can stop at once."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self.services = services

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    def stop(self) -> None:
        """Answer every long poll with how its run stands, and end every live view. Safe to call again."""
        self.services.closing.set()
        self.services.feeds.stop()


def create_app(
    store: Store,
    *,
    registry: Registry | None = None,
    tokens: Tokens | None = None,
    metrics: Metrics | bool = True,
    cors_origins: Sequence[str] = (),
    secure_cookie: bool = False,
    max_body: int = MAX_BODY,
    answer_seconds: float = ANSWER_SECONDS,
    on_start: Callable[[], Awaitable[None]] | None = None,
    on_stop: Callable[[], Awaitable[None]] | None = None,
) -> App:
    """The HTTP interface and the page of a store, as an ASGI app for any server.

    registry: the workflows whose code this process has; the default one if left out. tokens: who may do what; without
    them it serves requests that name this machine (localhost) only. metrics: False for none. cors_origins: sites whose
    pages may call it with a bearer token; none by default. secure_cookie: mark the page's cookie Secure even where the
    server sees plain HTTP, behind a proxy. max_body: bytes of a request's body. answer_seconds: for an answer, beside
    what it was asked to wait. on_start, on_stop: awaited when the app starts and stops. Who opened the store closes it.
    """
    _check(store, registry, tokens, cors_origins, secure_cookie, max_body, answer_seconds)
    figures = Metrics() if metrics is True else metrics or None
    its = figures is None or isinstance(figures, Metrics)
    expect("create_app: metrics", metrics, its, "Metrics of pyrula.web.metrics, True or False")
    for name, act in (("on_start", on_start), ("on_stop", on_stop)):
        expect(f"create_app: {name}", act, act is None or callable(act), "an async function, or None")
    clock: Clock = store.clock
    closing = asyncio.Event()
    client = WorkflowClient(store, registry)
    feeds = Feeds(store, clock, closing)
    services = Services(
        client=client,
        store=store,
        clock=clock,
        tokens=tokens,
        feeds=feeds,
        closing=closing,
        waits=Waits(store),
        secure=secure_cookie,
        metrics=None if figures is None else lambda: figures.render(store),
        max_body=max_body,
        answer_seconds=answer_seconds,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await store.connect()
        if on_start is not None:
            await on_start()
        yield
        closing.set()
        await feeds.close()
        if on_stop is not None:
            await on_stop()

    middleware = [Middleware(Edge, clock=clock)]
    if cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(cors_origins),
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
                expose_headers=["X-Request-ID", "Location"],
            )
        )
    app = Starlette(
        routes=_routes(services),
        middleware=middleware,
        exception_handlers={HTTPException: _http_problem},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return App(app, services)


def _check(
    store: object,
    registry: object,
    tokens: object,
    cors_origins: object,
    secure_cookie: object,
    max_body: object,
    answer_seconds: object,
) -> None:
    check_store("create_app: store", store)
    check_registry("create_app: registry", registry)
    held = tokens is None or isinstance(tokens, Tokens)
    expect("create_app: tokens", tokens, held, "Tokens of pyrula.web.access, or None")
    sites = isinstance(cors_origins, (list, tuple)) and all(isinstance(each, str) for each in cors_origins)
    expect("create_app: cors_origins", cors_origins, sites, "a list of origins (https://shop.example)")
    for site in cors_origins if isinstance(cors_origins, (list, tuple)) else ():
        right = site == "*" or _ORIGIN.fullmatch(site) is not None
        expect(
            "create_app: cors_origins",
            site,
            right,
            "as browsers send it: scheme://host[:port], no path after it",
        )
    expect("create_app: secure_cookie", secure_cookie, isinstance(secure_cookie, bool), "True or False")
    expect("create_app: max_body", max_body, whole(max_body, 1), "bytes, 1 or more")
    seconds = isinstance(answer_seconds, (int, float)) and finite(answer_seconds) and answer_seconds > 0
    expect("create_app: answer_seconds", answer_seconds, seconds, "seconds, above 0")


def _routes(services: Services) -> list[Route]:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [
        Route(path, _endpoint(methods, services), methods=list(methods)) for path, methods in by_path.items()
    ]


def _endpoint(methods: dict[str, Operation], services: Services) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        return await serve(operation, services, request)

    return endpoint


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    request_id = str(request.scope.get("pyrula.request_id", ""))
    if error.status_code == 405:
        allow = (error.headers or {}).get("Allow", "")
        detail = f"{request.method} is not served here; this address takes {allow}"
        return problem_response(Problem("method_not_allowed", detail, {"Allow": allow}), request_id)
    return problem_response(
        Problem("not_found", "there is nothing at this address; /openapi.json lists what there is"),
        request_id,
    )

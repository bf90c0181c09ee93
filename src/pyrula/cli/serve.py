"""`serve`: the HTTP interface and the page of a store; with --worker, a worker in the same process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pyrula.cli.connect import AsJson, StoreUrl, imported, opened, run
from pyrula.cli.observing import Otel, need, observing
from pyrula.cli.output import say, show
from pyrula.errors import ConfigurationError
from pyrula.limiters import hub
from pyrula.store.protocol import Store
from pyrula.telemetry.logs import log_limiter, log_to
from pyrula.workflows.body.port import Tracer
from pyrula.workflows.worker import Worker
from pyrula.workflows.workflow import Registry

_GRACE: Final = 10
"""Seconds that answers under way get to end, once told to stop; whatever waits is answered at once."""

log = logging.getLogger("pyrula.http")
logging.getLogger("uvicorn.error").setLevel(
    logging.WARNING
)  # its milestones: `serving` and `request` say more


def serve(
    app: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE[:REGISTRY]]", envvar="PYRULA_APP", help="Where the workflows are declared."
        ),
    ] = None,
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that others reach needs --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8787,
    token_file: Annotated[
        Path | None,
        typer.Option(envvar="PYRULA_TOKEN_FILE", help="Lines of `name access token`; read anew on SIGHUP."),
    ] = None,
    worker: Annotated[bool, typer.Option("--worker", help="Run a worker in this process, too.")] = False,
    max_concurrent_runs: Annotated[int, typer.Option(min=1, help="Bodies at once, of the worker.")] = 100,
    cors_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may call with a bearer token.")
    ] = None,
    secure_cookie: Annotated[
        bool, typer.Option("--secure-cookie", help="Behind a proxy that speaks HTTPS.")
    ] = False,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that bodies get to end, once told to stop.")
    ] = 25,
    otel: Otel = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log JSON lines.")] = False,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Serve HTTP and the page (/ui) until SIGTERM or SIGINT: waits are answered at once, bodies get the grace."""
    need("serve", "http", "starlette", "uvicorn")
    if otel:
        need("serve --otel", "otel", "opentelemetry.trace")
    from pyrula.web.access import Tokens, is_loopback

    if token_file is None and not is_loopback(host):
        raise ConfigurationError(
            f"serve: --host {host} can be reached by other machines and there is no --token-file; write one "
            "(a line a token: name, access, token), or listen on 127.0.0.1"
        )
    with contextlib.ExitStack() as stack:
        stop_logs = log_to(as_json=log_json)  # before the import: what sets up logs there finds them set up
        stack.callback(stop_logs)
        stack.callback(hub.listen(log_limiter))
        registry = imported(app) if app else None
        if worker and registry is None:
            raise ConfigurationError(
                "serve: --worker needs MODULE[:REGISTRY], which declares what it is to run"
            )
        options: dict[str, Any] = {
            "tokens": None if token_file is None else Tokens(token_file),
            "registry": registry,
            "cors_origins": tuple(cors_origin or ()),
            "secure_cookie": secure_cookie,
        }
        bodies = max_concurrent_runs if worker else None

        def tell(url: str) -> None:
            if as_json:
                show({"url": url, "pid": os.getpid()}, as_json, lambda _: None)
            else:
                say(f"serving {url}", log if log_json else None)

        run(_serve(store, host, port, options, bodies, grace, otel, tell))


async def _serve(
    url: str | None,
    host: str,
    port: int,
    options: dict[str, Any],
    bodies: int | None,
    grace: float,
    otel: bool,
    tell: Callable[[str], None],
) -> None:
    from pyrula.web.app import create_app
    from pyrula.web.metrics import Metrics

    async with opened(url, create=bodies is not None) as plain, observing(plain, otel=otel) as it:
        app = create_app(it.store, metrics=Metrics(it.counts), **options)
        server = _server(app, host, port, tell)
        tokens = options["tokens"]
        with _signals(server, tokens):
            async with contextlib.AsyncExitStack() as stack:
                if bodies is not None:
                    working = await stack.enter_async_context(
                        _working(it.store, options["registry"], bodies, grace, it.tracer)
                    )
                    working.add_done_callback(lambda _: setattr(server, "should_exit", True))
                await server.serve()


def _server(app: Any, host: str, port: int, tell: Callable[[str], None]) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        """Tells the app to answer what waits before it waits for the answers."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # `_signals` listens: a worker beside the server has to hear them, too

        async def startup(self, sockets: Any = None) -> None:
            try:
                await super().startup(sockets)
            except SystemExit as left:  # uvicorn's way out where it can't listen; its log has the same words
                raise ConfigurationError(
                    f"serve: can't listen on {host}, port {port}: {left.__context__}; give another --port (0 takes a "
                    "free one), or another --host"
                ) from None
            for each in self.servers:
                for sock in each.sockets:
                    name, number = sock.getsockname()[:2]
                    shown = f"[{name}]" if ":" in name else name
                    tell(f"http://{shown}:{number}/ui")

        async def shutdown(self, sockets: Any = None) -> None:
            app.stop()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_GRACE,
        backlog=2048,
    )
    return Server(config)


@contextlib.contextmanager
def _signals(server: Any, tokens: Any) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.force_exit = server.should_exit  # asked twice: at once
        server.should_exit = True

    def reload() -> None:
        try:
            log.info("token file read: %d tokens", tokens.reload())
        except ConfigurationError as error:
            log.error("token file not read, the old tokens hold: %s", error)

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop}
    if tokens is not None:
        handlers[signal.SIGHUP] = reload
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _working(store: Store, registry: Registry, bodies: int, grace: float, tracer: Tracer | None) -> Any:
    """A worker for as long as the block lasts; then its bodies get the grace."""
    made = Worker(store, registry, max_concurrent_runs=bodies, tracer=tracer)
    working = asyncio.ensure_future(made.run())
    try:
        yield working
    finally:
        await made.stop(grace)
        await working

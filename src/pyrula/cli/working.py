"""`worker`: a process that works on a store until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from pyrula.cli.connect import AsJson, StoreUrl, given_store, imported, opened, run
from pyrula.cli.observing import Otel, need, observing
from pyrula.cli.output import console, say, show
from pyrula.cli.supervising import Command, Supervised, Supervisor
from pyrula.limiters import hub
from pyrula.store.open import in_memory
from pyrula.store.protocol import Store
from pyrula.telemetry.logs import log_limiter, log_to
from pyrula.workflows.worker import Worker
from pyrula.workflows.workflow import Registry

_log = logging.getLogger("pyrula.worker")
_STUCK = 70
"""Exit code of a worker that gave up a thread it could not stop (EX_SOFTWARE): its supervisor starts it
anew.
"""
_MOST_PROCESSES = 512
"""More than the cores of one machine; a slip of the hand (a number of runs, say) would start processes without end."""
_LAST_WORDS_SECONDS = 2.0
"""What may be said on the way out is said within these, or not at all."""
_YOUNG = 50_000
"""Objects made beyond those that went before the collector looks: more than belong to a few hundred runs under way."""


def worker(
    app: Annotated[
        str,
        typer.Argument(
            metavar="MODULE[:REGISTRY]", envvar="PYRULA_APP", help="Where the workflows are declared."
        ),
    ],
    *,
    processes: Annotated[
        int, typer.Option(min=1, max=_MOST_PROCESSES, help="So many processes, started anew when they die.")
    ] = 1,
    worker_id: Annotated[
        str | None, typer.Option(help="Its name; default: host and process. Of several: NAME-1, NAME-2, …")
    ] = None,
    max_concurrent_runs: Annotated[int, typer.Option(min=1, help="Bodies at once, in each process.")] = 100,
    lease_seconds: Annotated[
        float, typer.Option(help="How long a run stays its own once its heartbeat stops.")
    ] = 30,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that bodies get to end, once told to stop.")
    ] = 25,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log JSON lines.")] = False,
    otel: Otel = False,
    supervisor: Annotated[int | None, typer.Option(hidden=True)] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Run workflows until SIGTERM or SIGINT: then stop claiming, give bodies the grace, hand back the rest.

    A second signal hands back at once.
    """
    if otel:
        need("worker --otel", "otel", "opentelemetry.trace")
    if processes > 1:
        flags = [("--log-json", log_json), ("--json", as_json), ("--otel", otel)]
        given = [flag for flag, on in flags if on]
        command = _alone(store, app, worker_id, max_concurrent_runs, lease_seconds, grace, given)
        raise typer.Exit(_supervise(command, processes, grace, log_json))
    with contextlib.ExitStack() as stack:
        stop_logs = log_to(as_json=log_json)  # before the import: what sets up logs there finds them set up
        stack.callback(stop_logs)
        stack.callback(hub.listen(log_limiter))
        registry = imported(app)
        spare_collector()
        options: dict[str, Any] = {
            "worker_id": worker_id,
            "max_concurrent_runs": max_concurrent_runs,
            "lease_seconds": lease_seconds,
            "on_stuck": lambda reason: _end_process(reason, stop_logs),
        }
        supervised = None if supervisor is None else Supervised(supervisor)
        run(_work(store, registry, grace, as_json, _log if log_json else None, supervised, otel, options))


async def _work(
    store: str | None,
    registry: Registry,
    grace: float,
    as_json: bool,
    log: logging.Logger | None,
    supervised: Supervised | None,
    otel: bool,
    options: dict[str, Any],
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        it: Store = await stack.enter_async_context(opened(store, create=True))
        tracer = None
        if otel:
            it, _, tracer = await stack.enter_async_context(observing(it, otel=True))
        made = Worker(it, registry, tracer=tracer, **options)
        stops: list[asyncio.Task[None]] = []

        def stop(name: str, hasten: bool) -> None:
            if stops and not hasten:
                return
            seconds = 0 if stops else grace
            say(f"{name}: stopping, bodies have {seconds:g} s", log)
            stops.append(asyncio.ensure_future(made.stop(seconds)))

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number.name, supervised is None)
        names = sorted(each.name for each in registry)
        told = {"worker_id": made.worker_id, "pid": os.getpid(), "workflows": names}
        text = f"worker {made.worker_id} serves {', '.join(names)}"
        if log is not None and not as_json:
            say(text, log)
        else:
            show(told, as_json, lambda out: out.print(text, markup=False))
        if supervised is not None:
            supervised.up(stop)
        await made.run()
        await asyncio.gather(*stops)


def _supervise(command: Command, processes: int, grace: float, log_json: bool) -> int:
    stop_logs = log_to(as_json=log_json)
    try:
        return run(Supervisor(command, processes, grace, _log if log_json else None).run())
    finally:
        stop_logs()


def _alone(
    store: str | None,
    app: str,
    worker_id: str | None,
    max_concurrent_runs: int,
    lease_seconds: float,
    grace: float,
    flags: Sequence[str],
) -> Command:
    """The command line of one of several processes. What may hold a password is left to the environment."""
    where = given_store(store)
    if in_memory(where):
        raise typer.BadParameter(
            f"{where} lives in one process's memory; several share a file (sqlite:///runs.db) or PostgreSQL",
            param_hint="--processes",
        )
    os.environ["PYRULA_STORE"] = where
    options: dict[str, object] = {
        "--max-concurrent-runs": max_concurrent_runs,
        "--lease-seconds": lease_seconds,
        "--grace": grace,
    }

    def command(number: int, line: int) -> list[str]:
        given = options | {"--supervisor": line}
        if worker_id is not None:
            given["--worker-id"] = f"{worker_id}-{number}"
        return ["worker", app, *flags, *(f"{name}={value}" for name, value in given.items())]

    return command


def spare_collector() -> None:
    """Have the garbage collector leave alone what was imported, and look seldom at what comes after: for a process
    that is a worker and nothing else.

    Some dozens of objects belong to each run under way, and all of them go when it ends, without the collector: by
    its usual threshold, 700, it would walk them again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 20)


def _end_process(reason: str, stop_logs: Callable[[], None]) -> None:
    """A body's thread goes on and its lease can't be kept: only the end of the process stops it."""
    try:
        last_words = threading.Thread(target=_say_why, args=(reason, stop_logs), daemon=True)
        last_words.start()
        last_words.join(_LAST_WORDS_SECONDS)  # and no longer: it may write to what nobody reads
    finally:
        os._exit(_STUCK)


def _say_why(reason: str, stop_logs: Callable[[], None]) -> None:
    try:
        stop_logs()  # what waits to be written says how it came to this
    finally:
        console(stderr=True).print(f"ending the process: {reason}", markup=False, style="red")

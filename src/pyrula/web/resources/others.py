"""`/workers`, `/workflows`, `/buffers`, `/schedules`, `/stats`, and what a load balancer asks."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.responses import Response

from pyrula.web import wire
from pyrula.web.call import Call, Operation, looks, steers
from pyrula.web.problems import Problem

_READY_SECONDS: Final = 1.0
"""As long as a probe usually waits: an answer that comes later is none."""


async def workers(call: Call) -> wire.Listing:
    """Workers, and what they say of themselves."""
    return wire.Listing(items=await call.services.store.workers())


async def workflows(call: Call) -> wire.Listing:
    """What workers have registered."""
    return wire.Listing(items=await call.services.store.workflows())


async def restamp(call: Call) -> wire.Done:
    """Give queued runs the current declaration."""
    name = call.path["workflow"]
    count = await call.client.restamp(name)
    call.audit("restamp", workflow=name, count=count)
    return wire.Done(count=count)


async def buffers(call: Call) -> wire.Listing:
    """Buffers of events that have not fired, the one due first first."""
    query = call.query
    at, limit = int(query["cursor"] or 0), query["limit"]
    found = await call.services.store.buffer_page(query["workflow"], query["search"], limit + 1, at)
    return wire.Listing(items=found[:limit], cursor=str(at + limit) if len(found) > limit else None)


async def flush(call: Call) -> wire.Triggered:
    """Fire a buffer now."""
    name, key = call.path["workflow"], call.body.key
    run_id = await call.client.flush(name, key)
    call.audit("flush", workflow=name, key=key, run_id=run_id)
    return wire.Triggered(run_id=run_id)


async def schedules(call: Call) -> wire.Listing:
    """Schedules, with their next ticks."""
    return wire.Listing(items=await call.services.store.schedules())


async def stats(call: Call) -> dict[str, Any]:
    """What runs, what waits, and for what."""
    return await call.services.feeds.overview()


async def healthz(call: Call) -> wire.Health:
    """The process answers."""
    return wire.Health()


async def readyz(call: Call) -> wire.Health:
    """The store answers, and the server is not about to stop."""
    if call.services.closing.is_set():
        raise Problem("store_unavailable", "the server is stopping")
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await call.services.store.now()
    except TimeoutError:
        raise Problem(
            "store_unavailable", f"the store has not answered within {_READY_SECONDS:g} s"
        ) from None
    return wire.Health()


async def metrics(call: Call) -> Response:
    """For Prometheus."""
    if call.services.metrics is None:
        raise Problem("not_found", "this server was made without metrics")
    return Response(await call.services.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")


OPERATIONS: Final[tuple[Operation, ...]] = (
    looks("/workers", workers, "Workers", wire.Listing),
    looks("/workflows", workflows, "Workflows that workers have registered", wire.Listing),
    steers(
        "/workflows/{workflow}/restamp",
        restamp,
        "Give its queued runs the current declaration",
        wire.Done,
        wire.Nothing,
        "workflow_not_found",
        "key_needs_code",
        "key_failed",
    ),
    looks(
        "/buffers",
        buffers,
        "Buffers of events",
        wire.Listing,
        wire.Query(name="workflow", about="of this workflow", most=200),
        wire.Query(name="search", about="whose key holds this", most=200),
        wire.LIMIT,
        wire.CURSOR,
    ),
    steers(
        "/buffers/{workflow}/flush",
        flush,
        "Fire a buffer now",
        wire.Triggered,
        wire.Flush,
        "workflow_not_found",
        "invalid_payload",
        "configuration",
    ),
    looks("/schedules", schedules, "Schedules", wire.Listing),
    looks("/stats", stats, "What runs, what waits, and for what", dict[str, Any]),
    looks("/healthz", healthz, "The process answers", wire.Health, right="open"),
    looks("/readyz", readyz, "The store answers", wire.Health, right="open"),
    Operation("GET", "/metrics", metrics, "read", "Figures for Prometheus", {200: str}, media="text/plain"),
)

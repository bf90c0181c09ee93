"""`/gates` and `/overrides`: what is counted, who waits, and an operator's hand on it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pyrula.errors import GateNotFound, shown
from pyrula.store.protocol import Store
from pyrula.web import wire
from pyrula.web.call import Call, Operation, looks, steers
from pyrula.web.problems import Problem
from pyrula.workflows.prepare import stored_key

SORTS: Final = ("name", "queued", "busy")
DEEPEST: Final = 2000
"""So far down do pages in another order than that of names go: nobody reads on, and somebody has to sort."""


async def listing(call: Call) -> wire.GateList:
    """Counters in use, a page at a time."""
    return await page(call.services.store, **call.query)


async def page(
    store: Store, *, name: str | None, search: str | None, sort: str, limit: int, cursor: str | None
) -> wire.GateList:
    """A page of gates. Raises `Problem` behind the last one: but for the order of names, which an index has, a page
    costs all those before it."""
    at, deepest = int(cursor or 0), DEEPEST if search or sort != "name" else None
    if deepest is not None and at >= deepest:
        raise Problem(
            "bad_request", f"?cursor= is {at}; this order goes down to {deepest}: search, or use ?sort=name"
        )
    found = await store.gate_page(name, search, sort, limit + 1, at)
    more = len(found) > limit
    on = more and (deepest is None or at + limit < deepest)
    return wire.GateList(items=found[:limit], cursor=str(at + limit) if on else None, cut=more and not on)


async def one(call: Call) -> wire.GateDetail:
    """One key's counter, with who holds it and who waits."""
    return await detail(call.services.store, call.path["gate"], call.query["key"])


async def detail(store: Store, name: str, key: str) -> wire.GateDetail:
    """The same, by name and key. Raises `GateNotFound`."""
    stored = stored_key(key) or ""
    found = await store.gate(name, stored)
    if found is None:
        raise GateNotFound(
            f"gate {shown(name)} has no counter for key {shown(key)}: no worker has looked at a run of it"
        )
    holders, waiters = await store.line(name, stored, 50)
    return wire.GateDetail(
        gate=found,
        holders=[wire.Waiter(**each) for each in holders],
        waiters=[wire.Waiter(**each) for each in waiters],
    )


async def override(call: Call) -> wire.Done:
    """Put a number in the place of the stamped one."""
    gate, body = call.path["gate"], call.body
    if body.max is not None:
        if body.per_second is not None or body.burst is not None:
            raise Problem(
                "invalid_payload", "body: max is a limit's, per_second and burst a rate's; give one of them"
            )
        await call.client.override_limit(gate, body.key, max=body.max, expires_in=body.expires_in)
    elif body.per_second is not None:
        await call.client.override_rate(
            gate, body.key, per_second=body.per_second, burst=body.burst, expires_in=body.expires_in
        )
    else:
        raise Problem("invalid_payload", "body: give max for a limit, or per_second (and burst) for a rate")
    call.audit(
        "override",
        gate=gate,
        key=body.key,
        max=body.max,
        per_second=body.per_second,
        burst=body.burst,
        expires_in=body.expires_in,
    )
    return wire.Done()


async def remove_override(call: Call) -> wire.Done:
    """Go back to what is stamped."""
    gate, key = call.path["gate"], call.query["key"]
    await call.services.store.override(gate, stored_key(key), None, None)
    call.audit("remove_override", gate=gate, key=key)
    return wire.Done()


async def pause(call: Call) -> wire.Done:
    """Start nothing through it."""
    gate, body = call.path["gate"], call.body
    if body.seconds is not None and body.until is not None:
        raise Problem("invalid_payload", "body: seconds and until are both given; give one of them")
    until: float | datetime | None = body.seconds if body.until is None else body.until
    await call.client.pause(gate, body.key, until)
    call.audit("pause", gate=gate, key=body.key, until=None if until is None else str(until))
    return wire.Done()


async def resume(call: Call) -> wire.Done:
    """End a pause."""
    gate, key = call.path["gate"], call.body.key
    await call.client.resume(gate, key)
    call.audit("resume", gate=gate, key=key)
    return wire.Done()


async def overrides(call: Call) -> wire.Listing:
    """Every override and pause in force."""
    return wire.Listing(items=await call.services.store.overrides())


_KEY: Final = wire.Query(name="key", about="of which key; left out: of all of them")
_STEERING: Final = ("gate_not_found", "configuration", "invalid_payload")

OPERATIONS: Final[tuple[Operation, ...]] = (
    looks(
        "/gates",
        listing,
        "Counters in use",
        wire.GateList,
        wire.Query(name="name", about="of the gate of this name"),
        wire.Query(name="search", about="whose name or key holds this", most=200),
        wire.Query(
            name="sort",
            about="by name and key; most queued runs first; most executing first",
            default="name",
            choices=SORTS,
        ),
        wire.LIMIT,
        wire.CURSOR,
    ),
    looks(
        "/gates/{gate}",
        one,
        "One key's counter, who holds it and who waits",
        wire.GateDetail,
        wire.Query(name="key", about="its key", default=""),
        problems=("gate_not_found",),
    ),
    steers(
        "/gates/{gate}/override",
        override,
        "Have another number hold, for one key or all",
        wire.Done,
        wire.Override,
        *_STEERING,
    ),
    Operation(
        "DELETE",
        "/gates/{gate}/override",
        remove_override,
        "full",
        "Take an override back",
        {200: wire.Done},
        (_KEY,),
        problems=_STEERING,
    ),
    steers("/gates/{gate}/pause", pause, "Start nothing through it", wire.Done, wire.Pause, *_STEERING),
    steers("/gates/{gate}/resume", resume, "End a pause", wire.Done, wire.Target, *_STEERING),
    looks("/overrides", overrides, "Overrides and pauses in force", wire.Listing),
)

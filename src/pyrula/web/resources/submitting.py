"""`POST /{name}` and `POST /{name}/events`: policies are stamped as the client stamps them. (Seed: flow-control.)"""

from __future__ import annotations

from typing import Final

from pyrula.model.duration import LONGEST, SECOND
from pyrula.web import wire
from pyrula.web.call import Answer, Call, Operation
from pyrula.web.problems import Problem
from pyrula.workflows.workflow import ROUTES

_REFUSALS: Final = (
    "workflow_not_found",
    "run_id_conflict",
    "invalid_params",
    "invalid_payload",
    "key_failed",
    "key_needs_code",
    "configuration",
)
_LONGEST: Final = LONGEST / SECOND
_OPTIONS: Final = (
    wire.Query(
        name="priority", kind="int", about="1 (first) to 5, in place of the declared one", least=1, most=5
    ),
    wire.Query(name="delay", kind="number", about="seconds until it may start", least=0, most=_LONGEST),
    wire.Query(
        name="expires_in",
        kind="number",
        about="drop it if it has not started within these seconds",
        least=0.000001,
        most=_LONGEST,
    ),
)


async def submit(call: Call) -> Answer:
    """Submit a run; its body is the params."""
    name = _workflow(call)
    key = _key(call)
    run_id = await call.client.submit(
        name,
        call.body,
        run_id=None if key is None else f"{name}:{key}",
        priority=call.query["priority"],
        delay=call.query["delay"],
        expires_in=call.query["expires_in"],
    )
    mounted = call.request.scope.get("root_path", "")  # where another app has this one, or a proxy says it is
    return Answer(wire.Accepted(run_id=run_id), 202, {"Location": f"{mounted}/runs/{wire.quoted(run_id)}"})


async def trigger(call: Call) -> Answer:
    """Buffer an event; its body is the event."""
    run_id = await call.client.trigger(_workflow(call), call.body, event_id=_key(call))
    return Answer(wire.Triggered(run_id=run_id), 202)


def _workflow(call: Call) -> str:
    name = call.path["name"]
    if name in ROUTES:  # `/runs` and the like take no POST; no workflow can have such a name
        raise Problem("method_not_allowed", f"/{name} does not take POST", {"Allow": "GET"})
    return name


def _key(call: Call) -> str | None:
    """The Idempotency-Key header, plain or in quotes; it may be any printable text, as UTF-8."""
    given = call.request.headers.get("idempotency-key")
    if given is None:
        return None
    try:
        text = given.encode("latin-1").decode()
    except UnicodeError:
        raise Problem("bad_request", "Idempotency-Key is not UTF-8") from None
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if not text:
        raise Problem(
            "bad_request", "Idempotency-Key is empty; leave the header out, or give each request its own"
        )
    return text


_KEY_HEADER: Final = (
    ("Idempotency-Key", "the same key with the same body is one run (its id is `name:key`), or one event"),
)

OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        "POST",
        "/{name}",
        submit,
        "submit",
        "Submit a run of the workflow; the body is its params",
        {202: wire.Accepted},
        _OPTIONS,
        dict,
        _REFUSALS,
        headers=_KEY_HEADER,
    ),
    Operation(
        "POST",
        "/{name}/events",
        trigger,
        "submit",
        "Send the workflow's trigger an event; the body is the event",
        {202: wire.Triggered},
        (),
        dict,
        _REFUSALS,
        headers=_KEY_HEADER,
    ),
)

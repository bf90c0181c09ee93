"""A step: run it until it succeeds or may not be tried again, and log what came of it, once."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyrula import ids
from pyrula.clock import SECOND
from pyrula.errors import InvalidPayload
from pyrula.model.payload import encode
from pyrula.model.step import Entry, pauses
from pyrula.policies.retry import RetryStamp
from pyrula.workflows.body.call import Call
from pyrula.workflows.body.ending import error_value, is_final
from pyrula.workflows.body.place import PLACE, BodyClosed, Inside
from pyrula.workflows.retry_after import RetryAfter

if TYPE_CHECKING:
    from pyrula.workflows.body.body import Body

LONGEST_PAUSE: Final = SECOND
"""µs of back-off that a step waits out in its place; for a longer one its branch waits as in a sleep."""


class Work(NamedTuple):
    """What a step does. retry: how often; timeout: µs of one try, or None."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    retry: RetryStamp
    timeout: int | None


def name_of(fn: Callable[..., Any]) -> str:
    """What a step is called unless it is told: its function's name."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return str(getattr(fn, "__name__", None) or type(fn).__name__)


async def run_step(body: Body, name: str, work: Work) -> Any:
    """The step's result, from the log if it is there. Raises `StepFailed` with what it failed of."""
    call, entry = body.ask("step", name)
    try:
        tries = _pass_over_pauses(body, call, entry is not None)
        if entry is None:
            if tries:
                await _pause(body, call, tries, 0)  # in the log: it is told when its turn comes
            await body.teller.frontier(call)
            call.branch.call = call
            place = PLACE.set(Inside(body, name, step_id(body, call)))
            try:
                await body.record([await _settle(body, call, work, tries)])
            finally:
                PLACE.reset(place)
        return await body.teller.told(call)
    finally:
        call.branch.call = None


def step_id(body: Body, call: Call) -> str:
    """The same for every try of this step, and for no other: an idempotency key."""
    branch, number = call.key
    return f"{body.claim.run_id}/{branch}:{number}"


async def _settle(body: Body, call: Call, work: Work, tries: int) -> Entry:
    """The step's entry, after as many tries as its retry policy allows. tries: those made in earlier
    lives."""
    while True:
        tries += 1
        try:
            value = await _try(body, call, work)
        except RetryAfter:
            raise
        except (Exception, SystemExit) as error:  # sys.exit() in a step ends the step, not the worker
            if body.closing:  # the step turned its cancellation into an error of its own
                raise BodyClosed(f"run {body.claim.run_id} has ended") from error
            if is_final(error) or not work.retry.allows(tries):
                call.cause = error
                return Entry(*call.key, "step", call.name, "error", error_value(error))
            delay = work.retry.delay_us(tries, ids.chance())
        else:
            return _done(call, value)
        if delay <= LONGEST_PAUSE:
            await body.port.clock.sleep(delay)
        else:
            await _pause(body, call, tries, delay)


def _done(call: Call, value: object) -> Entry:
    try:
        data = b"null" if value is None else encode(value, f"result of step {call.name!r}", None)
    except InvalidPayload as error:  # no retry: it would do the work again for the same answer
        call.cause = error
        return Entry(*call.key, "step", call.name, "error", error_value(error))
    return Entry(*call.key, "step", call.name, "done", data)


async def _try(body: Body, call: Call, work: Work) -> Any:
    tracer = body.port.tracer
    span = None if tracer is None else tracer.step(body.claim, call.name)
    if span is None:
        return await _once(body, work)
    with span:
        return await _once(body, work)


async def _once(body: Body, work: Work) -> Any:
    body.port.step_began()
    try:
        if _is_async(work.fn):
            return await _within(body, work.timeout, work.fn(*work.args, **work.kwargs), stoppable=True)
        made = await _within(body, work.timeout, _in_thread(body, work), stoppable=False)
        # A lambda around a coroutine function is no coroutine function itself.
        return await _within(body, work.timeout, made, stoppable=True) if inspect.isawaitable(made) else made
    finally:
        body.port.step_ended()


def _is_async(fn: Callable[..., Any]) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004 - asks for the kind of its __call__


async def _within(body: Body, timeout: int | None, doing: Awaitable[Any], *, stoppable: bool) -> Any:
    """What `doing` answers. Raises TimeoutError after `timeout` µs; if it can't be stopped, once it has
    ended."""
    if timeout is None:
        return await doing
    expired = False
    asker = asyncio.current_task()
    assert asker is not None
    cancelling = asker.cancelling()

    def expire() -> None:
        nonlocal expired
        expired = True
        if stoppable and asker is not None:
            asker.cancel()

    watch = body.after(timeout, expire)
    try:
        value = await doing
    except asyncio.CancelledError:
        if not (expired and stoppable and asker.uncancel() <= cancelling and not body.closing):
            raise
    else:
        if not expired:
            return value
        if stoppable:
            asker.uncancel()
    finally:
        watch.cancel()
        asker = None  # what is raised keeps this frame, and the task what is raised
    raise TimeoutError(f"not over within {timeout / SECOND:g} s")


async def _in_thread(body: Body, work: Work) -> Any:
    """Run a plain function in a thread. The run keeps its slot until the thread has ended, wanted or not."""
    context = contextvars.copy_context()
    thread = body.port.thread(lambda: context.run(_called, work))
    body.threads += 1
    wanted = asyncio.wrap_future(thread)  # told first: the thread counts until its answer is on its way
    loop = body.loop

    def over(_: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(body.thread_over, context=contextvars.Context())

    thread.add_done_callback(over)
    return await wanted


def _called(work: Work) -> Any:
    try:
        return work.fn(*work.args, **work.kwargs)
    except StopIteration as error:  # a future can't carry it
        raise RuntimeError("the step raised StopIteration") from error


# -- pauses between tries: sleeps in a branch of the step's own, numbered by the tries
# made


def _pass_over_pauses(body: Body, call: Call, settled: bool) -> int:
    """The tries that the log knows of. Pauses that are over for good are nobody's any more."""
    tries = body.teller.log.last_number(pauses(call.key))
    if tries < 0:
        return 0
    for number in range(1, tries + 1 if settled else tries):
        body.teller.call(call.branch, (pauses(call.key), number), "sleep", call.name).abandoned = True
    call.branch.call = call
    if settled:
        body.teller.poke()
    return tries


async def _pause(body: Body, call: Call, tries: int, delay: int) -> None:
    """Back off before the next try as a sleep does: the run parks if its other branches wait too."""
    key = (pauses(call.key), tries)
    pause = body.teller.call(call.branch, key, "sleep", call.name)
    entry = body.teller.log.get(*key)
    pause.stored = entry is not None
    due = body.port.now(body.claim.lease.shard) + delay
    pause.wait = entry or Entry(*key, "sleep", call.name, "waiting", None, due)
    await body.teller.told(pause)
    call.branch.call = call

"""ctx: what a body is given as its first argument."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, Unpack, cast, overload
from uuid import UUID

import msgspec

from pyrula.errors import ConfigurationError, InvalidPayload, shown
from pyrula.model.duration import Duration, positive_us, to_us
from pyrula.model.payload import decode
from pyrula.policies.retry import NO_RETRY, Retry
from pyrula.workflows.body.children import SubmitOptions, run_child, start_child
from pyrula.workflows.body.place import PLACE, Inside
from pyrula.workflows.body.steps import Work, name_of, run_step
from pyrula.workflows.named import A, Named
from pyrula.workflows.prepare import named

if TYPE_CHECKING:
    from pyrula.workflows.body.body import Body

P = ParamSpec("P")
R = TypeVar("R")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_logger = logging.getLogger("pyrula.run")


class Context:
    """What a body asks for, so that a replay gives the same answers.

    A body is run again from its first line whenever it goes on after a wait, a retry or a crash; what its
    context has answered before comes from the log. So whatever has an effect, or may answer differently the
    next time, belongs into `step`. Waits (`sleep`, `wait_for_event`, `run_child`) give the run's slot back
    once every branch of it waits.
    """

    __slots__ = ("_body", "_log", "_params")

    def __init__(self, body: Body) -> None:
        self._body = body
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._params: dict[str, Any] | None = None

    # -- what is known

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._body.claim.run_id

    @property
    def workflow(self) -> str:
        """The name of its workflow."""
        return self._body.claim.workflow

    @property
    def attempt(self) -> int:
        """1, and one more for each attempt that failed before."""
        return self._body.claim.attempt

    @property
    def claimed_at(self) -> datetime:
        """When the run was handed out, this time: the store's time, as an aware datetime in UTC."""
        return _EPOCH + timedelta(microseconds=self._body.claim.claimed_at)

    @property
    def claimed_at_us(self) -> int:
        """`claimed_at` as microseconds since 1970, of the store's clock."""
        return self._body.claim.claimed_at

    @property
    def params(self) -> dict[str, Any]:
        """The params as submitted, before they were converted to the body's annotations."""
        if self._params is None:
            self._params = decode(self._body.claim.params)
        return self._params

    @property
    def step_id(self) -> str:
        """Inside a step: a text that is the same for every try of it, and no other step's; an idempotency
        key.

        Raises RuntimeError outside.
        """
        place = PLACE.get()
        if type(place) is not Inside or place.body is not self._body:
            raise RuntimeError(
                "ctx.step_id is known inside a step only: read it in the function given to ctx.step"
            )
        return place.step_id

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger (`pyrula.run`) that knows the run, and is silent while the log is replayed."""
        if self._log is None:
            self._log = _RunLog(self._body)
        return self._log

    # -- steps

    @overload
    async def step(
        self,
        fn: Callable[..., Awaitable[R]],
        *args: Any,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        **kwargs: Any,
    ) -> R: ...

    @overload
    async def step(
        self,
        fn: Callable[..., R],
        *args: Any,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        **kwargs: Any,
    ) -> R: ...

    async def step(
        self,
        fn: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run `fn(*args, **kwargs)` and log its result: at least once, and once logged never again.

        fn: async, or a plain function, which runs in a thread. name: default the function's. retry: tries
        again within the attempt; back-offs of up to 1 s keep the slot, longer ones wait as `sleep` does.
        timeout: seconds or a timedelta of one try; a plain function can't be stopped, so it times out when it
        has ended. The result must be JSON. Raises `StepFailed` (live with its cause, replayed without) if the
        last try raised; `RetryAfter` passes.
        """
        _check_callable(fn)
        stamp = NO_RETRY if retry is None else _retry(self.workflow, retry)
        limit = None if timeout is None else _duration("ctx.step: timeout", timeout, positive_us)
        if name is None:
            name = name_of(fn)
        elif name == "":
            raise InvalidPayload("ctx.step: the name is ''; leave name= out for the function's own")
        return await run_step(self._body, name, Work(fn, args, kwargs, stamp, limit))

    # -- waits

    async def sleep(self, seconds: Duration) -> None:
        """Wait for `seconds` (or a timedelta) of the store's time, whatever happens to workers meanwhile."""
        body = self._body
        duration = max(0, _duration("ctx.sleep: seconds", seconds, to_us))
        await body.wait("sleep", "sleep", duration)

    async def wait_for_event(self, name: str, timeout: Duration | None = None) -> Any:
        """The payload of the next event of that name sent to this run; one that was sent before is kept.

        timeout: seconds or a timedelta; raises TimeoutError after it.
        """
        limit = None if timeout is None else max(0, _duration("ctx.wait_for_event: timeout", timeout, to_us))
        return await self._body.wait("event", named("ctx.wait_for_event: the name", name), limit)

    async def run_child(
        self,
        workflow: Named[A],
        params: Mapping[str, Any] | None = None,
        **submit_options: Unpack[SubmitOptions],
    ) -> A:
        """Submit a run and wait for its result. workflow: a workflow, or its name. submit_options: run_id,
        priority, delay, run_at, expires_in, as for a client.

        Raises what the child ended with: `RunFailed`, `RunCancelled`, `RunExpired`; `SlotDeadlock` if it
        would wait for ever for a slot that this run holds; and whatever a submit raises.
        """
        answer: A = await run_child(self._body, workflow, params, {**submit_options})
        return answer

    async def start_child(
        self,
        workflow: Named[Any],
        params: Mapping[str, Any] | None = None,
        **submit_options: Unpack[SubmitOptions],
    ) -> str:
        """Submit a run and answer its id; else as `run_child`. A cancel of this run cancels it too. Raises
        what a submit raises.
        """
        return await start_child(self._body, workflow, params, {**submit_options})

    # -- answers on the spot

    def now(self) -> datetime:
        """The store's time, as an aware datetime in UTC; a replay sees the time it first saw."""
        body = self._body
        us = decode(body.answered("now", "now", msgspec.json.encode(body.port.now(body.claim.lease.shard))))
        return _EPOCH + timedelta(microseconds=us)

    def random(self) -> float:
        """A number in [0, 1); a replay draws the same. Not for secrets: it is derived from the run's id."""
        return (int.from_bytes(self._draw()[:8], "big") >> 11) / (1 << 53)

    def uuid4(self) -> UUID:
        """A UUID; a replay draws the same. Not for secrets: it is derived from the run's id."""
        return UUID(bytes=self._draw(), version=4)

    def patched(self, name: str) -> bool:
        """Whether this run first comes here in code that has this line; in a run that is older, False.

        `if ctx.patched("use-v2"): … else: …` lets old and new runs share a body.
        """
        return self._body.patched(name)

    def _draw(self) -> bytes:
        branch, number = self._body.draw()
        seed = f"{len(self.run_id)}:{self.run_id}/{branch}/{number}"
        return blake2b(seed.encode(errors="surrogatepass"), digest_size=16, person=b"pyrula-draw").digest()


class _RunLog(logging.LoggerAdapter[logging.Logger]):
    """Says which run speaks, and says each thing once."""

    def __init__(self, body: Body) -> None:
        claim = body.claim
        super().__init__(
            _logger, {"run_id": claim.run_id, "workflow": claim.workflow, "attempt": claim.attempt}
        )
        self._body = body

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's own name
        return not self._body.teller.log.replaying and super().isEnabledFor(level)


def _duration(what: str, value: object, convert: Callable[[object], int]) -> int:
    try:
        return convert(value)
    except ValueError as error:
        raise ConfigurationError(f"{what} is {shown(value)}; it must be {error}") from None


def _check_callable(fn: object) -> None:
    if callable(fn):
        return
    if inspect.iscoroutine(fn):
        called = fn.__qualname__
        fn.close()
        raise ConfigurationError(
            f"ctx.step: fn is a coroutine, made by calling {called}; give the function and its arguments, as in "
            f"ctx.step({called}, …)"
        )
    raise ConfigurationError(f"ctx.step: fn is {shown(fn)}; it must be a function (a name is given as name=)")


def _retry(workflow: str, retry: Retry) -> Any:
    if not isinstance(cast(object, retry), Retry):
        raise ConfigurationError(
            f"workflow {workflow!r}: ctx.step: retry is {shown(retry)}; it must be a Retry"
        )
    retry.check(workflow)
    return retry.stamp

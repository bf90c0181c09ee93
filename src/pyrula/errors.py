"""Everything pyrula raises, as one tree. Each error says what, to which thing, with what value, what next.

    PyrulaError                   code: stable, for programs; the message is for people
    ├── ConfigurationError        configuration          can't be kept as declared (ValueError)
    ├── InvalidPayload            invalid_payload        refused at the call (ValueError)
    │   ├── NotJson               not_json               not a JSON value; names the path
    │   ├── PayloadTooLarge       payload_too_large      over its cap
    │   └── InvalidParams         invalid_params         the body does not take these
    │       └── KeyFailed         key_failed             a key function gave no key
    ├── KeyNeedsCode              key_needs_code         its key function is not imported here
    ├── WorkflowNotFound          workflow_not_found     nobody declared it (LookupError)
    ├── RunNotFound               run_not_found          no run of that id is kept (LookupError)
    ├── GateNotFound              gate_not_found         no gate of that name (LookupError)
    ├── WorkerNotFound            worker_not_found       no live worker of that name (LookupError)
    ├── RunIdConflict             run_id_conflict        that run id is taken, with other params
    ├── RunEnded                  run_ended              a run ended without a result
    │   ├── RunFailed             run_failed             its body raised, and no attempt was left
    │   ├── RunCancelled          run_cancelled          somebody cancelled it
    │   └── RunExpired            run_expired            it did not start in time (`expires_in`)
    ├── StepFailed                step_failed            a recorded error, met again by a replay
    ├── NoRetry                   no_retry               raised by a body or step: another try is of no use
    ├── NonDeterministicWorkflow  non_deterministic      a replay met another step than the log holds
    ├── SlotDeadlock              slot_deadlock          runs wait for each other's held slots
    ├── LeaseLost                 lease_lost             this worker may not write for it any more
    └── StoreError                store                  the store could not do it
        ├── StoreBusy             store_busy             it is locked by others; the call may be repeated
        ├── StoreUnavailable      store_unavailable      it can't be reached
        ├── StoreClosed           store_closed           it was closed in this process
        ├── SchemaMismatch        schema_mismatch        its schema is of another version
        ├── ShardMismatch         shard_mismatch         opened with other shards, or another routing
        └── StoreCorrupt          store_corrupt          what it holds contradicts itself

    ConfigurationWarning          configuration_warning  legal, hardly meant (UserWarning)

A wait that takes too long raises the builtin `TimeoutError`. `RetryAfter`, which bodies raise, is no failure
and lives in `pyrula.workflows`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar


class PyrulaError(Exception):
    """What every error of pyrula is. code: a stable name for programs, the same in HTTP answers and on
    exit."""

    code: ClassVar[str] = "error"


class ConfigurationError(PyrulaError, ValueError):
    """A declaration or setting that can't be kept: names the thing, the argument and the value."""

    code = "configuration"


class ConfigurationWarning(UserWarning):
    """A declaration that is legal and probably not what was meant."""

    code: ClassVar[str] = "configuration_warning"


class InvalidPayload(PyrulaError, ValueError):
    """A value was refused at the call; nothing was stored."""

    code = "invalid_payload"


class NotJson(InvalidPayload):
    """A value that is not JSON. path: where in what was passed, such as `params.items[3].when`."""

    code = "not_json"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class PayloadTooLarge(InvalidPayload):
    """A payload over its cap. size and cap: bytes of JSON."""

    code = "payload_too_large"

    def __init__(self, message: str, *, size: int = 0, cap: int = 0) -> None:
        super().__init__(message)
        self.size = size
        self.cap = cap


class InvalidParams(InvalidPayload):
    """Params that the body's signature does not take."""

    code = "invalid_params"


class KeyFailed(InvalidParams):
    """A key function raised, or returned what is no key; the run was not submitted."""

    code = "key_failed"


class KeyNeedsCode(PyrulaError):
    """A key is computed by a function of code that this process has not imported."""

    code = "key_needs_code"


class WorkflowNotFound(PyrulaError, LookupError):
    """Nobody declared a workflow of that name."""

    code = "workflow_not_found"


class RunNotFound(PyrulaError, LookupError):
    """No run of that id is kept."""

    code = "run_not_found"


class GateNotFound(PyrulaError, LookupError):
    """No gate of that name is known."""

    code = "gate_not_found"


class WorkerNotFound(PyrulaError, LookupError):
    """No live worker of that name is known."""

    code = "worker_not_found"


class RunIdConflict(PyrulaError):
    """That run id is taken by a run with other params."""

    code = "run_id_conflict"


class RunEnded(PyrulaError):
    """A run ended without a result. run_id: which; error: what it ended with, as `Run.error` has it."""

    code = "run_ended"

    def __init__(self, message: str, *, run_id: str = "", error: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.error = error


class RunFailed(RunEnded):
    """The run's body raised, and no attempt was left."""

    code = "run_failed"


class RunCancelled(RunEnded):
    """The run was cancelled."""

    code = "run_cancelled"


class RunExpired(RunEnded):
    """The run did not start in time and was dropped, as its `expires_in` asked."""

    code = "run_expired"


class StepFailed(PyrulaError):
    """A recorded step's error, met again by a replay. step: its name; error: type, message and traceback as
    recorded."""

    code = "step_failed"

    def __init__(self, message: str, *, step: str = "", error: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.step = step
        self.error = error

    @property
    def type(self) -> str:
        """The name of the exception's type, as recorded."""
        return str((self.error or {}).get("type", ""))

    @property
    def message(self) -> str:
        """What the exception said, as recorded."""
        return str((self.error or {}).get("message", ""))


class NonDeterministicWorkflow(PyrulaError):
    """A replay met another step than the log holds; the message names both."""

    code = "non_deterministic"


class NoRetry(PyrulaError):
    """Raise it, or a class of yours that derives from it, in a body or a step: whatever its `retry=`, no other try
    follows. A step's is `StepFailed` in the body, as any error is, and may be caught there."""

    code = "no_retry"


class SlotDeadlock(PyrulaError):
    """Runs wait for each other through slots they hold; the message names the cycle."""

    code = "slot_deadlock"


class LeaseLost(PyrulaError):
    """The worker's lease on the run is over: it may neither record nor release anything for it."""

    code = "lease_lost"


class StoreError(PyrulaError):
    """The store could not do what was asked."""

    code = "store"


class StoreBusy(StoreError):
    """The store is locked by others for longer than the call would wait; it may be repeated."""

    code = "store_busy"


class StoreUnavailable(StoreError):
    """The store can't be reached."""

    code = "store_unavailable"


class StoreClosed(StoreError):
    """The store was closed in this process."""

    code = "store_closed"


class SchemaMismatch(StoreError):
    """The store's schema is of another version than this code's."""

    code = "schema_mismatch"


class ShardMismatch(StoreError):
    """The store was opened with other shards, another order of them, or another routing than it remembers."""

    code = "shard_mismatch"


class StoreCorrupt(StoreError):
    """What the store holds contradicts itself."""

    code = "store_corrupt"


def shown(value: object, width: int = 80) -> str:
    """`value` as an error message shows it: its repr, never longer than `width`, whatever its repr does."""
    try:
        text = repr(value)
    except Exception:  # an object under suspicion may have a broken repr, and an int may have too many digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= width else text[: width - 1] + "…"


def listed(names: Iterable[str], most: int = 10) -> str:
    """Names as an error message lists them: the first of them, and how many there are more."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(map(shown, every[:most])) + more


def missing(what: str, error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """The error to raise where `what` can't be imported without an extra. What is missing of pyrula itself is no
    extra: that error stays as it is."""
    if error.name is None or error.name.partition(".")[0] == "pyrula":
        return error
    return ModuleNotFoundError(
        f"{what} needs {error.name}, of the extra {extra}: pip install 'pyrula-workflows[{extra}]'",
        name=error.name,
    )


def expect(option: str, value: object, right: bool, must: str) -> None:
    """Raise `ConfigurationError` unless `right`. option: of which call or class, and which, as in `Worker: clock`."""
    if not right:
        raise ConfigurationError(f"{option} is {shown(value)}; it must be {must}")

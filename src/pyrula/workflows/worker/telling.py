"""What a worker says of attempts that did not go well: in the log of runs, beside what their bodies say."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from pyrula.clock import SECOND
from pyrula.model.outcome import Failed, Outcome, Postponed, Retry, SetAside
from pyrula.model.step import ErrorValue
from pyrula.store.protocol import Claim

_log: Final = logging.getLogger("pyrula.run")
_error = msgspec.json.Decoder(ErrorValue).decode


def tell(claim: Claim, outcome: Outcome | None) -> None:
    """Log an attempt that failed and a run that was set aside, each as one line; the traceback is kept with the run.
    And a `RetryAfter` that names no gate of the run: it closes none, which nobody would see otherwise."""
    if isinstance(outcome, Postponed):
        _tell_postponed(claim, outcome)
        return
    if isinstance(outcome, Failed):
        what, error = "failed, and no attempt is left", outcome.error
    elif isinstance(outcome, Retry):
        what, error = f"failed, the next begins in {outcome.delay / SECOND:.3g} s", outcome.error
    elif isinstance(outcome, SetAside):
        what, error = "was set aside", outcome.reason
    else:
        return
    found = _error(error)
    _log.warning(
        "run %s of %s, attempt %d %s: %s: %s",
        claim.run_id,
        claim.workflow,
        claim.attempt,
        what,
        found.type,
        found.message,
        extra={"run_id": claim.run_id, "workflow": claim.workflow},
    )


def _tell_postponed(claim: Claim, outcome: Postponed) -> None:
    gates = [gate.name for gate in claim.stamp.gates]
    if outcome.gate is None or outcome.gate in gates:
        return
    _log.warning(
        "run %s of %s: RetryAfter names gate %r, which is none of this run's (%s): it waits by itself, and other "
        "runs of its key go on",
        claim.run_id,
        claim.workflow,
        outcome.gate,
        ", ".join(gates) or "it has none",
        extra={"run_id": claim.run_id, "workflow": claim.workflow},
    )

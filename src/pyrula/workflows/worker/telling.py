"""What a worker says of attempts that did not go well: in the log of runs, beside what their bodies say."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from pyrula.clock import SECOND
from pyrula.model.outcome import Failed, Outcome, Retry, SetAside
from pyrula.model.step import ErrorValue
from pyrula.store.protocol import Claim

_log: Final = logging.getLogger("pyrula.run")
_error = msgspec.json.Decoder(ErrorValue).decode


def tell(claim: Claim, outcome: Outcome | None) -> None:
    """Log an attempt that failed and a run that was set aside, each as one line; the traceback is kept with the run."""
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

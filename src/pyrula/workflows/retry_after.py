"""RetryAfter: how a body says that somebody else asked it to come back later."""

from __future__ import annotations

from pyrula.errors import ConfigurationError, shown
from pyrula.model.duration import Duration, at_least_0_us


class RetryAfter(Exception):
    """Raise it in a body: the slot is given back, and the run starts again once `seconds` have passed.

    seconds: seconds or a timedelta, 0 or more. gate: the name of the gate of this run to close, for this
    run's key, until then (the latest time wins); None closes its first rate gate, else its first limit gate,
    else it holds back this run alone. It costs no attempt; the restart takes a token. Raises
    `ConfigurationError` for a bad duration, or a gate that is no name.
    """

    def __init__(self, seconds: Duration, gate: str | None = None) -> None:
        named: object = gate  # whatever the body passed
        try:
            delay = at_least_0_us(seconds)
        except ValueError as error:
            raise ConfigurationError(f"RetryAfter.seconds is {shown(seconds)}; it must be {error}") from None
        if named is not None and not (isinstance(named, str) and named.isprintable()):
            raise ConfigurationError(
                f"RetryAfter.gate is {shown(gate)}; it must be the name of a gate, or None"
            )
        super().__init__(
            f"retry after {seconds}" if gate is None else f"retry after {seconds}, gate {gate!r}"
        )
        self.delay = delay
        """µs until the restart, from the moment the body raised it."""
        self.gate = gate

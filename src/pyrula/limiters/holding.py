"""How long a poller was held back, and by what."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyrula.limiters.config import OsLimitable
from pyrula.limiters.levels import LimitedBy
from pyrula.model.duration import SECOND


@dataclass(slots=True)
class Hold:
    """A poller that is held back: since the last look by `reasons`, in all by `seconds`."""

    looked_at: int
    reasons: tuple[LimitedBy, ...]
    seconds: dict[tuple[str, OsLimitable], float] = field(default_factory=dict)

    def look(self, now: int, reasons: tuple[LimitedBy, ...]) -> None:
        """Charge the time since the last look to what held then."""
        passed = (now - self.looked_at) / SECOND
        for key in held_by(self.reasons):
            self.seconds[key] = self.seconds.get(key, 0.0) + passed
        self.looked_at, self.reasons = now, reasons


def held_by(reasons: tuple[LimitedBy, ...]) -> dict[tuple[str, OsLimitable], None]:
    """Each level and limitable among `reasons`, once, in their order."""
    return {(reason.level, reason.limitable): None for reason in reasons}

"""Overrides: what operators have put in the place of stamped numbers, resolved for one gate of one key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from pyrula.store.shard.tx import Tx

OverrideKind = Literal["limit", "rate", "pause"]
Number = int | tuple[int, int, int]
"""max of a limit; (p, q, burst) of a rate, p/q per second; of a pause, the store µs until which it holds."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """The overrides in force at one moment: a key's own goes before the whole gate's, and that before the
    stamp.
    """

    by_key: dict[tuple[str, str, OverrideKind], tuple[Number, int | None]] = field(default_factory=dict)
    by_gate: dict[tuple[str, OverrideKind], tuple[Number, int | None]] = field(default_factory=dict)

    @classmethod
    def load(cls, tx: Tx) -> Overrides:
        """Those in force at `tx.now`. The table is as small as what people have typed in."""
        return cls.of_rows(tx.rows("steer.overrides", tx.now))

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[Any, ...]]) -> Overrides:
        """rows: (gate, every, key, kind, number as JSON, expires_at)."""
        found = cls()
        for gate, every, key, kind, number, expires_at in rows:
            value = msgspec.json.decode(number)
            held = (tuple(value) if isinstance(value, list) else value), expires_at
            if every:
                found.by_gate[gate, kind] = held
            else:
                found.by_key[gate, key, kind] = held
        return found

    def __bool__(self) -> bool:
        return bool(self.by_key or self.by_gate)

    def limit(self, name: str, key: str) -> int | None:
        """The max that holds in place of the stamped one, if any."""
        found = self._find(name, key, "limit")
        return None if found is None else cast("int", found[0])

    def rate(self, name: str, key: str) -> tuple[int, int, int] | None:
        """The (p, q, burst) that holds in place of the stamped one, if any."""
        found = self._find(name, key, "rate")
        return None if found is None else cast("tuple[int, int, int]", found[0])

    def paused_until(self, name: str, key: str) -> int:
        """Store µs until which operators keep the gate shut for this key; 0 if they don't, `FOREVER` without
        end.
        """
        found = self._find(name, key, "pause")
        return 0 if found is None else cast("int", found[0])

    def every_key(self, name: str, key: str, kind: OverrideKind) -> bool:
        """Whether what holds there was said of the whole gate, and not of this key."""
        return (name, key, kind) not in self.by_key

    def of(self, name: str, key: str) -> dict[str, Any] | None:
        """What holds here, for people: {"limit" | "rate" | "pause": {"number", "expires_at",
        "every_key"}}.
        """
        shown: dict[str, Any] = {}
        for kind in cast("tuple[OverrideKind, ...]", ("limit", "rate", "pause")):
            found = self._find(name, key, kind)
            if found is not None and (kind != "pause" or found[0]):
                every = self.every_key(name, key, kind)
                shown[kind] = {"number": found[0], "expires_at": found[1], "every_key": every}
        return shown or None

    def _find(self, name: str, key: str, kind: OverrideKind) -> tuple[Number, int | None] | None:
        own = self.by_key.get((name, key, kind)) if self.by_key else None
        return own if own is not None else self.by_gate.get((name, kind))

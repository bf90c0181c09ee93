"""The log of a run as its body meets it again: what was settled, in which order, and how far the body has
come."""

from __future__ import annotations

from bisect import insort
from collections.abc import Container, Iterable, Sequence

from pyrula.model.step import Entry, Kind

Key = tuple[str, int]
"""(branch, number) of an entry."""

PASSIVE: frozenset[str] = frozenset({"now", "patch"})
"""Kinds that are answered on the spot: nobody waits for them, so they have no place in the order of
deliveries."""


class Log:
    """Entries by (branch, number), and a position in the order in which the store settled them.

    A body is told what was settled one entry at a time and in this order, live and replayed alike; so two
    branches that race see the same winner.
    """

    __slots__ = ("_ahead", "_claimed", "_entries", "_last", "_next", "_seen", "delivered", "told")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries: dict[Key, Entry] = {}
        self._last: dict[str, int] = {}
        self._ahead: list[tuple[int, str, int]] = []
        self._next = 0
        self._seen = 0
        self.delivered = 0
        """How many entries the body was told of."""
        self.told: dict[Key, int] = {}
        """Entry → what `delivered` was when it had been told."""
        self.add(entries)
        self._claimed = self._seen

    def add(self, entries: Iterable[Entry]) -> None:
        """Take in what the store answered; what is known already is left as it is."""
        for entry in entries:
            key = (entry.branch, entry.number)
            known = self._entries.get(key)
            if known is not None and known.status != "waiting":
                continue
            self._entries[key] = entry
            self._last[entry.branch] = max(self._last.get(entry.branch, -1), entry.number)
            if entry.status == "waiting":
                continue
            self._seen = max(self._seen, entry.order)
            if entry.kind not in PASSIVE:
                insort(self._ahead, (entry.order, entry.branch, entry.number), lo=self._next)

    def get(self, branch: str, number: int) -> Entry | None:
        """The entry at that place, or None."""
        return self._entries.get((branch, number))

    def last_number(self, branch: str) -> int:
        """The highest number in use in a branch; -1 if it has none."""
        return self._last.get(branch, -1)

    def next(self) -> Entry | None:
        """The settled entry that the body is to be told of next."""
        if self._next == len(self._ahead):
            return None
        _, branch, number = self._ahead[self._next]
        return self._entries[branch, number]

    def advance(self) -> None:
        """The body was told of `next()`, or nobody waits for it any more."""
        _, branch, number = self._ahead[self._next]
        self._next += 1
        self.delivered += 1
        self.told[branch, number] = self.delivered

    @property
    def replaying(self) -> bool:
        """Whether there is something left that was in the log when the run was claimed."""
        return self._next < len(self._ahead) and self._ahead[self._next][0] <= self._claimed

    def kept_in(self, branches: Container[str]) -> list[Key]:
        """The places of what is logged in these branches."""
        return [key for key in self._entries if key[0] in branches]

    @property
    def seen(self) -> int:
        """The highest order known here."""
        return self._seen

    def left(self) -> list[Entry]:
        """Settled entries that the body was not told of, in order."""
        return [self._entries[branch, number] for _, branch, number in self._ahead[self._next :]]

    def has_waiting(self) -> bool:
        """Whether the store may settle something that is not known here yet."""
        return any(entry.status == "waiting" for entry in self._entries.values())


def described(kind: Kind, name: str, branch: str, number: int) -> str:
    """A call as messages name it."""
    where = f"number {number}" + (f" of branch {branch}" if branch else "")
    what = (
        "step"
        if kind == "step"
        else {"event": "wait for event", "child": "child", "patch": "patch"}.get(kind, kind)
    )
    return f"{what} {name!r} ({where})" if name and name != kind else f"{what} ({where})"

"""The lines: lanes that wait at a gate, one line per workflow and stamp."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from pyrula.admission.rota import Rotas
from pyrula.admission.rows import Rows
from pyrula.admission.rules import admits, opens_at, room
from pyrula.model.gate import Gate, GateId, Stamp, WaitKey
from pyrula.model.lane import Lane, Unit


class Line:
    """Those of one workflow and one stamp at one gate, so that its first is the only one to ask about.

    In one line for all, many waiters that may not pass (a lower maximum, a worker that is away) would be
    walked over to find the one behind them that may.
    """

    __slots__ = ("after", "gate", "joined", "more", "page", "stamp", "workflow")

    def __init__(self, gate: Gate, workflow: str, stamp: Stamp, stored: bool) -> None:
        self.gate = gate
        self.workflow = workflow
        self.stamp = stamp
        self.page: deque[tuple[WaitKey, Lane, Unit]] = deque()
        self.after: WaitKey | None = None
        self.more = stored
        self.joined: list[WaitKey] = []  # those that began to wait in this turn


class Lines:
    """Merges the stored lines, read page by page, with who joined and left in this turn."""

    def __init__(self, rows: Rows, now: int, rotas: Rotas) -> None:
        self._rows = rows
        self._now = now
        self._rotas = rotas
        self._lines: dict[GateId, dict[tuple[str, Stamp], Line]] = {}

    def join(self, lane: Lane, gate: Gate) -> None:
        """A lane has begun to wait."""
        lines = self._lines.setdefault(gate.id, {})
        name = (lane.workflow, lane.wait_stamp)
        if name not in lines:
            lines[name] = Line(gate, *name, stored=gate.id in self._rows.stored_waiters)
        heappush(lines[name].joined, lane.wait_key)

    def open(self, gates: Iterable[Gate]) -> None:
        """Load, in few round trips, what ringing these gates takes."""
        stored = self._rows.stored_waiters
        unread = [gate for gate in gates if gate.id in stored and gate.waiting]
        if not unread:
            return
        fronts = []
        found = self._rows.loader.lines([gate.id for gate in unread])
        for gate in unread:
            stored.discard(gate.id)
            lines = self._lines.setdefault(gate.id, {})
            for name in found.get(gate.id, ()):
                line = lines.setdefault(name, Line(gate, *name, stored=True))
                if admits(gate, line.stamp, self._now):
                    fronts.append(line)
        self._read(fronts)

    def workflows(self, gate: Gate) -> set[str]:
        """Those that may have lanes waiting at the gate."""
        self.open([gate])
        return {line.workflow for line in self._lines.get(gate.id, {}).values()}

    def turned_away(self, gate: Gate) -> bool:
        """Whether a lane that this worker serves waits there, may pass and is not rung: its room was left to others."""
        self.open([gate])
        for line in self._lines.get(gate.id, {}).values():
            if self._rows.serves(line.workflow) and admits(gate, line.stamp, self._now):
                key, herald = self._peek(line), gate.heralds.get(line.workflow)
                if key is not None and (herald is None or key < herald):
                    return True
        return False

    def first(self, gate: Gate) -> tuple[dict[str, tuple[WaitKey, Line]], int | None]:
        """Per workflow the best waiter that may pass now, and when the next of the others may."""
        best: dict[str, tuple[WaitKey, Line]] = {}
        opens: int | None = None
        lines: Collection[Line] = self._lines.get(gate.id, {}).values()
        if gate.rota is not None:
            self._rotas.drop(gate, [line.workflow for line in lines])
            lines = sorted(lines, key=lambda line: self._rows.serves(line.workflow))  # others first
        for line in lines:
            if not admits(gate, line.stamp, self._now):
                at = opens_at(gate, line.stamp, self._now)
                if at is not None and (opens is None or at < opens):
                    opens = at
                continue
            key = self._peek(line)
            if key is not None and gate.rota is not None and self._left_for_others(gate, line, key, best):
                opens = gate.rota.until if opens is None else min(opens, gate.rota.until)
                continue
            if key is not None and (line.workflow not in best or key < best[line.workflow][0]):
                best[line.workflow] = (key, line)
        called = {
            name: (key, line)
            for name, (key, line) in best.items()
            if self._rows.serves(name) or not self._rotas.in_vain(gate, name, key[0])
        }
        if len(called) < len(best) and gate.rota is not None:
            opens = gate.rota.until if opens is None else min(opens, gate.rota.until)
        return called, opens

    def _left_for_others(
        self, gate: Gate, line: Line, key: WaitKey, best: Mapping[str, tuple[WaitKey, Line]]
    ) -> bool:
        if not self._rows.serves(line.workflow):
            return False
        others = {name: theirs for name, (theirs, _) in best.items() if not self._rows.serves(name)}
        return self._rotas.withholds(gate, line.stamp, key[0], others)

    def pop(self, line: Line, key: WaitKey) -> tuple[Lane, Unit]:
        """Take the waiter that `first` named out of its line and onto the floor."""
        if line.page and line.page[0][0] == key:
            _, lane, unit = line.page.popleft()
            return lane, self._rows.adopt(lane, unit)
        heappop(line.joined)
        lane = self._rows.lanes[key[3]]
        return lane, self._rows.units[lane.unit]

    def _peek(self, line: Line) -> WaitKey | None:
        lanes = self._rows.lanes
        while line.joined and not _waits(lanes[line.joined[0][3]], line, line.joined[0]):
            heappop(line.joined)
        while True:
            while line.page and line.page[0][1].id in lanes:
                line.page.popleft()
            if line.page or not line.more:
                break
            self._read([line])
        if line.page and (not line.joined or line.page[0][0] < line.joined[0]):
            return line.page[0][0]
        return line.joined[0] if line.joined else None

    def _read(self, lines: Sequence[Line]) -> None:
        """The next page of each: as many as could go, but one where this worker only rings."""
        rows = self._rows
        asks = []
        for line in lines:
            n = min(room(line.gate, line.stamp, self._now), rows.left) if rows.serves(line.workflow) else 1
            asks.append((line.gate.id, line.workflow, line.stamp, line.after, max(1, n)))
        ahead = []
        for line, ask, page in zip(lines, asks, rows.loader.waiting(asks) if asks else (), strict=True):
            line.more = len(page) >= ask[-1]
            for lane, unit in page:
                line.page.append((lane.wait_key, lane, unit))
                if rows.serves(line.workflow) and lane.id not in rows.lanes:
                    ahead.append(lane)
            if page:
                line.after = page[-1][0].wait_key
        rows.prepare(ahead)


def _waits(lane: Lane, line: Line, key: WaitKey) -> bool:
    """Tell whether an entry of `joined` still holds; the same head has the same stamp all through a turn."""
    return lane.state == "waiting" and lane.gate == line.gate.id and lane.wait_key == key

"""The bench: units with a ready lane, in the order of their turns."""

from collections import deque
from heapq import heappop, heappush

import msgspec

from pyrula.admission.loader import ReadyKey
from pyrula.admission.rows import Rows
from pyrula.model.lane import Lane, LaneId, Unit, UnitId


class _Seat(msgspec.Struct, gc=False):
    """One unit and those of its ready lanes that are on the floor, oldest head first."""

    unit: Unit
    priority: int
    heap: list[tuple[int, LaneId]] = []
    known: int = 0  # ready lanes that are on the floor
    key: ReadyKey | None = None  # its valid place in the bench's heap
    after: tuple[int, LaneId] | None = None  # of its stored ready lanes, those up to here are known
    asked: int = 1
    more: bool = True


class Bench:
    """Merges the stored order of ready units, read page by page, with what the turn changes.

    Virtual times only grow, so a stored place is never later than the true one: reading up to the best place
    known is enough.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._seats: dict[UnitId, _Seat] = {}
        self._seated: set[LaneId] = set()
        self._heap: list[ReadyKey] = []
        self._page: deque[tuple[ReadyKey, Lane, Unit]] = deque()
        self._after: ReadyKey | None = None
        self._more = True

    def add(self, lane: Lane, unit: Unit) -> None:
        """A lane of a served workflow has become ready (its unit counts it already)."""
        seat = self._seats.get(unit.id)
        if seat is None:
            seat = self._seats[unit.id] = _Seat(unit, lane.priority)
        self._sit(lane, seat)
        self._push(seat)

    def moves_on(self, lane: Lane) -> None:
        """The lane that was `best` has another head, and stays ready."""
        seat = self._seats[lane.unit]
        heappush(seat.heap, (lane.wait_seq, lane.id))
        self._push(seat)

    def left(self, lane: Lane) -> None:
        """A lane is ready no more (its unit does not count it any more)."""
        seat = self._seats.get(lane.unit)
        if seat is not None:
            if lane.id in self._seated:
                self._seated.remove(lane.id)
                seat.known -= 1
            if seat.unit.ready:
                self._push(seat)

    @property
    def occupied(self) -> bool:
        """Whether a ready lane is known, or may be found where the last page ended."""
        unread = self._more and self._after is not None
        return unread or bool(self._page) or any(self._seats[key[2]].key == key for key in self._heap)

    def best(self) -> Lane | None:
        """The lane whose turn it is. It stays ready until the floor moves it."""
        while True:
            if self._more or self._page:
                self._merge()
            if not self._heap:
                return None
            key = heappop(self._heap)
            seat = self._seats[key[2]]
            if seat.key != key:
                continue
            seat.key = None
            lane = self._oldest(seat)
            if lane is not None:
                return lane

    def _sit(self, lane: Lane, seat: _Seat) -> None:
        heappush(seat.heap, (lane.wait_seq, lane.id))
        if lane.id not in self._seated:
            self._seated.add(lane.id)
            seat.known += 1

    def _push(self, seat: _Seat) -> None:
        if seat.unit.ready:
            key = (seat.priority, seat.unit.vtime, seat.unit.id)
            if key != seat.key:
                seat.key = key
                heappush(self._heap, key)

    def _merge(self) -> None:
        """Read the stored order up to the best place known."""
        while True:
            best = self._heap[0] if self._heap else None
            if not self._page:
                if not self._more or (best and self._after and best <= self._after):
                    return
                self._read()
                continue
            if best and best < self._page[0][0]:
                return
            _, lane, stored_unit = self._page.popleft()
            if lane.id not in self._rows.lanes:
                unit = self._rows.adopt(lane, stored_unit)
                self.add(lane, unit)
                self._seats[unit.id].after = (lane.wait_seq, lane.id)
            elif stored_unit.id in self._rows.units:
                # Its oldest ready lane is on the floor already; the unit may have others.
                unit = self._rows.units[stored_unit.id]
                self._push(self._seats.setdefault(unit.id, _Seat(unit, lane.priority)))

    def _read(self) -> None:
        n = max(1, self._rows.left)
        page = [
            ((lane.priority, unit.vtime, unit.id), lane, unit)
            for lane, unit in self._rows.loader.ready(self._after, n)
        ]
        self._more = len(page) >= n
        if page:
            self._after = page[-1][0]
            self._page.extend(page)
            self._rows.prepare([lane for _, lane, _ in page if lane.id not in self._rows.lanes])

    def _oldest(self, seat: _Seat) -> Lane | None:
        lanes, heap = self._rows.lanes, seat.heap
        while True:
            while heap and (heap[0][1] not in self._seated or lanes[heap[0][1]].wait_seq != heap[0][0]):
                heappop(heap)
            unread = seat.more and seat.unit.ready > seat.known
            if not unread or (heap and seat.after is not None and heap[0] <= seat.after):
                return lanes[heappop(heap)[1]] if heap else None
            self._read_siblings(seat)

    def _read_siblings(self, seat: _Seat) -> None:
        n = seat.asked = min(2 * seat.asked, 1 + self._rows.left)
        siblings = self._rows.loader.siblings([(seat.unit.id, seat.after, n)])[0]
        seat.more = len(siblings) >= n
        if siblings:
            seat.after = (siblings[-1].wait_seq, siblings[-1].id)
        strangers = [lane for lane in siblings if lane.id not in self._rows.lanes]
        self._rows.prepare(strangers)
        for lane in strangers:
            self._rows.adopt(lane, seat.unit)
            self._sit(lane, seat)

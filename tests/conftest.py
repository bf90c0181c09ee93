"""What holds for every test: hypothesis profiles, a second try beside a server, and that what a turn remembers is
what is stored.

The asyncio mode and time-outs are in pyproject.toml.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from pyrula.store.postgres.connection import PostgresTx
from pyrula.store.shard.loader import ShardLoader, Stamps
from pyrula.store.shard.overrides import Overrides
from pyrula.store.shard.remembered import Remembered
from pyrula.store.shard.rows import lane_row
from pyrula.store.shard.tx import Tx

MANY = 1_000_000

# No deadlines: a slow machine is not a wrong answer. CI draws the same examples each time, so that a red run
# can be repeated; `thorough` is for a search by hand: HYPOTHESIS_PROFILE=thorough pytest tests/admission
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=100, **_patient)
settings.register_profile("ci", max_examples=100, derandomize=True, print_blob=True, **_patient)
settings.register_profile("thorough", max_examples=5000, **_patient)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A PostgreSQL server and what it serves share two cores with another test: what it tells may come late. Such a
    test has a second try, and how the first ended is told below: one that shows up again is a fault to be found."""
    for item in items:
        if "postgres" in item.nodeid:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What made a first try fail."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first try: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(autouse=True)
def what_is_remembered_is_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test does: what a turn knows from the one before, it would find in the store."""
    recall = Remembered.recall

    def checked(self: Remembered, tx: Tx) -> None:
        recall(self, tx)
        stored = ShardLoader(tx, frozenset(), Stamps(), Overrides(), Remembered())
        assert stored.units(list(self.units)) == self.units
        assert stored.gates(list(self.gates)) == self.gates
        lanes = {id: self.lane(id) for id in self._lanes}
        stored.lanes(list(lanes))
        assert stored.stored == {id: row for id, (_, row) in lanes.items()}
        assert stored.stored == {id: lane_row(lane, row[5]) for id, (lane, row) in lanes.items()}
        for gate in self.gates:
            waiting = self.waiting(gate)
            if waiting is not None and len(waiting) < MANY:
                found = tx.match("loader.few_waiting", [(gate, MANY)])
                assert sorted(row[:13] for row in found) == sorted(waiting)
        if not lanes:
            return
        # A run may be before where its lane is known to begin only until its bell was heard.
        # PostgreSQL's bells are taken out as they are read.
        bells = (
            tx.script("SELECT lane FROM inbox")
            if isinstance(tx, PostgresTx)
            else tx.rows("admit.bells", b"", MANY)
        )
        rung = {row[0] for row in bells}
        for id, resumed, fresh in tx.match("admit.heads", [(id,) for id in self._lanes if id not in rung]):
            begins = self.begins[id]
            assert (fresh is None or fresh >= begins[0]) and (resumed is None or resumed >= begins[1])

    monkeypatch.setattr(Remembered, "recall", checked)

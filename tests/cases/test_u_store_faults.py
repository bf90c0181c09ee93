"""U. Faults of the store: locked, refused, cut off, killed in between. Those of a server are in
test_u_server_faults.py."""

from __future__ import annotations

import signal
from collections import Counter

from tests.cases.fleet import Fleet
from tests.cases.scene import OTHER


async def test_case_145_a_locked_file_is_nobodys_error(fleet: Fleet) -> None:
    """4 processes that submit and 4 that work, for 3 s in place of 30."""
    workers = [fleet.work(lease_seconds=30) for _ in range(4)]
    await fleet.ready(*workers)
    submitters = [fleet.work(submits_for=3) for _ in range(4)]
    await fleet.until(lambda: all(process.poll() is not None for process in submitters), within=60)
    assert [process.returncode for process in submitters] == [0] * 4, fleet.said()
    other = await fleet.submit(k=OTHER)
    acknowledged = {note.run_id for note in fleet.notes("acknowledged")}
    assert len({note.pid for note in fleet.notes("acknowledged")}) == 4
    await fleet.until(
        lambda: acknowledged | {other} <= {note.run_id for note in fleet.notes("end")}, within=60
    )
    started = Counter(note.run_id for note in fleet.notes("start"))
    assert set(started.values()) == {1}
    assert all(process.poll() is None for process in workers), fleet.said()
    assert "locked" not in fleet.said()


async def test_case_152_a_crash_between_the_body_and_its_result_is_recovered(fleet: Fleet) -> None:
    """With real processes; lease_seconds is 1. The process kills itself as it is about to hand in."""
    gates = {"max": 1, "per_second": 0.001, "burst": 1}
    dead = fleet.work(**gates, lease_seconds=1, dies=True)
    await fleet.ready(dead)
    run_id = await fleet.submit(step=True)
    await fleet.until(lambda: dead.poll() is not None)
    assert dead.returncode == -signal.SIGKILL
    assert len(fleet.ends(run_id)) == 1
    heir = fleet.work(**gates, lease_seconds=1)
    await fleet.ready(heir)
    other = await fleet.submit(k=OTHER)
    assert await fleet.client.result(run_id, timeout=20) == heir.pid
    assert len(fleet.starts(run_id)) == 2
    assert len(fleet.notes("step", run_id)) == 1
    assert [gate.in_use for gate in await fleet.client.gates(key="k")] == [0, 0]
    await fleet.until(lambda: fleet.starts(other))
    assert fleet.starts(other)[0] <= fleet.submitted[other] + 1
    assert await fleet.store.check() == []

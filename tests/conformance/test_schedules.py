from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from pyrula.policies.schedule import Cron, Every
from pyrula.store.protocol import Submission
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands


async def deploy(hands: Hands, *schedules: Cron | Every) -> None:
    hands.declare("w")
    rows = [(msgspec.json.encode(one.declaration()), submission(hands, one)) for one in schedules]
    await hands.register(schedules={"w": rows})


def submission(hands: Hands, schedule: Cron | Every) -> Submission:
    return hands.submission("w", params=dict(schedule.params))


def starts(hands: Hands) -> list[tuple[float, str]]:
    return [(at, run_id.partition("@")[2]) for at, run_id in hands.started]


async def test_one_run_a_tick_however_many_workers(hands: Hands) -> None:
    await deploy(hands, Every(seconds=60, params={"n": 1}))
    other = Hands(hands.store, hands.clock, "w2")
    await deploy(other, Every(seconds=60, params={"n": 1}))
    for _ in range(3):
        await hands.run_until(20)
        await other.run_until(0)
    await hands.run_until(60)
    assert starts(hands) + starts(other) == [(60.0, "2026-01-05T00:01:00Z"), (120.0, "2026-01-05T00:02:00Z")]
    run = await hands.store.get("w@2026-01-05T00:01:00Z")
    assert run is not None and run.params == {"n": 1}


async def test_of_the_ticks_that_nobody_was_there_for_the_latest_is_made_up_for(hands: Hands) -> None:
    await deploy(hands, Every(seconds=60))
    hands.clock.move(hands.clock.monotonic() + 1000 * 1_000_000)
    await deploy(hands, Every(seconds=60))
    await hands.run_until(25)
    assert starts(hands) == [(1000.0, "2026-01-05T00:16:00Z"), (1020.0, "2026-01-05T00:17:00Z")]


async def test_the_newest_declaration_decides(hands: Hands) -> None:
    await deploy(hands, Every(seconds=60), Cron("30 * * * *"))
    assert [one["number"] for one in await hands.store.schedules()] == [0, 1]
    await hands.move(30)
    await deploy(hands, Every(seconds=60))  # the first keeps its next tick, the other is gone
    (only,) = await hands.store.schedules()
    assert only["next_at"] == datetime(2026, 1, 5, 0, 1, tzinfo=UTC)
    assert only["schedule"]["every_us"] == 60_000_000
    await deploy(hands)
    assert await hands.store.schedules() == []
    await hands.run_until(3600)
    assert hands.started == []


async def test_a_worker_of_other_workflows_leaves_schedules_alone(hands: Hands) -> None:
    await deploy(hands, Every(seconds=60))
    other = Hands(hands.store, hands.clock, "w2")
    other.declare("v")
    await other.register()
    assert len(await hands.store.schedules()) == 1


async def test_a_workflow_that_no_worker_serves_any_more_has_no_ticks(hands: Hands) -> None:
    await deploy(hands, Every(seconds=60), Cron("30 * * * *"))
    await hands.run_until(60)
    await hands.store.leave(hands.incarnation)  # renamed, say: what is deployed now knows nothing of it
    other = Hands(hands.store, hands.clock, "w2")
    other.declare("v")
    await other.register()
    await other.run_until(3600)
    assert other.started == [] and await hands.store.get("w@2026-01-05T00:02:00Z") is None
    told = [(one["number"], one["next_at"].minute, one["unserved"]) for one in await hands.store.schedules()]
    assert told == [(0, 2, True), (1, 30, True)]
    back = Hands(hands.store, hands.clock, "w3")
    await deploy(back, Every(seconds=60), Cron("30 * * * *"))  # of each the latest is made up for
    await back.run_until(60)
    assert sorted(starts(back)) == [
        (0, "2026-01-05T00:30:00Z"),
        (0, "2026-01-05T01:01:00Z"),
        (60, "2026-01-05T01:02:00Z"),
    ]
    assert not any(one["unserved"] for one in await hands.store.schedules())


async def test_schedules_look_at_the_wall(hands: Hands, clock: VirtualClock) -> None:
    await deploy(hands, Cron("0 9 * * *"))
    clock.step_wall(timedelta(hours=9))
    assert await hands.turn() == ["w@2026-01-05T09:00:00Z"]
    clock.step_wall(timedelta(hours=-1))  # the same tick again: the same run
    await hands.turn()
    clock.step_wall(timedelta(hours=1))
    assert await hands.turn() == []
    (only,) = await hands.store.schedules()
    assert only["next_at"] == datetime(2026, 1, 6, 9, tzinfo=UTC)


async def test_a_declaration_is_kept_for_clients_elsewhere(hands: Hands) -> None:
    await deploy(hands)
    kept: Any = msgspec.json.decode(await hands.store.declaration("w"))
    assert kept["workflow"] == "w"
    assert await hands.store.declaration("v") is None

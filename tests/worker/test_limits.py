"""Limiters on pyrula's own workers: what is claimed, what the worker says of it, and changes from elsewhere."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyrula.errors import ConfigurationError, WorkerNotFound
from pyrula.limiters import Hub, LimiterConfig, PollRate
from pyrula.limiters import hub as process_hub
from pyrula.testing import Environment
from pyrula.testing.clock import VirtualClock
from pyrula.workflows import Registry, Worker, open_store, workflow
from pyrula.workflows.worker.limits import Limits
from tests.worker.conftest import counted


class Stage:
    """An environment whose bodies stay for some virtual seconds; now, peak: bodies at once."""

    def __init__(self, **options: Any) -> None:
        self.registry = Registry()
        self.now = self.peak = 0
        self.starts: list[tuple[float, str]] = []
        self.ends: list[tuple[float, str]] = []
        workflow(name="w", registry=self.registry)(self._body)
        self.env = Environment(None, self.registry, worker=False, **options)
        self.client = self.env.client

    async def _body(self, ctx: Any, seconds: float = 0.0, steps: int = 0) -> None:
        self.starts.append((self.env.now, ctx.run_id))
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await self.env.sleep(seconds)
        finally:
            self.now -= 1
            self.ends.append((self.env.now, ctx.run_id))

    async def submit(self, count: int, seconds: float = 0.0) -> list[str]:
        ids = await self.client.submit_many("w", [{"seconds": seconds}] * count)
        await self.env.settle()
        return ids

    async def row(self, worker_id: str = "w1") -> dict[str, Any]:
        return next(row for row in await self.env.store.workers() if row["worker_id"] == worker_id)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    async with made.env:
        yield made
        assert await made.env.store.check() == []


# -- what is claimed


@pytest.mark.parametrize("seed", range(8))
async def test_no_level_window_or_bucket_is_ever_exceeded_and_every_run_ends(seed: int) -> None:
    """Runs come at random moments, bodies end at random ones: nudges and completions obey the limits too."""
    draw = random.Random(seed)
    stage = Stage()
    cluster, node = (draw.randint(1, 6), draw.randint(2, 12)), (draw.randint(6, 9), draw.randint(12, 20))
    window, bucket = draw.choice([2, 5]), draw.choice([None, PollRate(draw.randint(1, 5), 1)])
    pool = draw.randint(1, 3)
    own: dict[str, tuple[int, int]] = {}
    async with stage.env:
        for name in [f"w{number}" for number in range(draw.randint(1, 3))]:
            own[name] = (draw.randint(1, cluster[0]), draw.randint(1, cluster[1]))
            await stage.env.start_worker(
                worker_id=name,
                limits={
                    "worker": {"workflow": own[name]},
                    "cluster": {"workflow": cluster},
                    "node": {"workflow": node},
                },
                limiter_time_windows={"workflow": window},
                task_poller_limiter=bucket,
                task_poller_pool_size=pool,
                max_concurrent_runs=draw.randint(1, 8),
            )
        ids: list[str] = []
        for _ in range(12):
            ids += await stage.submit(draw.randint(1, 5), draw.choice([0, 0.1, 0.7, 1.5]))
            await stage.env.advance(draw.choice([0.1, 0.5, 1.3]))
        await stage.env.until(asyncio.gather(*map(stage.client.result, ids)))
        by = {run_id: str((await stage.client.get(run_id)).worker_id) for run_id in ids}
        assert await stage.env.store.check() == []
    assert sorted(run_id for _, run_id in stage.starts) == sorted(ids)
    for name, (most, often) in own.items():
        _check(stage, {run_id for run_id in ids if by[run_id] == name}, most, often, window)
    _check(stage, set(ids), cluster[0], cluster[1], 60)
    _check(stage, set(ids), node[0], node[1], 60)
    for name in own if bucket is not None else ():
        times = [at for at, run_id in stage.starts if by[run_id] == name]
        gap = bucket.interval / 1e6
        for first, last in itertools.combinations(
            range(len(times)), 2
        ):  # of open polls there are a pool at most
            spans = int((times[last] - times[first] + 1e-6) / gap) + 1
            assert last - first + 1 <= pool * (spans + 1)


def _check(stage: Stage, ids: set[str], most: int, often: int, window: float) -> None:
    """Of these runs never more than `most` at once, and never more than `often` began in a window."""
    moments = [(at, 1) for at, run_id in stage.starts if run_id in ids]
    moments += [(at, -1) for at, run_id in stage.ends if run_id in ids]
    active = 0
    for _, change in sorted(moments):  # an end goes before a start of its instant
        active += change
        assert active <= most
    begun = Counter(int((at + 1e-9) // window) for at, run_id in stage.starts if run_id in ids)
    assert max(begun.values(), default=0) <= often


async def test_a_poll_is_the_request_for_one_run_though_many_wait(stage: Stage) -> None:
    await stage.env.start_worker(
        task_poller_limiter=PollRate(10, 60), task_poller_pool_size=2, max_concurrent_runs=50
    )
    await stage.env.advance(1)
    await stage.submit(6)
    await stage.env.advance(20)
    # the polls of 0 s were still open at 1 s; their pollers poll again from 6 s on
    assert [at for at, _ in stage.starts] == [1, 1, 6, 6, 12, 12]


async def test_a_worker_that_is_held_back_looks_again_when_an_execution_of_its_own_ends(stage: Stage) -> None:
    await stage.env.start_worker(limits={"worker": {"workflow": (1, None)}}, limiter_check_frequency=5)
    await stage.submit(3, seconds=0.3)
    await stage.env.advance(1)
    assert [round(at, 6) for at, _ in stage.starts] == [0, 0.3, 0.6]


# -- from elsewhere


async def test_concurrency_is_changed_live_from_elsewhere(stage: Stage) -> None:
    await stage.env.start_worker(worker_id="w1", limits={"worker": {"workflow": (4, None)}})
    peaks = []
    for limits in (None, {"worker": {"workflow": (1, None)}}, {"worker": {"workflow": (7, None)}}, {}):
        if limits is not None:
            await stage.client.set_limiter_config("w1", limits=limits)
        await stage.env.settle()
        stage.peak = 0
        ids = await stage.submit(10, seconds=1)
        await stage.env.until(asyncio.gather(*map(stage.client.result, ids)))
        peaks.append(stage.peak)
    assert peaks == [4, 1, 7, 10]


async def test_what_held_a_worker_back_is_lifted_at_once(stage: Stage) -> None:
    await stage.env.start_worker(
        worker_id="w1", limits={"worker": {"workflow": (0, None)}}, limiter_check_frequency=600
    )
    await stage.submit(2)
    await stage.env.advance(10)
    assert stage.starts == []
    await stage.client.set_limiter_config("w1", limits={})
    await stage.env.advance(1)
    assert len(stage.starts) == 2


async def test_only_what_is_given_changes_and_all_of_it_can_be_read(stage: Stage) -> None:
    limits = {"os": {("disk", "/"): 100}, "worker": {"workflow": (5, 50)}}
    worker = await stage.env.start_worker(worker_id="w1", limits=limits, task_poller_limiter=PollRate(10, 1))
    assert await stage.client.get_limiter_config("w1") == LimiterConfig(limits, PollRate(10, 1.0), 0.5)
    answer = await stage.client.set_limiter_config("w1", limiter_check_frequency=2)
    assert answer == {"w1": LimiterConfig(limits, PollRate(10, 1.0), 2)}
    assert await stage.client.get_limiter_config("w1") == answer["w1"]
    await stage.env.settle()
    assert worker.get_limiter_config() == LimiterConfig(limits, PollRate(10, 1.0), 2)
    await stage.client.set_limiter_config("w1", limits={}, task_poller_limiter=None)
    await stage.env.advance(2)
    assert worker.get_limiter_config() == await stage.client.get_limiter_config("w1")
    assert await stage.client.get_limiter_config("w1") == LimiterConfig({}, None, 2)
    assert not (await stage.row())["limiters_pending"]


async def test_all_workers_are_changed_and_one_that_starts_later_is_not(stage: Stage) -> None:
    for name in ("w1", "w2"):
        await stage.env.start_worker(worker_id=name)
    assert sorted(await stage.client.set_limiter_config(None, limiter_check_frequency=3)) == ["w1", "w2"]
    later = await stage.env.start_worker(worker_id="w3")
    assert [each.get_limiter_config().limiter_check_frequency for each in stage.env.workers] == [3, 3, 0.5]
    assert later.get_limiter_config() == await stage.client.get_limiter_config("w3")


@pytest.mark.parametrize(
    "changes",
    [
        {"limits": {"worker": {"nexus": (1, None)}}},
        {"limits": {"worker": {"workflow": (5, None)}, "cluster": {"workflow": (4, None)}}},
        {"limits": {"os": {"mem": 0.8}}},
        {"task_poller_limiter": "10/60"},
        {"limiter_check_frequency": 0},
        {"limits": {}, "limiter_check_frequency": float("nan")},
    ],
)
async def test_what_no_worker_could_have_is_refused_before_anything_is_stored(
    stage: Stage, changes: dict[str, Any]
) -> None:
    worker = await stage.env.start_worker(worker_id="w1", limits={"worker": {"workflow": (5, 50)}})
    for worker_id in ("w1", None):
        with pytest.raises(ConfigurationError):
            await stage.client.set_limiter_config(worker_id, **changes)
    await stage.env.settle()
    assert worker.get_limiter_config().limits == {"worker": {"workflow": (5, 50)}}
    assert not (await stage.row())["limiters_pending"]


async def test_another_argument_and_an_unknown_worker_are_refused(stage: Stage) -> None:
    await stage.env.start_worker(worker_id="w1")
    with pytest.raises(TypeError, match="'limit'; there are limits, task_poller_limiter"):
        await stage.client.set_limiter_config("w1", limit={})  # type: ignore[call-arg]  # that is the point
    for call in (stage.client.get_limiter_config("w2"), stage.client.set_limiter_config("w2", limits={})):
        with pytest.raises(WorkerNotFound, match="'w2'; there are: w1"):
            await call


async def test_a_mount_that_the_workers_machine_does_not_have_is_told_in_its_row(stage: Stage) -> None:
    worker = await stage.env.start_worker(worker_id="w1", limits={"worker": {"workflow": (5, 50)}})
    await stage.client.set_limiter_config("w1", limits={"os": {("disk", "/no/such/mount"): 80}})
    await stage.env.advance(2)
    row = await stage.row()
    assert "/no/such/mount" in row["facts"]["limiters"]["refused"]
    assert not row["limiters_pending"]
    assert worker.get_limiter_config() == await stage.client.get_limiter_config("w1")
    assert worker.get_limiter_config().limits == {"worker": {"workflow": (5, 50)}}
    await stage.client.set_limiter_config("w1", limits={})
    await stage.env.advance(2)
    assert "refused" not in (await stage.row())["facts"]["limiters"]


async def test_a_worker_keeps_its_limiters_over_its_lives_and_can_be_changed_in_each(stage: Stage) -> None:
    worker = await stage.env.start_worker(worker_id="w1", lease_seconds=10)
    await stage.client.set_limiter_config("w1", limits={"worker": {"workflow": (3, None)}})
    await stage.env.settle()
    before = worker.incarnation
    stage.env.clock.move(stage.env.clock.monotonic() + 11_000_000)  # its heartbeat stood still
    await stage.env.start_worker(worker_id="w2")  # whose turn gives it up
    await stage.env.advance(1)
    assert worker.incarnation != before
    config = await stage.client.get_limiter_config("w1")
    assert config.limits == {"worker": {"workflow": (3, None)}}
    await stage.client.set_limiter_config("w1", limits={})
    await stage.env.advance(1)
    assert worker.get_limiter_config().limits == {}


async def test_a_change_of_its_own_is_seen_from_elsewhere_within_a_second(stage: Stage) -> None:
    worker = await stage.env.start_worker(worker_id="w1")
    worker.set_limiter_config(limits={"worker": {"workflow": (3, None)}})
    await stage.env.advance(1)
    assert (await stage.client.get_limiter_config("w1")).limits == {"worker": {"workflow": (3, None)}}


# -- what it says of itself


async def test_why_says_that_every_worker_is_held_back_and_by_which_limiter(stage: Stage) -> None:
    worker = await stage.env.start_worker(worker_id="w1", limits={"worker": {"workflow": (1, None)}})
    first, second = await stage.submit(2, seconds=30)
    await stage.env.advance(1)
    answer = await stage.client.why(second)
    assert [reason["kind"] for reason in answer["reasons"]] == ["workers_held_back"]
    assert "w1 by worker workflow: concurrency 1 of 1" in answer["text"]
    assert answer["earliest_start"] is None
    (held,) = worker.stats().limiters.held["workflow"]
    assert (held.level, held.limitable, held.value, held.limit) == ("worker", "workflow", 1, 1)
    facts = (await stage.row())["facts"]
    assert [(one["level"], one["limitable"], one["limit"]) for one in facts["held_back"]] == [
        ("worker", "workflow", 1)
    ]
    assert facts["held_since"] == "2026-01-05T00:00:00Z"
    await stage.client.cancel(second)
    await stage.client.cancel(first)
    await stage.env.advance(2)
    assert (await stage.row())["facts"]["held_back"] == []


async def test_the_row_has_what_each_limit_is_held_against(stage: Stage) -> None:
    limits = {"worker": {"workflow": (5, 50)}, "cluster": {"workflow": (6, None)}, "os": {"mem": 100}}
    await stage.env.start_worker(worker_id="w1", limits=limits)
    await stage.submit(2, seconds=30)
    await stage.env.advance(1)
    machine, own, cluster = (await stage.row())["facts"]["limiters"]["in_use"]
    assert (machine["level"], machine["limitable"], machine["max"]) == ("os", "mem", 100)
    assert (own["in_use"], own["max"], own["in_window"], own["max_per_window"]) == (2, 5, 2, 50)
    assert (cluster["level"], cluster["in_use"], cluster["max"]) == ("cluster", 2, 6)
    assert own["window_ends_at"] == "2026-01-05T00:01:00Z"


async def test_a_worker_reports_at_most_once_a_second_and_one_without_limits_never(stage: Stage) -> None:
    with counted(stage.env.store, "report") as reports:
        free = await stage.env.start_worker(worker_id="free")
        for _ in range(40):
            await stage.submit(2)
            await stage.env.advance(0.25)
        assert reports == []
        await stage.env.stop_worker(free)
        await stage.env.start_worker(worker_id="w1", limits={"worker": {"workflow": (1, None)}})
        for _ in range(40):
            await stage.submit(3, seconds=0.01)
            await stage.env.advance(0.25)
        assert 1 <= len(reports) <= 11


async def test_the_machine_is_read_for_a_worker_only_while_it_runs(tmp_path: Path) -> None:
    mount = ("disk", str(tmp_path))
    async with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        worker = Worker(store, Registry(), limits={"os": {mount: 100}})
        for _ in range(2):
            async with worker:
                assert mount in process_hub.os_stats()
            process_hub.tick()
            assert mount not in process_hub.os_stats()


# -- which hub, which cluster


async def test_a_clock_that_nobody_uses_is_forgotten_with_its_hub() -> None:
    clock = VirtualClock()
    limits = Limits.of(clock, "w", "c", {})
    assert Limits.of(clock, "v", "c", {}).limiter.hub is limits.limiter.hub
    gone = weakref.ref(clock)
    hubs = sum(isinstance(each, Hub) for each in gc.get_objects())
    del clock, limits
    gc.collect()
    assert gone() is None
    assert sum(isinstance(each, Hub) for each in gc.get_objects()) < hubs


def test_two_store_objects_of_one_file_are_one_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    urls = ["sqlite:///runs.db", f"sqlite:///{tmp_path}/runs.db", f"sqlite:///{tmp_path}/link/runs.db"]
    workers = [Worker(open_store(url), Registry()) for url in urls]
    assert len({worker._limits.limiter.cluster for worker in workers}) == 1
    others = [Worker(open_store(url), Registry()) for url in ("sqlite:///other.db", "sqlite://", "sqlite://")]
    assert len({worker._limits.limiter.cluster for worker in [*workers, *others]}) == 4


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://u:p@host/db", "postgresql://v@host/db?connect_timeout=3", True),
        ("postgresql://host/db", "postgresql://host/db?schema=pyrula", True),
        ("postgresql:///db?host=/run", "postgresql:///db?host=/run&schema=b", False),
        ("postgresql://host/db", "postgresql://host/other", False),
        ("postgresql://host:1/db", "postgresql://host:2/db", False),
    ],
)
def test_a_postgresql_schema_is_one_cluster_whoever_connects(one: str, other: str, same: bool) -> None:
    pytest.importorskip("psycopg")
    places = {open_store(one).place, open_store(other).place}
    assert (len(places) == 1) is same
    assert not any("u:p" in place or "p@" in place for place in places)

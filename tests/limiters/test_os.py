"""The machine's figures: what holds a worker, what never does, and how often each is asked for."""

import logging
import os

import psutil
import pytest

from pyrula.clock import SECOND
from pyrula.errors import ConfigurationError
from pyrula.limiters import WaitStarted, WaitStopped
from pyrula.limiters.cgroup import CgroupMemory
from pyrula.limiters.os import OsReadings
from tests.limiters.support import FakeMachine, made_hub

GIB = 1024**3


def test_a_reading_at_its_limit_holds_the_worker_and_says_which():
    machine = FakeMachine(mem=90, loads=(1.95, 0, 0), disks={"/": 79.9})
    hub, clock = made_hub(machine=machine)
    limiter = hub.worker("w", limits={"os": {"mem": 90, "cpu1": 500, ("disk", "/"): 80}})
    assert [str(one) for one in limiter.room("workflow").limited_by] == ["os mem: 90 of 90"]
    machine.mem = 89
    clock.to(5)
    assert limiter.room("workflow").n is None
    machine.disks["/"] = 80.0
    clock.to(60)
    assert [str(one) for one in limiter.room("workflow").limited_by] == ["os disk /: 80 of 80"]


def test_eighty_is_eighty_percent():  # field report 176
    machine = FakeMachine(mem=10)
    hub, clock = made_hub(machine=machine)
    limiter = hub.worker("w", limits={"os": {"mem": 80}, "worker": {"workflow": (7, None)}})
    assert limiter.room("workflow").n == 7
    machine.mem = 81
    clock.to(5)
    assert limiter.room("workflow").n == 0


def test_loads_are_averages_times_256_and_one_source_is_asked_once_for_all_workers():  # field report 160
    machine = FakeMachine(loads=(2.0, 1.0, 0.5))
    hub, _ = made_hub(machine=machine)
    limits = {"os": {"cpu1": 500, "cpu5": 500, "cpu15": 500}}
    workers = [hub.worker(f"w{i}", limits=limits) for i in range(10)]
    rooms = [worker.room("workflow") for worker in workers]
    assert {room.limited_by[0].value for room in rooms} == {512}
    assert hub.os_stats() == {"cpu1": 512, "cpu5": 256, "cpu15": 128}
    assert machine.asked["load"] == 1


def test_no_load_average_reads_minus_one_and_holds_nobody(caplog):  # field report 162
    machine = FakeMachine(loads=OSError("none here"), mem=95)
    hub, clock = made_hub(machine=machine)
    limits = {"os": {"cpu1": 1, "cpu5": 1, "cpu15": 1}}
    limiter = hub.worker("w", limits=limits)
    for now in range(30):
        clock.to(now)
        assert limiter.room("workflow").n is None
    assert hub.os_stats() == {"cpu1": -1, "cpu5": -1, "cpu15": -1}
    assert len([r for r in caplog.records if "cpu1" in r.getMessage()]) == 1
    limiter.set_config(limits={"os": {**limits["os"], "mem": 90}})
    assert limiter.room("workflow").n == 0


def test_a_system_without_getloadavg_reads_minus_one(monkeypatch):  # field report 162
    monkeypatch.delattr(os, "getloadavg")
    with pytest.raises(OSError):
        OsReadings().load()


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), FileNotFoundError(2, "gone")])
def test_a_mount_that_can_not_be_read_warns_once_and_holds_nobody(error, caplog):  # field report 164
    machine = FakeMachine(mem=10, disks={"/": 50.0, "/data": error})
    hub, clock = made_hub(machine=machine)
    limiter = hub.worker("w", limits={"os": {("disk", "/data"): 1, "mem": 90}})
    assert limiter.room("workflow").n is None
    machine.disks["/data"] = 50.0
    clock.to(60)
    assert limiter.room("workflow").n == 0
    machine.disks["/data"] = error  # unmounted later
    clock.to(120)
    assert limiter.room("workflow").n is None
    assert hub.os_stats()["disk", "/data"] == -1
    assert len([r for r in caplog.records if "disk /data" in r.getMessage()]) == 1
    machine.mem = 90
    clock.to(125)
    assert limiter.room("workflow").n == 0


def test_a_mount_that_does_not_exist_is_refused_with_those_that_do():
    hub, _ = made_hub(machine=FakeMachine(disks={"/": 1.0, "/data": 1.0}))
    with pytest.raises(ConfigurationError, match="mounted are /, /data"):
        hub.worker("w", limits={"os": {("disk", "/no/such/place"): 80}})


def test_short_spikes_hold_only_while_they_last():  # field report 167
    machine = FakeMachine(mem=89)
    hub, clock = made_hub(machine=machine)
    hub.node.configure(os_check_intervals={"mem": 1})
    events = []
    hub.listen(events.append)
    limiter = hub.worker("w", limits={"os": {"mem": 90}})
    polls = []
    for half in range(10):
        now = half / 2
        if now in (0, 1, 2, 3):
            machine.mem = {0: 89, 1: 91, 2: 89, 3: 91}[now]
        clock.to(now)
        if limiter.reserve("workflow") == 1:
            limiter.release("workflow")
            polls.append(now)
    assert polls == [0, 0.5, 2, 2.5]
    waits = [(type(e), e.at / SECOND) for e in events if isinstance(e, WaitStarted | WaitStopped)]
    assert waits == [(WaitStarted, 1), (WaitStopped, 2), (WaitStarted, 3)]
    assert next(e for e in events if isinstance(e, WaitStopped)).limited_by == {("os", "mem"): 1.0}


def test_what_nobody_watches_any_more_is_not_asked_for():
    machine = FakeMachine()
    hub, clock = made_hub(machine=machine)
    limiter = hub.worker("w", limits={"os": {"mem": 90}})
    limiter.set_config(limits={})
    for now in range(1, 100):
        clock.to(now)
        hub.tick()
    assert machine.asked["mem"] == 1
    assert hub.os_stats() == {}


# -- control groups, from recorded trees


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return CgroupMemory(root / "proc_self_cgroup", root / "sys")


def v2(limit, usage, cache=0):
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{usage}\n",
        "memory.stat": f"anon 5\ninactive_file {cache // 2}\nactive_file {cache - cache // 2}\n",
    }


def v1(limit, usage, cache=0):
    return {
        "memory.limit_in_bytes": f"{limit}\n",
        "memory.usage_in_bytes": f"{usage}\n",
        "memory.stat": f"inactive_file 1\ntotal_inactive_file {cache}\ntotal_active_file 0\n",
    }


def at(folder, files):
    return {f"{folder}/{name}": text for name, text in files.items()}


def test_v2_reads_the_containers_memory_every_time(tmp_path, monkeypatch):  # field reports 153, 159
    reader = tree(tmp_path, {"proc_self_cgroup": "0::/\n", **at("sys", v2(GIB, 950 * 1024**2))})
    host = type("Host", (), {"total": 64 * GIB, "percent": 0.5})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: host)
    hub, clock = made_hub(machine=OsReadings(reader))
    limiter = hub.worker("w", limits={"os": {"mem": 90}})
    for now in (0, 5, 10):
        clock.to(now)
        assert limiter.room("workflow").n == 0
        assert hub.os_stats() == {"mem": 93}


@pytest.mark.parametrize("text", ["max\n", "", "garbage\n", None])
def test_v2_without_a_usable_limit_leaves_the_hosts_figures(tmp_path, monkeypatch, caplog, text):  # 155
    files = at("sys", v2("max", GIB))
    if text is None:
        del files["sys/memory.max"]
    else:
        files["sys/memory.max"] = text
    reader = tree(tmp_path, {"proc_self_cgroup": "0::/\n", **files})
    host = type("Host", (), {"total": 64 * GIB, "percent": 17.4})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: host)
    hub, clock = made_hub(machine=OsReadings(reader))
    limiter = hub.worker("w", limits={"os": {"mem": 90}})
    for now in (0, 5, 10):
        clock.to(now)
        assert limiter.room("workflow").n is None
    assert hub.os_stats() == {"mem": 17}
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == (0 if text == "max\n" else 1)

    def broken():
        raise OSError("no memory figures")

    monkeypatch.setattr(psutil, "virtual_memory", broken)
    clock.to(15)
    assert limiter.room("workflow").n is None
    assert hub.os_stats() == {"mem": -1}


def test_the_fullest_of_nested_groups_counts(tmp_path):
    files = {
        "proc_self_cgroup": "0::/pod/box\n",
        **at("sys/pod/box", v2(8 * GIB, GIB)),
        **at("sys/pod", v2(2 * GIB, 3 * GIB // 2)),
    }
    assert tree(tmp_path, files).percent(64 * GIB) == 75.0


def test_v1_reads_its_own_files_and_leaves_page_cache_out(tmp_path):
    files = {
        "proc_self_cgroup": "5:devices:/x\n4:memory:/box\n0::/\n",
        **at("sys/memory/box", v1(GIB, GIB * 3 // 4, cache=GIB // 4)),
        **at("sys/memory", v1(9223372036854771712, 7 * GIB)),
    }
    assert tree(tmp_path, files).percent(64 * GIB) == 50.0


def test_a_hybrid_tree_is_read_where_the_memory_controller_is(tmp_path):
    files = {
        "proc_self_cgroup": "3:cpu,memory:/box\n1:name=systemd:/\n0::/box\n",
        **at("sys/memory/box", v1(GIB, GIB // 2)),
        "sys/unified/box/cgroup.controllers": "\n",
        "sys/box/memory.max": "1\n",
    }
    assert tree(tmp_path, files).percent(64 * GIB) == 50.0


@pytest.mark.parametrize("path", ["/docker/0123", "/../../box"])
def test_a_path_that_is_not_below_the_mount_means_the_mounts_root(tmp_path, path):
    files = {"proc_self_cgroup": f"4:memory:{path}\n", **at("sys/memory", v1(GIB, GIB // 4))}
    assert tree(tmp_path, files).percent(64 * GIB) == 25.0


def test_v2_leaves_page_cache_out(tmp_path):
    files = {"proc_self_cgroup": "0::/\n", **at("sys", v2(GIB, GIB, cache=GIB // 2))}
    assert tree(tmp_path, files).percent(64 * GIB) == 50.0


@pytest.mark.parametrize("text", ["", "nonsense\n", "4:cpu:/\n", None])
def test_no_control_group_is_no_limit(tmp_path, text):
    (tmp_path / "sys").mkdir()
    reader = tree(tmp_path, {} if text is None else {"proc_self_cgroup": text})
    assert reader.percent(64 * GIB) is None

"""Readings of the machine the tests run on: allocated memory, a filled file system, a busy core."""

import os
import shutil
import subprocess
import sys
import threading
import time

import psutil
import pytest

from pyrula.limiters import Hub, TaskCounter
from pyrula.limiters.os import OsReadings
from tests.limiters.support import FakeMachine


def wait_until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.fixture
def hub():
    made = Hub()
    yield made
    made.close()


@pytest.fixture
def sampler_threads(hub):
    """The threads of this test's hub: that of the process may have its own."""
    others = set(threading.enumerate())
    return lambda: [t for t in threading.enumerate() if t.name == "pyrula-limiters" and t not in others]


def test_memory_that_is_allocated_is_read_and_page_cache_is_not(tmp_path):
    readings = OsReadings()
    before = readings.memory()
    share = psutil.virtual_memory().total // 50
    held = bytearray(share)
    held[::4096] = b"x" * len(held[::4096])
    during = readings.memory()
    assert during >= before + 1
    del held
    path = tmp_path / "cached"
    with path.open("wb") as file:
        for _ in range(share // 2 // 2**20):
            file.write(bytes(2**20))
    assert readings.memory() <= during


def test_a_file_system_that_fills_up_holds_the_worker(hub, tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    mounted = shutil.which("mount") and os.geteuid() == 0
    if (
        not mounted
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", mount], check=False).returncode
    ):
        # Without the right to mount, the disk that is there is read instead, against its own figure.
        limit = psutil.disk_usage("/").percent
        assert hub.worker("w", limits={"os": {("disk", "/"): max(1, limit - 0.5)}}).room("workflow").n == 0
        return
    try:
        hub.node.configure(os_check_intervals={"disk": 0.05})
        limiter = hub.worker("w", limits={"os": {("disk", str(mount)): 80}})
        assert limiter.room("workflow").n is None
        (mount / "fill").write_bytes(bytes(7 * 2**20))
        assert wait_until(lambda: limiter.room("workflow").n == 0)
        assert hub.os_stats()["disk", str(mount)] > 80
        (mount / "fill").unlink()
        assert wait_until(lambda: limiter.room("workflow").n is None)
    finally:
        hub.close()
        subprocess.run(["umount", mount], check=True)


def test_a_busy_core_is_read_as_load(hub):
    one, five, fifteen = os.getloadavg()
    limiter = hub.worker("w", limits={"os": {"cpu1": 1, "cpu5": 10**6, "cpu15": 10**6}})
    stats = hub.os_stats()
    assert stats["cpu1"] == pytest.approx(one * 256, abs=64)
    assert stats["cpu5"] == pytest.approx(five * 256, abs=64)
    assert stats["cpu15"] == pytest.approx(fifteen * 256, abs=64)
    stop = time.monotonic() + 6  # the kernel counts runnable threads every 5 s
    while time.monotonic() < stop and limiter.room("workflow").n is None:
        sum(range(10_000))
    assert limiter.room("workflow").n == 0


def test_one_thread_samples_for_all_and_ends_with_the_last_who_needs_it(hub, sampler_threads):
    workers = [hub.worker(f"w{i}", limits={"os": {"mem": 99, "cpu1": 10**6}}) for i in range(20)]
    assert len(sampler_threads()) == 1
    for worker in workers:
        worker.close()
    assert wait_until(lambda: not sampler_threads())
    hub.worker("again", limits={"os": {"mem": 99}})
    assert len(sampler_threads()) == 1


def test_a_worker_without_limits_of_the_machine_needs_no_thread(hub, sampler_threads):
    hub.worker("w", limits={"worker": {"workflow": (1, 1)}})
    assert not sampler_threads()


def test_windows_end_on_time_while_somebody_listens(hub, sampler_threads):
    events = []
    limiter = hub.worker("w", limiter_time_windows={"workflow": 0.1})
    stop = hub.listen(events.append)
    limiter.begin("workflow")
    assert wait_until(lambda: any(e.level == "worker" and e.limitable == "workflow" for e in events))
    first = next(e for e in events if e.level == "worker" and e.limitable == "workflow")
    assert isinstance(first, TaskCounter)
    assert (first.frequency, first.concurrency, first.time_window) == (1, 1, 0.1)
    stop()
    assert wait_until(lambda: not sampler_threads())


def test_a_mount_that_hangs_holds_up_neither_memory_nor_load():
    released = threading.Event()

    class Hanging(FakeMachine):
        def disk(self, mount):
            released.wait(20)
            return 99.0

    machine = Hanging(mem=10)
    hub = Hub(readings=machine)
    hub.node.configure(os_check_intervals={"mem": 0.05, "disk": 0.05})
    try:
        limiter = hub.worker("w", limits={"os": {"mem": 90, ("disk", "/"): 80}})
        assert limiter.room("workflow").n is None
        machine.mem = 95
        assert wait_until(lambda: limiter.room("workflow").n == 0)
        assert hub.os_stats()["disk", "/"] == -1
    finally:
        released.set()
        hub.close()


def test_a_forked_child_starts_anew():
    code = (
        "import os, sys\n"
        "from pyrula.limiters import hub, node\n"
        "limiter = hub.worker('w', limits={'os': {'mem': 99}})\n"
        "limiter.begin('workflow', 3)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    made = hub.worker('w', limits={'os': {'mem': 99}, 'node': {'workflow': (1, None)}})\n"
        "    ok = made.reserve('workflow', 5) == 1 and node.stats().concurrency['workflow'] == 0\n"
        "    os._exit(0 if ok else 1)\n"
        "assert node.stats().concurrency['workflow'] == 3\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0

"""`pyrula limits`, as an operator types it, on a worker that runs."""

import asyncio
import threading

import pytest

from pyrula.workflows import Registry, Worker, WorkflowClient, open_store, workflow

registry = Registry()
_busy = threading.Event()


@workflow(registry=registry)
async def stay(ctx) -> None:
    _busy.set()
    await asyncio.Event().wait()


@pytest.fixture
def running(url):
    """Two workers in a thread, each with limits of its own; w1 executes one run, and another waits for it."""
    ready, stopping = threading.Event(), threading.Event()

    async def work() -> None:
        async with open_store(url) as store:
            full = {"worker": {"workflow": (1, 50)}, "os": {"mem": 100}}
            async with (
                Worker(store, registry, "w1", limits=full, grace_seconds=0),
                Worker(store, Registry(), "w2"),
            ):
                await WorkflowClient(store, registry).submit_many("stay", [{}, {}])
                ready.set()
                while not stopping.is_set():  # noqa: ASYNC110 - another thread says so
                    await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    assert ready.wait(10)
    assert _busy.wait(10)
    yield
    stopping.set()
    thread.join(10)
    assert not thread.is_alive()


def until(pyrula, holds, *arguments):
    """Ask until the answer is as it should be: a worker writes its row at most once a second."""
    for _ in range(40):
        found = pyrula(*arguments, "--json")
        if found.code == 0 and holds(found.json()):
            return found.json()
        threading.Event().wait(0.1)
    raise AssertionError(found)


def test_limits_are_shown_watched_and_set_while_the_worker_runs(pyrula, running):
    (w1,) = until(pyrula, lambda found: found[0]["held_back"], "limits", "get", "w1")
    assert w1["limits"] == {"os": {"mem": 100}, "worker": {"workflow": [1, 50]}}
    shown = pyrula("limits", "get")
    assert shown.code == 0
    assert "1 of 1" in shown.out and "1 of 50, ends in" in shown.out
    assert "w1 is held back by worker workflow: concurrency 1 of 1" in shown.out
    assert "no limits" in shown.out  # w2

    told = pyrula("limits", "set", "w1", "worker.workflow=2,none", "os.disk:/=100", "--poll-rate", "100/1")
    assert told.code == 0, told.err
    assert '"worker":{"workflow":[2,null]}' in told.out and "100 polls in 1 s" in told.out
    (w1,) = until(pyrula, lambda found: not found[0]["pending"], "limits", "get", "w1")
    assert w1["limits"] == {"os": {"mem": 100, "disk:/": 100}, "worker": {"workflow": [2, None]}}
    assert w1["task_poller_limiter"] == {"limit": 100, "time_window": 1.0}
    until(pyrula, lambda found: found[0]["in_use"][-1]["in_use"] == 2, "limits", "get", "w1")

    cleared = pyrula(
        "limits", "set", "--all", "--clear", "--poll-rate", "none", "--check", "1", "--json"
    ).json()
    empty = {"limits": {}, "task_poller_limiter": None, "limiter_check_frequency": 1.0}
    assert cleared == {"w1": empty, "w2": empty}
    watched = pyrula("limits", "watch", "--times", "2", "--every", "0.1")
    assert watched.code == 0
    assert "no limits" in watched.out


def test_what_no_worker_could_have_is_refused(pyrula, running):
    for arguments, said in (
        (["w1", "worker.nexus=1"], "'nexus' is refused"),
        (["w1", "cluster.workflow=0"], "node >= cluster >= worker"),
        (["w1", "os.mem=0.8"], "percent"),
        (["w1", "worker.workflow"], "is no LEVEL.LIMITABLE=LIMIT"),
        (["w1", "worker.workflow=many"], "is no number"),
        (["w1", "worker.workflow=1_0"], "is no number"),
        (["w1", "worker.workflow=٣"], "is no number"),
        (["w1", "os.mem=nan"], "is no number"),
        (["w1", "--poll-rate", "10"], "write LIMIT/SECONDS"),
        (["w1", "--poll-rate", "1_0/60"], "write LIMIT/SECONDS"),
        (["w1", "--poll-rate", "10/٦"], "write LIMIT/SECONDS"),
        (["w1", "--limits", "[]"], "object of levels"),
        (["w1"], "what is to change?"),
        ([], "which worker?"),
    ):
        refused = pyrula("limits", "set", *arguments)
        assert refused.code == 2, arguments
        assert said in " ".join(refused.err.replace("│", " ").split()), refused.err
    unknown = pyrula("limits", "set", "w9", "--clear")
    assert (unknown.code, "there are: w1, w2" in unknown.err) == (2, True)
    assert pyrula("limits", "get", "w9").code == 2
    (w1,) = pyrula("limits", "get", "w1", "--json").json()
    assert w1["limits"]["worker"] == {"workflow": [1, 50]}
    assert not w1["pending"]


def test_without_workers_there_is_nothing_to_show(pyrula):
    pyrula("migrate")
    assert "no worker is alive" in pyrula("limits", "get").out
    assert "no worker is alive" in pyrula("limits", "set", "--all", "--clear").out

"""client.blocking: the same calls, for code without an event loop."""

import asyncio
import inspect
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyrula.workflows import (
    Registry,
    StoreClosed,
    Worker,
    WorkflowClient,
    WorkflowNotFound,
    open_store,
    workflow,
)
from pyrula.workflows.client.blocking import BlockingClient

registry = Registry()


@workflow(registry=registry)
async def double(ctx, n: int) -> int:
    return 2 * n


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/runs.db"


def test_it_has_every_call_of_the_client():
    calls = {name for name, _ in inspect.getmembers(WorkflowClient, inspect.iscoroutinefunction)}
    facade = {name for name in dir(BlockingClient) if not name.startswith("_")} - {"close"}
    assert facade == {name for name in calls if not name.startswith("_")}


def test_it_submits_and_lists_without_an_event_loop(url):
    with WorkflowClient(open_store(url), registry).blocking as calls:
        run_id = calls.submit("double", {"n": 1})
        assert calls.get(run_id).state == "queued"
        with pytest.raises(WorkflowNotFound):
            calls.submit("nonesuch")
        with pytest.raises(TimeoutError):
            calls.result(run_id, timeout=0.01)


def test_any_thread_may_call_and_closing_ends_the_thread(url):
    before = threading.active_count()
    calls = WorkflowClient(open_store(url), registry).blocking
    with ThreadPoolExecutor(4) as threads:
        run_ids = list(threads.map(lambda n: calls.submit("double", {"n": n}), range(20)))
    assert len(set(run_ids)) == 20
    assert len(calls.runs()) == 20
    calls.close()
    calls.close()
    assert threading.active_count() == before
    with pytest.raises(StoreClosed, match="closed"):
        calls.runs()


async def test_beside_a_worker_it_uses_the_workers_loop(url):
    async with open_store(url) as store:
        client = WorkflowClient(store, registry)
        async with Worker(store, registry):
            assert await asyncio.to_thread(client.blocking.execute, "double", {"n": 21}) == 42
            with pytest.raises(RuntimeError, match="await the client's own"):
                client.blocking.runs()
        await asyncio.to_thread(client.blocking.close)
        assert len(await client.runs()) == 1, "the store lives on: it is the worker's"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_is_told_to_make_its_own(url):
    with WorkflowClient(open_store(url), registry).blocking as calls:
        calls.submit("double", {"n": 1})
        child = os.fork()
        if child == 0:
            try:
                calls.runs()
            except RuntimeError as error:
                os._exit(0 if "forked" in str(error) else 3)
            os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(calls.runs()) == 1

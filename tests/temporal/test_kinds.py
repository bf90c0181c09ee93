"""Every limitable on a real server: regular, eager, session, direct, Nexus; executions and workflow tasks."""

import asyncio
import json
import uuid

import nexusrpc
import nexusrpc.handler
import pytest
import temporalio.api.nexus.v1
import temporalio.api.operatorservice.v1
from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from pyrula.errors import ConfigurationError
from pyrula.temporal import WorkerLimiter
from tests.limiters.support import made_hub
from tests.temporal import support
from tests.temporal.support import Chain, Lives, LocalFanOut, Parent, fan_out, name, running, until


class Peaks:
    """The most that a limiter's own figures showed, watched every 2 ms."""

    def __init__(self, limiter):
        self.limiter, self.most, self.began = limiter, {}, {}

    async def __aenter__(self):
        self.watch = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *args):
        self.watch.cancel()

    async def _watch(self):
        while True:
            for kind, running_now in self.limiter.stats().concurrency.items():
                self.most[kind] = max(self.most.get(kind, 0), running_now)
            await asyncio.sleep(0.002)


# -- activities


async def test_eager_activities_are_counted_apart_and_refused_over_their_limit(client, hub, tally):
    queue = name()
    limits = {"worker": {"activity_eager": (2, None)}}
    limiter = WorkerLimiter("w", hub=hub, limits=limits)
    async with Peaks(limiter) as peaks, running(client, queue, limiter):
        await (await fan_out(client, queue, 8, 0.1)).result()
        frequency = limiter.stats().frequency
    assert peaks.most["activity_eager"] == 2
    assert frequency["activity_eager"] == 2
    assert frequency["activity_regular"] == 6


async def test_without_an_eager_limit_a_regular_one_means_what_it_says(client, hub, tally):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, limits={"cluster": {"activity_regular": (2, None)}})
    async with running(client, queue, limiter):
        await (await fan_out(client, queue, 8, 0.05)).result()
        assert limiter.stats().frequency["activity_eager"] == 0
    assert tally.peak == 2


async def test_activities_of_a_session_worker_are_session_activities(client, hub, tally):
    queue, own = name(), name("session")
    limits = {"worker": {"activity_session": (2, None)}}
    limiter = WorkerLimiter("w", hub=hub, session=True, limits=limits)
    async with running(client, queue, activities=[]), running(client, own, limiter, workflows=[]):
        await (await fan_out(client, queue, 6, 0.05, queue=own)).result()
        assert limiter.stats().frequency["activity_session"] == 6
    assert tally.peak == 2
    with pytest.raises(ConfigurationError, match="activity_regular"):
        WorkerLimiter("w", hub=hub, session=True, limits={"worker": {"activity_regular": (2, None)}})


async def test_local_activities_are_direct_ones(client, hub, tally):
    queue = name()
    limits = {"worker": {"activity_direct": (2, None)}}
    limiter = WorkerLimiter("w", hub=hub, limits=limits, limiter_check_frequency=0.05)
    async with running(client, queue, limiter):
        spec = json.dumps({"n": 7, "seconds": 0.05})
        await client.execute_workflow(LocalFanOut.run, spec, id=name("wf"), task_queue=queue)
        await until(lambda: limiter.stats().concurrency["activity_direct"] == 0)
        assert limiter.stats().frequency["activity_direct"] == 7
        assert limiter.stats().frequency["activity_regular"] == 0
    assert tally.peak == 2


# -- Nexus


@nexusrpc.service
class Echo:
    say: nexusrpc.Operation[str, str]


@nexusrpc.handler.service_handler(service=Echo)
class EchoHandler:
    @nexusrpc.handler.sync_operation
    async def say(self, ctx: nexusrpc.handler.StartOperationContext, text: str) -> str:
        support.tally.enter()
        try:
            await asyncio.sleep(0.1)
        finally:
            support.tally.leave()
        return text


@workflow.defn
class Calls:
    @workflow.run
    async def run(self, endpoint: str) -> int:
        echo = workflow.create_nexus_client(service=Echo, endpoint=endpoint)
        said = await asyncio.gather(*(echo.execute_operation(Echo.say, str(i)) for i in range(6)))
        return len(said)


async def test_nexus_operations(client, hub, tally):
    queue, handling, endpoint = name(), name("nexus"), f"e-{uuid.uuid4().hex[:8]}"
    await client.operator_service.create_nexus_endpoint(
        temporalio.api.operatorservice.v1.CreateNexusEndpointRequest(
            spec=temporalio.api.nexus.v1.EndpointSpec(
                name=endpoint,
                target=temporalio.api.nexus.v1.EndpointTarget(
                    worker=temporalio.api.nexus.v1.EndpointTarget.Worker(
                        namespace=client.namespace, task_queue=handling
                    )
                ),
            )
        )
    )
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"nexus": (2, None)}})
    options = {"workflows": [], "activities": [], "nexus_service_handlers": [EchoHandler()]}
    sandboxless = {"workflows": [Calls], "workflow_runner": UnsandboxedWorkflowRunner()}
    async with running(client, queue, **sandboxless), running(client, handling, limiter, **options):
        assert await client.execute_workflow(Calls.run, endpoint, id=name("wf"), task_queue=queue) == 6
        assert limiter.stats().frequency["nexus"] == 6
        await until(lambda: limiter.stats().concurrency["nexus"] == 0)
    assert tally.peak == 2


# -- executions


async def start_lives(client, queue, n):
    return [await client.start_workflow(Lives.run, id=name("wf"), task_queue=queue) for _ in range(n)]


async def let_go(handles):
    for handle in handles:
        await handle.signal(Lives.go)
    await asyncio.gather(*(handle.result() for handle in handles))


async def test_executions_count_as_long_as_they_live(client, hub):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub)
    async with running(client, queue, limiter, activities=[]):
        handles = await start_lives(client, queue, 20)
        await until(lambda: limiter.stats().concurrency["workflow"] == 20)
        await asyncio.sleep(0.3)
        assert limiter.stats().concurrency["workflow"] == 20
        await let_go(handles)
        await until(lambda: limiter.stats().concurrency["workflow"] == 0)
        assert limiter.stats().frequency["workflow"] == 20


async def test_an_execution_that_left_the_cache_and_came_back_began_once(client, hub):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub)
    async with Peaks(limiter) as peaks:
        async with running(client, queue, limiter, activities=[], max_cached_workflows=5):
            handles = await start_lives(client, queue, 20)
            for handle in handles:
                assert await handle.query(Lives.ping) == "pong"
            await let_go(handles)
            await until(lambda: limiter.stats().concurrency["workflow"] == 0)
            assert limiter.stats().frequency["workflow"] == 20
    assert 5 <= peaks.most["workflow"] <= 10


async def test_without_a_cache_executions_still_begin_once(client, hub):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"workflow": (2, None)}})
    async with Peaks(limiter) as peaks:
        async with running(client, queue, limiter, activities=[], max_cached_workflows=0):
            handles = await start_lives(client, queue, 6)
            await let_go(handles)
            await until(lambda: limiter.stats().concurrency["workflow"] == 0)
            assert limiter.stats().frequency["workflow"] == 6
    assert peaks.most["workflow"] <= 2


async def test_no_more_executions_than_the_limit_live_on_the_worker(client, hub):
    queue = name()
    limiter = WorkerLimiter(
        "w", hub=hub, limits={"worker": {"workflow": (5, None)}}, limiter_check_frequency=0.05
    )
    async with Peaks(limiter) as peaks, running(client, queue, limiter, activities=[]):
        handles = await start_lives(client, queue, 12)
        await until(lambda: limiter.stats().concurrency["workflow"] == 5)
        await asyncio.sleep(0.3)
        assert limiter.stats().frequency["workflow"] == 5
        await let_go(handles)
        await until(lambda: limiter.stats().concurrency["workflow"] == 0)
        assert limiter.stats().frequency["workflow"] == 12
    assert peaks.most["workflow"] == 5


async def test_a_held_worker_still_carries_on_the_executions_it_has(client, hub, tally):
    """Sticky polls are never held, and a limit on executions does not hold their activities."""
    queue = name()
    limits = {"worker": {"workflow": (1, None)}, "node": {"workflow": (1, None)}}
    limiter = WorkerLimiter("w", hub=hub, limits=limits, limiter_check_frequency=0.05)
    async with running(client, queue, limiter):
        await asyncio.gather(*[(await fan_out(client, queue, 3, 0.05)).result() for _ in range(3)])
    assert len(tally.starts) == 9


async def test_continued_as_new_and_children_are_executions_of_their_own(client, hub):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub)
    async with running(client, queue, limiter, activities=[]):
        assert await client.execute_workflow(Chain.run, 4, id=name("wf"), task_queue=queue) == 0
        assert limiter.stats().frequency["workflow"] == 5
        assert await client.execute_workflow(Parent.run, 3, id=name("wf"), task_queue=queue) == 3
        assert limiter.stats().frequency["workflow"] == 9
        await until(lambda: limiter.stats().concurrency["workflow"] == 0)


async def test_the_window_of_executions_is_exact(client):
    """Windows end when the test says so, so that it does not matter how fast the machine fills them."""
    hub, clock = made_hub()
    queue = name()
    limiter = WorkerLimiter(
        "w", hub=hub, limits={"worker": {"workflow": (None, 3)}}, limiter_check_frequency=0.05
    )
    async with running(client, queue, limiter, activities=[]):
        handles = [
            await client.start_workflow(Chain.run, 0, id=name("wf"), task_queue=queue) for _ in range(9)
        ]
        for window in range(1, 4):
            await until(lambda: limiter.stats().frequency["workflow"] >= 3)
            await asyncio.sleep(0.3)
            assert limiter.stats().frequency["workflow"] == 3
            clock.to(60.0 * window)
        await asyncio.gather(*(handle.result() for handle in handles))
    hub.close()


async def test_eager_starts_are_executions_like_any_other(client, hub):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, limits={"worker": {"workflow": (3, None)}})
    worker_client = client
    options = limiter.worker_options()
    async with Worker(worker_client, task_queue=queue, workflows=support.WORKFLOWS, **options):
        await asyncio.sleep(0.2)
        for _ in range(6):
            await client.execute_workflow(
                Chain.run, 0, id=name("wf"), task_queue=queue, request_eager_start=True
            )
        await until(lambda: limiter.stats().concurrency["workflow"] == 0)
        assert limiter.stats().frequency["workflow"] == 6


async def test_workflow_tasks_are_the_other_way_to_count(client, hub):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub, workflow_counts="tasks", limits={"worker": {"workflow": (2, None)}})
    async with Peaks(limiter) as peaks, running(client, queue, limiter, activities=[]):
        handles = await start_lives(client, queue, 8)
        await until(lambda: limiter.stats().frequency["workflow"] >= 8)
        assert limiter.stats().concurrency["workflow"] <= 2
        await let_go(handles)
        await until(lambda: limiter.stats().frequency["workflow"] >= 16)
        await until(lambda: limiter.stats().concurrency["workflow"] == 0)
    assert peaks.most["workflow"] <= 2


async def test_a_runner_of_the_users_own_is_kept_and_counted(client, hub):
    queue = name()
    limiter = WorkerLimiter("w", hub=hub)
    options = limiter.worker_options(workflow_runner=UnsandboxedWorkflowRunner())
    async with Worker(client, task_queue=queue, workflows=support.WORKFLOWS, **options):
        assert await client.execute_workflow(Chain.run, 1, id=name("wf"), task_queue=queue) == 0
    assert limiter.stats().frequency["workflow"] == 2

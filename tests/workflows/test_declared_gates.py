"""The gates that declarations open: which go together, on one workflow and in one process. (Report 48.)"""

from __future__ import annotations

import pytest

from pyrula.errors import ConfigurationError
from pyrula.policies import Limit, Rate
from pyrula.workflows.workflow import Registry, workflow


@pytest.fixture
def registry():
    return Registry()


async def body(ctx, tenant_id: str = "", account: str = "") -> None: ...


@pytest.mark.parametrize(
    "policies",
    [
        {"concurrency": [Limit("tenant_id", 1), Limit("tenant_id", 1)]},
        {"concurrency": [Limit("tenant_id", 1), Limit("tenant_id", 5)]},
        {"concurrency": [Limit("tenant_id", 1, name="g"), Limit("account", 1, name="g")]},
        {"concurrency": [Limit("tenant_id", 1, shared="g"), Limit("account", 1, shared="g")]},
        {"concurrency": [Limit("tenant_id", 1, name="body.limit"), Limit("account", 1)]},
        {"rate_limit": [Rate("tenant_id", 1), Rate("tenant_id", 1.0)]},
        {"rate_limit": [Rate("tenant_id", 1, name="g"), Rate("account", 1, shared="g")]},
    ],
)
def test_the_same_gate_twice_on_one_workflow_is_refused(registry, policies):
    with pytest.raises(ConfigurationError, match=r"workflow 'body': .*keep"):
        workflow(registry=registry, **policies)(body)
    assert len(registry) == 0


@pytest.mark.parametrize(
    "policies",
    [
        {"concurrency": [Limit("tenant_id", 1), Limit("account", 1)]},
        {"concurrency": [Limit("tenant_id", 1), Limit("tenant_id", 5, shared="all")]},
        {"concurrency": [Limit("tenant_id", 1), Limit("tenant_id", 5, hold="run")]},
        {"rate_limit": [Rate("tenant_id", 1), Rate("tenant_id", 0.01, 100)]},
        {"concurrency": Limit("tenant_id", 1, shared="g"), "rate_limit": Rate("tenant_id", 1, shared="g")},
        {"concurrency": []},
    ],
)
def test_gates_that_count_different_things_go_together(registry, policies):
    workflow(registry=registry, **policies)(body)


def test_a_shared_gate_has_one_number_in_a_process(registry):
    workflow(name="a", concurrency=Limit(None, 3, shared="openai"), registry=registry)(body)
    workflow(name="b", concurrency=Limit(None, 3, shared="openai"), registry=registry)(body)
    for policy, told in (
        ({"concurrency": Limit("tenant_id", 4, shared="openai")}, "max=4 here and max=3 in workflow 'a'"),
        ({"concurrency": Limit("tenant_id", 3, name="openai")}, "also a gate of workflow 'a'"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            workflow(name="c", registry=registry, **policy)(body)
    workflow(name="c", rate_limit=Rate(None, 3, shared="openai"), registry=registry)(body)
    with pytest.raises(ConfigurationError, match="per_second=3, burst=9 here and per_second=3, burst=3"):
        workflow(name="d", rate_limit=Rate(None, 3, 9, shared="openai"), registry=registry)(body)


def test_a_gate_of_ones_own_is_not_taken_by_another_workflow(registry):
    workflow(name="a", concurrency=Limit(None, 3), registry=registry)(body)
    with pytest.raises(
        ConfigurationError, match=r"'b': gate 'a.limit' is also a gate of workflow 'a'; write shared="
    ):
        workflow(name="b", concurrency=Limit(None, 3, name="a.limit"), registry=registry)(body)

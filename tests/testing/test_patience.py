"""A moment of virtual time in which much happens takes as long as it needs; one without an end is told."""

import threading
import time

import pytest

from pyrula.testing import Environment, environment
from pyrula.testing.environment import NotSettled
from pyrula.workflows import Limit, Registry, RetryAfter, workflow


@pytest.fixture
def registry():
    return Registry()


def on_the_loop(seconds):
    """Work of a body's own, during which the loop is never quiet."""
    time.sleep(seconds)


async def test_what_begins_anew_without_end_and_without_time_is_told(registry, monkeypatch):
    monkeypatch.setattr(environment, "_GIVE_UP_SECONDS", 0.5)
    attempts = 0

    @workflow(registry=registry)
    async def refused(ctx) -> None:
        nonlocal attempts
        attempts += 1
        raise RetryAfter(0)

    async with Environment(workflows=registry) as env:
        run_id = await env.client.submit("refused")
        with pytest.raises(NotSettled, match="RetryAfter"):
            await env.advance(1)
        assert attempts > 1
        assert env.now == 0
        assert await env.client.cancel(run_id)
        await env.advance(1)


async def test_a_load_that_takes_long_at_one_moment_is_waited_for(registry, monkeypatch):
    monkeypatch.setattr(environment, "_GIVE_UP_SECONDS", 1.5)

    @workflow(registry=registry, concurrency=Limit(key=None, max=1))
    async def busy(ctx) -> None:
        on_the_loop(0.05)

    async with Environment(workflows=registry) as env:
        await env.client.submit_many("busy", [{}] * 40)
        await env.advance(0)
        assert len(await env.client.runs(state="completed")) == 40


async def test_a_load_of_which_parts_end_and_others_come_is_waited_for(registry, monkeypatch):
    monkeypatch.setattr(environment, "_GIVE_UP_SECONDS", 1.5)

    @workflow(registry=registry)
    async def parent(ctx) -> None:
        for _ in range(5):
            await ctx.run_child("child")

    @workflow(registry=registry)
    async def child(ctx) -> None:
        on_the_loop(0.02)

    async with Environment(workflows=registry, max_concurrent_runs=10) as env:
        await env.client.submit_many("parent", [{}] * 30)
        await env.advance(0)
        assert len(await env.client.runs(state="completed", limit=200)) == 180


async def test_threads_that_take_long_at_one_moment_are_waited_for(registry, monkeypatch):
    monkeypatch.setattr(environment, "_GIVE_UP_SECONDS", 1.5)

    @workflow(registry=registry, concurrency=Limit(key=None, max=1))
    async def threaded(ctx) -> None:
        await ctx.step(time.sleep, 0.05)

    async with Environment(workflows=registry) as env:
        await env.client.submit_many("threaded", [{}] * 40)
        await env.advance(0)
        assert len(await env.client.runs(state="completed")) == 40


async def test_a_thread_that_does_not_end_is_told(registry, monkeypatch):
    monkeypatch.setattr(environment, "_GIVE_UP_SECONDS", 0.4)
    over = threading.Event()

    @workflow(registry=registry)
    async def stuck(ctx) -> None:
        await ctx.step(over.wait, 30)

    async with Environment(workflows=registry) as env:
        await env.client.submit("stuck")
        with pytest.raises(NotSettled, match="1 threads of steps"):
            await env.advance(1)
        over.set()
        await env.advance(1)


async def test_a_chain_of_runs_without_end_and_without_time_is_told(registry, monkeypatch):
    monkeypatch.setattr(environment, "_GIVE_UP_SECONDS", 0.2)
    ends = False

    @workflow(registry=registry)
    async def link(ctx) -> None:
        if not ends:
            await ctx.start_child("link", {})

    async with Environment(workflows=registry) as env:
        await env.client.submit("link")
        with pytest.raises(NotSettled):
            await env.advance(1)
        ends = True
        await env.advance(1)

"""What a worker logs of attempts that did not go well."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyrula.errors import RunFailed
from pyrula.testing import Environment
from pyrula.workflows import Limit, Registry, Retry, RetryAfter, workflow


async def test_an_attempt_that_fails_and_a_run_that_is_set_aside_are_one_line_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry, asked = Registry(), iter(("one", "two"))

    @workflow(registry=registry, retry=Retry(max_attempts=2, initial_seconds=2, jitter=0))
    async def fails(ctx: Any) -> None:
        raise ConnectionError(f"no line {ctx.attempt}")

    @workflow(registry=registry)
    async def changes(ctx: Any) -> None:
        await ctx.step(nothing, name=next(asked))
        await ctx.sleep(1)

    @workflow(registry=registry)
    async def fine(ctx: Any) -> None:
        await ctx.sleep(1)

    async def nothing() -> None: ...

    with caplog.at_level(logging.INFO, "pyrula.run"):
        async with Environment(workflows=registry) as env:
            for name in ("fails", "changes", "fine"):
                await env.client.submit(name, run_id=name)
            await env.advance(10)
    said = {each.message: each for each in caplog.records}
    assert len(caplog.records) == 3 and {each.levelname for each in caplog.records} == {"WARNING"}
    assert (
        said[
            "run fails of fails, attempt 1 failed, the next begins in 2 s: ConnectionError: no line 1"
        ].__dict__["run_id"]
        == "fails"
    )
    assert "run fails of fails, attempt 2 failed, and no attempt is left: ConnectionError: no line 2" in said
    (aside,) = [text for text, each in said.items() if each.__dict__["workflow"] == "changes"]
    assert aside.startswith("run changes of changes, attempt 1 was set aside: NonDeterministicWorkflow: ")
    assert "step 'one'" in aside and "step 'two'" in aside


class Broken(logging.Handler):
    """As a program's own may be."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("nowhere to write it")


async def test_a_log_that_fails_keeps_no_run_from_ending() -> None:
    registry, log, broken = Registry(), logging.getLogger("pyrula.run"), Broken()

    @workflow(registry=registry, retry=Retry(max_attempts=1))
    async def fails(ctx: Any) -> None:
        raise ConnectionError("no line")

    log.addHandler(broken)
    try:
        async with Environment(workflows=registry) as env:
            with pytest.raises(RunFailed, match="no line"):
                await env.until(env.client.execute("fails"))
    finally:
        log.removeHandler(broken)


async def test_a_retry_after_that_names_no_gate_of_the_run_is_told_for_it_closes_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry, again = Registry(), set[str]()

    @workflow(registry=registry, concurrency=Limit("tenant", 5))
    async def calls(ctx: Any, tenant: str, gate: str) -> None:
        if ctx.run_id not in again:
            again.add(ctx.run_id)
            raise RetryAfter(5, gate=gate)

    with caplog.at_level(logging.INFO, "pyrula.run"):
        async with Environment(workflows=registry) as env:
            for gate in ("calls.limit", "calls.limt"):
                await env.client.submit("calls", {"tenant": gate, "gate": gate}, run_id=gate)
            await env.advance(10)
            assert {run.state for run in await env.client.runs()} == {"completed"}
    (record,) = caplog.records
    assert record.message.startswith(
        "run calls.limt of calls: RetryAfter names gate 'calls.limt', which is none of this run's (calls.limit)"
    )

"""What a type checker knows of a user's program: what a workflow answers, and what a child may be told."""

from __future__ import annotations

import sys
from pathlib import Path

from mypy import api

PROGRAM = """
from datetime import timedelta
from typing import Any, assert_type
from pyrula.limiters import node
from pyrula.workflows import Context, Every, Limit, PollRate, Retry, Worker, WorkflowClient, workflow

@workflow
async def plain(ctx: Context, n: int) -> list[int]:
    return [n]

@workflow(concurrency=Limit("n", 1))
async def parent(ctx: Context) -> str:
    assert_type(await ctx.run_child(plain, {"n": 1}, priority=1), list[int])
    assert_type(await ctx.run_child("plain", {"n": 1}), Any)
    assert_type(await ctx.start_child(plain, {"n": 1}), str)
    await ctx.run_child(plain, prioritee=1)  # wrong
    return "done"

async def main(client: WorkflowClient) -> None:
    assert_type(await client.execute(plain, {"n": 1}), list[int])
    assert_type(await client.execute("plain", {"n": 1}), Any)
    assert_type(client.blocking.execute(parent), str)
    assert_type(await client.submit(plain), str)

async def durations(client: WorkflowClient) -> None:
    second = timedelta(seconds=1)
    Retry(initial_seconds=second, max_seconds=second), Every(second)
    worker = Worker(
        client.store, lease_seconds=second, grace_seconds=second, limiter_check_frequency=second,
        limiter_time_windows={"workflow": second}, task_poller_limiter=PollRate(1, second),
    )
    worker.set_limiter_config(limiter_check_frequency=second)
    node.configure(limiter_time_windows={"workflow": second})
    await client.set_limiter_config("w", limiter_check_frequency=second)
    await client.submit("plain", delay=second, expires_in=second)
    await client.result("r", timeout=second)
    await client.pause("gate", until=second)
    await worker.stop(second)
"""


def test_a_type_checker_knows_what_a_workflow_answers_and_what_a_child_may_be_told(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    told, trouble, _ = api.run(
        ["--strict", "--no-error-summary", "--python-executable", sys.executable, str(program)]
    )
    assert (trouble, told.count("error:")) == ("", 1), told
    assert f"program.py:{PROGRAM[: PROGRAM.index('# wrong')].count(chr(10)) + 1}: error:" in told
    assert '"prioritee"' in told

"""What the tests of worker processes see of them."""

import asyncio
import time

from pyrula.workflows import WorkflowClient, open_store
from tests.cli.shop import registry


def within(seconds, holds):
    """What `holds` answers, once that is true."""
    until = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(0.02)
    return found


def notes_of(path, count, within=15.0):
    """The notes, once there are so many."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) >= count:
            return lines
        time.sleep(0.02)
    raise AssertionError(f"{path} has {path.read_text() if path.exists() else 'nothing'} after {within} s")


def submit(url, name, **params):
    async def submitting():
        async with open_store(url) as store:
            return await WorkflowClient(store, registry).submit(name, params)

    return asyncio.run(submitting())


def state(url, run_id):
    async def looking():
        async with open_store(url) as store:
            (gates,) = [await store.gates("slow.limit")]
            return (await store.get(run_id)).state, [gate.in_use for gate in gates]

    return asyncio.run(looking())

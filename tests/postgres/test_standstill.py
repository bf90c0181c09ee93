"""A process that stands still, stopped in the middle of a turn or held up by a body: the others go on.

The 20 s of the body are measured in a thread from the first test of this file on, so that they overlap with the rest.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pyrula.workflows import WorkflowClient, open_store
from tests.postgres.crew import Crew, declare
from tests.postgres.server import Server

pytestmark = pytest.mark.xdist_group("standstill")
BLOCKED_SECONDS = 20.0
HOOK = 4711
"""An advisory lock of the tests' own, on which a turn is made to wait where it is wanted."""


class Blocked:
    """A body that holds its worker's loop up, and what other runs waited meanwhile. waits: s from submit to result."""

    def __init__(self, url: str, folder: Path) -> None:
        self.waits: list[float] = []
        self.result: object = None
        self._crew = Crew(url, folder, lease=30.0)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._measure()))
        self._crew.start()  # in this thread, with which they may not end
        self._crew.start()
        self._thread.start()

    async def _measure(self) -> None:
        async with open_store(self._crew.url) as store:
            client = WorkflowClient(store, registry=declare(str(self._crew.notes)))
            await asyncio.wait_for(_all_alive(store, 2), 60)
            blocker = await client.submit("storm", {"k": "block", "block": BLOCKED_SECONDS})
            ended = asyncio.ensure_future(client.result(blocker, timeout=90))
            while blocker not in self._crew.notes.read_text():  # noqa: ASYNC110 - a file sets no event
                await asyncio.sleep(0.01)
            number = 0
            while not ended.done():
                began = time.monotonic()
                await asyncio.wait_for(client.execute("storm", {"k": f"k{number}"}), 60)
                self.waits.append(time.monotonic() - began)
                number += 1
                await asyncio.wait([ended], timeout=0.1)
            self.result = await ended

    def close(self) -> None:
        self._thread.join(120)
        self._crew.close()


@pytest.fixture(scope="module", autouse=True)
def blocked(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blocked]:
    made = Blocked(postgres_server.url("standstill_blocked"), tmp_path_factory.mktemp("blocked"))
    yield made
    made.close()


@pytest.mark.parametrize("table", ["leases", "clock"], ids=["as it claims", "as it commits"])
async def test_a_worker_stopped_in_the_middle_of_a_turn_holds_the_others_up_for_less_than_3_s(
    postgres_server: Server, schema: str, tmp_path: Path, table: str
) -> None:
    crew = Crew(postgres_server.url(schema), tmp_path, lease=30.0)
    try:
        async with open_store(crew.url) as store:
            client = WorkflowClient(store, registry=declare(str(crew.notes)))
            stopped = crew.start("stopped")
            crew.start()
            await asyncio.wait_for(_all_alive(store, 2), 60)
            with psycopg.connect(postgres_server.url(), autocommit=True) as gate:
                _wait_in_turns_at(gate, schema, table)
                gate.execute("SELECT pg_advisory_lock(%s)", (HOOK,))
                ids: list[str] = []
                while True:
                    while not gate.execute(ONE_WAITS, (HOOK,)).fetchone():
                        ids.append(await client.submit("storm", {"k": f"k{len(ids)}"}))
                    stopped.send_signal(signal.SIGSTOP)  # in its turn, with the shard's lock
                    if gate.execute(ONE_WAITS, (HOOK,)).fetchone():
                        break
                    stopped.send_signal(signal.SIGCONT)  # the server had given that turn up
                gate.execute("SELECT pg_advisory_unlock(%s)", (HOOK,))
                began = time.monotonic()
            after = await asyncio.wait_for(client.execute("storm", {"k": "after"}), 60)
            assert after == "after"
            ended = await asyncio.gather(*(client.result(run_id, timeout=60) for run_id in ids))
            stopped.send_signal(signal.SIGCONT)
            assert await asyncio.wait_for(client.execute("storm", {"k": "again"}), 60) == "again"
            assert await store.check() == []
        assert ended == [f"k{n}" for n in range(len(ids))]
        (first,) = (stay.begin for stay in crew.stays() if stay.key == "after")
        assert 0.5 < first - began < 3  # it stood in the way, and not for long
    finally:
        crew.close()


ONE_WAITS = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"


def _wait_in_turns_at(gate: psycopg.Connection[object], schema: str, table: str) -> None:
    """Have turns of the worker that is to be stopped wait for the hook, where they hold the shard's lock."""
    gate.execute(
        f"""
        CREATE FUNCTION {schema}.hook() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF current_setting('application_name') = 'stopped' THEN
                PERFORM pg_advisory_xact_lock_shared({HOOK});
            END IF;
            RETURN NEW;
        END $$
        """
    )
    gate.execute(
        f"CREATE TRIGGER hook BEFORE INSERT ON {schema}.{table} FOR EACH ROW EXECUTE FUNCTION {schema}.hook()"
    )


async def _all_alive(store: object, workers: int) -> None:
    while len(await store.workers()) < workers:  # type: ignore[attr-defined]  # noqa: ASYNC110 - a store; processes set no event
        await asyncio.sleep(0.02)


@pytest.mark.timeout(200)
def test_a_body_that_blocks_its_loop_for_20_s_delays_nobody(blocked: Blocked) -> None:
    blocked.close()
    assert blocked.result == "block"
    assert len(blocked.waits) > 10
    assert max(blocked.waits) < 2, sorted(blocked.waits)[-5:]

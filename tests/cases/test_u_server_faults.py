"""U, on PostgreSQL only: transactions that the server refuses, and connections that break."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from pyrula.workflows import Limit, Registry, WorkflowClient, open_store, workflow
from pyrula.workflows.worker import Worker
from tests import stores
from tests.cases.scene import OTHER
from tests.cases.wire import Wire
from tests.postgres.server import Server

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif("postgres" not in stores.kinds(), reason="these faults are a server's")
_names = count(1)
RESULT = "what the body returned"


class Plant:
    """A worker and a client on a schema of its own, behind a wire that may break.

    executions: how often the body of each run has run. schema: of the store, and the name of its sessions.
    """

    def __init__(self, server: Server) -> None:
        self.schema = f"faults_{os.getpid()}_{next(_names)}"
        self.wire = Wire(server.port)
        self.executions: Counter[str] = Counter()
        self._server = server
        self._registry = Registry()

        @workflow(name="w", registry=self._registry, concurrency=Limit("k", 1))
        async def work(ctx: Any, k: str, seconds: float = 0, note: str = "") -> str:
            self.executions[ctx.run_id] += 1
            await asyncio.sleep(seconds)
            return RESULT + note

    async def start(self, lease_seconds: float) -> None:
        """Open the store through the wire, and start the worker."""
        port = await self.wire.open()
        url = self._server.url(self.schema, port=port) + f"&application_name={self.schema}"
        self.store = open_store(url)
        await self.store.connect()
        self.client = WorkflowClient(self.store, self._registry)
        self._worker = Worker(self.store, self._registry, lease_seconds=lease_seconds)
        self._running = asyncio.ensure_future(self._worker.run())
        await self.client.execute("w", {"k": "first of all"}, timeout=30)

    async def stop(self) -> None:
        """Stop all of it."""
        await self._worker.stop(5)
        await self._running
        assert await self.store.check() == []
        await self.store.close()
        await self.wire.close()

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Ask the server itself, past the wire."""
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            connection.execute(f"SET search_path TO {self.schema}")
            cursor = connection.execute(text)  # type: ignore[call-overload]  # a test's own text
            return list(cursor.fetchall()) if cursor.description else []

    def spoil(self, table: str, when: str, deed: str, times: int) -> None:
        """Have the server do `deed` in the first updates of `table` for which `when` holds."""
        self.sql(
            f"""
            CREATE SEQUENCE fault;
            CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('{self.schema}.fault') <= {times} THEN {deed}; END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER spoil BEFORE UPDATE ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION spoil();
            """
        )

    def spoiled(self) -> int:
        """How many such updates there were, spoiled or not."""
        return int(self.sql("SELECT last_value FROM fault")[0][0])

    async def runs_once(self, run_ids: list[str]) -> None:
        """Raise unless these and one of another key end well, each executed once, and their slots are free."""
        other = await self.client.submit("w", {"k": OTHER})
        for run_id in (*run_ids, other):
            assert (await self.client.result(run_id, timeout=30)).startswith(RESULT)
            assert self.executions[run_id] == 1
            assert (await self.client.get(run_id)).state == "completed"
        assert all(gate.in_use == 0 for gate in await self.client.gates())


@pytest_asyncio.fixture
async def plant(postgres_server: Server) -> AsyncIterator[Callable[[float], Any]]:
    made = Plant(postgres_server)
    await made.start(lease_seconds=2)
    yield made
    await made.stop()


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_case_148_a_refused_end_is_written_again_and_once(plant: Plant, code: str) -> None:
    refusal = f"RAISE EXCEPTION 'as the test wants' USING ERRCODE = '{code}'"
    plant.spoil("runs", "NEW.state = 'completed'", refusal, times=2)
    ids = [await plant.client.submit("w", {"k": "k"}) for _ in range(2)]
    await plant.runs_once(ids)
    assert plant.spoiled() > 2


@pytest.mark.parametrize("side", ["before", "after"])
async def test_case_148_an_end_whose_connection_breaks_is_written_once(plant: Plant, side: Any) -> None:
    plant.wire.arm(f"{RESULT} of the case", side)
    ids = [await plant.client.submit("w", {"k": "k", "note": note}) for note in (" of the case", "")]
    await plant.runs_once(ids)
    assert plant.wire.cuts == 1


async def test_case_149_a_worker_whose_idle_connections_were_ended_goes_on(plant: Plant) -> None:
    ended = plant.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE application_name = '{plant.schema}' AND pid <> pg_backend_pid()"
    )
    assert ended
    await plant.runs_once([await plant.client.submit("w", {"k": "k"})])


@pytest.mark.parametrize("side", ["before", "after"])
async def test_case_149_a_claim_whose_connection_breaks_strands_nobody(plant: Plant, side: Any) -> None:
    """The mark is in the params, which the server sends to who claims the run."""
    mark = " of the claim"
    run_id = await plant.client.submit("w", {"k": "k", "note": mark}, delay=0.5)
    plant.wire.arm(mark, side)
    await plant.runs_once([run_id, await plant.client.submit("w", {"k": "k"})])
    assert plant.wire.cuts == 1


async def test_case_149_a_heartbeat_whose_connection_breaks_costs_no_lease(plant: Plant) -> None:
    """Leases of 2 s and a body of 3: without a heartbeat that comes again it would run twice."""
    plant.spoil("workers", "true", "PERFORM pg_terminate_backend(pg_backend_pid())", times=2)
    await plant.runs_once([await plant.client.submit("w", {"k": "k", "seconds": 3})])
    assert plant.spoiled() > 2

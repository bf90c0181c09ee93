"""One tenant's flood, queued or still coming in, holds another tenant's first run up for less than two turns."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from pyrula.model.outcome import Completed
from pyrula.workflows import Limit, Registry, WorkflowClient, open_store, workflow
from tests.cases.hand import Hand
from tests.postgres.server import Server
from tests.postgres.work import multiply

FLOOD = 100_000
registry = Registry()


@workflow(name="w", registry=registry, concurrency=Limit("tenant", 3))
async def work(ctx: Any, tenant: str) -> None:
    pass


@pytest.mark.timeout(300)
async def test_a_first_run_is_handed_out_within_two_turns(
    url: str, postgres_server: Server, schema: str
) -> None:
    async with open_store(url) as store, open_store(url) as theirs:
        client, flooding = WorkflowClient(store, registry), WorkflowClient(theirs, registry)
        hand = Hand(store, work, "hand")
        await hand.register()
        first = await flooding.submit("w", {"tenant": "flood"})
        with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
            multiply(connection, schema, first, FLOOD - 1)
        assert (await store.overview())["queued"] == FLOOD
        flood = asyncio.ensure_future(_keep_coming(flooding))
        try:
            for number in range(10):
                run_id = await client.submit("w", {"tenant": f"quiet {number}"})
                handed = 0
                for turn in (1, 2):
                    claims = await hand.turn(wanted=20)
                    mine = [claim for claim in claims.claims if claim.run_id == run_id]
                    await hand.turn(*((claim.lease, Completed(b"null")) for claim in claims.claims), wanted=0)
                    if mine:
                        handed = turn
                        break
                assert handed
        finally:
            flood.cancel()


async def _keep_coming(client: WorkflowClient) -> None:
    """Each its own commit and its own bell."""
    while True:
        await asyncio.gather(*(client.submit("w", {"tenant": "flood"}) for _ in range(100)))

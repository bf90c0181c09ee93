"""The lists by name and by key are what an index would be: what is on them is there, and what is there is on them."""

from __future__ import annotations

from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from pyrula.policies.limit import Limit
from pyrula.store.open import open_store
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands
from tests.postgres.server import Server

PLANTED: dict[str, LiteralString] = {
    "gate g (key 'a') is not listed by its name": "DELETE FROM {}.gate_names",
    "gate g (key 'a') is listed by its name, and not there": "UPDATE {}.gate_names SET id = '\\x00'",
    "run a0 is not listed by its key": "DELETE FROM {}.run_keys",
    "is listed by its key, and not there": "UPDATE {}.run_keys SET key = 'b'",
}


@pytest.mark.parametrize("sentence", PLANTED)
async def test_a_list_that_is_wrong_is_told(
    sentence: str, url: str, schema: str, postgres_server: Server
) -> None:
    clock = VirtualClock()
    hands = Hands(open_store(url, clock=clock), clock)
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g"))
    await hands.register()
    await hands.submit("w", "a0", params={"k": "a"})
    await hands.turn()
    assert await hands.store.check() == []
    with psycopg.connect(postgres_server.url()) as connection:
        connection.execute(sql.SQL(PLANTED[sentence]).format(sql.Identifier(schema)))
    found = await hands.store.check()
    await hands.store.close()
    assert [line for line in found if sentence in line], found

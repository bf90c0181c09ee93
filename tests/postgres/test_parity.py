"""The two backends are siblings: same tables, same columns, same SQL blocks with the same parameters."""

from __future__ import annotations

import re

import psycopg
import pytest
from psycopg.pq import ExecStatus

from pyrula.store.statements import statements
from pyrula.workflows import open_store
from tests.postgres.server import Server

SQLITE, POSTGRES = statements("pyrula.store.sqlite"), statements("pyrula.store.postgres")
OWN = {
    "connection.read_time",  # PostgreSQL reads the time with the lock …
    "connection.time",  # … and writes it with the commit
    "connection.create",
    "schema.schema",
}
EXTRA_TABLES = {"clock", "passes", "commits", "sleepers", "arrivals", "fronts", "run_keys", "gate_names"}
EXTRA_COLUMNS = {
    "inbox": {"xid", "id", "seq", "seq_resumed"},
    "lanes": {"v", "low", "low_resumed"},
    "units": {"v", "low"},
    "gates": {"v", "low_vtime", "low_seq"},
}
MOVED_COLUMNS = {"meta": {"time", "wall", "turn", "vtime", "steering"}}


def tables(schema: str) -> dict[str, set[str]]:
    found = {}
    for name, body in re.findall(r"^CREATE TABLE (\w+) \((.*?)^\)", schema, flags=re.MULTILINE | re.DOTALL):
        lines = [line.strip() for line in body.split("\n")]
        found[name] = {
            match[0]
            for line in lines
            if (match := re.match(r"[a-z_]+(?=\s)", line)) and not line.startswith("--")
        }
    return found


def parameters(block: str) -> set[str]:
    return set(re.findall(r"[?$](\d+)", block))


ALONE = {block for block in SQLITE.keys() - POSTGRES.keys() if "Differs:" in SQLITE[block]}
"""What a sibling does otherwise, as they say."""


@pytest.mark.parametrize("block", sorted(SQLITE.keys() - OWN - ALONE))
def test_a_block_of_sqlite_has_a_sibling_that_takes_the_same(block: str) -> None:
    assert block in POSTGRES
    if block != "submit.join":  # PostgreSQL's queue rings by itself
        assert parameters(POSTGRES[block]) == parameters(SQLITE[block])


@pytest.mark.parametrize("block", sorted(block for block, sql in POSTGRES.items() if "AS newest" in sql))
def test_the_newest_version_of_a_row_is_changed_where_it_lies(block: str) -> None:
    """By its id and its version a plan may walk over all versions, of which an old snapshot keeps any number."""
    assert "newest.v" not in POSTGRES[block]
    assert "ctid AS at" in POSTGRES[block]


@pytest.mark.parametrize("block", sorted(POSTGRES.keys() - SQLITE.keys()))
def test_a_block_that_only_postgresql_has_says_why_it_differs(block: str) -> None:
    file = block.partition(".")[0]
    assert "Differs:" in POSTGRES[block] or file in ("connection", "wake", "enlist", "migrate")


def test_the_tables_have_the_same_columns() -> None:
    ours, theirs = tables(POSTGRES["schema.schema"]), tables(SQLITE["schema.schema"])
    assert ours.keys() - EXTRA_TABLES == theirs.keys()
    for table, columns in theirs.items():
        expected = (columns | EXTRA_COLUMNS.get(table, set())) - MOVED_COLUMNS.get(table, set())
        assert ours[table] == expected, table


async def test_the_server_takes_every_statement(url: str, postgres_server: Server, schema: str) -> None:
    """Also those that few tests come to."""
    async with open_store(url):
        pass
    assert refused(postgres_server, schema) == {}


def refused(server: Server, schema: str) -> dict[str, str]:
    """The blocks that the server does not take, and what it says."""
    found = {}
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        for block, text in POSTGRES.items():
            if block.partition(".")[0] in ("schema", "migrate") or block.startswith("connection.begin"):
                continue  # several statements in one
            sql = text.format(schema=schema, channel="c", lock=0) if "{" + "schema}" in text else text
            result = connection.pgconn.prepare(block.encode(), sql.encode())
            if result.status != ExecStatus.COMMAND_OK:
                found[block] = result.error_message.decode()
    return found

"""A file of an older version is brought forward by `pyrula migrate` and nothing else; one of a newer is left alone."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from pyrula.clock import SECOND
from pyrula.policies.limit import Limit
from pyrula.store.open import bring_forward, open_store
from pyrula.store.shard.sweep import sweep_floor
from pyrula.store.sqlite.migrate import VERSION, bring_file_forward
from pyrula.store.statements import statements
from pyrula.testing.clock import VirtualClock
from pyrula.workflows import SchemaMismatch
from tests.conformance.hands import Hands, sleep

SCHEMA = statements("pyrula.store.sqlite")["schema.schema"]
BACK_TO_4 = "".join(
    f"""
CREATE TABLE old ({columns}
) STRICT, WITHOUT ROWID;
INSERT INTO old SELECT * FROM {table};
DROP TABLE {table}; ALTER TABLE old RENAME TO {table};
{"".join(re.findall(rf"CREATE INDEX .* ON {table} .*;", SCHEMA))}
UPDATE meta SET version = 4;
"""
    for table, columns in re.findall(
        r"CREATE TABLE (lanes|units|gates) \((.*?)\n\) STRICT;", SCHEMA, re.DOTALL
    )
)
BACK_TO_3 = f"""
{BACK_TO_4}
ALTER TABLE gates DROP COLUMN lanes; DROP TABLE unused;
UPDATE meta SET version = 3;
"""
BACK_TO_2 = f"""
{BACK_TO_3}
DROP INDEX runs_unusual;
CREATE INDEX runs_unusual ON runs (state, seq) WHERE state IN ('failed', 'cancelled', 'expired');
DROP INDEX runs_ended_otherwise;
CREATE INDEX runs_ended_otherwise ON runs (finished_at) WHERE state IN ('failed', 'cancelled', 'expired');
DROP INDEX leases_signal; CREATE INDEX leases_signal ON leases (worker) WHERE signal IN (1, 2, 3);
UPDATE meta SET version = 2;
"""
BACK_TO_1 = f"""
{BACK_TO_2}
ALTER TABLE gates DROP COLUMN closed_by;
INSERT INTO slots SELECT slots, seq, 0 FROM leases WHERE held = 0 AND slots <> x'';
DROP INDEX runs_key; CREATE INDEX runs_key ON runs (key, seq) WHERE key <> '';
UPDATE meta SET version = 1;
"""


def change(path: Path, statements: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statements)
    connection.close()


def schema(path: Path) -> dict[str, object]:
    """What makes a file's tables and indices what they are, whatever the order of columns."""
    connection = apsw.Connection(str(path))
    found: dict[str, object] = {}
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall():
        columns = connection.execute(
            f"SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('{name}')"
        )
        found[str(name)] = set(columns.fetchall()) if kind == "table" else sql
    connection.close()
    return found


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert bring_file_forward(str(tmp_path / "runs.db")) is None
    assert not (tmp_path / "runs.db").exists()


@pytest.mark.parametrize(
    ("back", "version"), [(BACK_TO_1, 1), (BACK_TO_2, 2), (BACK_TO_3, 3), (BACK_TO_4, 4)]
)
async def test_a_file_of_an_older_version_goes_on_where_it_was(
    tmp_path: Path, back: str, version: int
) -> None:
    clock = VirtualClock()
    path, url = tmp_path / "runs.db", f"sqlite:///{tmp_path}/runs.db"
    hands = Hands(open_store(url, clock=clock), clock)
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g"))
    hands.declare("keeps", concurrency=Limit(key="k", max=1, name="h", hold="run"))
    await hands.register()
    await hands.submit_many("w", ["a0", "a1"], k="a")
    await hands.submit_many("keeps", ["b0", "b1"], k="b")
    await hands.submit_many("w", ["c0"], k="c")
    await hands.turn()
    await hands.end("c0")
    await hands.store.write(lambda tx: sweep_floor(tx, 0, 100, b""))
    await hands.park("b0", sleep(0, await hands.store.now() + 5 * SECOND))
    await hands.store.close()
    as_made = schema(path)
    change(path, back)
    with pytest.raises(SchemaMismatch, match="run `pyrula migrate`"):
        await open_store(url, clock=clock).connect()
    with ThreadPoolExecutor(4) as pool:
        answers = await asyncio.gather(
            *(
                asyncio.get_running_loop().run_in_executor(pool, bring_file_forward, str(path))
                for _ in range(4)
            )
        )
    assert sorted(map(str, answers)) == sorted(map(str, [(version, VERSION), *3 * [(VERSION, VERSION)]]))
    assert schema(path) == as_made
    hands.store = store = open_store(url, clock=clock)
    assert await store.check() == []
    assert {run.run_id for run in (await store.runs(None, None, "b", 10, None))[0]} == {"b0", "b1"}
    assert await hands.end("a0") == ["a1"]
    assert (await store.gates("h"))[0].holders == ("b0",)
    assert {gate.key for gate in await store.gates("g")} == {"a", "c"}
    due = await store.now() + 1
    await store.write(lambda tx: sweep_floor(tx, due, 100, b""))  # what was left behind before goes, too
    assert {gate.key for gate in await store.gates("g")} == {"a"}
    assert await store.check() == []
    await store.close()


async def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path, url = tmp_path / "runs.db", f"sqlite:///{tmp_path}/runs.db"
    async with open_store(url) as store:
        await store.connect()
    change(path, f"UPDATE meta SET version = {VERSION + 1}")
    for attempt in (bring_forward, lambda url: asyncio.run(open_store(url).connect())):
        with pytest.raises(SchemaMismatch, match="upgrade this one"):
            await asyncio.to_thread(attempt, url)

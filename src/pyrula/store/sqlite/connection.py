"""One connection to the file: its pragmas, its schema, and transactions that give verbs a `Tx`."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from pyrula.clock import Clock
from pyrula.errors import SchemaMismatch, ShardMismatch, StoreUnavailable
from pyrula.store.shard.tx import Quiet, Row, Tx
from pyrula.store.sqlite.failures import told
from pyrula.store.sqlite.migrate import VERSION, mismatch
from pyrula.store.statements import statements

T = TypeVar("T")
_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
_CACHE_KIB = 64 * 1024
_CHECKPOINT_PAGES = 4096
_STATEMENTS = 128
"""Prepared statements that are kept: more than turns use, and few, as the driver looks through them for every row."""

_WRITES_FLOOR = re.compile(r"\b(?:INTO|UPDATE|DELETE\s+FROM)\s+(?:lanes|units|gates)\b")
_WRITES_A_GATE = re.compile(r"^UPDATE\s+gates\s[^;]*\sWHERE id = \?1\s*$", re.MULTILINE)
_TAKES_ALL = re.compile(r"\bjson_each\(\?1\)")
_GATES = 4096
"""Gates written that are told apart."""
_json = msgspec.json.Encoder().encode
Verb = Callable[[Tx], T]


class _Block(NamedTuple):
    """A statement. floor: it may write a lane, a unit or a gate; a_gate: of these the one gate that is its first
    parameter; all_at_once: it takes the one parameter of each row in one JSON array, as a row of its own costs the
    driver a µs; answer: what stands in for RETURNING.
    """

    sql: str
    floor: bool
    a_gate: bool
    all_at_once: bool
    answer: Callable[[SqliteTx, Sequence[Row]], list[Row]] | None


@cache
def _blocks() -> dict[str, _Block]:
    # With RETURNING, SQLite keeps a copy of each page that a row changes until that row is done, as in case that it
    # fails (2.5 µs a row): what comes of the rows of a run is looked up once for all.
    apart = {"submit.run": SqliteTx._submit, "finish.run": SqliteTx._finish}
    return {
        address: _Block(
            sql,
            _WRITES_FLOOR.search(sql) is not None,
            _WRITES_A_GATE.search(sql) is not None,
            _TAKES_ALL.search(sql) is not None,
            apart.get(address),
        )
        for address, sql in statements("pyrula.store.sqlite").items()
    }


class SqliteTx:
    """A `Tx` on one cursor. others_wrote: a number that changes when another connection has committed; wrote: one that
    changes with each statement of this one that writes lanes, units or gates, other than the ones in `gates_written`,
    and when such are taken back."""

    __slots__ = ("_blocks", "_connection", "_cursor", "gates_written", "now", "others_wrote", "wall", "wrote")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._blocks = _blocks()
        self.gates_written: set[bytes] = set()
        self.now = self.wall = self.others_wrote = self.wrote = 0

    @property
    def floor_written(self) -> object:
        return self.others_wrote, self.wrote

    def rows(self, block: str, *params: Any) -> list[Row]:
        return self._cursor.execute(self._text(block), params).fetchall()

    def row(self, block: str, *params: Any) -> Row | None:
        rows = self._cursor.execute(self._text(block), params).fetchall()
        return rows[0] if rows else None

    def run(self, block: str, *params: Any) -> int:
        self._cursor.execute(self._text(block), params).fetchall()
        return self._connection.changes()

    def many(self, block: str, params: Sequence[Row]) -> None:
        if not params:
            return
        statement = self._blocks[block]
        if statement.a_gate and len(self.gates_written) < _GATES:
            self.gates_written.update([row[0] for row in params])
            self._cursor.executemany(statement.sql, params).fetchall()
        else:
            self._all(block, params)

    def match(self, block: str, params: Iterable[Row]) -> list[Row]:
        answer = self._blocks[block].answer
        return self._all(block, params) if answer is None else answer(self, list(params))

    def _all(self, block: str, params: Iterable[Row]) -> list[Row]:
        if self._blocks[block].all_at_once:
            return self.rows(block, _json([param for (param,) in params]).decode())
        return self._cursor.executemany(self._text(block), params).fetchall()

    def _submit(self, runs: Sequence[Row]) -> list[Row]:
        before = self._connection.total_changes()
        self.many("submit.run", runs)
        return self.rows("submit.newest", self._connection.total_changes() - before)

    def _finish(self, runs: Sequence[Row]) -> list[Row]:
        children = self._all("finish.children", [(run[0],) for run in runs])
        self.many("finish.run", runs)
        return children

    def _text(self, block: str) -> str:
        statement = self._blocks[block]
        if statement.floor:
            self.wrote += 1
        return statement.sql


class Seen:
    """Store time and wall clock as a process last read them, which counts even where nothing was written."""

    def __init__(self) -> None:
        self.reading = (0, 0)


class Connection:
    """A connection of one thread. `path` is a file, or the `file:…?vfs=memdb` name of a database in
    memory. makes: whether a file that is not there is made; by one that only joins others, one that was lost
    would be replaced by an empty one."""

    @told
    def __init__(
        self, path: str, clock: Clock, *, memory: bool, seen: Seen | None = None, makes: bool = False
    ) -> None:
        self.path = path
        self._clock = clock
        flags = _FLAGS | (apsw.SQLITE_OPEN_CREATE if makes else 0)
        self._db = apsw.Connection(path, flags=flags, statementcachesize=_STATEMENTS)
        self._file = None if memory else Path(path).stat()
        # 0 in a file: the loop must not block, and whoever wants the lock comes back. In memory there is no
        # WAL, so a heartbeat keeps even readers out, for as long as one update takes: that is waited for.
        self._db.set_busy_timeout(1000 if memory else 0)
        # One plan a statement: else each new value of a parameter that a plan may hang on prepares it anew, 200 µs.
        self._db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._tx = SqliteTx(self._db)
        self._seen = seen or Seen()
        self._pragma("foreign_keys=off")
        self._pragma(f"cache_size=-{_CACHE_KIB}")
        self._pragma("temp_store=memory")
        self._pragma("synchronous=full")
        if not memory:
            self._pragma("mmap_size=268435456")
            # Pages that every turn changes reach the file once in a while, not after every other turn.
            self._pragma(f"wal_autocheckpoint={_CHECKPOINT_PAGES}")

    def _pragma(self, text: str) -> Any:
        return self._db.execute(f"PRAGMA {text}").fetchall()

    @told
    def prepare(self, store: str, shard: int, shards: int) -> None:
        """Create the schema, or check that the file is this shard of this store. May raise apsw.BusyError."""
        self._refuse_foreign()
        self._pragma("journal_mode=wal")
        if not self._pragma("table_info(meta)"):
            with self._db:
                if not self._pragma("table_info(meta)"):
                    self._db.execute(statements("pyrula.store.sqlite")["schema.schema"])
                    wall = self._clock.wall()
                    self._tx.run("connection.create", VERSION, store, shard, shards, wall)
        row = self._tx.row("connection.identity")
        assert row is not None
        version, _, its_shard, its_shards = row
        if version != VERSION:
            raise mismatch(self._db.filename, version)
        if (its_shard, its_shards) != (shard, shards):
            raise ShardMismatch(
                f"{self._db.filename}: it is shard {its_shard} of {its_shards}, and was opened as shard {shard} of "
                f"{shards}; open the store with the same files in the same order"
            )

    def _refuse_foreign(self) -> None:
        """A mistyped path may lead to the file of another program, which is left as it is."""
        tables = {row[1] for row in self._pragma("table_list") if row[0] == "main"} - {"sqlite_schema"}
        columns = {row[1] for row in self._pragma("table_info(meta)")}
        if tables and not columns >= {"one", "version", "store", "shard"}:
            raise SchemaMismatch(
                f"{self._db.filename}: it is a database of another program (its tables: "
                f"{', '.join(sorted(tables)[:5])}); a store is a file of its own: correct the path"
            )

    def at_its_path(self) -> None:
        """Raise StoreUnavailable if the path leads to another file by now, or to none: what is written to a file that
        others can't open any more is lost, and would be answered for."""
        if self._file is None:
            return
        try:
            there = os.path.samestat(Path(self.path).stat(), self._file)
        except OSError:
            there = False
        if not there:
            raise StoreUnavailable(
                f"{self.path}: it was moved, removed or replaced while this process had it open; put it back, or "
                "start the process anew"
            )

    @told
    def data_version(self) -> int:
        """A number that changes when another connection has committed."""
        return int(self._pragma("data_version")[0][0])

    @told
    def write(self, verbs: Sequence[Verb[Any]]) -> tuple[list[Any], bool]:
        """Run verbs in one transaction; their answers, and whether others may care for what was written.

        Raises apsw.BusyError at once when another writer has the lock; what a verb raises rolls all of them
        back. A transaction that changed nothing is not committed, so that an idle turn wakes nobody up.
        """
        db, tx = self._db, self._tx
        self.at_its_path()
        db.execute("BEGIN IMMEDIATE")
        # All that a transaction makes is alive until its end: a collection meanwhile would walk it and find
        # nothing.
        collecting = gc.isenabled()
        gc.disable()
        try:
            tx.others_wrote = self.data_version()
            self._read_time()
            before = db.total_changes()
            answers, news = [], False
            for verb in verbs:
                written = db.total_changes()
                answers.append(verb(tx))
                news = news or (db.total_changes() != written and not isinstance(verb, Quiet))
            if db.total_changes() != before:
                tx.run("connection.time", tx.now, tx.wall)
                db.execute("COMMIT")
            else:
                db.execute("ROLLBACK")
        except BaseException:
            tx.wrote += 1
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        finally:
            if collecting:
                gc.enable()
        return answers, news

    @told
    def read(self, verb: Verb[T]) -> T:
        """Run a verb that only reads, on one snapshot."""
        db = self._db
        self.at_its_path()
        db.execute("BEGIN")
        try:
            self._read_time()
            return verb(self._tx)
        finally:
            if db.in_transaction:  # some failures of the file end it, and are what is to be told
                db.execute("ROLLBACK")

    def _read_time(self) -> None:
        """The store's time never runs backwards: a wall clock that steps back adds nothing."""
        row = self._tx.row("connection.read_time")
        assert row is not None
        # of two readings at one time the later is that of the earlier wall: it was stepped back in between
        time, wall = max(row, self._seen.reading, key=lambda read: (read[0], -read[1]))
        now_wall = self._clock.wall()
        time += max(0, now_wall - wall)
        self._seen.reading = (time, now_wall)
        self._tx.now, self._tx.wall = time, now_wall

    def close(self) -> None:
        self._db.close()

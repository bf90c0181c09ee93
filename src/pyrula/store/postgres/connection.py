"""One connection: transactions under the shard's lock or beside it, and the `Tx` that verbs run on.

Statements go through psycopg's libpq layer, one blocking call each, which gives the interpreter's lock away once
per statement: beside a busy event loop each such hand-over costs (docs/decisions/0002-postgresql-driver.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

from pyrula.clock import Clock, SystemClock
from pyrula.store.postgres.address import Address
from pyrula.store.postgres.encode import BINARY, columns, encode, kinds
from pyrula.store.shard.tx import Row, Tx
from pyrula.store.statements import statements

T = TypeVar("T")
Touched = frozenset[str]
"""Addresses of blocks that changed rows."""
Verb = Callable[[Tx], T]
_PACKAGE: Final = "pyrula.store.postgres"
_BESIDE: Final = {block: f"{block}_beside" for block in ("submit.timer", "submit.wall_timer")}
"""Blocks that a transaction beside the lock runs in another form: it may commit after turns that began later."""
_COMMENT = re.compile(r"^--.*$", re.MULTILINE)
_MODIFIES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b")
_WRITES_FLOOR = re.compile(r"\b(?:INTO|UPDATE|DELETE\s+FROM)\s+(?:lanes|units|gates)\b")
"""Of statements that may write a lane, a unit or a gate."""
_WRITES_GATES = re.compile(r"^UPDATE gates AS g\s[^;]*\bFROM unnest\(\$1::bytea\[\]", re.MULTILINE)
"""Of those that write the gates which are their first parameter, and nothing else of these."""
_GATES: Final = 4096
"""Gates written that are told apart."""
_FORGET_EVERY: Final = 1000
_NO_SCANS: Final = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET jit = off"
)
_DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class Lost(Exception):
    """The connection broke before the transaction's commit was sent: nothing of it happened."""


class AnswerLost(Exception):
    """The connection broke while a commit was under way: it may have happened. answers: of the verbs, if it has."""

    def __init__(self, answers: list[Any], touched: Touched) -> None:
        super().__init__("the answer to a commit was lost")
        self.answers, self.touched = answers, touched


class _Block(NamedTuple):
    """A statement. sql: empty if nothing is to be done here; bulk: its parameters are arrays; modifies: it may
    write; floor: a lane, a unit or a gate; gates: of these only the gates that are named first; kinds: of its arrays'
    elements."""

    address: str
    name: bytes
    sql: bytes
    bulk: bool
    modifies: bool
    floor: bool = False
    gates: bool = False
    kinds: tuple[str | None, ...] = ()


@cache
def _blocks() -> dict[str, _Block]:
    return {
        address: _Block(
            address,
            address.encode(),
            sql.encode(),
            "[]" in sql,
            _MODIFIES.search(sql) is not None,
            _WRITES_FLOOR.search(sql) is not None,
            _WRITES_GATES.search(sql) is not None,
            kinds(sql),
        )
        for address, text in statements(_PACKAGE).items()
        for sql in [_COMMENT.sub("", text).strip()]
    }


class PostgresTx:
    """A `Tx` on one connection. floor_written: another object for each statement of this connection that writes
    lanes, units or gates, other than the ones in `gates_written`, and whenever others may have, or such are taken
    back. committed: the store's time of the last commit under the lock that this transaction sees."""

    __slots__ = (
        "_blocks",
        "_connection",
        "_prepared",
        "_transform",
        "beside",
        "committed",
        "floor_written",
        "gates_written",
        "now",
        "touched",
        "wall",
    )

    def __init__(self, connection: psycopg.Connection[Any], *, prepare: bool) -> None:
        self._connection = connection.pgconn
        self._blocks = _blocks()
        self._transform = Transformer(connection)
        self._prepared: set[bytes] | None = set() if prepare else None
        self.now = 0
        self.wall = 0
        self.beside = False
        self.committed = 0
        self.floor_written = object()
        self.gates_written: set[bytes] = set()
        self.touched: set[str] = set()
        """Blocks that changed rows in this transaction."""

    def rows(self, block: str, *params: Any) -> list[Row]:
        """All rows of one statement."""
        statement = self._blocks[block]
        values: Sequence[Any] = [[value] for value in params] if statement.bulk else params
        return self._fetch(self._execute(statement, values))

    def row(self, block: str, *params: Any) -> Row | None:
        """Its first row."""
        rows = self.rows(block, *params)
        return rows[0] if rows else None

    def run(self, block: str, *params: Any) -> int:
        """Run it; the number of rows it changed."""
        statement = self._blocks[block]
        if not statement.sql:
            return 0
        values: Sequence[Any] = [[value] for value in params] if statement.bulk else params
        return self._execute(statement, values).command_tuples or 0

    def many(self, block: str, params: Sequence[Row]) -> None:
        """Run it once, with an array for each column of `params`."""
        statement = self._blocks[_BESIDE.get(block, block) if self.beside else block]
        if params and statement.sql:
            self._execute(statement, columns(params))

    def match(self, block: str, params: Iterable[Row]) -> list[Row]:
        """All rows that it returns for all of these parameters; one statement, with an array for each column."""
        found = list(params)
        return self._fetch(self._execute(self._blocks[block], columns(found))) if found else []

    def script(self, text: str) -> list[Row]:
        """Run several statements without parameters, in one round trip; the rows of the last."""
        return self._fetch(self._checked(self._connection.exec_(text.encode())))

    def alone(self, address: str, text: str, params: Sequence[Any]) -> list[Row]:
        """The rows of a statement whose tables are named with their schema."""
        result = self._execute(_Block(address, address.encode(), text.encode(), False, False), params)
        return self._fetch(result) or [()] * (result.command_tuples or 0)

    def _execute(self, block: _Block, params: Sequence[Any]) -> PGresult:
        if block.gates and len(self.gates_written) < _GATES:
            self.gates_written.update(params[0])
        elif block.floor:
            self.floor_written = object()
        encoded = [encode(value, kind) for value, kind in zip_longest(params, block.kinds)]
        values, formats = [value for value, _ in encoded], [form for _, form in encoded]
        if self._prepared is None:
            result = self._connection.exec_params(block.sql, values, None, formats, BINARY)
        else:
            if block.name not in self._prepared:
                self._checked(self._connection.prepare(block.name, block.sql))
                self._prepared.add(block.name)
            result = self._connection.exec_prepared(block.name, values, formats, BINARY)  # type: ignore[arg-type]  # NULL is None
        self._checked(result)
        if block.modifies and (result.ntuples or result.command_tuples):
            self.touched.add(block.address)
        return result

    def _fetch(self, result: PGresult) -> list[Row]:
        if not result.ntuples:
            return []
        self._transform.set_pgresult(result)
        return self._transform.load_rows(0, result.ntuples, tuple)

    def _checked(self, result: PGresult) -> PGresult:
        if result.status in _DONE:
            return result
        if self._connection.status != ConnStatus.OK:
            raise Lost(self._connection.get_error_message().strip())
        raise errors.error_from_result(result)


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether a pooler is in between: it answers with a process number of its own making, and each transaction
    may be on another process of the server."""
    own = connection.execute("SELECT pg_backend_pid()").fetchone()
    return own is None or own[0] != connection.info.backend_pid


class Connection:
    """A connection of one thread to one shard. clock: None for the server's."""

    def __init__(self, address: Address, clock: Clock | None) -> None:
        self._clock = None if isinstance(clock, SystemClock) else clock
        self._schema = address.schema
        self._db = psycopg.connect(address.conninfo, autocommit=True)
        self.pooled = is_pooled(self._db)
        if not self.pooled:  # for statements by themselves; transactions say so each time
            self._db.execute(_NO_SCANS)
        self._tx = PostgresTx(self._db, prepare=not self.pooled)
        self._names = {"schema": address.schema, "channel": address.channel, "lock": address.lock}
        self._sql = statements(_PACKAGE)
        self._seen = (0, 0)
        self._number = 0  # of the clock's row
        self._last = 0  # of the one that was the newest when this connection last had the lock
        self._horizon = 0  # every transaction before this one is over

    @property
    def alive(self) -> bool:
        """Whether it can be used for another transaction."""
        return self._db.pgconn.status == ConnStatus.OK

    def close(self) -> None:
        """Close it; an open transaction is rolled back."""
        self._db.close()

    # -- transactions

    def write(self, verbs: Sequence[Verb[Any]], token: bytes, *, locked: bool) -> tuple[list[Any], Touched]:
        """Run verbs in one transaction; their answers, and the blocks that changed rows.

        locked: under the shard's lock; else beside it, where only what touches no lane and no gate may run. token:
        remembered with the commit (`committed`). What a verb raises rolls all of them back. Raises `Lost`,
        `AnswerLost`, and what psycopg raises.
        """
        tx = self._tx
        try:
            self._begin("connection.begin_locked" if locked else "connection.begin", beside=not locked)
            floor = tx.floor_written
            answers = [verb(tx) for verb in verbs]
            if tx.touched:
                self._keep(token, locked=locked)
        except BaseException:
            self._roll_back()
            raise
        if not tx.touched:
            self._roll_back(floor is not tx.floor_written)
            return answers, frozenset()
        touched = frozenset(tx.touched)
        try:
            tx.script("COMMIT")
        except Lost:
            raise AnswerLost(answers, touched) from None
        except BaseException:
            self._roll_back()
            raise
        if locked and self._number % _FORGET_EVERY == 0:
            self._forget()
        return answers, touched

    def _keep(self, token: bytes, *, locked: bool) -> None:
        """What goes with every commit: its token, and under the lock the clock."""
        tx = self._tx
        if locked:
            self._last = self._number + 1
            tx.run("connection.tick", self._last, tx.now, tx.wall, self._horizon, token)
        else:
            tx.run("connection.keep_token", token, tx.now)

    def _forget(self) -> None:
        """Drop rows of the clock and of commits that nobody needs; a failure only leaves them for the next time."""
        try:
            self._begin("connection.begin")
            self._tx.run("connection.forget", self._number, self._tx.now)
            self._tx.script("COMMIT")
        except (Lost, psycopg.Error):
            self._roll_back()

    def committed(self, token: bytes) -> bool:
        """Whether the transaction of this token was committed; waits for it if it is still under way."""
        self._begin("connection.begin")
        try:
            return not self._tx.rows("connection.claim_token", token, self._tx.now)
        finally:
            self._roll_back()

    def read(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """Run verbs that only read, on one snapshot."""
        self._begin("connection.begin_read")
        try:
            return [verb(self._tx) for verb in verbs]
        finally:
            self._roll_back()

    def ask(self, block: str, *params: Any) -> list[Row]:
        """Run one statement by itself, without a transaction around it; a row for each that it changed."""
        return self._tx.alone(block, self._sql[block].format(**self._names), params)

    @property
    def wall(self) -> int | None:
        """What the store's own clock says; None: it goes by the server's."""
        return None if self._clock is None else self._clock.wall()

    def _begin(self, block: str, *, beside: bool = False) -> None:
        tx = self._tx
        tx.beside = beside
        rows = tx.script(self._sql[block].format(**self._names))
        assert len(rows) == 1, f"schema {self._schema}: the table clock is empty"
        number, time, wall, server_wall, self._horizon, arrivals = rows[0]
        tx.committed = time
        now_wall = server_wall if self._clock is None else self._clock.wall()
        tx.touched.clear()
        if now_wall < wall and not beside:  # the clock was set back: time goes on from here, for everybody
            tx.touched.add("connection.tick")
        if number == self._number:  # nobody has written the time since: what was read counts, too
            time, wall = self._seen
        if number != self._last:  # every commit under the lock counts on
            self._last, tx.floor_written = number, object()
        # The store's time never runs backwards: a wall clock that steps back adds nothing.
        time = max(time + max(0, now_wall - wall), self._seen[0])
        self._number, self._seen = number, (time, now_wall)
        tx.now, tx.wall = time, now_wall
        if arrivals:
            tx.run("connection.arrive")
            tx.touched.add("connection.arrive")

    def _roll_back(self, of_floor: bool = True) -> None:
        """of_floor: what is known of lanes, units and gates may be of what is taken back."""
        if of_floor:
            self._tx.floor_written = object()
        if self.alive:
            try:
                self._tx.script("ROLLBACK")
            except (Lost, psycopg.Error):
                self.close()

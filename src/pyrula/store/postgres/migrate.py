"""Bring a schema to this code's version: forward only, any number of starts at once."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg import IsolationLevel, sql

from pyrula.clock import Clock, SystemClock
from pyrula.errors import ConfigurationError, SchemaMismatch, ShardMismatch, StoreUnavailable
from pyrula.store.postgres.address import Address
from pyrula.store.postgres.failures import failure
from pyrula.store.statements import statements

VERSION: Final = 7
_STEPS: Final = {1: "to_2", 2: "to_3", 3: "to_4", 4: "to_5", 5: "to_6", 6: "to_7"}
"""Version that a step starts from → its block in migrate.sql; it leads to the next one."""
_PACKAGE: Final = "pyrula.store.postgres"
_ENCODINGS: Final = ("UTF8", "SQL_ASCII")  # the latter keeps what it is given


def prepare(address: Address, clock: Clock | None, store: str, shard: int, shards: int) -> None:
    """Create the schema if it is not there; check that it is of this version and this shard of its store.

    Raises SchemaMismatch, ShardMismatch, StoreUnavailable (the role may not create it), and what psycopg raises.
    """
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.isolation_level = (
            IsolationLevel.READ_COMMITTED
        )  # not what there was before the lock was free
        found = _identity(connection, address)
        if found is None:
            found = _create(connection, address, clock, store, shard, shards)
    version, _, its_shard, its_shards = found
    if version != VERSION:
        raise SchemaMismatch(_mismatch(address, version))
    if (its_shard, its_shards) != (shard, shards):
        raise ShardMismatch(
            f"{address.shown}: it is shard {its_shard} of {its_shards}, and was opened as shard {shard} of {shards}; "
            "open the store with the same URLs in the same order"
        )


def bring_schema_forward(address: Address) -> tuple[int, int] | None:
    """Bring a schema that is there to this version, step by step; answers the version it had, and has.

    One transaction under the shard's lock: whoever comes at the same time waits, and finds it done. Raises
    SchemaMismatch if it is newer than this code, and StoreUnavailable.
    """
    try:
        with psycopg.connect(address.conninfo, autocommit=True) as connection:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            if _identity(connection, address) is None:
                return None
            with connection.transaction():
                _enter(connection, address)
                found = _identity(connection, address)
                assert found is not None, "it was there a moment ago"
                before = version = found[0]
                if version > VERSION:
                    raise SchemaMismatch(_mismatch(address, version))
                while version < VERSION:
                    connection.execute(statements(_PACKAGE)[f"migrate.{_STEPS[version]}"], prepare=False)
                    version += 1
                    connection.execute("UPDATE meta SET version = %s", (version,))
            return before, version
    except psycopg.Error as error:
        raise _told(address, error) from error


def is_there(address: Address) -> bool:
    """Whether the schema holds a store. Raises StoreUnavailable when the database can't be reached."""
    try:
        with psycopg.connect(address.conninfo, autocommit=True) as connection:
            return _identity(connection, address) is not None
    except psycopg.Error as error:
        raise _told(address, error) from error


def _told(address: Address, error: psycopg.Error) -> Exception:
    known = failure(address.shown, error)
    if known is None and isinstance(error, psycopg.OperationalError):
        known = StoreUnavailable(f"{address.shown}: can't be reached: {error}")
    return known or error


def _mismatch(address: Address, version: int) -> str:
    what = f"{address.shown}: its schema is version {version}, this pyrula writes version {VERSION}; "
    if version > VERSION:
        return what + "a newer pyrula has brought it forward: upgrade this one"
    return what + "run `pyrula migrate` with this pyrula, then start again"


def _identity(connection: psycopg.Connection[Any], address: Address) -> tuple[int, str, int, int] | None:
    """(version, store, shard, shards), or None if there is no such store."""
    # Not to_regclass: it may answer by what the session remembers, and miss what was made while it waited for the lock.
    there = connection.execute(
        "SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = 'meta'",
        (address.schema,),
    ).fetchone()
    if there is None:
        return None
    query = sql.SQL("SELECT version, store, shard, shards FROM {}.meta").format(
        sql.Identifier(address.schema)
    )
    return connection.execute(query).fetchone()


def _enter(connection: psycopg.Connection[Any], address: Address) -> None:
    """Take the shard's lock for this transaction, and look into its schema."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (address.lock,))
    connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(address.schema)))


def _create(
    connection: psycopg.Connection[Any],
    address: Address,
    clock: Clock | None,
    store: str,
    shard: int,
    shards: int,
) -> tuple[int, str, int, int]:
    blocks = statements(_PACKAGE)
    _refuse_encoding(connection, address)
    try:
        with connection.transaction():
            _enter(connection, address)
            found = _identity(connection, address)
            if found is not None:  # another process was faster
                return found
            _create_schema(connection, address)
            connection.execute(blocks["schema.schema"], prepare=False)
            cursor = psycopg.RawCursor(connection)
            cursor.execute(blocks["connection.create"], (VERSION, store, shard, shards))
            cursor.execute(blocks["connection.start_clock"], (_wall(connection, clock),))
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreUnavailable(
            f"{address.shown}: there is no store in schema {address.schema!r}, and this role may not make one: "
            f"{error}; as a role that may: CREATE SCHEMA {address.schema} AUTHORIZATION <role>"
        ) from error
    return VERSION, store, shard, shards


def _refuse_encoding(connection: psycopg.Connection[Any], address: Address) -> None:
    """A database in which some texts can't be stored is left as it is: the first of them would hold up the others."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in _ENCODINGS:
        raise ConfigurationError(
            f"{address.shown}: the encoding of this database is {encoding}, which can't hold every text; a store needs "
            "UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


def _create_schema(connection: psycopg.Connection[Any], address: Address) -> None:
    row = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (address.schema,)).fetchone()
    if row is None:  # one that was made for this role needs no right to make others
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address.schema)))


def _wall(connection: psycopg.Connection[Any], clock: Clock | None) -> int:
    if clock is not None and not isinstance(clock, SystemClock):
        return clock.wall()
    row = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
    assert row is not None
    return int(row[0])

"""Bring a file to this code's version: forward only, any number of starts at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from pyrula.errors import SchemaMismatch, StoreBusy
from pyrula.store.sqlite.failures import failure
from pyrula.store.statements import statements

VERSION: Final = 5
_STEPS: Final = {1: "to_2", 2: "to_3", 3: "to_4", 4: "to_5"}
"""Version that a step starts from → its block in migrate.sql; it leads to the next one."""
_WAIT_MS: Final = 30_000


def bring_file_forward(path: str) -> tuple[int, int] | None:
    """Bring a file that is there to this version, step by step, in one transaction; answers the version it had, and
    has. None: there is no store in it.

    Raises SchemaMismatch if it is newer than this code, StoreBusy if others kept its lock for 30 s, and
    StoreUnavailable or StoreCorrupt.
    """
    if not Path(path).exists():
        return None
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return _forward(path, connection)
        finally:
            connection.close()
    except apsw.BusyError:
        raise StoreBusy(
            f"{path} was locked by others for {_WAIT_MS // 1000} s; stop them, and try again"
        ) from None
    except apsw.Error as error:
        known = failure(path, error)
        if known is None:
            raise
        raise known from error


def mismatch(path: str, version: int) -> SchemaMismatch:
    """What is said of a file of another version."""
    what = f"{path}: its schema is version {version}, this pyrula writes version {VERSION}; "
    if version > VERSION:
        return SchemaMismatch(what + "a newer pyrula has brought it forward: upgrade this one")
    return SchemaMismatch(what + "run `pyrula migrate` with this pyrula, then start again")


def _forward(path: str, connection: apsw.Connection) -> tuple[int, int] | None:
    connection.set_busy_timeout(_WAIT_MS)
    if not connection.execute("PRAGMA table_info(meta)").fetchall():
        return None
    connection.execute("BEGIN IMMEDIATE")
    ((before,),) = connection.execute("SELECT version FROM meta").fetchall()
    assert isinstance(before, int)
    if before > VERSION:
        raise mismatch(path, before)
    for step in range(before, VERSION):
        connection.execute(statements("pyrula.store.sqlite")[f"migrate.{_STEPS[step]}"])
        connection.execute("UPDATE meta SET version = ?", (step + 1,))
    connection.execute("COMMIT")
    return before, VERSION

"""From a URL to a store: the only file that names a backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyrula.clock import Clock, SystemClock, check_clock
from pyrula.errors import ConfigurationError, shown
from pyrula.ids import MAX_SHARDS, store_id
from pyrula.model.duration import Duration, positive_us
from pyrula.store.protocol import Store
from pyrula.store.shard.shard import ShardStore
from pyrula.store.sharded.shards import Place, always_there
from pyrula.store.sharded.store import ShardedStore
from pyrula.store.sqlite.migrate import bring_file_forward
from pyrula.store.sqlite.store import SqliteStore

_SPACES: Final = re.compile(r"\s+(?=[a-z]+://)")
RETENTION: Final = timedelta(days=7)
_KINDS: Final = (
    '"sqlite:///runs.db" (a file, from the current folder), "sqlite:////var/runs.db" (an absolute path), '
    '"sqlite://" (in memory), or "postgresql://user@host/database"'
)


def open_store(
    url: str | Sequence[str], *, clock: Clock | None = None, retention: Duration = RETENTION
) -> Store:
    """The store at `url`. It returns at once; the store connects at its first use, and creates what is
    missing.

    url: `sqlite:///runs.db` (three slashes: from the current folder; four: an absolute path), or `sqlite://`
    (in memory, for one process); `postgresql://user@host/database` (`?schema=`, "pyrula" if it names none;
    `?listen=` for a direct URL beside a transaction pooler; `?patience=` for how many seconds a call tries to reach
    the server before it raises `StoreUnavailable`: 10 at first, 60 once it was reached). Several URLs of one kind:
    the shards of one store, always the same ones in the same order; in one text with spaces between, they may
    stand in an environment variable. clock: another than the machine's (with PostgreSQL:
    than the server's). retention: how long finished runs are kept, seconds or a timedelta, above 0. Close it with
    `await store.close()`, or use it in `async with`. Raises `ConfigurationError` for a URL that it can't serve.
    """
    try:
        kept = positive_us(retention)
    except ValueError as error:
        raise ConfigurationError(f"open_store: retention is {shown(retention)}; it must be {error}") from None
    check_clock("open_store: clock", clock)
    urls = _urls(url)
    if len(urls) == 1:
        return _one(urls[0], clock, kept, 0, 1)
    _check_shards(urls)
    stores = [_one(url, clock, kept, number, len(urls)) for number, url in enumerate(urls)]
    places = [
        Place(store, _without_password(url), _there(url)) for url, store in zip(urls, stores, strict=True)
    ]
    return ShardedStore(places, clock or SystemClock())


def _one(url: str, clock: Clock | None, retention: int, shard: int, shards: int) -> ShardStore:
    if _is_postgres(url):
        return _postgres(url, clock, retention, shard, shards)
    path = _sqlite_path(url)
    # memdb: connections of this process that name it alike share it; a store id makes the name its own
    where = f"file:/{store_id()}?vfs=memdb" if path is None else path
    return SqliteStore(
        where,
        clock=clock or SystemClock(),
        retention=retention,
        memory=path is None,
        shard=shard,
        shards=shards,
    )


def _check_shards(urls: Sequence[object]) -> None:
    """Raises ConfigurationError unless these can be the shards of one store."""
    if not 1 <= len(urls) <= MAX_SHARDS:
        raise ConfigurationError(
            f"open_store: {len(urls)} URLs; a store has 1 to {MAX_SHARDS} shards: pass one URL for each"
        )
    kinds = {_is_postgres(url) for url in urls}
    if len(kinds) > 1:
        raise ConfigurationError(
            f"open_store: {shown([_without_password(str(url)) for url in urls], 200)}: the shards of a store are of "
            "one kind; pass SQLite files, or schemas of PostgreSQL"
        )
    files = [url for url in urls if _is_postgres(url) or _sqlite_path(url) is not None]
    twice = sorted({_without_password(str(url)) for url in files if files.count(url) > 1})
    if twice or 0 < len(files) < len(urls):
        what = f"{shown(twice[0])} is there twice" if twice else "some shards are files, some in memory"
        raise ConfigurationError(f"open_store: {what}; pass a place of its own for each shard")


def _there(url: str) -> Callable[[], bool]:
    return always_there if in_memory(url) else lambda: store_exists(url)


def store_exists(url: str) -> bool:
    """Whether there is a store at `url` already, so that a mistyped one is not made by looking at it. A file without a
    byte in it is none; of several shards one is enough: opening the store says which is missing."""
    urls = _urls(url)
    if len(urls) > 1:
        return any(store_exists(each) for each in urls)
    if _is_postgres(url):
        return bool(_postgres_module().exists(url))
    path = _sqlite_path(url)
    if path is None:
        return True
    place = Path(path)
    return place.exists() and (not place.is_file() or place.stat().st_size > 0)


def in_memory(url: str | Sequence[str]) -> bool:
    """Whether the store at `url`, or a shard of it, lives in the memory of one process."""
    return any(not _is_postgres(each) and _sqlite_path(each) is None for each in _urls(url))


def _urls(url: str | Sequence[str]) -> list[str]:
    """The URLs of the shards, which may stand in one text with spaces between."""
    if isinstance(url, str):
        return _SPACES.split(url.strip())
    given: Any = url  # a caller without a type checker may give anything
    return list(given) if isinstance(given, Iterable) else [given]


def bring_forward(url: str) -> None:
    """Bring the schema of a store that is there to this version; any number may do so at once. Raises
    `SchemaMismatch` if it is newer."""
    for each in _urls(url):
        if _is_postgres(each):
            _postgres_module().bring_forward(each)
        elif (path := _sqlite_path(each)) is not None:
            bring_file_forward(path)


def _is_postgres(url: object) -> bool:
    return isinstance(url, str) and url.startswith(("postgresql://", "postgres://"))


def _postgres(url: str, clock: Clock | None, retention: int, shard: int, shards: int) -> ShardStore:
    store: ShardStore = _postgres_module().PostgresStore(
        url, clock=clock, retention=retention, shard=shard, shards=shards
    )
    return store


def _postgres_module() -> ModuleType:
    """Imported when a URL asks for it: its driver is an extra."""
    try:
        return import_module("pyrula.store.postgres.store")
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise ConfigurationError(
            "a postgresql: URL needs the driver psycopg: pip install 'pyrula-workflows[postgres]'"
        ) from None


def _sqlite_path(url: object) -> str | None:
    """The path in a `sqlite:` URL, None for memory. Raises ConfigurationError."""
    if not isinstance(url, str):
        raise ConfigurationError(
            f"open_store: url is {shown(url)}, {type(url).__name__}; it must be a str: {_KINDS}"
        )
    scheme, found, rest = url.partition("://")
    if not found or scheme != "sqlite":
        named = scheme.partition("+")[0] if found else ""
        instead = f'"{named}://…", without a driver' if named in ("postgresql", "postgres") else _KINDS
        raise ConfigurationError(
            f"open_store: {shown(_without_password(url))} is no URL that this version opens; use {instead}"
        )
    if "\0" in rest or not _encodable(rest):
        raise ConfigurationError(
            f"open_store: {shown(url)} holds a NUL or half a surrogate pair, which no path can"
        )
    if "?" in rest:
        raise ConfigurationError(
            f"open_store: {shown(url)}: a sqlite URL takes no options; drop what follows the `?`"
        )
    if rest in ("", "/", "/:memory:"):
        return None
    if not rest.startswith("/"):
        raise ConfigurationError(
            f'open_store: {shown(url)} names a host; for the file {rest!r} of the current folder use "sqlite:///{rest}"'
        )
    return rest[1:]


def _encodable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_password(url: str) -> str:
    """A URL as a message may show it."""
    scheme, found, rest = url.partition("://")
    name, at, place = rest.rpartition("@")
    return f"{scheme}{found}{name.partition(':')[0]}{at}{place}" if at else url

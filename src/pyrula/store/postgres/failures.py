"""What the server could not do, as an error of pyrula: callers need not know the driver, and a worker tells it from
what is wrong with one run."""

from __future__ import annotations

from typing import Final

import psycopg

from pyrula.errors import StoreCorrupt, StoreError, StoreUnavailable

_UNAVAILABLE: Final = {
    "53100": "nothing was stored; make room, and call again",
    "53": "nothing was stored; see what the server's log says, and call again",
    "58": "see what the server's log says about its disk",
    "25006": "nothing was stored; name the primary in the URL, or a role that may write",
    "42501": "have the role own the schema and its tables, or give it the rights to them",
    "3F000": "see that the schema was not dropped or renamed",
    "42P01": "see that the schema was not dropped or renamed",
}
"""SQLSTATE, or the class that it begins with, and advice; the first that fits counts."""
_CORRUPT: Final = {
    "XX001": "stop its processes, and restore a backup",
    "XX002": "REINDEX the schema, or restore a backup",
}


def failure(place: str, error: BaseException) -> StoreError | None:
    """The error to raise in place of the driver's; None for one that is no matter of the server's."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    for kinds, made in ((_UNAVAILABLE, StoreUnavailable), (_CORRUPT, StoreCorrupt)):
        for kind, advice in kinds.items():
            if state is not None and state.startswith(kind):
                return made(f"{place}: {' '.join(str(error).split())}; {advice}")
    return None

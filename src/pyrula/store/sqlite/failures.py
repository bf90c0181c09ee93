"""What SQLite could not do, as an error of pyrula: callers need not know the driver."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

import apsw

from pyrula.errors import StoreCorrupt, StoreError, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")
_UNAVAILABLE: Final = {
    apsw.CantOpenError: "see that its folder exists and may be written to, and that it was not moved or removed",
    apsw.FullError: "nothing was stored; make room, and call again",
    apsw.IOError: "see what the machine says about the disk",
    apsw.ReadOnlyError: "see that the file and its folder may be written to",
}
_CORRUPT: Final = {
    apsw.CorruptError: "stop its processes, and restore a backup",
    apsw.NotADBError: "check the path",
}


class Placed(Protocol):
    """Something that knows its file."""

    path: str


_Self = TypeVar("_Self", bound=Placed)


def failure(path: str, error: Exception) -> StoreError | None:
    """The error to raise in place of the driver's; None for one that is no matter of the file's."""
    for kinds, made in ((_UNAVAILABLE, StoreUnavailable), (_CORRUPT, StoreCorrupt)):
        for kind, advice in kinds.items():
            if isinstance(error, kind):
                return made(f"{path}: {error}; {advice}")
    return None


def told(
    method: Callable[Concatenate[_Self, P], T],
) -> Callable[Concatenate[_Self, P], T]:
    """Have a method raise `StoreUnavailable` or `StoreCorrupt` where the driver raises what the file is to blame
    for."""

    @functools.wraps(method)
    def call(self: _Self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except apsw.Error as error:
            known = failure(self.path, error)
            if known is None:
                raise
            raise known from error

    return call

"""Parameters on their way to the server. Their types are in the SQL (`$1::bigint`): a value only has to be written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any, Final

from pyrula.errors import InvalidPayload, shown

TEXT, BINARY = 0, 1
"""Formats of libpq."""
_BYTEA, _TEXT_TYPE = 17, 25
_HEAD: Final = Struct("!iIIii")
_SIZE: Final = Struct("!i")
_SIZES: Final = tuple(_SIZE.pack(size) for size in range(1024))
_NULL: Final = _SIZE.pack(-1)
_INTEGERS: Final = {"bigint": (20, 8, "q"), "integer": (23, 4, "i")}
"""Of a type its number, its bytes, and its letter in `struct`."""
_AT_ONCE: Final = 64
_PARAMETER: Final = re.compile(r"\$(\d+)::(\w+)\[\]")


def kinds(sql: str) -> tuple[str | None, ...]:
    """For each parameter of a statement the type of its elements, as far as it says that it is an array."""
    named = {int(number): kind for number, kind in _PARAMETER.findall(sql)}
    return tuple(named.get(number) for number in range(1, max(named, default=0) + 1))


def encode(value: Any, kind: str | None = None) -> tuple[bytes | None, int]:
    """One parameter, and its format. A list is an array of one dimension: int, str or bytes, with None among them;
    kind: the type of its elements, if it is known."""
    if value is None:
        return None, TEXT
    if isinstance(value, int):
        return b"%d" % value, TEXT
    if isinstance(value, str):
        return _text(value), TEXT
    if isinstance(value, bytes):
        return value, BINARY
    if isinstance(value, list):
        return _array(value, kind)
    raise TypeError(
        f"a parameter is {type(value).__name__}; SQL blocks take int, str, bytes, None and lists of them"
    )


def _text(value: str) -> bytes:
    """Its bytes. Raises InvalidPayload for a NUL: a parameter as text would end there, and mean another."""
    if "\0" in value:
        raise InvalidPayload(
            f"{shown(value)} holds a NUL, which PostgreSQL keeps in no text; write it another way"
        )
    return value.encode()


def _array(values: Sequence[Any], kind: str | None) -> tuple[bytes, int]:
    types = set(map(type, values))
    if types == {int}:
        if kind in _INTEGERS:
            return _integers(values, *_INTEGERS[kind]), BINARY
        return ("{" + ",".join(map(str, values)) + "}").encode(), TEXT
    if types == {bytes}:
        return _binary(_BYTEA, values), BINARY
    if types == {str}:
        return _binary(_TEXT_TYPE, _texts(values)), BINARY
    first = next((value for value in values if value is not None), None)
    if first is None or isinstance(first, int):
        words = ["NULL" if value is None else str(int(value)) for value in values]
        return ("{" + ",".join(words) + "}").encode(), TEXT
    if isinstance(first, str):
        return _with_nulls(_TEXT_TYPE, [None if value is None else _text(value) for value in values]), BINARY
    return _with_nulls(_BYTEA, values), BINARY


def _integers(values: Sequence[int], number: int, size: int, letter: str) -> bytes:
    """In binary: no text has to be written, nor read."""
    count = len(values)
    flat = [size] * (2 * count)
    flat[1::2] = values
    parts = [_HEAD.pack(1, 0, number, count, 1)]
    for at in range(0, count, _AT_ONCE):
        some = flat[2 * at : 2 * (at + _AT_ONCE)]
        parts.append(_layout(letter, len(some) // 2).pack(*some))
    return b"".join(parts)


@cache
def _layout(letter: str, count: int) -> Struct:
    """Of so many integers, each behind its size."""
    return Struct("!" + f"i{letter}" * count)


def _texts(values: Sequence[str]) -> list[bytes]:
    if "\0" in "".join(values):
        return [_text(value) for value in values]
    return [value.encode() for value in values]


def _binary(element: int, values: Sequence[bytes]) -> bytes:
    head = _HEAD.pack(1, 0, element, len(values), 1)
    sizes = list(map(len, values))
    if len(set(sizes)) == 1:  # ids, mostly
        size = _SIZE.pack(sizes[0])
        return head + size + size.join(values)
    small = max(sizes) < len(_SIZES)
    parts = [b""] * (2 * len(values))
    parts[::2] = [_SIZES[size] for size in sizes] if small else [_SIZE.pack(size) for size in sizes]
    parts[1::2] = values
    return head + b"".join(parts)


def _with_nulls(element: int, values: Sequence[bytes | None]) -> bytes:
    parts = [_HEAD.pack(1, int(None in values), element, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_SIZE.pack(len(value)), value)
    return b"".join(parts)


def columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows of parameters, at least one, as an array per parameter."""
    return list(map(list, zip(*rows, strict=True)))

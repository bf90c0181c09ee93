"""Parameters on their way to the server. Their types are in the SQL (`$1::bigint`): a value only has to be written."""

from __future__ import annotations

from collections.abc import Sequence
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


def encode(value: Any) -> tuple[bytes | None, int]:
    """One parameter, and its format. A list is an array of one dimension: int, str or bytes, with None among them."""
    if value is None:
        return None, TEXT
    if isinstance(value, int):
        return b"%d" % value, TEXT
    if isinstance(value, str):
        return _text(value), TEXT
    if isinstance(value, bytes):
        return value, BINARY
    if isinstance(value, list):
        return _array(value)
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


def _array(values: Sequence[Any]) -> tuple[bytes, int]:
    kinds = set(map(type, values))
    if kinds == {int}:
        return ("{" + ",".join(map(str, values)) + "}").encode(), TEXT
    if kinds == {bytes}:
        return _binary(_BYTEA, values), BINARY
    if kinds == {str}:
        return _binary(_TEXT_TYPE, _texts(values)), BINARY
    first = next((value for value in values if value is not None), None)
    if first is None or isinstance(first, int):
        words = ["NULL" if value is None else str(int(value)) for value in values]
        return ("{" + ",".join(words) + "}").encode(), TEXT
    if isinstance(first, str):
        return _with_nulls(_TEXT_TYPE, [None if value is None else _text(value) for value in values]), BINARY
    return _with_nulls(_BYTEA, values), BINARY


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

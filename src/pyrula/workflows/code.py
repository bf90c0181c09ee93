"""A digest of a body's code, by which a run set aside can tell whether it met the code that it could not
replay."""

from __future__ import annotations

import functools
from collections.abc import Callable
from hashlib import blake2b
from types import CodeType
from typing import Any


def code_digest(fn: Callable[..., Any]) -> str:
    """32 hex digits: alike in every process of one Python version, another when the body's code is another.

    Line numbers, file names and addresses play no part, nor does the code of what the body calls.
    """
    hashed = blake2b(digest_size=16)
    for code in _codes(fn):
        _feed(hashed.update, code)
    return hashed.hexdigest()


def _codes(fn: Any) -> list[CodeType]:
    """Code of a function and, under its decorators, of what they wrap."""
    codes = []
    while fn is not None:
        if isinstance(fn, functools.partial):
            fn = fn.func
        code = getattr(fn, "__code__", None)
        if isinstance(code, CodeType):
            codes.append(code)
        fn = getattr(fn, "__wrapped__", None)
    return codes


def _feed(update: Callable[[bytes], None], value: object) -> None:
    """Hash a code object or a constant; each is preceded by its type, so that 1, True and 1.0 differ."""
    update(type(value).__name__.encode() + b"\0")
    if isinstance(value, CodeType):
        _feed(update, value.co_code)
        for part in (
            value.co_names,
            value.co_varnames,
            value.co_freevars,
            value.co_cellvars,
            value.co_consts,
        ):
            _feed(update, part)
    elif isinstance(value, tuple):
        for item in value:
            _feed(update, item)
    elif isinstance(value, frozenset):  # its order differs by process
        for text in sorted(repr(item) for item in value):
            _feed(update, text)
    else:
        data = value if isinstance(value, bytes) else repr(value).encode(errors="surrogatepass")
        update(len(data).to_bytes(8, "big") + data)

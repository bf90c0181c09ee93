"""JSON values: what params, events and results may be, and how they are written down.

Only what JSON itself has is accepted: None, bool, int (64 bit), finite float, str, list, and dict with str
keys. msgspec alone would quietly turn NaN into null and bytes, dates, sets and tuples into something else, so
the check is a walk of our own, which names the path of what it refuses.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from hashlib import blake2b
from math import isfinite
from typing import Any, Final

import msgspec

from pyrula.errors import NotJson, PayloadTooLarge, shown

MAX_PAYLOAD: Final = 1 << 20
"""Bytes of JSON that params or one event may take."""
MAX_DEPTH: Final = 100
"""Levels of lists and dicts inside each other."""

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode

_ADVICE: Final = {
    "datetime": "pass value.isoformat() and annotate the body's parameter with datetime",
    "date": "pass value.isoformat() and annotate the body's parameter with date",
    "timedelta": "pass value.total_seconds()",
    "UUID": "pass str(value) and annotate the body's parameter with UUID",
    "Decimal": "pass str(value) and annotate the body's parameter with Decimal",
    "bytes": "pass base64 text",
    "bytearray": "pass base64 text",
    "tuple": "pass a list",
    "set": "pass a sorted list",
    "frozenset": "pass a sorted list",
}


class _Refused(Exception):
    """What is wrong with a part; the levels around it add where it is while the stack unwinds."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what, advice)
        self.what = what
        self.advice = advice
        self.path: list[str] = []


def check_json(value: object, at: str = "params") -> None:
    """Raise `NotJson`, naming the path from `at`, unless `value` is a JSON value."""
    try:
        _walk(value, 0)
    except _Refused as refused:
        path = at + "".join(reversed(refused.path))
        short = path if len(path) <= 200 else f"{path[:99]} … {path[-99:]}"
        raise NotJson(f"{short}: {refused.what}; {refused.advice}", path=path) from None


def _walk(value: Any, depth: int) -> None:
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is str:
        _check_text(value)
    elif kind is int:
        if not _INT_MIN <= value <= _INT_MAX:
            raise _Refused("int of more than 64 bits", "pass it as text")
    elif kind is float:
        if not isfinite(value):
            raise _Refused(f"float {value}, which is not JSON", "pass null or text")
    elif isinstance(value, (dict, list)):
        if depth >= MAX_DEPTH:
            raise _Refused(f"nested deeper than {MAX_DEPTH} levels, or contains itself", "flatten it")
        if isinstance(value, dict):
            _walk_dict(value, depth + 1)
        else:
            _walk_list(value, depth + 1)
    else:
        raise _Refused(f"{kind.__name__} {shown(value)}, which is not JSON", _advice(value))


def _walk_list(value: list[Any], depth: int) -> None:
    for i, item in enumerate(value):
        try:
            _walk(item, depth)
        except _Refused as refused:
            refused.path.append(f"[{i}]")
            raise


def _walk_dict(value: dict[Any, Any], depth: int) -> None:
    for key, item in value.items():
        if type(key) is not str:
            raise _Refused(f"key {shown(key)} is {type(key).__name__}", "JSON keys are str: pass str(key)")
        try:
            _check_text(key)
            _walk(item, depth)
        except _Refused as refused:
            refused.path.append(f".{key}" if key.isidentifier() else f"[{shown(key)}]")
            raise


def _check_text(value: str) -> None:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            what = f"str {shown(value)} holds a lone surrogate, which is not Unicode text"
            raise _Refused(what, "encode the bytes it came from as base64") from None


def _advice(value: object) -> str:
    if isinstance(value, (str, int, float)):
        return f"pass a plain {next(t.__name__ for t in (str, int, float) if isinstance(value, t))}"
    if is_dataclass(value):
        return "pass dataclasses.asdict(value) and annotate the body's parameter with the dataclass"
    if isinstance(value, msgspec.Struct):
        return "pass msgspec.to_builtins(value) and annotate the body's parameter with the Struct"
    return _ADVICE.get(type(value).__name__, "pass null, bool, numbers, text, lists and dicts only")


def encode(value: object, at: str = "params", cap: int | None = MAX_PAYLOAD) -> bytes:
    """`value` as JSON. Raises `NotJson`; `PayloadTooLarge` over `cap` bytes (None: no cap)."""
    check_json(value, at)
    data = _encode(value)
    check_size(data, at, cap)
    return data


def decode(data: bytes | str) -> Any:
    """The value of JSON that `encode` wrote."""
    return _decode(data)


def parse(data: bytes | str, at: str = "body", cap: int | None = MAX_PAYLOAD) -> Any:
    """The value of JSON that a stranger wrote. Raises `NotJson`, or `PayloadTooLarge` over `cap` bytes."""
    check_size(data, at, cap)
    try:
        value = _decode(data)
    except RecursionError:
        raise NotJson(f"{at}: nested deeper than {MAX_DEPTH} levels; flatten it", path=at) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise NotJson(f"{at}: not JSON: {error}", path=at) from None
    check_json(value, at)
    return value


def check_size(data: bytes | str, at: str, cap: int | None) -> None:
    """Raise `PayloadTooLarge` if `data` takes more than `cap` bytes."""
    if cap is None or len(data) * 4 <= cap:
        return
    size = len(data) if isinstance(data, bytes) else len(data.encode(errors="surrogatepass"))
    if size > cap:
        advice = "store it elsewhere and pass a reference"
        raise PayloadTooLarge(f"{at}: {size} bytes of JSON, the cap is {cap}; {advice}", size=size, cap=cap)


def canonical(value: object, at: str = "params") -> bytes:
    """JSON of `value` that is the same for equal values: keys sorted, no spaces. Raises `NotJson`."""
    check_json(value, at)
    return _encode_sorted(value)


def digest(value: object, at: str = "params") -> bytes:
    """16 bytes that are the same for equal values, on every machine. Raises `NotJson`."""
    return blake2b(canonical(value, at), digest_size=16).digest()

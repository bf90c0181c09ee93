"""Keys: which counter, buffer or unit a run belongs to, as text that every store can index."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from pyrula.errors import KeyFailed, KeyNeedsCode, listed, shown
from pyrula.model.payload import canonical
from pyrula.policies.check import refusal

KeyFunction = Callable[[dict[str, Any]], object]
Key = str | KeyFunction | None
"""A parameter's name, a function of the params, or None: one bucket for all runs."""

_LONGEST: Final = 200
_PREFIX: Final = 60
_DIGEST: Final = 32
_HEX: Final = frozenset("0123456789abcdef")


class KeyElsewhere(msgspec.Struct, frozen=True):
    """Stands, in a declaration read from a store, for a key function whose code is not here."""

    function: str


def check_key(workflow: str, argument: str, key: object) -> None:
    """Raise ConfigurationError unless `key` is a parameter name, a function of the params, or None."""
    if key is None or (isinstance(key, str) and key):
        return
    if not callable(key):
        raise refusal(
            workflow, argument, key, "a parameter name, a function of the params, or None for one bucket"
        )
    if inspect.iscoroutinefunction(key):
        raise refusal(
            workflow, argument, key, "a plain function: a key is computed inside the submit, not awaited"
        )


def resolve(key: Key | KeyElsewhere, params: Mapping[str, Any], workflow: str = "") -> str:
    """The text of `key` for a run with these params, as submitted: a default of the body is not applied.

    A missing parameter and None are "", so that every run without it shares one bucket; bool, int and float
    are `str(value)`; lists and dicts their canonical JSON. Raises `KeyFailed` if a key function raises or
    returns what is no key, `KeyNeedsCode` if its code is not here. (Seed: flow-control, "Keys".)
    """
    if key is None:
        return ""
    if isinstance(key, str):
        value = params.get(key)
        return value if type(value) is str else text_of(value, f"key {key!r}", workflow)
    if isinstance(key, KeyElsewhere):
        raise KeyNeedsCode(
            f"workflow {workflow!r}: its key is computed by {key.function}, which is not imported here; "
            "import the module that declares the workflow, or key it on a parameter name"
        )
    try:
        value = key(dict(params))
    except Exception as error:
        raise KeyFailed(
            f"workflow {workflow!r}: key function {name_of(key)} raised {type(error).__name__}: {error}; the "
            f"params given were {listed(params) or 'none'}. Nothing was submitted; let it answer for those"
        ) from error
    return text_of(value, f"key function {name_of(key)}", workflow)


def text_of(value: object, what: str = "key", workflow: str = "") -> str:
    """A key's value as text. Raises `KeyFailed` for a value whose text would not be the same everywhere."""
    if value is None:
        return ""
    if type(value) is str:
        return value
    whose = f"workflow {workflow!r}: {what}" if workflow else what
    try:
        if isinstance(value, (list, tuple, dict)):
            return canonical(list(value) if isinstance(value, tuple) else value, "value").decode()
        # A type without a str() of its own would show an address, or a set's order, which no other process
        # has.
        if isinstance(value, (int, float)) or type(value).__str__ is not object.__str__:
            return str(value)
    except Exception as error:  # a __str__ may raise anything
        raise KeyFailed(f"{whose} is {shown(value)}: {error}") from error
    raise KeyFailed(
        f"{whose} is {shown(value)}, a {type(value).__name__}, which has no text of its own; give a str, a number, "
        "a list or a dict"
    )


def name_of(function: Callable[..., object]) -> str:
    """A key function as messages and declarations name it: module and qualified name."""
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def storable(key: str) -> str:
    """`key` in the form that stores index: itself, or a readable prefix, "~" and a digest. Alike on every
    store.

    Kept as it is: up to 200 bytes of UTF-8 without control characters or lone surrogates. Different keys have
    different forms: what already looks like a digest form is digested too.
    """
    if len(key) <= _LONGEST and key.isascii() and key.isprintable():
        return _digested(key) if _looks_digested(key) else key
    if _is_text(key) and len(key.encode()) <= _LONGEST and not _looks_digested(key):
        return key
    return _digested(key)


def is_unicode(key: str) -> bool:
    """Whether `key` is Unicode text: without lone surrogates."""
    return not any("\ud800" <= c <= "\udfff" for c in key)


def _is_text(key: str) -> bool:
    return all(c >= " " and not "\x7f" <= c <= "\x9f" and not "\ud800" <= c <= "\udfff" for c in key)


def _looks_digested(key: str) -> bool:
    return len(key) > _DIGEST and key[-_DIGEST - 1] == "~" and _HEX.issuperset(key[-_DIGEST:])


def _digested(key: str) -> str:
    prefix = "".join(c if _is_text(c) else "\ufffd" for c in key[:_PREFIX])
    return f"{prefix}~{blake2b(key.encode(errors='surrogatepass'), digest_size=_DIGEST // 2).hexdigest()}"

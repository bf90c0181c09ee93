"""Params against a body's signature: checked when a run is submitted, converted when it is handed to the
body."""

from __future__ import annotations

import inspect
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from pyrula.errors import ConfigurationError, ConfigurationWarning, InvalidParams, listed, shown

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_JSON = (str, int, float, bool, bytes, list, tuple, dict)
"""What a context is not: a first parameter that says it is one of these shows that ctx was forgotten."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a body. annotation: as written, before names in it are looked up."""

    name: str
    required: bool
    annotation: Any


class Signature:
    """What a body takes besides its context. Raises `ConfigurationError` for a body that params can't be
    handed to. early: it is used while the body's module is not complete, so that names may be missing still."""

    def __init__(self, workflow: str, fn: Callable[..., Any], *, early: bool = False) -> None:
        self.workflow = workflow
        self._early = early
        self._fn = inspect.unwrap(fn)
        rest = list(inspect.signature(fn).parameters.values())
        if rest and rest[0].name in ("self", "cls"):
            raise ConfigurationError(
                f"workflow {workflow!r}: body {fn.__qualname__} is a method, and no worker has an object to call it "
                "on; write it as a function whose first parameter is ctx"
            )
        if rest and rest[0].kind in _POSITIONAL:
            self._check_context(rest[0])
            rest = rest[1:]
        elif not rest or rest[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            raise ConfigurationError(
                f"workflow {workflow!r}: body {fn.__qualname__} takes no context; "
                "its first parameter must be ctx"
            )
        self.open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in rest)
        """Whether the body takes any name (`**params`)."""
        for parameter in rest:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise ConfigurationError(
                    f"workflow {workflow!r}: parameter {parameter.name!r} of the body is positional-only, "
                    "and params are handed over by name; take the / out of its signature"
                )
        self.parameters = tuple(
            Parameter(parameter.name, parameter.default is parameter.empty, parameter.annotation)
            for parameter in rest
            if parameter.kind in _NAMED
        )
        self._others = next((p.annotation for p in rest if p.kind is p.VAR_KEYWORD), inspect.Parameter.empty)

    def _check_context(self, first: inspect.Parameter) -> None:
        _, kind = _looked_up(first.annotation, self._fn)
        if kind in _JSON or typing.get_origin(kind) in _JSON:
            raise ConfigurationError(
                f"workflow {self.workflow!r}: the body's first parameter, {first.name!r}, is annotated as "
                f"{inspect.formatannotation(kind)}, but it receives the context; put ctx before it"
            )

    def takes(self, name: str) -> bool:
        """Whether the body can receive a parameter of this name."""
        return self.open or any(parameter.name == name for parameter in self.parameters)

    def misfit(self, names: Iterable[str]) -> str | None:
        """What is wrong with params of these names: one unknown, or a required one missing; None if nothing
        is."""
        given = set(names)
        known = {parameter.name for parameter in self.parameters}
        unknown = [] if self.open else sorted(given - known)
        missing = [p.name for p in self.parameters if p.required and p.name not in given]
        told = [f"the body takes no {listed(unknown)}"] if unknown else []
        told += [f"{', '.join(map(repr, missing))} must be given"] if missing else []
        if not told:
            return None
        wanted = ", ".join(p.name if p.required else f"{p.name}=…" for p in self.parameters)
        return f"{' and '.join(told)}; it takes ({wanted}{', **' if self.open else ''})".replace("(, ", "(")

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise `InvalidParams` unless the body takes these params (JSON values) as they are annotated."""
        self.convert(params)

    def convert(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Params as the body receives them, each made what it is annotated as. Raises `InvalidParams`."""
        wrong = self.misfit(params)
        if wrong is not None:
            raise InvalidParams(f"workflow {self.workflow!r}: {wrong}")
        return {name: self._converted(name, value) for name, value in params.items()}

    def _converted(self, name: str, value: Any) -> Any:
        reasons = []
        for kind in self._kinds.get(name, self._kinds["**"]):
            try:
                return msgspec.convert(value, kind, dec_hook=_made, str_keys=True)
            except msgspec.ValidationError as error:
                reasons.append(_located(str(error), name))
        if not reasons:
            return value
        raise InvalidParams(
            f"workflow {self.workflow!r}: {', or '.join(reasons)}; it was given {shown(value)}"
        )

    @cached_property
    def _kinds(self) -> dict[str, tuple[Any, ...]]:
        """Parameter name to the types its value may become, in turn; none at all where anything goes.

        Looked up late, at the first use: an annotation may name a class that is defined below the body.
        """
        annotations = {parameter.name: parameter.annotation for parameter in self.parameters}
        everything = {**annotations, "**": self._others}
        return {name: self._alternatives(name, kind) for name, kind in everything.items()}

    def _alternatives(self, name: str, annotation: Any) -> tuple[Any, ...]:
        if annotation is inspect.Parameter.empty:
            return ()
        found, kind = _looked_up(annotation, self._fn)
        if not found and not self._early:
            warn(
                self._fn,
                f"workflow {self.workflow!r}: parameter {name!r} is annotated as {annotation!r}, which is not found "
                "when it runs: it is handed over unchecked, as plain JSON; import it outside of TYPE_CHECKING, or "
                "declare it where the body's module sees it",
            )
        if not found or kind is Any or kind is object:
            return ()
        if _convertible(kind):
            return (kind,)
        # msgspec takes no union of two str-like or two object-like types: try its members from left to right.
        if typing.get_origin(kind) in (typing.Union, types.UnionType):
            members = typing.get_args(kind)
            return members if all(map(_convertible, members)) else ()
        return ()


def _looked_up(annotation: Any, fn: Callable[..., Any]) -> tuple[bool, Any]:
    """Whether an annotation's names were found (one under TYPE_CHECKING is not), and what it means."""
    code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None) or ()
    local = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            local[name] = cell.cell_contents
        except ValueError:  # a name that its function has not bound yet
            continue

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    try:
        hints = typing.get_type_hints(holder, getattr(fn, "__globals__", {}), local, include_extras=True)
    except Exception:  # evaluates what the user wrote, which may raise anything
        return False, None
    return True, hints["it"]


def _convertible(kind: Any) -> bool:
    try:
        msgspec.json.Decoder(kind, dec_hook=_made)
    except (TypeError, NotImplementedError):
        return False
    return True


def _made(kind: type, value: object) -> Any:
    """A JSON value as a type that msgspec knows nothing of."""
    if kind is object:  # within another type, as in dict[str, object]: anything goes
        return value
    validate = getattr(kind, "model_validate_json", None)  # a model of pydantic, also within another type
    if validate is not None:
        try:
            return validate(msgspec.json.encode(value))
        except ValueError as error:
            raise ValueError(_said(error)) from None
    raise TypeError(f"no JSON value becomes a `{getattr(kind, '__qualname__', kind)}`")


def _said(error: ValueError) -> str:
    """What pydantic found wrong, in one line: its own text has several, with the address of a page in each."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error)
    return ", ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}".lstrip(": ") for one in errors())


def _located(message: str, name: str) -> str:
    """msgspec's `Expected `int`, got `str` - at `$.a`` as `params.name.a: expected int, got str`."""
    what, _, path = message.partition(" - at `")
    return f"params.{name}{path.rstrip('`').removeprefix('$')}: {what[:1].lower()}{what[1:].replace('`', '')}"


def warn(body: Callable[..., Any], message: str) -> None:
    """A `ConfigurationWarning` that points at the body: its first line, or that of its decorator."""
    code = getattr(inspect.unwrap(body), "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code else ("<unknown>", 0)
    warnings.warn_explicit(message, ConfigurationWarning, file, line)

"""What goes over the wire: shapes of answers and bodies, query parameters, and how they are read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec

from pyrula.errors import NotJson, shown
from pyrula.model.number import read_number, read_whole
from pyrula.model.payload import parse
from pyrula.model.run import Run, RunState
from pyrula.store.protocol import Gate
from pyrula.web.problems import Problem

JSON: Final = "application/json"
_MAX_NUMBER: Final = 1 << 53

encode = msgspec.json.Encoder().encode


def quoted(text: str) -> str:
    """A text as one segment of a path, or one value of a query or a cookie."""
    return quote(text, safe="")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query parameter. least, most: of a number; of a text, its longest. choices, pattern: of a text."""

    name: str
    about: str
    kind: Literal["text", "int", "number"] = "text"
    default: Any = None
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None

    def read(self, given: Mapping[str, str]) -> Any:
        """Its value, or its default. Raises `Problem`."""
        text = given.get(self.name)
        if text is None:
            return self.default
        if self.kind == "text":
            return self._text(text)
        try:
            number = read_whole(text) if self.kind == "int" else read_number(text)
        except ValueError:
            raise self._wrong(text) from None
        if not (self._bound(self.least, -_MAX_NUMBER) <= number <= self._bound(self.most, _MAX_NUMBER)):
            raise self._wrong(text)
        return number

    def _text(self, text: str) -> str:
        if self.choices and text not in self.choices:
            raise self._wrong(text)
        if self.pattern is not None and not re.fullmatch(self.pattern, text):
            raise self._wrong(text)
        if len(text) > self._bound(self.most, 4096):
            raise Problem("bad_request", f"?{self.name}= has {len(text)} characters; {self.must}")
        return text

    @staticmethod
    def _bound(bound: float | None, otherwise: float) -> float:
        return otherwise if bound is None else bound

    @property
    def must(self) -> str:
        """What its value must be, in words."""
        if self.choices:
            return f"it must be one of {', '.join(self.choices)}"
        if self.pattern is not None:
            return f"it must match {self.pattern}"
        if self.kind == "text":
            return f"it must be text of up to {self._bound(self.most, 4096):g} characters"
        what = "a whole number" if self.kind == "int" else "a number"
        return f"it must be {what} from {self._bound(self.least, 0):g} to {self._bound(self.most, _MAX_NUMBER):g}"

    def _wrong(self, text: str) -> Problem:
        return Problem("bad_request", f"?{self.name}= is {shown(text)}; {self.must}")

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        if self.kind == "text":
            if self.choices:
                return {"type": "string", "enum": list(self.choices)}
            if self.pattern is not None:
                return {"type": "string", "pattern": f"^{self.pattern}$"}
            return {"type": "string", "maxLength": int(self._bound(self.most, 4096))}
        schema: dict[str, Any] = {"type": "integer" if self.kind == "int" else "number"}
        if self.default is not None:
            schema["default"] = self.default
        return {
            **schema,
            "minimum": self._bound(self.least, 0),
            "maximum": self._bound(self.most, _MAX_NUMBER),
        }


def read_query(known: Sequence[Query], given: Mapping[str, str]) -> dict[str, Any]:
    """Every known parameter's value. Raises `Problem` for a value that is wrong, and for a name that is unknown."""
    strange = sorted(set(given) - {query.name for query in known})
    if strange:
        takes = ", ".join(query.name for query in known) or "none"
        raise Problem(
            "bad_request", f"unknown query parameter {shown(strange[0])}; this address takes {takes}"
        )
    return {query.name: query.read(given) for query in known}


def read_body(kind: Any, data: bytes) -> Any:
    """A body as `kind`. Raises `Problem`: `not_json` for no JSON object, `invalid_payload` for another shape."""
    try:
        plain = parse(data or b"{}", "body", cap=None)
    except NotJson as error:
        raise Problem("not_json", str(error)) from None
    if not isinstance(plain, dict):
        raise Problem("not_json", f"the body is a JSON {_json_name(plain)}; send an object")
    if kind is dict:
        return plain
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    strange = sorted(set(plain) - set(names))
    if strange:
        takes = ", ".join(names) or "none"
        raise Problem(
            "invalid_payload", f"body: unknown name {shown(strange[0])}; this address takes {takes}"
        )
    try:
        return msgspec.convert(plain, kind, strict=True)
    except msgspec.ValidationError as error:
        raise Problem("invalid_payload", _misfit(str(error), plain)) from None


def _misfit(said: str, plain: Mapping[str, Any]) -> str:
    """What msgspec said of a body, with where it is and what is there: every body here is one level deep."""
    reason, _, path = said.partition(" - at `$.")
    wanted = reason[:1].lower() + reason[1:].replace("`", "")
    name = path.rstrip("`")
    return f"body.{name}: {wanted}; it was given {shown(plain[name])}" if name in plain else f"body: {wanted}"


def _json_name(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null", dict: "object"}
    return names.get(type(value), "number")


# -- bodies


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """accepted is False where the run had ended already."""

    run_id: str
    accepted: bool


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty object, or no body at all."""


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which key of a gate; null is all of it."""

    key: str | None = None


class Pause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long: `seconds`, or `until` an instant with its zone; neither: until it is resumed."""

    key: str | None = None
    seconds: float | None = None
    until: datetime | None = None


class Override(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number in the place of the stamped one: `max` of a limit, or `per_second` (and `burst`) of a rate.
    expires_in: seconds after which it lapses by itself."""

    key: str | None = None
    max: int | None = None
    per_second: float | None = None
    burst: int | None = None
    expires_in: float | None = None


class Flush(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The buffer of which key."""

    key: str = ""


class SignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token to sign in with."""

    token: str


# -- answers


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A run was stored under this id."""

    run_id: str


class Triggered(msgspec.Struct, frozen=True, kw_only=True):
    """The event was stored. run_id: of the run that it completed, null while its batch is open."""

    run_id: str | None


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """It was done; count: to how many, where that is known."""

    done: bool = True
    count: int | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands: `state`; once it is completed its `result`, once it has ended otherwise its `error`."""

    run_id: str
    state: str
    result: Any = None
    error: Any = None


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list: without its params and result, which may be large."""

    run_id: str
    workflow: str
    state: RunState
    attempt: int
    priority: int
    submitted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: str | None
    keys: dict[str, str]

    @staticmethod
    def of(run: Run) -> RunRow:
        """The row of a run."""
        return RunRow(**{name: getattr(run, name) for name in RunRow.__struct_fields__})


class RunList(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, newest first. cursor: pass it as ?cursor= for what follows; null at the end."""

    items: list[RunRow]
    cursor: str | None = None


class GateList(msgspec.Struct, frozen=True, kw_only=True):
    """Gates. cursor: pass it as ?cursor= for what follows; null at the end. cut: there are more than this order goes
    down to."""

    items: list[Gate]
    cursor: str | None = None
    cut: bool = False


class Waiter(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits at a gate, in the order in which they start."""

    run_id: str
    workflow: str
    priority: int
    submitted_at: datetime | None


class GateDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One key's counter, who holds its slots, and who waits, first in line first (the first 50)."""

    gate: Gate
    holders: list[Waiter]
    waiters: list[Waiter]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a list. cursor: pass it as ?cursor= for what follows; null at the end."""

    items: list[dict[str, Any]]
    cursor: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """status: `ok`."""

    status: str = "ok"


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks at the page, and what they may do. signed_in: with a cookie that can be given back."""

    name: str
    access: str
    tokens: bool
    signed_in: bool


CURSOR: Final = Query(name="cursor", about="of the page before", pattern="[0-9]{1,18}")
LIMIT: Final = Query(name="limit", kind="int", about="how many at most", default=100, least=1, most=1000)

"""Params against the body's signature: checked at submit, converted for the body."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

from pyrula.errors import ConfigurationWarning, InvalidParams, InvalidPayload
from pyrula.workflows.params import Signature

if TYPE_CHECKING:
    from fractions import Fraction

    from elsewhere import Context  # type: ignore[import-not-found]  # not there when the tests run


@dataclass
class Line:
    sku: str
    amount: int = 1


@dataclass
class Anything:
    it: object


class Address(msgspec.Struct):
    city: str


class Invoice(BaseModel):
    model_config = ConfigDict(strict=True)  # JSON has no UUID: what it has instead is taken all the same
    number: UUID


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Extra(TypedDict):
    note: str


class Custom:
    pass


async def body(ctx: Context, tenant_id: str, amount: int = 1, *, late: "Later | None" = None): ...  # noqa: UP037 - as users write it


@dataclass
class Later:
    at: datetime


SIGNATURE = Signature("sync", body)


def of(annotation: Any) -> Signature:
    async def one(ctx, value): ...

    one.__annotations__ = {"value": annotation}
    return Signature("sync", one)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "'tenant_id' must be given; it takes (tenant_id, amount=…, late=…)"),
        ({"tenant_id": "a", "tenant": "b"}, "the body takes no 'tenant'; it takes"),
        ({"tenant": "a", "x": 1}, "the body takes no 'tenant', 'x' and 'tenant_id' must be given"),
        ({"tenant_id": "a", "ctx": 1}, "the body takes no 'ctx'"),
        ({f"k{i:03}": i for i in range(500)}, "'k008', 'k009' and 490 more and 'tenant_id' must be given"),
        ({"tenant_id": 5}, "params.tenant_id: expected str, got int; it was given 5"),
        ({"tenant_id": None}, "params.tenant_id: expected str, got null"),
        ({"tenant_id": "a", "amount": "1"}, "params.amount: expected int, got str; it was given '1'"),
        ({"tenant_id": "a", "amount": True}, "params.amount: expected int, got bool"),
        ({"tenant_id": "a", "late": {"at": "soon"}}, "params.late.at: invalid RFC3339"),
    ],
)
def test_params_that_do_not_fit_are_refused_with_where_and_why(params, told):
    with pytest.raises(InvalidParams) as refused:
        SIGNATURE.check(params)
    assert str(refused.value).startswith("workflow 'sync': ")
    assert told in str(refused.value)
    assert refused.value.code == "invalid_params"
    assert isinstance(refused.value, InvalidPayload)


def test_defaults_are_left_to_the_body():
    assert SIGNATURE.convert({"tenant_id": "a"}) == {"tenant_id": "a"}


def test_a_class_declared_below_the_body_is_found():
    assert SIGNATURE.convert({"tenant_id": "a", "late": {"at": "2026-01-02T03:04:05Z"}})["late"] == Later(
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("annotation", "value", "made"),
    [
        (datetime, "2026-01-02T03:04:05+00:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (date, "2026-01-02", date(2026, 1, 2)),
        (timedelta, "PT90S", timedelta(seconds=90)),
        (UUID, "00000000-0000-0000-0000-000000000007", UUID(int=7)),
        (Decimal, "1.50", Decimal("1.50")),
        (Colour, "red", Colour.RED),
        (Level, 1, Level.LOW),
        (Line, {"sku": "a"}, Line("a", 1)),
        (list[Line], [{"sku": "a"}, {"sku": "b", "amount": 2}], [Line("a"), Line("b", 2)]),
        (Address, {"city": "x"}, Address("x")),
        (Line | None, None, None),
        (Line | None, {"sku": "a"}, Line("a")),
        (dict[str, Line], {"x": {"sku": "a"}}, {"x": Line("a")}),
        (dict[int, str], {"7": "a"}, {7: "a"}),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[int], [1, 2], {1, 2}),
        (float, 1, 1.0),
        (Literal["a", "b"], "a", "a"),
        (Extra, {"note": "x"}, {"note": "x"}),
        (Mapping[str, Any], {"a": 1}, {"a": 1}),
        (Sequence[int], [1], [1]),
        (dict, {"a": [1]}, {"a": [1]}),
        (list[dict], [{}], [{}]),
        (Any, {"a": [1]}, {"a": [1]}),
        (object, [1], [1]),
        (dict[str, object], {"a": [1, None]}, {"a": [1, None]}),
        (list[Mapping[str, object]], [{"a": {}}], [{"a": {}}]),
        (Anything, {"it": {"a": 1}}, Anything({"a": 1})),
        (str | datetime, "2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z"),
        (UUID | str, "plain", "plain"),
        (Line | Later, {"at": "2026-01-02T00:00:00Z"}, Later(datetime(2026, 1, 2, tzinfo=UTC))),
        ("list[Line]", [{"sku": "a"}], [Line("a")]),
        (Invoice, {"number": str(UUID(int=7))}, Invoice(number=UUID(int=7))),
        (list[Invoice], [{"number": str(UUID(int=7))}], [Invoice(number=UUID(int=7))]),
        (Invoice | None, {"number": str(UUID(int=7))}, Invoice(number=UUID(int=7))),
    ],
    ids=str,
)
def test_a_param_becomes_what_it_is_annotated_as(annotation, value, made):
    got = of(annotation).convert({"value": value})["value"]
    assert got == made
    assert type(got) is type(made)


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (Colour, "blue", "params.value: invalid enum value 'blue'"),
        (list[Line], [{"sku": "a"}, {"sku": 1}], "params.value[1].sku: expected str, got int"),
        (Literal["a"], "b", "params.value: invalid enum value 'b'"),
        (int, 1.5, "params.value: expected int, got float"),
        (Invoice, {"number": 7}, "params.value: number: UUID input should be a string"),
        (list[Invoice], [{}], "params.value[0]: number: Field required; it was given [{}]"),
        (Custom, {}, "params.value: no JSON value becomes a Custom"),
        (Callable[[], None], {}, "params.value: no JSON value becomes a"),
        (Line | Later, {"x": 1}, "params.value: object missing required field sku, or params.value"),
    ],
    ids=str,
)
def test_a_param_that_can_not_become_that_is_refused(annotation, value, told):
    with pytest.raises(InvalidParams) as refused:
        of(annotation).check({"value": value})
    assert told in str(refused.value)


def test_an_annotation_that_is_not_found_is_told_once_where_the_body_is():
    async def one(ctx, value: Fraction, other: int): ...

    signature = Signature("sync", one)
    with pytest.warns(ConfigurationWarning, match="parameter 'value' is annotated as 'Fraction'") as told:
        assert signature.convert({"value": {"a": 1}, "other": 1}) == {"value": {"a": 1}, "other": 1}
    (warning,) = told
    assert (warning.filename, warning.lineno) == (__file__, one.__code__.co_firstlineno)


def test_a_class_below_a_scheduled_body_is_not_told_as_lost():
    names: dict[str, Any] = {}
    code = """
from __future__ import annotations
from dataclasses import dataclass
from pyrula.workflows import Every, Registry, workflow
@workflow(registry=Registry(), schedule=Every(60, params={"one": {}}))
async def body(ctx, one: Below): ...
@dataclass
class Below: ...
"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(code, names)
        assert names["body"].signature.convert({"one": {}}) == {"one": names["Below"]()}


def test_conversion_leaves_the_params_as_they_were():
    params = {"value": [{"sku": "a"}]}
    of(list[Line]).convert(params)
    assert params == {"value": [{"sku": "a"}]}


def test_an_open_body_takes_any_name_and_checks_its_annotation():
    async def opened(ctx, a: int, **others: str): ...

    signature = Signature("sync", opened)
    assert signature.convert({"a": 1, "b": "x"}) == {"a": 1, "b": "x"}
    with pytest.raises(InvalidParams, match=r"params\.b: expected str"):
        signature.check({"a": 1, "b": 2})
    assert signature.takes("anything")


def test_a_class_of_the_enclosing_function_is_found():
    @dataclass
    class Local:
        a: int

    async def local(ctx, value: Local):
        return Local

    assert Signature("sync", local).convert({"value": {"a": 1}}) == {"value": Local(1)}

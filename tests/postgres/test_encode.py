"""Parameters arrive as they were."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from pyrula.store.postgres.encode import BINARY, encode, kinds
from tests.postgres.server import Server


def arrived(server: Server, kind: str, values: list[Any]) -> list[Any]:
    """What the server makes of an array."""
    sql = f"SELECT array_to_json($1::{kind}[])::text"
    encoded, form = encode(values, kinds(sql)[0])
    with psycopg.connect(server.url()) as connection:
        result = connection.pgconn.exec_params(sql.encode(), [encoded], None, [form])
        text = result.get_value(0, 0)
    assert text is not None
    found: list[Any] = json.loads(text)
    return found


@pytest.mark.parametrize("count", [1, 63, 64, 65, 129, 1000])
def test_integers_arrive_as_they_were(postgres_server: Server, count: int) -> None:
    values = [n * (-1) ** n for n in range(count)]
    for kind in ("bigint", "integer"):
        assert encode(values, kind)[1] == BINARY
        assert arrived(postgres_server, kind, values) == values


@pytest.mark.parametrize("values", [[2**63 - 1, -(2**63)], [None, 2**62], [None], [True, False]])
def test_the_largest_and_none_arrive_as_they_were(postgres_server: Server, values: list[Any]) -> None:
    assert arrived(postgres_server, "bigint", values) == values


def test_the_kind_of_an_array_is_taken_from_its_own_place() -> None:
    assert kinds("SELECT $1::bigint, unnest($3::integer[]), $2::text[], $3::integer[]") == (
        None,
        "text",
        "integer",
    )

"""What each statement really read: plans as the server ran them, from its own log (auto_explain)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from pyrula.store.statements import statements
from tests.postgres.server import Server

OPTIONS = (
    "session_preload_libraries=auto_explain",
    "auto_explain.log_analyze=on",
    "auto_explain.log_timing=off",
    "auto_explain.log_buffers=on",
    "auto_explain.log_format=json",
)
"""Of a server whose plans are to be read."""
_COMMENT = re.compile(r"^--.*$", re.MULTILINE)


class Read(NamedTuple):
    """One execution. pages: of the buffer; rows: that it took as parameters, gave or changed."""

    pages: int
    rows: int
    plan: str


@contextmanager
def plans(server: Server, schema: str) -> Iterator[dict[str, list[Read]]]:
    """Fills the dict, when it is left, with what each of the store's statements read meanwhile."""
    found: dict[str, list[Read]] = defaultdict(list)
    before = len(server.output())
    _switch(server, "0")
    try:
        yield found
    finally:
        _switch(server, "-1")
        names = {"schema": schema, "channel": "", "lock": 0}
        blocks = {
            _plain(
                _COMMENT.sub("", text).format(**names) if "{schema}" in text else _COMMENT.sub("", text)
            ): block
            for block, text in statements("pyrula.store.postgres").items()
        }
        for query, plan in _logged(server.output()[before:]):
            block = blocks.get(_plain(query))
            if block is not None:
                found[block].append(
                    Read(_pages(plan["Plan"]), _rows(plan["Plan"]), json.dumps(plan["Plan"], indent=1))
                )


def _switch(server: Server, milliseconds: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET auto_explain.log_min_duration = {milliseconds}")  # type: ignore[call-overload]  # a text of ours
        connection.execute("SELECT pg_reload_conf()")


def _logged(output: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in re.finditer(r"LOG:  duration: .* plan:\n((?:\t.*\n)+)", output):
        plan = json.loads("\n".join(line[1:] for line in entry[1].splitlines()))
        yield plan["Query Text"], plan


def _plain(text: str) -> str:
    return " ".join(text.split())


def _pages(plan: dict[str, Any]) -> int:
    return int(plan.get("Shared Hit Blocks", 0)) + int(plan.get("Shared Read Blocks", 0))


def _rows(plan: dict[str, Any]) -> int:
    """The rows of its answer, those of its arrays, and those that it wrote."""

    def below(node: dict[str, Any]) -> float:
        counted = node["Node Type"] in ("Function Scan", "ModifyTable")
        rows = node["Actual Rows"] * node["Actual Loops"] if counted else 0
        if node["Node Type"] == "ModifyTable" and not rows:  # without RETURNING it says how many came in
            rows = sum(each["Actual Rows"] * each["Actual Loops"] for each in node.get("Plans", ())[:1])
        return float(rows + sum(below(each) for each in node.get("Plans", ())))

    return round(plan["Actual Rows"] * plan["Actual Loops"] + below(plan))

"""The table of README.md names every report and every test of one, and only tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
REPORTS = """
1 3 6 7 9 12 14 16 17 20 23 25 29 30 33 34 36 39 41 42 46 48 49 52 53 55 56 59 61 62 64 67 69 72 74 75 77 80 81 84
86 87 88 91 93 95 98 99 102 103 105 109 110 111 114 116 118 121 123 125 127 130 131 133 134 135 138 141 142 145 148
149 152 153 155 159 160 162 164 167 168 172 174 175 176 180 181 183
"""


def written_in(file: Path) -> set[str]:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    functions = (node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {name.removeprefix("test_") for name in functions if name.startswith("test_")}


def table() -> dict[int, set[tuple[str, str]]]:
    """Report -> (file below tests/, name of the test without its beginning)."""
    found: dict[int, set[tuple[str, str]]] = {}
    rows = re.findall(
        r"^\| (\d+) \| (.+?) \|", (HERE / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    for report, cell in rows:
        file = ""
        for named, test in re.findall(r"(?:([\w/]+): )?`(\w+)`", cell):
            file = named or file
            found.setdefault(int(report), set()).add((file, test))
    return found


def test_every_report_has_a_row() -> None:
    assert sorted(table()) == [int(number) for number in REPORTS.split()]


def test_every_test_that_the_table_names_exists() -> None:
    for named in table().values():
        for file, test in named:
            if "/" in file:
                assert test in written_in(HERE.parent / f"{file}.py"), (file, test)
            else:
                assert f"case_{test}" in written_in(HERE / f"{file}.py"), (file, test)


def test_every_test_of_a_report_is_in_the_table() -> None:
    named = {(file, f"case_{test}") for tests in table().values() for file, test in tests}
    written = {
        (file.stem, test)
        for file in HERE.glob("test_*.py")
        for test in written_in(file)
        if test.startswith("case_")
    }
    assert written - named == set()

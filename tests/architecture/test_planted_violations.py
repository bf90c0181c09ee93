"""Every check is seen to fail: a violation is planted in a small tree, and the tool must name it."""

from __future__ import annotations

import pytest

from tests.architecture import rules
from tests.architecture.conftest import Tree

# Planted text is put together here so that this file keeps the rules it tests.
HASH = "#"


def test_the_small_tree_itself_passes_every_check(tree: Tree) -> None:
    for command in (
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy", "--strict", "src"),
        ("lint-imports", "--no-cache"),
    ):
        code, output = tree.run(*command)
        assert code == 0, output


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("admission", "import time\n\nNOW = time.time()\n", "TID251"),
        ("admission", "from time import monotonic\n\nNOW = monotonic()\n", "TID251"),
        ("policies/retry", "import random\n\nDRAW = random.random()\n", "TID251"),
        ("workflows/client", "import uuid\n\nRUN_ID = uuid.uuid4()\n", "TID251"),
        ("store/rows", "from datetime import datetime\n\nNOW = datetime.now()\n", "TID251"),
        ("limiters/window", "import secrets\n\nDRAW = secrets.token_hex()\n", "TID251"),
        ("model/run", "import os\n", "F401"),
        ("model/lease", "def held() -> bool:\n    return True\n", "D103"),
        ("model/step", f"WIDE = '{'x' * 120}'\n", "E501"),
        ("model/gate", "print('hello')\n", "T201"),
        ("model/lane", f"COUNT = 'one'  {HASH} type: ignore\n", "PGH003"),
    ],
)
def test_ruff_catches(tree: Tree, path: str, text: str, rule: str) -> None:
    tree.plant(f"src/pyrula/{path}.py", f'"""A module."""\n\n{text}')
    code, output = tree.run("ruff", "check", "--no-cache", "src")
    assert code == 1
    assert rule in output


@pytest.mark.parametrize("path", ["clock", "ids"])
def test_time_and_chance_are_read_where_they_belong(tree: Tree, path: str) -> None:
    (tree.root / f"src/pyrula/{path}/__init__.py").unlink()
    tree.plant(f"src/pyrula/{path}.py", '"""The edge."""\n\nimport time\n\nNOW = time.time()\n')
    code, output = tree.run("ruff", "check", "--no-cache", "src")
    assert code == 0, output


def test_ruff_catches_a_file_that_is_not_formatted(tree: Tree) -> None:
    tree.plant("src/pyrula/model/run.py", '"""A module."""\n\nSTATES = [ "queued" ]\n')
    code, output = tree.run("ruff", "format", "--check", "--no-cache", "src")
    assert code == 1
    assert "run.py" in output


def test_mypy_catches_a_wrong_type_and_a_missing_one(tree: Tree) -> None:
    tree.plant("src/pyrula/model/run.py", 'def state(run) -> int:\n    return "queued"\n')
    code, output = tree.run("mypy", "--strict", "src")
    assert code == 1
    assert "[no-untyped-def]" in output
    assert "[return-value]" in output


@pytest.mark.parametrize(
    ("path", "text", "contract"),
    [
        ("model/run", "import pyrula.admission", "Imports point down only"),
        ("policies/limit", "import pyrula.limiters", "Imports point down only"),
        ("admission", "import pyrula.workflows.workflow", "Imports point down only"),
        ("store/rows", "import pyrula.workflows.body", "Imports point down only"),
        ("workflows/client/submit", "import pyrula.workflows.worker", "Imports point down only"),
        ("workflows/body/call", "import pyrula.workflows.client", "Imports point down only"),
        ("web/app", "import pyrula.temporal", "Imports point down only"),
        ("testing/environment", "import pyrula.cli", "Imports point down only"),
        ("errors", "import pyrula.model", "Imports point down only"),
        ("admission", "import time", "What decides can't reach"),
        ("model/run", "import asyncio", "What decides can't reach"),
        ("limiters/window", "import threading", "What decides can't reach"),
        ("policies/limit", "import sqlite3", "What decides can't reach"),
        ("policies/stamp", "import pyrula.ids", "What decides can't reach"),
        ("admission", "import apsw", "What decides can't reach"),
        ("store/sharded", "import pyrula.store.sqlite", "Only store.open names a backend"),
        ("workflows/client/submit", "import pyrula.store.sqlite", "Only store.open names a backend"),
        ("store/sqlite/store", "import pyrula.store.postgres", "Backends never meet"),
        ("kafka/stream", "import pyrula.store", "KafkaStream is a declaration"),
    ],
)
def test_lint_imports_catches(tree: Tree, path: str, text: str, contract: str) -> None:
    package = tree.root / f"src/pyrula/{path}/__init__.py"
    target = f"src/pyrula/{path}/__init__.py" if package.exists() else f"src/pyrula/{path}.py"
    tree.plant(target, f'"""A module."""\n\n{text}\n')
    code, output = tree.run("lint-imports", "--no-cache", "--no-logo")
    assert code == 1
    broken = [line for line in output.splitlines() if line.endswith("BROKEN")]
    assert any(line.startswith(contract) for line in broken), output


def test_what_the_contracts_allow_passes(tree: Tree) -> None:
    tree.plant("src/pyrula/limiters/hub.py", '"""A module."""\n\nimport threading\n')
    tree.plant("src/pyrula/workflows/workflow/__init__.py", '"""A module."""\n\nimport pyrula.kafka.stream\n')
    text = '"""A module."""\n\nimport pyrula.store.postgres\nimport pyrula.store.sqlite\n'
    tree.plant("src/pyrula/store/open/__init__.py", text)
    code, output = tree.run("lint-imports", "--no-cache", "--no-logo")
    assert code == 0, output


def test_a_file_of_400_lines_is_caught_and_one_of_399_is_not(tree: Tree) -> None:
    tree.plant("src/pyrula/store/rows.py", "ROW = 1\n" * 399)
    assert rules.long_files(tree.root) == []
    tree.plant("src/pyrula/store/rows.py", "ROW = 1\n" * 400)
    tree.plant("src/pyrula/store/sqlite/sql/turn.sql", "-- a line\n" * 400)
    assert [line.split(":")[0] for line in rules.long_files(tree.root)] == [
        "src/pyrula/store/rows.py",
        "src/pyrula/store/sqlite/sql/turn.sql",
    ]


def test_the_page_is_counted_as_all_else_but_not_the_library_that_it_ships(tree: Tree) -> None:
    static = "src/pyrula/web/static"
    tree.plant(f"{static}/page.js", "a();\n" * 399)
    tree.plant(f"{static}/uplot.js", "a();\n" * 400)
    tree.plant("tests/web/axe/axe.min.js", "a();\n" * 400)
    assert rules.long_files(tree.root) == []
    tree.plant(f"{static}/page.css", "a { b: c; }\n" * 400)
    tree.plant(f"{static}/views/run.js", "a();\n" * 400)
    assert [line.split(":")[0] for line in rules.long_files(tree.root)] == [
        f"{static}/page.css",
        f"{static}/views/run.js",
    ]


@pytest.mark.parametrize(
    "text", ["https://files.python" + "hosted.org/x", "index = py" + "pi.org", "at /wor" + "k/main"]
)
def test_an_address_or_a_path_of_one_machine_is_caught(tree: Tree, text: str) -> None:
    assert rules.addresses(tree.root) == []
    tree.plant("requirements/run.txt", f"{text}\n")
    assert [line.split(":")[0] for line in rules.addresses(tree.root)] == ["requirements/run.txt"]


@pytest.mark.parametrize(
    ("path", "text", "word"),
    [
        ("src/pyrula/store/utils.py", "", "utils"),
        ("src/pyrula/model/run.py", "class JobState: ...\n", "job"),
        ("src/pyrula/model/run.py", "class Run:\n    task_id: str\n", "task"),
        ("src/pyrula/model/run.py", "def of(base: int) -> int:\n    return base\n", "base"),
        ("tests/model/test_run.py", "def test_a_job_waits() -> None: ...\n", "job"),
    ],
)
def test_a_word_that_means_another_idea_is_caught(tree: Tree, path: str, text: str, word: str) -> None:
    assert rules.banned_names(tree.root) == []
    tree.plant(path, text)
    found = rules.banned_names(tree.root)
    assert len(found) == 1
    assert f"`{word}`" in found[0]


def test_asyncio_and_temporal_keep_their_own_word(tree: Tree) -> None:
    tree.plant(
        "src/pyrula/store/turn.py", "import asyncio\n\n\ndef stop(task: asyncio.Task[None]) -> None: ...\n"
    )
    tree.plant("src/pyrula/temporal/slots.py", "def reserve_task() -> None: ...\n")
    assert rules.banned_names(tree.root) == []


def test_a_block_that_only_one_backend_has_is_caught(tree: Tree) -> None:
    tree.plant(
        "src/pyrula/store/sqlite/sql/turn.sql", "-- name: claim\nSELECT 1;\n-- name: reap\nSELECT 2;\n"
    )
    assert rules.unlike_backends(tree.root) == []
    tree.plant(
        "src/pyrula/store/postgres/sql/turn.sql", "-- name: claim\nSELECT 1;\n-- name: wake\nSELECT 3;\n"
    )
    assert rules.unlike_backends(tree.root) == [
        "turn.sql:reap is in sqlite/sql and not in its sibling",
        "turn.sql:wake is in postgres/sql and not in its sibling",
    ]


def test_a_statement_in_front_of_the_first_block_is_caught(tree: Tree) -> None:
    tree.plant("src/pyrula/store/sqlite/sql/turn.sql", "-- about\nSELECT 1;\n-- name: claim\nSELECT 2;\n")
    assert len(rules.unnamed_sql(tree.root)) == 1


@pytest.mark.parametrize("pragma", ["type: ignore[arg-type]", "noqa: E501", "TO" + "DO later"])
def test_a_pragma_without_a_reason_and_unfinished_work_are_caught(tree: Tree, pragma: str) -> None:
    tree.plant("src/pyrula/model/run.py", f"COUNT = 1  {HASH} {pragma}\n")
    assert len(rules.unexplained(tree.root)) == 1


def test_a_pragma_with_its_reason_is_fine(tree: Tree) -> None:
    beside = f"COUNT = 1  {HASH} type: ignore[assignment]  {HASH} apsw's stub says str here\n"
    tree.plant("src/pyrula/model/run.py", beside)
    tree.plant(
        "src/pyrula/model/step.py",
        f"{HASH} The column is as wide as the table.\nCOUNT = 1  {HASH} noqa: E501\n",
    )
    assert rules.unexplained(tree.root) == []


def test_a_test_that_sleeps_is_caught_but_at_the_edge(tree: Tree) -> None:
    nap = "await asyncio.sle" + "ep(0.5)\n"
    tree.plant("tests/crash/test_kill.py", nap)
    assert rules.naps(tree.root) == []
    tree.plant("tests/policies/test_limit.py", nap)
    assert len(rules.naps(tree.root)) == 1


def test_a_module_without_a_layer_is_caught(tree: Tree) -> None:
    assert rules.unlayered_modules(tree.root) == []
    tree.plant("src/pyrula/workflows/registry.py", "")
    assert rules.unlayered_modules(tree.root) == [
        "pyrula.workflows.registry is in no layer of pyproject.toml's import contract"
    ]


def test_a_public_name_without_a_page_is_caught(tree: Tree) -> None:
    tree.plant("docs/policies/limit.md", "`Limit(key, max)` holds back.\n")
    assert rules.undocumented(tree.root, ["Limit"]) == []
    assert len(rules.undocumented(tree.root, ["Limit", "Li"])) == 1

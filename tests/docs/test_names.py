"""What the pages name is there: every call of a client, a context, a worker, a store, every command and its options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pyrula.cli.main import app
from pyrula.store.protocol import Store
from pyrula.telemetry.figures import OF_PROCESS, OF_STORE
from pyrula.testing import Environment
from pyrula.workflows import Context, Worker, WorkflowClient
from pyrula.workflows.client.blocking import BlockingClient

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED: dict[str, Any] = {
    "client": WorkflowClient,
    "calls": BlockingClient,
    "client.blocking": BlockingClient,
    "ctx": Context,
    "worker": Worker,
    "store": Store,
    "client.store": Store,
    "env": Environment,
    "env.client": WorkflowClient,
    "env.store": Store,
}
CALL = re.compile(rf"(?<![\w.])({'|'.join(sorted(map(re.escape, NAMED), key=len, reverse=True))})\.(\w+)\(")
COMMAND = re.compile(r"(?:^|`|\$ )pyrula ([a-z][^`\n]*)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
ROW = re.compile(r"^\| `pyrula .*$", re.MULTILINE)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def calls(text: str) -> Iterator[tuple[str, str]]:
    for found in CALL.finditer(text):
        yield found[1], found[2]


def lacking_options(text: str) -> list[str]:
    """Commands, and options beside them (in a table those of the whole row), that the command line does not have."""
    lacking = []
    for found in COMMAND.finditer(text):
        commands, words = _found(found[1].split())
        if not words:
            lacking.append(f"pyrula {found[1]}")
        said = found[1].split(" #")[0]
        options = {option for command in commands for each in command.params for option in each.opts}
        lacking += [f"pyrula {words}: {each}" for each in OPTION.findall(said) if each not in options]
    for row in ROW.findall(text):
        named = [_found(each.split())[0] for each in re.findall(r"`pyrula ([^`]*)`", row)]
        options = {
            option for group in named for command in group for each in command.params for option in each.opts
        }
        lacking += [f"{row[:40]}: {each}" for each in OPTION.findall(row) if each not in options]
    return lacking


def _found(words: list[str]) -> tuple[list[Any], str]:
    """The command that the words begin with, with all of its group where they name only that; and its name."""
    command, name = typer.main.get_command(app), []
    for word in words:
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            break
        command, name = inner, [*name, word]
    return [command, *getattr(command, "commands", {}).values()], " ".join(name)


@pages
def test_a_call_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [f"{whose}.{name}" for whose, name in calls(text) if not hasattr(NAMED[whose], name)] == []


@pages
def test_a_command_that_a_page_names_is_there_with_its_options(page: Path) -> None:
    assert lacking_options(page.read_text(encoding="utf-8")) == []


def test_what_is_not_there_is_seen() -> None:
    assert list(calls("`client.workers()` and ctx.fly(3), not my_client.fly()")) == [
        ("client", "workers"),
        ("ctx", "fly"),
    ]
    assert lacking_options(
        "`pyrula gates --fast`, `pyrula fly`\npyrula limits set w1 --all --slow # --no"
    ) == [
        "pyrula gates: --fast",
        "pyrula fly",
        "pyrula limits set: --slow",
    ]
    assert lacking_options("| `pyrula runs` | `--state`, `--speed` |") == [
        "| `pyrula runs` | `--state`, `--speed` |: --speed"
    ]


def test_every_command_has_a_page() -> None:
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    root: Any = typer.main.get_command(app)
    assert [name for name in root.commands if f"`pyrula {name}" not in text] == []


def test_every_command_takes_a_store_and_json() -> None:
    lacking = {
        name: options
        for name, command in _commands(typer.main.get_command(app))
        if (options := {"--store", "--json"} - {option for each in command.params for option in each.opts})
    }
    assert lacking == {"demo": {"--store"}}  # it makes its own


def test_every_figure_has_a_page_and_a_page_names_no_other() -> None:
    text = "\n".join(
        (ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("operations", "kafka")
    )
    figures = {f"pyrula_{figure.name}": figure.kind for figure in (*OF_STORE, *OF_PROCESS)}
    told = set(re.findall(r"\bpyrula_[a-z_]+", text))
    told |= {f"pyrula_stream_{name}" for name in re.findall(r"`…_([a-z_]+)", text)}
    ends = {"counter": "_total", "histogram": "_bucket", "gauge": ""}
    known = figures.keys() | {name + ends[kind] for name, kind in figures.items()}
    assert sorted(told - known) == []
    assert [name for name, kind in figures.items() if not {name, name + ends[kind]} & told] == []


def test_an_environment_variable_that_a_page_names_is_read() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    named, read = (set(re.findall(r"\bPYRULA_[A-Z_]+", each)) for each in (text, code))
    named = {name for name in named if not name.startswith("PYRULA_TEST_")}
    assert named == read - {"PYRULA_DEMO_NOTES"}  # between the demonstration and its workers


def _commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path}{name} ")
        else:
            yield path + name, command

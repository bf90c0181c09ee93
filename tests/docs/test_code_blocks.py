"""The pages tell the truth: every Python block compiles, those marked `run` run, and every link leads somewhere.

A block that starts with ```python run is executed as a module whose top level may await (`python -m asyncio`).
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from pyrula.testing import Environment
from pyrula.workflows import Worker, WorkflowClient, default_registry, workflow

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python(?P<run> run)?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


class Block(NamedTuple):
    """A Python block of a page."""

    page: Path
    line: int
    code: str
    runs: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("code")) + 1
            yield Block(page, line, found["code"], found["run"] is not None)


BLOCKS = list(blocks())


def compiled(block: Block) -> object:
    """The code of a block, with the lines of its page. Raises SyntaxError."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    padded = "\n" * (block.line - 1) + block.code
    return compile(padded, str(block.page), "exec", flags=flags, dont_inherit=True)


def run(block: Block) -> None:
    """Execute a block as a module of its own."""
    module = ModuleType(f"page_{block.page.stem.replace('-', '_')}_{block.line}")
    sys.modules[module.__name__] = module  # annotations are looked up there
    try:
        made = eval(compiled(block), module.__dict__)  # type: ignore[arg-type]  # compile answers a code object
        if asyncio.iscoroutine(made):
            asyncio.run(made)
    finally:
        del sys.modules[module.__name__]


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever a block declares or writes is its own."""
    monkeypatch.setattr(default_registry, "_workflows", {})
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_is_python(block: Block) -> None:
    compiled(block)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.runs], ids=str)
def test_a_block_that_says_so_runs(block: Block) -> None:
    run(block)


def test_the_first_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    first = next(block for block in BLOCKS if block.page.name == "README.md")
    assert first.code.count("ctx.sleep(60)") == 1
    run(first._replace(code=first.code.replace("ctx.sleep(60)", "ctx.sleep(0.05)")))  # a minute is long
    assert capsys.readouterr().out.splitlines()[-1] == "3"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    astray = []
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            astray.append(f"{target}#{anchor}" if anchor else target)
    assert astray == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_heading_is_followed_by_words(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "code", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.strip()]
    depths = [len(found[0]) if (found := re.match(r"#+(?= )", line)) else 0 for line in lines]
    empty = [
        line
        for line, depth, following in zip(lines, depths, [*depths[1:], 1], strict=True)
        if depth and 0 < following <= depth
    ]
    assert empty == []


@pytest.mark.parametrize(
    "made", [Worker, WorkflowClient, Environment, workflow], ids=lambda made: made.__name__
)
def test_every_option_has_a_page(made: Callable[..., object]) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    lacking = [
        name
        for name, option in inspect.signature(made).parameters.items()
        if option.kind in (option.KEYWORD_ONLY, option.POSITIONAL_OR_KEYWORD)
        and not re.search(rf"\b{name}\b\s*(=|`|,|\))", text)
    ]
    assert lacking == []


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("policy", ["limit", "rate", "collect", "debounce", "fairness", "retry", "schedule"])
def test_a_policys_page_shows_its_example(policy: str) -> None:
    page = (ROOT / f"docs/policies/{policy}.md").read_text(encoding="utf-8")
    example = (ROOT / f"examples/{policy}.py").read_text(encoding="utf-8")
    assert f"```python run\n{example}```" in page


def test_there_is_enough_to_test() -> None:
    assert sum(block.runs for block in BLOCKS) >= 12

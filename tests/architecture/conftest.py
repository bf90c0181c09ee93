"""A small tree under the real tree's rules, to plant violations in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture import rules

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Tree:
    """A copy of the rules (pyproject.toml) over modules that hold nothing but a docstring."""

    root: Path

    def plant(self, path: str, text: str) -> None:
        """Write a file of the tree, its folders included."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def run(self, *command: str) -> tuple[int, str]:
        """The exit code and the output of a tool run over this tree and no other."""
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src"), "NO_COLOR": "1"}
        answer = subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return answer.returncode, answer.stdout + answer.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree that keeps every rule, with each module that the import contracts name."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    small = Tree(tmp_path)
    for module in _contracted_modules():
        place = Path("src", *module.split("."))
        for folder in [place, *place.parents][:-2]:
            small.plant(f"{folder}/__init__.py", '"""A place in the architecture."""\n')
    return small


def _contracted_modules() -> set[str]:
    named: set[str] = set()
    for contract, field in (
        ("layers", "layers"),
        ("backends-apart", "layers"),
        ("kafka-stream", "source_modules"),
        ("pure", "source_modules"),
        ("backends-hidden", "protected_modules"),
    ):
        for entry in rules.contract(ROOT, contract)[field]:
            named.update(re.findall(r"[\w.]+", entry))
    return named

"""The tree keeps the house rules of CONTRIBUTING.md that no linter knows."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import rules

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "rule",
    [
        rules.long_files,
        rules.addresses,
        rules.banned_names,
        rules.unlike_backends,
        rules.unnamed_sql,
        rules.unexplained,
        rules.naps,
        rules.unlayered_modules,
        rules.unlisted_modules,
    ],
    ids=lambda rule: rule.__name__,
)
def test_the_tree_keeps(rule: Callable[[Path], list[str]]) -> None:
    assert rule(ROOT) == []


def test_every_public_name_of_workflows_is_in_the_docs() -> None:
    workflows = importlib.import_module("pyrula.workflows")
    assert rules.undocumented(ROOT, sorted(workflows.__all__)) == []

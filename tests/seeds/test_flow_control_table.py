"""Each sentence of the seed has a test."""

import ast
from pathlib import Path

import pytest

from tests.seeds.flow_control_table import SEED, TABLE, examples, units

ROOT = Path(__file__).parents[2]


def test_the_table_covers_every_sentence_of_the_seed_in_its_order():
    assert list(TABLE) == units(SEED.read_text(encoding="utf-8"))


def test_the_seed_is_cut_without_loss():
    text = SEED.read_text(encoding="utf-8")
    rest = text
    for unit in (*examples(text), *units(text)):
        rest = rest.replace(unit, "", 1)
    assert rest.split() == ["Flow", "control", "Keys", "Batching", "and", "debouncing", "events"]


@pytest.mark.parametrize("test", sorted({test for tests in TABLE.values() for test in tests}))
def test_a_test_that_the_table_names_exists(test):
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in tree.body if isinstance(node, functions)}

"""Each sentence of the second seed has a test, and each test that the table names is one that runs."""

import subprocess
import sys
from pathlib import Path

from tests.seeds.worker_rate_limiters_table import NO_PROMISE, listed, rows, units

ROOT = Path(__file__).parents[2]


def test_every_unit_of_the_seed_comes_to_rows_of_the_table_or_is_no_promise():
    assert len(listed()) == 108
    for unit, means in listed():
        assert len(unit) == 12
        assert means and (means[0] in NO_PROMISE or all(int(row) in rows() for row in means)), unit


def test_every_row_of_the_table_comes_from_the_seed_and_they_are_in_its_order():
    from_seed = [int(row) for _, means in listed() if means[0] not in NO_PROMISE for row in means]
    assert list(dict.fromkeys(from_seed)) == list(rows()) == list(range(1, len(rows()) + 1))


def test_every_row_names_a_test():
    assert [number for number, (_, tests) in rows().items() if not tests] == []


def test_every_test_that_the_table_names_is_collected():
    named = sorted({test for _, tests in rows().values() for test in tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    collected = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert collected == set(named)


def test_the_seed_is_cut_at_sentences_items_and_examples():
    text = """A heading

One sentence. Another one,
on two lines. See also elsewhere.

• an item,
• another: with a sentence. And one more.

Elixir

config :it, [
  a: 1
]
"""
    assert units(text) == [
        "A heading",
        "One sentence.",
        "Another one, on two lines.",
        "See also elsewhere.",
        "an item,",
        "another: with a sentence.",
        "And one more.",
        "config :it, [ a: 1 ]",
    ]

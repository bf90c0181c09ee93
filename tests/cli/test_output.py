"""What people read."""

import io
import shlex
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from pyrula.cli import output


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (0.004, "4 ms"),
        (0.25, "0.2 s"),
        (9.94, "9.9 s"),
        (45, "45 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_400 * 6 + 3600 * 3, "6 d 3 h"),
        (-45, "-45 s"),
    ],
)
def test_a_span_is_said_as_people_say_it(seconds, said):
    assert output.span(seconds) == said


def test_an_instant_is_said_from_now():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert output.ago(now - timedelta(seconds=20), now) == "20 s ago"
    assert output.ago(now + timedelta(seconds=20), now) == "in 20 s"
    assert output.ago(None, now) == "-"


def test_an_empty_key_can_be_seen():
    assert output.key_text("") == "''"
    assert output.key_text("a\nb") == r"'a\nb'"
    assert output.key_text("tenant 1") == "tenant 1"


def test_a_long_value_takes_one_line():
    assert output.line({"text": "x" * 100}, 20) == '{"text":"xxxxxxxxxx…'
    assert output.line("a\n  b") == "a b"


def test_markup_in_a_users_text_is_not_obeyed():
    out = Console(file=io.StringIO(), width=80)
    out.print(output.table(["a"], [["[red]x[/]"]]))
    assert "[red]x[/]" in out.file.getvalue()


@pytest.mark.parametrize(
    ("gate", "key"), [("sync.limit", "a"), ("it's $HOME; rm", "O'Brien & \nsons"), ("open ai", None)]
)
def test_what_is_given_to_be_copied_is_one_word_each_to_a_shell(gate, key):
    assert shlex.split(output.as_arguments(gate, key)) == [gate, *([] if key is None else ["--key", key])]

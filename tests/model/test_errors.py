"""The exception tree: every error has a code of its own, survives pickling, and is drawn in the module."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from pyrula import errors
from pyrula.errors import PyrulaError, RunFailed, shown

ALL = [
    value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == errors.__name__
]


def test_codes_are_stable_and_unique():
    codes = [each.code for each in ALL]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch("[a-z_]+", code) for code in codes)


def test_the_tree_is_drawn_as_it_is():
    drawn = dict(re.findall(r"[├└]── (\w+) +(\w+) ", errors.__doc__ or ""))
    assert drawn == {
        each.__name__: each.code
        for each in ALL
        if each.__mro__[1] is not UserWarning and each is not PyrulaError
    }
    parents: list[str] = []
    for prefix, name in re.findall(r"^    ([│ ]*[├└]── )(\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(prefix) // 4
        del parents[depth - 1 :]
        parent = getattr(errors, parents[-1]) if parents else PyrulaError
        assert parent in getattr(errors, name).__bases__, name
        parents.append(name)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("what happened")))
    assert str(error) == "what happened"
    assert error.code == kind.code


def test_the_details_of_an_ended_run_survive_too():
    error = pickle.loads(pickle.dumps(RunFailed("failed", run_id="r1", error={"type": "ValueError"})))
    assert (error.run_id, error.error) == ("r1", {"type": "ValueError"})


class _Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value", [_Broken(), 10**5000, "x" * 10_000, list(range(10_000))], ids=lambda v: type(v).__name__
)
def test_a_value_is_always_shown_and_never_at_length(value):
    assert 0 < len(shown(value)) <= 80

"""What a retry makes anew: the entries an attempt failed by, and whatever was asked because of them
(pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyrula.workflows.body.branches import Branch
from pyrula.workflows.body.replay import Key


class Asked(NamedTuple):
    """A call that was made. told: how many entries the body had been told of by then."""

    branch: Branch
    number: int
    told: int


def made_anew(failed: set[Key], asked: Sequence[Asked], told: Mapping[Key, int]) -> list[Key]:
    """Entries to drop. failed: those the error came from. told: entry → how many had been told of, it
    included.

    Later calls of a failed branch go too, and calls of the branches above it, or begun since, that were made
    after the failure was told: clean-up and compensation belong to the attempt. Other branches keep what they
    have.
    """
    found = set(failed)
    for path, number in failed:
        since = told.get((path, number))
        for call in asked:
            branch = call.branch
            if branch.path == path:
                later = call.number > number
            elif since is None or call.told < since:
                later = False
            else:
                later = branch.is_above(path) or branch.born >= since
            if later:
                found.add((branch.path, call.number))
    return sorted(found)

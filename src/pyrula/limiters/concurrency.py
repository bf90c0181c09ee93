"""A concurrency counter knows how many executions run, and how many more were promised a place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Concurrency:
    """`running` execute now; `reserved` places are held for polls on their way.

    Without `reserved` two polls that leave at once would both take the last place.
    `arriving` executions run already but have not been counted in a frequency window yet.
    It changes in place: a value made anew at every level for every change was half of what a limiter cost.
    """

    running: int = 0
    reserved: int = 0
    arriving: int = 0

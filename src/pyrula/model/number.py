"""Numbers in text, as addresses, settings and command lines have them: plain digits, and nothing beside them.

Python's own `int` and `float` take more: `1_000`, digits of other scripts, spaces around, `nan`.
"""

from __future__ import annotations

import re
from typing import Final

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def read_whole(text: str) -> int:
    """The whole number that `text` is. Raises ValueError."""
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def read_number(text: str) -> float:
    """The number that `text` is. Raises ValueError."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no number")
    return float(text)

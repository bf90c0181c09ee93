"""The second seed, cut into units, and the rows of worker_rate_limiters.md that each unit comes to.

A unit is a sentence, an item of a list, a heading or an example. The seed's text is not kept here: of each unit there
is a digest in worker_rate_limiters_units.txt, in the seed's order, followed by its rows, or by what makes it no
promise: `heading`, `reference` to another page, `lead-in` of the units below it, or `erlang`: how the original is made.

    python -m tests.seeds.worker_rate_limiters_table SEED.txt

says where that text and the digests part.
"""

from __future__ import annotations

import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).with_name("worker_rate_limiters.md")
UNITS: Final = Path(__file__).with_name("worker_rate_limiters_units.txt")
NO_PROMISE: Final = frozenset({"heading", "reference", "lead-in", "erlang"})
_LANGUAGES: Final = ("Elixir", "Erlang")
_CODE: Final = ("config ", "{temporal_sdk", "case ")


def units(text: str) -> list[str]:
    """Everything the seed says, a unit at a time, in its order; white space is one blank."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        one = " ".join(paragraph.split())
        if paragraph.startswith(_CODE):
            found.append(one)
        elif one not in _LANGUAGES:
            items = (item.strip() for item in one.split("•"))
            found += [unit for item in items if item for unit in re.split(r"(?<=[.:])\s+(?=[A-Z])", item)]
    return found


def digest(unit: str) -> str:
    """What stands for a unit."""
    return sha256(unit.encode()).hexdigest()[:12]


def listed() -> list[tuple[str, tuple[str, ...]]]:
    """Each unit's digest, and its rows or what makes it no promise."""
    lines = (line.split() for line in UNITS.read_text(encoding="utf-8").splitlines())
    return [(first, tuple(rest)) for first, *rest in lines]


def rows() -> dict[int, tuple[str, tuple[str, ...]]]:
    """The table: the sentence of each row, and its tests as pytest names them from this repository's root."""
    found = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        int(number): (sentence, tuple(f"tests/{test}" for test in re.findall(r"`([\w/]+\.py::\w+)`", tests)))
        for number, sentence, tests in found
    }


def main() -> None:
    """Compare a text of the seed with the digests."""
    found, known = units(Path(sys.argv[1]).read_text(encoding="utf-8")), [one for one, _ in listed()]
    parted = [unit for unit, one in zip(found, known, strict=False) if digest(unit) != one]
    if parted or len(found) != len(known):
        raise SystemExit(
            f"{len(found)} units, {len(known)} digests; the first to part: {parted[:1] or 'none'}"
        )
    print(f"{len(found)} units, each as its digest has it")


if __name__ == "__main__":
    main()

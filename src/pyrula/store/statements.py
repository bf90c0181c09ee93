"""Named SQL blocks, read from the .sql files that lie beside a backend: `file.block` → statement."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def statements(package: str) -> dict[str, str]:
    """Every block of every .sql file in `package`/sql, by `file.block`. Raises ValueError on a block named twice."""
    blocks: dict[str, str] = {}
    for path in sorted(files(package).joinpath("sql").iterdir(), key=lambda p: p.name):
        if not path.name.endswith(".sql"):
            continue
        parts = _NAME.split(path.read_text("utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            address = f"{path.name.removesuffix('.sql')}.{name}"
            if address in blocks:
                raise ValueError(f"SQL block {address} is defined twice")
            blocks[address] = text.strip()
    return blocks

"""`python -m benchmarks [engine|postgres|kafka|page|peers|telemetry|temporal] [options]`; without a name the engine's.

`make bench` runs the engine's, `make bench STORE=postgres` the one of PostgreSQL.
"""

from __future__ import annotations

import importlib
import os
import sys

NAMES = {
    "engine": "engine",
    "sqlite": "engine",
    "postgres": "postgres",
    "kafka": "kafka",
    "page": "page_gates",
    "peers": "peers",
    "telemetry": "telemetry",
    "temporal": "temporal_throughput",
}


def main() -> None:
    """Run the benchmark that is named first, or that STORE names."""
    named = len(sys.argv) > 1 and sys.argv[1] in NAMES
    name = sys.argv.pop(1) if named else os.environ.get("STORE") or "engine"
    if name not in NAMES:
        sys.exit(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
    importlib.import_module(f"benchmarks.{NAMES[name]}").main()


if __name__ == "__main__":
    main()

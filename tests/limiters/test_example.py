"""The example of docs/limiters.md runs, and shows what it says."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "limiters.py"


def test_the_example_runs():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 12
    assert "worker workflow: concurrency 3 of 3" in done.stdout
    assert "begun in this window: 12" in done.stdout

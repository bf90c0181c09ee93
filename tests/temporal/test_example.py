"""The example of docs/temporal.md runs against a real server, and shows what it says."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "temporal_worker.py"


def test_the_example_runs(server):
    env = {**os.environ, "TEMPORAL_ADDRESS": server.address}
    done = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, timeout=60, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    assert "two at once: at most 2 ran together" in done.stdout
    assert "no limit: at most 6 ran together" in done.stdout

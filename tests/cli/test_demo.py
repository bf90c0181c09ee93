"""`pyrula demo` keeps its promises, here as everywhere."""

import json
import os
import subprocess
import sys
import time


def test_the_demonstration_keeps_every_promise_in_under_a_minute(tmp_path):
    started = time.monotonic()
    played = subprocess.run(
        [sys.executable, "-m", "pyrula", "demo", "--json", "--keep", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ},
    )
    assert played.returncode == 0, played.stdout + played.stderr
    rows = json.loads(played.stdout)
    assert len(rows) == 15 and all(row["kept"] for row in rows)
    assert "killed with SIGKILL while it executed" in played.stderr
    assert time.monotonic() - started < 60

"""What a commit writes: pages, so that what is written together should lie together."""

from __future__ import annotations

from pathlib import Path

import apsw

from pyrula.policies.limit import Limit
from pyrula.store.open import open_store
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands

KEYS, BUSY = 3_000, 60


async def test_a_turn_for_some_of_many_keys_writes_few_pages(tmp_path: Path) -> None:
    clock = VirtualClock()
    hands = Hands(open_store(f"sqlite:///{tmp_path}/runs.db", clock=clock), clock)
    hands.declare("w", concurrency=Limit(key="k", max=1))
    await hands.register()
    others = [hands.submission("w", f"other {n}", params={"k": f"other {n}"}) for n in range(KEYS)]
    await hands.store.submit(others)
    while len(hands.executing) < KEYS:  # each key full, and the lanes and gates of all of them there
        await hands.turn(wanted=500)
    for round_ in range(2):  # the second time they are there, too
        busy = [f"{round_} {n}" for n in range(BUSY)]
        await hands.store.submit(
            [hands.submission("w", run_id, params={"k": f"busy {n}"}) for n, run_id in enumerate(busy)]
        )
        connection = apsw.Connection(str(tmp_path / "runs.db"))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
        assert set(await hands.turn()) == set(busy)
        written = (tmp_path / "runs.db-wal").stat().st_size // 4096
        await hands.end(*busy)
    assert written < BUSY / 2, f"{written} pages for {BUSY} runs"
    await hands.store.close()

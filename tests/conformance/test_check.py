"""Each discrepancy that the audit is for is planted, and told."""

import apsw
import pytest

from pyrula.clock import SECOND
from pyrula.model.outcome import Retry
from pyrula.policies.collect import Collect
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.store.open import open_store
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands, event, sleep

PLANTED = {
    "counts 2 in use, and 1": "UPDATE gates SET in_use = 2 WHERE name = 'g' AND key = 'a'",
    "which is not there": "DELETE FROM gates WHERE name = 'g' AND key = 'a'",
    "does not execute": "INSERT INTO slots SELECT id, 999, 0 FROM gates WHERE name = 'g' AND key = 'b'",
    "lease of a worker that is not registered": "DELETE FROM workers",
    "is in the queue as well": "INSERT INTO queue SELECT lane, 1, seq, stamp FROM runs WHERE run_id = 'a0'",
    "is leased, and is completed": "UPDATE runs SET state = 'completed' WHERE run_id = 'a0'",
    "counts 1 in use, and 0": "UPDATE leases SET slots = x''",
    "and 0 are noted": "UPDATE leases SET held = 1",
    "and 1 are noted": "INSERT INTO slots SELECT slots, seq, 0 FROM leases WHERE slots <> x''",
    "is in the queue, and is cancelled": "UPDATE runs SET state = 'cancelled' WHERE run_id = 'a1'",
    "belongs to another lane": "UPDATE runs SET lane = x'00' WHERE run_id = 'a1'",
    "neither queued nor leased nor parked": "DELETE FROM queue",
    "is noted as waiting, no run": "DELETE FROM queue",
    "is noted as empty, runs": "UPDATE lanes SET state = 0 WHERE state = 2",
    "no turn knows of it": "DELETE FROM lanes WHERE state = 2",
    "counts 7 waiting lanes": "UPDATE gates SET waiting = 7 WHERE name = 'g' AND key = 'a'",
    "neither a wake time": "UPDATE gates SET wake_at = NULL WHERE name = 'r' AND key = 'a'",
    "counts 5 ready lanes": "UPDATE units SET ready = 5 WHERE workflow = 'w'",
    "counts 9 lanes that name it": "UPDATE gates SET lanes = 9 WHERE name = 'g' AND key = 'a'",
    "names gate": "DELETE FROM gates WHERE name = 'r' AND key = 'a'",
    "is named by no lane": "UPDATE gates SET lanes = 0 WHERE name = 'g' AND key = 'b'",
    "has no lane, and will not be swept": "DELETE FROM lanes WHERE state = 2",
    "counts 9 events": "UPDATE buffers SET count = 9",
    "events are in buffer": "DELETE FROM buffers",
    "is parked (retry) without a timer": "DELETE FROM timers WHERE kind = 0",
    "until": "DELETE FROM timers WHERE kind = 1",
    "waits for nothing": "DELETE FROM steps WHERE status = 'waiting'",
    "for child a0, which has ended": "UPDATE steps SET kind = 'child', value = x'6130' WHERE status = 'waiting'; "
    "UPDATE runs SET state = 'completed' WHERE run_id = 'a0'",
    "for child x, which has ended": "UPDATE steps SET kind = 'child', value = x'78' WHERE status = 'waiting'; "
    "INSERT INTO away (parent, child, shard, state) VALUES ('waits', 'x', 1, 'failed')",
    "for event go, which has come": "INSERT INTO events (seq, name, payload) SELECT seq, name, x'31' FROM steps "
    "WHERE status = 'waiting' AND kind = 'event'",
    "settled entries, and one has the number": "UPDATE steps SET settled = 50 WHERE name = 'done'",
}


@pytest.mark.parametrize("sentence", PLANTED)
async def test_a_discrepancy_is_told(sentence: str, tmp_path: object, clock: VirtualClock) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db", clock=clock)
    hands = Hands(store, clock)
    hands.declare("w", concurrency=Limit(key="k", max=1, name="g"))
    hands.declare("rated", rate_limit=Rate(key="k", per_second=1, burst=1, name="r"))
    hands.declare("batch", trigger=Collect(key="k", max_events=5, window_seconds=60))
    hands.declare("plain")
    await hands.register()
    await hands.submit_many("plain", ["sleeps", "waits", "retries"])
    await hands.submit_many("rated", ["x0", "x1"], k="a")
    await hands.turn()
    await hands.store.send_event("waits", "done", b"1")
    await hands.park("sleeps", sleep(0, await store.now() + 5 * SECOND))
    await hands.park("waits", event(0, "done"))
    await hands.park("waits", event(1, "go"))
    await hands.end("retries", outcome=Retry(b"{}", 9 * SECOND))
    await hands.submit_many("w", ["a0", "a1"], k="a")
    await hands.submit_many("w", ["b0"], k="b")
    await hands.trigger("batch", {"k": "a"})
    await hands.turn()
    assert await store.check() == []
    await store.close()
    with apsw.Connection(f"{tmp_path}/runs.db") as connection:
        connection.execute(PLANTED[sentence])
    store = open_store(f"sqlite:///{tmp_path}/runs.db", clock=clock)
    found = await store.check()
    await store.close()
    assert [line for line in found if sentence in line], found

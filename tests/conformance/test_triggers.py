import msgspec
import pytest

from pyrula.clock import SECOND
from pyrula.policies.collect import Collect
from pyrula.policies.debounce import Debounce
from pyrula.policies.limit import Limit
from tests.conformance.hands import Hands


async def batches(hands: Hands, key: str = "a") -> list[list[object]]:
    """The events of each run of a key, in the order of submission."""
    runs, _ = await hands.store.runs("w", None, None, 100, None)
    own = [run.params for run in reversed(runs) if run.params["key"] == key]
    assert all(len(params["events"]) == params["count"] for params in own)
    return [[one["n"] for one in params["events"]] for params in own]


async def test_a_collect_batch_is_complete_at_its_number_and_answers_the_run(hands: Hands) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=2, window_seconds=60))
    await hands.register()
    answers = [await hands.trigger("w", {"k": "a", "n": n}) for n in range(1, 6)]
    await hands.trigger("w", {"k": "b", "n": 9})
    assert [answer is not None for answer in answers] == [False, True, False, True, False]
    assert await hands.turn() == [answers[1], answers[3]]
    await hands.run_until(60)
    assert await batches(hands) == [[1, 2], [3, 4], [5]]
    assert await batches(hands, "b") == [[9]]
    assert await hands.store.buffers(None) == []


async def test_many_events_in_one_call_are_the_same_as_one_by_one(hands: Hands) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=2, window_seconds=60))
    await hands.register()
    events = [hands.event("w", {"k": key, "n": n}) for n in range(5) for key in ("a", "b")]
    answers = await hands.store.trigger(events)
    assert [answer is not None for answer in answers] == [False] * 2 + [True] * 2 + [False] * 2 + [
        True
    ] * 2 + [False] * 2
    assert await batches(hands) == [[0, 1], [2, 3]] == await batches(hands, "b")
    assert [(buffer["key"], buffer["count"]) for buffer in await hands.store.buffers("w")] == [
        ("a", 1),
        ("b", 1),
    ]


async def test_a_collect_window_counts_from_the_first_event(hands: Hands) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=100, window_seconds=0.25))
    await hands.register()
    for n in range(6):
        await hands.trigger("w", {"k": "a", "n": n})
        await hands.run_until(0.1)
    await hands.run_until(1)
    assert await batches(hands) == [[0, 1, 2], [3, 4, 5]]
    assert [at for at, _ in hands.started] == [0.25, 0.55]


async def test_an_event_after_the_window_opens_the_next_batch_though_nobody_took_a_turn(hands: Hands) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=100, window_seconds=1))
    await hands.register()
    await hands.trigger("w", {"k": "a", "n": 1})
    await hands.move(1)
    assert await hands.trigger("w", {"k": "a", "n": 2}) is None
    assert await batches(hands) == [[1]]
    await hands.run_until(1)
    assert await batches(hands) == [[1], [2]]


@pytest.mark.parametrize(("cap", "fires"), [(None, [65.0]), (19.5, [19.5, 39.5, 59.5, 65.0])])
async def test_a_debounce_waits_for_quiet_and_no_longer_than_its_cap(
    hands: Hands, cap: float | None, fires: list[float]
) -> None:
    hands.declare("w", trigger=Debounce(key="k", window_seconds=5, max_wait_seconds=cap))
    await hands.register()
    await hands.trigger("w", {"k": "b", "n": 0})
    for n in range(61):
        await hands.trigger("w", {"k": "a", "n": n})
        await hands.run_until(1)
    await hands.run_until(20)
    assert [event for batch in await batches(hands) for event in batch] == list(range(61))
    assert [at for at, _ in hands.started if at != 5.0] == fires
    assert await batches(hands, "b") == [[0]]


async def test_a_buffer_keeps_the_policy_of_its_first_event(hands: Hands) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=3, window_seconds=60))
    await hands.register()
    await hands.trigger("w", {"k": "a", "n": 1})
    hands.declare("w", trigger=Collect(key="k", max_events=2, window_seconds=1))
    assert await hands.trigger("w", {"k": "a", "n": 2}) is None
    assert await hands.trigger("w", {"k": "a", "n": 3}) is not None
    await hands.trigger("w", {"k": "a", "n": 4})
    assert await hands.trigger("w", {"k": "a", "n": 5}) is not None


async def test_an_event_id_counts_once_per_key_and_gets_the_first_answer(hands: Hands) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=2, window_seconds=60))
    await hands.register()
    assert await hands.trigger("w", {"k": "a", "n": 1}, "e1") is None
    assert await hands.trigger("w", {"k": "a", "n": 1}, "e1") is None
    assert await hands.trigger("w", {"k": "b", "n": 1}, "e1") is None
    run_id = await hands.trigger("w", {"k": "a", "n": 2}, "e2")
    assert run_id is not None
    assert await hands.trigger("w", {"k": "a", "n": 2}, "e2") == run_id  # its batch has ended
    assert await hands.trigger("w", {"k": "a", "n": 1}, "e1") is None
    assert await batches(hands) == [[1, 2]]
    again = [hands.event("w", {"k": "c", "n": 3}, "x"), hands.event("w", {"k": "c", "n": 3}, "x")]
    assert await hands.store.trigger(again) == [None, None]
    assert [(buffer["key"], buffer["count"]) for buffer in await hands.store.buffers("w")] == [
        ("b", 1),
        ("c", 1),
    ]


async def test_a_batch_that_would_pass_its_bytes_fires_first(hands: Hands) -> None:
    hands.declare("w", trigger=Collect(key="k", max_events=1000, window_seconds=60))
    await hands.register()
    big = "x" * 1_000_000
    events = [hands.event("w", {"k": "a", "n": n, "big": big}) for n in range(6)]
    assert await hands.store.trigger(events[:3]) == [None] * 3
    assert await hands.store.trigger(events[3:]) == [None] * 3
    assert await batches(hands) == [[0, 1, 2, 3]]
    await hands.run_until(60)
    assert await batches(hands) == [[0, 1, 2, 3], [4, 5]]


async def test_flush_fires_now_and_an_empty_buffer_is_no_batch(hands: Hands) -> None:
    hands.declare("w", trigger=Debounce(key="k", window_seconds=60))
    await hands.register()
    await hands.trigger("w", {"k": "a", "n": 1})
    await hands.trigger("w", {"k": "b", "n": 1})
    run_id = await hands.store.flush("w", "a")
    assert await hands.turn() == [run_id]
    assert await hands.store.flush("w", "a") is None
    assert [buffer["key"] for buffer in await hands.store.buffers(None)] == ["b"]


async def test_a_batch_goes_through_the_gates_of_its_key(hands: Hands) -> None:
    hands.declare(
        "w", trigger=Collect(key="k", max_events=1, window_seconds=60), concurrency=Limit(key="key", max=1)
    )
    await hands.register()
    first, second = [await hands.trigger("w", {"k": "a", "n": n}) for n in range(2)]
    other = await hands.trigger("w", {"k": "b", "n": 0})
    assert await hands.turn() == [first, other]
    assert first is not None
    assert await hands.end(first) == [second]


async def test_a_thousand_keys_pending_hold_no_place_in_the_worker(hands: Hands) -> None:
    hands.declare("w", trigger=Debounce(key="k", window_seconds=5))
    hands.declare("plain")
    await hands.register()
    await hands.store.trigger([hands.event("w", {"k": f"k{n}", "n": n}) for n in range(1000)])
    await hands.submit("plain", "r")
    assert await hands.turn(wanted=10) == ["r"]
    await hands.end("r")
    await hands.run_until(5, wanted=10)
    assert len({run_id for at, run_id in hands.started if at == 5.0}) == 1000


async def test_what_a_buffer_shows(hands: Hands) -> None:
    hands.declare("w", trigger=Debounce(key="k", window_seconds=5, max_wait_seconds=8))
    await hands.register()
    await hands.trigger("w", {"k": "a", "n": 1})
    await hands.move(4)
    await hands.trigger("w", {"k": "a", "n": 2})
    (buffer,) = await hands.store.buffers("w")
    assert (buffer["due_at"] - buffer["opened_at"]).total_seconds() == 8
    payload = msgspec.json.encode({"k": "a", "n": 1})
    assert (buffer["count"], buffer["bytes"]) == (2, 2 * (len(payload) + 1))
    assert buffer["policy"] == {"kind": "debounce", "window_us": 5 * SECOND, "max_wait_us": 8 * SECOND}

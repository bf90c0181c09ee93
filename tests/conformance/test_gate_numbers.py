"""Whose number a gate is shown with: where runs wait, the one that lets the first in line in, as `why` tells it."""

from typing import Any

import msgspec

from pyrula.clock import SECOND
from pyrula.policies.limit import Limit
from pyrula.policies.rate import Rate
from pyrula.policies.stamp import Stamped
from pyrula.store.protocol import Gate
from tests.conformance.hands import Hands


def limit(hands: Hands, most: int) -> None:
    hands.declare("w", concurrency=Limit(key="k", max=most, name="g"))


def rate(hands: Hands, seconds: float, burst: int = 1) -> None:
    hands.declare("w", rate_limit=Rate(key="k", per_second=1 / seconds, burst=burst, name="g"))


async def queue(hands: Hands, *run_ids: str, **options: Any) -> None:
    for run_id in run_ids:
        await hands.submit("w", run_id, params={"k": "a"}, **options)


async def restamp(hands: Hands) -> int:
    def stamp(params: bytes, priority: int) -> Stamped:
        return hands.stamped("w", msgspec.json.decode(params), priority)

    return int(await hands.store.restamp("w", stamp))


async def shown(hands: Hands) -> Gate:
    """The gate of key a, by whatever tells of it: all must tell the same."""
    (gate,) = await hands.store.gates("g", "a")
    pages = [await hands.store.gate_page("g", None, sort, 10, 0) for sort in ("name", "queued", "busy")]
    for told in (*(page[0] for page in pages), await hands.store.gate("g", "a")):
        assert msgspec.structs.replace(told, holders=gate.holders, queued=gate.queued) == gate
    return gate


async def agreed(hands: Hands, first: str) -> Gate:
    """The same, where `first` is first in line: `why` must give the same numbers for it."""
    gate = await shown(hands)
    (reason,) = (await hands.store.why(first))["reasons"]
    assert reason["kind"] == gate.kind
    if gate.kind == "limit":
        assert (reason["in_use"], reason["max"]) == (gate.in_use, gate.max)
    else:
        assert (reason["per_second"], reason["burst"], reason["tokens"], reason["next_token_at"]) == (
            gate.per_second,
            gate.burst,
            gate.tokens,
            gate.next_start_at,
        )
    return gate


async def test_a_restamp_by_code_that_no_worker_has_is_shown(hands: Hands) -> None:
    limit(hands, 3)
    await hands.register()
    await queue(hands, "r0", "r1", "r2", "r3")
    assert await hands.turn() == ["r0", "r1", "r2"]
    limit(hands, 2)
    assert await restamp(hands) == 1
    assert (await agreed(hands, "r3")).max == 2  # before any turn
    assert await hands.turn() == []
    assert (await agreed(hands, "r3")).max == 2
    assert await hands.end("r0") == []
    gate = await agreed(hands, "r3")
    assert (gate.in_use, gate.max, gate.next_start_at) == (2, 2, None)


async def test_a_new_declaration_is_not_shown_while_older_runs_wait(hands: Hands) -> None:
    limit(hands, 1)
    await hands.register()
    await queue(hands, "r0", "r1")
    await hands.turn()
    limit(hands, 2)
    await hands.register()
    await queue(hands, "r2")
    assert await hands.turn() == []
    gate = await agreed(hands, "r1")
    assert (gate.in_use, gate.max, gate.next_start_at) == (1, 1, None)
    assert await hands.end("r0") == ["r1", "r2"]
    assert (await shown(hands)).max == 2  # nobody waits: as declared


async def test_an_override_is_shown_over_the_stamp_and_the_declaration(hands: Hands) -> None:
    limit(hands, 2)
    await hands.register()
    await queue(hands, "r0", "r1", "r2", "r3", "r4", "r5")
    await hands.turn()
    limit(hands, 3)
    await hands.register()
    await hands.store.override("g", None, 5, 10 * SECOND)
    assert await hands.turn() == ["r2", "r3", "r4"]
    assert (await agreed(hands, "r5")).max == 5
    await hands.move(10)
    await hands.turn()
    assert (await agreed(hands, "r5")).max == 2


async def test_a_rate_is_shown_as_the_first_in_line_has_it(hands: Hands) -> None:
    rate(hands, 100)
    await hands.register()
    await queue(hands, "r0", "r1")
    assert await hands.turn() == ["r0"]
    rate(hands, 10, burst=3)
    await hands.register()
    gate = await agreed(hands, "r1")
    assert (gate.per_second, gate.burst, gate.tokens) == (0.01, 1, 0)
    rate(hands, 200)
    assert await restamp(hands) == 1
    await hands.move(100)
    assert await hands.turn() == []
    assert (await agreed(hands, "r1")).per_second == 0.005
    await hands.move(100)
    assert await hands.turn() == ["r1"]
    assert (await shown(hands)).per_second == 0.1  # nobody waits: as declared


async def test_first_in_line_is_who_has_the_first_priority(hands: Hands) -> None:
    limit(hands, 1)
    await hands.register()
    await queue(hands, "r0", "r1")
    await hands.turn()
    await hands.store.override("g", "a", 1, None)
    limit(hands, 2)
    await queue(hands, "low", priority=5)
    limit(hands, 3)
    await queue(hands, "high", priority=1)
    assert await hands.turn() == []
    await hands.store.override("g", "a", None, None)
    gate = await shown(hands)
    assert gate.max == 3
    assert gate.next_start_at is not None  # and so it starts at once
    assert await hands.turn() == ["high"]
    assert (await agreed(hands, "r1")).max == 1

"""Q. Keys: missing, None, any text, alike and not alike."""

from __future__ import annotations

import unicodedata
from typing import Any

from pyrula.workflows import Limit
from tests.cases.scene import Bystander, Scene, assert_times

ODD = ("2800::1", "{x}", "a/b@c", "a b", "", "\n", "\0", "x" * 100_000, "x" * 99_999 + "y")
ACCENTED = "Jos\u00e9"
NAMES = (
    "a b",
    "a_b",
    "A B",
    unicodedata.normalize("NFC", ACCENTED),
    unicodedata.normalize("NFD", ACCENTED),
)


async def test_case_118_a_missing_key_is_a_bucket_of_its_own(scene: Scene, bystander: Bystander) -> None:
    async def body(ctx: Any, tenant_id: str | None = "default", k: str = "k", seconds: float = 0) -> None:
        with scene.seat(ctx, k):
            await scene.env.sleep(seconds)

    scene.declare(body=body, concurrency=Limit("tenant_id", 1))
    await scene.work()
    for params in ({"tenant_id": None}, {}, {"tenant_id": ""}):
        await scene.one(seconds=10, **params)
    await scene.one(k="beside", seconds=10, tenant_id="a")
    await bystander.queue(tenant_id="b")
    await scene.reach(100)
    assert_times(scene.times(), [0, 10, 20])
    assert_times(scene.times("beside"), [0])


async def test_case_121_reserved_characters_and_long_keys_are_accepted_and_distinct(
    scene: Scene, bystander: Bystander
) -> None:
    scene.declare(concurrency=Limit("k", 1))
    await scene.work()
    for key in ODD:
        await scene.one(k=key, seconds=10)
        await scene.one(k=key, seconds=10)
    await bystander.queue()
    await scene.reach(5)
    for key in ODD:
        assert_times(scene.times(key), [0])
        assert await scene.executing(key=key) == 1
    assert len([gate for gate in await scene.client.gates() if gate.in_use]) == len(ODD)
    await scene.reach(30)
    assert all(scene.peaks[key] == 1 and len(scene.times(key)) == 2 for key in ODD)


async def test_case_123_nothing_is_normalised_and_1_is_the_text_1(scene: Scene, bystander: Bystander) -> None:
    scene.declare(concurrency=Limit("k", 1))
    await scene.work()
    for name in NAMES:
        await scene.one(k=name, seconds=10)
    await scene.one(k=1, seconds=10)
    await scene.one(k="1", seconds=10)
    await bystander.queue()
    await scene.reach(50)
    for name in NAMES:
        assert_times(scene.times(name), [0])
    assert_times(scene.times("1"), [0, 10])

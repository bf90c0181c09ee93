"""A store is opened with the shards that it was made with, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrula.errors import ConfigurationError, ShardMismatch, StoreUnavailable
from pyrula.policies import Limit
from pyrula.store.open import open_store, store_exists
from pyrula.store.sharded.store import ShardedStore
from pyrula.testing.clock import VirtualClock
from tests.conformance.hands import Hands
from tests.sharded.places import key_on


def urls(folder: Path, *names: str) -> list[str]:
    return [f"sqlite:///{folder / name}.db" for name in names]


def lose(folder: Path, name: str) -> None:
    for file in folder.glob(f"{name}.db*"):
        file.unlink()


async def made(folder: Path, *names: str) -> list[str]:
    """A store of these shards, with a run on each."""
    clock = VirtualClock()
    async with open_store(urls(folder, *names), clock=clock) as store:
        hands = Hands(store, clock)
        hands.declare("w", concurrency=Limit("k", max=1))
        await hands.register()
        for shard in range(len(names)):
            await hands.submit("w", f"run{shard}", params={"k": key_on(shard)})
    return urls(folder, *names)


async def test_the_same_shards_in_the_same_order_are_the_same_store(tmp_path: Path) -> None:
    where = await made(tmp_path, "a", "b", "c")
    async with open_store(where) as store:
        assert len((await store.runs(None, None, None, 9, None))[0]) == 3
    assert store_exists(" ".join(where))
    async with open_store(" ".join(where)) as store:
        assert store.shards == 3


@pytest.mark.parametrize("order", ["acb", "ab", "abcd", "b"])
async def test_another_order_or_number_is_refused_with_the_way_out(tmp_path: Path, order: str) -> None:
    await made(tmp_path, "a", "b", "c")
    with pytest.raises(ShardMismatch, match=r"shard \d of 3.*same files in the same order"):
        async with open_store(urls(tmp_path, *order)):
            pass


async def test_a_shard_of_another_store_is_refused(tmp_path: Path) -> None:
    await made(tmp_path, "a", "b")
    await made(tmp_path, "c", "d")
    with pytest.raises(ShardMismatch, match="another store"):
        async with open_store(urls(tmp_path, "a", "d")):
            pass


@pytest.mark.parametrize("lost", ["a", "b"])
async def test_a_shard_that_was_lost_is_not_made_anew(tmp_path: Path, lost: str) -> None:
    where = await made(tmp_path, "a", "b")
    lose(tmp_path, lost)
    with pytest.raises(ShardMismatch, match="restore it, or correct the URL"):
        async with open_store(where):
            pass
    assert not (tmp_path / f"{lost}.db").exists()


async def test_a_shard_that_is_lost_while_a_process_is_at_it_is_not_made_anew(tmp_path: Path) -> None:
    """Neither by that process's other connections, nor by whoever comes later."""
    where = await made(tmp_path, "a", "b")
    async with open_store(where) as store:
        await store.runs(None, None, None, 9, None)
        lose(tmp_path, "b")
        assert await store.gate_page(None, None, "name", 9, 0) == []  # no turn has been taken
        assert isinstance(store, ShardedStore)
        with pytest.raises(StoreUnavailable, match=r"b\.db.*moved or removed"):
            store.shard(1).heartbeat("w1")
    assert not (tmp_path / "b.db").exists()
    (tmp_path / "b.db").touch()  # what an earlier build, or another program, leaves where it found no file
    assert not store_exists(where[1])
    with pytest.raises(ShardMismatch, match="restore it, or correct the URL"):
        async with open_store(where):
            pass


async def test_a_store_that_was_half_made_is_made(tmp_path: Path) -> None:
    where = urls(tmp_path, "a", "b", "c")
    store = open_store(where)
    assert isinstance(store, ShardedStore)
    await store.shard(0).connect()
    await store.close()
    async with open_store(where) as again:
        assert await again.check() == []


async def test_a_store_of_one_shard_does_not_become_one_of_several(tmp_path: Path) -> None:
    (one,) = urls(tmp_path, "a")
    async with open_store(one):
        pass
    with pytest.raises(ShardMismatch):
        async with open_store([one, *urls(tmp_path, "b")]):
            pass


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "1 to 1024 shards"),
        (["sqlite:///a.db", "sqlite:///a.db"], "twice"),
        (["sqlite:///a.db", "sqlite://"], "in memory"),
        (["sqlite:///a.db", "postgresql://u:secret@h/db"], "one kind"),
    ],
)
def test_urls_that_make_no_store_are_refused(given: list[str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        open_store(given)
    assert "secret" not in str(raised.value)


async def test_one_url_in_a_list_is_a_plain_store(tmp_path: Path) -> None:
    async with open_store(urls(tmp_path, "a")) as store:
        assert store.shards == 1

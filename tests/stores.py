"""Stores to run a test on: one fixture, one parameter per kind, so that each promise is tested on all.

`PYRULA_TEST_STORES=sqlite,postgres` picks the kinds (default: all four). A test asks for `store_url` (every
kind; of sharded SQLite in memory alone), or for `shared_url` (kinds that several processes, or several stores of one
process, can open). A folder's conftest.py imports the fixtures that its tests use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyrula.store.sharded import courier, turns
from tests.postgres.schemas import Schemas
from tests.postgres.server import Server

__all__ = ["patient_turns", "postgres_schemas", "postgres_server", "shared_url", "store_kind", "store_url"]

VARIABLE = "PYRULA_TEST_STORES"
KINDS = {
    "sqlite": ("sqlite-memory", "sqlite-file"),
    "postgres": ("postgres",),
    "sharded-sqlite": ("sharded-sqlite-memory", "sharded-sqlite-file"),
    "sharded-postgres": ("sharded-postgres",),
}
SHARED = frozenset({"sqlite-file", "postgres", "sharded-sqlite-file", "sharded-postgres"})
SHARDS = 3
ORDER = (
    "its runs have no gate, so they are on several shards, each with an order (priorities, turns) of its own"
)
ONE_SHARD = {
    "test_restamp_puts_runs_behind_a_new_gate_and_another_key": "gates that would be counted on another shard than "
    "the run waits on: refused there (tests/sharded)",
    "test_nothing_is_left_for_a_worker_that_is_full_or_held_back": "a shard knows what a worker executes there: one "
    "that is full with runs of others is waited for, once",
    "test_a_turn_that_is_rolled_back_is_not_remembered": "a transaction of many shards is none",
    "test_case_029_a_claim_touches_as_many_rows_behind_10_000_runs_as_behind_10": "what one shard's turn touches",
    "test_case_055_the_next_free_place_goes_to_the_one_who_had_none": ORDER,
    "test_case_059_no_priority_counts_as_3_and_nothing_missing_sorts_first": ORDER,
    "test_case_059_an_inflow_of_its_own_or_a_lower_priority_starves_nobody": ORDER,
    "test_case_168_a_worker_without_room_goes_on_beating": ORDER,
    "test_case_174_the_polls_of_one_poller_are_even_and_in_order": ORDER,
}
"""Tests of what only a store of one shard does, and why: they are skipped on others."""


def kinds() -> list[str]:
    """The kinds that this run of the tests is about. Raises ValueError for one that does not exist."""
    chosen = [word.strip() for word in os.environ.get(VARIABLE, ",".join(KINDS)).split(",") if word.strip()]
    unknown = sorted(set(chosen) - KINDS.keys())
    if unknown:
        raise ValueError(f"{VARIABLE} names {', '.join(unknown)}; it may name {', '.join(KINDS)}")
    return [kind for word in chosen for kind in KINDS[word]]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One server for all tests of the session; each test gets a schema of its own. Nobody kills it: it need not
    wait for its disk."""
    server = Server(options=("synchronous_commit=off", "full_page_writes=off", "max_wal_size=4GB"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_schemas(postgres_server: Server) -> Schemas:
    """Its schemas for stores."""
    return Schemas(postgres_server)


@pytest.fixture(params=[kind for kind in kinds() if kind != "sharded-sqlite-file"])
def store_kind(request: pytest.FixtureRequest) -> str:
    """The kind of store, by name."""
    return str(request.param)


@pytest.fixture
def store_url(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A store of that kind that nobody has used."""
    return made(store_kind, tmp_path, request)


@pytest.fixture(autouse=True)
def patient_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn goes on without a shard that takes longer than a second; on a busy machine each may, and none is slow."""
    monkeypatch.setattr(turns, "_PATIENCE_SECONDS", 20.0)
    monkeypatch.setattr(courier, "_PATIENCE_SECONDS", 20.0)


@pytest.fixture(params=[kind for kind in kinds() if kind in SHARED])
def shared_url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A store that nobody has used, of a kind that several processes can open."""
    return made(str(request.param), tmp_path, request)


def made(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """A store of a kind that nobody has used."""
    name = getattr(request.node, "originalname", "")
    if name in ONE_SHARD and kind.startswith("sharded"):
        pytest.skip(f"one shard only: {ONE_SHARD[name]}")
    return _MADE[kind](folder, request)


def _postgres(shards: int, request: pytest.FixtureRequest) -> str:
    schemas: Schemas = request.getfixturevalue("postgres_schemas")
    urls = schemas.take(shards)
    request.addfinalizer(lambda: schemas.give_back(urls))
    return " ".join(urls)


_MADE: dict[str, Callable[[Path, pytest.FixtureRequest], str]] = {
    "sqlite-memory": lambda folder, request: "sqlite://",
    "sqlite-file": lambda folder, request: f"sqlite:///{folder / 'runs.db'}",
    "postgres": lambda folder, request: _postgres(1, request),
    "sharded-postgres": lambda folder, request: _postgres(SHARDS, request),
    "sharded-sqlite-memory": lambda folder, request: " ".join(["sqlite://"] * SHARDS),
    "sharded-sqlite-file": lambda folder, request: " ".join(
        f"sqlite:///{folder / f'shard{number}.db'}" for number in range(SHARDS)
    ),
}

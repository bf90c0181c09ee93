"""The seed flow-control, by HTTP: `POST /{name}` and `POST /{name}/events` stamp policies as the client does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from pyrula.store.open import open_store
from pyrula.store.protocol import Store, Submission, Submitted, TriggerEvent
from pyrula.web import create_app
from pyrula.workflows import Collect, Limit, Rate, Registry, WorkflowClient, workflow

registry = Registry()


@workflow(
    name="sync_account",
    concurrency=Limit(key="tenant_id", max=2),
    rate_limit=Rate(key="tenant_id", per_second=5, burst=10),
    registry=registry,
)
async def sync_account(ctx: object, tenant_id: str, account: str) -> None: ...


@workflow(
    name="digest",
    trigger=Collect(key="user_id", max_events=3, window_seconds=60),
    concurrency=Limit(key="key", max=1),
    registry=registry,
)
async def digest(ctx: object, key: str, events: list[dict[str, object]], count: int) -> None: ...


class Noting:
    """A store, and what it was given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.submissions: list[Submission] = []
        self.events: list[TriggerEvent] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def submit(self, submissions: list[Submission]) -> list[Submitted]:
        self.submissions += submissions
        return await self._store.submit(submissions)

    async def trigger(self, events: list[TriggerEvent]) -> list[str | None]:
        self.events += events
        return await self._store.trigger(events)


@pytest.fixture
async def store() -> AsyncIterator[Noting]:
    store = open_store("sqlite://")
    await store.connect()
    yield Noting(store)
    await store.close()


@pytest.fixture
async def http(store: Noting) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(store, registry=registry)  # type: ignore[arg-type]  # the store behind it does the rest
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        yield http


async def test_a_run_submitted_by_http_is_stamped_like_the_clients(
    store: Noting, http: httpx.AsyncClient
) -> None:
    client = WorkflowClient(store, registry)  # type: ignore[arg-type]  # as above
    for params in ({"tenant_id": "acme", "account": "a"}, {"tenant_id": "globex", "account": "b"}):
        await client.submit("sync_account", params)
        await http.post("/sync_account", json=params)
        by_client, by_http = store.submissions[-2:]
        assert by_http.stamped == by_client.stamped
        assert msgspec.structs.replace(by_http, run_id=None) == msgspec.structs.replace(
            by_client, run_id=None
        )
        assert by_http.stamped.keys == (params["tenant_id"], params["tenant_id"])


async def test_an_event_sent_by_http_goes_where_the_clients_goes(
    store: Noting, http: httpx.AsyncClient
) -> None:
    client = WorkflowClient(store, registry)  # type: ignore[arg-type]  # as above
    event = {"user_id": "u1", "kind": "comment"}
    assert await client.trigger("digest", event) is None
    answer = await http.post("/digest/events", json=event)
    assert (answer.status_code, answer.json()) == (202, {"run_id": None})
    by_client, by_http = store.events
    assert by_http == by_client
    other = await http.post("/digest/events", json={"user_id": "u2"})
    assert other.json() == {"run_id": None}
    third = await http.post("/digest/events", json=event)
    run = await client.get(third.json()["run_id"])
    assert (run.params["key"], run.params["count"], run.params["events"]) == ("u1", 3, [event] * 3)
    assert run.keys == {"digest.limit": "u1"}


async def test_an_idempotency_key_makes_an_event_count_once(http: httpx.AsyncClient) -> None:
    answers = []
    for number in range(3):
        for _ in range(2):
            answer = await http.post(
                "/digest/events",
                json={"user_id": "u1", "n": number},
                headers={"Idempotency-Key": f"e{number}"},
            )
            answers.append(answer.json()["run_id"])
    assert answers[:4] == [None] * 4
    assert answers[4] is not None and answers[5] == answers[4]

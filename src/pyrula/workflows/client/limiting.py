"""Limiters of workers in other processes: read from their rows, and changed through these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from pyrula.errors import WorkerNotFound, shown
from pyrula.limiters import LimiterConfig, PollRate
from pyrula.limiters.wire import changes_to_json, config_from_json
from pyrula.model.duration import Duration
from pyrula.store.protocol import Store
from pyrula.workflows import prepare


class Changes(TypedDict, total=False):
    """What may be changed; what is left out stays as it is. `limits` are all of them: `{}` clears every level."""

    limits: Mapping[str, Any] | None
    task_poller_limiter: PollRate | None
    limiter_check_frequency: Duration


async def get(store: Store, worker_id: str) -> LimiterConfig:
    """What a live worker has, or will have once it has taken up what was set. Raises `WorkerNotFound`."""
    prepare.named("get_limiter_config: worker_id", worker_id)
    live = {row["worker_id"]: row["limiters"] for row in await store.workers() if row["alive"]}
    if worker_id not in live:
        raise unknown_worker(worker_id, live)
    return config_from_json(live[worker_id])


async def configure(store: Store, worker_id: str | None, changes: Changes) -> dict[str, LimiterConfig]:
    """Check the changes, store them for a live worker or (None) all of them, and answer what each will have.

    Raises `ConfigurationError` with nothing stored; `WorkerNotFound`.
    """
    unknown = changes.keys() - Changes.__annotations__.keys()
    if unknown:
        known = ", ".join(Changes.__annotations__)
        raise TypeError(f"set_limiter_config: there is no argument {sorted(unknown)[0]!r}; there are {known}")
    if worker_id is not None:
        prepare.named("set_limiter_config: worker_id", worker_id)
    wire = msgspec.json.encode(changes_to_json(changes))
    answers = await store.configure_limiters(worker_id, wire)
    if worker_id is not None and not answers:
        live = {row["worker_id"]: None for row in await store.workers() if row["alive"]}
        raise unknown_worker(worker_id, live)
    return {name: config_from_json(msgspec.json.decode(config)) for name, config in answers.items()}


def unknown_worker(worker_id: str, live: Mapping[str, Any]) -> WorkerNotFound:
    """No live worker has that id: name those that do exist."""
    known = ", ".join(sorted(live)[:10]) or "none: start one with `pyrula worker MODULE`"
    return WorkerNotFound(f"no live worker is called {shown(worker_id)}; there are: {known}")

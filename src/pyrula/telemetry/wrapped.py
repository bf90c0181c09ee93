"""What stands before a store and passes on whatever it does not see to itself."""

from __future__ import annotations

from typing import Any, Self

from pyrula.store.protocol import Store


class Wrapped:
    """A store to all that use it, `async with` included, which no look-up by name would find."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        setattr(self, name, value) if callable(value) else None  # once: the next look finds it here
        return value

    async def __aenter__(self) -> Self:
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._store.__aexit__(*exc)

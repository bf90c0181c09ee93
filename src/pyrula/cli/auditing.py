"""`check` and `migrate`: is the store what it should be?"""

from __future__ import annotations

from typing import Any

import typer

from pyrula.cli.connect import FAILED, AsJson, StoreUrl, given_store, opened, run
from pyrula.cli.output import show
from pyrula.store.open import bring_forward


def check(*, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Audit the counters against slots and leases; exits 1 and names each discrepancy if there is one."""

    async def call() -> list[str]:
        async with opened(store) as it:
            return await it.check()

    wrong = run(call())

    def render(out: Any) -> None:
        for each in wrong:
            out.print(each, markup=False, style="red")
        count = (
            f"{len(wrong)} discrepancies"
            if len(wrong) > 1
            else "1 discrepancy"
            if wrong
            else "all counters agree"
        )
        out.print(count, style="red" if wrong else "green")

    show({"discrepancies": wrong}, as_json, render)
    if wrong:
        raise typer.Exit(FAILED)


def migrate(*, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """Create the store's schema, or bring it forward to this version."""

    async def call() -> None:
        bring_forward(given_store(store))
        async with opened(store, create=True):
            pass

    run(call())
    show(
        {"store": given_store(store), "ready": True},
        as_json,
        lambda out: out.print(f"{given_store(store)} is ready", markup=False),
    )

"""What the demonstration looks like while it runs: a picture in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pyrula.cli.demo.verdict import Row
from pyrula.cli.demo.workflows import BURST
from pyrula.cli.output import bar, table
from pyrula.store.protocol import Gate


class Tenant(NamedTuple):
    """What became of a tenant's runs so far."""

    name: str
    queued: int
    executing: int
    done: int
    submitted: int


class Scene(NamedTuple):
    """One moment. buffers: (workflow, key, events, seconds until due); told: what happened, newest last."""

    seconds: float
    tenants: Sequence[Tenant]
    gates: Mapping[tuple[str, str], Gate]
    buffers: Sequence[tuple[str, str, int, float]]
    batches: Mapping[str, int]
    workers: Sequence[tuple[str, str]]
    told: Sequence[str]


def picture(scene: Scene) -> RenderableType:
    """The scene for a terminal."""
    told = Text("\n".join(scene.told[-6:]), "dim")
    workers = Text("   ").join(
        Text.assemble((name, "bold"), " ", (how, "green" if how == "alive" else "red"))
        for name, how in scene.workers
    )
    return Group(
        Panel(
            Group(_tenants(scene), Text(), _buffers(scene)),
            title=f"pyrula demo · {scene.seconds:.0f} s",
            title_align="left",
        ),
        Text.assemble("  workers: ", workers),
        Panel(told, title="what happened", title_align="left", border_style="dim"),
    )


def _tenants(scene: Scene) -> Table:
    rows = []
    for tenant in scene.tenants:
        limit = scene.gates.get(("limit", tenant.name))
        rate = scene.gates.get(("rate", tenant.name))
        tokens = None if rate is None else rate.tokens
        in_use = 0 if limit is None else limit.in_use
        slots = Text.assemble(bar(in_use, 2, 6), f" {in_use} of 2")
        left = BURST if tokens is None else tokens
        bucket = Text.assemble(("█" * left, "cyan"), ("░" * (BURST - left), "dim"), f" {left} of {BURST}")
        done = Text.assemble(bar(tenant.done, tenant.submitted, 14), f" {tenant.done}/{tenant.submitted}")
        rows.append((Text(tenant.name, "bold"), slots, bucket, str(tenant.queued), done))
    return table(
        ["sync_account", "slots (Limit 2)", "tokens (Rate 5/s, burst 10)", "queued", "done"],
        rows,
        right=["queued"],
    )


def _buffers(scene: Scene) -> Table:
    rows: list[tuple[Any, ...]] = [
        (workflow, key, f"{count} event" + ("s" if count != 1 else ""), f"fires in {max(0.0, due):.1f} s")
        for workflow, key, count, due in scene.buffers
    ]
    fired = [(workflow, "", "", f"{count} runs so far") for workflow, count in scene.batches.items()]
    return table(["buffers", "key", "holds", "when"], rows + fired)


def sentence(scene: Scene) -> str:
    """The scene on one line."""
    tenants = ", ".join(
        f"{tenant.name} {tenant.executing} executing {tenant.queued} queued {tenant.done}/{tenant.submitted}"
        " done"
        for tenant in scene.tenants
    )
    batches = ", ".join(f"{workflow} {count} runs" for workflow, count in scene.batches.items())
    return f"{scene.seconds:5.1f} s  {tenants}; {batches}"


def final(rows: Sequence[Row]) -> Table:
    """Promised against measured."""
    return table(
        ["promise", "promised", "measured", ""],
        [
            (
                row.promise,
                row.promised,
                row.measured,
                Text("kept", "green") if row.kept else Text("BROKEN", "bold red"),
            )
            for row in rows
        ],
        gives_way="promise",
    )

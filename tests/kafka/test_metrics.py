"""Figures of a stream in /metrics: lag, flight and stops of all workers, counters of this process's own."""

from __future__ import annotations

from pyrula.telemetry.counts import Counts
from pyrula.telemetry.observed import observed
from pyrula.web.metrics import Metrics
from tests.kafka.scene import Scene, at, stats


async def test_metrics_tell_lag_flight_stops_commits_and_rebalances(broker, topic):
    async with Scene(broker, topic(2), 2) as scene:
        counts = Counts()
        plain, scene.store = scene.store, observed(scene.store, counts)

        async def orders(ctx, record):
            if record["value"] == "wait":
                await ctx.wait_for_event("go")
            if record["value"] == "poison":
                raise ValueError("no")

        scene.declare(orders)
        scene.send(
            ["wait", "good", "good", "poison", "good", "good"], key=lambda n: "same" if n % 2 else None
        )
        worker = await scene.work()
        await scene.until(lambda: at(worker, 1).committed == 1 and stats(worker).finished == 3)

        labels = f'topic="{scene.topic}",workflow="orders"'
        at_0, at_1 = (f'partition="{n}",{labels}' for n in (0, 1))
        wanted = [
            f"pyrula_stream_lag_records{{{at_0}}} 3.0",
            f"pyrula_stream_lag_records{{{at_1}}} 2.0",
            f"pyrula_stream_stopped{{{at_0}}} 0.0",
            f"pyrula_stream_stopped{{{at_1}}} 1.0",
            f"pyrula_stream_waiting_records{{{at_1}}} 1.0",
            f"pyrula_stream_in_flight_records{{{labels}}} 1.0",
            f"pyrula_stream_finished_total{{{labels}}} 3.0",
            f"pyrula_stream_rebalances_total{{{labels}}} 1.0",
            f"pyrula_stream_commits_total{{{labels}}} ",
        ]
        figures = ""
        for _ in range(300):
            figures = (await Metrics(counts).render(plain)).decode()
            if all(line in figures for line in wanted):
                return
            await plain.clock.sleep(20_000)
        raise AssertionError(f"{[line for line in wanted if line not in figures]} not in\n{figures}")

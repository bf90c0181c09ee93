"""A loop of one's own under pyrula's limiters: what a worker asks before it takes more.

    python examples/limiters.py

pyrula's Worker does this for you; here it is by hand, around a plain asyncio queue.
"""

import asyncio

from pyrula.limiters import Event, Limiter, PollRate, WaitStopped, hub, node


async def handle(limiter: Limiter, order: int) -> None:
    """One execution: counted from its begin to its end."""
    limiter.begin("workflow")
    try:
        await asyncio.sleep(0.05)
        print(f"order {order} done")
    finally:
        limiter.end("workflow")


async def work(limiter: Limiter, orders: "asyncio.Queue[int]") -> None:
    """Ask first, then take: never more than every level, window, bucket and the machine allow."""
    async with asyncio.TaskGroup() as executions:
        while not orders.empty():
            places = limiter.reserve("workflow", orders.qsize())
            for _ in range(places):
                executions.create_task(handle(limiter, orders.get_nowait()))
                await asyncio.sleep(0)  # let it begin, so that its place is in use and no longer held
            if places == 0:
                room = limiter.room("workflow")
                print("held by:", *room.limited_by, sep="\n  ")
                await asyncio.sleep(0.1)


def told(event: Event) -> None:
    """What metrics would count."""
    if isinstance(event, WaitStopped):
        held = {
            f"{level} {limitable}": round(seconds, 2)
            for (level, limitable), seconds in event.limited_by.items()
        }
        print("waited for", held)


async def main() -> None:
    """Twelve orders, three at once, then a change while the worker runs."""
    hub.listen(told)
    node.configure(limiter_time_windows={"workflow": 2})
    limiter = hub.worker(
        "worker_1",
        "shop",
        limits={
            "os": {"mem": 99, ("disk", "/"): 99},
            "node": {"workflow": (200, 1_000)},
            "worker": {"workflow": (3, 50)},
        },
        task_poller_pool_size=4,
        task_poller_limiter=PollRate(limit=20, time_window=1),
    )
    orders: asyncio.Queue[int] = asyncio.Queue()
    for order in range(12):
        orders.put_nowait(order)
    working = asyncio.create_task(work(limiter, orders))
    await asyncio.sleep(0.15)
    limiter.set_config(limits={}, task_poller_limiter=None)  # no limits from here on
    await working
    print(limiter.get_config())
    print("begun in this window:", node.stats().frequency["workflow"], "machine:", node.os_stats())
    limiter.close()


asyncio.run(main())

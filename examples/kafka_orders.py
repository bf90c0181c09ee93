"""Orders from a Kafka topic, each a durable run: order per customer, a dead-letter topic for what can't be processed.

    cd examples && KAFKA_SERVERS=localhost:9092 pyrula worker --store sqlite:///orders.db kafka_orders

Start it as often as the topic has partitions: the group shares them out.
"""

import os

from pyrula.kafka import KafkaRecord
from pyrula.workflows import Context, KafkaStream, Retry, workflow


async def charge(order: int, cents: int) -> str:
    """A call to somebody else: recorded once it is done, and never made again then."""
    return f"receipt-{order}-{cents}"


async def send(customer: str, receipt: str) -> None:
    """Another."""
    print(f"{receipt} to {customer}", flush=True)


@workflow(
    stream=KafkaStream(
        topic="orders",
        group="orders-sync",
        servers=os.environ.get("KAFKA_SERVERS", "localhost:9092"),
        max_concurrency=16,  # records in flight on this worker
        key="customer",  # a field of the value; default: the record's own key
        dead_letter_topic="orders-dead",
        config={"session.timeout.ms": 10_000},  # how soon a dead worker's partitions go to another
    ),
    retry=Retry(max_attempts=3, initial_seconds=0.1),
    timeout=30,
)
async def sync_order(ctx: Context, record: KafkaRecord) -> str:
    """One record."""
    order = record.value
    if order["cents"] <= 0:
        raise ValueError(f"order {order['order']} costs {order['cents']} cents")
    receipt: str = await ctx.step(charge, order["order"], order["cents"])
    await ctx.step(send, order["customer"], receipt)
    return receipt

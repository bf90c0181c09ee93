"""A broker for all tests of the session; each test has topics of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.kafka.broker import Broker

_names = count(1)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    broker = Broker()
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def topic(broker: Broker) -> Callable[[int], str]:
    """Make a topic of so many partitions."""
    return lambda partitions: broker.topic(f"orders-{next(_names)}", partitions)

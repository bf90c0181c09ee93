"""One real Temporal server for all tests here, and one logging proxy before it."""

import time

import pytest
import pytest_asyncio
from temporalio.client import Client

from pyrula.limiters import Hub
from tests.temporal import support


@pytest.fixture(scope="session")
def server():
    made = support.Server()
    yield made
    made.stop()
    # The SDK's native threads may abort a program that ends right after its last worker.
    time.sleep(1)


@pytest.fixture(scope="session")
def wire(server):
    made = support.Wire(server.address)
    yield made
    made.stop()


@pytest_asyncio.fixture
async def client(server):
    return await Client.connect(server.address)


@pytest_asyncio.fixture
async def wired(wire, client):
    """A client through the proxy."""
    return await Client.connect(wire.address)


@pytest.fixture
def hub():
    made = Hub()
    yield made
    made.close()


@pytest.fixture
def tally():
    support.tally.reset()
    return support.tally

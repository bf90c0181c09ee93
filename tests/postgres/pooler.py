"""A pgbouncer of the tests' own, in transaction mode, before a server of theirs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.postgres.server import Server, free_port

_READY_SECONDS = 20.0


def find_pgbouncer() -> str:
    """Its path. Raises FileNotFoundError, which says how to get it; as root it is installed if need be."""
    for name in ("pgbouncer", "/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"):
        found = shutil.which(name)
        if found:
            return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", "pgbouncer"]):
            subprocess.run(
                ["apt-get", *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        found = shutil.which("/usr/sbin/pgbouncer")
        if found:
            return found
    raise FileNotFoundError("no pgbouncer: apt-get install pgbouncer (Debian, Ubuntu), or put it on the PATH")


class Pooler:
    """pgbouncer before `server`: each transaction may be on another server connection."""

    def __init__(self, server: Server, pool_size: int = 4) -> None:
        program = find_pgbouncer()
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="pyrula-pool-"))
        (self.folder / "users").write_text('"postgres" ""\n')
        (self.folder / "ini").write_text(
            f"""[databases]
* = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
auth_file = {self.folder}/users
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
server_round_robin = 1
""".replace("* = host=127.0.0.1", "postgres = host=127.0.0.1 user=postgres")
        )
        user: dict[str, object] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            self.folder.chmod(0o755)
            for path in self.folder.iterdir():
                path.chmod(0o644)
            user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        self._output = (self.folder / "output").open("wb")
        self._process = subprocess.Popen(
            [program, str(self.folder / "ini")],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            cwd="/",
            start_new_session=True,
            **user,  # type: ignore[call-overload]  # the one set of options, or none
        )
        self._wait()

    def _wait(self) -> None:
        give_up = time.monotonic() + _READY_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError(
            f"pgbouncer did not start:\n{(self.folder / 'output').read_text('utf-8', 'replace')}"
        )

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._output.close()
        shutil.rmtree(self.folder, ignore_errors=True)

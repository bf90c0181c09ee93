"""How full the memory of this container is, as its control groups see it.

Readers take their root folders as arguments, so trees recorded on other machines can be read in tests.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

log = logging.getLogger(__name__)


class Files(NamedTuple):
    """The file names of one cgroup version."""

    limit: str
    usage: str
    cache: tuple[str, str]


V1 = Files("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
V2 = Files("memory.max", "memory.current", ("inactive_file", "active_file"))


class CgroupMemory:
    """Reads the memory control groups that hold this process, of cgroup v1, v2 or both.

    proc: the file that names the groups; root: where they are mounted.
    """

    def __init__(self, proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> None:
        self.proc = proc
        self.root = root
        self._told: set[str] = set()

    def percent(self, host_total: int) -> float | None:
        """The fullest of this process's groups, in percent of its limit; None where no group is limited.

        A limit at or above `host_total` bytes is none. Page cache that the kernel can give back is not use.
        """
        found = self._place()
        if found is None:
            return None
        mount, path, files = found
        shares = (self._share(folder, files, host_total) for folder in _upwards(mount, path))
        return max((share for share in shares if share is not None), default=None)

    def _place(self) -> tuple[Path, str, Files] | None:
        """Choose by controller, not by what is mounted: a v2 tree may be there without memory."""
        try:
            lines = self.proc.read_text().splitlines()
        except OSError:
            return None
        v2_path = None
        for line in lines:
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if "memory" in controllers.split(","):
                return self.root / "memory", path, V1
            if controllers == "" and path:
                v2_path = path
        return None if v2_path is None else (self.root, v2_path, V2)

    def _share(self, folder: Path, files: Files, host_total: int) -> float | None:
        try:
            usage = int((folder / files.usage).read_text())
        except FileNotFoundError:
            return None  # no memory controller here, as at the root of v2
        except (OSError, ValueError) as error:
            self._unread(folder / files.usage, error)
            return None
        try:
            text = (folder / files.limit).read_text().strip()
            limit = host_total if text == "max" else int(text)
        except (OSError, ValueError) as error:
            self._unread(folder / files.limit, error)
            return None
        if not 0 < limit < host_total:
            return None
        return max(0, usage - self._cache(folder, files)) / limit * 100

    def _cache(self, folder: Path, files: Files) -> int:
        try:
            pairs = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
            return sum(int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in files.cache)
        except (OSError, ValueError):
            return 0  # then all usage counts: too careful rather than too late

    def _unread(self, path: Path, error: Exception) -> None:
        if str(path) not in self._told:
            self._told.add(str(path))
            log.warning("%s can't be read (%s); this control group counts as unlimited", path, error)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """From the group to its mount's root; a path not below the mount, as in a container, is its root."""
    parts = [part for part in PurePosixPath(path).parts if part != "/"]
    if ".." in parts or not mount.joinpath(*parts).is_dir():
        parts = []
    for depth in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:depth])

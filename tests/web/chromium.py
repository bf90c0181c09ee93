"""Where Chromium is, and how it is started: the system's, else one that a package has unpacked (scripts/browser.py)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
UNPACKED = Path(__file__).parents[2] / "build" / "browser" / "chromium"


def executable() -> str:
    """The browser's path. Raises LookupError, for a test without one is red, never skipped."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    if UNPACKED.is_file():
        return str(UNPACKED)
    raise LookupError(f"no Chromium (looked for {', '.join(NAMES)} and {UNPACKED}); run `make browser`")


def launched(playwright: Any) -> Any:
    """A browser without a head."""
    return playwright.chromium.launch(executable_path=executable(), args=FLAGS)

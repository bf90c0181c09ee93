"""What `pyrula worker tests.crash.app:registry` serves."""

from __future__ import annotations

import os

from tests.crash.child import declare

registry = declare(os.environ.get("PYRULA_TEST_NOTES", os.devnull))

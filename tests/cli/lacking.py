"""A module of workflows that imports what is not installed."""

import no_such_library  # noqa: F401 - it is not there

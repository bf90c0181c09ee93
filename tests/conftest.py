"""What holds for every test: hypothesis profiles, and a second try beside a server.

The asyncio mode and time-outs are in pyproject.toml.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: a slow machine is not a wrong answer. CI draws the same examples each time, so that a red run
# can be repeated; `thorough` is for a search by hand: HYPOTHESIS_PROFILE=thorough pytest tests/admission
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=100, **_patient)
settings.register_profile("ci", max_examples=100, derandomize=True, print_blob=True, **_patient)
settings.register_profile("thorough", max_examples=5000, **_patient)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A PostgreSQL server and what it serves share two cores with another test: what it tells may come late. Such a
    test has a second try, and the first is listed as a rerun: one that shows up again is a fault to be found."""
    for item in items:
        if "postgres" in item.nodeid:
            item.add_marker(pytest.mark.flaky(reruns=1))

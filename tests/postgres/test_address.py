"""A URL is taken apart as libpq would, and what is wrong with it is said before anything is connected to."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from pyrula.errors import ConfigurationError
from pyrula.store.postgres.address import address


def test_a_url_may_leave_the_host_to_libpq() -> None:
    found = address("postgresql:///jobs?schema=s&listen=postgresql%3A%2F%2F%2Fdirect")
    assert conninfo_to_dict(found.conninfo)["dbname"] == "jobs"
    assert found.listen is not None
    assert conninfo_to_dict(found.listen)["dbname"] == "direct"
    assert (found.schema, found.shown.partition("?")[0]) == ("s", "postgresql:///jobs")


@pytest.mark.parametrize(
    "url",
    ["postgresql://h/jobs?schemaa=x", "postgresql://h/jobs?listen=postgresql%3A%2F%2Fh%2Fdb%3Fpatient%3D1"],
)
def test_an_option_that_nobody_takes_is_named(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"postgresql://h/jobs.*\"(schemaa|patient)\""):
        address(url)

"""Stores and scenes for the tests of the seeds: those of the field reports."""

from tests.cases.conftest import (
    patient_turns,
    postgres_schemas,
    postgres_server,
    scene,
    shared_url,
    store_kind,
    store_url,
)

__all__ = [
    "patient_turns",
    "postgres_schemas",
    "postgres_server",
    "scene",
    "shared_url",
    "store_kind",
    "store_url",
]

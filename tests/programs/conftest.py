"""Random programs run on every kind of store."""

from tests.stores import patient_turns, postgres_schemas, postgres_server, shared_url, store_kind, store_url

__all__ = ["patient_turns", "postgres_schemas", "postgres_server", "shared_url", "store_kind", "store_url"]

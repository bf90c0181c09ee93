"""Schemas that are used again: emptied in a few ms, where to make one anew takes a hundred, and leaves its files."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Final

import psycopg

from tests.postgres.server import Server

_EMPTY: Final = """
DO $$ DECLARE name text; holds boolean; BEGIN
    FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
                WHERE schemaname = '{schema}' AND tablename <> 'meta' LOOP
        EXECUTE 'SELECT EXISTS (SELECT 1 FROM ' || name || ')' INTO holds;
        IF pg_relation_size(name::regclass) > 500000 THEN
            EXECUTE 'TRUNCATE ' || name;
        ELSIF holds THEN
            EXECUTE 'DELETE FROM ' || name;
        END IF;
    END LOOP;
    PERFORM setval(c.oid::regclass, 1, false) FROM pg_class AS c
    WHERE c.relkind = 'S' AND c.relnamespace = '{schema}'::regnamespace;
    INSERT INTO {schema}.passes (turn, vtime) VALUES (0, 0);
    INSERT INTO {schema}.clock (number, time, wall, inbox, dirty, timers, wakes) VALUES (1, 0, 0, 0, 0, 0, 0);
END $$
"""
"""Leaves a schema as it was made, but for its identity. A clock of 0 at 0 goes on as one that starts now."""


class Schemas:
    """Hands out stores of a number of shards, as URLs, and takes them back."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._free: dict[int, list[tuple[str, ...]]] = defaultdict(list)
        self._numbers = count(1)

    def take(self, shards: int) -> tuple[str, ...]:
        """A URL for each shard of a store that nobody has used, or of one that was emptied."""
        if self._free[shards]:
            return self._free[shards].pop()
        number = next(self._numbers)
        names = (f"test_{number}_{shard}" for shard in range(shards))
        return tuple(f"{self._server.url(name)}&application_name={name}" for name in names)

    def give_back(self, urls: tuple[str, ...]) -> None:
        """Throw out whoever is still connected, and empty them; a store that was not made whole is not used again."""
        names = [url.rpartition("=")[2] for url in urls]
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = ANY(%s) AND pid <> pg_backend_pid()",
                (names,),
            )
            made = [
                connection.execute("SELECT to_regclass(%s)", (f"{name}.meta",)).fetchone() for name in names
            ]
            if (None,) in made:
                return
            identities = {
                connection.execute(f"SELECT store FROM {name}.meta").fetchone()  # type: ignore[call-overload]  # a name of ours
                for name in names
            }
            if len(identities) > 1:
                return
            for name in names:
                connection.execute(_EMPTY.format(schema=name))  # type: ignore[call-overload]  # a name of ours
        self._free[len(urls)].append(urls)

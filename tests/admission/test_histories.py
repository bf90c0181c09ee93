"""Random histories against the naive oracle. PYRULA_TEST_HISTORIES=10000 for more."""

import os

import pytest

from .history import History

HISTORIES = int(os.environ.get("PYRULA_TEST_HISTORIES", "400"))
SHARDS = 8


@pytest.mark.timeout(60 + HISTORIES)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_history_keeps_every_promise(shard):
    starts = 0
    for seed in range(shard, HISTORIES, SHARDS):
        history = History(seed)
        try:
            history.run()
        except Exception as error:
            raise AssertionError(f"history {seed}: {error}") from error
        starts += history.starts
    assert HISTORIES < SHARDS or starts > HISTORIES // SHARDS

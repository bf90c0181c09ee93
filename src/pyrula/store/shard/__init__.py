"""The verbs of one shard, written once for every backend: they speak to a `Tx`, the backend owns the SQL."""

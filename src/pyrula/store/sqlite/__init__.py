"""One shard in one SQLite file."""

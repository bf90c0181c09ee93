"""One shard in one schema of a PostgreSQL database."""

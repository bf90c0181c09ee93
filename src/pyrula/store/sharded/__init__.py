"""Several shards of one kind behind the face of one store."""

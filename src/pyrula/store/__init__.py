"""The referee: durable state of one or more shards, and the verbs on it."""

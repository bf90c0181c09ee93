"""Flow control for durable workflows: declare it once, and the store keeps it."""

__version__ = "0.1.0"

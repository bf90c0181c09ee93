"""Frozen nouns, without I/O."""

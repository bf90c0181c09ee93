"""The only source of identity and of chance."""

from __future__ import annotations

import random
import secrets

# Crockford's base 32: sorts as it counts, and has no letters that are mistaken for digits.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME, _SHARD, _CHANCE = 10, 2, 14
MAX_SHARDS = 1024


_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


def _base32(value: int, width: int) -> str:
    """`width` (even) digits of `value`."""
    pairs = [_PAIRS[value >> shift & 1023] for shift in range(5 * width - 10, -10, -10)]
    return "".join(pairs)


def run_id(now: int, shard: int = 0) -> str:
    """A new run id of 26 characters: ordered by time (`now`, µs), carrying its shard, unique (70 random bits)."""
    return _base32(now // 1000, _TIME) + _base32(shard, _SHARD) + _base32(secrets.randbits(70), _CHANCE)


def shard_of(run_id: str) -> int | None:
    """The shard that a generated run id carries; None for an id that a user chose."""
    if len(run_id) != _TIME + _SHARD + _CHANCE or any(c not in _ALPHABET for c in run_id):
        return None
    return _ALPHABET.index(run_id[_TIME]) * 32 + _ALPHABET.index(run_id[_TIME + 1])


def incarnation() -> str:
    """A new id for one life of a worker; leases belong to it, never to the worker's name."""
    return secrets.token_hex(8)


def store_id() -> str:
    """A new id for a store, made once when it is created."""
    return secrets.token_hex(8)


def chance() -> float:
    """A random number in [0, 1), for jitter."""
    return random.random()


def token() -> bytes:
    """A new id for one transaction, 16 bytes: tells afterwards whether it was committed."""
    return secrets.token_bytes(16)

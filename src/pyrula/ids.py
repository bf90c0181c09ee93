"""The only source of identity and of chance."""

from __future__ import annotations

import random
import secrets
from hashlib import blake2b
from typing import Final

# Crockford's base 32: sorts as it counts, and has no letters that are mistaken for digits.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME, _SHARD, _CHANCE = 10, 2, 14
MAX_SHARDS = 1024
LONGEST: Final = 500
"""Bytes of a run id, also of one that a user chose."""
_HEAD, _DIGEST = 64, 16


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


def child_id(parent: str, place: str) -> str:
    """The id of the run that `parent` submits at `place` of its body, the same at each replay. It names all its
    ancestors while they fit; after that, how the first of them is called and a digest of them all, so that a line
    of runs of which each submits the next one has no end.
    """
    whole = f"{parent}/{place}"
    if len(whole.encode()) <= LONGEST:
        return whole
    return f"{whole[:_HEAD]}~{blake2b(whole.encode(), digest_size=_DIGEST).hexdigest()}"


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

"""Where things are: which shard a route leads to, and which shard a run id belongs to."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

from pyrula.ids import shard_of

_CHILD = re.compile(r"^(.+)/[0-9.]*:[0-9]+(?:@[0-9]+)?$", re.DOTALL)


@lru_cache(4096)
def place(route: str, shards: int) -> int:
    """The shard to which a route (key value, shared name, workflow) leads: the same in every process."""
    digest = blake2b(route.encode(errors="surrogatepass"), digest_size=8, person=b"route").digest()
    return int.from_bytes(digest, "big") % shards


def owner(run_id: str, shards: int) -> int:
    """The shard to which a run id belongs: the one that it carries, else one drawn from its text. A run of an id
    that was chosen may be elsewhere; its owner knows where.
    """
    carried = shard_of(run_id)
    return carried if carried is not None and carried < shards else place(run_id, shards)


def parent_in(run_id: str) -> str | None:
    """The id of the run whose body gave its child this id, if it looks like one of a child."""
    found = _CHILD.match(run_id)
    return None if found is None else found[1]


def is_made_by(run_id: str, parent: str | None) -> bool:
    """Whether `parent` made this id for its child, so that nobody else uses it."""
    return parent is not None and parent_in(run_id) == parent

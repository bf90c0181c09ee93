"""Family: parents and children on different shards. What a single shard finds in its own rows is told by messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyrula.store.shard import outbox
from pyrula.store.shard.outbox import Ancestor, Cancel, Ended
from pyrula.store.shard.tx import Row, Tx


def line(tx: Tx, run_id: str, shard: int) -> tuple[Ancestor, ...]:
    """A run and its ancestors, the nearest first, wherever they are. shard: this one."""
    return tuple(
        Ancestor(name, parent, shard if elsewhere is None else elsewhere)
        for name, parent, elsewhere in tx.rows("family.line", run_id)
    )


def put_line(tx: Tx, ancestors: Sequence[Ancestor]) -> None:
    """Know the ancestors of a run that comes here."""
    tx.many("family.ancestor", ancestors)


def tell_parents(tx: Tx, ended: Mapping[str, str]) -> None:
    """Tell the parents that are elsewhere of children (id → its parent) that have just ended here."""
    where: dict[str, int] = dict(tx.match("family.parents", [(parent,) for parent in set(ended.values())]))
    children = [(child,) for child, parent in ended.items() if parent in where]
    if children:
        told = [
            (where[ended[child]], Ended(child, ended[child], state, result, error))
            for child, state, result, error in tx.match("settle.children", children)
        ]
        outbox.send(tx, told)


def cancel_away(tx: Tx, parents: Iterable[str]) -> None:
    """Have the children that are elsewhere cancelled, too."""
    away = tx.match("family.open", [(parent,) for parent in parents])
    outbox.send(tx, [(shard, Cancel(child, parent)) for parent, child, shard in away])


def part(tx: Tx, seqs: Sequence[Row]) -> set[str]:
    """Runs that are about to be swept have no children any more; answers their parents."""
    tx.many("family.forget", seqs)
    return {parent for (parent,) in tx.match("family.parents_of", seqs)}


def forget(tx: Tx, parents: set[str]) -> None:
    """Forget those of these runs, and of their ancestors, that nobody here descends from any more."""
    while parents:
        gone = tx.match("family.stranger", [(run_id,) for run_id in sorted(parents)])
        parents = {parent for (parent,) in gone if parent is not None}

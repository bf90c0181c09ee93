"""Inside: who has a slot of a gate, by the leases of those that execute and the notes of those that keep one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyrula.store.shard.finish import taken
from pyrula.store.shard.tx import Row, Tx


def inside(tx: Tx, gates: Collection[bytes]) -> dict[bytes, list[int]]:
    """The seqs of those inside each of these gates, in the order of submission."""
    found: dict[bytes, list[int]] = {gate: [] for gate in gates}
    if not found:
        return found
    for seq, slots in tx.rows("inside.leases"):
        for gate in taken(slots):
            if gate in found:
                found[gate].append(seq)
    for gate, seq in tx.match("inside.noted", [(gate,) for gate in found]):
        found[gate].append(seq)
    return {gate: sorted(seqs) for gate, seqs in found.items()}


def holders(tx: Tx, gates: Collection[bytes], most: int) -> dict[bytes, list[str]]:
    """The run ids of the first `most` of those inside each of these gates."""
    shown = {gate: seqs[:most] for gate, seqs in inside(tx, gates).items()}
    runs = members(tx, [seq for seqs in shown.values() for seq in seqs])
    return {gate: [runs[seq][0] for seq in seqs] for gate, seqs in shown.items()}


def members(tx: Tx, seqs: Iterable[int]) -> dict[int, Row]:
    """Of each of these runs (run id, workflow, priority, submitted at, wall of its submission), by seq."""
    return {row[0]: row[1:] for row in tx.match("inside.run", [(seq,) for seq in dict.fromkeys(seqs)])}

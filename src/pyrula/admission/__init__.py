"""Who may start: pure, and exact.

A **lane** is a queue of runs that are alike; it is empty, *ready*, or *waiting* at one gate. A turn picks,
among units with a ready lane, the best (priority, virtual time) and looks at the lane's head: if all its
gates agree it starts, else the lane waits at the gate that refused, and nothing is taken from the others.

Four rules keep a claim's cost flat, lose no wake-up, and leave nobody out:

* **A gate with room keeps its best waiter of each workflow ready**, its *herald*. A gate that may have come
  by room is *dirty*, and rung before the next pick. A herald that leaves the bench, started or not, makes its
  gate dirty again: the room goes on to the next, one by one, however much of it there is. A herald holds
  nothing: a worker that does not serve it takes the slot, past it, for a waiter that it serves.
* **A lane that arrives where others wait joins them**, and is rung when it is the best of them.
* **A gate whose waiters may go for the mere passing of time has a wake time**, set anew when it is rung.

* **Workers of different workflows take turns at a gate**: who is ahead leaves room for the others, for a moment.

`floor.py` tells the story; `bench.py` keeps the ready, `lines.py` the waiting, `rows.py` what is loaded;
`rota.py` says whose turn it is at a gate, `rules.py` what one gate says to one run; `loader.py` is what a store has
to answer.
"""

from pyrula.admission.floor import Floor
from pyrula.admission.loader import (
    Changes,
    Loader,
    QueueAsk,
    ReadyKey,
    SiblingAsk,
    Start,
    WaitingAsk,
)
from pyrula.admission.rules import admits, opens_at, room

__all__ = [
    "Changes",
    "Floor",
    "Loader",
    "QueueAsk",
    "ReadyKey",
    "SiblingAsk",
    "Start",
    "WaitingAsk",
    "admits",
    "opens_at",
    "room",
]

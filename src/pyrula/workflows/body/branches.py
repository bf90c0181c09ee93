"""Branches: which part of a body asks. They follow the tree of the body's tasks, so that a replay finds them
again.

The body itself is branch "", the third task that it starts is "2", the first one started by that is "2.0".
The names depend on nothing but the order in which the body's own code starts tasks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrula.workflows.body.call import Call


class Branch:
    """One task of a body (two, while one goes on in the other's place).

    numbered: how many calls it has made; born: deliveries that had been made when it began."""

    __slots__ = (
        "born",
        "call",
        "cancelled",
        "draws",
        "ended",
        "grown",
        "live_children",
        "numbered",
        "parent",
        "path",
        "tasks",
    )

    def __init__(self, path: str, parent: Branch | None, born: int) -> None:
        self.path = path
        self.parent = parent
        self.born = born
        self.numbered = 0
        self.draws = 0
        self.grown = 0
        self.live_children = 0
        self.tasks = 0
        self.call: Call | None = None
        self.ended = False
        self.cancelled = False

    def is_above(self, path: str) -> bool:
        """Whether the branch of that path began in this one, or below it."""
        return path != self.path and (self.path == "" or path.startswith(self.path + "."))


class Tree:
    """The branches of one body, and which of its tasks are alive."""

    __slots__ = ("by_path", "live", "main", "starting")

    def __init__(self) -> None:
        self.main = Branch("", None, 0)
        self.live: dict[asyncio.Task[Any], Branch] = {}
        self.by_path: dict[str, Branch] = {"": self.main}
        self.starting: list[Branch] = []
        """Branches whose task is being made: an eager one runs before anybody can know it."""

    @property
    def grown(self) -> bool:
        """Whether there ever was a second branch."""
        return len(self.by_path) > 1

    def grow(self, parent: Branch, born: int) -> Branch:
        """A new branch below `parent`."""
        path = f"{parent.path}.{parent.grown}" if parent.path else str(parent.grown)
        parent.grown += 1
        branch = self.by_path[path] = Branch(path, parent, born)
        return branch

    def began(self, task: asyncio.Task[Any], branch: Branch) -> None:
        """`task` runs `branch`."""
        self.live[task] = branch
        branch.tasks += 1
        if branch.parent is not None and branch.tasks == 1:
            branch.parent.live_children += 1

    def over(self, task: asyncio.Task[Any]) -> Branch:
        """`task` has ended."""
        branch = self.live.pop(task)
        branch.tasks -= 1
        if branch.tasks:
            return branch
        branch.ended = True
        branch.cancelled = task.cancelled()
        if branch.parent is not None:
            branch.parent.live_children -= 1
        return branch

    def all_wait(self) -> bool:
        """Whether every task without live tasks below it waits for something that the store will tell."""
        return all(
            branch.live_children > 0 or (branch.call is not None and branch.call.parks)
            for branch in self.live.values()
        )

    def blocked(self) -> bool:
        """Whether no task can run before some future is done. (asyncio shows it on a task, C or Python, any
        loop.)"""
        for task in self.live:
            waiter = task._fut_waiter  # type: ignore[attr-defined]  # typeshed does not list it
            if waiter is None or waiter.done():
                return False
        return True

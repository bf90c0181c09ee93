"""The digest of a body's code: alike in every process, another for another code."""

from __future__ import annotations

import subprocess
import sys

from pyrula.workflows.code import code_digest

_CODE = """
from pyrula.workflows.code import code_digest
async def body(ctx, a):
    def inner(x):
        return x in {"one", "two", "three", 1, 2.5, None}
    return [inner(y) for y in (a, "text", (1, b"x", True))]
print(code_digest(body))
"""


def test_the_digest_of_a_bodys_code_is_alike_in_every_process():
    seen = set()
    for seed, lead in (("1", ""), ("2", "\n\n# moved\n")):
        done = subprocess.run(
            [sys.executable, "-c", lead + _CODE],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout.strip())
    assert len(seen) == 1
    assert len(seen.pop()) == 32


def _bodies():
    async def one(ctx):
        return 1

    async def true(ctx):
        return True

    async def calls(ctx):
        return await ctx.step(print)

    async def calls_other(ctx):
        return await ctx.step(repr)

    async def inner(ctx):
        return (lambda: 1)()

    async def other_inner(ctx):
        return (lambda: 2)()

    return [one, true, calls, calls_other, inner, other_inner]


def test_another_code_has_another_digest():
    assert len({code_digest(fn) for fn in _bodies()}) == 6
    assert [code_digest(fn) for fn in _bodies()] == [code_digest(fn) for fn in _bodies()]

"""Prove that the tests bite: each tests/mutants/*.patch, on a copy of the tree, must break what it names.

A mutant is a unified diff of one line, under a header that names the tests it must break, one a line:

    # breaks: tests/seeds/test_limit.py::test_two_runs_of_a_tenant_execute_at_once
    --- a/src/pyrula/admission.py
    +++ b/src/pyrula/admission.py
    @@ -10,3 +10,3 @@
    ...

`python scripts/mutants.py [WORD ...]` runs those whose name contains a word (else all), two at a time.
Exits with 1 if a mutant survives, does not apply, or names a test that does not run or fails without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 2
LONGEST_SECONDS = 600
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist")
BREAKS = re.compile(r"^# breaks:\s*(\S.*?)\s*$", re.MULTILINE)
OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A planted fault and the tests that must notice it."""

    name: str
    patch: Path
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant; `caught` is what is wanted."""

    mutant: Mutant
    caught: bool
    remark: str


def mutants(root: Path, words: list[str]) -> list[Mutant]:
    """The mutants of a tree whose name contains one of the words, or all of them."""
    return [
        Mutant(patch.stem, patch, tuple(BREAKS.findall(patch.read_text(encoding="utf-8"))))
        for patch in sorted((root / "tests/mutants").glob("*.patch"))
        if not words or any(word in patch.stem for word in words)
    ]


def fault(mutant: Mutant) -> str | None:
    """Why the patch is no mutant at all: it names no test, or changes more than a line."""
    if not mutant.tests:
        return "names no test (`# breaks: tests/...::test_...`)"
    lines = mutant.patch.read_text(encoding="utf-8").splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    if added > 1 or removed > 1 or added + removed == 0:
        return f"is not a one-line change (+{added} -{removed})"
    return None


def apply(mutant: Mutant, tree: Path, *options: str) -> str | None:
    """Apply the patch to a tree; the reason if it does not fit. Its line may have moved."""
    command = ["git", "apply", "--recount", "-C1", *options, str(mutant.patch)]
    # A tree inside another repository's folders is patched as it lies, not as that repository sees it.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    answer = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    return None if answer.returncode == 0 else f"does not apply: {answer.stderr.strip().splitlines()[0]}"


def run_tests(tree: Path, tests: tuple[str, ...]) -> tuple[int, dict[str, str]]:
    """pytest's exit code and the outcome of each test it ran, over the tree's own source."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rpfE",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--tb=no",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "NO_COLOR": "1", "COLUMNS": "1000"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        answer = subprocess.run(
            [*command, *tests],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, {}
    outcomes: dict[str, str] = {}
    for outcome, name in OUTCOME.findall(answer.stdout):
        if outcomes.get(name) != "FAILED":  # what failed may end in an error as well
            outcomes[name] = outcome
    return answer.returncode, outcomes


def named(test: str, outcomes: dict[str, str]) -> set[str]:
    """The outcomes of all that a name covers: a test, its parameters, or a whole file."""
    return {
        outcome
        for name, outcome in outcomes.items()
        if name == test or name.startswith((f"{test}[", f"{test}::", f"{test}/"))
    }


def judge(mutant: Mutant, root: Path) -> Verdict:
    """Run the named tests on a copy of the tree that holds the mutant."""
    reason = fault(mutant)
    if reason is not None:
        return Verdict(mutant, False, reason)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(root, tree, ignore=LEFT_OUT)
        reason = apply(mutant, tree)
        if reason is not None:
            return Verdict(mutant, False, reason)
        code, outcomes = run_tests(tree, mutant.tests)
    if code == 124:
        return Verdict(mutant, True, f"caught: the tests hung for {LONGEST_SECONDS} s")
    if code not in (0, 1):
        return Verdict(mutant, False, f"the tests did not run (pytest ended with {code})")
    deaf = [test for test in mutant.tests if "FAILED" not in named(test, outcomes)]
    if deaf:
        return Verdict(mutant, False, f"SURVIVED {', '.join(deaf)}")
    return Verdict(mutant, True, f"caught by {len(mutant.tests)} of {len(mutant.tests)}")


def red_without(chosen: list[Mutant], root: Path) -> list[str]:
    """Named tests that fail, or do not run, on the tree as it is: they prove nothing about a mutant."""
    tests = tuple(sorted({test for mutant in chosen for test in mutant.tests}))
    if not tests:
        return []
    _, outcomes = run_tests(root, tests)
    return [test for test in tests if named(test, outcomes) != {"PASSED"}]


def main(words: list[str], root: Path = ROOT) -> int:
    """Judge the mutants, print a table, answer with the exit code."""
    chosen = mutants(root, words)
    if not chosen:
        print("no mutant found in tests/mutants")
        return 1
    with ThreadPoolExecutor(AT_ONCE) as pool:
        red = pool.submit(red_without, chosen, root)
        verdicts = list(pool.map(lambda mutant: judge(mutant, root), chosen))
    width = max(len(mutant.name) for mutant in chosen)
    for verdict in verdicts:
        print(f"{'ok  ' if verdict.caught else 'FAIL'} {verdict.mutant.name:<{width}}  {verdict.remark}")
    for test in red.result():
        print(f"FAIL {test}  does not pass without a mutant")
    caught = sum(verdict.caught for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} mutants caught")
    return 0 if caught == len(verdicts) and not red.result() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

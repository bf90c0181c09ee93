"""`make mutants` tells a test that bites from one that does not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """from pyrula import limit


def test_two_fit() -> None:
    assert limit.fits(2)


def test_three_do_not() -> None:
    assert not limit.fits(3)
"""
DIFF = """--- a/src/pyrula/limit.py
+++ b/src/pyrula/limit.py
@@ -1,2 +1,2 @@
 def fits(executing: int) -> bool:
-    return executing <= 2
+    return executing <= {most}
"""


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts/mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree of one function and its two tests."""
    for folder in ("src/pyrula", "tests/mutants"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/pyrula/__init__.py").touch()
    source = "def fits(executing: int) -> bool:\n    return executing <= 2\n"
    (tmp_path / "src/pyrula/limit.py").write_text(source, encoding="utf-8")
    (tmp_path / "tests/test_limit.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def plant(root: Path, name: str, test: str, diff: str) -> None:
    """Write a mutant that says it breaks the test."""
    text = f"# breaks: tests/test_limit.py::{test}\n{diff}"
    (root / f"tests/mutants/{name}.patch").write_text(text, encoding="utf-8")


def test_a_mutant_that_breaks_what_it_names_is_caught(
    mutants: ModuleType, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(root, "one-more", "test_three_do_not", DIFF.format(most=3))
    assert mutants.main([], root) == 0
    assert "1 of 1 mutants caught" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("test", "diff", "remark"),
    [
        ("test_two_fit", DIFF.format(most=3), "SURVIVED"),
        ("test_three_do_not", DIFF.format(most=3).replace("<= 2", "<= 9"), "does not apply"),
        ("test_of_nothing", DIFF.format(most=3), "did not run"),
        ("test_three_do_not", DIFF.format(most="3\n+    # and more"), "not a one-line change"),
    ],
)
def test_a_mutant_that_proves_nothing_is_named(
    mutants: ModuleType, root: Path, capsys: pytest.CaptureFixture[str], test: str, diff: str, remark: str
) -> None:
    plant(root, "weak", test, diff)
    assert mutants.main([], root) == 1
    assert remark in capsys.readouterr().out


def test_a_test_that_fails_anyhow_proves_nothing(
    mutants: ModuleType, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "tests/test_limit.py").write_text(TESTS.replace("not limit.fits(3)", "False"), encoding="utf-8")
    plant(root, "one-more", "test_three_do_not", DIFF.format(most=3))
    assert mutants.main([], root) == 1
    assert "does not pass without a mutant" in capsys.readouterr().out


def test_every_mutant_of_this_tree_still_fits_it(mutants: ModuleType) -> None:
    misfits = [
        f"{mutant.name}: {reason}"
        for mutant in mutants.mutants(ROOT, [])
        if (reason := mutants.fault(mutant) or mutants.apply(mutant, ROOT, "--check")) is not None
    ]
    assert misfits == []

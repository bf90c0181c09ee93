"""The house rules that no linter knows: each takes a tree's root and answers with a line per violation."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

LONGEST = 400
COUNTED = ("src", "tests", "benchmarks", "examples", "scripts")
SHIPPED = frozenset({"uplot.js", "uplot.css"})  # a library's, as it was published
BANNED_WORDS = frozenset({"job", "jobs", "manager", "managers", "util", "utils", "helper", "helpers", "base"})
TASK = frozenset({"task", "tasks"})
SEED_ARGUMENTS = frozenset(
    {"task_poller_pool_size", "task_poller_limiter"}
)  # of Worker, as its seed has them
TEMPORAL_PLACES = frozenset({"temporal", "limiters"})  # the seed of the limiters speaks Temporal's words
LIMITERS_EDGE = frozenset({"__init__", "asking", "cgroup", "events", "hub", "os", "worker"})
"""Of the limiters, what reads clocks and the machine, or runs under the hub's lock; all else decides."""
# Written so that no pattern is a match of its own.
ADDRESS = re.compile(r"p[y]pi\.o|python[h]osted|n[p]mjs\.|deb\.d[e]bian")
MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_.])/(wor[k]|roo[t]|far[m])/")
SKIPPED_FOLDERS = frozenset({".git", ".venv", "build", "dist", "node_modules", "__pycache__", ".hypothesis"})
CACHES = re.compile(r"^\.(mypy|ruff|pytest|import_linter)_cache$")
BLOCK = re.compile(r"^--\s*name:\s*(\w+)", re.MULTILINE)
PRAGMA = re.compile(
    r"#\s*(?:type:\s*ignore|noqa)(?:\s*\[[^\]]*\]|:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*)?(.*)$"
)
UNFINISHED = re.compile(r"#.*\b(TO[D]O|FIX[M]E|XX[X])\b")
NAP = re.compile(r"(?:time|asyncio|anyio)\.sleep\((?:0\.[1-9]|[1-9])")
# Tests that talk to real processes and servers may wait for them.
EDGE_TESTS = frozenset({"crash", "kafka", "postgres", "temporal", "web", "worker", "cli"})
OWN_SQL = frozenset(
    {"connection.sql", "enlist.sql", "wake.sql"}
)  # how a backend connects, commits and is woken


def files(root: Path, *suffixes: str, under: tuple[str, ...] = (".",)) -> Iterator[Path]:
    """Every file of the tree with one of the suffixes (any, if none), caches and environments left out."""
    for folder in under:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            if any(
                part in SKIPPED_FOLDERS or CACHES.match(part) or part.endswith(".egg-info") for part in parts
            ):
                continue
            if path.is_file() and (not suffixes or path.suffix in suffixes):
                yield path


def long_files(root: Path) -> list[str]:
    """Files of 400 lines and more: split them by idea."""
    found = []
    ours = (path for path in files(root, ".js", ".css", under=("src",)) if path.name not in SHIPPED)
    for path in (*files(root, ".py", ".sql", under=COUNTED), *ours):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines >= LONGEST:
            found.append(
                f"{path.relative_to(root)}: {lines} lines, {LONGEST - 1} are allowed; split it by idea"
            )
    return found


def addresses(root: Path) -> list[str]:
    """Lines that name a package registry's host or a path of one machine."""
    found = []
    for path in files(root):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # a picture
        for number, line in enumerate(lines, 1):
            for what, pattern in (("a registry's host", ADDRESS), ("a machine's path", MACHINE_PATH)):
                if pattern.search(line):
                    found.append(f"{path.relative_to(root)}:{number}: holds {what}")
    return found


def banned_names(root: Path) -> list[str]:
    """Files, classes, functions, arguments and fields whose name says job, task, manager or the like."""
    found = []
    for path in files(root, ".py", ".sql", under=("src", "tests")):
        where = path.relative_to(root)
        temporal = not TEMPORAL_PLACES.isdisjoint(where.parts)
        found += [f"{where}: the file's name says `{word}`" for word in _banned_in(path.stem, temporal)]
        if path.suffix == ".py":
            for line, name in _names(ast.parse(path.read_text(encoding="utf-8"))):
                found += [f"{where}:{line}: `{name}` says `{word}`" for word in _banned_in(name, temporal)]
    return found


def _banned_in(name: str, temporal: bool) -> list[str]:
    if name in SEED_ARGUMENTS:
        return []
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    banned = BANNED_WORDS if temporal else BANNED_WORDS | TASK
    return [word for word in words if word in banned]


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What the tree names for others to read; a local variable is its function's own affair."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, lineno=line):
                yield line, name
                for inner in node.body:
                    if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                        yield from _unless_asyncio(inner.target.id, inner.lineno, inner.annotation)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
                for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                    yield from _unless_asyncio(argument.arg, argument.lineno, argument.annotation)
            case _:
                pass


def _unless_asyncio(name: str, line: int, annotation: ast.expr | None) -> Iterator[tuple[int, str]]:
    """asyncio has tasks too: a name annotated as one may say so."""
    if annotation is None or "asyncio" not in ast.unparse(annotation):
        yield line, name


def sql_blocks(folder: Path) -> set[str]:
    """`file.sql:block` for every named block (`-- name: block`) of a backend's sql folder."""
    return {
        f"{path.name}:{name}"
        for path in sorted(folder.glob("*.sql"))
        for name in BLOCK.findall(path.read_text(encoding="utf-8"))
    }


def unlike_backends(root: Path) -> list[str]:
    """Blocks that one backend has and its sibling lacks, but for those of its connection and those that say why
    (`Differs:`); a store that is not there yet has no sibling.
    """
    store = root / "src/pyrula/store"
    here, there = store / "sqlite/sql", store / "postgres/sql"
    if not (here.is_dir() and there.is_dir()):
        return []
    found = []
    for name, ours, theirs in (("sqlite", here, there), ("postgres", there, here)):
        for block in sql_blocks(ours) - sql_blocks(theirs):
            file, _, label = block.partition(":")
            if file not in OWN_SQL and not _differs(ours / file, label):
                found.append(f"{block} is in {name}/sql and not in its sibling")
    return sorted(found)


def _differs(path: Path, block: str) -> bool:
    """Whether a block says why its sibling has none."""
    _, _, body = path.read_text(encoding="utf-8").partition(f"-- name: {block}\n")
    return "Differs:" in body.partition("-- name:")[0]


def unnamed_sql(root: Path) -> list[str]:
    """SQL files with a statement in front of their first block name (schema files, run whole, have none)."""
    found = []
    for path in files(root, ".sql", under=("src",)):
        text = path.read_text(encoding="utf-8")
        first = BLOCK.search(text)
        head = text[: first.start()] if first else ""
        if any(line.strip() and not line.lstrip().startswith("--") for line in head.splitlines()):
            found.append(f"{path.relative_to(root)}: a statement stands before the first `-- name:`")
    return found


def unexplained(root: Path) -> list[str]:
    """Pragmas that silence a checker with no reason beside it or above; marks of unfinished work."""
    found = []
    for path in files(root, ".py", under=COUNTED):
        above = ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            where = f"{path.relative_to(root)}:{number}"
            pragma = PRAGMA.search(line)
            explained = pragma is None or len(pragma[1].strip(" #-:.,")) > 5 or above.lstrip().startswith("#")
            if not explained:
                found.append(f"{where}: silences a checker without a reason beside it")
            if UNFINISHED.search(line):
                found.append(f"{where}: is marked unfinished")
            above = line
    return found


def naps(root: Path) -> list[str]:
    """Tests that wait for the wall clock where the virtual clock could do it."""
    found = []
    for path in files(root, ".py", under=("tests",)):
        where = path.relative_to(root)
        if EDGE_TESTS.intersection(where.parts):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if NAP.search(line):
                found.append(f"{where}:{number}: sleeps; advance the virtual clock instead")
    return found


def unlayered_modules(root: Path) -> list[str]:
    """Modules that no layer of the import contract holds, so that nothing checks their imports."""
    layers = contract(root, "layers")["layers"]
    held = {name for layer in layers for name in re.findall(r"[\w.]+", layer)}
    package = root / "src/pyrula"
    found = []
    for folder, prefix in ((package, "pyrula"), (package / "workflows", "pyrula.workflows")):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = f"{prefix}.{path.stem}"
            module = path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
            if module and not path.stem.startswith("__") and name not in {*held, "pyrula.workflows"}:
                found.append(f"{name} is in no layer of pyproject.toml's import contract")
    return found


def unlisted_modules(root: Path) -> list[str]:
    """Pure modules and backends that exist and that the contract meant for them does not list."""
    package = root / "src/pyrula"
    pure = set(contract(root, "pure")["source_modules"])
    hidden = set(contract(root, "backends-hidden")["protected_modules"])
    wanted = [(f"pyrula.{name}", pure, "pure") for name in ("model", "policies", "admission")]
    deciding = sorted({path.stem for path in (package / "limiters").glob("*.py")} - LIMITERS_EDGE)
    wanted += [(f"pyrula.limiters.{name}", pure, "pure") for name in deciding]
    wanted += [(f"pyrula.store.{name}", hidden, "backends-hidden") for name in ("sqlite", "postgres")]
    return [
        f"{module} exists and the contract `{which}` does not list it"
        for module, listed, which in wanted
        if module not in listed and _exists(package.parent, module)
    ]


def _exists(source: Path, module: str) -> bool:
    place = source.joinpath(*module.split("."))
    return place.with_suffix(".py").is_file() or (place.is_dir() and any(place.glob("*.py")))


def contract(root: Path, wanted: str) -> dict[str, list[str]]:
    """The import contract of that id, as pyproject.toml holds it. Raises KeyError where there is none."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    for candidate in settings["tool"]["importlinter"]["contracts"]:
        if candidate["id"] == wanted:
            found: dict[str, list[str]] = candidate
            return found
    raise KeyError(wanted)


def undocumented(root: Path, names: list[str]) -> list[str]:
    """Names that no page under docs/ mentions as a word of its own."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in files(root, ".md", under=("docs",)))
    return [
        f"`{name}` is public and no page of docs/ mentions it" for name in names if not _mentions(pages, name)
    ]


def _mentions(pages: str, name: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", pages) is not None

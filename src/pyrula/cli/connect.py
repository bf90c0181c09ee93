"""What every command shares: which store, which code, and how it ends."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer

from pyrula.cli.output import console
from pyrula.errors import ConfigurationError, InvalidPayload, KeyNeedsCode, PyrulaError, shown
from pyrula.model.number import read_number
from pyrula.store.open import RETENTION, open_store, store_exists
from pyrula.store.protocol import Store
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.workflow import Registry, Workflow, default_registry

T = TypeVar("T")
_KEPT_DAYS: Final = "PYRULA_RETENTION_DAYS"
DONE, FAILED, WRONG_USE = 0, 1, 2
_WRONG_USE: Final = (ConfigurationError, InvalidPayload, KeyNeedsCode, LookupError, ValueError)
"""Errors that another command line would not meet; a name that is nowhere (a `LookupError`) is one of them."""

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store", envvar="PYRULA_STORE", help="The store's URL, such as sqlite:///runs.db.", show_envvar=True
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
App = Annotated[
    str | None,
    typer.Option(
        "--app", envvar="PYRULA_APP", help="Import module[:registry] first, for its key functions and checks."
    ),
]


def given_store(url: str | None) -> str:
    """The store's URL. Raises `typer.BadParameter` where none is given."""
    if not url:
        raise typer.BadParameter(
            "which store? Give --store sqlite:///runs.db, or set PYRULA_STORE", param_hint="--store"
        )
    return url


@asynccontextmanager
async def opened(url: str | None, *, create: bool = False) -> AsyncIterator[Store]:
    """The store, connected, for as long as the block lasts. create: whether it may be made anew."""
    where = given_store(url)
    store = open_store(where, retention=_kept())
    if not create and not store_exists(where):
        raise typer.BadParameter(
            f"there is no store at {where}; check the URL, or make it: pyrula migrate --store {where}"
        )
    try:
        await store.connect()
        yield store
    finally:
        await store.close()


def _kept() -> timedelta:
    """For how long finished runs are kept: what the environment says, if it does."""
    days = os.environ.get(_KEPT_DAYS)
    if not days:
        return RETENTION
    try:
        return timedelta(days=read_number(days))
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{_KEPT_DAYS} is {shown(days)}; it must be a number of days, such as 30 or 0.5"
        ) from None


def ask(
    url: str | None,
    call: Callable[[WorkflowClient], Awaitable[T]],
    *,
    app: str | None = None,
    create: bool = False,
) -> T:
    """Run `call` with a client of the store, and answer what it does."""
    registry = imported(app) if app else None

    async def calling() -> T:
        async with opened(url, create=create) as store:
            return await call(WorkflowClient(store, registry))

    return run(calling())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own."""
    return asyncio.run(work)


def imported(app: str) -> Registry:
    """The workflows of `module` (the default registry) or `module:name` (a registry, a workflow, or some in
    a list).

    Raises `typer.BadParameter` where the module can't be imported or holds none.
    """
    module, _, name = app.partition(":")
    if not all(part.isidentifier() for part in module.split(".")) or module.endswith(".py"):
        guess = module.removesuffix(".py").strip("./").replace("/", ".") or "shop.workflows"
        raise typer.BadParameter(
            f"{module!r} is no module's name; give it as Python imports it, such as {guess}, and run pyrula in the "
            "folder that holds it"
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise typer.BadParameter(_why_not_imported(module, error)) from None
    try:
        for part in name.split(".") if name else ():
            found = getattr(found, part)
    except AttributeError as error:
        raise typer.BadParameter(f"{app!r}: {error}") from None
    registry = default_registry if not name else _as_registry(app, found)
    if not len(registry):
        raise typer.BadParameter(
            f"{app!r} declares no workflow in the {'default registry' if not name else 'registry it names'}; "
            "declare one with @workflow, or name the registry: module:registry"
        )
    return registry


def _why_not_imported(module: str, error: ImportError) -> str:
    """It is not there, or it is and something that it imports is not: where, then."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return f"can't import {module!r}: {error}. Run pyrula in the folder that holds it"
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"can't import {module!r}: {error} ({at.filename}, line {at.lineno})"


def _as_registry(app: str, found: object) -> Registry:
    if isinstance(found, Registry):
        return found
    workflows = [found] if isinstance(found, Workflow) else found
    if not isinstance(workflows, (list, tuple)) or not all(isinstance(each, Workflow) for each in workflows):
        raise typer.BadParameter(
            f"{app!r} is a {type(found).__name__}; name a Registry, a workflow, or a list of them"
        )
    registry = Registry()
    for each in workflows:
        registry.add(each)
    return registry


def report(error: Exception, as_json: bool) -> int:
    """Tell what went wrong, and answer the exit code."""
    code = (
        error.code
        if isinstance(error, PyrulaError)
        else "timeout"
        if isinstance(error, TimeoutError)
        else "wrong_use"
    )
    if as_json:
        sys.stdout.write(
            msgspec.json.encode({"error": {"code": code, "message": str(error)}}).decode() + "\n"
        )
    else:
        console(stderr=True).print(f"[red]error:[/] {_escaped(str(error))} [dim]({code})[/]", soft_wrap=True)
    return WRONG_USE if isinstance(error, _WRONG_USE) else FAILED


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")

"""One request, from its route to its answer: who asks, what may be asked, in what shape. Handlers get a `Call`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pyrula.clock import Clock
from pyrula.errors import shown
from pyrula.store.protocol import Store
from pyrula.web import wire
from pyrula.web.access import MARK, Identity, Right, Tokens, check_site, identify
from pyrula.web.problems import MEDIA_TYPE, Problem
from pyrula.workflows.client import WorkflowClient
from pyrula.workflows.client.waits import Waits

if TYPE_CHECKING:
    from pyrula.web.live import Feeds

T = TypeVar("T")
MAX_BODY: Final = 2 << 20
"""Bytes of a request's body: 1 MiB of params, written with any white space."""
BODY_SECONDS: Final = 20.0
ANSWER_SECONDS: Final = 30.0
LONGEST_WAIT: Final = 60.0
SLASH: Final = "\ufdd0"
"""Stands for a slash that was written %2F inside one segment of a path: a noncharacter, so that none can have it."""

audit_log = logging.getLogger("pyrula.audit")


@dataclass(frozen=True)
class Services:
    """What the handlers of one app share. closing: set when the server is to stop; waits end then."""

    client: WorkflowClient
    store: Store
    clock: Clock
    tokens: Tokens | None
    feeds: Feeds
    closing: asyncio.Event
    waits: Waits
    secure: bool = False
    metrics: Callable[[], Awaitable[bytes]] | None = None
    max_body: int = MAX_BODY
    answer_seconds: float = ANSWER_SECONDS


@dataclass(frozen=True)
class Answer:
    """What a handler answers: a value for JSON, or a whole Response."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One method of one path. body: type of its body, None if it takes none. answers: status → type of its answer.

    problems: codes that it may answer with beside those that any may. waits: it may take up to LONGEST_WAIT.
    any_query: its query is the page's own affair.
    """

    method: str
    path: str
    handle: Callable[[Call], Awaitable[Any]]
    right: Right
    about: str
    answers: Mapping[int, Any]
    query: tuple[wire.Query, ...] = ()
    body: Any = None
    problems: tuple[str, ...] = ()
    waits: bool = False
    any_query: bool = False
    media: str = wire.JSON
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters of its path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


def looks(
    path: str,
    handle: Callable[[Call], Awaitable[Any]],
    about: str,
    answer: Any,
    *query: wire.Query,
    right: Right = "read",
    problems: tuple[str, ...] = (),
) -> Operation:
    """A GET that changes nothing."""
    return Operation("GET", path, handle, right, about, {200: answer}, query, problems=problems)


def steers(
    path: str,
    handle: Callable[[Call], Awaitable[Any]],
    about: str,
    answer: Any,
    body: Any,
    *problems: str,
) -> Operation:
    """A POST of somebody who may do everything."""
    return Operation("POST", path, handle, "full", about, {200: answer}, body=body, problems=problems)


@dataclass(frozen=True)
class Call:
    """A request that was let in. path, query: parameters by name; body: as the operation's type."""

    request: Request
    services: Services
    who: Identity
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any

    @property
    def client(self) -> WorkflowClient:
        """The way in to the store."""
        return self.services.client

    @property
    def request_id(self) -> str:
        """Of this request, as in the log and in every problem."""
        return str(self.request.scope.get("pyrula.request_id", ""))

    def audit(self, act: str, **target: Any) -> None:
        """Write down who steered what: one line of the log `pyrula.audit`."""
        about = {name: value for name, value in target.items() if value is not None}
        audit_log.info(act, extra={"who": self.who.name, "request_id": self.request_id, **about})

    async def until(self, work: Coroutine[Any, Any, T], seconds: float) -> T | None:
        """What `work` answers; None if time is up, the server stops, or nobody waits for the answer any more."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(_gone(self.request))
        closing = asyncio.ensure_future(self.services.closing.wait())
        waits: set[asyncio.Future[Any]] = {working, leaving, closing}
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            for each in waits:
                each.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def serve(operation: Operation, services: Services, request: Request) -> Response:
    """Let a request in, read it, have it handled, write the answer. Raises `Problem` and errors of pyrula."""
    who = _admitted(operation, services, request)
    path = {name: _whole(text) for name, text in request.path_params.items()}
    name = path.get("name") if operation.right == "submit" else None
    if not who.may(operation.right, name):
        what = f"submit {shown(name)}" if name is not None else f"{operation.method} {operation.path}"
        raise Problem("forbidden", f"the token {who.name!r} ({_rights(who)}) may not {what}")
    query = {} if operation.any_query else wire.read_query(operation.query, request.query_params)
    body = None
    if operation.body is not None:
        _check_media(request)
        body = wire.read_body(operation.body, await _read(request, services.max_body))
    call = Call(request, services, who, path, query, body)
    seconds = services.answer_seconds + (LONGEST_WAIT if operation.waits else 0)
    async with asyncio.timeout(seconds):
        answer = await operation.handle(call)
    return _response(answer)


def _admitted(operation: Operation, services: Services, request: Request) -> Identity:
    bearer = request.headers.get("authorization", "").lower().startswith("bearer ")
    who = identify(services.tokens, request.headers, request.cookies)
    check_site(
        services.tokens, request.method, request.headers, bearer=bearer and services.tokens is not None
    )
    if who is None:
        if operation.right != "open":
            raise Problem(
                "unauthenticated",
                "send `Authorization: Bearer <token>` with a token of the server's token file"
                if not bearer
                else "this token is not in the server's token file",
                {"WWW-Authenticate": 'Bearer realm="pyrula"'},
            )
        who = Identity(name="", access="submit")
    return who


def _rights(who: Identity) -> str:
    return who.access if who.access != "submit" else f"submit {', '.join(sorted(who.workflows)) or 'nothing'}"


def _whole(text: str) -> str:
    return text.replace(SLASH, "/")


def _check_media(request: Request) -> None:
    given = request.headers.get("content-type", "")
    kind = given.partition(";")[0].strip().lower()
    empty = (
        request.headers.get("content-length", "") in ("", "0") and "transfer-encoding" not in request.headers
    )
    if empty and not given:
        return
    if kind != wire.JSON and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Problem("unsupported_media_type", f"Content-Type is {shown(given)}; send {wire.JSON}")


async def _read(request: Request, cap: int) -> bytes:
    """The body, as far as it is allowed to be long and slow."""
    too_large = Problem(
        "payload_too_large", f"the body has more than {cap} bytes; send params of up to 1 MiB"
    )
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > cap:
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > cap:
                    raise too_large
    except TimeoutError:
        raise Problem("request_timeout", f"the body had not arrived after {BODY_SECONDS:g} s") from None
    except ClientDisconnect:
        raise Problem("bad_request", "the body ended early") from None
    return bytes(data)


def _response(answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    return Response(
        wire.encode(answer.value),
        answer.status,
        {"Cache-Control": "no-store", **answer.headers},
        media_type=wire.JSON,
    )


def problem_response(problem: Problem, request_id: str) -> Response:
    """A problem as it is served."""
    return Response(
        wire.encode(problem.details(request_id)),
        problem.status,
        {"Cache-Control": "no-store", **problem.headers},
        media_type=MEDIA_TYPE,
    )


__all__ = ["MARK", "Answer", "Call", "Operation", "Services", "looks", "problem_response", "serve", "steers"]

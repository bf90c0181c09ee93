"""What surrounds every request: its id, its path as it was written, headers that keep a browser safe, its log line."""

from __future__ import annotations

import logging
import re
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyrula import ids
from pyrula.clock import Clock
from pyrula.web.call import SLASH, problem_response
from pyrula.web.problems import problem_of

CSP: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
SAFE_HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")

log = logging.getLogger("pyrula.http")


class Edge:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope = {**scope, "path": _path(scope), "pyrula.request_id": request_id}
        began, status = self._clock.monotonic(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            if status:
                raise  # the answer is under way: the server can only break it off
            problem = problem_of(error)
            if problem.status == 500:
                log.exception("request failed", extra={"request_id": request_id, "path": scope["path"]})
            await problem_response(problem, request_id)(scope, receive, sending)
        finally:
            if log.isEnabledFor(logging.INFO):
                took = (self._clock.monotonic() - began) / 1000
                log.info(
                    "request",
                    extra={
                        "method": scope["method"],
                        "path": scope["path"].replace(SLASH, "%2F"),
                        "status": status,
                        "ms": round(took, 2),
                        "request_id": request_id,
                    },
                )


def _request_id(scope: Scope) -> str:
    """As the caller's proxy gave it, if it is a plain word; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            given = value.decode("latin-1")
            if _REQUEST_ID.fullmatch(given):
                return str(given)
    return ids.incarnation()


def _path(scope: Scope) -> str:
    """The path, decoded by segment: a slash that was written %2F belongs to a run's id or a gate's name."""
    raw: bytes | None = scope.get("raw_path")
    if not raw or b"%2" not in raw:
        return str(scope["path"])
    segments = raw.partition(b"?")[0].split(b"/")
    return "/".join(
        unquote_to_bytes(segment).decode(errors="replace").replace("/", SLASH) for segment in segments
    )

"""Errors as RFC 9457 problem details: what happened, to which thing, with what value, what next, and a stable code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyrula.errors import PyrulaError, StoreError

MEDIA_TYPE: Final = "application/problem+json"

TITLES: Final[Mapping[str, tuple[int, str]]] = {
    # what HTTP itself finds
    "bad_request": (400, "The request can't be read"),
    "not_json": (400, "The body is not a JSON object"),
    "unauthenticated": (401, "A token is needed"),
    "forbidden": (403, "This token may not do that"),
    "cross_site": (403, "The request comes from another site"),
    "not_found": (404, "There is nothing at this address"),
    "method_not_allowed": (405, "This address does not take that method"),
    "request_timeout": (408, "The request took too long to arrive"),
    "payload_too_large": (413, "The body is too large"),
    "unsupported_media_type": (415, "The body must be JSON"),
    "internal": (500, "The server made a mistake"),
    "time_limit": (503, "The answer took too long"),
    # what pyrula refuses
    "configuration": (422, "That can't be kept"),
    "invalid_payload": (422, "A value was refused"),
    "invalid_params": (422, "The body of the workflow does not take these params"),
    "key_failed": (422, "A key function gave no key"),
    "key_needs_code": (422, "A key is computed by code that this server has not imported"),
    "workflow_not_found": (404, "There is no such workflow"),
    "run_not_found": (404, "There is no such run"),
    "gate_not_found": (404, "There is no such gate"),
    "worker_not_found": (404, "There is no such worker"),
    "run_id_conflict": (409, "That id is taken by another run"),
    "run_ended": (409, "The run has ended"),
    "store": (503, "The store could not do it"),
    "store_busy": (503, "The store is busy"),
    "store_unavailable": (503, "The store can't be reached"),
    "store_closed": (503, "The store was closed"),
    "schema_mismatch": (503, "The store is of another version"),
    "shard_mismatch": (503, "The store was opened with other shards"),
    "store_corrupt": (503, "The store contradicts itself"),
}
"""Code → status and title. Every error that is served is one of these."""


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """An error (RFC 9457). code: stable, for programs. detail: for people. request_id: as in the server's log."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str = ""


class Problem(Exception):
    """Ends a request with an error of this code. headers: for the answer."""

    def __init__(self, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """The HTTP status of its code."""
        return TITLES[self.code][0]

    def details(self, request_id: str) -> ProblemDetails:
        """What is sent."""
        status, title = TITLES[self.code]
        return ProblemDetails(
            type=f"urn:pyrula:problem:{self.code}",
            title=title,
            status=status,
            detail=self.detail,
            code=self.code,
            request_id=request_id,
        )


def problem_of(error: Exception) -> Problem:
    """The problem that an error of pyrula is to a client; what is not pyrula's own says nothing of the inside."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreError):
        return Problem(error.code, str(error), {"Retry-After": "1"})
    if isinstance(error, PyrulaError) and error.code in TITLES:
        return Problem(error.code, str(error))
    if isinstance(error, ValueError):  # the client's calls raise it for an argument out of range
        return Problem("bad_request", str(error))
    if isinstance(error, TimeoutError):
        return Problem("time_limit", "the answer took too long; ask again", {"Retry-After": "1"})
    return Problem("internal", "the server made a mistake; its log has the details under this request_id")


def by_status(codes: Mapping[str, Any] | set[str]) -> dict[int, list[str]]:
    """Status → the codes among `codes` that are served with it."""
    found: dict[int, list[str]] = {}
    for code in sorted(codes):
        found.setdefault(TITLES[code][0], []).append(code)
    return found

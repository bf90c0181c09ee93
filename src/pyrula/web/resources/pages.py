"""`/ui`: the page's files, who is signed in, and its live views. Nothing of a run is ever put into HTML here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, get_args

from starlette.responses import RedirectResponse, Response

from pyrula.model.run import RunState
from pyrula.web import wire
from pyrula.web.access import COOKIE
from pyrula.web.call import Answer, Call, Operation
from pyrula.web.live import live
from pyrula.web.problems import Problem
from pyrula.web.resources.gates import SORTS
from pyrula.web.views import VIEWS

_MEDIA: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_COOKIE_SECONDS: Final = 12 * 3600


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """The page's files by their path: bytes, media type and tag. What a request names is only ever looked up here."""
    return {
        path: (data, _MEDIA[path.rpartition(".")[2]], f'"{blake2b(data, digest_size=8).hexdigest()}"')
        for path, data in _below(files("pyrula.web").joinpath("static"))
    }


def _below(folder: Traversable, at: str = "") -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _below(each, f"{at}{each.name}/")
        else:
            yield at + each.name, each.read_bytes()


def _served(call: Call, name: str) -> Response:
    found = _files().get(name)
    if found is None:
        raise Problem("not_found", f"the page has no file {name[:100]!r}")
    data, media, tag = found
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if call.request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media, headers=headers)


async def page(call: Call) -> Response:
    """The page itself, the same for every view; what it shows it asks for."""
    return _served(call, "page.html")


async def static(call: Call) -> Response:
    """A file of the page."""
    return _served(call, call.path["file"])


async def icon(call: Call) -> Response:
    """Browsers ask for it unasked."""
    return _served(call, "icon.svg")


async def robots(call: Call) -> Response:
    """No crawler has business here."""
    return Response("User-agent: *\nDisallow: /\n", media_type="text/plain")


async def root(call: Call) -> Response:
    """People who type the address want the page."""
    return RedirectResponse("/ui", 307)


async def session(call: Call) -> wire.Session:
    """Who looks at the page."""
    who = call.who
    return wire.Session(
        name=who.name, access=who.access, tokens=call.services.tokens is not None, signed_in=who.by_cookie
    )


async def sign_in(call: Call) -> Answer:
    """Keep a token in a cookie that scripts can't read."""
    tokens = call.services.tokens
    who = None if tokens is None else tokens.find(call.body.token)
    if who is None or who.access == "submit":
        call.audit("sign_in_refused", token_of=None if who is None else who.name)
        raise Problem(
            "unauthenticated", "this token is not in the server's token file, or may not look at the page"
        )
    call.audit("sign_in", token_of=who.name)
    cookie = f"{COOKIE}={wire.quoted(call.body.token)}; Max-Age={_COOKIE_SECONDS}; {_cookie(call)}"
    answer = wire.Session(name=who.name, access=who.access, tokens=True, signed_in=True)
    return Answer(answer, headers={"Set-Cookie": cookie})


async def sign_out(call: Call) -> Answer:
    """Forget it."""
    return Answer(wire.Done(), headers={"Set-Cookie": f"{COOKIE}=; Max-Age=0; {_cookie(call)}"})


def _cookie(call: Call) -> str:
    secure = call.services.secure or call.request.url.scheme == "https"
    return "Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("GET", "/", root, "open", "To the page", {307: None}, media=""),
    Operation("GET", "/ui", page, "open", "The page", {200: str}, media="text/html", any_query=True),
    Operation("GET", "/ui/session", session, "read", "Who looks at the page", {200: wire.Session}),
    Operation(
        "POST",
        "/ui/session",
        sign_in,
        "open",
        "Sign in with a token",
        {200: wire.Session},
        body=wire.SignIn,
        problems=("unauthenticated", "invalid_payload"),
    ),
    Operation("DELETE", "/ui/session", sign_out, "open", "Sign out", {200: wire.Done}),
    Operation(
        "GET",
        "/ui/live",
        live,
        "read",
        "A view and its changes, as server-sent events",
        {200: str},
        (
            wire.Query(name="view", about="which", default="overview", choices=tuple(VIEWS)),
            wire.Query(name="name", about="of a gate: its name; of a run: its id"),
            wire.Query(name="key", about="of a gate"),
            wire.Query(name="workflow", about="of this workflow", most=200),
            wire.Query(name="state", about="in this state", choices=get_args(RunState)),
            wire.Query(
                name="search", about="whose name or key holds this; of runs: whose key is this", most=200
            ),
            wire.Query(name="sort", about="of gates", choices=SORTS),
            wire.CURSOR,
        ),
        media="text/event-stream",
    ),
    Operation(
        "GET",
        "/ui/{view}",
        page,
        "open",
        "The page, at one of its views",
        {200: str},
        media="text/html",
        any_query=True,
    ),
    Operation(
        "GET",
        "/ui/{view}/{name}",
        page,
        "open",
        "The page, at one thing",
        {200: str},
        media="text/html",
        any_query=True,
    ),
    Operation(
        "GET",
        "/static/{file:path}",
        static,
        "open",
        "A file of the page",
        {200: bytes},
        media="application/octet-stream",
    ),
    Operation("GET", "/favicon.ico", icon, "open", "Its icon", {200: bytes}, media="image/svg+xml"),
    Operation("GET", "/robots.txt", robots, "open", "For crawlers", {200: str}, media="text/plain"),
)

"""Who may do what: bearer tokens of a file, the page's cookie, and what other sites must not do in its name.

A token file has a token a line: a name for the log, what it may do, and the token, or its digest:

    alice      full                     3q9f…a-long-secret
    grafana    read                     sha256:9f86d081884c7d65…
    checkout   submit:order,refund      8a1c…another-secret
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from pyrula.errors import ConfigurationError, shown
from pyrula.web.problems import Problem

COOKIE: Final = "pyrula_token"
MARK: Final = "x-pyrula-page"
"""A header that the page's own requests carry. Another site can't add it: that needs CORS, which is off."""
_SHORTEST: Final = 16
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "testserver"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
Right = Literal["open", "read", "seen", "submit", "full"]
"""open: for anybody; seen: read, and for a token that may only submit, runs of its own workflows."""

log = logging.getLogger("pyrula.http")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. workflows: of a token that may only submit, those that it may; by_cookie: it is the page."""

    name: str
    access: Literal["full", "read", "submit"]
    workflows: frozenset[str] = frozenset()
    by_cookie: bool = False

    def may(self, right: Right, workflow: str | None = None) -> bool:
        """Whether it has a right; `submit` is about a workflow."""
        if right == "open" or self.access == "full":
            return True
        if self.access == "submit":
            return right == "seen" or (right == "submit" and (workflow is None or workflow in self.workflows))
        return right in ("read", "seen")


NOBODY: Final = Identity(name="local", access="full")
"""Whoever asks a server without tokens, which serves its own machine only."""


class Tokens:
    """The tokens of a file, or of a list of lines. `reload()` reads the file anew."""

    def __init__(self, path: str | Path | None = None, *, lines: Iterable[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._known = parse_tokens(lines or (), "tokens")
        if self._path is not None:
            self.reload()

    def reload(self) -> int:
        """Read the file; answers how many tokens it holds. Raises `ConfigurationError` and keeps the old ones."""
        if self._path is None:
            return len(self._known)
        try:
            text = self._path.read_text(encoding="utf-8")
            open_to = self._path.stat().st_mode & 0o077
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(f"token file {str(self._path)!r} can't be read: {error}") from None
        if open_to:
            log.warning("token file %s can be read by other users; chmod 600 it", self._path)
        self._known = parse_tokens(text.splitlines(), f"token file {str(self._path)!r}")
        return len(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def find(self, token: str) -> Identity | None:
        """Whose token it is. It is compared with every one, each in constant time."""
        given = sha256(token.encode(errors="surrogateescape")).hexdigest()
        found = None
        for digest, identity in self._known.items():
            if hmac.compare_digest(digest, given):
                found = identity
        return found


def parse_tokens(lines: Iterable[str], source: str) -> dict[str, Identity]:
    """SHA-256 of each token → whose it is. Raises `ConfigurationError`, naming the line, never the token."""
    known: dict[str, Identity] = {}
    names: set[str] = set()
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        where = f"{source}, line {number}"
        if len(parts) != 3:
            raise ConfigurationError(f"{where}: has {len(parts)} words; write `name access token`")
        name, access, secret = parts
        identity = _identity(where, name, access)
        if name in names:
            raise ConfigurationError(f"{where}: the name {name!r} is given twice; names tell who did what")
        names.add(name)
        digest = _digest(where, secret)
        if digest in known:
            raise ConfigurationError(f"{where}: {name!r} has the same token as {known[digest].name!r}")
        known[digest] = identity
    if not known and source != "tokens":
        raise ConfigurationError(f"{source}: holds no token; write lines of `name access token`")
    return known


def _identity(where: str, name: str, access: str) -> Identity:
    if access == "full":
        return Identity(name=name, access="full")
    if access == "read":
        return Identity(name=name, access="read")
    kind, _, rest = access.partition(":")
    workflows = frozenset(each for each in rest.split(",") if each)
    if kind != "submit" or not workflows:
        raise ConfigurationError(
            f"{where}: access is {shown(access)}; it must be full, read, or submit:workflow,workflow"
        )
    return Identity(name=name, access="submit", workflows=workflows)


def _digest(where: str, secret: str) -> str:
    kind, colon, rest = secret.partition(":")
    if kind == "sha256" and colon:
        if len(rest) != 64 or not all(c in "0123456789abcdef" for c in rest):
            raise ConfigurationError(f"{where}: sha256: must be followed by 64 lower-case hex digits")
        return rest
    if len(secret) < _SHORTEST:
        raise ConfigurationError(
            f"{where}: the token has {len(secret)} characters, at least {_SHORTEST} are needed: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return sha256(secret.encode()).hexdigest()


def identify(
    tokens: Tokens | None, headers: Mapping[str, str], cookies: Mapping[str, str]
) -> Identity | None:
    """Who asks; None without a token that is known. A bearer token goes before the cookie."""
    if tokens is None:
        return NOBODY
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return tokens.find(token.strip())
    cookie = cookies.get(COOKIE)
    found = tokens.find(unquote(cookie)) if cookie else None
    return None if found is None else msgspec.structs.replace(found, by_cookie=True)


def check_site(tokens: Tokens | None, method: str, headers: Mapping[str, str], *, bearer: bool) -> None:
    """Refuse what another site makes a browser send: a request that a cookie, or mere reach, would let through.

    A bearer token is proof enough: a browser never adds one by itself. Without tokens the Host must be this
    machine's own name too, or a site could rebind its name to 127.0.0.1 and read along. Raises `Problem`.
    """
    if bearer:
        return
    host = headers.get("host", "")
    if tokens is None and _host_name(host) not in _LOOPBACK:
        raise Problem(
            "cross_site",
            f"a server without tokens answers to localhost, not to {shown(host)}; start it with --token-file",
        )
    if method in _SAFE:
        return
    origin = headers.get("origin")
    same = origin is None or urlsplit(origin).netloc.lower() == host.lower()
    if not same or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Problem("cross_site", "another site's page may not do this; send a bearer token from a program")
    if tokens is not None and MARK not in headers:
        raise Problem("cross_site", f"a request with the page's cookie needs the header {MARK}: 1")


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is this machine's own only."""
    return host in ("localhost", "::1") or (host.startswith("127.") and host.count(".") == 3)

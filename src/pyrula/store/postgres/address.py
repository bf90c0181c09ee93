"""Where a shard is: a `postgresql:` URL, taken apart."""

from __future__ import annotations

import re
from hashlib import blake2b
from math import inf
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from pyrula.errors import ConfigurationError, shown
from pyrula.model.number import read_number

DEFAULT_SCHEMA: Final = "pyrula"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PATIENCE: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "application_name": "pyrula",
}
"""A server that vanished is noticed within about 20 s; what the URL says goes first."""


_ENCODING: Final = {"client_encoding": "UTF8"}
"""Whatever the URL, the environment or the role say: text would be stored as another, or not at all."""


class Address(NamedTuple):
    """conninfo: for libpq. schema: where the shard's tables are. listen: libpq's for LISTEN, None: as conninfo.
    shown: fit for messages. patience: seconds for which a call tries to reach the server, None if the URL says
    nothing."""

    conninfo: str
    schema: str
    listen: str | None
    shown: str
    patience: float | None = None

    @property
    def lock(self) -> int:
        """The advisory lock of the shard's turns: the same for everybody who names the schema so."""
        digest = blake2b(f"pyrula shard {self.schema}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

    @property
    def place(self) -> str:
        """The same for everybody who names server, database and schema so, whoever connects."""
        parts = urlsplit(self.conninfo)
        options = dict(parse_qsl(parts.query))
        host = options.get("host") or parts.netloc.rpartition("@")[2]
        database = options.get("dbname") or parts.path.strip("/")
        return f"postgresql {host} {options.get('port', '')} {database} {self.schema}"

    @property
    def channel(self) -> str:
        """The channel on which news of this shard is told."""
        return "pyrula_" + blake2b(self.schema.encode(), digest_size=8).hexdigest()


def address(url: str) -> Address:
    """Take a URL apart: `postgresql://user@host/database?schema=…&listen=…`, and whatever libpq takes beside.

    schema: lower case; "pyrula" if it names none. listen: the (percent-encoded) URL of a direct connection, where
    `url` goes through a transaction pooler. patience: seconds, 0 or more. Raises ConfigurationError.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigurationError(f"open_store: {shown(url)} is no postgresql: URL")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    listen = options.pop("listen", None)
    place = _without_password(url)
    patience = _patience(place, options.pop("patience", None))
    if not _SCHEMA.fullmatch(schema):
        raise ConfigurationError(
            f"open_store: {place}: schema={shown(schema)}; use 1 to 63 of a-z, 0-9 and _, not beginning with a digit"
        )
    if listen is not None and urlsplit(listen).scheme not in ("postgresql", "postgres"):
        raise ConfigurationError(
            f"open_store: {place}: listen={shown(_without_password(listen))} is no postgresql: URL; "
            "percent-encode a whole URL there"
        )
    return Address(
        _checked(place, _url(parts, options)),
        schema,
        None if listen is None else _checked(place, _direct(listen)),
        place,
        patience,
    )


def _url(parts: SplitResult, options: dict[str, str]) -> str:
    """For libpq: without a host, too, it begins with two slashes."""
    query = urlencode(_PATIENCE | options | _ENCODING, quote_via=quote)
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{query}"


def _checked(place: str, conninfo: str) -> str:
    try:
        conninfo_to_dict(conninfo)
    except ProgrammingError as error:
        said = " ".join(str(error).split())
        raise ConfigurationError(
            f"open_store: {place}: {said}; schema, listen and patience are pyrula's, all else is libpq's"
        ) from None
    return conninfo


def _patience(place: str, given: str | None) -> float | None:
    if given is None:
        return None
    try:
        seconds = read_number(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < inf:
        raise ConfigurationError(
            f"open_store: {place}: patience={shown(given)}; give seconds, 0 or more: for how long a call tries "
            "to reach the server"
        )
    return seconds


def _direct(listen: str) -> str:
    parts = urlsplit(listen)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for ours in ("schema", "patience"):
        options.pop(ours, None)
    return _url(parts, options)


def _without_password(url: str) -> str:
    """A URL as a message may show it."""
    parts = urlsplit(url)
    name, at, host = parts.netloc.rpartition("@")
    query = parts.query.partition("listen=")[0].rstrip("&")
    return f"{parts.scheme}://{name.partition(':')[0]}{at}{host}{parts.path}" + (f"?{query}" if query else "")

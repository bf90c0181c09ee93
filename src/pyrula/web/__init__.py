"""HTTP: the interface for programs, and the page for operators (extra `http`)."""

from pyrula.errors import missing

try:
    from pyrula.web.app import create_app
except ModuleNotFoundError as error:
    raise missing("pyrula.web", error, "http") from None

__all__ = ["create_app"]

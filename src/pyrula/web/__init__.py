"""HTTP: the interface for programs, and the page for operators (extra `http`)."""

from pyrula.web.app import create_app

__all__ = ["create_app"]

"""The page's files: each is served as what it is, and nothing beside them is."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import httpx
import pytest

STATIC = Path(str(files("pyrula.web").joinpath("static")))
FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())
MEDIA = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}


async def test_every_file_is_served_with_its_type_and_not_twice_to_who_has_it(
    http: httpx.AsyncClient,
) -> None:
    assert "views/run.js" in FILES
    for name in FILES:
        answer = await http.get(f"/static/{name}")
        assert answer.content == (STATIC / name).read_bytes(), name
        assert answer.headers["content-type"].partition(";")[0] == MEDIA[name.rpartition(".")[2]], name
        assert answer.headers["cache-control"] == "no-cache"
        again = await http.get(f"/static/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b""), name


@pytest.mark.parametrize(
    "path",
    ["", "views", "views/", "nope.js", "%2e%2e/app.py", "views/%2e%2e/%2e%2e/app.py", "views%2F..%2F..%2Fapp.py",
     "/etc/passwd", "%2Fetc%2Fpasswd", "views/%2e%2e/page.js", "views%5Crun.js", "page.js%00"],
)  # fmt: skip
async def test_what_is_no_file_of_the_page_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(f"/static/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_page_asks_for_every_module_at_once(http: httpx.AsyncClient) -> None:
    page = (await http.get("/ui")).text
    asked = {each.partition('"')[0] for each in page.split('="/static/')[1:]}
    assert asked == {name for name in FILES if name.endswith((".js", ".css", ".svg"))}

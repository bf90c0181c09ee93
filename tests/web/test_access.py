"""Who may do what: tokens, the page's cookie, other sites."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from pyrula.errors import ConfigurationError
from pyrula.web.access import MARK, Tokens
from pyrula.web.app import App
from pyrula.workflows import Worker, WorkflowClient
from tests.web.conftest import FULL, READ, SUBMIT, asking, bearer


async def test_without_a_token_nothing_but_health_and_the_page_itself_is_served(
    make_app: Callable[..., App],
) -> None:
    async with asking(make_app(tokens=True), host="pyrula.example") as http:
        for path in ("/runs", "/gates", "/metrics", "/stats", "/ui/session", "/ui/live"):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (await http.get("/runs", headers=bearer("wrong-token-of-anybody"))).status_code == 401
        for path in ("/healthz", "/readyz", "/ui", "/openapi.json"):
            assert (await http.get(path)).status_code == 200


async def test_a_read_only_token_looks_and_does_not_touch(
    make_app: Callable[..., App], client: WorkflowClient
) -> None:
    run_id = await client.submit("order", {"number": 1})
    async with asking(make_app(tokens=True), bearer(READ)) as http:
        assert (await http.get(f"/runs/{run_id}")).status_code == 200
        for path in (f"/runs/{run_id}/cancel", "/order", "/gates/openai/pause", "/buffers/digest/flush"):
            answer = await http.post(path, json={})
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path
    assert (await client.get(run_id)).state == "queued"


async def test_a_submit_only_token_submits_its_workflows_and_sees_their_runs(
    make_app: Callable[..., App], client: WorkflowClient
) -> None:
    others = await client.submit("ship", {"number": 1, "part": 1})
    async with asking(make_app(tokens=True), bearer(SUBMIT)) as http:
        own = (await http.post("/order", json={"number": 1})).json()["run_id"]
        assert (await http.post("/digest/events", json={"user_id": "u"})).status_code == 202
        assert (await http.post("/ship", json={"number": 1, "part": 1})).status_code == 403
        assert (await http.get(f"/runs/{own}/result")).status_code == 202
        assert (await http.get(f"/runs/{others}")).json()["code"] == "run_not_found"
        for path in ("/runs", "/gates", f"/runs/{own}/steps", "/metrics"):
            assert (await http.get(path)).status_code == 403
        assert (await http.post(f"/runs/{own}/cancel")).status_code == 403


async def test_every_act_of_steering_is_written_down(
    make_app: Callable[..., App], client: WorkflowClient, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await client.submit("order", {"number": 1})
    with caplog.at_level(logging.INFO, "pyrula.audit"):
        async with asking(make_app(tokens=True), bearer(FULL)) as http:
            await http.post(f"/runs/{run_id}/cancel", headers={"X-Request-ID": "r-1"})
            await http.post("/gates/openai/override", json={"max": 9})
    lines = [
        (record.getMessage(), record.who, getattr(record, "run_id", None))
        for record in caplog.records
        if record.name == "pyrula.audit"
    ]  # type: ignore[attr-defined]  # extras of the line
    assert lines == [("cancel", "alice", run_id), ("override", "alice", None)]
    assert FULL not in caplog.text


async def test_the_page_keeps_its_token_where_no_script_can_read_it(make_app: Callable[..., App]) -> None:
    async with asking(make_app(tokens=True), host="pyrula.example") as http:
        answer = await http.post("/ui/session", json={"token": FULL}, headers={MARK: "1"})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
        assert (await http.get("/runs")).status_code == 200
        assert (await http.get("/ui/session")).json() == {
            "name": "alice",
            "access": "full",
            "tokens": True,
            "signed_in": True,
        }
        await http.delete("/ui/session", headers={MARK: "1"})
        assert (await http.get("/runs")).status_code == 401
    async with asking(make_app(tokens=True, secure_cookie=True)) as http:
        assert (
            "Secure"
            in (await http.post("/ui/session", json={"token": READ}, headers={MARK: "1"})).headers[
                "set-cookie"
            ]
        )
        assert (
            await http.post("/ui/session", json={"token": SUBMIT}, headers={MARK: "1"})
        ).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {},  # no mark: a form of another site
        {MARK: "1", "Origin": "https://evil.example"},
        {MARK: "1", "Origin": "null"},
        {MARK: "1", "Sec-Fetch-Site": "cross-site"},
        {MARK: "1", "Sec-Fetch-Site": "same-site"},
    ],
)
async def test_another_site_can_not_use_the_cookie(
    make_app: Callable[..., App], client: WorkflowClient, headers: dict[str, str]
) -> None:
    run_id = await client.submit("order", {"number": 1})
    async with asking(make_app(tokens=True), host="pyrula.example") as http:
        await http.post("/ui/session", json={"token": FULL}, headers={MARK: "1"})
        answer = await http.post(f"/runs/{run_id}/cancel", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_site")
    assert (await client.get(run_id)).state == "queued"


async def test_a_server_without_tokens_answers_this_machine_only(
    http: httpx.AsyncClient, make_app: Callable[..., App]
) -> None:
    assert (await http.get("/runs")).status_code == 200
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert (await http.post("/order", json={"number": 1}, headers=headers)).status_code == 403
    async with asking(make_app(), host="rebound.example") as other:
        assert (await other.get("/runs")).json()["code"] == "cross_site"
    for host in ("127.0.0.1:8787", "[::1]:8787", "LOCALHOST"):
        assert (await http.get("/runs", headers={"Host": host})).status_code == 200


async def test_no_page_frames_it_and_no_script_but_its_own_runs(http: httpx.AsyncClient) -> None:
    for path in ("/ui", "/runs", "/nope", "/static/page.js"):
        headers = (await http.get(path)).headers
        policy = headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy
            and "script-src 'self'" in policy
            and "frame-ancestors 'none'" in policy
        )
        assert "unsafe" not in policy and headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_token_file_is_read_anew_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    digest = sha256(b"grafana-token-in-clear").hexdigest()
    path.write_text(f"# who\nalice full {FULL}\n\ngrafana read sha256:{digest}\n")
    path.chmod(0o600)
    tokens = Tokens(path)
    found = tokens.find("grafana-token-in-clear")
    assert found is not None and (found.name, found.access) == ("grafana", "read")
    path.write_text(f"bob full {FULL}\n")
    assert tokens.reload() == 1
    assert tokens.find(FULL).name == "bob" and tokens.find("grafana-token-in-clear") is None  # type: ignore[union-attr]  # it is there
    path.write_text("bob full short\n")
    with pytest.raises(ConfigurationError, match="line 1: the token has 5 characters"):
        tokens.reload()
    assert tokens.find(FULL) is not None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("alice full", "2 words"),
        (f"alice root {FULL}", "access is 'root'"),
        (f"alice submit: {FULL}", "access is 'submit:'"),
        ("alice full sha256:xyz", "64 lower-case hex digits"),
        (f"alice full {FULL}\nbob read {FULL}", "same token"),
        (f"alice full {FULL}\nalice read {READ}", "given twice"),
        ("# nobody", "holds no token"),
    ],
)
def test_a_bad_token_file_is_refused_and_its_tokens_are_not_told(
    tmp_path: Path, line: str, says: str
) -> None:
    path = tmp_path / "tokens"
    path.write_text(line)
    with pytest.raises(ConfigurationError, match=says) as caught:
        Tokens(path)
    assert FULL not in str(caught.value)
    assert json.dumps(str(caught.value))

"""The routes: what they answer, and how they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from pyrula.errors import ConfigurationError
from pyrula.store.protocol import Store
from pyrula.web.app import DESCRIPTION, OPERATIONS, App
from pyrula.web.problems import TITLES
from pyrula.web.resources import gates, others
from pyrula.workflows import Registry, Worker, WorkflowClient, workflow
from pyrula.workflows.workflow import ROUTES
from tests.web.conftest import asking, serving
from tests.web.until import until


async def test_a_submit_is_accepted_and_its_run_can_be_looked_at(http: httpx.AsyncClient) -> None:
    answer = await http.post("/order", json={"number": 1})
    assert answer.status_code == 202
    run_id = answer.json()["run_id"]
    assert answer.headers["location"] == f"/runs/{run_id}"
    run = (await http.get(f"/runs/{run_id}")).json()
    assert (run["workflow"], run["state"], run["params"]) == ("order", "queued", {"number": 1})


async def test_one_idempotency_key_is_one_run_whose_id_is_made_of_it(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "web-17"}
    first = await http.post("/order", json={"number": 1}, headers=key)
    again = await http.post("/order", json={"number": 1}, headers=key)
    other = await http.post("/order", json={"number": 2}, headers=key)
    assert first.json() == again.json() == {"run_id": "order:web-17"}
    assert (other.status_code, other.json()["code"]) == (409, "run_id_conflict")
    assert len((await http.get("/runs")).json()["items"]) == 1


async def test_an_id_with_slashes_is_one_segment_when_escaped(
    http: httpx.AsyncClient, client: WorkflowClient
) -> None:
    run_id = await client.submit("order", {"number": 1}, run_id="a/b?c#d/result")
    at = f"/runs/{quote(run_id, safe='')}"
    assert (await http.get(at)).json()["run_id"] == run_id
    assert (await http.get(at + "/result")).json()["run_id"] == run_id


@pytest.mark.parametrize(
    ("option", "seconds", "status"),
    [
        ("delay", "2e9", 202),
        ("delay", "3.2e9", 400),
        ("expires_in", "0.000001", 202),
        ("expires_in", "0", 400),
        ("expires_in", "nan", 400),
    ],
)
async def test_durations_are_bounded_as_in_python(
    http: httpx.AsyncClient, option: str, seconds: str, status: int
) -> None:
    answer = await http.post(f"/order?{option}={seconds}", json={"number": 1})
    assert answer.status_code == status


async def test_a_result_is_waited_for(http: httpx.AsyncClient, worker: Worker) -> None:
    run_id = (await http.post("/ship", json={"number": 4, "part": 2})).json()["run_id"]
    answer = await http.get(f"/runs/{run_id}/result?wait=20")
    assert (answer.status_code, answer.json()["result"]) == (200, "4/2")


async def test_a_failed_run_is_an_answer_not_an_error(http: httpx.AsyncClient, worker: Worker) -> None:
    run_id = (await http.post("/order", json={"number": 4, "fail": True})).json()["run_id"]
    answer = await http.get(f"/runs/{run_id}/result?wait=20")
    assert (answer.status_code, answer.json()["state"]) == (200, "failed")
    assert "insufficient funds" in answer.json()["error"]["message"]


async def test_a_wait_that_is_over_answers_how_the_run_stands(http: httpx.AsyncClient) -> None:
    run_id = (await http.post("/order", json={"number": 1})).json()["run_id"]
    answer = await http.get(f"/runs/{run_id}/result?wait=0.05")
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")


async def test_a_server_that_stops_answers_who_waits(make_app: Callable[..., App]) -> None:
    app = make_app()
    async with asking(app) as http:
        run_id = (await http.post("/order", json={"number": 1})).json()["run_id"]
        waiting = asyncio.ensure_future(http.get(f"/runs/{run_id}/result?wait=60"))
        await asyncio.sleep(0.05)
        app.stop()
        assert (await asyncio.wait_for(waiting, 5)).status_code == 202
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200


async def test_runs_come_in_pages(http: httpx.AsyncClient, client: WorkflowClient) -> None:
    ids = await client.submit_many("order", [{"number": n} for n in range(5)])
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await http.get(f"/runs?limit=2{cursor}")).json()
        seen += [run["run_id"] for run in page["items"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert seen == ids[::-1]


async def test_an_operator_overrides_pauses_and_resumes(
    http: httpx.AsyncClient, client: WorkflowClient, worker: Worker
) -> None:
    await client.submit_many(
        "sync_account", [{"tenant_id": "acme", "account": f"a{n}", "wait": True} for n in range(5)]
    )
    await client.submit_many(
        "sync_account", [{"tenant_id": "globex", "account": f"a{n}", "wait": True} for n in range(5)]
    )

    async def executing(key: str, count: int) -> dict[str, object]:
        async with asyncio.timeout(10):
            while True:
                found = (await http.get(f"/gates/sync_account.limit?key={key}")).json()
                if found.get("gate", {}).get("in_use") == count:
                    return found
                await asyncio.sleep(0.02)

    found = await executing("acme", 2)
    assert len(found["holders"]) == 2 and len(found["waiters"]) == 3  # type: ignore[arg-type]  # both are lists
    answer = await http.post(
        "/gates/sync_account.limit/override", json={"key": "acme", "max": 4, "expires_in": 600}
    )
    assert answer.json() == {"done": True, "count": None}
    await executing("acme", 4)
    await executing("globex", 2)
    (held,) = (await http.get("/overrides")).json()["items"]
    assert (held["gate"], held["key"], held["max"]) == ("sync_account.limit", "acme", 4)
    await http.delete("/gates/sync_account.limit/override?key=acme")
    await http.post("/gates/sync_account.rate/pause", json={"seconds": 60})
    kinds = [(each["kind"], each["key"]) for each in (await http.get("/overrides")).json()["items"]]
    assert kinds == [("pause", None)]
    await http.post("/gates/sync_account.rate/resume", json={})
    assert (await http.get("/overrides")).json()["items"] == []


async def test_gates_are_searched_and_sorted(
    http: httpx.AsyncClient, client: WorkflowClient, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant, runs in (("acme", 4), ("acorn", 9), ("globex", 3)):
        await client.submit_many(
            "sync_account", [{"tenant_id": tenant, "account": f"{n}", "wait": True} for n in range(runs)]
        )

    async def all_are_counted() -> bool:
        return len((await http.get("/gates")).json()["items"]) == 6

    await until(all_are_counted)
    found = (await http.get("/gates?sort=queued&name=sync_account.limit")).json()["items"]
    assert [(gate["key"], gate["queued"]) for gate in found] == [("acorn", 7), ("acme", 2), ("globex", 1)]
    found = (await http.get("/gates?sort=queued&search=CORN&name=sync_account.limit")).json()["items"]
    assert [gate["key"] for gate in found] == ["acorn"]
    first = (await http.get("/gates?limit=4")).json()
    rest = (await http.get(f"/gates?limit=4&cursor={first['cursor']}")).json()
    assert len(first["items"]) == 4 and len(rest["items"]) == 2 and rest["cursor"] is None
    monkeypatch.setattr(gates, "DEEPEST", 4)
    cut = (await http.get("/gates?limit=4&sort=queued")).json()
    assert (len(cut["items"]), cut["cursor"], cut["cut"]) == (4, None, True)
    on = (await http.get("/gates?limit=4")).json()
    assert (on["cursor"], on["cut"]) == ("4", False)
    assert (await http.get("/gates?sort=busy&limit=6")).json()["cut"] is False


async def test_a_run_is_cancelled_and_taken_up_again(http: httpx.AsyncClient) -> None:
    run_id = (await http.post("/order", json={"number": 1})).json()["run_id"]
    assert (await http.post(f"/runs/{run_id}/cancel")).json() == {"run_id": run_id, "accepted": True}
    assert (await http.post(f"/runs/{run_id}/cancel", json={})).json()["accepted"] is False
    assert (await http.post(f"/runs/{run_id}/retry")).json()["accepted"] is True
    assert (await http.get(f"/runs/{run_id}")).json()["state"] == "queued"


async def test_an_event_reaches_the_run_that_waits_for_it(http: httpx.AsyncClient, worker: Worker) -> None:
    run_id = (await http.post("/fulfil", json={"warehouse": "kiel", "order": 3})).json()["run_id"]
    assert (await http.post(f"/runs/{run_id}/events/paid", json={"euro": 5})).status_code == 200
    answer = await http.get(f"/runs/{run_id}/result?wait=20")
    assert answer.json()["result"] == "3 {'euro': 5}"


async def test_the_steps_and_children_of_a_run_are_told(http: httpx.AsyncClient, worker: Worker) -> None:
    run_id = (await http.post("/order", json={"number": 9})).json()["run_id"]
    async with asyncio.timeout(10):
        while True:
            steps = (await http.get(f"/runs/{run_id}/steps")).json()["items"]
            if steps and steps[-1]["kind"] == "event":
                break
            await asyncio.sleep(0.02)
    assert [step["name"] for step in steps] == ["validate", "sleep", "ship", "ship", "ship", "delivered"]
    children = (await http.get(f"/runs/{run_id}/children")).json()["items"]
    assert [child["state"] for child in children] == ["completed"] * 3


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("GET", "/runs/nope", {}, 404, "run_not_found"),
        ("GET", "/runs?limit=0", {}, 400, "bad_request"),
        ("GET", "/runs?state=odd", {}, 400, "bad_request"),
        ("GET", "/runs?cursor=abc", {}, 400, "bad_request"),
        ("GET", "/runs?limit=1_0", {}, 400, "bad_request"),
        ("GET", "/runs?limit=%D9%A3", {}, 400, "bad_request"),
        ("GET", "/runs?limit=%201", {}, 400, "bad_request"),
        ("GET", "/runs?cursor=%D9%A3", {}, 400, "bad_request"),
        ("POST", "/order?delay=1_0", {"json": {"number": 1}}, 400, "bad_request"),
        ("POST", "/order?delay=nan", {"json": {"number": 1}}, 400, "bad_request"),
        ("GET", "/runs?colour=red", {}, 400, "bad_request"),
        ("GET", "/order", {}, 405, "method_not_allowed"),
        ("POST", "/runs", {"json": {}}, 405, "method_not_allowed"),
        ("PUT", "/gates", {"json": {}}, 405, "method_not_allowed"),
        ("GET", "/a/b/c/d/e", {}, 404, "not_found"),
        ("GET", "/static/..%2F..%2Fapp.py", {}, 404, "not_found"),
        ("POST", "/unknown", {"json": {}}, 404, "workflow_not_found"),
        ("POST", "/order", {"json": {"colour": 1}}, 422, "invalid_params"),
        ("POST", "/order", {"json": [1]}, 400, "not_json"),
        ("POST", "/order", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "not_json"),
        ("POST", "/order", {"content": b'{"a":NaN}', "headers": {"Content-Type": "application/json"}}, 400, "not_json"),
        ("POST", "/order", {"content": b"a", "headers": {"Content-Type": "text/css"}}, 415, "unsupported_media_type"),
        ("POST", "/order", {"json": {"number": "x"}}, 422, "invalid_params"),
        ("POST", "/mail", {"json": {"user": "x" * (1 << 20)}}, 413, "payload_too_large"),
        ("POST", "/mail", {"json": {"user": "x" * (3 << 20)}}, 413, "payload_too_large"),
        ("POST", "/order?priority=9", {"json": {"number": 1}}, 400, "bad_request"),
        ("POST", "/order", {"json": {"number": 1}, "headers": {"Idempotency-Key": ""}}, 400, "bad_request"),
        ("POST", "/order/events", {"json": {}}, 422, "configuration"),
        ("POST", "/gates/nope/pause", {"json": {}}, 404, "gate_not_found"),
        ("POST", "/gates/openai/override", {"json": {"max": 0}}, 422, "configuration"),
        ("POST", "/gates/openai/override", {"json": {}}, 422, "invalid_payload"),
        ("POST", "/gates/openai/override", {"json": {"max": "3"}}, 422, "invalid_payload"),
        ("POST", "/gates/openai/override", {"json": {"maximum": 3}}, 422, "invalid_payload"),
        ("POST", "/gates/openai/override", {"json": {"per_second": 3}}, 404, "gate_not_found"),
        ("GET", "/gates/openai?key=zzz", {}, 404, "gate_not_found"),
        ("GET", "/gates?sort=queued&cursor=5000", {}, 400, "bad_request"),
        ("GET", "/gates?search=a&cursor=5000", {}, 400, "bad_request"),
        ("POST", "/buffers/order/flush", {"json": {}}, 422, "configuration"),
        ("POST", "/buffers/nope/flush", {"json": {}}, 404, "workflow_not_found"),
        ("POST", "/ui/session", {"json": {"token": "x"}}, 401, "unauthenticated"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_a_problem_with_a_stable_code(
    http: httpx.AsyncClient, method: str, path: str, options: dict[str, object], status: int, code: str
) -> None:
    answer = await http.request(method, path, **options)  # type: ignore[arg-type]  # keyword arguments of httpx
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status and problem["title"] == TITLES[code][1] and problem["detail"]
    assert problem["request_id"] == answer.headers["x-request-id"]


async def test_a_body_that_trickles_in_is_not_waited_for(
    make_app: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrula.web.call.BODY_SECONDS", 0.2)
    async with serving(make_app()) as at:
        host, _, port = at.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = "POST /order HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        writer.write(head.encode() + b'{"number"')
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), 10)
        assert b" 408 " in answer
        writer.close()


async def test_an_answer_that_takes_too_long_is_given_up(
    make_app: Callable[..., App], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(run_id: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "get", hang)
    app = make_app(answer_seconds=0.05)
    async with asking(app) as http:
        answer = await http.get("/runs/any")
        assert (answer.status_code, answer.json()["code"]) == (503, "time_limit")
        assert answer.headers["retry-after"] == "1"


async def test_a_request_keeps_the_id_that_a_proxy_gave_it(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz", headers={"X-Request-ID": "edge-7"})).headers[
        "x-request-id"
    ] == "edge-7"
    odd = await http.get("/healthz", headers={"X-Request-ID": "a b\tc"})
    assert odd.headers["x-request-id"] != "a b\tc"


async def test_other_sites_get_no_cors_unless_they_are_named(make_app: Callable[..., App]) -> None:
    asked = {
        "Origin": "https://shop.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    async with asking(make_app()) as http:
        assert "access-control-allow-origin" not in (await http.options("/order", headers=asked)).headers
    async with asking(make_app(tokens=True, cors_origins=["https://shop.example"])) as http:
        answer = await http.options("/order", headers=asked)
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        other = await http.options("/order", headers={**asked, "Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


async def test_a_store_that_does_not_answer_is_not_ready_before_a_probe_gives_up(
    make_app: Callable[..., App], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "_READY_SECONDS", 0.05)
    monkeypatch.setattr(store, "now", asyncio.Event().wait)  # as long as a server is away
    async with asking(make_app()) as http:
        answer = await asyncio.wait_for(http.get("/readyz"), 5)
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert "within 0.05 s" in answer.json()["detail"]
        assert (await http.get("/healthz")).status_code == 200


async def test_an_app_in_another_one_says_where_its_runs_are(make_app: Callable[..., App]) -> None:
    async with asking(Starlette(routes=[Mount("/flow", make_app())])) as http:
        answer = await http.post("/flow/order", json={"number": 1})
        where = answer.headers["location"]
        assert where == f"/flow/runs/{answer.json()['run_id']}"
        assert (await http.get(where)).json()["state"] == "queued"


async def test_a_body_that_is_refused_is_told_which_name_and_which_value(
    make_app: Callable[..., App],
) -> None:
    async with asking(make_app()) as http:
        for body, said in [
            ({"maxi": 3}, "unknown name 'maxi'; this address takes key, max, per_second, burst, expires_in"),
            ({"max": "3"}, "body.max: expected int | null, got str; it was given '3'"),
        ]:
            answer = await http.post("/gates/order.limit/override", json=body)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_payload")
            assert said in answer.json()["detail"]


@pytest.mark.parametrize("levels", [100, 100_000])
async def test_a_body_that_is_nested_too_deep_is_told_how_deep_it_may_be(
    http: httpx.AsyncClient, levels: int
) -> None:
    body = b'{"number": ' + b"[" * levels + b"]" * levels + b"}"
    answer = await http.post("/order", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "not_json")
    assert "nested deeper than 100 levels" in answer.json()["detail"]
    assert "recursion" not in answer.json()["detail"]


@pytest.mark.parametrize("site", ["shop.example", "https://shop.example/", "https://Shop.example", ""])
async def test_a_site_that_no_browser_would_send_is_refused(make_app: Callable[..., App], site: str) -> None:
    with pytest.raises(ConfigurationError, match=r"scheme://host\[:port\]"):
        make_app(tokens=True, cors_origins=["https://shop.example", site])


def test_every_first_word_of_a_route_is_refused_as_a_workflow_name() -> None:
    words = {operation.path.split("/")[1] for operation in OPERATIONS} - {"{name}", ""}
    assert words <= ROUTES
    for word in sorted(ROUTES):
        with pytest.raises(ConfigurationError, match="HTTP routes"):

            @workflow(name=word, registry=Registry())
            async def body(ctx: object) -> None: ...


def test_what_is_described_is_what_is_served() -> None:
    described = {(path, method.upper()) for path, item in DESCRIPTION["paths"].items() for method in item}
    served = {(each.path, each.method) for each in OPERATIONS}
    assert served - described == {("/static/{file:path}", "GET")}
    assert described <= served
    assert DESCRIPTION["openapi"] == "3.1.0"

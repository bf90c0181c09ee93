"""The operator's page in a real browser: what he finds, what he does, and what he is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Page, Route, async_playwright, expect

from pyrula.store.protocol import Store
from pyrula.web.app import App
from pyrula.workflows import Worker, WorkflowClient
from tests.web import scene
from tests.web.chromium import executable, launched
from tests.web.conftest import FULL, READ, serving

pytestmark = pytest.mark.xdist_group("browser")
AXE = Path(__file__).parent / "axe" / "axe.min.js"
LOOKS = {"light": (1280, 860, "light"), "dark": (1280, 860, "dark"), "phone": (390, 844, "light")}


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await launched(playwright)
        yield browser
        await browser.close()


class Looking:
    """A page, and what went wrong on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.elsewhere: list[str] = []
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on(
            "console", lambda message: self.wrong.append(message.text) if message.type == "error" else None
        )
        page.on(
            "request",
            lambda request: (
                self.elsewhere.append(request.url) if "://localhost:" not in request.url else None
            ),
        )


@asynccontextmanager
async def looking(
    browser: Browser, width: int = 1280, height: int = 860, scheme: str = "light"
) -> AsyncIterator[Looking]:
    context = await browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]  # one of its literals, from a table
    context.set_default_timeout(15_000)
    looking = Looking(await context.new_page())
    yield looking
    await context.close()


def test_there_is_a_browser() -> None:
    assert executable()


async def test_an_operator_finds_why_a_run_waits_and_raises_its_limit_for_ten_minutes(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient, worker: Worker
) -> None:
    first, second, waiter = await client.submit_many(
        "sync_account", [{"tenant_id": "acme", "account": f"a{n}", "wait": True} for n in range(3)]
    )
    await client.submit_many(
        "sync_account", [{"tenant_id": "globex", "account": f"b{n}", "wait": True} for n in range(3)]
    )
    async with serving(make_app(tokens=True)) as at, looking(browser) as it:
        page = it.page
        await page.goto(f"{at}/ui")
        await page.get_by_label("Token").fill("a-wrong-token-of-mine")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("not in the server's token file")
        await page.get_by_label("Token").fill(FULL)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("What is queued, and for what")).to_be_visible()
        row = page.get_by_role("row", name="sync_account.limit")
        await expect(row).to_contain_text("2")
        await page.get_by_role("link", name="Runs", exact=True).click()
        await page.get_by_role("link", name="queued", exact=True).click()
        await page.get_by_role("link", name=waiter).click()
        why = page.locator(".why")
        await expect(why).to_contain_text("Full: sync_account.limit for acme")
        await expect(why).to_contain_text("2 of 2 slots in use")
        await expect(why.get_by_role("link", name=first)).to_be_visible()
        await expect(why.get_by_role("link", name=second)).to_be_visible()
        await page.get_by_role("button", name="Raise the limit…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_label("Runs at once")).to_have_value("3")
        await expect(dialog).to_contain_text("now it is 2")
        await expect(dialog).to_contain_text("It lapses by itself at")
        await dialog.get_by_label("Runs at once").fill("3")
        await expect(dialog).to_contain_text("Lets 3 at once through sync_account.limit for key acme")
        await dialog.get_by_role("button", name="Override").click()
        await expect(page.locator("h1 .badge")).to_have_text("executing")
        held = await client.store.overrides()
        assert [(each["gate"], each["key"], each["max"]) for each in held] == [
            ("sync_account.limit", "acme", 3)
        ]
        left = held[0]["expires_at"].timestamp() - client.store.clock.wall() / 1e6
        assert 580 < left <= 600
        assert not [line for line in it.wrong if "401" not in line]
        assert it.elsewhere == []
    gates = {(gate.name, gate.key): gate.in_use for gate in await client.gates("sync_account.limit")}
    assert gates == {("sync_account.limit", "acme"): 3, ("sync_account.limit", "globex"): 2}


async def test_an_operator_cancels_a_run_and_flushes_a_buffer(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient, worker: Worker
) -> None:
    (run_id,) = await client.submit_many(
        "sync_account", [{"tenant_id": "acme", "account": "a", "wait": True}]
    )
    await client.trigger("digest", {"user_id": "u1"})
    await client.trigger("digest", {"user_id": "u2"})
    async with serving(make_app()) as at, looking(browser) as it:
        page = it.page
        await page.goto(f"{at}/ui/runs/{run_id}")
        await expect(page.locator("h1 .badge")).to_have_text("executing")
        await page.get_by_role("button", name="Cancel…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("its slot is free once it has")
        await dialog.get_by_role("button", name="Leave it").click()
        assert (await client.get(run_id)).state == "executing"
        await page.get_by_role("button", name="Cancel…").click()
        await dialog.get_by_role("button", name="Cancel the run").click()
        await expect(page.locator("h1 .badge")).to_have_text("cancelled")
        await page.get_by_role("link", name="Buffers").click()
        await page.get_by_role("row", name="u1").get_by_role("button", name="Flush…").click()
        await expect(dialog).to_contain_text("with the 1 event of key u1 now")
        await dialog.get_by_role("button", name="Flush").click()
        await expect(page.get_by_role("row", name="u1")).to_have_count(0)
        await expect(page.get_by_role("row", name="u2")).to_be_visible()
        assert it.wrong == []
    assert [each["key"] for each in await client.buffers()] == ["u2"]


async def test_a_read_only_token_sees_and_is_refused(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient
) -> None:
    run_id = await client.submit("order", {"number": 1})
    async with serving(make_app(tokens=True)) as at, looking(browser) as it:
        page = it.page
        await page.goto(f"{at}/ui/runs/{run_id}")
        await page.get_by_label("Token").fill(READ)
        await page.get_by_role("button", name="Sign in").click()
        button = page.get_by_role("button", name="Cancel…")
        await expect(button).to_be_disabled()
        alike = """button => {
            const plain = document.createElement("button");
            plain.disabled = true;
            button.after(plain);
            const [its, plains] = [button, plain].map(each => getComputedStyle(each).color);
            plain.remove();
            return its === plains;
        }"""
        assert await button.evaluate(alike), "the red one looks off, too"
        await expect(page.get_by_text("grafana, read-only")).to_be_visible()
        assert "read-only" in (await button.get_attribute("title") or "")
        status = await page.evaluate(
            f"fetch('/runs/{run_id}/cancel', {{method: 'POST', headers: {{'X-Pyrula-Page': '1'}}}}).then(a => a.status)"
        )
        assert status == 403
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert (await client.get(run_id)).state == "queued"


async def test_the_page_is_used_without_a_mouse_and_lives_without_a_reload(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient, worker: Worker
) -> None:
    async with serving(make_app()) as at, looking(browser) as it:
        page = it.page
        await page.goto(f"{at}/ui")
        await expect(page.get_by_text("Nothing is queued.")).to_be_visible()
        ids = await client.submit_many(
            "sync_account", [{"tenant_id": "acme", "account": f"{n}", "wait": True} for n in range(4)]
        )
        await expect(page.get_by_role("link", name="sync_account.limit")).to_be_visible()
        await page.keyboard.press("g")
        await page.keyboard.press("g")
        await expect(page.get_by_role("heading", name="Gates")).to_be_visible()
        await page.keyboard.press("/")
        await page.keyboard.type("acme")
        await expect(page.get_by_role("row", name="acme")).to_have_count(2)
        await page.wait_for_url("**/ui/gates?search=acme")
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="sync_account.limit")).to_be_visible()
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_contain_text("next, previous row")
        await page.keyboard.press("Escape")
        await client.cancel(ids[0])
        await expect(page.get_by_text("1 run held back here")).to_be_visible()
        await page.go_back()
        await expect(page.get_by_role("row", name="acme")).to_have_count(2)
        assert it.wrong == []


async def test_an_address_that_leads_nowhere_says_so(browser: Browser, make_app: Callable[..., App]) -> None:
    async with serving(make_app()) as at, looking(browser) as it:
        for path in ("/ui/nowhere", "/ui/nowhere/else", "/ui/workers/w1"):
            await it.page.goto(f"{at}{path}")
            await expect(it.page.locator("#main")).to_contain_text(f"There is no page at {path}")
            assert await it.page.title() == "No such page · pyrula"
        await it.page.get_by_role("link", name="Workers").click()
        await expect(it.page.locator("#main")).to_contain_text("No worker is registered")
        await expect(it.page.locator("#top .status")).to_have_text("live")
        await it.page.go_back()
        await expect(it.page.locator("#top .status")).to_have_text("")
        assert it.wrong == []


async def test_what_holds_a_worker_back_is_told_in_numbers(
    browser: Browser, make_app: Callable[..., App], store: Store, client: WorkflowClient
) -> None:
    limits = {"os": {"mem": 1}}
    async with (
        Worker(store, scene.registry, "worker-9", limits=limits, grace_seconds=0),
        serving(make_app()) as at,
        looking(browser) as it,
    ):
        await it.page.goto(f"{at}/ui/workers")
        row = it.page.get_by_role("row", name="worker-9")
        await expect(row).to_contain_text(
            "used, its limit is 1 %", timeout=20_000
        )  # once the machine was read
        run_id = await client.submit("ship", {"number": 1, "part": 1})
        await it.page.goto(f"{at}/ui/runs/{run_id}")
        await expect(it.page.locator(".why")).to_contain_text("Every worker is held back by its own limits")
        await expect(it.page.locator(".why")).to_contain_text("worker-9: memory")
        assert it.wrong == []


async def test_hostile_names_keys_and_params_are_shown_and_never_run(
    browser: Browser, make_app: Callable[..., App], store: Store, client: WorkflowClient, worker: Worker
) -> None:
    users = [
        scene.HOSTILE,
        scene.RIGHT_TO_LEFT,
        "nul\x00inside",
        "javascript:window.hacked=1",
        "x" * 900_000,
        "';--\"\\%2F/../",
    ]
    ids = [
        await client.submit("mail", {"user": user}, run_id=f"{scene.HOSTILE}/{n}")
        for n, user in enumerate(users)
    ]
    for user in users[:4]:
        await client.trigger("digest", {"user_id": user})
    await asyncio.wait_for(client.result(ids[0]), 10)
    async with serving(make_app()) as at, looking(browser, 390, 844) as it:
        page = it.page
        for path in ("", "/gates", "/runs", "/buffers", *(f"/runs/{quote(each, safe='')}" for each in ids)):
            await page.goto(f"{at}/ui{path}")
            await expect(page.locator("h1")).to_be_visible()
            await page.wait_for_function("!document.querySelector('main').textContent.includes('Loading')")
            assert await page.evaluate("window.hacked") is None, path
            assert await page.evaluate("document.querySelectorAll('main script, main img').length") == 0
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert it.wrong == []
        await page.goto(f"{at}/ui/gates")
        for _ in range(len(users)):
            assert await page.evaluate("window.hacked") is None
        key = page.locator("tr", has_text="<script>").get_by_role("link", name="mail.rate")
        await key.click()
        await expect(page.locator("main")).to_contain_text(scene.HOSTILE)


def _views(told: dict[str, str]) -> list[str]:
    runs = [f"/ui/runs/{quote(told[name], safe='')}" for name in ("waiter", "parent", "failed", "hostile")]
    gates = [
        "/ui/gates/sync_account.limit?key=acme",
        f"/ui/gates/mail.rate?key={quote('user-1@example.org')}",
    ]
    lists = [f"/ui/{name}" for name in ("gates", "runs", "buffers", "schedules", "workers", "workflows")]
    return ["/ui", *lists, *gates, *runs]


@pytest.mark.parametrize("look", LOOKS)
async def test_no_view_scrolls_sideways_and_axe_finds_nothing(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient, worker: Worker, look: str
) -> None:
    told = await scene.fill(client)
    await asyncio.sleep(0.5)
    await scene.steer(client)
    axe = AXE.read_text()
    found: list[str] = []

    async def judge(page: Page, what: str) -> None:
        await page.evaluate(axe)
        result = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found.extend(
            f"{what}: {each['id']}: {each['nodes'][0]['html'][:200]} "
            f"({each['nodes'][0]['failureSummary'][:300]})"
            for each in result["violations"]
        )

    width, height, scheme = LOOKS[look]
    async with serving(make_app()) as at, looking(browser, width, height, scheme) as it:
        for view in _views(told):
            await it.page.goto(at + view)
            await expect(it.page.locator("h1")).to_be_visible()
            wide = await it.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if wide > 0:
                found.append(f"{view}: scrolls {wide} px sideways")
            await judge(it.page, view)
        assert it.wrong == []
        await it.page.goto(f"{at}/ui/gates/sync_account.limit?key=acme")
        await it.page.get_by_role("button", name="Override…").click()
        await judge(it.page, "dialog")
    assert found == []


async def test_the_page_says_a_word_of_its_first_connection_only_when_it_takes_long(
    browser: Browser, make_app: Callable[..., App]
) -> None:
    async with serving(make_app()) as at, looking(browser) as it:
        held = asyncio.Event()

        async def hold(route: Route) -> None:
            await held.wait()
            await route.continue_()

        await it.page.route("**/ui/live?*", hold)
        await it.page.goto(f"{at}/ui")
        status = it.page.locator("#top").get_by_role("status")
        await expect(status).to_have_text("")
        await expect(status).to_have_text("connecting…")
        held.set()
        await expect(status).to_have_text("live")
        assert it.wrong == []

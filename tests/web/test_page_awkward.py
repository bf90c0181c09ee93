"""The page when things go wrong around it: a proxy without a server, addresses that mean nothing, a log without end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from playwright.async_api import Browser, Route, expect

from pyrula.web.app import App
from pyrula.workflows import Context, Registry, Worker, WorkflowClient, workflow
from tests.web import scene
from tests.web.conftest import FULL, serving
from tests.web.test_page import browser, looking

__all__ = ["browser"]
pytestmark = pytest.mark.xdist_group("browser")


async def test_who_is_signed_in_stays_so_while_a_proxy_has_no_server(
    browser: Browser, make_app: Callable[..., App]
) -> None:
    async with serving(make_app(tokens=True)) as at, looking(browser) as it:
        page, away, asked = it.page, True, asyncio.Event()

        async def proxy(route: Route) -> None:
            if away:
                asked.set()
                await route.fulfill(status=502, content_type="text/html", body="<h1>Bad Gateway</h1>")
            else:
                await route.continue_()

        await page.goto(f"{at}/ui")
        await page.get_by_label("Token").fill(FULL)
        await page.get_by_role("button", name="Sign in").click()
        status = page.locator("#top").get_by_role("status")
        await expect(status).to_have_text("live")
        await page.route("**/ui/live?*", proxy)
        await page.route("**/ui/session", proxy)
        await page.get_by_role("link", name="Gates", exact=True).click()
        await expect(status).to_have_text("reconnecting…")
        await asyncio.wait_for(asked.wait(), 10)
        await expect(page.get_by_label("Token")).to_have_count(0)
        await page.reload()
        await expect(page.locator("main")).to_contain_text("The server does not answer")
        away = False
        await expect(page.get_by_role("heading", name="Gates")).to_be_visible()
        await expect(status).to_have_text("live")


async def test_whose_token_is_taken_away_signs_in_and_is_where_he_was(
    browser: Browser, make_app: Callable[..., App], worker: Worker
) -> None:
    async with serving(make_app(tokens=True)) as at, looking(browser) as it:
        page = it.page
        await page.goto(f"{at}/ui")
        await page.get_by_label("Token").fill(FULL)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await page.context.clear_cookies()
        await page.get_by_role("link", name="Runs", exact=True).click()
        await page.get_by_label("Token").fill(FULL)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        assert page.url == f"{at}/ui/runs"
        await page.goto(f"{at}/ui/workflows")
        await page.get_by_role("button", name="Restamp…").first.click()
        await page.context.clear_cookies()
        await page.get_by_role("dialog").get_by_role("button", name="Restamp").click()
        await expect(page.get_by_label("Token")).to_be_visible()
        await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_who_signs_out_in_one_tab_is_signed_out_in_all(
    browser: Browser, make_app: Callable[..., App]
) -> None:
    async with serving(make_app(tokens=True)) as at, looking(browser) as it:
        one, other = it.page, await it.page.context.new_page()
        for page in (one, other):
            await page.goto(f"{at}/ui/workers")
            await expect(page.get_by_label("Token")).to_be_visible()
        await one.get_by_label("Token").fill(FULL)
        await one.get_by_role("button", name="Sign in").click()
        await expect(other.get_by_role("heading", name="Workers")).to_be_visible()
        await other.get_by_role("button", name="Sign out").click()
        await expect(one.get_by_label("Token")).to_be_visible()
        await expect(one.get_by_role("heading", name="Workers")).to_have_count(0)


async def test_a_dialog_claims_nothing_of_a_number_that_is_none_and_says_when_no_answer_came(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient, worker: Worker
) -> None:
    await client.submit("sync_account", {"tenant_id": "acme", "account": "a", "wait": True})
    async with serving(make_app()) as at, looking(browser) as it:
        await it.page.goto(f"{at}/ui/gates/sync_account.limit?key=acme")
        await it.page.get_by_role("button", name="Override…").click()
        dialog = it.page.get_by_role("dialog")
        for junk in ("", "0", "-1", "1.5", "99999999999999999999"):
            await dialog.get_by_label("Runs at once").fill(junk)
            await expect(dialog.locator(".says")).to_have_text("A whole number of at least 1.")
            await dialog.get_by_role("button", name="Override").click()
            await expect(dialog.get_by_role("alert")).to_contain_text("is no whole number of at least 1")
        await dialog.get_by_label("Runs at once").fill("5")
        await it.page.route("**/override", lambda route: route.abort())
        await dialog.get_by_role("button", name="Override").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("The server did not answer")
    assert await client.store.overrides() == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/runs?state=odd", "state"),
        ("/gates?cursor=odd", "cursor"),
        ("/runs/%E0%A4%A", "no run"),
        ("/gates/mail.rate?key=" + "k" * 5000, "up to 4096 characters"),
    ],
)
async def test_an_address_that_means_nothing_is_answered_with_why(
    browser: Browser, make_app: Callable[..., App], path: str, why: str
) -> None:
    async with serving(make_app()) as at, looking(browser) as it:
        await it.page.goto(f"{at}/ui{path}")
        await expect(it.page.get_by_role("heading", name="There is nothing to show")).to_be_visible()
        await expect(it.page.locator("main")).to_contain_text(why)
        await it.page.get_by_role("link", name="Gates", exact=True).click()
        await expect(it.page.get_by_role("heading", name="Gates")).to_be_visible()
        await expect(it.page.locator("#top").get_by_role("status")).to_have_text("live")
        assert not [line for line in it.wrong if "status of 400" not in line]


async def test_of_a_long_log_the_newest_is_shown_and_the_rest_is_counted(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient
) -> None:
    registry = Registry()

    @workflow(registry=registry)
    async def long(ctx: Context) -> None:
        for number in range(700):
            await ctx.step(int, name=f"step {number}")
        await ctx.wait_for_event("go", timeout=3600)

    ours = WorkflowClient(client.store, registry)
    async with Worker(client.store, registry, "worker-1", grace_seconds=0):
        run_id = await ours.submit("long", {})
        async with serving(make_app()) as at, looking(browser) as it:
            await it.page.goto(f"{at}/ui/runs/{run_id}")
            timeline = it.page.locator(".panel", has_text="Timeline")
            await expect(timeline).to_contain_text("event go")
            await expect(timeline).to_contain_text("The newest 200; 501 came before them.")
            await expect(timeline.get_by_text("step 699", exact=True)).to_be_visible()
            await expect(timeline.get_by_text("step 0", exact=True)).to_have_count(0)
            assert it.wrong == []


async def test_runs_of_long_ids_are_told_apart_by_their_ends(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient
) -> None:
    ids = ["order/" + "line/" * 80 + end for end in ("7", "8")]
    for run_id in ids:
        await client.submit("ship", {"number": 1, "part": 2}, run_id=run_id)
    async with serving(make_app()) as at, looking(browser) as it:
        await it.page.goto(f"{at}/ui/runs")
        for run_id in ids:
            link = it.page.locator("a.row", has_text=f"line/{run_id[-1]}")
            await expect(link).to_have_count(1)
        await link.click()
        await expect(it.page.locator("#main")).to_contain_text(ids[-1])
        assert it.wrong == []


@pytest.mark.parametrize("width", [760, 901, 1000, 1240, 1280])
async def test_nothing_is_cut_off_in_half_a_window(
    browser: Browser, make_app: Callable[..., App], client: WorkflowClient, worker: Worker, width: int
) -> None:
    told = await scene.fill(client)
    await scene.steer(client)
    found: list[str] = []
    async with serving(make_app()) as at, looking(browser, width) as it:
        for path in ("", "/gates", "/runs", "/buffers", "/workers", "/workflows", f"/runs/{told['parent']}"):
            await it.page.goto(f"{at}/ui{path}")
            await expect(it.page.locator(".panel").first).to_be_visible()
            cut = await it.page.evaluate(
                "[...document.querySelectorAll('.panel')].filter(e => e.scrollWidth > e.clientWidth)"
                ".map(e => `${e.textContent.slice(0, 40)}: ${e.scrollWidth} in ${e.clientWidth} px`)"
            )
            found += [f"{path or '/'}: {each}" for each in cut]
    assert found == []


async def test_a_browser_that_keeps_nothing_shows_the_page_all_the_same(
    browser: Browser, make_app: Callable[..., App]
) -> None:
    async with serving(make_app()) as at, looking(browser) as it:
        await it.page.add_init_script(
            "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('', 'SecurityError'); }})"
        )
        await it.page.goto(f"{at}/ui")
        await expect(it.page.get_by_role("heading", name="Overview")).to_be_visible()
        await it.page.keyboard.press("t")
        await expect(it.page.locator("html")).to_have_attribute("data-theme", "dark")
        assert it.wrong == []

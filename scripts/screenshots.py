"""Pictures of every view of the page: light, dark, and on a phone. `python scripts/screenshots.py [folder] [view …]`"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from urllib.parse import quote

import uvicorn
from playwright.async_api import Browser, async_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyrula.store.open import open_store
from pyrula.web import create_app
from pyrula.workflows import Worker, WorkflowClient
from tests.web import scene
from tests.web.chromium import launched
from tests.web.until import until

_CHARTS = ("overview", "gates", "gate-limit")
LOOKS = {"light": (1280, 860, "light"), "dark": (1280, 860, "dark"), "phone": (390, 844, "light")}


def views(told: dict[str, str]) -> dict[str, str]:
    """Name → path of each view."""
    runs = {name: f"/ui/runs/{quote(run_id, safe='')}" for name, run_id in told.items()}
    return {
        "overview": "/ui",
        "gates": "/ui/gates",
        "gate-limit": "/ui/gates/sync_account.limit?key=acme",
        "gate-rate": "/ui/gates/mail.rate?key=" + quote("user-1@example.org"),
        "runs": "/ui/runs",
        "run-waiting": runs["waiter"],
        "run-parent": runs["parent"],
        "run-failed": runs["failed"],
        "run-hostile": runs["hostile"],
        "buffers": "/ui/buffers",
        "schedules": "/ui/schedules",
        "workers": "/ui/workers",
        "workflows": "/ui/workflows",
    }


async def main(folder: Path, wanted: list[str]) -> None:
    """Make them: all of them, or those of the views that are wanted."""
    store = open_store("sqlite://")
    client = WorkflowClient(store, scene.registry)
    app = create_app(store, registry=scene.registry)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=2))
    async with store:
        limits = {"os": {"mem": 1}, "worker": {"workflow": (5, 50)}}
        async with (
            Worker(store, scene.registry, "worker-1", max_concurrent_runs=40),
            Worker(store, [scene.sync_account], "worker-2", registry=scene.registry, limits=limits),
        ):
            told = await scene.fill(client)
            await asyncio.sleep(1)
            await scene.steer(client)
            serving, busy = asyncio.ensure_future(server.serve()), asyncio.ensure_future(scene.go_on(client))
            await until(lambda: server.started)
            port = server.servers[0].sockets[0].getsockname()[1]
            shown = {name: path for name, path in views(told).items() if not wanted or name in wanted}
            async with async_playwright() as playwright:
                browser = await launched(playwright)
                for look, (width, height, scheme) in LOOKS.items():
                    await _pictures(
                        browser, f"http://localhost:{port}", shown, folder, look, width, height, scheme
                    )
                await browser.close()
            busy.cancel()
            app.stop()
            server.should_exit = True
            await serving


async def _pictures(
    browser: Browser,
    at: str,
    paths: dict[str, str],
    folder: Path,
    look: str,
    width: int,
    height: int,
    scheme: str,
) -> None:
    context = await browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]  # one of the literals, in a table
    page = await context.new_page()
    page.on(
        "console",
        lambda message: (
            print(f"{look}: {message.type}: {message.text}") if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: print(f"{look}: {error}"))
    for name, path in paths.items():
        await page.goto(at + path)
        await page.wait_for_selector("h1")
        await page.wait_for_timeout(9000 if name in _CHARTS and look != "phone" else 1500)
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            print(f"{look} {name}: scrolls {wide} px sideways")
        await page.screenshot(path=folder / f"{name}-{look}.png", full_page=True)
        if name == "gate-limit":
            await page.get_by_role("button", name="Override…").click()
            await page.screenshot(path=folder / f"dialog-{look}.png")
    await context.close()


if __name__ == "__main__":
    made = Path(sys.argv[1] if len(sys.argv) > 1 else "build/screenshots")
    made.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(made, sys.argv[2:]))

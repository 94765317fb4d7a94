"""Journeys through the page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from hopwire.web.page_server import page_app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium, then make test again"),
]
WIDTHS = {"desk": 1280, "tablet": 800, "phone": 390}
ADDRESSES = (
    "/", "/flows", "/flow/order-001", "/flow/order-001?view=sequence", "/flow/order-001?view=table", "/links",
    "/flow/order-001/hop/0", "/links?view=matrix", "/contracts", "/clocks", "/security", "/quarantine",
    "/compare", "/sql",
)  # fmt: skip


@pytest.fixture(scope="module")
def served(demo_run: tuple[dict[str, Any], Path]) -> Iterator[str]:
    """The address of a page that is served as `hopwire ui` serves it."""
    app = page_app(demo_run[1] / "lake", ("127.0.0.1",))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none"))
    begun = threading.Event()
    notify = server.startup

    async def startup(*given: Any, **named: Any) -> None:
        await notify(*given, **named)
        begun.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run)
    thread.start()
    assert begun.wait(30)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")  # Playwright has a loop of its own in this thread: no other test may run meanwhile
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser, served: str) -> Iterator[BrowserContext]:
    """A window in which every request to another host and every complaint of the browser fails the test."""
    context = browser.new_context(base_url=served, viewport={"width": 1280, "height": 900})
    wrong: list[str] = []
    context.on("request", lambda request: None if request.url.startswith(served) else wrong.append(request.url))
    context.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    yield context
    context.close()
    assert [each for each in wrong if not each.startswith("data:")] == []


@pytest.fixture
def tab(context: BrowserContext) -> Page:
    return context.new_page()


def shown(page: Page) -> str:
    return page.locator("main").inner_text()


def test_from_the_overview_to_the_bytes_of_a_lost_message_by_clicks(tab: Page) -> None:
    tab.goto("/")
    tab.locator("a.card", has_text="lost").click()
    tab.wait_for_url("**/flows?outcome=lost")
    tab.locator("tr[data-row] a", has_text="dropped-001").click()
    assert "LOST: left shop, never came to stock" in shown(tab)
    tab.locator(".evidence a").first.click()
    tab.wait_for_url("**/flow/dropped-001/hop/*")
    assert "as it left: shop" in shown(tab)
    assert "as it arrived" not in shown(tab)


def test_everything_can_be_reached_by_keys(tab: Page) -> None:
    tab.goto("/")
    tab.keyboard.press("f")
    tab.wait_for_url("**/flows")
    tab.keyboard.press("]")
    tab.wait_for_url("**/flows?page=2")
    tab.keyboard.press("[")
    tab.wait_for_url("**/flows")
    tab.keyboard.press("/")
    tab.keyboard.type("order-00")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**q=order-00**")
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    tab.keyboard.press("k")
    first = tab.locator("tr[data-row] a").first.inner_text()
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/flow/{first}")
    tab.keyboard.press("u")
    tab.wait_for_url("**/flows")
    tab.keyboard.press("o")
    tab.wait_for_url("**/")


def test_brushing_the_chart_narrows_the_flows_and_a_refresh_keeps_them(tab: Page) -> None:
    tab.goto("/flows")
    whole = int(shown(tab).split()[0].replace(",", ""))
    box = tab.locator("svg.chart").bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + box["width"] * 0.06, box["y"] + 60)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 60, steps=5)
    tab.mouse.up()
    tab.wait_for_url("**since=*until=*")
    part = int(shown(tab).split()[0].replace(",", ""))
    assert 0 < part < whole
    before = shown(tab)
    tab.reload()
    assert shown(tab) == before


def test_bytes_light_up_with_their_field(tab: Page) -> None:
    tab.goto("/flow/order-001/hop/0")
    row = tab.locator("tr[data-field]", has_text="identity").filter(has_text="shop.order").first
    row.hover()
    lit = "".join(tab.locator(".dump b.lit").all_inner_texts())
    assert b"shop.order".hex() in lit


def test_two_flows_are_compared_by_a_form(tab: Page) -> None:
    tab.goto("/flow/order-001")
    tab.locator(".tabs a", has_text="compare").click()
    tab.locator("input[name=b]").fill("dropped-001")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**b=dropped-001**")
    assert "only in order-001" in shown(tab)


def test_sql_is_answered_and_a_mistake_is_said(tab: Page) -> None:
    tab.goto("/sql")
    tab.locator("textarea").fill("select count(*) as lost from requests where outcome = 'lost'")
    tab.locator("button").click()
    tab.wait_for_url("**q=select**")
    assert "1 rows" in shown(tab)
    tab.locator("textarea").fill("select nothing")
    tab.locator("button").click()
    tab.locator("pre.bad").wait_for()


def test_pages_work_without_scripts(browser: Browser, served: str) -> None:
    context = browser.new_context(base_url=served, java_script_enabled=False)
    page = context.new_page()
    page.goto("/")
    page.locator("a.bucket").first.click()
    page.wait_for_url("**since=**")
    page.locator("tr[data-row] a").first.click()
    page.locator(".waterfall a").first.click()
    page.wait_for_url("**/hop/**")
    context.close()


@pytest.mark.parametrize("name", list(WIDTHS))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_its_width_in_light_and_dark(
    browser: Browser, served: str, name: str, scheme: Any, tmp_path: Path
) -> None:
    context = browser.new_context(base_url=served, viewport={"width": WIDTHS[name], "height": 800}, color_scheme=scheme)
    page = context.new_page()
    for number, address in enumerate(ADDRESSES):
        page.goto(address)
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{address} is {wide} pixels too wide"
        page.screenshot(path=tmp_path / f"{number}.png", full_page=True)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    context.close()


def test_print_leaves_out_what_one_cannot_press(tab: Page) -> None:
    tab.goto("/flow/order-001")
    tab.emulate_media(media="print")
    assert not tab.locator("header nav").is_visible()
    assert tab.locator(".waterfall").is_visible()

"""Journeys through the page in a real browser: Debian's Chromium, driven by Playwright.

`pytest tests/web/test_browser.py -k pictures --pictures docs/pictures` makes the pictures of the documentation.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import count, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from starlette.applications import Starlette

from hopwire.capture import CaptureWriter
from hopwire.model.sighting import Direction
from hopwire.web.live import Live
from hopwire.web.page_server import MENU, page_app
from tests.web.conftest import MARKUP
from tests.web.test_live import PICTURE, sighting

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="NOT INSTALLED: chromium, in which the page is tried"),
]
WIDTHS = {"desk": 1600, "tablet": 1024, "phone": 390}
SCHEMES = ("light", "dark")
SCREENS = (
    ("dark", "desk"),
    ("light", "tablet"),
    ("light", "phone"),
)  # each width; `make long` has each in both schemes
ADDRESSES = {
    "overview": "/", "flows": "/flows", "flow": "/flow/order-001?clock=both", "lost": "/flow/dropped-001?view=sequence",
    "steps": "/flow/order-001?view=table", "bytes": "/flow/order-001/hop/0", "links": "/links",
    "matrix": "/links?view=matrix", "contracts": "/contracts", "nodes": "/clocks", "security": "/security",
    "quarantine": "/quarantine", "compare": "/compare?a=order-001&b=dropped-001", "versions": "/versions",
    "sql": "/sql?q=select+outcome,+count(*)+from+requests+group+by+1", "live": "/live",
}  # fmt: skip
BEYOND = """() => [...document.querySelectorAll("main td, main svg, main pre")].filter(each => {
    const box = each.getBoundingClientRect();
    return box.width && box.right > window.innerWidth + 1;
    }).map(each => each.tagName + ": " + each.textContent.slice(0, 40))"""
PICTURED = ("overview", "lost", "bytes", "links")  # in docs/howto/page.md


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Serve a page as `hopwire ui` serves it; give its address."""
    settings = uvicorn.Config(app, port=0, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(settings)
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


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("captures")


@pytest.fixture(scope="module")
def served(demo_run: tuple[dict[str, Any], Path], captures: Path) -> Iterator[str]:
    live = Live({"tcp://127.0.0.1:7400": _pictures}, captures)
    with serving(page_app(demo_run[1] / "lake", ("127.0.0.1",), live=live)) as address:
        yield address


async def _pictures() -> AsyncIterator[dict[str, Any]]:
    """A node that says about the same of itself again and again."""
    member = PICTURE["members"][0]
    members = [
        {**member, "node": name, "uri": f"tcp://10.0.0.{number}:7400", "is_silent": name == "billing",
         "silent_seconds": 4.2 if name == "billing" else 0.1 * number}
        for number, name in enumerate(("shop", "stock", "billing", "ledger"))
    ]  # fmt: skip
    for number in count():
        rates = {name: rate * (100 + number * 37 % 41) for name, rate in PICTURE["rates"].items()}
        yield {**PICTURE, "uri": "tcp://10.0.0.9:7400", "members": members, "rates": rates}
        await asyncio.sleep(0.2)


@pytest.fixture(scope="module")  # Playwright has a loop of its own in this thread: no other test may run meanwhile
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # late: each process of the tests reads this file

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
    tab.keyboard.press("?")
    assert tab.locator(".keys.lit").count() == 1


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


def test_a_long_flow_comes_window_by_window_as_its_reader_scrolls(tab: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.web.flow_pages.MAX_STEPS", 2)
    tab.goto("/flow/insisted-001")
    tab.locator("[data-end]", has_text="This was the last step.").wait_for(state="attached")
    shown_steps = tab.locator("[data-windows] a.step").count()
    assert tab.locator("[data-windows] > div").count() in (2, 3, 4)
    assert shown_steps > 2
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    assert tab.locator("a.step.at").count() == 1
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/hop/*")


def test_sql_is_answered_and_a_mistake_is_said(tab: Page) -> None:
    tab.goto("/sql")
    tab.locator("textarea").fill("select count(*) as lost from requests where outcome = 'lost'")
    tab.locator("button").click()
    tab.wait_for_url("**q=select**")
    assert "1 row." in shown(tab)
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


@pytest.mark.parametrize(("scheme", "name"), [
    *SCREENS, *(pytest.param(*each, marks=pytest.mark.long) for each in product(SCHEMES, WIDTHS) if each not in SCREENS)
])  # fmt: skip
def test_every_page_fits_its_width_in_light_and_dark(browser: Browser, served: str, name: str, scheme: Any) -> None:
    context = browser.new_context(base_url=served, viewport={"width": WIDTHS[name], "height": 800}, color_scheme=scheme)
    page = context.new_page()
    for address in ADDRESSES.values():
        page.goto(address)
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{address} is {wide} pixels too wide"
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    context.close()


def test_print_leaves_out_what_one_cannot_press(tab: Page) -> None:
    tab.goto("/flow/order-001")
    tab.emulate_media(media="print")
    assert not tab.locator("header nav").is_visible()
    assert tab.locator(".waterfall").is_visible()
    tab.set_viewport_size({"width": 700, "height": 900})  # about the width of a sheet of paper
    for address in ADDRESSES.values():
        tab.goto(address)
        assert not tab.locator("form").first.is_visible(), address
        cut = tab.evaluate(BEYOND)
        assert cut == [], f"{address} is cut off on paper: {cut}"


def test_pictures_of_the_documentation_are_made(
    browser: Browser, served: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = request.config.getoption("--pictures") or tmp_path
    page = browser.new_page(base_url=served, viewport={"width": 1120, "height": 700})
    for name in PICTURED:
        page.goto(ADDRESSES[name])
        page.screenshot(path=place / f"{name}.png")
    page.close()
    guide = (ROOT / "docs" / "howto" / "page.md").read_text(encoding="utf-8")
    assert re.findall(r"\(\.\./pictures/(\w+)\.png\)", guide) == list(PICTURED)


def test_the_guide_names_every_view_and_its_addresses_lead_somewhere(tab: Page) -> None:
    guide = (ROOT / "docs" / "howto" / "page.md").read_text(encoding="utf-8")
    for address, word, what in MENU:
        assert f"| {word} | `{address}` | {what}" in guide
    for address in re.findall(r"`(/[^`]*)`", guide):
        assert tab.request.get(address).ok, address


def write(captures: Path, numbers: range) -> None:
    """Capture some messages, as a node does."""
    now = time.time_ns()
    with CaptureWriter(captures, b"till-1", incarnation=now, node_name="till") as writer:
        for number in numbers:
            one = sighting(number)
            writer.offer(now + number, Direction.IN, one.peer, one.frames)


def test_messages_appear_as_they_are_captured_and_wait_while_the_page_is_paused(tab: Page, captures: Path) -> None:
    tab.goto("/live?contract=nobody.says")
    assert tab.locator(".nothing-yet").is_visible()
    tab.goto("/live?contract=shop.order")
    tab.locator("#live-state", has_text="live").wait_for()
    write(captures, range(1_000, 1_003))
    tab.locator("#tail tr", has_text="order-1002").wait_for()
    assert not tab.locator(".nothing-yet").is_visible()
    tab.keyboard.press("p")
    assert tab.locator("#live-state").inner_text() == "paused"
    write(captures, range(2_000, 2_003))
    tab.keyboard.press("p")
    tab.locator("#tail tr", has_text="order-2002").wait_for()
    assert [text.split("\t")[5] for text in tab.locator("#tail tr").all_inner_texts()[:3]] == [
        f"order-{number}" for number in (2_002, 2_001, 2_000)
    ]
    tab.locator("#nodes", has_text="no_route 7").wait_for()


def test_what_came_from_the_wire_is_text_and_never_a_part_of_the_page(browser: Browser, versioned_lake: Path) -> None:
    with serving(page_app(versioned_lake, ("127.0.0.1",))) as address:
        context = browser.new_context(base_url=address)
        elsewhere: list[str] = []
        context.on("request", lambda request: elsewhere.append(request.url))
        page = context.new_page()
        for path in ("/flows?q=order-001", "/flow/order-001", "/flow/order-001/hop/0", "/versions?a=1&b=2",
                     "/sql?q=select+frames+from+sightings+where+true+order+by+len(frames[3])+limit+9"):  # fmt: skip
            page.goto(path)
            assert page.evaluate("typeof hacked") == "undefined"
        page.goto("/flow/order-001/hop/0")
        assert MARKUP[:20] in page.locator("main").inner_text()
        assert page.locator("main script, main img").count() == 0
        assert {url for url in elsewhere if not url.startswith((address, "data:"))} == set()
        context.close()


def test_a_pinned_page_stays_at_its_version_by_clicks(browser: Browser, versioned_lake: Path) -> None:
    with serving(page_app(versioned_lake, ("127.0.0.1",))) as address:
        context = browser.new_context(base_url=address)
        page = context.new_page()
        page.goto("/versions?a=1&b=2")
        page.locator("a", has_text="step by step").click()
        page.wait_for_url("**va=1&vb=2")
        page.goto("/?v=1")
        page.locator("a.card", has_text="answered").click()
        page.wait_for_url("**v=1**")
        page.locator("input[name=q]").fill("order-002")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=order-002**")
        assert "v=1" in page.url
        page.locator("tr[data-row] a").first.click()
        page.wait_for_url("**/flow/order-002?v=1")
        assert page.locator("h1 .outcome-answered").count() == 1
        page.locator(".notice a", has_text="Show the newest").click()
        page.wait_for_url("**/flow/order-002")
        assert page.locator("h1 .outcome-lost").count() == 1
        context.close()

"""The page of what happens now: nodes and the tail of messages, as a page and as events that keep the page new.

The server writes the same pieces of HTML for both. A reader who has paused goes on where it stopped, and is told how
many messages came in between that nobody can show any more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment
from markupsafe import Markup

from hopwire.errors import SettingsError
from hopwire.web.flow_search import MAX_LENGTH, number_from
from hopwire.web.live import Live
from hopwire.web.page_content import PageContent
from hopwire.web.svg import drawing, tag, titled

__all__ = ["events", "live", "rate_line"]

SHOWN_ROWS = 200  # of the tail on a page
MAX_ROWS = 100  # in one event; more than that in half a second nobody reads
EVERY_SECONDS = 0.5
STILL_HERE = 30  # rounds without news after which a word is sent, so that both sides notice when the other is gone
MAX_READERS = 32
UNKNOWN: dict[str, Any] = {"waiting": False, "trouble": "", "node": "", "name": "", "uri": "", "rates": {}, "gone": ()}
WIDTH, HEIGHT = 240, 36


class TailFilter(NamedTuple):
    """Which messages of the tail are shown; the names are those in the address."""

    contract: str = ""
    node: str = ""
    flow: str = ""
    trouble: str = ""  # `1`: only what went wrong
    all: str = ""  # `1`: also what nodes say among themselves

    def has(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a row is shown."""
        return (
            (bool(self.all) or not row["is_service"])
            and (not self.trouble or bool(row["trouble"]))
            and self.contract in row["contract"]
            and (not self.node or self.node in (row["node"], row["peer"]))
            and row["flow"].startswith(self.flow)
        )


def _filter_from(query: Mapping[str, str]) -> TailFilter:
    given = {name: query.get(name, "").strip() for name in TailFilter._fields}
    for name, value in given.items():
        if len(value) > MAX_LENGTH:
            raise SettingsError(f"{name}: is longer than {MAX_LENGTH} characters")
    return TailFilter(**given)


def live(live: Live, query: Mapping[str, str], has_lake: bool) -> PageContent:
    """Nodes as they do, and the newest messages."""
    wanted = _filter_from(query)
    newest = live.ring.after(0, SHOWN_ROWS, wanted.has)
    values = {
        "nodes": _nodes(live),
        "rows": newest.rows[::-1],
        "next": newest.next,
        "captures": str(live.captures) if live.captures is not None else "",
        "trouble": live.tail.trouble if live.tail is not None else "",
    }
    helpers = {"wanted": wanted, "has_lake": has_lake, "lines": _lines(live), "limit": SHOWN_ROWS}
    return PageContent("live.html", "Live", values, {}, helpers)


def _nodes(live: Live) -> list[dict[str, Any]]:
    return [{**UNKNOWN, "address": address, **live.pictures.get(address, {"waiting": True})} for address in live.looks]


def _lines(live: Live) -> dict[str, dict[str, Markup]]:
    return {
        address: {name: rate_line([each[name] for each in history], name) for name in ("messages_in", "messages_out")}
        for address, history in live.history.items()
    }


def rate_line(rates: Sequence[float], name: str) -> Markup:
    """Draw rates over time as one small line."""
    most = max([*rates, 1.0])
    step = WIDTH / max(len(rates) - 1, 1)
    points = " ".join(f"{at * step:.1f},{HEIGHT - 2 - (HEIGHT - 6) * rate / most:.1f}" for at, rate in enumerate(rates))
    words = name.replace("_", " ")
    parts: Iterable[Markup] = [titled(f"{words}, at most {most:,.0f} a second"), tag("polyline", points=points)]
    return drawing(WIDTH, HEIGHT, parts, f"{words} a second", class_="rate")


async def events(live: Live, query: Mapping[str, str], environment: Environment, has_lake: bool) -> AsyncIterator[str]:
    """Give server-sent events: `nodes` with new pictures, `messages` with new rows."""
    if live.readers >= MAX_READERS:
        yield _event("refused", {"why": f"{MAX_READERS} others are reading"})
        return
    live.readers += 1
    try:
        async for each in _news(live, query, environment, has_lake):
            yield each
    finally:
        live.readers -= 1


async def _news(live: Live, query: Mapping[str, str], environment: Environment, has_lake: bool) -> AsyncIterator[str]:
    try:
        wanted = _filter_from(query)
        at = number_from(query["after"], "after") if query.get("after") else live.ring.total
    except SettingsError as error:
        yield _event("refused", {"why": str(error)})
        return
    seen, quiet = -1, 0
    while True:
        quiet += 1
        if live.changes != seen:
            seen, quiet = live.changes, 0
            html = environment.get_template("live_nodes.html").render(nodes=_nodes(live), lines=_lines(live))
            yield _event("nodes", {"html": html})
        found = live.ring.after(at, MAX_ROWS, wanted.has)
        at = found.next
        if found.rows or found.missed:
            quiet = 0
            html = environment.get_template("live_rows.html").render(rows=found.rows[::-1], has_lake=has_lake)
            yield _event(
                "messages", {"html": html, "count": len(found.rows), "missed": found.missed, "next": found.next}
            )
        if quiet >= STILL_HERE:
            quiet = 0
            yield ": still here\n\n"
        await asyncio.sleep(EVERY_SECONDS)


def _event(name: str, data: Mapping[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"

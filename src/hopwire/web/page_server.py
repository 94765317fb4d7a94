"""The server of the page: addresses to pages, pages to HTML, JSON or files, errors to one line.

Each page `/flows` has a twin `/flows.json` with the same values. A page looks at the newest version of the lake, or at
the version that its address names (`?v=7`): then all its links stay at that version. Without a lake there is only what
is live.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from importlib import resources
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Route

from hopwire.errors import HopwireError, LakeError, SettingsError
from hopwire.places import Place, named_place
from hopwire.report.flow_tree import took
from hopwire.report.jsonable import jsonable
from hopwire.report.words import noun_for, printable, text_or_hex
from hopwire.web import flow_pages, lake_pages, live_pages, page_files, version_pages
from hopwire.web.flow_search import SEARCH_NAMES, number_from
from hopwire.web.guard import Guard
from hopwire.web.lake_views import LakeViews
from hopwire.web.live import Live
from hopwire.web.page_content import Missing, PageContent, has_version
from hopwire.web.snapshots import Snapshots

__all__ = ["page_app"]

MENU = (
    # address       word            what it shows
    ("/",           "Overview",     "what became of everything, over time"),
    ("/flows",      "Flows",        "every flow, with its outcome"),
    ("/links",      "Links",        "who sent to whom"),
    ("/contracts",  "Contracts",    "every kind of message"),
    ("/clocks",     "Nodes",        "lives and clocks"),
    ("/security",   "Security",     "signatures and domains"),
    ("/quarantine", "Quarantine",   "what is no message"),
    ("/compare",    "Compare",      "two flows"),
    ("/versions",   "Versions",     "the lake as it was, and what has changed"),
    ("/sql",        "SQL",          "ask yourself"),
    ("/live",       "Live",         "nodes and messages at this moment"),
)  # fmt: skip
STATIC = {"style.css": "text/css", "keys.js": "text/javascript", "live.js": "text/javascript",
          "windows.js": "text/javascript"}  # fmt: skip
LINK = re.compile(r'(<a [^>]*?href=")(/[^"]*)(")')
FORM = re.compile(r'<form [^>]*action="/[^>]*>')
BREAKS = re.compile(r"[._]+(?=\w)")  # in a name
AT_A_VERSION = re.compile(r"[?&;]v=\d")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks for: a version of the lake, and the values of the address."""

    snapshots: Snapshots
    number: int | None
    query: Mapping[str, str]
    path: Mapping[str, Any]
    shows_bodies: bool

    @property
    def views(self) -> LakeViews:
        return self.snapshots.views(self.number)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _PageMaker(Generic[T]):
    """How a page or a file is made, and the names that its address may have beside the version."""

    make: Callable[[_Asked], T]
    names: Sequence[str] = ()


PAGES: dict[str, _PageMaker[PageContent]] = {
    "/": _PageMaker(lambda asked: lake_pages.overview(asked.views, asked.query), SEARCH_NAMES),
    "/flows": _PageMaker(lambda asked: lake_pages.flows(asked.views, asked.query), SEARCH_NAMES),
    "/flow/{id}": _PageMaker(
        lambda asked: flow_pages.flow(asked.views, asked.path["id"], asked.query), ("view", "clock", "first")
    ),
    "/flow/{id}/hop/{number}": _PageMaker(
        lambda asked: flow_pages.hop(asked.views, asked.path["id"], asked.path["number"], asked.shows_bodies)
    ),
    "/compare": _PageMaker(
        lambda asked: flow_pages.compare(asked.views, asked.query, asked.snapshots.views), ("a", "b", "va", "vb")
    ),
    "/links": _PageMaker(lambda asked: lake_pages.links(asked.views, asked.query), ("contract", "view", "all")),
    "/contracts": _PageMaker(lambda asked: lake_pages.contracts(asked.views)),
    "/clocks": _PageMaker(lambda asked: lake_pages.clocks(asked.views)),
    "/security": _PageMaker(lambda asked: lake_pages.security(asked.views, asked.query), ("finding",)),
    "/quarantine": _PageMaker(
        lambda asked: lake_pages.quarantine(asked.views, asked.query, asked.shows_bodies), ("reason", "page")
    ),
    "/versions": _PageMaker(lambda asked: version_pages.versions(asked.snapshots, asked.query), ("a", "b")),
    "/sql": _PageMaker(lambda asked: lake_pages.sql(asked.views, _sql_query(asked)), ("q",)),
}
FILES: dict[str, _PageMaker[page_files.PageFile]] = {
    "/export/{format}": _PageMaker(
        lambda asked: page_files.export_file(asked.views, asked.path["format"], asked.query, asked.shows_bodies),
        ("flow", *SEARCH_NAMES),
    ),
    "/flows.parquet": _PageMaker(lambda asked: page_files.flows_file(asked.views, asked.query), SEARCH_NAMES),
    "/sql.parquet": _PageMaker(lambda asked: page_files.sql_file(asked.views, _sql_query(asked)), ("q",)),
}
VERSION = "v"  # the version of the lake, in the address of every page
TOKEN = "token"  # noqa: S105 - its name in an address; who needs it is not asked by the page any more


def _sql_query(asked: _Asked) -> Mapping[str, str]:
    if not asked.shows_bodies:
        raise SettingsError("this page shows no bodies, and SQL could read them: it is off")
    return asked.query


def page_app(
    lake: Place | str | None,
    hosts: tuple[str, ...],
    token: str = "",
    *,
    live: Live | None = None,
    shows_bodies: bool = True,
) -> Starlette:
    """Give the page of a lake, of what is live, or of both, as an ASGI application."""
    environment = Environment(
        loader=PackageLoader("hopwire.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    site = _Site(environment, named_place(lake) if lake is not None else None, live, shows_bodies)
    return Starlette(
        routes=site.routes(),
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={404: site.nothing_here},
        lifespan=site.lifespan,
    )


class _Site:
    """All pages: requests to answers."""

    def __init__(self, environment: Environment, lake: Place | None, live: Live | None, shows_bodies: bool) -> None:
        self.environment, self.live, self.shows_bodies = environment, live, shows_bodies
        self.snapshots = Snapshots(lake) if lake is not None else None
        self.lake = str(lake) if lake is not None else ""
        hidden = {"/live"} if live is None else set()
        hidden |= set() if shows_bodies else {"/sql"}
        self.menu = [each for each in MENU if each[0] not in hidden and (lake is not None or each[0] == "/live")]

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Watch what is live as long as the page is served; then close the lake."""
        try:
            async with self.live.watching() if self.live is not None else nullcontext():
                yield
        finally:
            if self.snapshots is not None:
                self.snapshots.close()

    def routes(self) -> list[BaseRoute]:
        """Give the addresses of the site."""
        found: list[BaseRoute] = [Route("/static/{name}", _static)]
        if self.live is not None:
            found += [
                Route("/live/events", self._events),
                Route("/live.json", self._live_page),
                Route("/live", self._live_page),
            ]
        if self.snapshots is None:
            return [*found, Route("/", lambda request: RedirectResponse("/live"))]
        found.append(Route("/version.json", self._version))
        found += [Route(path, self._file(made)) for path, made in FILES.items()]
        for path, made in PAGES.items():
            found.append(Route("/overview.json" if path == "/" else f"{path}.json", self._page(made, is_json=True)))
            found.append(Route(path, self._page(made, is_json=False)))
        return found

    # -- pages of the lake

    def _asked(self, request: Request) -> _Asked:
        assert self.snapshots is not None
        given = request.query_params.get(VERSION, "")
        number = number_from(given, VERSION, 1) if given else None
        return _Asked(self.snapshots, number, request.query_params, request.path_params, self.shows_bodies)

    def _page(self, made: _PageMaker[PageContent], *, is_json: bool) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            _check_names(request, (*made.names, VERSION))
            asked = self._asked(request)
            content = made.make(asked)
            return _json(content.values) if is_json else self._html(content, request, asked.number)

        return self._careful(answer, is_json)

    def _file(self, made: _PageMaker[page_files.PageFile]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            _check_names(request, (*made.names, VERSION))
            name, media_type, parts = made.make(self._asked(request))
            headers = {"content-disposition": f'attachment; filename="{name}"'}
            return StreamingResponse(parts, media_type=media_type, headers=headers)

        return self._careful(answer, False)

    def _careful(self, answer: Callable[[Request], Response], is_json: bool) -> Callable[[Request], Response]:
        """An answer in which what makes no sense is one line."""

        def said(request: Request) -> Response:
            try:
                return answer(request)
            except Missing as missing:
                return self._said(str(missing), 404, request, is_json)
            except (HopwireError, LakeError) as error:
                return self._said(str(error), 400, request, is_json)

        return said

    def _version(self, request: Request) -> Response:
        assert self.snapshots is not None
        return JSONResponse({"newest": self.snapshots.newest()})

    # -- what is live

    def _live_page(self, request: Request) -> Response:
        assert self.live is not None
        is_json = request.url.path.endswith(".json")

        def answer(request: Request) -> Response:
            assert self.live is not None
            _check_names(request, live_pages.TailFilter._fields)
            content = live_pages.live(self.live, request.query_params, self.snapshots is not None)
            return _json(content.values) if is_json else self._html(content, request, None)

        return self._careful(answer, is_json)(request)

    async def _events(self, request: Request) -> Response:
        assert self.live is not None
        events = live_pages.events(self.live, request.query_params, self.environment, self.snapshots is not None)
        return StreamingResponse(events, media_type="text/event-stream")

    # -- answers

    async def nothing_here(self, request: Request, error: Exception) -> Response:
        """Answer a request for an address that is no page."""
        return self._said(
            f"there is no page {request.url.path!r:.120}", 404, request, request.url.path.endswith(".json")
        )

    def _said(self, text: str, status: int, request: Request, is_json: bool) -> Response:
        if is_json:
            return JSONResponse({"error": printable(text)}, status)
        return self._html(PageContent("said.html", "hopwire", {"text": text}), request, None, status)

    def _html(self, content: PageContent, request: Request, number: int | None, status: int = 200) -> Response:
        newest = self.snapshots.newest() if self.snapshots is not None else 0
        others = [(name, value) for name, value in request.query_params.multi_items() if name != VERSION]
        path = "/" + request.url.path.lstrip("/")  # what begins with two slashes would lead to another host
        twin = "/overview" if path == "/" else path
        text = self.environment.get_template(content.template).render(
            **content.values,
            **content.helpers,
            drawings=content.drawings,
            title=content.title,
            menu=self.menu,
            path=path,
            query=request.url.query,
            lake=self.lake,
            lake_name="/".join(str(self.lake).rstrip("/").split("/")[-2:]),
            version=number or newest,
            newest=newest,
            is_pinned=number is not None,
            is_versioned=has_version(path),
            unpinned=path + (f"?{urlencode(others)}" if others else ""),
            pinned_at=f"{path}?{urlencode([*others, (VERSION, newest)])}",
            twin=f"{twin}.json" + (f"?{request.url.query}" if request.url.query else ""),
            shows_bodies=self.shows_bodies,
        )
        return HTMLResponse(text if number is None else _pinned(text, number), status)


def _check_names(request: Request, known: Sequence[str]) -> None:
    """Refuse an address that says something that the page would not heed, or says it twice."""
    given = [name for name, _ in request.query_params.multi_items() if name != TOKEN]
    for place, name in enumerate(given):
        if name not in known:
            raise SettingsError(f"the address: found {name!r:.40}, expected one of {', '.join(known)}")
        if name in given[:place]:
            raise SettingsError(f"the address: found {name!r:.40} twice, expected it once")


def _pinned(html: str, number: int) -> str:
    """Let every link and form of a page stay at a version of the lake.

    Only our own templates and drawings write such tags: what came from the wire has its quotes escaped.
    """

    def at_version(found: re.Match[str]) -> str:
        begin, address, end = found.groups()
        if "data-free" in begin or AT_A_VERSION.search(address) or not has_version(address):
            return found[0]
        return f"{begin}{address}{'&amp;' if '?' in address else '?'}v={number}{end}"

    return FORM.sub(rf'\g<0><input type="hidden" name="v" value="{number}">', LINK.sub(at_version, html))


def _json(values: dict[str, Any]) -> Response:
    text = json.dumps(jsonable(values, text_or_hex), default=str)
    return Response(text, media_type="application/json")


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        return PlainTextResponse("nothing here\n", 404)
    data = resources.files("hopwire.web").joinpath("static", name).read_bytes()
    return Response(data, media_type=STATIC[name])


def _cell(value: Any) -> str:
    """A value of SQL in the cell of a table."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return text_or_hex(value)
    text = str(jsonable(value, text_or_hex)) if isinstance(value, list | dict) else str(value)
    return text if len(text) <= 300 else text[:297] + "..."


def _counted(value: int | None, noun: str, nouns: str = "") -> str:
    """Give a count in groups of three digits, with its noun: 1,234 flows."""
    return f"{_grouped(value)} {noun_for(value or 0, noun, nouns)}"


def _grouped(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _breakable(name: str) -> Markup:
    """Give a name that a narrow column breaks behind its dots and underscores, and not within a word."""
    return Markup(BREAKS.sub(r"\g<0><wbr>", str(escape(name))))  # noqa: S704 - it is escaped


FILTERS = {
    "took": took,
    "cell": _cell,
    "grouped": _grouped,
    "counted": _counted,
    "breakable": _breakable,
}  # of all templates

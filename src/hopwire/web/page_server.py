"""The server of the page: addresses to pages, pages to HTML or JSON, errors to one line.

Each page `/flows` has a twin `/flows.json` with the same values. A new build of the lake makes new views; a page that
is being made keeps the views that it began with.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hopwire.errors import HopwireError, LakeError
from hopwire.lake.store import read_manifest
from hopwire.report.flow_tree import took
from hopwire.report.jsonable import jsonable
from hopwire.report.words import printable, text_or_hex
from hopwire.web import flow_pages, lake_pages
from hopwire.web.guard import Guard
from hopwire.web.lake_views import LakeViews
from hopwire.web.page_content import Missing, PageContent

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
    ("/sql",        "SQL",          "ask yourself"),
)  # fmt: skip
STATIC = {"style.css": "text/css", "keys.js": "text/javascript"}

MakePage = Callable[[LakeViews, Request], PageContent]


class _Snapshots:
    """The newest snapshot of a lake; a lake that was built again is opened again."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self._lock = threading.Lock()
        self._views = LakeViews(lake)

    def newest(self) -> LakeViews:
        """Give the views of the newest snapshot."""
        with self._lock:
            if read_manifest(self.lake) != self._views.manifest:
                self._views = LakeViews(self.lake)
            return self._views


def page_app(lake: Path | str, hosts: tuple[str, ...], token: str = "") -> Starlette:
    """Give the page of a lake as an ASGI application."""
    snapshots = _Snapshots(Path(lake))
    environment = Environment(
        loader=PackageLoader("hopwire.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"took": took, "cell": _cell, "grouped": _grouped}
    render = _Renderer(environment, str(lake))
    pages: dict[str, MakePage] = {
        "/": lambda views, request: lake_pages.overview(views, request.query_params),
        "/flows": lambda views, request: lake_pages.flows(views, request.query_params),
        "/flow/{id}": lambda views, request: flow_pages.flow(views, request.path_params["id"], request.query_params),
        "/flow/{id}/hop/{number}": lambda views, request: flow_pages.hop(
            views, request.path_params["id"], request.path_params["number"], request.query_params
        ),
        "/compare": lambda views, request: flow_pages.compare(views, request.query_params),
        "/links": lambda views, request: lake_pages.links(views, request.query_params),
        "/contracts": lambda views, request: lake_pages.contracts(views, request.query_params),
        "/clocks": lambda views, request: lake_pages.clocks(views, request.query_params),
        "/security": lambda views, request: lake_pages.security(views, request.query_params),
        "/quarantine": lambda views, request: lake_pages.quarantine(views, request.query_params),
        "/sql": lambda views, request: lake_pages.sql(views, request.query_params),
    }
    routes = [Route("/static/{name}", _static)]
    for path, make in pages.items():
        twin = "/overview.json" if path == "/" else f"{path}.json"
        routes.append(Route(twin, render.endpoint(snapshots, make, is_json=True)))
        routes.append(Route(path, render.endpoint(snapshots, make, is_json=False)))
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={404: render.nothing_here},
    )


class _Renderer:
    """Pages to answers."""

    def __init__(self, environment: Environment, lake: str) -> None:
        self.environment, self.lake = environment, lake

    def endpoint(self, snapshots: _Snapshots, make: MakePage, *, is_json: bool) -> Callable[[Request], Response]:
        """Give the function that answers requests for a page."""

        def answer(request: Request) -> Response:
            try:
                content = make(snapshots.newest(), request)
            except Missing as missing:
                return self._said(str(missing), 404, request, is_json)
            except (HopwireError, LakeError) as error:
                return self._said(str(error), 400, request, is_json)
            if is_json:
                return _json(content.values)
            return HTMLResponse(self._html(content, request))

        return answer

    async def nothing_here(self, request: Request, error: Exception) -> Response:
        """Answer a request for an address that is no page."""
        return self._said(
            f"there is no page {request.url.path!r:.120}", 404, request, request.url.path.endswith(".json")
        )

    def _said(self, text: str, status: int, request: Request, is_json: bool) -> Response:
        if is_json:
            return JSONResponse({"error": printable(text)}, status)
        content = PageContent("said.html", "hopwire", {"text": text})
        return HTMLResponse(self._html(content, request), status)

    def _html(self, content: PageContent, request: Request) -> str:
        template = self.environment.get_template(content.template)
        return template.render(
            **content.values,
            **content.helpers,
            drawings=content.drawings,
            title=content.title,
            menu=MENU,
            path=request.url.path,
            query=request.url.query,
            lake=self.lake,
        )


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


def _grouped(value: int | None) -> str:
    return "" if value is None else f"{value:,}"

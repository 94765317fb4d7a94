"""`hopwire ui`: a lake in a browser, and what happens at this moment."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopwire.cli.network_client import ConfigFile, Domains, joined
from hopwire.cli.place_arguments import place_argument
from hopwire.cli.terminal import say
from hopwire.cli.top import pictures
from hopwire.errors import DeliveryError, SettingsError
from hopwire.node.addresses import check_uri

if TYPE_CHECKING:
    from hopwire.web.live import Live, Look

__all__ = ["serve_page", "ui"]

LOOK_SECONDS = 1.0
TIMEOUT_SECONDS = 5.0
LAST_WORDS_SECONDS = 1  # that open pages have to end when the page is ended


def ui(
    lake: Annotated[
        Path | None,
        typer.Argument(metavar="[LAKE]", parser=place_argument, help="The directory of the lake.", show_default=False),
    ] = None,
    addresses: Annotated[
        list[str] | None,
        typer.Option(
            "--join", metavar="ADDRESS", help="Show this node as it lives; may be repeated.", show_default=False
        ),
    ] = None,
    captures: Annotated[
        Path | None,
        typer.Option(
            "--captures", metavar="DIR", help="Show messages as nodes write them down here.", show_default=False
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; other than loopback needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="The port; 0 takes a free one.")] = 8710,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name", help="Another name under which the page is reached, such as lake.example.", show_default=False
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="HOPWIRE_UI_TOKEN",
            help="What readers must know; made up if others can reach the page.",
            show_default=False,
        ),
    ] = None,
    no_bodies: Annotated[
        bool, typer.Option("--no-bodies", help="Hide bodies and signatures; then there is no SQL either.")
    ] = False,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say where the page is as one JSON object.")] = False,
) -> None:
    """Show a lake in a browser: flows, losses, links, clocks, SQL.

    With --join the page also shows nodes as they live, with --captures messages as they are written down; the lake may
    then be left out. The page only reads. It is open to this machine alone unless --host says otherwise, and asks no
    other host for anything.
    """
    if lake is None and not addresses and captures is None:
        raise SettingsError("found nothing to show, expected a LAKE, --join ADDRESS or --captures DIR")
    for address in addresses or ():
        check_uri(address, "--join")
    if captures is not None and not captures.is_dir():
        raise SettingsError(f"--captures: found {str(captures)!r:.200}, expected a directory")
    serve_page(
        lake,
        host=host,
        port=port,
        names=tuple(name or ()),
        token=token,
        shows_bodies=not no_bodies,
        looks={address: _look(address, domains, config) for address in addresses or ()},
        captures=captures,
        as_json=as_json,
    )


def serve_page(
    lake: Path | None,
    *,
    host: str = "127.0.0.1",
    port: int = 8710,
    names: tuple[str, ...] = (),
    token: str | None = None,
    shows_bodies: bool = True,
    looks: dict[str, Look] | None = None,
    captures: Path | None = None,
    as_json: bool = False,
) -> None:
    """Serve the page until Ctrl+C."""
    try:
        import uvicorn

        from hopwire.web.guard import is_loopback
        from hopwire.web.live import Live
        from hopwire.web.page_server import page_app
    except ModuleNotFoundError as missing:
        raise SettingsError(f'{missing.name} is not installed: pip install "hopwire[web]"') from None
    secret = token or ("" if is_loopback(host) else secrets.token_urlsafe(16))
    hosts = (host, "localhost", *(("127.0.0.1",) if host in ("0.0.0.0", "::") else ()), *names)  # noqa: S104
    live: Live | None = Live(looks or {}, captures) if looks or captures is not None else None
    app = page_app(lake, hosts, secret, live=live, shows_bodies=shows_bodies)
    listener = _listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/"
    what = lake or ", ".join(looks or {}) or captures
    whole = f"{address}{f'?token={secret}' if secret else ''}"
    words = f"The page of {what} is at {whole}\nCtrl+C ends it."
    say(json.dumps({"address": whole, "shows": str(what)}) if as_json else words, flush=True)
    settings = uvicorn.Config(
        app,
        log_level="warning",
        server_header=False,
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=LAST_WORDS_SECONDS,
    )
    if callable(signal.getsignal(signal.SIGINT)):  # Spark leaves a handler that looks for jobs of its own
        signal.signal(signal.SIGINT, signal.default_int_handler)
    uvicorn.Server(settings).run(sockets=[listener])


def _look(address: str, domains: Path | None, config: Path | None) -> Look:
    """Give how to look at a node, again and again; while nobody answers, why."""

    async def look() -> AsyncIterator[dict[str, Any]]:
        while True:
            try:
                async with joined(address, domains, config, TIMEOUT_SECONDS) as there:
                    async for picture in pictures(there, LOOK_SECONDS, TIMEOUT_SECONDS):
                        yield picture
            except DeliveryError as error:
                yield {"trouble": str(error)}
            await asyncio.sleep(LOOK_SECONDS)

    return look


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()  # whoever opens the address at once waits, and is not refused
    except OSError as error:
        raise SettingsError(
            f"{host}:{port}: cannot be listened on ({error.strerror or error}); choose another --port"
        ) from None
    return listener

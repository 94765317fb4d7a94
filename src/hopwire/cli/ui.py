"""`hopwire ui`: a lake in a browser."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Annotated

import typer

from hopwire.cli.terminal import say
from hopwire.errors import SettingsError

__all__ = ["ui"]


def ui(
    lake: Annotated[Path, typer.Argument(metavar="LAKE", help="The directory of the lake.")],
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
) -> None:
    """Show a lake in a browser: flows, what was lost and where, links, clocks, bytes, SQL.

    The page only reads. It is open to this machine alone unless --host says otherwise, and asks no other host for
    anything.
    """
    try:
        import uvicorn

        from hopwire.web.guard import is_loopback
        from hopwire.web.page_server import page_app
    except ModuleNotFoundError as missing:
        raise SettingsError(f'{missing.name} is not installed: pip install "hopwire[web]"') from None
    secret = token or ("" if is_loopback(host) else secrets.token_urlsafe(16))
    hosts = (host, "localhost", *(("127.0.0.1",) if host in ("0.0.0.0", "::") else ()), *(name or ()))  # noqa: S104
    app = page_app(lake, hosts, secret)
    listener = _listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/"
    say(f"The page of {lake} is at {address}{f'?token={secret}' if secret else ''}")
    say("Ctrl+C ends it.")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, access_log=False, ws="none"))
    server.run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        raise SettingsError(
            f"{host}:{port}: cannot be listened on ({error.strerror or error}); choose another --port"
        ) from None
    return listener

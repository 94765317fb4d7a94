"""The life of a node as a process: made, started, told to end, drained, stopped.

| step | what happens |
|---|---|
| 1 | health and metrics are served; actors are made, their contexts are entered, the node hosts them |
| 2 | the node listens and greets its peers |
| 3 | SIGTERM or SIGINT: not ready any more, routes are withdrawn, work is finished, for `drain_seconds` at most |
| 4 | goodbyes, `on_stop` of the actors, for `stop_seconds`; contexts are left in the reverse order |

A second signal ends the process at once, also while a handler holds the loop and nobody has heard the first. A signal
in step 1 cancels whatever is waited for, and contexts are left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from hopwire.errors import Escalated, SettingsError
from hopwire.node import Actor, Node
from hopwire.node.status import StatusActor
from hopwire.report.words import plural
from hopwire.runner.health import DRAINING, STOPPED, Health
from hopwire.runner.http_server import HttpServer
from hopwire.runner.loading import find_named, open_actors
from hopwire.runner.log_lines import set_up_logs
from hopwire.runner.settings import RunSettings, read_settings

__all__ = ["EndWish", "OnStart", "heeding_signals", "run", "serve", "serve_until_signal"]

log = logging.getLogger("hopwire.runner")
OnStart: TypeAlias = Callable[[Node, str], None]
SIGNALS = (signal.SIGTERM, signal.SIGINT)
AT_ONCE = 130  # the exit code after a second signal, as after Ctrl+C
OPEN_PAGES = "%s can be read by all who reach it: names of nodes, contracts and reasons, and no content of messages"


class EndWish:
    """The wish that a node ends: said once, from a signal or from code on the loop."""

    def __init__(self) -> None:
        self._wished = asyncio.Event()
        self._starting: asyncio.Task[Any] | None = None
        self.is_wished = False

    def wish(self) -> None:
        """Let the node end; called on its loop."""
        self.is_wished = True
        self._wished.set()
        if self._starting is not None:
            self._starting.cancel()

    async def wait(self) -> None:
        """Wait until somebody wishes the end."""
        await self._wished.wait()

    @contextmanager
    def cancels(self) -> Iterator[None]:
        """Let the wish cancel what is done within; there is nothing to drain yet."""
        self._starting = asyncio.current_task()
        try:
            if self.is_wished:
                raise asyncio.CancelledError
            yield
        finally:
            self._starting = None


async def serve(
    settings: RunSettings, given: Iterable[Any] = (), ending: EndWish | None = None, on_start: OnStart | None = None
) -> None:
    """Run a node with the actors of the settings and those that are given, until somebody wishes that it ends.

    `on_start` is called with the node once it listens, and with the address of its pages, if there are any.

    An `Escalated` says that the node stopped because of an actor; a SettingsError that it could not be started.
    """
    ending = ending or EndWish()
    try:
        async with AsyncExitStack() as stack:
            with ending.cancels():
                node, health, url = await _started(settings, given, stack)
            if on_start is not None:
                on_start(node, url)
            await _live(node, health, settings, ending)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not ending.is_wished or task is None or task.uncancel():
            raise
        log.info("ended before the node was started", extra={"hopwire_event": "ended"})


async def _started(settings: RunSettings, given: Iterable[Any], stack: AsyncExitStack) -> tuple[Node, Health, str]:
    node, end = settings.node(), settings["stop_seconds"]
    stack.push_async_callback(node.stop, end)
    health = Health(node, settings["grace_seconds"], asyncio.get_running_loop().time, settings["join"])
    url = await _serve_pages(health, settings["http"], stack)
    actors: list[Actor] = []
    for each in (*settings["actors"], *given):
        where = each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__)
        found = find_named(each, os.getcwd()) if isinstance(each, str) else each
        actors += await open_actors(found, where, stack)
    stack.push_async_callback(node.stop, end)  # before contexts are left, however this ends
    for actor in actors:
        node.host(actor)
    if settings["status"]:
        node.host(StatusActor(node), local_only=True)
    await node.start()
    health.run()
    fields = {"event": "listening", "uri": node.uri, "node": node.identity.decode(errors="replace")}
    what = plural(len(actors), "actor")
    log.info("listens on %s with %s", node.uri, what, extra={f"hopwire_{name}": text for name, text in fields.items()})
    return node, health, url


async def _serve_pages(health: Health, address: str, stack: AsyncExitStack) -> str:
    """Serve health and metrics, if an address is given; gives the address as a URL."""
    if not address:
        return ""
    server = HttpServer(address, health.pages())
    await server.start()
    stack.push_async_callback(server.stop)
    log.info("health and metrics: %s", server.url, extra={"hopwire_event": "http", "hopwire_url": server.url})
    if server.is_reachable:
        log.warning(OPEN_PAGES, server.url, extra={"hopwire_event": "open_pages"})
    return server.url


async def _live(node: Node, health: Health, settings: RunSettings, ending: EndWish) -> None:
    """Wait for the end, and drain."""
    wished, closed = asyncio.ensure_future(ending.wait()), asyncio.ensure_future(node.wait_closed())
    try:
        await asyncio.wait((wished, closed), return_when=asyncio.FIRST_COMPLETED)
        if not closed.done():
            health.state = DRAINING
            seconds = settings["drain_seconds"]
            log.info("drains for %g s at most", seconds, extra={"hopwire_event": "draining"})
            await _drain(node, seconds, closed)
            await node.stop(settings["stop_seconds"])
        health.state = STOPPED
        try:
            await closed
        except Escalated as error:
            log.error("stopped: %s", error, extra={"hopwire_event": "escalated"})
            raise
        log.info("stopped", extra={"hopwire_event": "stopped"})
    finally:
        wished.cancel()
        closed.cancel()


async def _drain(node: Node, seconds: float, closed: asyncio.Future[None]) -> None:
    draining = asyncio.ensure_future(node.drain(seconds))
    await asyncio.wait((draining, closed), return_when=asyncio.FIRST_COMPLETED)  # an actor may escalate meanwhile
    if not draining.done():
        draining.cancel()
        await asyncio.wait((draining,))
    elif not draining.exception() and not draining.result():
        waiting = node.statistics().inbox_messages
        text = "work is left after %g s, and is given up; %s in queues"
        log.warning(text, seconds, plural(waiting, "message"), extra={"hopwire_event": "not_drained"})


def serve_until_signal(settings: RunSettings, given: Iterable[Any] = ()) -> None:
    """Run a node on an event loop of its own until SIGTERM or SIGINT; a second signal ends the process."""
    asyncio.run(_serve_heeding_signals(settings, given))


async def _serve_heeding_signals(settings: RunSettings, given: Iterable[Any]) -> None:
    ending = EndWish()
    with heeding_signals(ending.wish):
        await serve(settings, given, ending)


@contextmanager
def heeding_signals(on_first: Callable[[], None]) -> Iterator[None]:
    """Call something on the running loop at the first SIGTERM or SIGINT; a second signal ends the process at once."""
    loop, heard = asyncio.get_running_loop(), list[int]()

    def on_signal(number: int, _frame: object) -> None:
        if heard:
            os.write(2, b"hopwire: ended at once by a second signal\n")
            os._exit(AT_ONCE)
        heard.append(number)
        loop.call_soon_threadsafe(on_first)

    is_main = threading.current_thread() is threading.main_thread()
    former = {number: signal.signal(number, on_signal) for number in SIGNALS} if is_main else {}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def run(
    *actors: Any,
    config: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Run a node with these actors until SIGTERM or SIGINT; it drains, stops, and this call returns.

    Actors are instances, classes, callables or places such as `"shop.actors:make"`. Options are those of
    `hopwire config show`; the environment and a file are read as by `hopwire node`. Logs go to stderr, unless logging
    is set up already.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise SettingsError("run() has an event loop of its own; on a loop that runs, await hopwire.runner.serve()")
    settings = read_settings(options, os.environ if environ is None else environ, config)
    if not logging.getLogger().handlers:
        set_up_logs(settings["log_level"], settings["log_format"])
    serve_until_signal(settings, actors)

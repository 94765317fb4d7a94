"""Node and hub for code that blocks.

    with sync.Node(peers=["tcp://127.0.0.1:7400"]) as node:
        greeting = node.hub().ask(Greet(name="Ada"), Greeting, timeout=2)

The node runs on an event loop in a thread of its own. Every call is handed over to this loop, and the caller waits for
the result. Any number of threads may call. A call ends shortly after its timeout, also if a handler holds the loop: the
caller gets a `Timeout`. If the loop ends, every waiting call ends with `Closed`.

    timeout=2, and a handler holds the loop for 10 s: the call raises Timeout after about 3 s
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from hopwire.errors import Closed, SettingsError
from hopwire.model import Payload
from hopwire.node import Actor, Address, Handled, PartnerStatus, Receipt, Statistics
from hopwire.node import Hub as AsyncHub
from hopwire.node import Node as AsyncNode
from hopwire.node.blocking import CALL_SECONDS, GRACE_SECONDS, each_of, result_of
from hopwire.node.calls import Options, StreamOptions, TellOptions
from hopwire.node.dead import DeadLetters
from hopwire.node.news import Events, NodeEvent
from hopwire.node.node import NodeOptions
from hopwire.node.spawn import Way
from hopwire.security import Domains

if TYPE_CHECKING:
    from hopwire.capture import CaptureStatus, ShipStatus

__all__ = ["EventReader", "Hub", "Node"]

R = TypeVar("R", bound=Payload)
S = TypeVar("S", bound=Payload)
T = TypeVar("T")
log = logging.getLogger("hopwire.node")
# The timeouts of a node's calls, where the caller gives none.
ASK_SECONDS, KNOWS_SECONDS, TRACE_SECONDS, STOP_SECONDS = 30.0, 10.0, 5.0, 1.0
CAPTURE_SECONDS = 15.0  # for the rest of a capture, when a node stops, and to ship it


class _Portal:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()  # calls that are cancelled when the loop ends
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="hopwire", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        except BaseException as error:
            log.critical("the loop of the node ended: %s", type(error).__name__, exc_info=error)
        with self._lock:
            self._is_over, waiting = True, tuple(self._waiting)
        for future in waiting:
            future.cancel()

    def call(self, seconds: float | None, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run a coroutine function on the loop and wait for its result, for so many seconds and a grace."""
        if threading.current_thread() is self._thread:
            raise SettingsError("a blocking call from a coroutine of the node would wait for itself: use its context")

        async def run() -> T:
            return await function(*args, **kwargs)

        with self._lock:
            if self._is_over:
                raise Closed("the node is stopped")
            future = asyncio.run_coroutine_threadsafe(run(), self.loop)
            self._waiting.add(future)
        try:
            return self._result(future, seconds)
        finally:
            self._waiting.discard(future)

    def _result(self, future: Future[T], seconds: float | None) -> T:
        try:
            return result_of(future, seconds)
        except CancelledError:
            raise Closed("the node is stopped") if self._is_over else CancelledError from None

    def call_plain(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a function on the loop and wait for its result."""

        async def run() -> T:
            return function(*args, **kwargs)

        return self.call(CALL_SECONDS, run)

    def end(self, seconds: float, function: Callable[[], Awaitable[None]]) -> None:
        """Run a last coroutine function and end the thread; if the loop has ended already, the caller runs it."""
        if self.loop.is_closed():
            return
        try:
            if self._is_over:
                self.loop.run_until_complete(function())
            else:
                self.call(seconds, function)
        finally:
            self.close()

    def close(self) -> None:
        """End the thread; a thread whose loop is held is left behind."""
        if not self._is_over:
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(GRACE_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()


class Hub:
    """A hub whose calls block; see `hopwire.node.Hub`."""

    def __init__(self, hub: AsyncHub, portal: _Portal) -> None:
        self._hub, self._portal = hub, portal

    @overload
    def ask(self, payload: Payload, reply: type[R], **options: Unpack[Options]) -> R: ...
    @overload
    def ask(self, payload: Payload, reply: tuple[type[R], type[S]], **options: Unpack[Options]) -> R | S: ...
    @overload
    def ask(self, payload: Payload, reply: tuple[type[R], ...], **options: Unpack[Options]) -> R: ...
    def ask(self, payload: Payload, reply: Any, **options: Unpack[Options]) -> Any:
        """Send a message and wait for the answer."""
        return self._portal.call(options.get("timeout", ASK_SECONDS), self._hub.ask, payload, reply, **options)

    @overload
    def stream(self, payload: Payload, part: type[R], **options: Unpack[StreamOptions]) -> Iterator[R]: ...
    @overload
    def stream(
        self, payload: Payload, part: tuple[type[R], type[S]], **options: Unpack[StreamOptions]
    ) -> Iterator[R | S]: ...
    @overload
    def stream(self, payload: Payload, part: tuple[type[R], ...], **options: Unpack[StreamOptions]) -> Iterator[R]: ...
    def stream(self, payload: Payload, part: Any, **options: Unpack[StreamOptions]) -> Iterator[Any]:
        """Ask a question that many answers come to, and give them one by one: `for part in hub.stream(...)`."""
        parts = self._hub.stream(payload, part, **options)
        return each_of(parts, options.get("timeout", ASK_SECONDS), self._portal.call, self._portal.loop)

    def send(self, payload: Payload, **options: Unpack[Options]) -> Receipt:
        """Send a message and wait until a node has taken it."""
        return self._portal.call(options.get("timeout", ASK_SECONDS), self._hub.send, payload, **options)

    def tell(self, payload: Payload, **options: Unpack[TellOptions]) -> None:
        """Send a message; wait only while there is no room for it."""
        self._portal.call(options.get("ttl"), self._hub.tell, payload, **options)

    def broadcast(
        self,
        payload: Payload,
        *,
        ttl: float | None = None,
        partition: bytes = b"",
        correlation_id: bytes = b"",
        trace: bool = False,
    ) -> None:
        """Send a message to every actor that handles it."""
        options = {"partition": partition, "correlation_id": correlation_id, "trace": trace}
        self._portal.call(ttl, self._hub.broadcast, payload, ttl=ttl, **options)

    def trace(
        self, payload: Payload, *, timeout: float = TRACE_SECONDS, to: Address | None = None, partition: bytes = b""
    ) -> Way:
        """Find out which way a message would take, and who would get it, without delivering it."""
        return self._portal.call(timeout, self._hub.trace, payload, timeout=timeout, to=to, partition=partition)

    @property
    def identity(self) -> bytes:
        """The identity of this hub."""
        return self._hub.identity

    def close(self) -> None:
        """Take no more messages; every promise of this hub ends."""
        self._portal.call_plain(self._hub.close)


class EventReader:
    """The events of a node, as an iterator that waits for the next; see `hopwire.node.news`."""

    def __init__(self, events: Events, portal: _Portal) -> None:
        self._events, self._portal = events, portal

    def __iter__(self) -> EventReader:
        return self

    def __next__(self) -> NodeEvent:
        try:
            return self._portal.call(None, self._events.__anext__)
        except (StopAsyncIteration, Closed):
            pass
        left = self._events.take()  # the node has stopped, and its loop with it
        if left is None:
            raise StopIteration
        return left


class Node:
    """A node whose calls block; takes the arguments of `hopwire.node.Node`."""

    def __init__(self, listen: str = "tcp://127.0.0.1:0", **options: Unpack[NodeOptions]) -> None:
        self._node = AsyncNode(listen, **options)
        self._portal = _Portal()

    def __enter__(self) -> Node:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.end(2 * STOP_SECONDS + CAPTURE_SECONDS, lambda: self._node.__aexit__(kind, error, trace))

    def start(self) -> None:
        """Begin to listen, dial the peers, and let the actors work."""
        try:
            self._portal.call(CALL_SECONDS, self._node.start)
        except Closed:  # it was started before, and goes on
            raise
        except BaseException:
            self._portal.close()
            raise

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Say goodbye, stop the actors, end every promise, and end the thread of the node."""
        self._portal.end(2 * timeout + CAPTURE_SECONDS, lambda: self._node.stop(timeout))  # actors, then connections

    def drain(self, timeout: float = 10.0) -> bool:
        """Take no new work from other nodes and wait until the actors are idle; tells whether they are."""
        return self._portal.call(timeout, self._node.drain, timeout)

    def reload(self, domains: Domains | None = None) -> None:
        """Look at the files of domains, certificates and lists now, or take other domains; open connections stay."""
        self._portal.call_plain(self._node.reload, domains)

    def allow(self, partner: str, *, export: Iterable[str] | None = None, import_: Iterable[str] | None = None) -> None:
        """Change what may cross to and from a partner network; a list that is not given stays."""
        self._portal.call_plain(self._node.allow, partner, export=export, import_=import_)

    def partners(self) -> list[PartnerStatus]:
        """Give how this node does as a gateway to partner networks."""
        return self._portal.call_plain(self._node.partners)

    def wait_closed(self) -> None:
        """Wait until the node has stopped; an `Escalated` says that the node stopped because of an actor."""
        self._portal.call(None, self._node.wait_closed)

    def statistics(self) -> Statistics:
        """Give the counts of this node."""
        return self._portal.call_plain(self._node.statistics)

    def events(self) -> EventReader:
        """Give what happens to this node from now on, as an iterator that ends when the node has stopped."""
        return EventReader(self._portal.call_plain(self._node.events), self._portal)

    @property
    def name(self) -> str:
        """The name of this node."""
        return self._node.name

    @property
    def peers(self) -> tuple[bytes, ...]:
        """The nodes that can be talked to."""
        return self._portal.call_plain(lambda: self._node.peers)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The addresses that were given to this node and have not answered yet."""
        return self._portal.call_plain(lambda: self._node.unanswered)

    def node_at(self, uri: str) -> bytes:
        """Give the node that has answered at an address that was given to this node, or nothing."""
        return self._portal.call_plain(self._node.node_at, uri)

    @property
    def capture_status(self) -> CaptureStatus | None:
        """How much of the traffic was captured, if it is."""
        return self._node.capture_status

    @property
    def ship_status(self) -> ShipStatus | None:
        """How many segments of the capture were shipped elsewhere, if they are."""
        return self._node.ship_status

    @property
    def uri(self) -> str:
        """The address of this node."""
        return self._node.uri

    @property
    def identity(self) -> bytes:
        """The identity of this node."""
        return self._node.identity

    @property
    def dead_letters(self) -> DeadLetters:
        """The messages that went no further, counted by reason."""
        return self._node.dead_letters

    def hub(self, *, new: bool = False, local_only: bool = False) -> Hub:
        """Give the hub of this node, or a new one."""
        return Hub(self._portal.call_plain(self._node.hub, new=new, local_only=local_only), self._portal)

    def host(
        self, actor: Actor, *, partition: bytes = b"", local_only: bool = False, supervision: str | None = None
    ) -> Address:
        """Let an actor take messages, and give its address."""
        return self._portal.call_plain(
            self._node.host, actor, partition=partition, local_only=local_only, supervision=supervision
        )

    def unhost(self, actor: Actor) -> None:
        """Let an actor take no more messages."""
        self._portal.call(CALL_SECONDS, self._node.unhost, actor)

    def knows(self, payload: type[Payload], *, partition: bytes = b"", timeout: float = KNOWS_SECONDS) -> Handled:
        """Wait until an actor somewhere handles a payload."""
        return self._portal.call(timeout, self._node.knows, payload, partition=partition, timeout=timeout)

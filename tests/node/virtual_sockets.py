"""Nodes with real sockets on a clock that jumps, whose processes are killed and whose cables are cut.

What takes a minute on the wall takes a moment here. A node that is killed closes its sockets, and says no goodbye.
Over a cable that is cut nothing is read, at either end. All of it is read when the cable is mended, as with TCP.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from hopwire.node import Node
from hopwire.node.streams import Streams
from hopwire.node.zmtp_socket import ZmtpSocket

T = TypeVar("T")
_has_unread: Callable[[ZmtpSocket], bool] = ZmtpSocket.has_unread.fget  # type: ignore[attr-defined]


class _JumpingSelector(selectors.SelectSelector):
    """Hands over what sockets have; where they have nothing, the clock jumps to the next timer."""

    clock = 1000.0  # seconds
    is_cut: Callable[[int], bool] | None = None

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0 if timeout is not None else None)
        if self.is_cut is not None:
            ready = [(key, events) for key, events in ready if not self.is_cut(key.fd)]
        if not ready and timeout:
            self.clock += timeout
        return ready


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jumping = _JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.clock

    async def getaddrinfo(self, host: Any, port: Any, **kinds: Any) -> Any:
        """Look an address up at once: a thread would take time that does not pass here."""
        return socket.getaddrinfo(host, port, **kinds)


def run_on_sockets(story: Callable[[], Awaitable[T]]) -> T:
    """Run a story on such a loop."""

    async def tell() -> T:
        return await story()

    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        return runner.run(tell())


class Cables:
    """The sockets of all nodes of a story: whose they are, and whose cable is cut."""

    def __init__(self, chance: Random) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _JumpingLoop)
        loop.jumping.is_cut = self._is_cut
        self.cut: set[bytes] = set()
        self._chance = chance
        self._owners: dict[int, bytes] = {}  # by descriptor
        self._ends: dict[Any, bytes] = {}  # by the address of one end of a connection
        self._far: dict[int, Any] = {}  # the address of the other end
        self._opened: dict[Node, list[Any]] = {}
        self._latest: dict[int, Any] = {}  # connections by descriptor
        self._held_up: set[Any] = set()

    async def start(self, node: Node) -> Node:
        """Start a node whose sockets are known here."""
        streams, opened = node._transport, self._opened.setdefault(node, [])
        assert isinstance(streams, Streams)
        node._timing.chance = self._chance.random
        open_one = streams._open

        def opening(sock: socket.socket, *others: Any) -> Any:
            self._owners[sock.fileno()] = self._ends[sock.getsockname()] = node.identity
            self._far[sock.fileno()] = sock.getpeername()
            self._latest[sock.fileno()] = connection = open_one(sock, *others)
            opened.append(connection)
            return connection

        streams._open = opening  # type: ignore[method-assign, assignment]
        await node.start()
        self._owners[streams._server.fileno()] = node.identity
        self._far.pop(streams._server.fileno(), None)
        return node

    def kill(self, node: Node) -> None:
        """Let a node do and say nothing any more, and close its sockets, as the kernel does."""
        streams, membership = node._transport, node._membership
        assert isinstance(streams, Streams)
        assert membership.joining is not None
        streams._is_closed = membership._is_closing = True
        membership._ticker.cancel()
        membership.joining._step = lambda event: None  # type: ignore[method-assign]
        asyncio.get_running_loop().remove_reader(streams._server)
        streams._server.close()
        for link in streams._links.values():
            link.rest()
        for connection in self._opened.pop(node):
            connection._on_closed, connection._on_frames = (lambda *_: None), (lambda _: True)
            connection.close("killed")

    def hold_up(self) -> None:
        """Let nothing come over the connections that are open now, as where the kernel waits long to send again."""
        self._held_up.update(each for each in self._latest.values() if each.is_open)

    def is_held_up(self, connection: ZmtpSocket) -> bool:
        """Tell whether nothing comes over a connection."""
        return connection in self._held_up or self._is_cut(connection._sock.fileno())

    def has_arrived(self, connection: ZmtpSocket) -> bool:
        """Tell whether bytes came over a connection and were not read yet."""
        return not self.is_held_up(connection) and _has_unread(connection)

    def _is_cut(self, descriptor: int) -> bool:
        latest = self._latest.get(descriptor)
        if latest is not None and latest in self._held_up and latest.is_open:
            return True
        far = self._ends.get(self._far.get(descriptor))
        return bool(self.cut) and (self._owners.get(descriptor) in self.cut or far in self.cut)

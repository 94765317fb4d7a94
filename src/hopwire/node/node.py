"""A node: actors and hubs in one process, and the way to those of others.

    async with Node(listen="tcp://127.0.0.1:0", peers=["tcp://127.0.0.1:7400"]) as node:
        node.host(Greeter())
        greeting = await node.hub().ask(Greet(name="Ada"), Greeting)

The node is a thin shell: `cluster` says who is there, `routing` where a message goes, `wire` what the bytes are,
`security` whether to believe them. Here is only who calls whom. Everything happens on the event loop that started the
node.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from types import TracebackType

from hopwire.capture import CaptureStatus
from hopwire.errors import Closed, NoRoute, SettingsError
from hopwire.model import Contract, Payload, contract_of
from hopwire.node.actors import Actor
from hopwire.node.context import Context
from hopwire.node.dead import DeadLetters
from hopwire.node.hub import Address, Hub
from hopwire.node.links import Links
from hopwire.node.mailbox import Mailbox
from hopwire.node.router import Envelope, Router
from hopwire.node.running import Running
from hopwire.node.settings import NodeSettings, Statistics
from hopwire.node.sockets import Sockets
from hopwire.node.tap import Tap
from hopwire.node.transport import CurveKeys, Transport
from hopwire.routing import Route as TableRoute
from hopwire.routing import Tables
from hopwire.security import OPEN, Domains

__all__ = ["Node"]

HUB, ACTOR = b"\0", b"\1"  # the first byte of a receiver's identity


class Node:
    """One node of the network."""

    def __init__(
        self,
        listen: str = "tcp://127.0.0.1:0",
        *,
        peers: Iterable[str] = (),
        identity: bytes | None = None,
        name: str = "",
        capture: str | Path | None = None,
        domains: Domains = OPEN,
        curve: CurveKeys | None = None,
        settings: NodeSettings | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.identity = _guid() if identity is None else identity
        self.name = name
        self._incarnation = time.time_ns()
        self._tap = None if capture is None else Tap(capture, self.identity, self._incarnation, name)
        self.settings = settings or NodeSettings()
        self.uri = ""
        self._dial = tuple(peers)
        self._tables = Tables()
        self._router = Router(self.identity, self._tables, self.settings.hop_limit)
        transport = transport or Sockets(self.identity, listen, curve=curve)
        self._links = Links(
            self.identity, transport, self._router, domains, self.settings, self._tap, self._lose, self._wake_watchers
        )
        self._actors: dict[int, Running] = {}
        self._hubs: dict[bytes, Hub] = {}
        self._watchers: list[asyncio.Future[None]] = []
        self._state = "new"

    # -- life

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to listen, dial the peers, and let the actors work."""
        if self._state != "new":
            raise Closed(f"the node is {self._state}; a node is started once")
        self._loop = asyncio.get_running_loop()
        self._router.clock = _clock_of(self._loop)
        self.uri = self._links.start(self._incarnation, self._dial)
        if self._tap is not None:
            self._router.dead.subscribe(self._tap.saw_dead)
            self._tap.start()
        self._state = "running"
        for running in self._actors.values():
            running.start()

    async def stop(self, timeout: float = 1.0) -> None:
        """Say goodbye, stop the actors, end every promise; whatever the peers do, it ends soon after the timeout."""
        if self._state != "running":
            self._state = "stopped"
            return
        self._state = "stopping"
        for hub in self._hubs.values():
            hub.close()
        for running in list(self._actors.values()):
            await running.stop()
        await self._links.stop(timeout)
        if self._tap is not None:
            await self._tap.stop()
        self._state = "stopped"

    async def drain(self, timeout: float = 10.0) -> bool:
        """Take no new work from other nodes and wait until the actors are idle; tells whether they are."""
        gone = [route for route in self._tables.local.public_routes() if route.contract is not None]
        self._announce(removed=gone)
        give_up_at = self._loop.time() + timeout
        while not all(running.is_idle for running in self._actors.values()):
            if self._loop.time() >= give_up_at:
                return False
            await asyncio.sleep(0.01)
        return True

    @property
    def dead_letters(self) -> DeadLetters:
        """What went no further, counted by reason."""
        return self._router.dead

    def statistics(self) -> Statistics:
        """Give the counts of this node."""
        inboxes = [running.inbox for running in self._actors.values()]
        messages_in, messages_out, bytes_in, bytes_out = self._links.traffic
        return Statistics(
            messages_in=messages_in,
            messages_out=messages_out,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            peers=len(self.peers),
            actors=len(self._actors),
            open_promises=sum(hub.open_promises for hub in self._hubs.values()),
            inbox_messages=sum(map(len, inboxes)),
            inbox_bytes=sum(inbox.size_bytes for inbox in inboxes),
            dead_letters=dict(self._router.dead.counts),
        )

    @property
    def capture_status(self) -> CaptureStatus | None:
        """How much of the traffic was captured, if it is."""
        return self._tap.status if self._tap is not None else None

    @property
    def peers(self) -> tuple[bytes, ...]:
        """The nodes that can be talked to."""
        return self._links.peers if self._state == "running" else ()

    # -- actors and hubs

    def host(self, actor: Actor, *, partition: bytes = b"", local_only: bool = False) -> Address:
        """Let an actor take messages, and give its address."""
        self._refuse_if_closed()
        if id(actor) in self._actors:
            raise SettingsError(f"this {type(actor).__name__} is hosted already")
        identity = ACTOR + _guid()
        inbox: Mailbox[Envelope] = Mailbox(
            self.settings.inbox_messages, self.settings.inbox_bytes, self.settings.overflow
        )
        running = Running(actor, identity, partition, inbox, self._router, self._context)
        self._actors[id(actor)] = running
        self._router.open(identity, inbox)
        added: list[TableRoute] = []
        for contract, handler in running.handlers.items():
            is_local_only = local_only or handler.is_local_only
            added += self._tables.local.register(identity, [Contract(*contract)], is_local_only=is_local_only)
        if self._state == "running":
            self._announce(added=[route for route in added if not route.is_local_only])
            running.start()
        return Address(self.identity, identity)

    async def unhost(self, actor: Actor) -> None:
        """Let an actor take no more messages; what waits for it is given up."""
        running = self._actors.pop(id(actor), None)
        if running is None:
            raise SettingsError(f"this {type(actor).__name__} is not hosted here")
        gone = self._tables.local.unregister(running.identity)
        self._router.shut(running.identity)
        self._announce(removed=[route for route in gone if not route.is_local_only])
        await running.stop()

    def hub(self, *, local_only: bool = False) -> Hub:
        """Make a hub, which sends messages and receives answers."""
        self._refuse_if_closed()
        hub = Hub(HUB + _guid(), self.identity, self._router, _new_ids())
        self._hubs[hub.identity] = hub
        self._router.open(hub.identity, hub.take)
        added = self._tables.local.register(hub.identity, is_local_only=local_only)
        if self._state == "running" and not local_only:
            self._announce(added=added)
        return hub

    async def knows(self, payload: type[Payload], *, partition: bytes = b"", timeout: float = 10.0) -> None:
        """Wait until somebody, here or elsewhere, handles a payload; a NoRoute says that nobody did in time."""
        contract = contract_of(payload, partition)
        give_up_at = self._loop.time() + timeout
        while not any(self._tables.handlers_of(contract)):
            changed = self._loop.create_future()
            self._watchers.append(changed)
            left = give_up_at - self._loop.time()
            if left <= 0 or not (await asyncio.wait([changed], timeout=left))[0]:
                raise NoRoute("no_route", f"nobody handles {payload.__name__}")

    def _wake_watchers(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.set_result(None)

    def _announce(self, added: Iterable[TableRoute] = (), removed: Iterable[TableRoute] = ()) -> None:
        if self._state == "running":
            self._wake_watchers()
            self._links.announce(added, removed)

    def _lose(self, node: bytes, reason: str) -> None:
        for hub in self._hubs.values():
            hub.lose_node(node, reason)

    def _context(self, envelope: Envelope) -> Context:
        return Context(envelope, self._own_hub, self._loop.time)

    def _own_hub(self) -> Hub:
        return next(iter(self._hubs.values()), None) or self.hub()

    def _refuse_if_closed(self) -> None:
        if self._state in ("stopping", "stopped"):
            raise Closed(f"the node is {self._state}")


def _clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Give the clock of a loop; asyncio's own is the system's, which is asked directly at half the price."""
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time


def _guid() -> bytes:
    return str(uuid.uuid4()).encode()


def _new_ids() -> Callable[[], bytes]:
    """Ids as long as a GUID's text, and as unique: chance in front, a counter behind, which costs a tenth."""
    front, numbers = _guid()[:24], count()
    return lambda: front + b"%012x" % next(numbers)

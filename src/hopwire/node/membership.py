"""The membership of a node: hears control messages, asks `cluster` what to do, and carries the commands out.

`cluster` decides who is a peer, whom to greet, whom to beat and whom to give up. Here is only how: connections are
opened and closed, routes entered and removed, control messages said, and people told.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from hopwire.cluster.announce import AnnouncedRoute, Beat, Bye, Credit, CreditWanted, Hello, Routes, RoutesWanted
from hopwire.cluster.events import (
    ApplyRoutes,
    Command,
    Connect,
    Dialled,
    Disconnect,
    Event,
    Heard,
    LoseNode,
    MeetNode,
    Overheard,
    Refused,
    RoutesChanged,
    Say,
    Self,
    Stirred,
    Ticked,
    Warn,
)
from hopwire.cluster.peers import Cluster, step
from hopwire.errors import PayloadError, SettingsError
from hopwire.model import Contract, Message, Payload, payload_from_body
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.addresses import is_ipc
from hopwire.node.credit import CAPABILITY as CREDIT
from hopwire.node.credit import Consumption, Credits
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.mailbox import Overflow
from hopwire.node.news import News, PeerLost, PeerMet, RoutesUpdated
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.post import Outgoing
from hopwire.node.settings import NodeSettings
from hopwire.node.timing import Timing
from hopwire.node.transport import Frames, Transport
from hopwire.node.trust import Trust
from hopwire.routing import RemoteNode as KnownNode
from hopwire.routing import Route as TableRoute
from hopwire.routing import Tables
from hopwire.wire import FORMATS, V6
from hopwire.wire.connection import claimed_node
from hopwire.wire.train import CAPABILITY as TRAINS
from hopwire.wire.train import DATED_CAPABILITY as DATED_TRAINS

__all__ = ["Membership"]

TICK_SECONDS = 0.1
BY_NUMBER = {fmt.number: fmt for fmt in FORMATS}
# fmt: off
REPORTS = {
    # what              in words
    "duplicate":        "node {peer} at {uri} has the same identity as another process that runs, or ran",
    "too_many_peers":   "node {peer} at {uri} is not met: there are too many peers",
    "unanswered":       "{uri} gave {detail}: is it running, are address and keys right, does it refuse us?",
}
# fmt: on


class Membership:
    """Who is there, as far as this node knows."""

    def __init__(
        self,
        identity: bytes,
        transport: Transport,
        outgoing: Outgoing,
        trust: Trust,
        credits: Credits,
        consumption: Consumption,
        waiting_from: Callable[[bytes, bytes], tuple[int, int]],
        tables: Tables,
        dead: DeadLetters,
        notices: Notices,
        settings: NodeSettings,
        timing: Timing,
        on_lost: Callable[[bytes, str], None],
        on_routes: Callable[[], None],
        news: News,
    ) -> None:
        self._identity, self._transport, self._outgoing, self._trust = identity, transport, outgoing, trust
        self._tables, self._dead, self._notices = tables, dead, notices
        self._settings, self._timing = settings, timing
        self._credits, self._consumption, self._waiting_from = credits, consumption, waiting_from
        self._on_lost, self._on_routes, self._news = on_lost, on_routes, news
        self._changes: dict[TableRoute, bool] = {}  # of this turn of the loop: whether each route is there in the end
        self._all_routes: dict[str, tuple[int, int]] = {}  # marks of the last two answers that went to each address
        self._route_counts: Counter[bytes] = Counter()  # routes of each peer
        self._asked: dict[bytes, asyncio.Future[None]] = {}  # peers whose answer is waited for
        self._heard_over = b""  # the connection of the hello that is being heard
        self._is_closing = False

    @property
    def peers(self) -> tuple[bytes, ...]:
        """The nodes that can be talked to."""
        return tuple(self._cluster.peers)

    def unanswered(self) -> tuple[str, ...]:
        """The addresses that were given and have not answered yet."""
        return tuple(link.uri for link in self._cluster.links.values() if not link.node and link.tries_left is None)

    def start(self, uri: str, incarnation: int, dial: Collection[str]) -> None:
        """Greet the addresses that are known, and begin to beat."""
        gives_credit = self._settings.overflow is Overflow.WAIT  # else what finds no room is refused
        capabilities = (TRAINS, DATED_TRAINS, *((CREDIT,) if gives_credit else ()))
        me = Self(self._identity, incarnation, uri, self._settings.formats, capabilities)
        self._cluster = Cluster(me, self._settings.pace)
        self.announce(added=self._tables.local.public_routes())
        self._flush()
        self._dial = frozenset(dial)
        for address in dial:
            self._step(Dialled(address))
        self._tick_at = self._timing.now() + TICK_SECONDS
        self._ticker = self._timing.loop.call_later(TICK_SECONDS, self._tick)

    def stop(self) -> None:
        """Say goodbye."""
        self._is_closing = True
        self._ticker.cancel()
        bye = Bye(self._identity, self._cluster.me.incarnation)
        for peer in self._cluster.peers.values():
            self._say(peer.uri, bye, peer.node)

    async def settle(self, timeout: float) -> bool:
        """Wait until everything has arrived that peers sent before they knew what was announced last.

        A peer that answers a question sends nothing behind the answer that it decided on before it.
        """
        self._flush()
        self._asked = {node: self._timing.loop.create_future() for node in self._cluster.peers}
        for peer in self._cluster.peers.values():
            self._say(peer.uri, RoutesWanted(self._identity, self._cluster.me.incarnation), peer.node)
        if not self._asked:
            return True
        _, missing = await asyncio.wait(self._asked.values(), timeout=timeout)
        return not missing

    def announce(self, added: Iterable[TableRoute] = (), removed: Iterable[TableRoute] = ()) -> None:
        """Tell the others what can be reached here, and what no longer; all of one turn of the loop at once."""
        if not self._changes:
            self._timing.loop.call_soon(self._flush)
        for route in removed:
            self._changes[route] = False
        for route in added:
            self._changes[route] = True

    def _flush(self) -> None:
        changes, self._changes = self._changes, {}
        if not changes or self._is_closing:
            return
        added = tuple([_announced(route) for route, is_there in changes.items() if is_there])
        removed = tuple([_announced(route) for route, is_there in changes.items() if not is_there])
        self._step(RoutesChanged(added, removed))
        if self._news:
            self._news.tell(RoutesUpdated(self._identity, len(added), len(removed)))

    # -- hearing

    def take(self, message: Message, payload: type[Payload], connection: bytes) -> None:
        """Take a control message, with the name of the connection that it came over."""
        if self._is_closing:  # goodbye has been said
            return
        try:
            said = payload_from_body(payload, message.body)
        except PayloadError as error:
            self._dead.add(DeadLetter("bad_payload", str(error), message))
            return
        node, speaker = self._trust.callers.nodes.get(connection), getattr(said, "node", b"")
        if isinstance(said, Hello):
            self._take_hello(said, connection, message)
        elif node == speaker and isinstance(said, Credit | CreditWanted):
            self._take_credit(said)
        elif node == speaker:
            self._step(Heard(said))
            if isinstance(said, Routes) and not said.base:
                self._answered(said.node)
        elif isinstance(said, Beat) and node is None:
            self._step(Overheard(said))
        else:
            detail = "a node that speaks for another" if node else "a node that has not said hello"
            self._dead.add(DeadLetter("bad_control", detail, message))

    def _take_hello(self, said: Hello, connection: bytes, message: Message) -> None:
        """Hear a hello, and remember who is at the other end if it is believed."""
        callers = self._trust.callers
        former = callers.nodes.get(connection)
        if said.node != (former if former in self._outgoing.met else claimed_node(connection)):
            self._dead.add(DeadLetter("bad_control", "a node that speaks for another", message))
            return
        self._heard_over = connection
        self._step(Heard(said))
        self._heard_over = b""
        peer = self._cluster.peers.get(said.node)
        if peer is not None and peer.incarnation == said.incarnation:
            callers.hear(connection, said.node)
            self._trust.transit.forget(connection)
            self._transport.believe(connection)
            self._consumption.welcome(said.node)
            if said.heard == self._cluster.me.incarnation:  # who says our incarnation has heard us, and is no echo
                self._transport.prove(peer.uri, connection)

    def _take_credit(self, said: Credit | CreditWanted) -> None:
        peer = self._cluster.peers.get(said.node)
        if peer is None or peer.incarnation != said.incarnation:
            return
        if isinstance(said, Credit):
            self._credits.grant(said)
        else:
            if self._consumption.is_due(said, self._timing.now()):
                self._consumption.answer(said, *self._waiting_from(said.node, said.line))

    def _answered(self, node: bytes) -> None:
        answered = self._asked.pop(node, None)
        if answered is not None and not answered.done():
            answered.set_result(None)

    def miss(self, uri: str) -> None:
        """Give up the node at an address that cannot be reached any more."""
        if not self._is_closing:
            for node in self._tables.remote.nodes_at(uri):
                self._step(Refused(node))

    # -- saying

    def first_words(self, uri: str) -> list[Frames]:
        """Say hello over a new connection to a peer: it tells who is here, and proves that this node heard the peer."""
        at = (peer for peer in self._cluster.peers.values() if peer.uri == uri)
        return [
            frames
            for peer in at
            for frames in self._outgoing.first_words(peer.node, self._cluster.hello("", heard=peer.incarnation))
        ]

    def _say(self, uri: str, payload: Payload, node: bytes = b"") -> None:
        nodes = (node,) if node else self._tables.remote.nodes_at(uri)
        reason, message = self._outgoing.say(uri, nodes[0] if nodes else b"", payload)
        if reason:
            self._dead.add(DeadLetter(reason, f"{type(payload).__name__} to {uri}", message))

    def _say_all_routes(self, uri: str, routes: Routes, node: bytes) -> None:
        """Send all routes, unless two such answers still wait: what changes is behind them, and whoever asks again
        and again gets no more than that."""
        older, newer = self._all_routes.get(uri, (0, 0))
        if not self._transport.is_queued(uri, older):
            self._say(uri, routes, node)
            self._all_routes[uri] = newer, self._transport.mark(uri)

    # -- carrying out

    def _tick(self) -> None:
        now = self._timing.now()
        late, self._tick_at = now - self._tick_at, now + TICK_SECONDS
        self._ticker = self._timing.loop.call_later(TICK_SECONDS, self._tick)
        nodes = self._trust.callers.nodes
        self._trust.alive.update(nodes[name] for name in self._transport.stirred() if name in nodes)
        if self._trust.alive:
            self._step(Stirred(tuple(self._trust.alive)))
            self._trust.alive.clear()
        self._step(Ticked(round(max(0.0, late) * NS_PER_SECOND)))

    def _step(self, event: Event) -> None:
        self._cluster, commands = step(self._cluster, event, round(self._timing.now() * NS_PER_SECOND))
        for command in commands:
            try:
                self._carry_out(command)
            except SettingsError as error:  # an address or a receiver that another node named, and that is none
                self._dead.add(DeadLetter("bad_control", str(error)))

    def _carry_out(self, command: Command) -> None:
        match command:
            case Connect(uri):
                if is_ipc(uri) and not (uri in self._dial or is_ipc(self._cluster.me.uri)):
                    raise SettingsError(f"{shown(uri)} is a path that another node named, and none that was given here")
                self._transport.connect(uri, self._heard_over)
            case Disconnect(uri):
                self._all_routes.pop(uri, None)
                self._transport.disconnect(uri)
            case Say(uri, Routes(base=0) as payload, node):
                self._say_all_routes(uri, payload, node)
            case Say(uri, payload, node):
                self._say(uri, payload, node)
            case MeetNode(peer):
                readable = [BY_NUMBER[number] for number in peer.formats if number in BY_NUMBER]
                fmt = max(readable, key=lambda fmt: fmt.number, default=V6)
                self._outgoing.meet(peer.node, peer.incarnation, peer.uri, fmt)
                if TRAINS in peer.capabilities:
                    self._transport.allow_trains(peer.uri, DATED_TRAINS in peer.capabilities)
                if self._news and peer.node not in self._tables.remote:
                    self._news.tell(PeerMet(peer.node, peer.uri))
                if CREDIT in peer.capabilities and CREDIT in self._cluster.me.capabilities:
                    self._credits.meet(peer.node)
                    self._consumption.meet(peer.node)
                self._tables.remote.register(KnownNode(peer.node, (peer.uri,), peer.incarnation))
            case LoseNode(node, reason):
                self._lose(node, reason)
            case ApplyRoutes(node, added, removed, is_all):
                self._apply(node, added, removed, is_all)
            case Warn(what, node, uri, detail):
                self._report(what, shown(node), shown(uri), detail)

    def _report(self, what: str, peer: str, uri: str, detail: str) -> None:
        text = REPORTS[what].format(peer=peer, uri=uri, detail=detail)
        self._notices.warn((what, peer, uri), lambda: Notice(text, {"event": what, "peer": peer, "uri": uri}))

    def _lose(self, node: bytes, reason: str) -> None:
        self._tables.remote.unregister_node(node)
        del self._route_counts[node]
        if reason != "silent":  # what was said in time may still be read
            self._trust.callers.forget(node)
        self._outgoing.lose(node)
        self._credits.forget(node)
        self._consumption.forget(node)
        self._answered(node)
        self._on_lost(node, reason)
        if self._news:
            self._news.tell(PeerLost(node, reason))

    def _apply(
        self, node: bytes, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...], is_all: bool
    ) -> None:
        known = self._tables.remote.node(node)
        if known is None:
            return
        table, counts = self._tables.remote, self._route_counts
        if is_all:
            table.unregister(node)
            counts[node] = 0
        for receiver, identity, version, partition in removed:
            contracts = [Contract(identity, version, partition)] if identity else None
            counts[node] -= len(table.unregister(node, receiver, contracts))
        for receiver, identity, version, partition in added:
            if counts[node] >= self._settings.peer_routes:
                detail = f"{shown(node)} has more than {self._settings.peer_routes} routes"
                self._dead.add(DeadLetter("bad_control", detail))
                break
            contracts = [Contract(identity, version, partition)] if identity else []
            try:
                counts[node] += len(table.register(known, receiver, contracts))
            except SettingsError as error:  # a receiver that is neither hub nor actor; the others count
                self._dead.add(DeadLetter("bad_control", str(error)))
        self._on_routes()
        if self._news:
            self._news.tell(RoutesUpdated(node, len(added), len(removed), is_all))


def _announced(route: TableRoute) -> AnnouncedRoute:
    contract = route.contract
    if contract is None:
        return (route.receiver, b"", 0, b"")
    assert isinstance(contract.version, int)
    return (route.receiver, contract.identity, contract.version, contract.partition)

"""The membership of a node: hears control messages, asks `cluster` what to do, and carries the commands out.

`cluster` decides who is a peer, whom to greet, whom to beat and whom to give up. Here is only how: connections are
opened and closed, routes entered and removed, control messages said, and people told.

What others can ask for has a limit: hellos of a connection and doubts about a name in each second, answers with all
routes by their number, and routes that are entered in one turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import partial
from itertools import islice

from msgspec.structs import replace

from hopwire.cluster.announce import (
    WORD_CHARACTERS,
    AnnouncedRoute,
    Beat,
    Bye,
    Credit,
    CreditWanted,
    Doubled,
    Hello,
    Routes,
    RoutesWanted,
    beyond,
    is_route,
)
from hopwire.cluster.events import (
    ApplyRoutes,
    Command,
    Connect,
    Dialled,
    Disconnect,
    Doubted,
    Event,
    Heard,
    LoseNode,
    MeetNode,
    Overheard,
    Refused,
    Released,
    Risen,
    RoutesChanged,
    Say,
    Self,
    Stirred,
    Ticked,
    Warn,
)
from hopwire.cluster.gossip import CAPABILITY as MEMBERS
from hopwire.cluster.gossip import GOSSIP, MemberRecord, beyond_limits
from hopwire.cluster.member_events import Refuse
from hopwire.cluster.peers import LEAVE_NS, Cluster, pages_of, step
from hopwire.cluster.seals import CLAIMED, UNSEALED, Seals
from hopwire.errors import PayloadError, SettingsError
from hopwire.model import Contract, Message, Payload, payload_from_body
from hopwire.model.units import MEBIBYTE, NS_PER_MINUTE, NS_PER_SECOND
from hopwire.node.addresses import is_ipc
from hopwire.node.callers import CHANCE_BYTES
from hopwire.node.credit import CAPABILITY as CREDIT
from hopwire.node.credit import Consumption, Credits
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.departures import Departed, Departures, why
from hopwire.node.joining import Joining
from hopwire.node.mailbox import Overflow
from hopwire.node.news import News, PeerLost, PeerMet, RoutesUpdated
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.post import Outgoing
from hopwire.node.rates import Rate
from hopwire.node.settings import NodeSettings
from hopwire.node.timing import Timing
from hopwire.node.transport import Frames, Transport
from hopwire.node.trust import Trust
from hopwire.report.words import text_or_hex
from hopwire.routing import RemoteNode as KnownNode
from hopwire.routing import Route as TableRoute
from hopwire.routing import Tables
from hopwire.security import Host
from hopwire.wire import FORMATS, V6, WireFormat
from hopwire.wire.connection import claimed_node
from hopwire.wire.train import CAPABILITY as TRAINS
from hopwire.wire.train import DATED_CAPABILITY as DATED_TRAINS

__all__ = ["Membership"]

log = logging.getLogger("hopwire.node")
TICK_SECONDS = 0.1
HELLOS_PER_SECOND = 20  # over one connection; an honest node says some at its start
DOUBTS_PER_SECOND = 10  # about one name: each is a message to whom the name belongs
HELD_MESSAGES, HELD_BYTES = 8, 16 * MEBIBYTE  # of a connection until it has proved itself, and of all of them
HELLO_SECONDS = 1.0  # for a hello that is believed, once a node speaks over a connection; then it has to be said anew
HELLOS_TO_OPEN = 5  # to a member that a message is for: about three seconds, then the message is refused
LEAVE_SECONDS = LEAVE_NS / NS_PER_SECOND
PROVE_SECONDS = 60.0  # after which keys are looked at again: some begin or end by the clock
ROUTES_AT_ONCE = 500  # that are entered in one turn of the loop: some milliseconds
ROUTES_TOLD_AT_ONCE = 5000  # of one's own, in one turn of the loop: some hundredths of a second
ANSWER_SECONDS, ROUTES_PER_SECOND = 0.05, 20_000  # between two answers with all routes to one peer, by their number
FUTURE_NS = 24 * 60 * NS_PER_MINUTE  # an incarnation is the time of a start: from then on nobody could come after it
BY_NUMBER = {fmt.number: fmt for fmt in FORMATS}
CALLED = "called:"  # a word of a hello and of a record: the name of the node, for people to read
LEFT_OUT = ("too_many_members", "too_large_records", "too_many_routes")  # each is counted as a dead letter
OWN_NAMES = "give each process its own identity= or name="
# fmt: off
REPORTS = {
    # what              in words
    "doubled":          "another process has the identity of this node: {peer} says that it is at {uri}; " + OWN_NAMES,
    "duplicate":        "node {peer} at {uri} has the same identity as another process that runs, or ran; " + OWN_NAMES,
    "impostor":         "refused the hello of {peer} at {uri}: the certificate of the connection is {detail}",
    "forged":           "refused what {peer} is said to have written, and has not: {uri} passed it on",
    "unknown":          "refused the record of {peer}, whose certificate does not count: {uri} passed it on",
    "unsealed":         "refused a hello in the name of {peer} at {uri}: a member of this name lives, with another key",
    "future":           "node {peer} at {uri} is said to have started in the future: is its clock right?",
    "set_back":         "others know a later start of this node at {uri}, and ignore this one: its clock was set back; "
                        "set the clock right and start the node again",
    "too_many_members": "node {peer} at {uri} is not taken as a member: there are too many; does somebody invent them?",
    "too_large_records": "the record of {peer} at {uri} is not taken: those of all members take too much memory",
    "too_many_routes":  "routes of {peer} at {uri} are left out: those of all members take too much memory",
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
        doors: tuple[str, ...] | None = None,
        reserved: Container[bytes | str] = (),
        seals: Seals = UNSEALED,
        name: str = "",
    ) -> None:
        self._name = name
        self._identity, self._transport, self._outgoing, self._trust = identity, transport, outgoing, trust
        self._tables, self._dead, self._notices = tables, dead, notices
        self._settings, self._timing = settings, timing
        self._credits, self._consumption, self._waiting_from = credits, consumption, waiting_from
        self._on_lost, self._on_routes, self._news = on_lost, on_routes, news
        self._changes: dict[TableRoute, bool] = {}  # of this turn of the loop: whether each route is there in the end
        self._telling: dict[str, deque[tuple[Payload, bytes]]] = {}  # what is still to be said, page by page
        self._all_routes: dict[str, tuple[int, int]] = {}  # marks of the last two answers that went to each address
        self._route_counts: Counter[bytes] = Counter()  # routes of each peer
        self._asked: dict[bytes, asyncio.Future[None]] = {}  # peers whose answer is waited for
        self._heard_over = b""  # the connection of the hello that is being heard
        self._held: dict[bytes, list[tuple[Message, type[Payload]]]] = {}  # of connections that are not sure yet
        self._held_bytes = 0
        self._unproved: dict[bytes, float] = {}  # connections that a node speaks over without a hello, and since when
        self._hellos, self._doubts = Rate(HELLOS_PER_SECOND), Rate(DOUBTS_PER_SECOND)
        self._answers: dict[
            bytes, tuple[float, asyncio.TimerHandle | None]
        ] = {}  # with all routes: when the next may go
        self._entering: dict[bytes, _Entering] = {}  # routes of peers that are entered turn by turn
        self._reserved = reserved  # identities and addresses that no node may have
        self._is_closing = False
        self.departures = Departures()
        self._names: dict[bytes, str] = {}  # of peers that are met: when they are lost, nothing else has them
        self._doors = doors or ()
        self._opened: list[bytes] = []  # members that were met just now
        self._leaving: dict[str, bytes] = {}  # addresses of members whose links end in a moment
        self._proved_at = 0.0  # when keys were last looked at
        self._refused: set[bytes] = set()  # members whose certificates do not count here
        self._changes_of_files = 0
        self._dropped = b""  # the member whose link is being given up
        self._admits: Callable[[AnnouncedRoute], bool] | None = None  # which routes of peers count; all, if nobody says
        # A node that joins nobody and waits for nobody has no cluster.
        self.joining = None if doors is None else Joining(doors, settings.tempo, timing, self, seals)

    @property
    def peers(self) -> tuple[bytes, ...]:
        """The nodes that can be talked to."""
        if self.joining is None:
            return tuple(self._cluster.peers)
        return tuple(dict.fromkeys((*self._cluster.peers, *self.joining.living())))

    def unanswered(self) -> tuple[str, ...]:
        """The addresses that were given and have not answered yet."""
        given = [link.uri for link in self._cluster.links.values() if not link.node and link.tries_left is None]
        is_alone = self.joining is not None and not self.joining.living()
        return (*given, *(self._doors if is_alone else ()))

    def node_at(self, uri: str) -> bytes:
        """The node that has answered at an address that was given, or nothing."""
        link = self._cluster.links.get(uri)
        return link.node if link is not None else b""

    def health_of(self, node: bytes) -> tuple[float, int]:
        """How many seconds ago a peer was last heard, as far as that is known, and how many routes it has."""
        peer = self._cluster.peers.get(node)
        silent_ns = 0 if peer is None else max(0, self._now_ns() - peer.heard_at_ns)
        return silent_ns / NS_PER_SECOND, self._route_counts[node]

    def name_of(self, node: bytes) -> str:
        """What a node calls itself, for people to read; nobody proves it."""
        peer = self._cluster.peers.get(node)
        record = None if self.joining is None else self.joining.members.find(node)
        words = peer.capabilities if peer is not None else () if record is None else record.capabilities
        return _name_in(words) or self._names.get(node, "")

    def called(self, node: bytes) -> str:
        """Give a node in words: what it calls itself, and its identity behind it."""
        name, identity = self.name_of(node) or self.departures.name_of(node), text_or_hex(node)
        return identity if name in ("", identity) else f"{text_or_hex(name.encode())} ({identity})"

    def start(self, uri: str, incarnation: int, dial: Collection[str]) -> None:
        """Greet the addresses that are known, and begin to beat."""
        gives_credit = self._settings.overflow is Overflow.WAIT  # else what finds no room is refused
        capabilities = (TRAINS, DATED_TRAINS, *((CREDIT,) if gives_credit else ()))
        if self.joining is not None:
            capabilities = (*capabilities, MEMBERS)
        if self._name:
            capabilities = (*capabilities, f"{CALLED}{self._name}"[:WORD_CHARACTERS])
        me = Self(self._identity, incarnation, uri, self._settings.formats, capabilities)
        self._cluster = Cluster(me, self._settings.pace)
        self._dial = frozenset((*dial, *self._doors))
        if self.joining is not None:
            self.joining.start(MemberRecord(me.node, me.incarnation, 1, me.uri, me.formats, me.capabilities))
        self.announce(added=self._tables.local.public_routes())
        self._flush()
        for address in dial:
            self._step(Dialled(address))
        self._proved_at = self._timing.now()
        self._tick_at = self._timing.now() + TICK_SECONDS
        self._ticker = self._timing.loop.call_later(TICK_SECONDS, self._tick)

    def ask_first(self, admits: Callable[[AnnouncedRoute], bool]) -> None:
        """Let somebody say of each route of a peer whether the route counts."""
        self._admits = admits

    def stop(self) -> None:
        """Say goodbye."""
        self._is_closing = True
        self._ticker.cancel()
        for _, timer in self._answers.values():
            if timer is not None:
                timer.cancel()
        self._entering.clear()
        if self.joining is not None:
            self.joining.stop()
        bye = Bye(self._identity, self._cluster.me.incarnation)
        for peer in self._cluster.peers.values():
            self._say(peer.uri, bye, peer.node)

    async def settle(self, timeout: float) -> bool:
        """Wait until everything has arrived that peers sent before they knew what was announced last.

        A peer that answers a question sends nothing behind the answer that it decided on before it.
        """
        self._flush()
        if self.joining is not None:
            self.joining.urge()
        self._asked = {node: self._timing.loop.create_future() for node in self._cluster.peers}
        for peer in self._cluster.peers.values():
            self._say(peer.uri, RoutesWanted(self._identity, self._cluster.me.incarnation), peer.node)
        if not self._asked:
            return True
        _, missing = await asyncio.wait(self._asked.values(), timeout=timeout)
        return not missing

    def announce(self, added: Iterable[TableRoute] = (), removed: Iterable[TableRoute] = ()) -> None:
        """Tell the others what can be reached here, and what no longer; all of one turn of the loop together."""
        if not self._changes:
            self._timing.loop.call_soon(self._flush_some)
        for route in removed:
            self._changes[route] = False
        for route in added:
            self._changes[route] = True

    def _flush_some(self) -> None:
        """Tell what changed; of very many changes the first ones, and the others in the next turns of the loop."""
        some = dict(islice(self._changes.items(), ROUTES_TOLD_AT_ONCE))
        for route in some:
            del self._changes[route]
        if self._changes:
            self._timing.loop.call_soon(self._flush_some)
        self._tell_changes(some)

    def _flush(self) -> None:
        changes, self._changes = self._changes, {}
        self._tell_changes(changes)

    def _tell_changes(self, changes: dict[TableRoute, bool]) -> None:
        if not changes or self._is_closing:
            return
        added = tuple([_announced(route) for route, is_there in changes.items() if is_there])
        removed = tuple([_announced(route) for route, is_there in changes.items() if not is_there])
        self._step(RoutesChanged(added, removed))
        if self.joining is not None:
            self.joining.change_routes(added, removed, self._host_proofs(added))
        if self._news:
            self._news.tell(RoutesUpdated(self._identity, len(added), len(removed)))

    def announce_anew(self) -> None:
        """Tell all routes to all peers, and ask for theirs: the keys have changed that prove them."""
        self._flush()
        for peer in self._cluster.peers.values():
            self._say_all_routes(peer.uri, self._cluster.all_routes(), peer.node)
            self._say(peer.uri, RoutesWanted(self._identity, self._cluster.me.incarnation), peer.node)
        if self.joining is not None and self._trust.has_domains:
            self.joining.change_routes((), (), self._host_proofs(self._cluster.all_routes().added))
            for owner in list(self.joining.members.routes.holdings):
                self._hold_anew(owner)

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
        if field := beyond_limits(said) if payload in GOSSIP else beyond(said):
            self._dead.add(DeadLetter("bad_control", f"{field} of {payload.__name__} is beyond its limit", message))
            return
        node, speaker = self._trust.callers.nodes.get(connection), getattr(said, "node", b"")
        if speaker in self._reserved or getattr(said, "uri", "") in self._reserved:
            self._dead.add(DeadLetter("bad_control", "a node that speaks for a foreign peer", message))
        elif isinstance(said, Hello):
            self._take_hello(said, connection, message)
        elif node is not None and node == speaker and not self._trust.callers.is_sure(connection):
            self._hold(message, payload, connection)
        elif node == speaker and isinstance(said, Credit | CreditWanted):
            self._take_credit(said)
        elif isinstance(said, Doubled):
            self._take_doubled(said, connection, message)
        elif node == speaker and payload in GOSSIP and self.joining is not None:
            self.joining.take(said)
        elif node == speaker and payload in GOSSIP:
            self._dead.add(DeadLetter("bad_control", "what members say, and this node is no member", message))
        elif node == speaker and isinstance(said, RoutesWanted):
            self._answer_in_time(said)
        elif node == speaker:
            if isinstance(said, Routes):
                certificate = self._transport.certificate_of(connection)
                said = self._trust.proved(said, message, None if certificate is None else certificate.hosts)
            self._step(Heard(said))
            if isinstance(said, Routes) and not said.base:
                self._answered(said.node)
        elif isinstance(said, Beat) and node is None:
            if self._hellos.is_due(connection, self._timing.now()):
                self._step(Overheard(said))
        else:
            detail = "a node that speaks for another" if node else "a node that has not said hello"
            self._dead.add(DeadLetter("bad_control", detail, message))
            if node is None:
                self.miss_hello(connection)

    def miss_hello(self, connection: bytes) -> None:
        """Get another hello of a node that goes on to speak over a connection without a hello that is believed.

        The node does not know that its hello was refused, or is forgotten. If it has opened the connection, the
        connection is closed, and it says hello over the next one. If this node has, it is asked.
        """
        now = self._timing.now()
        if now - self._unproved.setdefault(connection, now) < HELLO_SECONDS:
            return
        self._unproved[connection] = now
        address = self._transport.address_of(connection)
        if address:
            self._say(address, self._cluster.hello(address))
        else:
            self._transport.hang_up(connection)

    def _take_hello(self, said: Hello, connection: bytes, message: Message) -> None:
        """Hear a hello, and remember who is at the other end if it is believed."""
        callers = self._trust.callers
        former = callers.nodes.get(connection)
        if said.node != (former if former in self._outgoing.met else claimed_node(connection)):
            self._dead.add(DeadLetter("bad_control", "a node that speaks for another", message))
            return
        certificate = self._transport.certificate_of(connection)
        if certificate is not None and not certificate.is_of(said.node):
            self._dead.add(DeadLetter("bad_control", f"its certificate is {certificate.shown}", message))
            self._report("impostor", shown(said.node), shown(said.uri), certificate.shown)
            self._trust.refusals.note(said.node, shown(said.uri), f"its certificate is {certificate.shown}")
            return
        if said.incarnation > time.time_ns() + FUTURE_NS:
            self._dead.add(DeadLetter("bad_control", "a start in the future: is the clock of the node right?", message))
            return
        if not self._hellos.is_due(connection, self._timing.now()):
            self._dead.add(DeadLetter("bad_control", "more hellos than a node says", message))
            return
        if said.proof:  # whoever brings it: each side may doubt the very connection that the other one asks over
            self._confirm(said)
        if not (former == said.node and callers.is_sure(connection)) and self._is_doubtful(said, connection):
            self._doubt(said, connection)
            return
        if not (former == said.node and callers.is_sure(connection)) and self._is_unsealed(said, connection, message):
            return
        self._hear(said, connection)
        peer = self._cluster.peers.get(said.node)
        if peer is None or peer.incarnation != said.incarnation:
            self._tell_double(said, connection)
            return
        callers.hear(connection, said.node)
        self._unproved.pop(connection, None)
        self._trust.transit.forget(connection)
        for held, payload in self._let_go(connection):
            self.take(held, payload, connection)
        self._transport.believe(connection)
        self._consumption.welcome(said.node)
        if said.heard == self._cluster.me.incarnation:  # who says our incarnation has heard us, and is no echo
            callers.echo(connection)
            if not self._is_contested(peer.uri, said.node):
                self._transport.prove(peer.uri, connection)

    def _hear(self, said: Hello, connection: bytes) -> None:
        self._heard_over = connection
        try:
            self._step(Heard(said))
        finally:
            self._heard_over = b""

    def _is_doubtful(self, said: Hello, connection: bytes) -> bool:
        """Tell whether a hello has to be proved: its node is connected and lives, and this may be somebody else."""
        callers = self._trust.callers
        if not callers.of(said.node) or not self._cluster.holds(said.node, self._now_ns()):
            return False
        if callers.is_proved(connection, said.proof):
            return False
        address = self._transport.address_of(connection)
        link = self._cluster.links.get(address)
        is_door = self.joining is not None and self.joining.is_door(address)  # given here, as peers are
        is_given = link is not None and (link.tries_left is None or is_door) and link.node in (b"", said.node)
        return not is_given and (not address or address != self._cluster.peers[said.node].uri)

    def _is_unsealed(self, said: Hello, connection: bytes, message: Message) -> bool:
        """Tell whether a hello in the name of a member is not proved by the member's key; then ask, or refuse it.

        A restarted process has another key. It is believed over a connection that this node opened to the address of
        the member: the process before it is not there any more. Any other connection is its own if it says so there.
        """
        me, joining = self._cluster.me, self.joining
        record = joining.members.find(said.node) if joining is not None and joining.is_living(said.node) else None
        if joining is None or record is None or not record.key:
            return False
        if joining.seals.is_sealed(
            replace(said, heard=me.incarnation), record.key, me.node
        ):  # and not for a life before
            return False
        address = self._transport.address_of(connection)
        is_own = address == record.uri or self._trust.callers.is_proved(connection, said.proof)
        if said.incarnation != record.incarnation and is_own:
            return False
        if said.incarnation == record.incarnation and said.heard != me.incarnation:  # it does not know this process yet
            hello = joining.seals.seal(self._cluster.hello(said.via, heard=said.incarnation), said.node)
            if address:
                self._say(address, hello, said.node)
            else:
                for frames in self._outgoing.first_words(b"", hello):
                    self._transport.reply(connection, frames)
            return True
        self._dead.add(DeadLetter("bad_control", "a hello that is not sealed by the key of its member", message))
        self._report("unsealed", shown(said.node), shown(said.uri), "")
        self._tell_double(said, connection)
        self._transport.hang_up(connection)
        return True

    def _sealed(self, payload: Payload, node: bytes = b"") -> Payload:
        """Seal a hello for the process that it is said to, if that one is known."""
        if self.joining is None or not isinstance(payload, Hello) or not payload.heard:
            return payload
        peers = (
            (node,)
            if node
            else [peer.node for peer in self._cluster.peers.values() if peer.incarnation == payload.heard]
        )
        return self.joining.seals.seal(payload, peers[0]) if peers else payload

    def _doubt(self, said: Hello, connection: bytes) -> None:
        """Ask the node that has the name, over a connection that is known to be its own."""
        callers, is_same = self._trust.callers, said.incarnation == self._cluster.peers[said.node].incarnation
        if is_same:
            callers.hear(connection, said.node, is_sure=False)
        if self._doubts.is_due(said.node, self._timing.now()):
            self._step(Doubted(said, callers.secret(connection)))
            if not is_same:
                self._tell_double(said, connection)

    def _hold(self, message: Message, payload: type[Payload], connection: bytes) -> None:
        """Keep what a node says over a connection that has not proved itself, until it has."""
        held, size_bytes = self._held.setdefault(connection, []), len(message.body)
        if len(held) < HELD_MESSAGES and self._held_bytes + size_bytes <= HELD_BYTES:
            held.append((message, payload))
            self._held_bytes += size_bytes
        else:
            self._dead.add(DeadLetter("bad_control", "a node that has not proved its connection", message))
        self.miss_hello(connection)

    def _let_go(self, connection: bytes) -> list[tuple[Message, type[Payload]]]:
        held = self._held.pop(connection, [])
        self._held_bytes -= sum(len(message.body) for message, _ in held)
        return held

    def _confirm(self, said: Hello) -> None:
        """Repeat a secret over the connection that it is for, if this node has opened that one."""
        uri = self._transport.opened_as(said.proof[:-CHANCE_BYTES])
        if uri:
            self._say(uri, self._cluster.hello("", heard=said.incarnation, proof=said.proof), said.node)

    def _tell_double(self, said: Hello, connection: bytes) -> None:
        """Tell a process over its own connection that another process has its identity."""
        me, peer = self._cluster.me, self._cluster.peers.get(said.node)
        where = me.uri if said.node == me.node else "" if peer is None else peer.uri
        if where and said.incarnation != me.incarnation:
            told = Doubled(me.node, me.incarnation, said.node, where)
            for frames in self._outgoing.first_words(b"", told):
                self._transport.reply(connection, frames)

    def _take_doubled(self, said: Doubled, connection: bytes, message: Message) -> None:
        node, certificate = self._trust.callers.nodes.get(connection), self._transport.certificate_of(connection)
        is_heard = node == said.node or (node is None and bool(self._transport.address_of(connection)))
        if said.doubled == self._identity and is_heard and (certificate is None or certificate.is_of(said.node)):
            self._report("doubled", shown(said.node), shown(said.uri), "")
        else:
            detail = "a node that speaks for another" if node else "a node that has not said hello"
            self._dead.add(DeadLetter("bad_control", detail, message))

    def _is_contested(self, uri: str, node: bytes) -> bool:
        """Tell whether another node that is connected says that it lives at an address."""
        return any(
            peer.uri == uri and peer.node != node and self._trust.callers.of(peer.node)
            for peer in self._cluster.peers.values()
        )

    def _answer_in_time(self, said: RoutesWanted) -> None:
        """Send all routes, at once or after a while: who asks again and again gets no more answers than the others."""
        now = self._timing.now()
        due_at, timer = self._answers.get(said.node, (0.0, None))
        if timer is not None or said.node not in self._cluster.peers:
            return
        if now < due_at:
            timer = self._timing.loop.call_later(due_at - now, self._answer_late, said)
            self._answers[said.node] = due_at, timer
            return
        self._answers[said.node] = now + ANSWER_SECONDS + self._cluster.routes.size / ROUTES_PER_SECOND, None
        self._step(Heard(said))

    def _answer_late(self, said: RoutesWanted) -> None:
        self._answers.pop(said.node, None)
        self._answer_in_time(said)

    def end(self, connection: bytes) -> None:
        """Forget who was at the other end of a connection that has ended."""
        for message, _ in self._let_go(connection):
            self._dead.add(DeadLetter("bad_control", "a node that speaks for another", message))
        self._trust.end(connection)
        self._hellos.forget(connection)
        self._unproved.pop(connection, None)

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
        """Give up the node at an address that cannot be reached any more, unless the node has a connection to here."""
        if not self._is_closing:
            for node in self._tables.remote.nodes_at(uri):
                if self._trust.callers.of(node):
                    continue
                if node in self._cluster.peers:
                    self._step(Refused(node))
                elif self.joining is not None and self.joining.is_living(node):
                    self.joining.closed(node, is_gone=True)

    # -- saying

    def first_words(self, uri: str) -> list[Frames]:
        """Say hello over a new connection to a peer: it tells who is here, and proves that this node heard the peer.

        Credit goes before a hello that waits, so the address of nobody, or of somebody who is known by another, gets
        one here too.
        """
        if self.joining is not None:
            self._look_who_is_at(uri)
        words: list[Frames] = []
        for peer in [peer for peer in self._cluster.peers.values() if peer.uri == uri]:
            hello = self._sealed(self._cluster.hello("", heard=peer.incarnation), peer.node)
            words += self._outgoing.first_words(peer.node, hello)
            for asked in self._credits.questions(peer.node, self._identity, self._cluster.me.incarnation):
                words += self._outgoing.first_words(peer.node, asked)
        if not words and uri in self._cluster.links:
            words = self._outgoing.first_words(b"", self._cluster.hello(uri))
        return words

    def _say(self, uri: str, payload: Payload, node: bytes = b"") -> None:
        telling = self._telling.get(uri)
        if telling is not None and isinstance(payload, Routes | Beat):  # they tell of what is in the pages
            telling.append((payload, node))
        else:
            self._say_now(uri, payload, node)

    def _say_now(self, uri: str, payload: Payload, node: bytes) -> None:
        payload = self._sealed(payload, node)
        nodes = (node,) if node else self._tables.remote.nodes_at(uri)
        reason, message = self._outgoing.say(uri, nodes[0] if nodes else b"", payload)
        if reason:
            self._dead.add(DeadLetter(reason, f"{type(payload).__name__} to {uri}", message))

    def _say_all_routes(self, uri: str, routes: Routes, node: bytes) -> None:
        """Send all routes, a page in each turn of the loop, unless two such answers still wait.

        What changes meanwhile goes behind the pages. Whoever asks again and again gets no more than that.
        """
        older, newer = self._all_routes.get(uri, (0, 0))
        if uri in self._telling or self._transport.is_queued(uri, older):
            return
        first, *others = pages_of(routes)
        self._say_now(uri, first, node)
        self._all_routes[uri] = newer, self._transport.mark(uri)
        if others:
            self._telling[uri] = deque((page, node) for page in others)
            self._timing.loop.call_soon(self._tell_on, uri, self._telling[uri])

    def _tell_on(self, uri: str, telling: deque[tuple[Payload, bytes]]) -> None:
        """Say what comes next to a peer that is told of very many routes."""
        if self._telling.get(uri) is not telling or self._is_closing:
            return
        self._say_now(uri, *telling.popleft())
        if telling:
            self._timing.loop.call_soon(self._tell_on, uri, telling)
        else:
            del self._telling[uri]
            older, _ = self._all_routes.get(uri, (0, 0))
            self._all_routes[uri] = older, self._transport.mark(uri)

    # -- carrying out

    def _tick(self) -> None:
        now = self._timing.now()
        late, self._tick_at = now - self._tick_at, now + TICK_SECONDS
        self._ticker = self._timing.loop.call_later(TICK_SECONDS, self._tick)
        nodes, alive = self._trust.callers.nodes, self._trust.alive
        for name in self._transport.stirred():
            if name in nodes:
                alive.add(nodes[name])
        stirred = alive.take()
        if stirred:
            self._step(Stirred(stirred))
        if self.joining is not None:
            self.joining.stir(stirred)
            if now >= self._proved_at + PROVE_SECONDS and self._trust.is_signing:
                self._prove_again(now)
                self._look_at_certificates()
            if self.joining.seals.changes != self._changes_of_files:
                self._changes_of_files = self.joining.seals.changes
                self._look_at_certificates()
            self._look_at_leaving()
        self._step(Ticked(round(max(0.0, late) * NS_PER_SECOND)))

    def _now_ns(self) -> int:
        return round(self._timing.now() * NS_PER_SECOND)

    def _return(self, node: bytes) -> None:
        """Meet a node again that was silent for too long, as soon as it says anything."""
        connections = self._trust.callers.of(node)
        self._heard_over = next(iter(connections), b"")
        self._step(Stirred((node,)))
        self._heard_over = b""
        uri = self._outgoing.address(node)
        for connection in connections:
            if uri and self._trust.callers.has_echoed(connection) and not self._is_contested(uri, node):
                self._transport.prove(uri, connection)

    def _step(self, event: Event) -> None:
        self._cluster, commands = step(self._cluster, event, self._now_ns())
        for command in commands:
            try:
                self._carry_out(command)
            except SettingsError as error:  # an address or a receiver that another node named, and that is none
                self._dead.add(DeadLetter("bad_control", str(error)))
        while self._opened and self.joining is not None:  # now that our own hello has gone there
            self.joining.opened(self._opened.pop())

    def _carry_out(self, command: Command) -> None:
        match command:
            case Connect(uri):
                if is_ipc(uri) and not (uri in self._dial or is_ipc(self._cluster.me.uri)):
                    raise SettingsError(f"{shown(uri)} is a path that another node named, and none that was given here")
                self._transport.connect(uri, self._heard_over)
            case Disconnect(uri):
                self._all_routes.pop(uri, None)
                self._telling.pop(uri, None)
                self._transport.disconnect(uri)
            case Say(uri, Routes(base=0) as payload, node):
                self._say_all_routes(uri, payload, node)
            case Say(uri, payload, node):
                self._say(uri, payload, node)
            case MeetNode(peer):
                self._trust.alive.forget(peer.node)
                self._trust.refusals.forget(peer.node)
                self._outgoing.meet(peer.node, peer.incarnation, peer.uri, _format_of(peer.formats))
                if self._leaving.pop(peer.uri, b""):  # it is needed again
                    self._transport.connect(peer.uri, self._heard_over)
                if self._is_contested(peer.uri, peer.node):  # who lives there is found out by going there
                    self._transport.dial(peer.uri)
                if TRAINS in peer.capabilities:
                    self._transport.allow_trains(peer.uri, DATED_TRAINS in peer.capabilities)
                if peer.node not in self._tables.remote:
                    self._tell_met(peer.node, peer.uri)
                if CREDIT in peer.capabilities and CREDIT in self._cluster.me.capabilities:
                    self._credits.meet(peer.node)
                    self._consumption.meet(peer.node)
                self._tables.remote.register(KnownNode(peer.node, (peer.uri,), peer.incarnation))
                self._names[peer.node] = _name_in(peer.capabilities)
                self.departures.forget(peer.node)
                if self._cluster.is_member(peer):
                    self._opened.append(peer.node)
            case LoseNode(node, reason):
                if self.joining is not None and reason != "restarted" and self.joining.is_living(node):
                    self._unlink(node, reason)
                else:
                    self._lose(node, reason)
            case ApplyRoutes(node, added, removed, is_all):
                self._apply(node, added, removed, is_all)
            case Warn(what, node, uri, detail):
                self._report(what, shown(node), shown(uri), detail)

    def _report(self, what: str, peer: str, uri: str, detail: str) -> None:
        text = REPORTS[what].format(peer=peer, uri=uri, detail=detail)
        self._notices.warn((what, peer, uri), lambda: Notice(text, {"event": what, "peer": peer, "uri": uri}))

    def _tell_met(self, node: bytes, uri: str) -> None:
        fields = {"hopwire_event": "peer_met", "hopwire_peer": shown(node), "hopwire_uri": uri}
        log.info("met node %s at %s", shown(node), shown(uri), extra=fields)
        if self._news:
            self._news.tell(PeerMet(node, uri))

    # -- the cluster

    def dial(self, uri: str, tries: int) -> None:
        """Open a connection to a member or a door, and say hello."""
        if uri != self._cluster.me.uri and not self._is_closing:
            self._step(Dialled(uri, tries))

    def open(self, node: bytes) -> bool:
        """Open a connection to a member that there is none to, because a message is for it."""
        joining = self.joining
        if joining is None or self._is_closing or not joining.is_living(node):
            return False
        record = joining.members.find(node)
        if record is None:
            return False
        self._outgoing.meet(node, record.incarnation, record.uri, _format_of(record.formats))
        self.dial(record.uri, HELLOS_TO_OPEN)
        return True

    def tell(self, node: bytes, payload: Payload) -> None:
        """Say something to a member that there is a link to."""
        peer = self._cluster.peers.get(node)
        if peer is not None:
            self._say(peer.uri, payload, node)

    def admit(self, record: MemberRecord) -> None:
        """Let a member be talked to: a connection is opened when a message is for it."""
        peer = self._cluster.peers.get(record.node)
        if peer is not None and peer.incarnation >= record.incarnation:
            return
        if self._news and record.node not in self._tables.remote:
            self._news.tell(PeerMet(record.node, record.uri))
        self._outgoing.meet(record.node, record.incarnation, record.uri, _format_of(record.formats))
        self._tables.remote.register(KnownNode(record.node, (record.uri,), record.incarnation))
        self.departures.forget(record.node)

    def dismiss(self, node: bytes, reason: str) -> None:
        """Forget a member that is gone; of one that restarted, what is known of the process before."""
        assert self.joining is not None
        peer, record = self._cluster.peers.get(node), self.joining.members.find(node)
        is_met = peer is not None and record is not None and peer.incarnation >= record.incarnation
        if reason == "restarted" and is_met:  # the process itself was quicker than the word of it
            return
        self._hang_up(node)
        self._lose(node, reason)
        self.drop(node)  # the link was to the process before: nobody is accused for its end

    def _hang_up(self, node: bytes) -> None:
        """Close the connections of a member that is given up: if it is alive after all, it comes back with a hello."""
        for connection in self._trust.callers.claimed_by(node):
            self._transport.hang_up(connection)

    def hold(
        self, owner: bytes, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...], is_all: bool
    ) -> None:
        """Enter routes of a member, as far as they count."""
        self._apply(owner, self._counted(owner, added), removed, is_all)

    def judge(self, owner: bytes, is_moved: bool) -> None:
        """Judge anew whether routes of a member count that has other proofs, or another address."""
        assert self.joining is not None
        record = self.joining.members.find(owner) if self._trust.has_domains else None
        if record is not None and (is_moved or self._trust.has_proved_more(record)):
            self._hold_anew(owner)

    def _counted(self, owner: bytes, added: tuple[AnnouncedRoute, ...]) -> tuple[AnnouncedRoute, ...]:
        """Give the routes of a member that count by the proofs of its record, and by its certificate."""
        assert self.joining is not None
        record, holding = self.joining.members.find(owner), self.joining.members.routes.holdings.get(owner)
        if record is None or owner in self._refused:
            return ()
        is_latest = holding is None or holding.version <= record.routes_version  # else a newer record is on its way
        hosts = self.joining.seals.hosts_of(record) if self._trust.has_domains else None
        return self._trust.hosted_by(record, added, hosts, is_latest)

    def _hold_anew(self, owner: bytes) -> None:
        """Enter all routes of a member that count now, in place of those that counted before."""
        assert self.joining is not None
        holding = self.joining.members.routes.holdings.get(owner)
        if holding is not None and owner != self._identity and owner in self._tables.remote:
            self._apply(owner, self._counted(owner, holding.routes()), (), True)

    def _look_at_certificates(self) -> None:
        """Judge anew whose certificates count: those who are kept out here may be members for others for a while."""
        assert self.joining is not None
        members, seals = self.joining.members, self.joining.seals
        refused = {
            record.node for record in members.living() if record.node != self._identity and not seals.counts(record)
        }
        changed, self._refused = refused ^ self._refused, refused
        for owner in changed:
            self._hold_anew(owner)

    def _look_who_is_at(self, uri: str) -> None:
        """Refuse what waits for a member if the certificate of a new connection says that somebody else lives there."""
        certificate, nodes = self._transport.certificate_at(uri), self._tables.remote.nodes_at(uri)
        if certificate is not None and nodes and not any(certificate.is_of(node) for node in nodes):
            self._transport.empty(uri)

    def _host_proofs(self, added: tuple[AnnouncedRoute, ...] = ()) -> tuple[tuple[str, bytes], ...]:
        me = self._cluster.me
        return self._trust.host_proofs(Host(me.node, me.incarnation, me.uri), added)

    def _prove_again(self, now: float) -> None:
        """Prove with the keys that are valid now, and judge by them whoever was refused: keys begin and end."""
        assert self.joining is not None
        self._proved_at = now
        self.joining.change_routes((), (), self._host_proofs())
        for owner, is_untold in self._trust.refused_hosts().items():
            if is_untold:  # the record that was on its way has come by now
                self._hold_anew(owner)
            else:
                self.judge(owner, is_moved=False)

    def refuse(self, refused: Refuse) -> None:
        """Count what its owner has not written, whose key does not count, or who claims a name that another has."""
        node, neighbour = shown(refused.node), shown(refused.neighbour)
        if refused.verdict == CLAIMED:  # as after every restart: nobody is warned
            self._dead.add(DeadLetter("name_claimed", f"node {node} lives, with another key; told by {neighbour}"))
            return
        detail = f"{refused.verdict}: what node {node} is said to have written, passed on by {neighbour}"
        self._dead.add(DeadLetter("bad_signature", detail))
        self._report(refused.verdict, node, neighbour, "")

    def rise(self, incarnation: int) -> None:
        """Go on under a later start: others know one of this node, and its clock was set back since."""
        assert self.joining is not None
        for part in (self._outgoing, self._consumption, self._trust):
            part.rise(incarnation)
        self._step(Risen(incarnation))
        self.joining.change_routes((), (), self._host_proofs(self._cluster.all_routes().added))
        text = "others know a later start of this node: its clock was set back, and it goes on above that start"
        self._notices.warn(("risen",), lambda: Notice(text, {"event": "risen"}))

    def warn(self, warning: Warn) -> None:
        """Tell people what is wrong in the cluster, and count what is left out."""
        if warning.what in LEFT_OUT:
            self._dead.add(DeadLetter("bad_control", f"{warning.what}: {shown(warning.node)}"))
        self._report(warning.what, shown(warning.node), shown(warning.uri), warning.detail)

    def release(self, nodes: Iterable[bytes], seconds: float) -> None:
        """Close links over which nothing was said for so long, in either direction."""
        for node in nodes:
            peer = self._cluster.peers.get(node)
            if peer is not None and self._transport.is_idle(peer.uri, seconds):
                self._step(Released(node))

    def _is_leaving(self, uri: str) -> bool:
        """Tell whether a link ends in a moment."""
        link = self._cluster.links.get(uri)
        return link is not None and link.tries_left == 0

    def _look_at_leaving(self) -> None:
        """Say hello over links that end in a moment if something was sent over them since the goodbye."""
        for uri, node in list(self._leaving.items()):
            is_leaving = self._is_leaving(uri) and node not in self._cluster.peers
            is_idle = self._transport.is_idle(uri, LEAVE_SECONDS)
            if is_leaving and is_idle:
                continue
            del self._leaving[uri]
            if is_leaving:
                self.dial(uri, HELLOS_TO_OPEN)

    def is_used(self, node: bytes, seconds: float) -> bool:
        """Tell whether something waits for a member that there is a link to, or was sent to it within that time."""
        peer = self._cluster.peers.get(node)
        return peer is not None and not self._transport.is_idle(peer.uri, seconds)

    def drop(self, node: bytes) -> None:
        """Give up a link over which nothing comes; the member may still be there for others."""
        self._dropped = node
        self._step(Refused(node))
        self._dropped = b""

    def owners_of(self, contract: Contract) -> list[bytes]:
        """Give the nodes that handle a contract, this one among them."""
        found = self._tables.candidates.get(contract)
        if found is None:
            return []
        is_own = any(not route.is_local_only for route in self._tables.local.handlers_of(contract))
        return [*([self._identity] if is_own else ()), *found.remote]

    def knows_domain_of(self, identity: bytes) -> bool:
        """Tell whether this node can judge who may handle a contract."""
        return self._trust.knows_domain_of(identity)

    def _unlink(self, node: bytes, reason: str) -> None:
        """The connection to a member is gone, and the member is not: its routes stay."""
        assert self.joining is not None
        record = self.joining.members.find(node)
        uri = self._outgoing.address(node)
        if reason == "unreachable":
            self._hang_up(node)
            self._trust.callers.forget(node)
        self._transport.forbid_trains(uri)  # the next hello says again who reads them
        if self._is_leaving(uri):
            self._transport.leave(uri)
            self._leaving[uri] = node
        self._credits.forget(node)
        self._consumption.forget(node)
        self._answered(node)
        if record is not None:
            self._outgoing.meet(node, record.incarnation, record.uri, _format_of(record.formats))
            self._tables.remote.register(KnownNode(node, (record.uri,), record.incarnation))
        if reason == "unreachable":
            self._on_lost(node, reason)
        self.joining.closed(node, is_gone=reason == "unreachable" and node != self._dropped)

    def _lose(self, node: bytes, reason: str) -> None:
        is_known = node in self._tables.remote
        uri = self._outgoing.address(node)
        if is_known:  # a member that is dismissed loses its link too, and is lost once
            self._tell_lost(node, uri, reason)
        self._tables.remote.unregister_node(node)
        del self._route_counts[node]
        self._trust.forget_host(node)
        self._entering.pop(node, None)
        _, timer = self._answers.pop(node, (0.0, None))
        if timer is not None:
            timer.cancel()
        if reason == "silent":  # what was said in time may still be read
            self._trust.alive.miss(node, partial(self._return, node))
        else:
            self._trust.callers.forget(node)
        self._outgoing.lose(node)
        if self._is_leaving(uri):
            self._transport.leave(uri)
        self._credits.forget(node)
        self._consumption.forget(node)
        self._answered(node)
        self._on_lost(node, reason)
        if self._news and is_known:
            self._news.tell(PeerLost(node, reason))
        if self.joining is not None:
            self.joining.closed(node, is_gone=False)

    def _tell_lost(self, node: bytes, uri: str, reason: str) -> None:
        """Remember who is gone and why, and tell it to people."""
        accusers = () if self.joining is None else self.joining.members.accusers_of(node)
        gone = Departed(node, self.name_of(node), uri, self._timing.now(), reason, accusers)
        self._names.pop(node, None)
        if reason != "restarted":  # its next life is there
            self.departures.note(gone)
        fields = {"hopwire_event": "peer_lost", "hopwire_peer": shown(node), "hopwire_uri": uri}
        log.info("lost node %s at %s: %s", shown(node), shown(uri), why(gone), extra=fields)

    def _apply(
        self, node: bytes, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...], is_all: bool
    ) -> None:
        if is_all:  # what was announced before counts no more
            self._entering.pop(node, None)
        waiting = self._entering.get(node)
        if waiting is None:
            waiting = self._entering[node] = _Entering()
            waiting.add(self._enter(node, added, removed, is_all), len(added) + len(removed))
            waiting.has_removed = bool(removed)
            self._enter_some(node, waiting)
        elif self._is_trusted(node) or waiting.routes + len(added) + len(removed) <= self._settings.peer_routes:
            waiting.add(self._enter(node, added, removed, is_all), len(added) + len(removed))
            waiting.has_removed |= bool(removed)
        elif not waiting.has_removed and not removed:  # pages of more routes than a peer may have
            self._refuse_routes(node)
        else:  # faster than routes can be entered: once all of them is less
            del self._entering[node]
            self._outgoing.tell(node, RoutesWanted(self._identity, self._cluster.me.incarnation))

    def _refuse_routes(self, node: bytes) -> None:
        detail = f"{shown(node)} has more than {self._settings.peer_routes} routes"
        self._dead.add(DeadLetter("bad_control", detail))

    def _is_trusted(self, node: bytes) -> bool:
        """Tell whether routes come through the cluster: they fit a hash, and are asked for a page at a time."""
        return self.joining is not None and self.joining.is_living(node)

    def _enter_some(self, node: bytes, waiting: _Entering) -> None:
        """Enter some routes of a peer, and the others in the next turns of the loop, in their order."""
        if self._entering.get(node) is not waiting:  # the node is gone, or has announced all anew
            return
        if waiting.go_on():
            self._timing.loop.call_soon(self._enter_some, node, waiting)
        else:
            del self._entering[node]
        self._on_routes()

    def _enter(
        self, node: bytes, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...], is_all: bool
    ) -> Iterator[None]:
        """Enter what a peer has announced into the tables, with a pause now and then."""
        known = self._tables.remote.node(node)
        if known is None:
            return
        table, counts = self._tables.remote, self._route_counts
        if is_all:  # what stays is there all the time
            stays = frozenset(added)
            removed = tuple([route for route in map(_announced, table.routes_of(node)) if route not in stays])
        for number, (receiver, identity, version, partition) in enumerate(removed, 1):
            contracts = [Contract(identity, version, partition)] if identity else None
            counts[node] -= len(table.unregister(node, receiver, contracts))
            if node not in table.nodes_of(receiver):
                self._credits.drop(node, receiver)
            if not number % ROUTES_AT_ONCE:
                yield
        for number, route in enumerate(added if self._admits is None else filter(self._admits, added), 1):
            if counts[node] >= self._settings.peer_routes:
                self._refuse_routes(node)
                break
            receiver, identity, version, partition = route
            contracts = [Contract(identity, version, partition)] if identity else []
            try:
                if not is_route(route):
                    raise SettingsError(f"a route of {shown(receiver)} is beyond its limit")
                counts[node] += len(table.register(known, receiver, contracts))
            except SettingsError as error:  # a receiver that is neither hub nor actor; the others count
                self._dead.add(DeadLetter("bad_control", str(error)))
            if not number % ROUTES_AT_ONCE:
                yield
        if self._news:
            self._news.tell(RoutesUpdated(node, len(added), len(removed), is_all))


class _Entering:
    """What one peer has announced, and what of it is not in the tables yet."""

    def __init__(self) -> None:
        self.routes = 0
        self.has_removed = False  # whether any of the changes takes routes away
        self._changes: deque[tuple[Iterator[None], int]] = deque()

    def add(self, change: Iterator[None], routes: int) -> None:
        self._changes.append((change, routes))
        self.routes += routes

    def go_on(self) -> bool:
        """Do a piece of the work, and tell whether there is more."""
        change, routes = self._changes[0]
        for _ in change:
            return True
        self._changes.popleft()
        self.routes -= routes
        return bool(self._changes)


def _name_in(words: Iterable[str]) -> str:
    """Give what a node calls itself among its capabilities."""
    return next((word.removeprefix(CALLED) for word in words if word.startswith(CALLED)), "")


def _format_of(numbers: Iterable[int]) -> WireFormat:
    """Give the newest format that a node reads."""
    readable = [BY_NUMBER[number] for number in numbers if number in BY_NUMBER]
    return max(readable, key=lambda fmt: fmt.number, default=V6)


def _announced(route: TableRoute) -> AnnouncedRoute:
    contract = route.contract
    if contract is None:
        return (route.receiver, b"", 0, b"")
    assert isinstance(contract.version, int)
    return (route.receiver, contract.identity, contract.version, contract.partition)

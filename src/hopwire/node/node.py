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
import logging
import math
import os
import struct
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict

from hopwire.cluster.seals import UNSEALED, Seals
from hopwire.domains_file import DomainsFile
from hopwire.errors import Closed, Escalated, HopwireError, NoRoute, SettingsError
from hopwire.model import Contract, Payload, contract_of
from hopwire.model.choice import Choice, Choose
from hopwire.model.names import ACTOR, FEEDS, FOREIGN, HUB
from hopwire.model.payload import class_name_of, rule_of
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.abroad import Abroad, Surroundings
from hopwire.node.actors import Actor, ExecutorKind, Supervision
from hopwire.node.admission import LOOK_SECONDS
from hopwire.node.border_crossing import Shore
from hopwire.node.calls import Address, Handled
from hopwire.node.context import BlockingContext, Context, MessageContext
from hopwire.node.credit import Consumption, Credits
from hopwire.node.dead import DeadLetters
from hopwire.node.envelope import Envelope
from hopwire.node.feeds import Feeds
from hopwire.node.foreign import Foreign, foreign_from
from hopwire.node.foreign_peers import ForeignPeers
from hopwire.node.gateway import Gateway, PartnerStatus
from hopwire.node.hub import Hub
from hopwire.node.kept_identity import KeptIdentity
from hopwire.node.latencies import Latencies
from hopwire.node.loads import Loads
from hopwire.node.mailbox import Mailbox, Overflow
from hopwire.node.membership import Membership
from hopwire.node.news import Events, KeysMoved, News
from hopwire.node.no_route import Surmise, why_nobody
from hopwire.node.node_checks import check_domains, check_doors, check_node, refuse_text, supervision_from
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.overview import Overview
from hopwire.node.partner import Partner, PartnersFile, partners_from
from hopwire.node.post import Incoming, Outgoing
from hopwire.node.retries import Retries
from hopwire.node.router import Router
from hopwire.node.running import Running, Workplace
from hopwire.node.seen import SeenMessages
from hopwire.node.settings import NodeSettings, Statistics
from hopwire.node.spawn import words_of
from hopwire.node.streams import Streams
from hopwire.node.supervision import end_lives
from hopwire.node.tap import Tap
from hopwire.node.telemetry import Telemetry
from hopwire.node.threads import Threads
from hopwire.node.timing import Timing
from hopwire.node.transport import Frames, OutboxLimits, Tls, Transport
from hopwire.node.trust import Trust
from hopwire.routing import Route as TableRoute
from hopwire.routing import Tables
from hopwire.security import OPEN, Domains, Recipient

if TYPE_CHECKING:
    from hopwire.capture import CaptureStatus, ShipStatus

__all__ = ["Node", "NodeOptions"]

log = logging.getLogger("hopwire.node")

MOST_OF_A_HEADER = 256  # bytes that are kept free for what is said beside the body
UNHOST_SECONDS = 10.0
ESCALATED_SECONDS = 1.0  # for a node that stops because of an actor, as for a node that is stopped
HANDLER_WAIT_SECONDS = 5.0  # for room: actors that wait for each other in a circle go on after it
KEYS_AT_A_TIME = 256  # one call of the system for all of them costs as much as for one
SIGNED = int.from_bytes(struct.pack("<Q", 2**63 - 1) * KEYS_AT_A_TIME, "little")  # the bits of keys of 63 bits each
LAST_DIGITS = tuple([b"%02x" % each for each in range(256)])  # of ids that follow one another


OPEN_TO_ALL = (
    "%s is open to all who can reach it: everybody may ask, answer and take the place of a node; give the node "
    "domains with keys (domains=...), a certificate (tls=...), or an address on 127.0.0.1; or say insecure=True"
)
ANSWERS_ALL = (
    "%s is open to all who can reach it, and answer_foreign would answer them all: give the node domains with keys "
    "(domains=...), a certificate (tls=...), or an address on 127.0.0.1"
)
NOT_VOUCHED = "the certificate of this node is not one of its own authority, or not valid now: nobody will let it in"
SEALS_NEED = (
    "a member of a cluster with security signs what it says of itself, which needs the package cryptography: "
    "pip install 'hopwire[cluster]'"
)
NO_IDENTITY = (
    "the capture of this node has no identity that lasts: after a restart it is another node for whoever reads the "
    "capture; give the node a name (name=...) or an identity (identity=...)"
)
IS_OPEN = "%s is open to all who can reach it, as insecure=True allows"


class NodeOptions(TypedDict, total=False):
    """What can be said of a node beside the address where it listens; see `Node`."""

    advertise: str
    peers: Iterable[str]
    join: Iterable[str] | None
    identity: bytes | None
    name: str
    capture: str | Path | None
    capture_local: bool
    ship: str | None
    keep_shipped: bool
    domains: Domains | str | Path
    tls: Tls | None
    insecure: bool
    foreign: Iterable[Foreign]
    partners: Iterable[Partner] | str | Path
    settings: NodeSettings | None
    transport: Transport | None


class Node:
    """One node of the network.

    `listen` is where others reach the node, `advertise` what they are told where that differs, `peers` whom the node
    greets first. `join` names doors of a cluster, which are addresses of any of its members, or DNS names: through one
    of them a node finds all members; without a door (`join=[]`) the node waits to be found. A node with a `capture` and
    a `name` keeps its identity across restarts. With `capture_local` the capture also has what actors and hubs of the
    node say to each other. A node without `domains` that sign and without `tls` listens on this
    machine only, unless `insecure` says otherwise. `domains` may be the path of a file: then the node sees when the
    file changes, as it does with the files of `tls`. `foreign` are programs that are no nodes, which the node dials and
    talks to in their format. `partners` are networks of others that the node is a gateway to, or the path of their
    file, which the node looks at again and again.
    """

    def __init__(
        self,
        listen: str = "tcp://127.0.0.1:0",
        *,
        advertise: str = "",
        peers: Iterable[str] = (),
        join: Iterable[str] | None = None,
        identity: bytes | None = None,
        name: str = "",
        capture: str | Path | None = None,
        capture_local: bool = False,
        ship: str | None = None,
        keep_shipped: bool = True,
        domains: Domains | str | Path = OPEN,
        tls: Tls | None = None,
        insecure: bool = False,
        foreign: Iterable[Foreign] = (),
        partners: Iterable[Partner] | str | Path = (),
        settings: NodeSettings | None = None,
        transport: Transport | None = None,
    ) -> None:
        self._domains_file = DomainsFile(domains) if isinstance(domains, str | Path) else None
        given: Any = domains if self._domains_file is None else self._domains_file.domains
        self._tls = tls
        self._certificate = tls.own() if isinstance(tls, Tls) else None
        self._is_vouched = not isinstance(tls, Tls) or self._certificate is not None
        if identity is None and self._certificate is not None:
            identity = self._certificate.node
        self._kept = KeptIdentity(capture, name) if identity is None and capture is not None and name else None
        self._is_passing = identity is None and capture is not None and not name  # another node after a restart
        self.identity = self._own_identity() if identity is None else identity
        self.name = name
        self.settings = settings or NodeSettings()
        refuse_text(peers)
        refuse_text(join, "join")
        self._dial = tuple(peers)
        self._doors = None if join is None else tuple(join)
        check_doors(self._doors or (), is_tcp=transport is None)
        check_node(self.identity, self._dial, given, self.settings, tls, is_tcp=transport is None)
        self._foreign = foreign_from(foreign, self.identity, listen, self._dial, tls is not None)
        self._incarnation = time.time_ns()
        if capture_local and capture is None:
            raise SettingsError("capture_local needs a capture: name its directory with capture=...")
        if ship is not None and capture is None:
            raise SettingsError("ship needs a capture: name its directory with capture=...")
        self._tap = (
            None
            if capture is None
            else Tap(capture, self.identity, self._incarnation, name, ship, keep_shipped=keep_shipped)
        )
        self._is_local_captured = capture_local
        self.uri = ""
        self._domains: Domains = given
        outbox = _outbox_limits(self.settings)
        limits = self.settings.limits
        self._timing = Timing()
        gone_seconds = self.settings.pace.gone_ns / NS_PER_SECOND
        self._transport = transport or Streams(
            self.identity, listen, outbox, advertise, limits, tls, gone_seconds, self._timing.waking
        )
        if self._transport.open_address and not self._domains.signing and not insecure:
            raise SettingsError(OPEN_TO_ALL % self._transport.open_address)
        if self._transport.open_address and not self._domains.signing and self.settings.answer_foreign:
            raise SettingsError(ANSWERS_ALL % self._transport.open_address)
        self._build()
        self._actors: dict[int, Running] = {}
        self._hubs: dict[bytes, Hub] = {}
        self._shared_hub: Hub | None = None  # what everybody gets who asks for no hub of their own
        self._flow_hub: Hub | None = None  # what handlers speak through
        self._stopping: asyncio.Task[None] | None = None
        self._watchers: dict[asyncio.Future[None], None] = {}
        self._closed = asyncio.Event()
        self._escalated: Escalated | None = None
        self._tells_dead, self._is_draining = False, False
        self._state = "new"
        self._partners_file = PartnersFile(partners) if isinstance(partners, str | Path) else None
        given = partners if self._partners_file is None else self._partners_file.partners
        self._on_lose: list[Callable[[bytes, str], None]] = []  # those who hear that a node is lost
        self._on_routes: list[Callable[[], None]] = []  # those who hear that routes have changed
        self._gateways: dict[str, tuple[Gateway, Node]] = {}
        for partner in partners_from(given):
            self._gateways[partner.name] = self._new_gateway(partner, capture)

    def _new_gateway(self, partner: Partner, capture: str | Path | None) -> tuple[Gateway, Node]:
        """Make the border node of a partner network, and join it with this node."""
        own, tls = self.settings, partner.tls
        certificate = None if tls is None else tls.own()
        identity = partner.identity or (None if certificate is None else certificate.node)
        settings = replace(
            own,
            peer_routes=partner.routes,
            inbox_messages=partner.messages,
            inbox_bytes=partner.size_bytes,
            answer_foreign=False,
            latencies=False,
        )
        try:
            border = Node(
                partner.listen,
                advertise=partner.advertise,
                peers=partner.gateways,
                identity=identity or b"%s@%s" % (self.identity, partner.name.encode()),
                name=f"{self.name}@{partner.name}" if self.name else "",
                capture=capture,
                domains=partner.domains,
                tls=tls,
                insecure=partner.insecure,
                settings=settings,
                transport=partner.transport,
            )
        except SettingsError as error:
            raise SettingsError(f"partner {partner.name}: {error}") from None
        room = own.inbox_messages, own.inbox_bytes
        routes, counts = border._membership, border._membership._route_counts
        gateway = Gateway(
            partner,
            self._shore(),
            border._shore(),
            self._timing,
            _guid,
            lambda: routes.announce_anew() if border._state == "running" else None,
            counts.total,
            room,
        )
        routes.ask_first(gateway.admits)
        self._on_lose.append(gateway.lose_inside)
        border._on_lose.append(gateway.lose_outside)
        self._on_routes.append(gateway.look_soon)
        border._on_routes.append(gateway.look_soon)
        return gateway, border

    def _shore(self) -> Shore:
        """Give what a crossing to another network needs of this node."""
        return Shore(
            self.identity, self._router, self._tables, self._announce, self._feeds.onward, _new_keys(), self._tap
        )

    def _own_identity(self) -> bytes:
        return _guid() if self._kept is None else self._kept.read(_guid())

    def _build(self) -> None:
        """Make the parts of the node, each with those that it needs: what leaves, who decides, what arrives."""
        here, settings, tap, timing = self.identity, self.settings, self._tap, self._timing
        self._retries = Retries()
        self._loads = Loads()
        self._tables = Tables(settings.node_turns, settings.sticky_callers, self._loads.of)
        self._dead, notices = DeadLetters(), Notices(timing.now)
        self._notices = notices
        self._news = News()
        self.latencies = Latencies() if settings.latencies else None
        self._credits = credits = Credits(self._hear_room)
        self._outgoing = Outgoing(
            here, self._transport, self._domains, timing, credits, self._incarnation, self._open_link
        )
        self._consumption = consumption = Consumption(
            here, self._incarnation, settings.inbox_messages, settings.inbox_bytes, self._outgoing.tell
        )
        seen = SeenMessages(settings.seen_messages)
        me = Recipient(here, self._incarnation)
        self._trust = trust = Trust(
            self._domains, settings, self._dead, notices, self._outgoing.met, me, self._transport.certificate_of
        )
        self._router = Router(
            here,
            self._tables,
            self._outgoing,
            self._dead,
            timing,
            seen,
            consumption,
            hop_limit=settings.hop_limit,
            waits_for_room=settings.overflow is Overflow.WAIT,
            is_express=settings.express,
            telemetry=Telemetry() if settings.telemetry else None,
            why_nobody=self._why_nobody,
            called=self._called,
            seek=None if self._doors is None else self._seek,
            saw_local=tap.saw_local if tap is not None and self._is_local_captured else None,
        )
        self._feeds = Feeds(self._router, _new_ids())
        self._router.open_home(FEEDS, self._feeds)
        self._foreign_peers = ForeignPeers(
            self._foreign,
            self._transport,
            self._outgoing,
            self._tables,
            self._lose,
            self._wake_watchers,
            self._news,
        )
        self._membership = Membership(
            here,
            self._transport,
            self._outgoing,
            trust,
            credits,
            consumption,
            self._router.waiting_from,
            self._tables,
            self._dead,
            notices,
            settings,
            timing,
            self._lose,
            self._wake_watchers,
            self._news,
            self._doors,
            self._foreign_peers.reserved,
            self._seals(),
            self.name,
        )
        self._workplace = Workplace(
            here,
            self._router,
            self._context,
            self._feeds,
            self._news,
            notices,
            Threads(),
            self._route,
            self._unroute,
            self._escalate,
            self.latencies,
        )
        self._abroad = self._new_abroad() if settings.answer_foreign or self._foreign else None
        self._incoming = Incoming(
            self._router, self._membership, trust, self._dead, seen, settings, timing, tap, self._abroad
        )

    def _seals(self) -> Seals:
        """Give what signs the records of a member: its certificate, a key of its own, or nothing without security."""
        if self._doors is None or (self._tls is None and not self._domains.signing):
            return UNSEALED
        try:
            from hopwire.node.owner_seals import CertifiedSeals, OwnSeals
        except ImportError:
            raise SettingsError(SEALS_NEED) from None
        if self._tls is None or self._tls.any_identity:
            return OwnSeals()
        return CertifiedSeals(self._tls, self.identity)

    def _hear_room(self, node: bytes, line: bytes) -> None:
        self._router.call_away(node, line)

    def _open_link(self, node: bytes) -> bool:
        return self._membership.open(node)

    async def _seek(self, contract: Contract, is_there: Callable[[], bool]) -> None:
        assert self._membership.joining is not None
        await self._membership.joining.seek(contract, is_there)

    def _new_abroad(self) -> Abroad:
        """Let programs in that are no nodes: those that were named, and those that ask if they are to be answered."""
        around = Surroundings(
            self.identity,
            self._transport,
            self._outgoing,
            self._tables,
            self._dead,
            self._timing,
            self.settings.limits,
            _new_keys(),
            self.settings.answer_foreign,
            bool(self._domains.signing),
        )
        abroad = Abroad(around, self._foreign_peers)
        self._router.open_home(FOREIGN, abroad)
        self._tables.local.register(FOREIGN, is_local_only=True)
        return abroad

    # -- life

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if self._escalated is not None and (error is None or isinstance(error, HopwireError)):
            raise self._escalated

    async def start(self) -> None:
        """Begin to listen, dial the peers, and let the actors work."""
        if self._state != "new":
            raise Closed(f"the node is {self._state}; a node is started once")
        self._timing.start()
        self.uri = self._transport.start(
            self._incoming.take_frames,
            self._incoming.take_refused,
            self._miss if self._foreign else self._membership.miss,
            self._first_words if self._foreign else self._membership.first_words,
            self._membership.end if self._abroad is None else self._end_connection,
            None if self._tap is None else self._tap.saw_sent,
        )
        if self._transport.open_address and not self._domains.signing:
            log.warning(IS_OPEN, self._transport.open_address, extra={"hopwire_event": "open_to_all"})
        if not self._is_vouched:
            log.warning(NOT_VOUCHED, extra={"hopwire_event": "not_vouched"})
        if self._is_passing:
            log.warning(NO_IDENTITY, extra={"hopwire_event": "no_identity"})
        self._outgoing.start(self.uri)
        self._membership.start(self.uri, self._incarnation, self._dial)
        self._foreign_peers.start()
        if self._tap is not None:
            self._dead.subscribe(self._tap.saw_dead)
            self._tap.start()
        self._state = "running"
        if self._domains_file is not None or self._partners_file is not None:
            self._looking = self._timing.loop.call_later(LOOK_SECONDS, self._look)
        await self._start_actors(tuple(self._actors.values()))
        for name, (gateway, border) in self._gateways.items():
            try:
                await border.start()
            except SettingsError as error:  # an address that somebody else has
                await self.stop(0)
                raise SettingsError(f"partner {name}: {error}") from None
            gateway.look_soon()

    async def _start_actors(self, actors: Iterable[Running]) -> None:
        """Start those that were hosted before; who is hosted meanwhile is started at once."""
        async for running in self._timing.share.spread(actors):
            if self._state != "running":
                raise Closed("the node was stopped while it started")
            if not running.inbox.is_closed:
                running.start()

    async def stop(self, timeout: float = 1.0) -> None:
        """Say goodbye, stop the actors, end every promise; it ends soon after the timeout, whatever others do.

        Whoever stops a node that is being stopped waits until it is.
        """
        if self._state == "new":
            self._state = "stopped"
            if self._kept is not None:
                self._kept.close()
            self._news.end()
            self._closed.set()
        self._begin_to_stop(timeout)
        if self._stopping is not None:
            await asyncio.shield(self._stopping)

    def _begin_to_stop(self, timeout: float) -> None:
        if self._state == "running":
            self._state = "stopping"
            self._stopping = asyncio.ensure_future(self._stop(timeout))

    async def wait_closed(self) -> None:
        """Wait until the node has stopped; an `Escalated` says that the node stopped because of an actor."""
        await self._closed.wait()
        if self._escalated is not None:
            raise self._escalated

    async def _stop(self, timeout: float) -> None:
        hubs = list(self._hubs.values())
        for hub in hubs:
            hub.close()
        while any(hub.is_ending for hub in hubs):
            await asyncio.sleep(0)
        await self._end_actors(self._actors.values(), "closed", timeout)
        if self._abroad is not None:
            self._abroad.stop()
        if self._domains_file is not None or self._partners_file is not None:
            self._looking.cancel()
        for gateway, border in self._gateways.values():
            gateway.stop()
            await border.stop(timeout)
        self._membership.stop()
        await self._transport.close(timeout)
        if self._tap is not None:
            await self._tap.stop()
        if self._kept is not None:
            self._kept.close()
        self._state = "stopped"
        self._news.end()
        self._closed.set()

    async def _end_actors(self, actors: Iterable[Running], reason: str, timeout: float) -> None:
        actors, share = tuple(actors), self._timing.share
        async for _ in share.spread(chain.from_iterable(running.close(reason) for running in actors)):
            pass
        await end_lives([running.life for running in actors], timeout, share)

    async def drain(self, timeout: float = 10.0) -> bool:
        """Take no new work from other nodes and wait until the actors are idle; tells whether they are."""
        self._refuse_unless_running()
        for gateway, _ in self._gateways.values():
            gateway.drain()
        gone = [route for route in self._tables.local.public_routes() if route.contract is not None]
        self._is_draining = True
        for route in gone:  # keys go to actors that stay, if there are any
            self._tables.local.register(route.receiver, [route.contract] if route.contract else [], is_local_only=True)
        self._announce(removed=gone)
        give_up_at = self._timing.now() + timeout
        await self._membership.settle(timeout)
        for _, border in self._gateways.values():
            await border._membership.settle(max(0.0, give_up_at - self._timing.now()))
        while not self._is_idle():
            if self._timing.now() >= give_up_at:
                return False
            await asyncio.sleep(0.01)
        return True

    def _is_idle(self) -> bool:
        is_idle = all(running.is_idle for running in self._actors.values())
        return is_idle and all(gateway.is_idle for gateway, _ in self._gateways.values())

    def reload(self, domains: Domains | None = None) -> None:
        """Look at the files of domains, certificates and lists now, or take other domains; open connections stay.

        A SettingsError says what is wrong with the domains, and then those of before still count. Whether messages are
        signed at all does not change while a node runs.
        """
        self._refuse_other_thread()
        if self._state == "running":
            self._transport.reload()
        if self._partners_file is not None and self._partners_file.look():
            self._use_lists(self._partners_file.partners)
        if domains is None and self._domains_file is not None and self._domains_file.look():
            domains = self._domains_file.domains
        if domains is not None:
            self._use(domains)

    def _look(self) -> None:
        self._looking = self._timing.loop.call_later(LOOK_SECONDS, self._look)
        try:
            self.reload()
        except SettingsError as error:
            text = f"the settings of before still count: {error}"
            self._notices.warn(("domains", text), lambda: Notice(text, {"event": "unreadable"}))

    def allow(self, partner: str, *, export: Iterable[str] | None = None, import_: Iterable[str] | None = None) -> None:
        """Change what may cross to and from a partner network; a list that is not given stays.

        What is not on its list any more is gone at once, on both sides.
        """
        self._refuse_other_thread()
        self._gateway_to(partner)[0].allow(export, import_)
        fields = {"hopwire_event": "lists_changed", "hopwire_partner": partner}
        log.info("the lists of partner %s have changed", partner, extra=fields)

    def _use_lists(self, partners: Iterable[Partner]) -> None:
        """Take the lists of a file that has changed; a partner that is gone from it may use nothing any more."""
        lists = {each.name: (each.export, each.import_) for each in partners}
        for name in self._gateways:
            export, import_ = lists.pop(name, ((), ()))
            self.allow(name, export=export, import_=import_)
        for name in lists:
            log.warning("partner %s is new, and is met when this node starts again", name)

    def border(self, partner: str) -> Node:
        """Give the border node of a partner network: its address, its peers, its dead letters."""
        return self._gateway_to(partner)[1]

    def _gateway_to(self, partner: str) -> tuple[Gateway, Node]:
        if partner not in self._gateways:
            known = ", ".join(sorted(self._gateways)) or "none"
            raise SettingsError(f"there is no partner {partner!r:.80}; the partners of this node: {known}")
        return self._gateways[partner]

    def partners(self) -> list[PartnerStatus]:
        """Give how this node does as a gateway to partner networks."""
        return [
            gateway.status(border.identity, border.uri, border.peers) for gateway, border in self._gateways.values()
        ]

    def _use(self, domains: Domains) -> None:
        check_domains(domains)
        if domains.signing is not self._domains.signing:
            raise SettingsError("whether messages are signed cannot change while a node runs: start it again")
        self._domains = domains
        self._outgoing.use(domains)
        self._trust.use(domains)
        self._incoming.forget_known()
        for hub in self._hubs.values():
            hub.use(domains)
        if self._state == "running":
            self._membership.announce_anew()
            log.info("the domains were read anew", extra={"hopwire_event": "domains_read"})

    @property
    def dead_letters(self) -> DeadLetters:
        """What went no further, counted by reason."""
        return self._dead

    def events(self) -> Events:
        """Give what happens to this node from now on, as an async iterator that ends when the node has stopped."""
        self._refuse_other_thread()
        if not self._tells_dead:
            self._tells_dead = True
            self._dead.subscribe(self._news.saw_dead)
        return self._news.read()

    def statistics(self) -> Statistics:
        """Give the counts of this node."""
        inboxes = [running.inbox for running in self._actors.values()]
        outbox_messages, outbox_bytes = self._transport.waiting()
        return Statistics(
            messages_in=self._incoming.message_count,
            messages_out=self._outgoing.message_count,
            bytes_in=self._incoming.byte_count,
            bytes_out=self._outgoing.byte_count,
            peers=len(self.peers),
            actors=len(self._actors),
            open_promises=sum(hub.open_promises for hub in self._hubs.values()),
            inbox_messages=sum(map(len, inboxes)),
            inbox_bytes=sum(inbox.size_bytes for inbox in inboxes),
            outbox_messages=outbox_messages,
            outbox_bytes=outbox_bytes,
            dead_letters=dict(self._dead.counts),
        )

    @property
    def capture_status(self) -> CaptureStatus | None:
        """How much of the traffic was captured, if it is."""
        return self._tap.status if self._tap is not None else None

    @property
    def ship_status(self) -> ShipStatus | None:
        """How many segments of the capture were shipped elsewhere, if they are."""
        return self._tap.ship_status if self._tap is not None else None

    @property
    def peers(self) -> tuple[bytes, ...]:
        """The nodes that can be talked to."""
        return (*self._membership.peers, *self._foreign_peers.there) if self._state == "running" else ()

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The addresses that were given to this node and have not answered yet."""
        return self._membership.unanswered() if self._state == "running" else ()

    def node_at(self, uri: str) -> bytes:
        """Give the node that has answered at an address that was given to this node, or nothing."""
        return self._membership.node_at(uri) if self._state == "running" else b""

    def overview(self) -> Overview:
        """Give what this node knows of others: for those who look at it."""
        self._refuse_unless_running()
        membership = self._membership
        gone = membership.departures.listed(self._timing.now())
        return Overview(self._tables, self._credits, membership.health_of, membership.name_of, gone)

    # -- actors and hubs

    def host(
        self, actor: Actor, *, partition: bytes = b"", local_only: bool = False, supervision: str | None = None
    ) -> Address:
        """Let an actor take messages, and give its address; `supervision` takes the place of what its class says."""
        self._refuse_if_closed()
        if isinstance(actor, type):
            raise SettingsError(f"expected an instance of {actor.__name__}, found the class itself")
        if not isinstance(partition, bytes):
            raise SettingsError(f"partition must be bytes, found {partition!r:.80}")
        if id(actor) in self._actors:
            raise SettingsError(f"this {type(actor).__name__} is hosted already")
        self._refuse_other_thread()
        concurrency = getattr(actor, "concurrency", 1)
        if type(concurrency) is not int or concurrency < 1:
            name = type(actor).__name__
            raise SettingsError(f"{name}.concurrency must be a number from 1, found {concurrency!r:.80}")
        executor = getattr(actor, "executor", ExecutorKind.THREADS)
        if executor not in list(ExecutorKind):
            name, known = type(actor).__name__, ", ".join(ExecutorKind)
            raise SettingsError(f"{name}.executor must be one of {known}, found {executor!r:.80}")
        policy = supervision_from(
            getattr(actor, "supervision", Supervision.RESTART) if supervision is None else supervision
        )
        identity = ACTOR + _guid()
        room = self.settings.inbox_messages, self.settings.inbox_bytes
        inbox: Mailbox[Envelope] = Mailbox(*room, self.settings.overflow, self._timing.waking)
        running = Running(actor, identity, partition, inbox, self._workplace, policy, local_only)
        self._actors[id(actor)] = running
        self._consumption.host(len(running.handlers))
        self._router.open(identity, inbox)
        self._loads.host(identity, running.load)
        self._route(running)
        if self._state == "running":
            running.start()
        return Address(self.identity, identity)

    def _warn_of_host(self, identity: bytes) -> None:
        """Say that other nodes will not believe a route of this node, and why."""
        domain, certificate = self._domains.find(identity), self._certificate
        why = "no domain of this node owns it" if domain is None and self._domains.signing else ""
        if domain is not None and certificate is not None and domain.name not in certificate.hosts:
            why = f"the certificate of this node does not name domain {shown(domain.name)}"
        if why:
            text = f"no other node will send {shown(identity)} here: {why}"
            self._notices.warn(("host", identity), lambda: Notice(text, {"event": "not_hosted"}))

    def _route(self, running: Running) -> None:
        """Let messages find an actor."""
        added: list[TableRoute] = []
        for contract, handler in running.handlers.items():
            is_local_only = self._is_draining or running.is_local_only or handler.is_local_only
            if not is_local_only and (self._domains.signing or self._certificate is not None):
                self._warn_of_host(Contract(*contract).identity)
            added += self._tables.local.register(running.identity, [Contract(*contract)], is_local_only=is_local_only)
            choose = rule_of(handler.payload).choose
            if choose is Choose.LEAST_LOADED:
                self._tables.candidates.choose_by_load(contract)
            elif choose is not Choose.TURNS:
                self._router.choosers[contract[:2]] = handler.payload
        self._announce(added=[route for route in added if not route.is_local_only])

    def _unroute(self, running: Running) -> None:
        """Let no message find an actor; what the actor has is kept."""
        gone = self._tables.local.unregister(running.identity)
        self._announce(removed=[route for route in gone if not route.is_local_only])

    def _escalate(self, running: Running, error: BaseException, where: str) -> None:
        """Stop the node, since an actor has failed that the node makes no sense without."""
        if self._state != "running":
            return
        self._escalated = Escalated(where, type(error).__name__)
        self._escalated.__cause__ = error
        log.error("the node stops: %s", self._escalated, extra={"hopwire_event": "escalated", "hopwire_where": where})
        self._begin_to_stop(ESCALATED_SECONDS)

    async def unhost(self, actor: Actor) -> None:
        """Let an actor take no more messages; what waits for it is given up."""
        running = self._actors.pop(id(actor), None)
        if running is None:
            raise SettingsError(f"this {type(actor).__name__} is not hosted here")
        self._unroute(running)
        self._router.shut(running.identity)
        self._loads.unhost(running.identity)
        await self._end_actors([running], "unhosted", UNHOST_SECONDS)

    def hub(self, *, new: bool = False, local_only: bool = False) -> Hub:
        """Give the hub of this node, which sends messages and receives answers: the same each time.

        A `new` one is yours alone, to close when you like, and other nodes are told of it unless it is `local_only`.
        After the shared hub is closed, the next call gives another.
        """
        self._refuse_if_closed()
        if new or local_only:
            return self._new_hub(local_only)
        if self._shared_hub is None:
            self._shared_hub = self._new_hub(local_only=True)  # answers name node and hub: nobody needs a route to it
        return self._shared_hub

    def _new_hub(self, local_only: bool, longest_wait: float = math.inf) -> Hub:
        max_body_bytes = self.settings.limits.max_bytes - MOST_OF_A_HEADER
        hub = Hub(
            HUB + _guid(),
            self._router,
            self._outgoing,
            self._retries,
            _new_ids(),
            _new_keys(),
            max_body_bytes,
            self._domains,
            self._forget_hub,
            self._loads,
            longest_wait,
            self.latencies,
            None if self._tap is None else self._tap.saw_told,
        )
        self._hubs[hub.identity] = hub
        self._router.open_home(hub.identity, hub)
        added = self._tables.local.register(hub.identity, is_local_only=local_only)
        if self._state == "running" and not local_only:
            self._announce(added=added)
        return hub

    async def knows(self, payload: type[Payload], *, partition: bytes = b"", timeout: float = 10.0) -> Handled:
        """Wait until somebody, here or elsewhere, handles a payload; a NoRoute says that nobody did in time.

        What is given says how many handle it, and how one of them is chosen.
        """
        self._refuse_unless_running()
        if isinstance(payload, Payload):
            raise SettingsError(f"expected the class {type(payload).__name__}, found an instance")
        contract = contract_of(payload, partition)
        try:
            async with asyncio.timeout(timeout):
                while not (routes := self._tables.handlers_of(contract)):
                    await self._next_change()
        except TimeoutError:
            words = words_of(contract)
            text = why_nobody(contract, self._surmise(), who=f"{payload.__name__} ({words})")
            raise NoRoute("no_route", text, words) from None
        rule, nodes = rule_of(payload), len({route.node for route in routes})
        if rule.choose in (Choose.KEY, Choose.STICKY):  # the ring is there from now on, and grows with the routes
            self._tables.choose(contract, Choice(rule.choose, 1), is_trial=True)
        return Handled(words_of(contract), rule.choose.value, rule.words(), len(routes), nodes)

    def _surmise(self) -> Surmise:
        """Give what this node knows that may be the reason that it finds nobody."""
        silent = (*self._membership.unanswered(), *self._foreign_peers.unanswered())
        whys = [(uri, self._transport.why_silent(uri)) for uri in silent]
        is_alone = not silent and not self.peers
        refusals = [*self._trust.refusals.words(), *self._transport.turned_away()]
        return Surmise(self._tables.candidates, whys, refusals, is_alone)

    def _called(self, node: bytes) -> str:
        """Give a node in the words of an error."""
        return self._membership.called(node)

    def _why_nobody(self, contract: Contract) -> str:
        """Say why a question found nobody, and what to do about it."""
        advice = f"await node.knows({class_name_of(contract)}) first"
        return why_nobody(contract, self._surmise(), advice)

    async def _next_change(self) -> None:
        """Wait until a route is new, or gone."""
        changed = self._timing.loop.create_future()
        self._watchers[changed] = None
        try:
            await changed
        finally:
            self._watchers.pop(changed, None)

    def _tell_moves(self) -> None:
        for moved in self._tables.rings.take_changes():
            if self._news:
                contract = words_of(moved.contract)
                self._news.tell(KeysMoved(contract, moved.came, moved.went, moved.actors, moved.share))

    def _wake_watchers(self) -> None:
        self._tell_moves()
        for hear_routes in self._on_routes:
            hear_routes()
        self._router.call_away()
        for hub in self._hubs.values():
            hub.find_route()
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    def _announce(self, added: Iterable[TableRoute] = (), removed: Iterable[TableRoute] = ()) -> None:
        if self._state == "running":
            self._wake_watchers()
            self._membership.announce(added, removed)

    def _forget_hub(self, hub: Hub) -> None:
        self._hubs.pop(hub.identity, None)
        if self._shared_hub is hub:
            self._shared_hub = None
        if self._flow_hub is hub:
            self._flow_hub = None
        gone = self._tables.local.unregister(hub.identity)
        self._router.shut(hub.identity)
        self._announce(removed=[route for route in gone if not route.is_local_only])

    def _lose(self, node: bytes, reason: str) -> None:
        self._retries.forget(node)
        self._tell_moves()
        for hub in self._hubs.values():
            hub.lose_node(node, reason)
        self._feeds.lose_node(node)
        for hear_loss in self._on_lose:
            hear_loss(node, reason)

    def _first_words(self, uri: str) -> list[Frames]:
        words = self._foreign_peers.first_words(uri)
        return self._membership.first_words(uri) if words is None else words

    def _miss(self, uri: str) -> None:
        if not self._foreign_peers.miss(uri):
            self._membership.miss(uri)

    def _end_connection(self, connection: bytes) -> None:
        self._membership.end(connection)
        if self._abroad is not None:
            self._abroad.end(connection)

    def _context(self, envelope: Envelope, is_blocking: bool) -> MessageContext:
        return (BlockingContext if is_blocking else Context)(envelope, self._own_hub, self._timing)

    def _own_hub(self) -> Hub:
        if self._flow_hub is None:
            self._refuse_if_closed()
            self._flow_hub = self._new_hub(local_only=True, longest_wait=HANDLER_WAIT_SECONDS)
        return self._flow_hub

    def _refuse_unless_running(self) -> None:
        if self._state != "running":
            raise Closed(f"the node is {'not started' if self._state == 'new' else self._state}")

    def _refuse_other_thread(self) -> None:
        if self._state == "running" and get_ident() != self._timing.thread:
            raise SettingsError(
                "a node is used on the event loop of its start; for other threads there is hopwire.sync"
            )

    def _refuse_if_closed(self) -> None:
        if self._state in ("stopping", "stopped"):
            raise Closed(f"the node is {self._state}")


def _outbox_limits(settings: NodeSettings) -> OutboxLimits:
    drops_oldest = settings.overflow is Overflow.DROP_OLDEST
    return OutboxLimits(settings.outbox_messages, settings.outbox_bytes, drops_oldest)


def _guid() -> bytes:
    return str(uuid.uuid4()).encode()


def _new_ids() -> Callable[[], bytes]:
    """Ids as long as a GUID's text, and as unique: chance in front, a counter behind, written for many at a time."""
    front = _guid()[:24]
    return chain.from_iterable(map((front + b"%010x" % each).__add__, LAST_DIGITS) for each in count()).__next__


def _new_keys() -> Callable[[], int]:
    """Keys that nobody can guess: 63 bits of chance, drawn for many keys at a time, and never 0."""
    return chain.from_iterable(iter(_random_keys, [])).__next__


def _random_keys() -> list[int]:
    bits = int.from_bytes(os.urandom(8 * KEYS_AT_A_TIME), "little") & SIGNED  # the formats carry a signed number
    return list(filter(None, struct.unpack(f"<{KEYS_AT_A_TIME}Q", bits.to_bytes(8 * KEYS_AT_A_TIME, "little"))))

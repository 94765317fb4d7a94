"""How a node belongs to a cluster: carries out what `cluster/members.py` decides.

`Members` says who is there, whom to talk to and whose routes to hold. Here is only how: links are asked for, doors are
looked up anew at each attempt, words are said, time passes, and a link that nobody needs is closed. How a link is
opened and proved is a matter of `membership.py`, which hands over what members say.

Monitors look after members, and nobody looks after a link. Where words go out and nothing comes back for 5 s, the
member is pinged. After 15 s the link is given up, and what waited for answers over it ends.

A message that finds no route asks the cluster once: all neighbours are asked who handles the contract. The message
waits for their answers, for 0.25 s at least and a second at most, and no longer than it lives.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import MOST_WANTED, Found, MemberRecord, Ping, Sought
from hopwire.cluster.member_events import (
    Admit,
    Departing,
    Dismiss,
    HoldRoutes,
    JudgeRoutes,
    Knock,
    LinkClosed,
    LinkOpened,
    MemberCommand,
    MemberEvent,
    MemberSaid,
    OwnRoutes,
    Refuse,
    Rise,
    RoutesSeen,
    SealChanged,
    SignsOfLife,
    Tell,
    Tempo,
    Tie,
    TimePassed,
    Urged,
)
from hopwire.cluster.members import Members
from hopwire.cluster.seals import Seals
from hopwire.model import Contract, Payload
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.addresses import host_of, is_not_ipv4, port_of
from hopwire.node.rates import Rate
from hopwire.node.timing import Timing

__all__ = ["Joining", "Links"]

DNS = "dns://"
TRIES = 5  # hellos to a member or a door: about three seconds
DOORS_AT_ONCE = 3  # of the addresses behind one name
SEEK_SECONDS = 1.0  # for the answers of neighbours that are asked for a route
NEWS_SECONDS = 0.25  # at least: a route that was announced just now is on its way
JOIN_SECONDS = 3.0  # for the first neighbour, where there are doors and none has opened yet
SEEKS = 1000  # contracts that are looked for at one time
SEEKS_PER_SECOND = 100  # answered to one neighbour
IDLE_SECONDS = 60.0  # without a word in either direction, and a link that is no neighbour's is closed
SHORT_IDLE_SECONDS, MANY_LINKS = 5.0, 256  # and sooner at a door through which many come
IDLE_LOOK_SECONDS = 5.0
SLEPT_SECONDS = 2.0  # between two looks at who has said something, which are a tenth of a second apart
SILENT_SECONDS = 15.0  # without a word over a link that is used, also after pings, and the link is given up


class Links(Protocol):
    """What a node does with connections and tables, for its cluster."""

    def dial(self, uri: str, tries: int) -> None:
        """Open a connection to an address, and say hello."""

    def tell(self, node: bytes, payload: Payload) -> None:
        """Say something to a member that there is a link to."""

    def admit(self, record: MemberRecord) -> None:
        """Let a member be talked to."""

    def dismiss(self, node: bytes, reason: str) -> None:
        """Forget a member that is gone."""

    def hold(
        self, owner: bytes, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...], is_all: bool
    ) -> None:
        """Enter routes of a member."""

    def judge(self, owner: bytes, is_moved: bool) -> None:
        """Judge anew whether routes of a member count that has other proofs, or another address."""

    def refuse(self, refused: Refuse) -> None:
        """Count a record or an accusation that its owner has not written."""

    def rise(self, incarnation: int) -> None:
        """Go on under a later start, and tell everybody who is connected."""

    def warn(self, warning: Warn) -> None:
        """Tell people."""

    def release(self, nodes: Iterable[bytes], seconds: float) -> None:
        """Close links to these members over which nothing was said for so long."""

    def is_used(self, node: bytes, seconds: float) -> bool:
        """Tell whether something waits for a member that there is a link to, or was sent to it within that time."""

    def drop(self, node: bytes) -> None:
        """Give up a link over which nothing comes."""

    def owners_of(self, contract: Contract) -> list[bytes]:
        """Give the nodes that handle a contract, this one among them."""

    def knows_domain_of(self, identity: bytes) -> bool:
        """Tell whether this node can judge who may handle a contract."""


class Joining:
    """A node among the members of its cluster."""

    def __init__(self, doors: tuple[str, ...], tempo: Tempo, timing: Timing, links: Links, seals: Seals) -> None:
        self._doors, self._tempo, self._timing, self._links, self.seals = doors, tempo, timing, links, seals
        self._members: Members | None = None
        self._timer: asyncio.Handle | None = None
        self._due_ns = 0
        self._looking: set[asyncio.Task[None]] = set()
        self._behind: dict[str, tuple[str, ...]] = {}  # addresses that a name stood for when it was last looked up
        self._seeks: dict[Contract, asyncio.Future[None]] = {}
        self._waited: dict[Contract, set[bytes]] = {}  # neighbours whose answer is missing
        self._answers = Rate(SEEKS_PER_SECOND)
        self._stirred_at: dict[bytes, float] = {}
        self._looked_at, self._last_stir, self._started_at = 0.0, 0.0, 0.0

    @property
    def members(self) -> Members:
        """What is known of the cluster."""
        assert self._members is not None
        return self._members

    def start(self, me: MemberRecord) -> None:
        """Begin to look for others."""
        self._started_at = self._timing.now()
        self._members = Members(me, self._doors, self._tempo, self._now_ns(), seals=self.seals)
        self._timer = self._timing.loop.call_soon(self._pass_time)

    def stop(self) -> None:
        """Say to all neighbours that this node leaves."""
        self._step(Departing())
        if self._timer is not None:
            self._timer.cancel()
        for task in self._looking:
            task.cancel()

    def is_door(self, uri: str) -> bool:
        """Tell whether an address is one of the doors that were given, or stands behind the name of one."""
        return uri in self._doors or any(uri in uris for uris in self._behind.values())

    def is_living(self, node: bytes) -> bool:
        """Tell whether a node is a member that is there."""
        return self._members is not None and self._members.is_living(node)

    def living(self) -> tuple[bytes, ...]:
        """Give the other members that are there."""
        members = self.members
        return tuple([record.node for record in members.living() if record.node != members.me.node])

    # -- events

    def opened(self, node: bytes) -> None:
        """A link to a member is open."""
        self._stirred_at[node] = self._timing.now()
        self._step(LinkOpened(node))

    def closed(self, node: bytes, is_gone: bool) -> None:
        """A link to a member is closed."""
        self._stirred_at.pop(node, None)
        self._step(LinkClosed(node, is_gone))

    def change_routes(
        self,
        added: tuple[AnnouncedRoute, ...],
        removed: tuple[AnnouncedRoute, ...],
        proofs: tuple[tuple[str, bytes], ...],
    ) -> None:
        """Announce routes of this node, and take some back; with all proofs of this node."""
        self._step(OwnRoutes(added, removed, proofs))

    def urge(self) -> None:
        """Tell everybody who is connected at once what changed last."""
        self._step(Urged())

    def stir(self, nodes: tuple[bytes, ...]) -> None:
        """Note that nodes have said something; now and then, close links that nobody needs."""
        now = self._timing.now()
        if self.seals.look():
            self._step(SealChanged())
        if now - self._last_stir > SLEPT_SECONDS:  # it was this node that did not listen
            self._stirred_at = dict.fromkeys(self._stirred_at, now)
        self._last_stir = now
        for node in nodes:
            if node in self._stirred_at:
                self._stirred_at[node] = now
        if nodes:
            self._step(SignsOfLife(nodes))
        if now >= self._looked_at + IDLE_LOOK_SECONDS:
            self._looked_at = now
            needed = {*self.members.neighbours(), *self.members.watched, *self.members.long}
            seconds = IDLE_SECONDS if len(self._stirred_at) <= MANY_LINKS else SHORT_IDLE_SECONDS
            idle = [node for node, at in self._stirred_at.items() if now - at >= seconds and node not in needed]
            self._links.release(idle, seconds)
            self._look_at_silent(now)

    def _look_at_silent(self, now: float) -> None:
        """Ping those who are talked to and say nothing: others may reach them, and this node may not."""
        me = self.members.me
        for node, at in list(self._stirred_at.items()):
            silent = now - at
            if silent < IDLE_LOOK_SECONDS or not self._links.is_used(node, IDLE_SECONDS):
                continue
            if silent >= SILENT_SECONDS:
                self._links.drop(node)
            else:
                self._links.tell(node, Ping(me.node, me.incarnation, 0, self.members.digest))

    def take(self, said: Payload) -> None:
        """Take what a member said over a connection of its own."""
        if isinstance(said, Sought):
            self._answer(said)
        elif isinstance(said, Found):
            self._find(said)
        else:
            self._step(MemberSaid(said))

    def _now_ns(self) -> int:
        return round(self._timing.now() * NS_PER_SECOND)

    def _pass_time(self) -> None:
        self._timer = None
        self._step(TimePassed())

    def _step(self, event: MemberEvent) -> None:
        members = self.members
        for command in members.step(event, self._now_ns(), self._timing.chance):
            self._carry_out(command)
        due_ns = members.due_ns
        if self._timer is None or due_ns < self._due_ns:
            if self._timer is not None:
                self._timer.cancel()
            self._due_ns = due_ns
            delay = max(0.0, due_ns / NS_PER_SECOND - self._timing.now())
            self._timer = self._timing.loop.call_later(delay, self._pass_time)

    # -- commands

    def _carry_out(self, command: MemberCommand) -> None:
        match command:
            case Tell(node, payload):
                self._links.tell(node, payload)
            case Tie(_, uri):
                self._links.dial(uri, TRIES)
            case Knock(address):
                self._knock(address)
            case Admit(record):
                self._links.admit(record)
            case Dismiss(node, reason):
                self._links.dismiss(node, reason)
            case HoldRoutes(owner, added, removed, is_all):
                self._links.hold(owner, added, removed, is_all)
            case JudgeRoutes(owner, is_moved):
                self._links.judge(owner, is_moved)
            case Refuse():
                self._links.refuse(command)
            case Rise(incarnation):
                self._links.rise(incarnation)
            case Warn():
                self._links.warn(command)

    def _knock(self, address: str) -> None:
        if not address.startswith(DNS):
            self._links.dial(address, TRIES)
            return
        task = self._timing.loop.create_task(self._look_up(address))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_up(self, address: str) -> None:
        """Look up a name, and try some of the addresses behind it."""
        try:
            found = await self._timing.loop.getaddrinfo(host_of(address), port_of(address), type=socket.SOCK_STREAM)
        except (OSError, ValueError):  # no such name for now
            return
        hosts = list(dict.fromkeys(str(each[4][0]) for each in sorted(found, key=is_not_ipv4)))
        known = {record.uri for record in self.members.living()}
        uris = [f"tcp://{f'[{host}]' if ':' in host else host}:{port_of(address)}" for host in hosts]
        self._behind[address] = tuple(uris)
        uris = [uri for uri in uris if uri not in known]
        while len(uris) > DOORS_AT_ONCE:
            uris.pop(int(self._timing.chance() * len(uris)))
        for uri in uris:
            self._links.dial(uri, TRIES)

    # -- looking for a route

    async def seek(self, contract: Contract, is_there: Callable[[], bool]) -> None:
        """Ask the cluster who handles a contract, and wait until a route is there or nobody knows one."""
        if contract not in self._seeks:
            if len(self._seeks) >= SEEKS:
                return
            self._seeks[contract] = self._timing.loop.create_future()
            task = self._timing.loop.create_task(self._ask_around(contract, is_there))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
        await asyncio.shield(self._seeks[contract])

    async def _ask_around(self, contract: Contract, is_there: Callable[[], bool]) -> None:
        future = self._seeks[contract]
        try:
            await self._wait_for(lambda: bool(self.members.neighbours()), self._join_until())
            asked = self.members.neighbours()
            self._waited[contract] = {*asked}
            me = self.members.me
            identity, version, partition = contract
            if isinstance(version, int):
                for node in asked:
                    self._links.tell(node, Sought(me.node, me.incarnation, identity, version, partition))
            now = self._timing.now()
            await self._wait_for(lambda: is_there() or not self._waited[contract], now + SEEK_SECONDS)
            await self._wait_for(is_there, now + NEWS_SECONDS)
        finally:
            self._seeks.pop(contract, None)
            self._waited.pop(contract, None)
            if not future.done():
                future.set_result(None)

    def _join_until(self) -> float:
        """The time until which a node that has just started waits for its first neighbour."""
        return self._started_at + JOIN_SECONDS if self._doors else 0.0

    async def _wait_for(self, is_so: Callable[[], bool], until: float) -> None:
        while not is_so() and self._timing.now() < until:
            await asyncio.sleep(0.01)

    def _answer(self, said: Sought) -> None:
        if not self._links.knows_domain_of(said.identity):  # what is held may be true: this node cannot say no
            return
        if self._answers.is_due(said.node, self._timing.now()):
            contract = Contract(said.identity, said.version, said.partition)
            owners = tuple(self._links.owners_of(contract)[:MOST_WANTED])
            me = self.members.me
            found = Found(me.node, me.incarnation, said.identity, said.version, said.partition, owners)
            self._links.tell(said.node, found)

    def _find(self, said: Found) -> None:
        waited = self._waited.get(Contract(said.identity, said.version, said.partition))
        if waited is None:
            return
        if said.owners:
            self._step(RoutesSeen(said.node, said.owners))
        else:
            waited.discard(said.node)

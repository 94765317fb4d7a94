"""A cluster as a function of a seed: thousands of `Members` on one clock, with links that are slow, cut or dead.

A link is what a connection is to a node: it is opened between two members, carries words in order, and dies with either
of them. What is sent over a link that is cut gets lost, and nobody is told. The death of a process is told to whoever
had a link to it, after the time that a node tries to connect again.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Any

from msgspec.structs import replace

from hopwire.cluster.announce import Hello
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import Accusation, MemberRecord
from hopwire.cluster.member_events import (
    Dismiss,
    HoldRoutes,
    Knock,
    LinkClosed,
    LinkOpened,
    MemberEvent,
    MemberSaid,
    OwnRoutes,
    Tell,
    Tempo,
    Tie,
    TimePassed,
)
from hopwire.cluster.members import Members
from hopwire.cluster.seals import CLAIMED, FORGED, GENUINE, UNSEALED, Seals
from hopwire.model import Payload
from hopwire.model.units import NS_PER_MS, NS_PER_SECOND

__all__ = ["START_NS", "KeptSeals", "Simulation", "name_of", "uri_of"]

GONE_NS = 300 * NS_PER_MS  # as in a node: a connection that died and could not be opened again
NEAREST_NS, FARTHEST_NS = NS_PER_MS, 5 * NS_PER_MS  # one way
START_NS = 1_800_000_000 * NS_PER_SECOND  # incarnations are times of starts
FRAME_BYTES = 150  # of a control message beside its body
RECORD_BYTES, ACCUSED_BYTES, ROUTE_BYTES, HASH_BYTES = 130, 95, 70, 9
TIMER, STEP, LINK, WORD = range(4)


def name_of(number: int) -> bytes:
    """Give the identity of a simulated node, as long as a GUID."""
    return b"node-%031d" % number


def uri_of(number: int) -> str:
    """Give the address of a simulated node."""
    return f"tcp://10.{number >> 16}.{number >> 8 & 255}.{number & 255}:7400"


class KeptSeals:
    """Seals as of members without certificates: a new key at each start. Here a signature is the name of its key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, record: MemberRecord) -> MemberRecord:
        return replace(record, key=self._key, signature=self._key)

    def accuse(self, said: Accusation) -> Accusation:
        return replace(said, signature=self._key)

    def judge(self, record: MemberRecord, known: MemberRecord | None) -> str:
        if not record.key or record.signature != record.key:
            return FORGED
        return GENUINE if known is None or known.key == record.key else CLAIMED

    def is_accused(self, said: Accusation, accuser: MemberRecord | None) -> bool:
        return accuser is not None and said.signature == accuser.key

    def seal(self, said: Hello, to: bytes) -> Hello:
        return said

    def is_sealed(self, said: Hello, key: bytes, here: bytes) -> bool:
        return True

    def counts(self, record: MemberRecord) -> bool:
        return True

    @property
    def changes(self) -> int:
        return 0

    def hosts_of(self, record: MemberRecord) -> None:
        return None

    def look(self) -> bool:
        return False


class Simulation:
    """A cluster and its network; where it is sealed, members sign what they write."""

    def __init__(self, seed: int = 0, tempo: Tempo | None = None, is_sealed: bool = False) -> None:
        self.is_sealed = is_sealed
        self.chance = Random(seed)
        self.tempo = tempo or Tempo()
        self.now = 0
        self.members: dict[bytes, Members] = {}
        self.links: dict[bytes, set[bytes]] = {}
        self.at: dict[str, bytes] = {}  # who listens at an address
        self.is_cut: Callable[[bytes, bytes], bool] | None = None  # whether words of one to another get lost
        self.loss = 0.0
        self.stalls: dict[bytes, tuple[int, int]] = {}  # slow nodes: when they stand still, from and to
        self.sent: Counter[bytes] = Counter()
        self.sent_bytes: Counter[bytes] = Counter()
        self.kinds: Counter[str] = Counter()
        self.dismissed: dict[bytes, dict[bytes, tuple[int, str]]] = {}  # of whom, by whom: when, and why
        self.warned: Counter[tuple[bytes, str]] = Counter()
        self.routes_at: dict[bytes, int] = {}  # when a node entered routes last
        self.doors: tuple[str, ...] = ()
        self.dark: set[str] = set()  # addresses of machines that are gone: nobody refuses a connection there
        self._heap: list[tuple[int, int, int, Any, Any]] = []
        self._number = count().__next__
        self._due: dict[bytes, int] = {}

    # -- nodes

    def add(self, number: int, incarnation: int = 0, uri: str = "", name: bytes = b"") -> Members:
        """Start a node."""
        name, uri = name or name_of(number), uri or uri_of(number)
        record = MemberRecord(name, START_NS + (incarnation or self.now), 1, uri, (6, 5, 4, 3), ("members", "train"))
        seals: Seals = KeptSeals(b"key-%d" % self._number()) if self.is_sealed else UNSEALED
        member = Members(record, self.doors, self.tempo, self.now, seals=seals)
        self._place(member)
        return member

    def _place(self, member: Members) -> None:
        name = member.me.node
        self.members[name] = member
        self.links[name] = set()
        self.at[member.me.uri] = name
        self._schedule(name, member)

    def settle(self, size: int) -> None:
        """Begin with a cluster whose members have known each other for long."""
        first = self.add(0)
        records = [first.me]
        for number in range(1, size):
            member = self.add(number)
            records.append(member.me)
        for record in records[1:]:
            first._learn(record, b"", self.now)
        first.step(TimePassed(), -1, self.chance.random)
        first._fresh.clear()
        everybody = {record.node: record for record in records}
        for number in range(1, size):
            self.members[name_of(number)].share(everybody, first)
        for name, member in self.members.items():
            member._is_ring_new = True
            member._flush_ns = float("inf")
            member.beat = member._word_beat = 100
            member._knock_beat = 0
            member._beat_ns = int(self.chance.random() * self.tempo.period_ns)
            self._schedule(name, member)

    def kill(self, name: bytes, is_told: bool = True) -> None:
        """End a process; the kernel tells those who have a link, unless the whole machine is gone."""
        member = self.members.pop(name)
        if self.at.get(member.me.uri) == name:
            del self.at[member.me.uri]
        if not is_told:
            self.dark.add(member.me.uri)
        for other in self.links.pop(name):
            if other in self.links:
                self.links[other].discard(name)
                if is_told:
                    self._later(GONE_NS, STEP, other, LinkClosed(name, True))
        self._due.pop(name, None)

    def own_routes(self, name: bytes, added: Iterable[Any], removed: Iterable[Any] = ()) -> None:
        """Let a node announce routes."""
        self.step(name, OwnRoutes(tuple(added), tuple(removed)))

    # -- the clock

    def run(self, seconds: float, until: Callable[[], bool] | None = None, every: float = 0.25) -> float:
        """Let time pass; gives the seconds that passed until something was true, looked at now and then."""
        began, end = self.now, self.now + int(seconds * NS_PER_SECOND)
        look = int(every * NS_PER_SECOND)
        while self.now < end:
            self._run_to(min(end, self.now + look))
            if until is not None and until():
                break
        return (self.now - began) / NS_PER_SECOND

    def _run_to(self, end: int) -> None:
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= end:
            self.now, _, kind, name, what = pop(heap)
            if self.stalls and kind != LINK and self._is_stalled(kind, name, what):
                continue
            if kind == TIMER:
                if self._due.get(name) == what:
                    del self._due[name]
                    self.step(name, TimePassed())
            elif kind == WORD:
                sender, payload = what
                if name in self.links.get(sender, ()) or sender in self.links.get(name, ()):
                    self.step(name, MemberSaid(payload))
            elif kind == STEP:
                self.step(name, what)
            else:
                self._link(name, what)
        self.now = end

    def _is_stalled(self, kind: int, name: bytes, what: Any) -> bool:
        stall = self.stalls.get(name)
        if stall is None:
            return False
        begins, ends = stall
        if self.now >= ends:
            begins = ends + int((0.5 + self.chance.random()) * NS_PER_SECOND)
            ends = begins + int((0.5 + 2.5 * self.chance.random()) * NS_PER_SECOND)
            self.stalls[name] = begins, ends
        if not begins <= self.now < ends:
            return False
        heapq.heappush(self._heap, (ends, self._number(), kind, name, what))
        return True

    def _later(self, delay_ns: int, kind: int, name: Any, what: Any) -> None:
        heapq.heappush(self._heap, (self.now + delay_ns, self._number(), kind, name, what))

    def _schedule(self, name: bytes, member: Members) -> None:
        due = max(member.due_ns, self.now)
        if due < self._due.get(name, due + 1):
            self._due[name] = due
            heapq.heappush(self._heap, (due, self._number(), TIMER, name, due))

    # -- carrying out

    def step(self, name: bytes, event: MemberEvent) -> None:
        """Hand an event to a node, and do what it says."""
        member = self.members.get(name)
        if member is None:
            return
        for command in member.step(event, self.now, self.chance.random):
            if type(command) is Tell:
                self._tell(name, command.node, command.payload)
            elif type(command) is Tie:
                self._later(2 * self._latency(), LINK, name, (command.uri, command.node))
            elif type(command) is Knock:
                self._later(2 * self._latency(), LINK, name, (command.address, b""))
            elif type(command) is Dismiss:
                self._dismiss(name, command)
            elif type(command) is HoldRoutes:
                self.routes_at[name] = self.now
            elif type(command) is Warn:
                self.warned[name, command.what] += 1
        self._schedule(name, member)

    def _latency(self) -> int:
        return NEAREST_NS + int(self.chance.random() * (FARTHEST_NS - NEAREST_NS))

    def _tell(self, name: bytes, other: bytes, payload: Payload) -> None:
        self.sent[name] += 1
        self.sent_bytes[name] += _size_bytes(payload)
        if self.is_cut is not None and self.is_cut(name, other):
            return
        if self.loss and self.chance.random() < self.loss:
            return
        self._later(self._latency(), WORD, other, (name, payload))

    def _link(self, name: bytes, where: tuple[str, bytes]) -> None:
        uri, wanted = where
        if uri.startswith("dns://"):
            uri = self.doors[int(self.chance.random() * len(self.doors))]
        other = self.at.get(uri)
        if other is None and wanted and uri not in self.dark:
            self._later(GONE_NS, STEP, name, LinkClosed(wanted, True))
        if name not in self.members or other is None or other == name or (wanted and other != wanted):
            return
        if self.is_cut is not None and (self.is_cut(name, other) or self.is_cut(other, name)):
            return
        self.links[name].add(other)
        self.links[other].add(name)
        self.step(name, LinkOpened(other))
        self.step(other, LinkOpened(name))

    def _dismiss(self, name: bytes, command: Dismiss) -> None:
        self.dismissed.setdefault(command.node, {})[name] = self.now, command.reason
        if command.reason == "restarted":
            return
        self.links[name].discard(command.node)
        if command.node in self.links:
            self.links[command.node].discard(name)
            self._later(FARTHEST_NS, STEP, command.node, LinkClosed(name, False))
        self._later(0, STEP, name, LinkClosed(command.node, False))

    # -- looking

    def is_agreed(self) -> bool:
        """Tell whether all nodes know the same, and all of them know all."""
        digests = {member.digest for member in self.members.values()}
        return len(digests) == 1 and all(member.count == len(self.members) for member in self.members.values())

    def knowing_dead(self, name: bytes) -> int:
        """Count the nodes that know of a death."""
        return sum(not member.is_living(name) for member in self.members.values())

    def reset(self) -> None:
        """Begin to count anew."""
        self.sent.clear()
        self.sent_bytes.clear()
        self.dismissed.clear()


def _size_bytes(payload: Any) -> int:
    size = FRAME_BYTES
    size += RECORD_BYTES * len(getattr(payload, "records", ())) + ACCUSED_BYTES * len(getattr(payload, "accused", ()))
    size += HASH_BYTES * len(getattr(payload, "buckets", ())) + 60 * len(getattr(payload, "wanted", ()))
    for given in getattr(payload, "given", ()):
        size += 60 + ROUTE_BYTES * (len(given.added) + len(given.removed))
    return size

"""The members of a cluster: who is there, who is gone, and what is told to whom.

`members.step(event, now_ns, chance) -> commands`. Nothing here waits, reads a clock, draws chance or sends. The state
changes in place: a table of 10,000 members is too large to be copied for each word. `due_ns` is the time at which
`TimePassed` is to be handed in.

Who talks to whom. Each member monitors the `MONITORED` members behind it on the ring (`ring.py`), and keeps `LONG`
links to members that chance has chosen. These, and those who do the same with it, are its neighbours: 14 on average, at
any size. What is new goes to all neighbours at once, and each passes it on once. What gets lost is found by the digest
in pings and acks: two neighbours whose digests differ compare their tables.

| what | period T = 1 s |
|---|---|
| pings to each monitored member | every T; over long links every 2 T |
| a monitored member that says nothing | is accused after 3 T, later if this node is in doubt about itself |
| accused by two monitors whose connections died | dead after 0.2 T |
| the connection of this node died, and no other monitor can be reached | dead after 0.2 T: nobody could tell |
| accused by two monitors | dead after 4 T |
| accused by one monitor, or by two others | dead after 24 T |
| everybody, where no word of anybody came for 27 T | lost: this node is alone, or cut off |
| a member that hears of an accusation | says that it lives: a record with the next sequence, which makes it void |
| a node that slept for more than 3 T | accuses nobody for 5 T; what it had heard before counts from its waking |
| a member that is lost | is kept in mind for 24 h; somebody of the cluster knocks at its address now and then |

Example: X is killed at 10.00 s. The connections of its four monitors die, and none can open another within 0.3 s. At
10.30 s all four accuse X. At 10.35 s everybody has heard two of them, and at 10.55 s X is dead for everybody.

Example: X stands still from 10.0 s to 13.0 s. Its connections live. At 13.5 s nobody has missed X for 3 T.

Example: all members but one are killed at 10.00 s. At 10.30 s its connections are dead, and it dials the monitors of
those who are gone. By 10.60 s they have refused. At 10.80 s the first ones are dead for it, and it dials 64 others.

Rules:
- Each member decides for itself who is dead, from accusations that it heard. Nobody declares anything for another.
- Monitors are looked up in one's own ring. Members whose tables differ a little count `COUNTED` as monitors.
- A record of a lost member that is newer than its loss brings the member back, whoever passes it on. The same record
  does not: instead the one who has lost the member accuses it, so that the member can say that it lives.
- After a partition both halves have lost each other. One knock from either side joins them: they compare, accuse, and
  the accused say that they live.
- A record with a larger incarnation takes the place of the former at once: the process restarted.
- A process that restarted with a clock that was set back says an older start than others know. It is shown what they
  know, and goes above it: the later start was at its own address, or is lost. So the process is taken within a second.
- Records and accusations count only if they are genuine (`seals.py`). Where a restarted process has a new key, its
  record is a claim, which waits until the former process is gone. Whoever talks to the new process itself accuses the
  former one, as if its connection had died.

The trap: a ring in one's own eyes. When many members die at once, the dead are still monitors of each other. Whoever is
dismissed leaves its place to the next one in front, who begins to monitor, finds nobody there, and accuses too.

Limits: `MAX_MEMBERS` in all and `MOST_BYTES` of their records, lost ones included, which make room for others; accusers
of each member; claims; records and accusations that wait to be passed on; answers to `Compare` in each period. A start
may not lie more than 24 h ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from msgspec.structs import replace

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import (
    BUCKETS,
    LEFT,
    MOST_ACCUSED,
    MOST_RECORDS,
    Accusation,
    Ack,
    Compare,
    MemberRecord,
    Ping,
    Roster,
    RoutesAsked,
    RoutesGiven,
    Rumours,
)
from hopwire.cluster.holdings import digest_of
from hopwire.cluster.member_events import (
    Admit,
    Departing,
    Dismiss,
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
from hopwire.cluster.member_ring import MemberRing, place_of
from hopwire.cluster.route_exchange import RouteExchange
from hopwire.cluster.seals import CLAIMED, FORGED, GENUINE, UNSEALED, Seals
from hopwire.cluster.suspicion import ONE, Suspicion, verdict_ns
from hopwire.model import Payload
from hopwire.model.units import NS_PER_SECOND

__all__ = ["Members"]

MONITORED = 4  # members behind one on the ring
COUNTED = 6  # members in front of one that count as its monitors: rings differ while news travel
LONG = 3  # links to members that chance has chosen
LONG_BEATS = 10  # without an answer over a long link, and another is chosen
TURN_BEATS = 64  # after which one long link is given up for another
MISSED_BEATS = 3  # without a word, and a monitored member is accused
MOST_PATIENCE = 16  # times that: an accusation that was refuted makes its accuser more patient
TIE_BEATS = 4  # for a link to be opened, before it is tried anew
CALLER_BEATS = 5  # since its last ping, and somebody is no neighbour any more
PROBED = 64  # members that a node without any link dials at a time, to find somebody who lives
GIVEN_UP = 500  # members that a node takes for lost in one beat, where nobody says a word
SLEPT, PARDON_BEATS = 3.0, 5  # periods that a node stood still, and those in which it accuses nobody afterwards
WORST = 5  # health: so many beats more until somebody is accused
HEALTH_BEATS = 10  # of good order until a node trusts itself a little more
FLUSH = 0.05  # periods in which news are gathered before they are passed on
RUMOURS_AT_A_TIME = 64  # records, and accusations, in one message
COMPARE_BEATS = 3  # between two comparisons, once something differs
ROSTERS_IN_A_BEAT = 50  # that are given to those who compare
OTHERS = 8  # members that are named instead
SETTLED_BEATS = 5  # after which a node passes on what it learns by comparing
KNOCK_BEATS = 10  # between two knocks of a node, in a cluster of up to as many members
ALONE_BEATS = 5  # between two knocks of a node that has no neighbour, after some that are quicker
RISE_BEATS, MOST_RISES = 30, 3  # after its start in which a node goes above a later start of itself, and how often
KNOCKS_TO_WARN = 5  # without an answer
MAX_MEMBERS = 20_000
MOST_BYTES = 64 * 1024 * 1024  # that all records take: 20,000 with a certificate and some proofs each
MOST_ACCUSERS = 8  # of one member
MOST_CLAIMS = 1000  # names that other processes want to have
MOST_WAITING = 2000  # records, and accusations, that wait to be passed on; what is left out is found by comparing
KEEP_LOST_NS = 24 * 3600 * NS_PER_SECOND
FUTURE_NS = KEEP_LOST_NS
MASK = 2**64 - 1

Chance = Callable[[], float]
Commands = list[MemberCommand]


def _hash(record: MemberRecord) -> int:
    mixed = (place_of(record.node) ^ record.incarnation * 0x9E3779B97F4A7C15) & MASK
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 + record.sequence * 0x94D049BB133111EB) & MASK
    return (mixed ^ mixed >> 27) * 0x94D049BB133111EB & MASK


def _bucket(node: bytes) -> int:
    return place_of(node) >> 56


@dataclass(frozen=True, slots=True)
class _Loss:
    """Since when a member is lost, and whose accusations it did not answer."""

    since_ns: int
    has_left: bool
    accused: tuple[Accusation, ...] = ()


class _Forged(Exception):
    """A neighbour passed on what its owner has not written."""

    def __init__(self, node: bytes, source: bytes) -> None:
        super().__init__()
        self.node, self.source = node, source


class Members:
    """All that a node knows of the members of its cluster."""

    def __init__(
        self,
        me: MemberRecord,
        doors: Iterable[str] = (),
        tempo: Tempo | None = None,
        now_ns: int = 0,
        base: Mapping[bytes, MemberRecord] | None = None,
        ring: MemberRing | None = None,
        seals: Seals = UNSEALED,
    ) -> None:
        me = seals.sign(me)
        self.me, self.doors, self._seals = me, tuple(doors), seals
        self._period = (tempo or Tempo()).period_ns
        self._born_ns = now_ns
        self._base: Mapping[bytes, MemberRecord] = base or {}  # of a simulation, shared by many
        self._records: dict[bytes, MemberRecord] = {}
        self.ring = ring or MemberRing([me.node])
        self.lost: dict[bytes, _Loss] = {}
        self.suspects: dict[bytes, Suspicion] = {}
        self.digest, self.buckets = 0, [0] * BUCKETS
        self.count = 0  # of living members, this node included
        self.size_bytes = 0  # of all records that were learned
        self._enter(me)
        self.links: set[bytes] = set()
        self.routes = RouteExchange(me.node, me.incarnation, self.links, self._living_record)
        self.watched: list[bytes] = []
        self.long: list[bytes] = []
        self._callers: dict[bytes, int] = {}  # who pings this node, and the beat of the last ping
        self._heard: dict[bytes, int] = {}  # the beat of the last word of a monitored member
        self._long_heard: dict[bytes, int] = {}
        self._patience: dict[bytes, int] = {}
        self._claims: dict[bytes, MemberRecord] = {}  # of names that others have
        self._replaced: set[bytes] = set()  # members that a link is open to another process of
        self._unreached: set[bytes] = set()  # members that refuse a connection: it died, or could not be opened
        self._word_beat = 0  # of the last word of anybody
        self._tied: dict[bytes, int] = {}  # links that were asked for, and when
        self._differs: dict[bytes, int] = {}  # neighbours with another digest, since which beat
        self._compared = -COMPARE_BEATS
        self._rosters = 0
        self._health, self._good = 0, 0
        self._pardoned = 0  # until this beat nobody is accused
        self._fresh: dict[bytes, tuple[MemberRecord, bytes]] = {}  # news, and who told them
        self._fresh_accused: dict[tuple[bytes, bytes], tuple[Accusation, bytes]] = {}
        self._knock_pause, self._knock_beat, self._knocks = 0, 0, 0
        self.is_doubled, self._is_leaving, self._rises = False, False, 0
        self._is_ring_new, self._are_monitors_new = True, False
        self.beat = 0
        self._beat_ns = now_ns
        self._flush_ns: float = inf
        self._verdict_ns: float = inf
        self._retie_ns: float = inf
        self._commands: Commands = []

    # -- what others may ask

    @property
    def due_ns(self) -> int:
        """The time at which `TimePassed` is to be handed in."""
        return int(min(self._beat_ns, self._flush_ns, self._verdict_ns, self._retie_ns))

    def find(self, node: bytes) -> MemberRecord | None:
        """Give the record of a member, also of one that is lost."""
        return self._records.get(node) or self._base.get(node)

    def is_living(self, node: bytes) -> bool:
        """Tell whether a member is there."""
        return node not in self.lost and self.find(node) is not None

    def accusers_of(self, node: bytes) -> tuple[tuple[bytes, bool], ...]:
        """Give whose accusations a lost member did not answer, and whether each was of a connection that died."""
        loss = self.lost.get(node)
        return () if loss is None else tuple([(each.accuser, each.is_gone) for each in loss.accused])

    def _living_record(self, node: bytes) -> MemberRecord | None:
        return None if node in self.lost else self.find(node)

    def living(self) -> list[MemberRecord]:
        """Give the records of all members that are there, this node included."""
        merged = {**self._base, **self._records} if self._base else self._records
        return [record for node, record in merged.items() if node not in self.lost]

    def neighbours(self) -> list[bytes]:
        """Give the members that news go to: those who are watched, and those who watch."""
        links, oldest = self.links, self.beat - CALLER_BEATS
        found = dict.fromkeys(node for node in (*self.watched, *self.long) if node in links)
        found.update({node: None for node, beat in self._callers.items() if beat >= oldest and node in links})
        return list(found)

    def share(self, table: Mapping[bytes, MemberRecord], other: Members) -> None:
        """Know what another knows, from a table that many share: for simulations of members that have met long ago."""
        self._base, self.ring, self._records = table, other.ring.shared(), {self.me.node: self.me}
        self.digest, self.buckets, self.count = other.digest, list(other.buckets), other.count
        self.size_bytes = self.me.size_bytes  # what many share is not counted

    # -- steps

    def step(self, event: MemberEvent, now_ns: int, chance: Chance) -> Commands:
        """Change the state by an event, and give what is to be done about it."""
        self._commands = self.routes.commands = []
        match event:
            case MemberSaid(said):
                self._word_beat = self.beat
                try:
                    self._hear(said, now_ns, chance)
                except _Forged as forged:
                    self._commands.append(Refuse(forged.node, forged.source, FORGED))
            case TimePassed():
                self._pass_time(now_ns, chance)
            case LinkOpened(node):
                self._open(node)
            case LinkClosed(node, is_gone):
                self._close(node, is_gone, now_ns)
            case SignsOfLife(nodes):
                for node in nodes:
                    if node in self._heard:
                        self._note_life(node)
                    if self.is_living(node):
                        self._word_beat = self.beat
            case OwnRoutes(added, removed, proofs):
                self._change_routes(added, removed, proofs, now_ns)
            case RoutesSeen(neighbour, owners):
                self._see_routes(neighbour, owners, now_ns)
            case SealChanged():
                self._say_again(self.me.sequence, now_ns)
            case Urged():
                self._urge()
            case Departing():
                self._leave()
        if self._is_ring_new and self._retie_ns == inf:
            self._retie_ns = now_ns + FLUSH * self._period
        return self._commands

    def _tell(self, node: bytes, payload: Payload) -> None:
        self._commands.append(Tell(node, payload))

    # -- links

    def _open(self, node: bytes) -> None:
        self.links.add(node)
        self._unreached.discard(node)
        self._tied.pop(node, None)
        self._tell(node, Rumours(self.me.node, self.me.incarnation, self._own()))
        if not self.is_living(node):
            self._compare_with(node)
        if node in self._heard:
            self._heard[node] = self.beat
            self._ping(node)

    def _own(self) -> tuple[MemberRecord, ...]:
        return () if self.is_doubled else (self.me,)

    def _close(self, node: bytes, is_gone: bool, now_ns: int) -> None:
        self.links.discard(node)
        self._replaced.discard(node)
        self._callers.pop(node, None)
        self._differs.pop(node, None)
        if is_gone and self.is_living(node) and self.beat >= self._pardoned:
            self._unreached.add(node)
            if node in self._heard or not self.links:
                self._accuse(node, now_ns, is_gone=True)
            self._weigh_behind(node)

    # -- time

    def _pass_time(self, now_ns: int, chance: Chance) -> None:
        if now_ns >= self._beat_ns:
            self._pulse(now_ns, chance)
        elif now_ns >= self._retie_ns:
            self._retie(chance, now_ns)
        if now_ns >= self._verdict_ns:
            self._judge(now_ns)
        if now_ns >= self._flush_ns:
            self._flush(now_ns)

    def _pulse(self, now_ns: int, chance: Chance) -> None:
        """Do what is done in every period."""
        late = (now_ns - self._beat_ns) / self._period
        self._beat_ns = now_ns + self._period
        self.beat = self.routes.beat = self.beat + 1
        self._rosters = 0
        self._look_after_myself(late, now_ns)
        self._look_for_anybody(now_ns)
        self._retie(chance, now_ns)
        for node in self.watched:
            if node in self.links:
                self._ping(node)
        if self.beat % 2:
            for node in self.long:
                if node in self.links:
                    self._ping(node)
        if self.beat >= self._pardoned:
            for node in self.watched:
                patience = MISSED_BEATS * self._patience.get(node, 1) + self._health
                if self.beat - self._heard[node] > patience:
                    self._accuse(node, now_ns)
        self._compare(chance)
        for owner in self.routes.pull_again(self.neighbours(), chance) if self.routes.is_pulling else ():
            self._tie(owner)
        self._knock(chance)
        if self.beat % 60 == 0:
            self._forget(now_ns)
        if self._are_monitors_new:  # whose accusations count
            self._are_monitors_new = False
            for node, suspicion in self.suspects.items():
                self._weigh(node, suspicion)

    def _look_after_myself(self, late: float, now_ns: int) -> None:
        """Trust myself less if I was late: then it was me who did not listen."""
        if late > SLEPT:
            self._pardoned, self._health = self.beat + PARDON_BEATS, WORST
            self._heard, self._word_beat = dict.fromkeys(self._heard, self.beat), self.beat
            self._unreached.clear()
            for node, suspicion in self.suspects.items():
                suspicion.accusers = dict.fromkeys(suspicion.accusers, (now_ns, False))
                self._weigh(node, suspicion)
        elif late > 0.5:
            self._health, self._good = min(self._health + 1, WORST), 0
        else:
            self._good += 1
            if self._good >= HEALTH_BEATS and self._health:
                self._health, self._good = self._health - 1, 0

    def _look_for_anybody(self, now_ns: int) -> None:
        """Take all for lost if nobody has said a word for as long as one accuser needs: there is nobody, or no way."""
        if self.count == 1 or self.beat < self._pardoned:
            return
        if self.beat - self._word_beat > MISSED_BEATS + ONE + self._health:
            for record in self.living()[: GIVEN_UP + 1]:
                if record.node != self.me.node:
                    self._withdraw(record)
                    self._lose(record.node, "dead", now_ns)
                    self._hear_claim(record.node, now_ns)

    def _retie(self, chance: Chance, now_ns: int) -> None:
        """Watch those who follow on the ring, and keep some long links."""
        me, lost = self.me.node, self.lost
        self._retie_ns = inf
        if self._is_ring_new:
            self._is_ring_new, self._are_monitors_new = False, True
            self.watched = self.ring.after(me, MONITORED, lost)
            self._heard = {node: self._heard.get(node, self.beat) for node in self.watched}
            self._patience = {node: times for node, times in self._patience.items() if node in self._heard}
            self.long = [node for node in self.long if node not in lost and node not in self._heard]
            for node in self.watched:
                if node in self._unreached:  # known to be gone before it was this node's to watch
                    self._accuse(node, now_ns, is_gone=True)
        self.long = [node for node in self.long if self.beat - self._long_heard[node] <= LONG_BEATS]
        if self.beat % TURN_BEATS == place_of(me) % TURN_BEATS and self.long:
            self.long.pop(0)
        tries = LONG - len(self.long) if self.count > MONITORED + 1 else 0
        for _ in range(tries):
            node = self.ring.at(chance())
            if node != me and node not in lost and node not in self._heard and node not in self.long:
                self.long.append(node)
                self._long_heard[node] = self.beat
        if len(self._long_heard) > 4 * LONG:
            self._long_heard = {node: self._long_heard[node] for node in self.long}
        probed = (
            ()
            if self.links or self.count == 1
            else self.ring.after(me, PROBED, {*lost, *self._heard, *self._unreached})
        )
        for node in (*self.watched, *self.long, *probed):
            if node not in self.links and self.beat - self._tied.get(node, -TIE_BEATS) >= TIE_BEATS:
                if node in self.long and node in self._tied:  # it was not reached: another will do
                    self.long.remove(node)
                    del self._tied[node]
                    continue
                self._tie(node)
        if len(self._tied) > 64:
            self._tied = {node: beat for node, beat in self._tied.items() if self.beat - beat < TIE_BEATS}

    def _tie(self, node: bytes) -> None:
        record = self.find(node)
        if record is not None:
            self._tied[node] = self.beat
            self._commands.append(Tie(node, record.uri))

    def _ping(self, node: bytes) -> None:
        self._tell(node, Ping(self.me.node, self.me.incarnation, self.beat, self.digest))

    def _note_life(self, node: bytes) -> None:
        """A monitored member has said something: what this node held against it is void."""
        if node in self._replaced:
            return
        self._heard[node] = self.beat
        if self._patience:
            self._patience.pop(node, None)
        if self.suspects and node in self.suspects:
            suspicion = self.suspects[node]
            suspicion.accusers.pop(self.me.node, None)
            suspicion.said.pop(self.me.node, None)
            self._weigh(node, suspicion)

    # -- hearing

    def _hear(self, said: object, now_ns: int, chance: Chance) -> None:
        if isinstance(said, Ping):
            source = said.node
            self._callers[source] = self.beat
            if len(self._callers) > 4 * BUCKETS:
                del self._callers[next(iter(self._callers))]
            self._tell(source, Ack(self.me.node, self.me.incarnation, said.nonce, self.digest))
            self._note(source, said.digest)
        elif isinstance(said, Ack):
            source = said.node
            self._note(source, said.digest)
            if source in self._long_heard:
                self._long_heard[source] = self.beat
        elif isinstance(said, Rumours):
            source = said.node
        elif isinstance(said, Compare):
            self._hear_compare(said, chance)
            return
        elif isinstance(said, Roster):
            self._hear_roster(said, now_ns)
            return
        elif isinstance(said, RoutesAsked):
            self.routes.hear_asked(said)
            return
        elif isinstance(said, RoutesGiven):
            self.routes.hear_given(said)
            return
        else:
            return
        if source in self._heard:
            self._note_life(source)
        for record in said.records:
            if record.node == self.me.node:
                is_lost = any(each.target == record.node for each in said.accused)
                self._hear_of_myself(record, source, now_ns, is_lost)
            elif self._learn(record, source, now_ns):
                continue
            elif record.node == source:
                self._show_later(record)
            elif record.node in self.lost:
                self._tell_lost(record.node, source)
        for accusation in said.accused:
            self._hear_accusation(accusation, source, now_ns)
        if source in self.lost:
            self._tell_lost(source, source)

    def _note(self, node: bytes, digest: int) -> None:
        if digest == self.digest:
            self._differs.pop(node, None)
        elif node not in self._differs:
            self._differs[node] = self.beat

    def _tell_lost(self, node: bytes, source: bytes) -> None:
        """Tell a neighbour that a member is lost here, so that the member hears of it and says that it lives."""
        accused = self._why_lost(node)
        if accused:
            self._tell(source, Rumours(self.me.node, self.me.incarnation, (), accused))

    def _show_later(self, record: MemberRecord) -> None:
        """Show a later start to a process that says an older one of itself, and whether the later one is lost here."""
        known = self.find(record.node)
        if known is not None and known.incarnation > record.incarnation:
            accused = self._why_lost(record.node) if record.node in self.lost else ()
            self._tell(record.node, Rumours(self.me.node, self.me.incarnation, (known,), accused))

    def _why_lost(self, node: bytes) -> tuple[Accusation, ...]:
        """Give the accusations that a lost member did not answer, as they were heard, and that of this node."""
        record, loss = self.find(node), self.lost[node]
        if record is None or loss.has_left:
            return ()
        others = [each for each in loss.accused if each.accuser != self.me.node]
        return (*others, self._accusation(record))

    def _accusation(self, record: MemberRecord, is_gone: bool = False) -> Accusation:
        me = self.me
        return self._seals.accuse(Accusation(record.node, *record.age, me.node, is_gone, me.incarnation))

    def _learn(self, record: MemberRecord, source: bytes, now_ns: int, is_spread: bool = True) -> bool:
        """Take a record that is newer than what is known; tell whether it was."""
        node = record.node
        if node == self.me.node:
            self._hear_of_myself(record, source, now_ns)
            return False
        known = self.find(node)
        if known is not None and record.age <= known.age:
            return False
        verdict = self._seals.judge(record, self._living_record(node))
        if verdict != GENUINE:
            self._refuse(record, source, verdict, now_ns)
            return False
        wall_ns = self.me.incarnation + now_ns - self._born_ns
        if record.incarnation > wall_ns + FUTURE_NS:
            self._commands.append(Warn("future", node, record.uri))
            return False
        if known is None and record.status == LEFT:
            return False
        if known is None and not self._has_room():
            self._commands.append(Warn("too_many_members", node, record.uri))
            return False
        if not self._has_bytes(record, known):
            self._commands.append(Warn("too_large_records", node, record.uri))
            return False
        loss = self.lost.get(node)
        if known is not None and loss is None:
            self._withdraw(known)
        if known is None or known.incarnation != record.incarnation or known.uri != record.uri:
            self._unreached.discard(node)
        if record.status == LEFT:
            self._keep(record)
            self._lose(node, "left", now_ns, is_new=loss is None)
        else:
            self._return(record, known, loss)
        if is_spread:
            self._spread(record, source, now_ns)
        self._replaced.discard(node)
        if record.status == LEFT:
            self._hear_claim(node, now_ns)
        if record.routes_version and record.status != LEFT:
            self._want(record, source, now_ns)
        return True

    def _has_room(self) -> bool:
        """Tell whether there is room for one more, if need be in place of the one that was lost first."""
        if len(self.ring) >= MAX_MEMBERS and self.lost:
            self._drop(next(iter(self.lost)))
        return len(self.ring) < MAX_MEMBERS

    def _has_bytes(self, record: MemberRecord, known: MemberRecord | None) -> bool:
        """Tell whether a record fits beside all others, if need be in place of those that were lost first."""
        more = record.size_bytes - (0 if known is None else known.size_bytes)
        for lost in list(self.lost) if more > 0 and self.size_bytes + more > MOST_BYTES else ():
            if lost != record.node:
                self._drop(lost)
            if self.size_bytes + more <= MOST_BYTES:
                break
        return more <= 0 or self.size_bytes + more <= MOST_BYTES

    def _keep(self, record: MemberRecord) -> None:
        before = self._records.get(record.node)
        self.size_bytes += record.size_bytes - (0 if before is None else before.size_bytes)
        self._records[record.node] = record

    def _refuse(self, record: MemberRecord, source: bytes, verdict: str, now_ns: int) -> None:
        """Do not believe a record; keep it in mind if its process may have the name later."""
        if verdict == FORGED:
            raise _Forged(record.node, source)
        held = self._claims.get(record.node)
        if verdict != CLAIMED or held is None or held.incarnation != record.incarnation:  # each process counts once
            self._commands.append(Refuse(record.node, source, verdict))
        has_room = held is not None or len(self._claims) < MOST_CLAIMS
        if verdict == CLAIMED and record.status != LEFT and has_room:
            self._claims[record.node] = record
            if source == record.node:  # the process itself: the one before it had this address, and has it no more
                self._replaced.add(record.node)
                self._accuse(record.node, now_ns, is_gone=True)
            else:
                self._suspect(record.node, source, now_ns)

    def _suspect(self, node: bytes, source: bytes, now_ns: int) -> None:
        """Take the claim that a member passes on as its word that the process before is gone: else it had not believed.

        So who was away when the process died hears of its death. If the process lives, it hears of this first.
        """
        record = self.find(node)
        if record is None or source not in self.links:
            return
        suspicion = self.suspects.get(node)
        if suspicion is None or suspicion.age != record.age:
            suspicion = self.suspects[node] = Suspicion(record.age)
        if source not in suspicion.accusers and len(suspicion.accusers) < MOST_ACCUSERS:
            suspicion.accusers[source] = now_ns, True
            self._weigh(node, suspicion)
            if node in self.links:
                self._tell(node, Rumours(self.me.node, self.me.incarnation, (), (self._accusation(record),)))

    def _hear_claim(self, node: bytes, now_ns: int) -> None:
        """Let the process have a name that wants it, now that the one before is gone."""
        claim = self._claims.pop(node, None)
        if claim is not None:
            self._learn(claim, node if node in self.links else b"", now_ns)

    def _return(self, record: MemberRecord, known: MemberRecord | None, loss: _Loss | None) -> None:
        """A member is there: new, back, restarted, or with something else to say."""
        node = record.node
        self._enter(record)
        if self.suspects.pop(node, None) is not None and node in self._heard:
            times = self._patience.get(node, 1)
            self._patience[node] = min(2 * times, MOST_PATIENCE)
            self._heard[node] = self.beat
        if loss is not None:
            del self.lost[node]
        if known is None:
            self.ring.add(node)
        if known is None or loss is not None:
            self._is_ring_new = True
        is_restarted = known is not None and known.incarnation != record.incarnation
        if is_restarted:
            self.routes.forget(node)
            if loss is None:
                self._commands.append(Dismiss(node, "restarted"))
        is_same = known is not None and known.uri == record.uri and known.formats == record.formats
        if known is None or loss is not None or is_restarted or not is_same:
            self._commands.append(Admit(record))
        if known is not None and not is_restarted:
            is_moved = (known.uri, known.key) != (record.uri, record.key)
            if is_moved or known.proofs != record.proofs:
                self._commands.append(JudgeRoutes(node, is_moved))

    def _enter(self, record: MemberRecord) -> None:
        self._keep(record)
        hashed = _hash(record)
        self.digest ^= hashed
        self.buckets[_bucket(record.node)] ^= hashed
        self.count += 1

    def _withdraw(self, record: MemberRecord) -> None:
        hashed = _hash(record)
        self.digest ^= hashed
        self.buckets[_bucket(record.node)] ^= hashed
        self.count -= 1

    def _lose(self, node: bytes, reason: str, now_ns: int, is_new: bool = True) -> None:
        suspicion = self.suspects.pop(node, None)
        accused = () if suspicion is None else tuple(suspicion.said.values())
        self.lost[node] = _Loss(now_ns, reason == "left", accused)
        self._unreached.discard(node)
        self.routes.forget(node)
        self._is_ring_new = True
        if is_new:
            self._commands.append(Dismiss(node, reason))

    def _hear_of_myself(self, record: MemberRecord, source: bytes, now_ns: int, is_lost: bool = False) -> None:
        verdict = GENUINE if record.age <= self.me.age else self._seals.judge(record, self.me)
        if verdict == FORGED:
            raise _Forged(record.node, source)
        # Two processes do not listen at one address: the other one was before, and had a clock that was ahead.
        is_later, is_here = record.incarnation > self.me.incarnation, record.uri == self.me.uri
        what = "set_back" if is_later and is_here else "duplicate"
        if is_later and (is_here or is_lost or record.status == LEFT) and self._rise(record.incarnation + 1, now_ns):
            return
        if verdict != GENUINE:  # another process that claims the name does not get it while this one lives
            self._commands.append(Warn(what, record.node, record.uri))
        elif record.incarnation > self.me.incarnation:
            if not self.is_doubled and record.incarnation <= self.me.incarnation + now_ns - self._born_ns + FUTURE_NS:
                self.is_doubled = True
                self._commands.append(Warn(what, record.node, record.uri))
        elif record.incarnation < self.me.incarnation:
            if source in self.links:
                self._tell(source, Rumours(self.me.node, self.me.incarnation, self._own()))
        elif record.sequence > self.me.sequence:  # nobody but me says this of me
            self._say_again(record.sequence, now_ns)

    def _rise(self, incarnation: int, now_ns: int) -> bool:
        """Go on under a later start than that of the process before, whose clock was ahead; tell whether that is so."""
        furthest = self.me.incarnation + now_ns - self._born_ns + FUTURE_NS
        if incarnation > furthest or self.beat > RISE_BEATS or self._rises >= MOST_RISES or self._is_leaving:
            return False
        self._rises, self.is_doubled = self._rises + 1, False
        self.routes.rise(incarnation)
        self._rewrite(replace(self.me, incarnation=incarnation, sequence=1), now_ns)
        self._commands.append(Rise(incarnation))
        return True

    def _say_again(self, sequence: int, now_ns: int) -> None:
        self._rewrite(replace(self.me, sequence=max(sequence, self.me.sequence) + 1), now_ns)

    def _rewrite(self, record: MemberRecord, now_ns: int) -> None:
        self._withdraw(self.me)
        self.me = record = self._seals.sign(record)
        self._enter(record)
        if not self.is_doubled:
            self._spread(record, b"", now_ns)

    def _urge(self) -> None:
        """Tell everybody who is connected what changed last, before anything else is said to them."""
        part = self.routes.latest()
        if part is None or self.is_doubled:
            return
        for node in sorted(self.links):
            self._tell(node, Rumours(self.me.node, self.me.incarnation, (self.me,)))
            self._tell(node, RoutesGiven(self.me.node, self.me.incarnation, (part,)))

    def _leave(self) -> None:
        if self.is_doubled or self._is_leaving:
            return
        self._is_leaving = True
        record = self._seals.sign(replace(self.me, sequence=self.me.sequence + 1, status=LEFT))
        for node in self.neighbours():
            self._tell(node, Rumours(self.me.node, self.me.incarnation, (record,)))

    # -- accusations

    def _accuse(self, node: bytes, now_ns: int, is_gone: bool = False) -> None:
        record = self.find(node)
        if record is None or node in self.lost:
            return
        suspicion = self.suspects.get(node)
        former = None if suspicion is None else suspicion.accusers.get(self.me.node)
        if former is not None and former[1] >= is_gone:
            return
        accused = self._accusation(record, is_gone)
        if node in self.links:  # whoever is accused hears it first
            self._tell(node, Rumours(self.me.node, self.me.incarnation, (), (accused,)))
        self._count(accused, self.me.node, now_ns)
        for monitor in self.ring.before(node, COUNTED, self.lost) if is_gone else ():
            is_known = monitor == self.me.node or monitor in self.links or monitor in self._unreached
            if not is_known and monitor not in self._tied:  # if nobody else lives who can tell, this node has to decide
                self._tie(monitor)

    def _weigh_behind(self, node: bytes) -> None:
        """Weigh anew what this node accuses others of whose monitor cannot be reached: it could have told."""
        for each in (node, *self.ring.after(node, COUNTED, self.lost)):
            suspicion = self.suspects.get(each)
            if suspicion is not None and suspicion.is_gone_for(self.me.node):
                self._weigh(each, suspicion)

    def _hear_accusation(self, said: Accusation, source: bytes, now_ns: int) -> None:
        node = said.target
        if node == self.me.node:
            if said.incarnation != self.me.incarnation or self._is_leaving:
                return
            if said.sequence >= self.me.sequence:
                self._is_judged(said, source)
                self._say_again(said.sequence, now_ns)
            elif source in self.links:
                self._tell(source, Rumours(self.me.node, self.me.incarnation, self._own()))
            return
        self._count(said, source, now_ns)

    def _is_judged(self, said: Accusation, source: bytes) -> bool:
        """Tell whether an accusation is genuine; that of a process which is not known here cannot be judged."""
        accuser = self.find(said.accuser)
        if self._seals is UNSEALED:
            return True
        if accuser is None or accuser.incarnation != said.since:
            return False
        if not self._seals.is_accused(said, accuser):
            raise _Forged(said.accuser, source)
        return True

    def _count(self, said: Accusation, source: bytes, now_ns: int) -> None:
        """Hold an accusation against a member, if it is about what is known of the member now."""
        node = said.target
        known = self.find(node)
        if known is None or node in self.lost or (said.incarnation, said.sequence) != known.age:
            return
        suspicion = self.suspects.get(node)
        heard = None if suspicion is None else suspicion.accusers.get(said.accuser)
        if heard is not None and heard[1] >= said.is_gone:
            return
        if source != self.me.node and not self._is_judged(said, source):
            return
        if suspicion is None or suspicion.age != known.age:
            if len(self.suspects) >= MAX_MEMBERS:
                return
            suspicion = self.suspects[node] = Suspicion(known.age)
        if heard is None and len(suspicion.accusers) >= MOST_ACCUSERS:
            monitors = self.ring.before(node, COUNTED, self.lost)
            other = next((each for each in suspicion.accusers if each not in monitors), None)
            if other is None or said.accuser not in monitors:
                return
            del suspicion.accusers[other]
            suspicion.said.pop(other, None)
        suspicion.accusers[said.accuser], suspicion.said[said.accuser] = (now_ns, said.is_gone), said
        self._weigh(node, suspicion)
        if len(self._fresh_accused) < MOST_WAITING:
            self._fresh_accused[node, said.accuser] = said, source
            self._flush_soon(now_ns)

    def _weigh(self, node: bytes, suspicion: Suspicion) -> None:
        """Work out when a member counts as dead, if it does not say that it lives."""
        monitors = self.ring.before(node, COUNTED, self.lost)
        is_alone = all(each == self.me.node or each in self._unreached for each in monitors)
        if is_alone and suspicion.is_gone_for(self.me.node):
            verdict = verdict_ns(suspicion, [*monitors, self.me.node], self.is_living, self._period, 1)
        else:
            verdict = verdict_ns(suspicion, monitors, self.is_living, self._period, 2)
        suspicion.verdict_ns = verdict
        self._verdict_ns = min(self._verdict_ns, verdict)

    def _judge(self, now_ns: int) -> None:
        for node, suspicion in list(self.suspects.items()):
            if now_ns >= suspicion.verdict_ns:
                record = self.find(node)
                if record is not None:
                    self._withdraw(record)
                self._lose(node, "dead", now_ns)
                self._hear_claim(node, now_ns)
        self._verdict_ns = min((each.verdict_ns for each in self.suspects.values()), default=inf)

    # -- news

    def _spread(self, record: MemberRecord, source: bytes, now_ns: int) -> None:
        if len(self._fresh) < MOST_WAITING or record.node in self._fresh:
            self._fresh[record.node] = record, source
            self._flush_soon(now_ns)

    def _flush_soon(self, now_ns: int) -> None:
        self._flush_ns = min(self._flush_ns, now_ns + FLUSH * self._period)

    def _flush(self, now_ns: int) -> None:
        """Pass on what is new, and ask for routes."""
        records = [self._fresh.pop(node) for node in list(self._fresh)[:RUMOURS_AT_A_TIME]]
        keys = list(self._fresh_accused)[:RUMOURS_AT_A_TIME]
        accused = [self._fresh_accused.pop(key) for key in keys]
        me = self.me.node, self.me.incarnation
        if records or accused:
            sources = {source for _, source in (*records, *accused)}
            everything = Rumours(*me, tuple([each for each, _ in records]), tuple([each for each, _ in accused]))
            for node in self.neighbours():
                if node not in sources:
                    self._tell(node, everything)
                    continue
                news = tuple([each for each, source in records if source != node])
                accusations = tuple([each for each, source in accused if source != node])
                if news or accusations:
                    self._tell(node, Rumours(*me, news, accusations))
        self.routes.ask()
        is_more = bool(self._fresh or self._fresh_accused or self.routes.is_wanting)
        self._flush_ns = now_ns + FLUSH * self._period if is_more else inf

    # -- comparing

    def _compare(self, chance: Chance) -> None:
        if self.beat - self._compared < COMPARE_BEATS or not self._differs:
            return
        ripe = [node for node, beat in self._differs.items() if self.beat - beat >= 2 and node in self.links]
        if ripe:
            node = ripe[int(chance() * len(ripe))]
            del self._differs[node]
            self._compared = self.beat
            self._compare_with(node)

    def _compare_with(self, node: bytes) -> None:
        hashes = tuple(self.buckets) if self.count > 1 else ()
        self._tell(node, Compare(self.me.node, self.me.incarnation, hashes))

    def _hear_compare(self, said: Compare, chance: Chance) -> None:
        me = self.me.node, self.me.incarnation
        if self._rosters >= ROSTERS_IN_A_BEAT:
            named = {self.ring.at(chance()) for _ in range(OTHERS)}
            others = tuple([each for node in sorted(named) if self.is_living(node) and (each := self.find(node))])
            self._tell(said.node, Roster(*me, (), others, True))
            return
        self._rosters += 1
        theirs = said.buckets if len(said.buckets) == BUCKETS else (0,) * BUCKETS
        differing = {index for index in range(BUCKETS) if theirs[index] != self.buckets[index]}
        found: dict[int, list[MemberRecord]] = {index: [] for index in sorted(differing)}
        for record in self.living():
            index = _bucket(record.node)
            if index in found:
                found[index].append(record)
        buckets, records = list[int](), list[MemberRecord]()
        for index, members in found.items():
            if buckets and len(records) + len(members) > MOST_RECORDS:
                break
            buckets.append(index)
            records += members[:MOST_RECORDS]
        if buckets:
            self._tell(said.node, Roster(*me, tuple(buckets), tuple(records), len(buckets) < len(found)))

    def _hear_roster(self, said: Roster, now_ns: int) -> None:
        is_settled = self.beat >= SETTLED_BEATS
        theirs = {record.node: record for record in said.records}
        accused: list[Accusation] = []
        for node, record in theirs.items():
            if not self._learn(record, said.node, now_ns, is_settled) and node in self.lost:
                accused += self._why_lost(node)
        me, buckets = (self.me.node, self.me.incarnation), {*said.buckets}
        newer = [
            record
            for record in (self.living() if buckets else ())
            if _bucket(record.node) in buckets
            and ((known := theirs.get(record.node)) is None or known.age < record.age)
            and (record.node != self.me.node or not self.is_doubled)
        ]
        for start in range(0, max(len(newer), len(accused)), MOST_ACCUSED):
            end = start + MOST_ACCUSED
            self._tell(said.node, Rumours(*me, tuple(newer[start:end]), tuple(accused[start:end])))
        if said.is_more and buckets:
            self._compare_with(said.node)

    # -- routes

    def _change_routes(
        self,
        added: tuple[AnnouncedRoute, ...],
        removed: tuple[AnnouncedRoute, ...],
        proofs: tuple[tuple[str, bytes], ...],
        now_ns: int,
    ) -> None:
        holding = self.routes.change(added, removed)
        if holding is None and proofs == self.me.proofs:
            return
        me = replace(self.me, sequence=self.me.sequence + 1, proofs=proofs)
        if holding is not None:
            me = replace(me, routes_version=holding.version, routes_hash=digest_of(holding.hash))
        self._rewrite(me, now_ns)
        if holding is not None:
            self.routes.serve(me.node)

    def _want(self, record: MemberRecord, source: bytes, now_ns: int) -> None:
        if self.routes.want(record, source):
            self._flush_soon(now_ns)

    def _see_routes(self, neighbour: bytes, owners: tuple[bytes, ...], now_ns: int) -> None:
        for owner in owners:
            record = self.find(owner)
            if record is None:
                self._compare_with(neighbour)
            elif owner != self.me.node:
                self._want(record, neighbour, now_ns)

    # -- doors, and those who are lost

    def _knock(self, chance: Chance) -> None:
        """Knock at a door or at the address of a lost member, at a rate that is the same for clusters of any size."""
        if self.beat < self._knock_beat or self._is_leaving:
            return
        if not self.links and self.count == 1:
            self._knock_pause = min(self._knock_pause + 1, ALONE_BEATS)
            self._knock_beat = self.beat + self._knock_pause
            self._knocks += 1
            for door in self.doors:
                self._commands.append(Knock(door))
                if self._knocks % KNOCKS_TO_WARN == 0:
                    self._commands.append(Warn("unanswered", b"", door, f"no answer to {self._knocks} knocks"))
            self._knock_at_lost(chance)
            return
        self._knock_pause, self._knocks = 0, 0
        if chance() * max(self.count, KNOCK_BEATS) >= 1:
            return
        if not self._knock_at_lost(chance) or chance() < 0.5:
            uris = {record.uri for record in self.living()}
            closed = [door for door in self.doors if door not in uris]
            if closed:
                self._commands.append(Knock(closed[int(chance() * len(closed))]))

    def _knock_at_lost(self, chance: Chance) -> bool:
        lost = [node for node, loss in self.lost.items() if not loss.has_left]
        if not lost:
            return False
        record = self.find(lost[int(chance() * len(lost))])
        if record is not None:
            self._commands.append(Knock(record.uri))
        return True

    def _forget(self, now_ns: int) -> None:
        """Forget who was lost a day ago; who left is forgotten after an hour."""
        for node, loss in list(self.lost.items()):
            if now_ns - loss.since_ns > (KEEP_LOST_NS // 24 if loss.has_left else KEEP_LOST_NS):
                self._drop(node)

    def _drop(self, node: bytes) -> None:
        """Forget a member that is lost."""
        if self._base:
            self._records, self._base = {**self._base, **self._records}, {}
        del self.lost[node]
        dropped = self._records.pop(node, None)
        self.size_bytes -= 0 if dropped is None else dropped.size_bytes
        self.ring.remove(node)

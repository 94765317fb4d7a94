"""The peers of a node: who is there, who is gone, who has to be told what.

`step(cluster, event, now_ns) -> (cluster, commands)`. Nothing here waits, reads a clock or sends. The caller hands in
events and carries out commands.

| event | what happens |
|---|---|
| `Dialled(uri)` | connect and say hello, again and again with growing pauses, until a node answers |
| `Heard(Hello)` | a new peer: connect back, answer, send all routes; a known peer that restarted is lost first |
| `Doubted(Hello)` | the name of a peer that lives, over another connection: the peer is asked, or warned |
| `Heard(Beat)` | the peer is alive; a revision that was skipped is asked for; a stranger is dialled, a few times |
| `Overheard(Beat)` | came over a connection without a hello: a stranger is dialled, a peer is asked for its hello |
| `Heard(Routes)` | the routes are applied if they follow what is known, else all routes are asked for |
| `Heard(RoutesWanted)` | all routes are sent |
| `Heard(Bye)` | the peer is lost at once, without waiting for silence |
| `RoutesChanged(...)` | every peer is told what changed |
| `Refused(node)` | the transport cannot reach the node: the peer is lost |
| `Risen(incarnation)` | every peer hears a hello with a later start, as if this node had restarted |
| `Released(node)` | a member that is not needed for now: the connection is closed with a goodbye |
| `Stirred(nodes)` | something came over connections of these nodes: they are alive; who was silent is met again |
| `Ticked(late)` | beats go out, silent peers are lost, unanswered hellos are repeated, and warned of after a while |

The first message over every connection is a hello: the hello tells the other side who is at this end.

Times, with the usual `Pace`: an address is dialled at 0.0 s, and hellos go out at 0.0 s, 0.1 s, 0.3 s, 0.7 s and so on
until a node answers; the pause grows to 5 s. A peer whose last word came at 10.0 s is lost at the first tick after
15.0 s.

Addresses:
- A peer is talked to at the address that was dialled, since that address is known to work. A peer that was never
  dialled is talked to at the address that the peer announces.
- A peer that is talked to at a new address is met again there. The connection to the old address is closed 2 s later.
- A peer that restarted is talked to at the address that the peer announces, until the peer answers at the address that
  was dialled.
- A lost peer is dialled again if its address was dialled before. Any other lost peer is forgotten.
- A connection is closed when the last peer at its address is gone. A connection to an address that was dialled stays:
  a process that restarts under a new identity lives at the same address as before.
- An address that turns out to be our own is left alone. So the same list of addresses can be given to all nodes.

- An address that was dialled belongs to the node that answered there first, for as long as this node is a peer.

A peer that lives stays where it is (`holds`): it was heard in the last two beats, and has an open connection. A hello
over another connection moves it, or takes its place, only if the connection proves to be the peer's (`Doubted`).

Members of one cluster (`members.py`) look after each other, and tell each other of routes. So a peer that is a member,
as this node is, gets no beats and no routes from here, and may be silent. A member that was heard in the last 15 beats
holds its place. A link to a member that is not needed is closed 2 s after a goodbye, on both sides: what is on its way
still arrives. If such a link is dialled again meanwhile, it stays:

    A says goodbye to B at 10.0 s. A question of B came to A at 10.0 s too, and A answers it at 10.1 s over the same
    link. B sees at 10.1 s that it has spoken to A, and says hello over the link: it stays.

All routes of a node are one message, or pages: the first page is all that is known (`base` 0), each other page a change
that follows the page before. The last page has the revision of the node. So whoever misses a page has another revision,
and asks for all. A change of routes leaves room for the revisions of pages below its own:

    A has 12,000 routes at revision 7, in three pages: 0 to 5, 5 to 6, 6 to 7. With the next change A is at 10.

The trap: two processes with one identity. While a peer lives, another process with its identity is warned of as
`duplicate`, told so itself, and not believed. Once the peer is gone, the process with the larger incarnation is the
newer, and the older is warned of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hopwire.cluster.announce import AnnouncedRoute, Beat, Bye, Doubled, Hello, Routes, RoutesWanted
from hopwire.cluster.events import (
    ApplyRoutes,
    Command,
    Connect,
    Dialled,
    Disconnect,
    Doubted,
    Event,
    Heard,
    Link,
    LoseNode,
    MeetNode,
    Overheard,
    Pace,
    Peer,
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
from hopwire.cluster.layers import RouteLayers
from hopwire.model.units import NS_PER_SECOND

__all__ = ["LEAVE_NS", "PAGE_ROUTES", "Cluster", "pages_of", "step"]

MAX_PEERS = 1000  # each costs a connection and a beat a second; a peer that was dialled is let in beyond the limit
PAGE_ROUTES = 5_000  # in one message: some hundred kilobytes, and some hundredths of a second for who reads them
LEAVE_NS = 2 * NS_PER_SECOND  # messages inside the old connection of a peer still have to arrive
HOLD_BEATS = 2  # a peer that was heard within so many beats lives
HOLD_MEMBER_BEATS = 15  # a member says nothing over a link that it does not need
MAX_HEARSAY = 64  # addresses that are dialled because a stranger named them; a stranger can name any number


@dataclass(frozen=True, slots=True)
class Cluster:
    """All that a node knows of the others."""

    me: Self
    pace: Pace = field(default_factory=Pace)
    peers: Mapping[bytes, Peer] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    routes: RouteLayers = field(default_factory=RouteLayers)
    revision: int = 1  # of our own routes; a peer that knows none of them is at revision 0
    next_beat_ns: int = 0
    silent: Mapping[bytes, Peer] = field(default_factory=dict)  # lost, and met again with their next word

    def hello(self, via: str, heard: int = 0, proof: bytes = b"") -> Hello:
        """Give the hello of this node: to an address, or in answer to a hello that came by that address."""
        me = self.me
        return Hello(me.node, me.incarnation, me.uri, me.formats, me.capabilities, heard, via, proof)

    def holds(self, node: bytes, now_ns: int) -> bool:
        """Tell whether a peer was heard of late: nobody takes its place by a word."""
        peer = self.peers.get(node)
        if peer is None:
            return False
        beats = HOLD_MEMBER_BEATS if self.is_member(peer) else HOLD_BEATS
        return now_ns - peer.heard_at_ns <= beats * self.pace.beat_ns

    def is_member(self, peer: Peer) -> bool:
        """Tell whether a peer and this node are members of a cluster, which looks after its members."""
        return MEMBERS in peer.capabilities and MEMBERS in self.me.capabilities

    def all_routes(self) -> Routes:
        """Give everything that this node announces."""
        return Routes(self.me.node, self.me.incarnation, self.revision, 0, tuple(self.routes))


def pages_of(routes: Routes) -> Iterator[Routes]:
    """Give all routes of a node in messages of a bounded size, which follow each other."""
    added = routes.added
    parts = [added[at : at + PAGE_ROUTES] for at in range(0, len(added), PAGE_ROUTES)] or [added]
    base, revision = 0, routes.revision - len(parts)
    for part in parts:
        revision += 1
        yield Routes(routes.node, routes.incarnation, revision, base, part)
        base = revision


Step: TypeAlias = tuple[Cluster, list[Command]]


def step(cluster: Cluster, event: Event, now_ns: int) -> Step:
    """Give the state after an event, and what is to be done about it."""
    match event:
        case Dialled(uri, tries):
            return _dial(cluster, uri, now_ns, tries)
        case Heard(Hello() as said):
            return _hear_hello(cluster, said, now_ns)
        case Doubted(said, proof):
            return _doubt(cluster, said, proof)
        case Heard(Beat() as said):
            return _hear_beat(cluster, said, now_ns)
        case Overheard(said):
            return _overhear_beat(cluster, said, now_ns)
        case Heard(Routes() as said):
            return _hear_routes(cluster, said, now_ns)
        case Heard(RoutesWanted() as said):
            return _hear_wanted(cluster, said, now_ns)
        case Heard(Bye() as said):
            return _hear_bye(cluster, said, now_ns)
        case RoutesChanged(added, removed):
            return _change_routes(cluster, added, removed)

        case Refused(node):
            return _lose(cluster, node, "unreachable", now_ns)
        case Risen(incarnation):
            return _rise(cluster, incarnation)
        case Released(node):
            return _release(cluster, node, now_ns)
        case Stirred(nodes):
            return _stir(cluster, nodes, now_ns)
        case Ticked(late_ns):
            return _tick(cluster if late_ns < cluster.pace.beat_ns else _excused(cluster, late_ns), now_ns)
        case _:
            return cluster, []


def _dial(cluster: Cluster, uri: str, now_ns: int, tries: int | None = None) -> Step:
    known = cluster.links.get(uri)
    is_leaving = known is not None and known.tries_left == 0 and not known.node
    if known is not None and not (is_leaving and tries):  # what a stranger had named may now be given by the user
        return (cluster if tries is not None else _with_link(cluster, replace(known, tries_left=None))), []
    if uri == cluster.me.uri:
        return cluster, []
    return _with_link(cluster, _new_link(cluster, uri, now_ns, tries)), [Connect(uri), Say(uri, cluster.hello(uri))]


def _new_link(cluster: Cluster, uri: str, now_ns: int, tries: int | None = None) -> Link:
    pace = cluster.pace
    return Link(uri, pace.hello_ns, now_ns + pace.hello_ns, tries, since_ns=now_ns, warn_ns=pace.unanswered_ns)


def _hear_hello(cluster: Cluster, said: Hello, now_ns: int) -> Step:
    if said.node == cluster.me.node:
        return _hear_myself(cluster, said)
    former = cluster.peers.get(said.node)
    if former is not None and said.incarnation < former.incarnation:
        return _doubt(cluster, said, b"")
    known = former if former is not None and said.incarnation == former.incarnation else None
    commands: list[Command] = []
    if former is not None and known is None:
        cluster, commands = _forget(_redialled(cluster, former.node, now_ns), former, "restarted")
    is_answer = said.heard == cluster.me.incarnation
    link = cluster.links.get(said.via)
    is_dialled = is_answer and link is not None and (link.node == said.node or link.node not in cluster.peers)
    if former is None and not is_dialled and len(cluster.peers) >= MAX_PEERS:
        return cluster, [Warn("too_many_peers", said.node, said.uri)]
    if is_dialled:
        cluster = _with_link(cluster, replace(cluster.links[said.via], node=said.node))
    dialled = [link.uri for link in cluster.links.values() if link.node == said.node]
    stays = [known.uri] if known is not None and known.uri in dialled else []
    uri, revision = [*stays, *dialled, said.uri][0], known.revision if known else 0
    met = Peer(said.node, said.incarnation, uri, said.formats, said.capabilities, now_ns, revision)
    cluster = _with_peer(cluster, met)
    if known is not None and _hang_up(cluster, known.uri) and _has_room(cluster):
        cluster = _with_link(cluster, Link(known.uri, LEAVE_NS, now_ns + LEAVE_NS, tries_left=0))
    elif former is not None:
        commands += _hang_up(cluster, former.uri)
    is_moved = known is None or known.uri != met.uri
    is_connected = is_moved and met.uri not in cluster.links
    if is_moved:
        commands += [Connect(met.uri)] if is_connected else []
        commands.append(MeetNode(met))
    if is_connected or not is_answer or known is None:  # an answer to an answer proves that this node is here
        commands.append(Say(met.uri, cluster.hello("" if is_answer else said.via, heard=said.incarnation)))
    if known is None and not cluster.is_member(met):
        commands.append(Say(met.uri, cluster.all_routes(), met.node))
    return cluster, commands


def _doubt(cluster: Cluster, said: Hello, proof: bytes) -> Step:
    """Ask a peer whether a connection is its own, where the peer is known to be; warn of another process."""
    peer = cluster.peers.get(said.node)
    if peer is None:
        return cluster, []
    if said.incarnation == peer.incarnation:
        asked = cluster.hello(said.via, heard=peer.incarnation, proof=proof)
        return cluster, [Say(peer.uri, asked, peer.node)]
    told = Doubled(cluster.me.node, cluster.me.incarnation, said.node, said.uri)
    return cluster, [Warn("duplicate", said.node, said.uri), Say(peer.uri, told, peer.node)]


def _stir(cluster: Cluster, nodes: tuple[bytes, ...], now_ns: int) -> Step:
    stirred = {node: replace(cluster.peers[node], heard_at_ns=now_ns) for node in nodes if node in cluster.peers}
    back = [cluster.silent[node] for node in nodes if node in cluster.silent and node not in cluster.peers]
    cluster = replace(cluster, peers={**cluster.peers, **stirred})
    commands: list[Command] = []
    for peer in back:
        cluster, met = _meet_again(cluster, peer, now_ns)
        commands += met
    return cluster, commands


def _meet_again(cluster: Cluster, peer: Peer, now_ns: int) -> Step:
    """Meet a peer that was silent for too long: it does not know that it was lost."""
    dialled = [link for link in cluster.links.values() if link.uri == peer.uri and not link.node]
    cluster = _with_peer(cluster, replace(peer, heard_at_ns=now_ns, revision=0))
    for link in dialled:
        cluster = _with_link(cluster, replace(link, node=peer.node))
    commands: list[Command] = [] if peer.uri in cluster.links else [Connect(peer.uri)]
    met, routes = cluster.peers[peer.node], cluster.all_routes()
    hello = Say(peer.uri, cluster.hello("", heard=peer.incarnation))
    return cluster, [*commands, MeetNode(met), hello, Say(peer.uri, routes, peer.node), _want(cluster, met)]


def _hear_myself(cluster: Cluster, said: Hello) -> Step:
    """Leave an address alone that turns out to be our own; warn if another process has our identity."""
    if said.incarnation != cluster.me.incarnation:
        return cluster, [Warn("duplicate", said.node, said.uri)]
    link = cluster.links.get(said.via)
    if link is None or link.node:
        return cluster, []
    cluster = _without_link(cluster, link.uri)
    return cluster, _hang_up(cluster, link.uri)


def _hang_up(cluster: Cluster, *uris: str) -> list[Command]:
    """Close the connections that are not needed: the address was not dialled, and no peer is talked to there."""
    in_use = {peer.uri for peer in cluster.peers.values()}.union(cluster.links)
    return [Disconnect(uri) for uri in dict.fromkeys(uris) if uri not in in_use]


def _hear_beat(cluster: Cluster, said: Beat, now_ns: int) -> Step:
    peer = cluster.peers.get(said.node)
    if said.node == cluster.me.node:
        return cluster, [] if said.incarnation == cluster.me.incarnation else [Warn("duplicate", said.node, said.uri)]
    if peer is None or said.incarnation > peer.incarnation:  # a stranger, or a peer that restarted
        return _dial_hearsay(cluster, said.uri, now_ns)
    if said.incarnation < peer.incarnation:
        return cluster, [Warn("duplicate", said.node, said.uri)]
    wanted = [_want(cluster, peer)] if said.revision != peer.revision and not cluster.is_member(peer) else []
    return _with_peer(cluster, replace(peer, heard_at_ns=now_ns)), [*wanted]


def _overhear_beat(cluster: Cluster, said: Beat, now_ns: int) -> Step:
    peer = cluster.peers.get(said.node)
    if said.node == cluster.me.node:
        return cluster, []
    if peer is None or said.incarnation > peer.incarnation:
        return _dial_hearsay(cluster, said.uri, now_ns)
    return cluster, [Say(peer.uri, cluster.hello(peer.uri))]


def _dial_hearsay(cluster: Cluster, uri: str, now_ns: int) -> Step:
    return _dial(cluster, uri, now_ns, cluster.pace.hearsay_tries) if _has_room(cluster) else (cluster, [])


def _has_room(cluster: Cluster) -> bool:
    """Tell whether there may be one more connection to an address that the user did not give."""
    return sum(link.tries_left is not None for link in cluster.links.values()) < MAX_HEARSAY


def _hear_routes(cluster: Cluster, said: Routes, now_ns: int) -> Step:
    peer = _speaker(cluster, said.node, said.incarnation)
    if peer is None:
        return cluster, []
    peer = replace(peer, heard_at_ns=now_ns)
    if cluster.is_member(peer):
        return _with_peer(cluster, peer), []
    is_all = said.base == 0
    if not is_all and said.base != peer.revision:
        missed = said.revision > peer.revision
        return _with_peer(cluster, peer), [_want(cluster, peer)] if missed else []
    if is_all and said.revision < peer.revision:
        return _with_peer(cluster, peer), []
    cluster = _with_peer(cluster, replace(peer, revision=said.revision))
    return cluster, [ApplyRoutes(peer.node, said.added, said.removed, is_all)]


def _hear_wanted(cluster: Cluster, said: RoutesWanted, now_ns: int) -> Step:
    peer = _speaker(cluster, said.node, said.incarnation)
    if peer is None:
        return cluster, []
    return _with_peer(cluster, replace(peer, heard_at_ns=now_ns)), [Say(peer.uri, cluster.all_routes(), peer.node)]


def _hear_bye(cluster: Cluster, said: Bye, now_ns: int) -> Step:
    peer = _speaker(cluster, said.node, said.incarnation)
    if peer is None:
        return cluster, []
    if cluster.is_member(peer):  # the end of a link; that a member leaves is told through the cluster
        dialled = [link.uri for link in cluster.links.values() if link.node == peer.node]
        cluster, commands = _part(_redialled(cluster, peer.node, now_ns), peer, "left", now_ns)
        return cluster, commands + _hang_up(cluster, *dialled)
    return _lose(cluster, peer.node, "left", now_ns)


def _change_routes(cluster: Cluster, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...]) -> Step:
    new, kept = tuple([route for route in added if route not in cluster.routes]), frozenset(added)
    gone = tuple([route for route in removed if route in cluster.routes and route not in kept])
    if not new and not gone:
        return cluster, []
    routes = cluster.routes.changed(new, gone)
    revision = cluster.revision + max(1, -(-routes.size // PAGE_ROUTES))  # with room for pages
    said = Routes(cluster.me.node, cluster.me.incarnation, revision, cluster.revision, new, gone)
    cluster = replace(cluster, routes=routes, revision=said.revision)
    return cluster, [Say(peer.uri, said, peer.node) for peer in cluster.peers.values() if not cluster.is_member(peer)]


def _tick(cluster: Cluster, now_ns: int) -> Step:
    commands: list[Command] = []
    for peer in list(cluster.peers.values()):
        if now_ns - peer.heard_at_ns > cluster.pace.silence_ns and not cluster.is_member(peer):
            cluster, lost = _lose(cluster, peer.node, "silent", now_ns)
            commands += lost
    for link in list(cluster.links.values()):
        if not link.node and now_ns >= link.next_hello_ns:
            cluster, again = _dial_again(cluster, link, now_ns)
            commands += again
    if now_ns >= cluster.next_beat_ns:
        me = cluster.me
        beat = Beat(me.node, me.incarnation, me.uri, cluster.revision)
        beaten = [peer for peer in cluster.peers.values() if not cluster.is_member(peer)]
        commands += [Say(peer.uri, beat, peer.node) for peer in beaten]
        cluster = replace(cluster, next_beat_ns=now_ns + cluster.pace.beat_ns)
    return cluster, commands


def _excused(cluster: Cluster, late_ns: int) -> Cluster:
    """Do not hold the time against the peers in which this node stood still and listened to nobody."""
    peers = {node: replace(peer, heard_at_ns=peer.heard_at_ns + late_ns) for node, peer in cluster.peers.items()}
    return replace(cluster, peers=peers)


def _dial_again(cluster: Cluster, link: Link, now_ns: int) -> Step:
    if link.tries_left == 0:
        cluster = _without_link(cluster, link.uri)
        return cluster, _hang_up(cluster, link.uri)
    commands: list[Command] = [Say(link.uri, cluster.hello(link.uri))]
    pause = min(2 * link.pause_ns, cluster.pace.longest_hello_ns)
    tries = None if link.tries_left is None else link.tries_left - 1
    waited_ns = now_ns - link.since_ns
    if tries is None and waited_ns >= link.warn_ns:
        detail = f"no answer to {link.hellos} hellos in {waited_ns // NS_PER_SECOND} s"
        commands.append(Warn("unanswered", b"", link.uri, detail))
        link = replace(link, warn_ns=2 * waited_ns)
    link = replace(link, pause_ns=pause, next_hello_ns=now_ns + pause, tries_left=tries, hellos=link.hellos + 1)
    return _with_link(cluster, link), commands


def _lose(cluster: Cluster, node: bytes, reason: str, now_ns: int) -> Step:
    peer = cluster.peers.get(node)
    if peer is None:
        return cluster, []
    cluster, commands = _forget(cluster, peer, reason)
    if reason == "silent":
        kept = list(cluster.silent.items())[1 - MAX_PEERS :]
        cluster = replace(cluster, silent={**dict(kept), node: peer})
    dialled = [link.uri for link in cluster.links.values() if link.node == node]
    cluster = _redialled(cluster, node, now_ns)
    return cluster, commands + _hang_up(cluster, peer.uri, *dialled)


def _release(cluster: Cluster, node: bytes, now_ns: int) -> Step:
    """Say goodbye over a link that is not needed, and close it once everything has arrived that is on its way."""
    peer = cluster.peers.get(node)
    if peer is None:
        return cluster, []
    bye = Say(peer.uri, Bye(cluster.me.node, cluster.me.incarnation), peer.node)
    dialled = [link.uri for link in cluster.links.values() if link.node == node]
    for uri in dialled:
        cluster = _without_link(cluster, uri)
    cluster, commands = _part(cluster, peer, "idle", now_ns)
    return cluster, [bye, *commands, *_hang_up(cluster, *dialled)]


def _part(cluster: Cluster, peer: Peer, reason: str, now_ns: int) -> Step:
    """Forget a member as a peer; what is on its way between both still arrives."""
    cluster, commands = _forget(cluster, peer, reason)
    if peer.uri not in cluster.links:
        cluster = _with_link(cluster, Link(peer.uri, LEAVE_NS, now_ns + LEAVE_NS, tries_left=0))
    return cluster, commands


def _rise(cluster: Cluster, incarnation: int) -> Step:
    """Say hello to every peer under a later start, and all routes to those who are no members."""
    cluster = replace(cluster, me=replace(cluster.me, incarnation=incarnation))
    said: list[Command] = []
    for peer in cluster.peers.values():
        said.append(Say(peer.uri, cluster.hello("", heard=peer.incarnation), peer.node))
        if not cluster.is_member(peer):
            said.append(Say(peer.uri, cluster.all_routes(), peer.node))
    return cluster, said


def _redialled(cluster: Cluster, node: bytes, now_ns: int) -> Cluster:
    """Dial the addresses of a peer anew, since it is not known who lives there now; forget addresses of strangers."""
    for link in [link for link in cluster.links.values() if link.node == node]:
        if link.tries_left is None:
            cluster = _with_link(cluster, _new_link(cluster, link.uri, now_ns))
        else:
            cluster = _without_link(cluster, link.uri)
    return cluster


def _forget(cluster: Cluster, peer: Peer, reason: str) -> Step:
    peers = {node: other for node, other in cluster.peers.items() if node != peer.node}
    return replace(cluster, peers=peers), [LoseNode(peer.node, reason)]


def _speaker(cluster: Cluster, node: bytes, incarnation: int) -> Peer | None:
    """The peer that speaks, if it has said hello in this incarnation."""
    peer = cluster.peers.get(node)
    return peer if peer is not None and peer.incarnation == incarnation else None


def _want(cluster: Cluster, peer: Peer) -> Say:
    return Say(peer.uri, RoutesWanted(cluster.me.node, cluster.me.incarnation), peer.node)


def _with_peer(cluster: Cluster, peer: Peer) -> Cluster:
    silent = cluster.silent
    if peer.node in silent:
        silent = {node: other for node, other in silent.items() if node != peer.node}
    return replace(cluster, peers={**cluster.peers, peer.node: peer}, silent=silent)


def _with_link(cluster: Cluster, link: Link) -> Cluster:
    return replace(cluster, links={**cluster.links, link.uri: link})


def _without_link(cluster: Cluster, uri: str) -> Cluster:
    return replace(cluster, links={other: link for other, link in cluster.links.items() if other != uri})

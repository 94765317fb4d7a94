"""Scripts: this event in, these commands out; and whole clusters on a lossy network with a clock of their own."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.cluster import peers
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
    LoseNode,
    MeetNode,
    Overheard,
    Pace,
    Peer,
    Refused,
    Released,
    RoutesChanged,
    Say,
    Self,
    Stirred,
    Ticked,
    Warn,
)
from hopwire.cluster.peers import MAX_HEARSAY, MAX_PEERS, Cluster, pages_of, step
from hopwire.errors import SettingsError
from hopwire.model import Payload, body_from_payload, payload_from_body
from hopwire.model.units import NS_PER_SECOND

A = Self(b"A", 1, "tcp://a:1")
B = Self(b"B", 7, "tcp://b:1", formats=(5,), capabilities=("train",))
GREET: AnnouncedRoute = (b"\1actor", b"greet", 1, b"")
BYE_ROUTE: AnnouncedRoute = (b"\1actor", b"bye", 1, b"")


def hello_of(me: Self, heard: int = 0, via: str = "") -> Hello:
    return Hello(me.node, me.incarnation, me.uri, me.formats, me.capabilities, heard, via)


def run(cluster: Cluster, *events: Event, now_ns: int = 0) -> tuple[Cluster, list[Command]]:
    """Hand in events, one after another, and give the commands of the last."""
    commands: list[Command] = []
    for event in events:
        cluster, commands = step(cluster, event, now_ns)
    return cluster, commands


def met(now_ns: int = 0) -> Cluster:
    return run(Cluster(A), Heard(hello_of(B, heard=A.incarnation)), now_ns=now_ns)[0]


def names(commands: list[Command]) -> list[str]:
    return [type(c.payload).__name__ if isinstance(c, Say) else type(c).__name__ for c in commands]


# -- dialling


def test_an_address_is_connected_and_greeted() -> None:
    cluster, commands = run(Cluster(A), Dialled(B.uri))
    assert commands == [Connect(B.uri), Say(B.uri, hello_of(A, via=B.uri))]
    assert run(cluster, Dialled(B.uri))[1] == []


def test_hellos_are_repeated_with_growing_pauses_until_answered() -> None:
    cluster, _ = run(Cluster(A), Dialled(B.uri))
    said_at = []
    for now_ns in range(0, 20 * NS_PER_SECOND, NS_PER_SECOND // 10):
        cluster, commands = run(cluster, Ticked(), now_ns=now_ns)
        said_at += [now_ns] * names(commands).count("Hello")
    pauses = [b - a for a, b in pairwise(said_at)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == Pace().longest_hello_ns
    cluster, _ = run(cluster, Heard(hello_of(B, heard=A.incarnation, via=B.uri)), now_ns=20 * NS_PER_SECOND)
    assert "Hello" not in names(run(cluster, Ticked(), now_ns=24 * NS_PER_SECOND)[1])


def test_the_dialled_address_is_kept_where_the_peer_announces_another() -> None:
    cluster, _ = run(Cluster(A), Dialled("tcp://localhost:1"))
    cluster, commands = run(cluster, Heard(hello_of(B, heard=A.incarnation, via="tcp://localhost:1")))
    assert cluster.peers[b"B"].uri == "tcp://localhost:1"
    assert not any(isinstance(command, Connect) for command in commands)


def test_the_own_address_is_left_alone_so_that_all_nodes_can_have_the_same_list() -> None:
    assert run(Cluster(A), Dialled(A.uri)) == (Cluster(A), [])
    assert run(Cluster(A), Heard(hello_of(A))) == (Cluster(A), [])


def test_an_address_that_turns_out_to_be_the_own_is_dialled_no_more() -> None:
    other_name = "tcp://localhost:1"
    cluster, commands = run(Cluster(A), Dialled(other_name), Heard(hello_of(A, via=other_name)))
    assert cluster == Cluster(A)
    assert commands == [Disconnect(other_name)]
    again = Heard(hello_of(Self(b"A", 2, A.uri), via=other_name))
    assert run(Cluster(A), Dialled(other_name), again)[1] == [Warn("duplicate", b"A", A.uri)]


def test_a_peer_that_answered_is_not_given_up_for_a_hello_of_our_own() -> None:
    answered = Heard(hello_of(B, heard=A.incarnation, via=B.uri))
    cluster, _ = run(Cluster(A), Dialled(B.uri), answered)
    assert run(cluster, Heard(hello_of(A, via=B.uri))) == (cluster, [])


def test_an_address_that_does_not_answer_is_reported_with_growing_pauses() -> None:
    cluster, _ = run(Cluster(A), Dialled(B.uri))
    reported = []
    for now_ns in range(0, 200 * NS_PER_SECOND, NS_PER_SECOND // 10):
        cluster, commands = run(cluster, Ticked(), now_ns=now_ns)
        reported += [(now_ns // NS_PER_SECOND, c.uri, c.detail) for c in commands if isinstance(c, Warn)]
    assert reported[0] == (6, B.uri, "no answer to 6 hellos in 6 s")
    assert [at for at, _, _ in reported] == [6, 16, 36, 76, 156]


def test_hearsay_that_does_not_answer_is_forgotten_without_a_word() -> None:
    cluster, _ = run(Cluster(A), Heard(Beat(b"Z", 1, "tcp://z:1", 1)))
    for now_ns in range(0, 100 * NS_PER_SECOND, NS_PER_SECOND):
        cluster, commands = run(cluster, Ticked(), now_ns=now_ns)
        assert not any(isinstance(command, Warn) for command in commands)


# -- beats over a connection without a hello


def test_an_overheard_beat_of_a_stranger_is_hearsay() -> None:
    assert run(Cluster(A), Overheard(Beat(b"B", 7, B.uri, 1)))[1] == [
        Connect(B.uri),
        Say(B.uri, hello_of(A, via=B.uri)),
    ]


def test_an_overheard_beat_of_a_peer_is_no_sign_of_life_and_asks_the_peer_for_its_hello() -> None:
    cluster = met(now_ns=5)
    after, commands = run(cluster, Overheard(Beat(b"B", 7, "tcp://elsewhere:1", 99)), now_ns=10)
    assert after == cluster
    assert commands == [Say(B.uri, hello_of(A, via=B.uri))]
    assert run(cluster, Overheard(Beat(b"A", 1, A.uri, 1))) == (cluster, [])


# -- meeting


def test_a_stranger_is_connected_answered_and_told_all_routes() -> None:
    cluster, _ = run(Cluster(A), RoutesChanged(added=(GREET,)))
    cluster, commands = run(cluster, Heard(hello_of(B, via="tcp://a:1")), now_ns=5)
    assert names(commands) == ["Connect", "MeetNode", "Hello", "Routes"]
    assert commands[2] == Say(B.uri, hello_of(A, heard=B.incarnation, via="tcp://a:1"))
    assert commands[3] == Say(B.uri, Routes(b"A", 1, 2, 0, (GREET,)), b"B")
    peer = cluster.peers[b"B"]
    assert (peer.formats, peer.capabilities, peer.heard_at_ns) == ((5,), ("train",), 5)


def test_the_first_answer_is_answered_which_proves_that_it_was_heard_and_the_next_is_not() -> None:
    heard = Heard(hello_of(B, heard=A.incarnation, via=B.uri))
    cluster, commands = run(Cluster(A), Dialled(B.uri), heard)
    assert names(commands) == ["MeetNode", "Hello", "Routes"]
    assert commands[1] == Say(B.uri, hello_of(A, heard=B.incarnation))
    assert run(cluster, heard)[1] == []


def test_the_first_word_over_a_new_connection_is_a_hello_that_wants_no_answer() -> None:
    _, commands = run(Cluster(A), Heard(hello_of(B, heard=A.incarnation)))
    assert names(commands) == ["Connect", "MeetNode", "Hello", "Routes"]
    assert commands[2] == Say(B.uri, hello_of(A, heard=B.incarnation))
    assert names(run(Cluster(B), Heard(hello_of(A, heard=B.incarnation)))[1])[:2] == ["Connect", "MeetNode"]


def test_a_second_hello_of_a_known_peer_changes_its_address_and_nothing_else() -> None:
    cluster, commands = run(met(), Heard(Hello(b"B", 7, "tcp://b:2", heard=A.incarnation)))
    hello = Say("tcp://b:2", hello_of(A, heard=7))
    assert commands == [Connect("tcp://b:2"), MeetNode(cluster.peers[b"B"]), hello]
    assert cluster.peers[b"B"].uri == "tcp://b:2"
    assert run(cluster, Heard(Hello(b"B", 7, "tcp://b:2", heard=A.incarnation)))[1] == []


def test_the_connection_to_the_former_address_of_a_peer_is_closed_when_all_has_arrived() -> None:
    cluster, _ = run(met(), Heard(Hello(b"B", 7, "tcp://b:2", heard=A.incarnation)))
    assert Disconnect("tcp://b:1") not in run(cluster, Ticked(), now_ns=NS_PER_SECOND)[1]
    cluster, commands = run(cluster, Ticked(), now_ns=2 * NS_PER_SECOND)
    assert Disconnect("tcp://b:1") in commands
    assert not cluster.links


def test_a_peer_that_moves_again_and_again_keeps_few_connections_open() -> None:
    cluster, is_open = met(), 1
    for number in range(1000):
        cluster, commands = run(cluster, Heard(Hello(b"B", 7, f"tcp://b:{number + 2}", heard=A.incarnation)))
        is_open += names(commands).count("Connect") - names(commands).count("Disconnect")
    assert is_open <= MAX_HEARSAY + 1


def test_the_former_address_of_a_peer_that_comes_back_to_it_stays_connected() -> None:
    there, back = (Heard(Hello(b"B", 7, uri, heard=A.incarnation)) for uri in ("tcp://b:2", "tcp://b:1"))
    cluster, commands = run(met(), there, back)
    assert commands == [MeetNode(cluster.peers[b"B"])]
    commands = run(cluster, Ticked(), now_ns=3 * NS_PER_SECOND)[1]
    assert Disconnect("tcp://b:1") not in commands
    assert Disconnect("tcp://b:2") in commands


def test_a_peer_that_restarted_is_lost_and_met_again() -> None:
    _, commands = run(met(), Heard(Hello(b"B", 8, "tcp://b:9")))
    assert names(commands) == ["LoseNode", "Disconnect", "Connect", "MeetNode", "Hello", "Routes"]
    assert commands[:2] == [LoseNode(b"B", "restarted"), Disconnect(B.uri)]


def test_a_peer_that_was_dialled_and_restarted_elsewhere_is_talked_to_where_it_is_now() -> None:
    heard = Heard(hello_of(B, heard=A.incarnation, via=B.uri))
    elsewhere = Self(b"B", 8, "tcp://b:2")
    cluster, commands = run(Cluster(A), Dialled(B.uri), heard, Heard(hello_of(elsewhere, via=A.uri)))
    assert [command.peer.uri for command in commands if isinstance(command, MeetNode)] == [elsewhere.uri]
    assert {command.uri for command in commands if isinstance(command, Say)} == {elsewhere.uri}
    again = run(cluster, Ticked(), now_ns=NS_PER_SECOND)[1]
    assert Say(B.uri, hello_of(A, via=B.uri)) in again  # somebody may come back there


def test_a_peer_that_restarted_at_the_same_address_keeps_its_connection() -> None:
    _, commands = run(met(), Heard(Hello(b"B", 8, B.uri)))
    assert "Disconnect" not in names(commands)


def test_a_peer_that_is_found_at_the_dialled_address_is_met_again_there() -> None:
    cluster, _ = run(Cluster(A), Dialled("tcp://localhost:1"), Heard(hello_of(B)))
    assert cluster.peers[b"B"].uri == B.uri
    cluster, commands = run(cluster, Heard(hello_of(B, heard=A.incarnation, via="tcp://localhost:1")))
    assert commands == [MeetNode(cluster.peers[b"B"])]
    assert Disconnect(B.uri) in run(cluster, Ticked(), now_ns=2 * NS_PER_SECOND)[1]
    assert cluster.peers[b"B"].uri == "tcp://localhost:1"


@pytest.mark.parametrize(
    "said", [Hello(b"B", 6, "tcp://x:1"), Beat(b"B", 6, "tcp://x:1", 1), Hello(b"A", 9, "tcp://x:1")]
)
def test_two_processes_with_one_identity_are_reported_and_the_older_is_not_believed(said: Payload) -> None:
    cluster = met()
    after, commands = run(cluster, Heard(said), now_ns=9)
    assert [command.what for command in commands if isinstance(command, Warn)] == ["duplicate"]
    assert after == cluster


# -- living and dying


def test_beats_go_to_every_peer_at_their_pace() -> None:
    cluster, commands = run(met(), Ticked(), now_ns=0)
    assert commands == [Say(B.uri, Beat(b"A", 1, A.uri, 1), b"B")]
    assert run(cluster, Ticked(), now_ns=Pace().beat_ns - 1)[1] == []
    assert names(run(cluster, Ticked(), now_ns=Pace().beat_ns)[1]) == ["Beat"]


def test_a_silent_peer_is_lost_and_its_connection_closed() -> None:
    cluster = met()
    assert "LoseNode" not in names(run(cluster, Ticked(), now_ns=Pace().silence_ns)[1])
    cluster, commands = run(cluster, Ticked(), now_ns=Pace().silence_ns + 1)
    assert commands == [LoseNode(b"B", "silent"), Disconnect(B.uri)]
    assert cluster.peers == {}


def test_the_connection_stays_while_another_peer_is_at_its_address() -> None:
    cluster, _ = run(met(), Heard(Hello(b"C", 9, B.uri, heard=A.incarnation)), now_ns=NS_PER_SECOND)
    cluster, commands = run(cluster, Heard(Bye(b"B", 7)), now_ns=NS_PER_SECOND)
    assert commands == [LoseNode(b"B", "left")]
    assert run(cluster, Heard(Bye(b"C", 9)))[1] == [LoseNode(b"C", "left"), Disconnect(B.uri)]


def test_an_address_that_is_given_up_stays_connected_if_a_peer_is_there() -> None:
    cluster, _ = run(Cluster(A), Heard(Beat(b"B", 7, B.uri, 1)), Heard(hello_of(B)))
    everything: list[Command] = []
    for second in range(60):
        alive = Heard(Beat(b"B", 7, B.uri, 0))
        cluster, commands = run(cluster, alive, Ticked(), now_ns=second * NS_PER_SECOND)
        everything += commands
    assert cluster.links == {}
    assert "Disconnect" not in names(everything)


def test_strangers_cannot_have_any_number_of_addresses_dialled() -> None:
    cluster = Cluster(A)
    for number in range(1000):
        cluster, _ = run(cluster, Heard(Beat(b"X", number, f"tcp://x:{number}", 1)))
    assert len(cluster.links) == MAX_HEARSAY


def test_strangers_cannot_make_a_node_meet_any_number_of_nodes() -> None:
    peers = {b"%d" % number: Peer(b"%d" % number, 1, "", (6,), (), 0) for number in range(MAX_PEERS)}
    cluster, _ = run(Cluster(A, peers=peers), Dialled(B.uri))
    after, commands = run(cluster, Heard(hello_of(B)))
    assert (after, commands) == (cluster, [Warn("too_many_peers", b"B", B.uri)])
    after, _ = run(cluster, Heard(hello_of(B, heard=A.incarnation, via=B.uri)))
    assert b"B" in after.peers


def test_a_lost_peer_that_was_dialled_is_dialled_again() -> None:
    cluster, _ = run(Cluster(A), Dialled(B.uri), Heard(hello_of(B, heard=A.incarnation, via=B.uri)))
    cluster, commands = run(cluster, Refused(b"B"))
    assert commands == [LoseNode(b"B", "unreachable")]
    assert names(run(cluster, Ticked(), now_ns=NS_PER_SECOND)[1]) == ["Hello"]


def test_a_peer_that_says_bye_is_lost_at_once() -> None:
    assert run(met(), Heard(Bye(b"B", 7)))[1] == [LoseNode(b"B", "left"), Disconnect(B.uri)]


def test_words_of_strangers_and_of_earlier_incarnations_are_not_heeded() -> None:
    for said in (Bye(b"B", 6), Routes(b"B", 6, 5), RoutesWanted(b"B", 6), Bye(b"X", 1), Routes(b"X", 1, 5)):
        cluster = met()
        assert run(cluster, Heard(said)) == (cluster, [])


def test_a_beat_of_a_stranger_is_answered_with_a_hello_a_few_times() -> None:
    cluster, commands = run(Cluster(A), Heard(Beat(b"B", 7, B.uri, 1)))
    assert names(commands) == ["Connect", "Hello"]
    everything: list[Command] = []
    for second in range(60):
        cluster, commands = run(cluster, Ticked(), now_ns=second * NS_PER_SECOND)
        everything += commands
    assert names(everything) == ["Hello"] * Pace().hearsay_tries + ["Disconnect"]
    assert cluster.links == {}


# -- routes


def test_routes_that_follow_are_applied() -> None:
    cluster, commands = run(met(), Heard(Routes(b"B", 7, 3, 0, (GREET,))))
    assert commands == [ApplyRoutes(b"B", (GREET,), (), is_all=True)]
    cluster, commands = run(cluster, Heard(Routes(b"B", 7, 4, 3, (BYE_ROUTE,), (GREET,))))
    assert commands == [ApplyRoutes(b"B", (BYE_ROUTE,), (GREET,), is_all=False)]
    assert cluster.peers[b"B"].revision == 4


def test_a_change_that_was_skipped_is_asked_for() -> None:
    cluster, _ = run(met(), Heard(Routes(b"B", 7, 3, 0, (GREET,))))
    wanted = [Say(B.uri, RoutesWanted(b"A", 1), b"B")]
    assert run(cluster, Heard(Routes(b"B", 7, 6, 5, (BYE_ROUTE,))))[1] == wanted
    assert run(cluster, Heard(Beat(b"B", 7, B.uri, 4)))[1] == wanted
    assert run(cluster, Heard(Beat(b"B", 7, B.uri, 3)))[1] == []


def test_what_comes_late_or_twice_does_no_harm() -> None:
    cluster, _ = run(met(), Heard(Routes(b"B", 7, 3, 0, (GREET,))), Heard(Routes(b"B", 7, 4, 3, (BYE_ROUTE,))))
    assert run(cluster, Heard(Routes(b"B", 7, 4, 3, (BYE_ROUTE,))))[1] == []
    assert run(cluster, Heard(Routes(b"B", 7, 2, 0, ())))[1] == []


def test_who_asks_gets_all_routes() -> None:
    assert run(met(), Heard(RoutesWanted(b"B", 7)))[1] == [Say(B.uri, Routes(b"A", 1, 1, 0), b"B")]


def test_very_many_routes_are_told_in_pages_that_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PAGE_ROUTES", 4)
    routes = tuple((b"\1actor", b"contract.%d" % number, 1, b"") for number in range(10))
    owner = run(Cluster(B), RoutesChanged(added=routes[:9]), RoutesChanged(added=routes[9:]))[0]
    pages = list(pages_of(owner.all_routes()))
    assert [len(page.added) for page in pages] == [4, 4, 2]
    reader, held = met(), set[AnnouncedRoute]()
    for page in pages:
        reader, commands = run(reader, Heard(page))
        (applied,) = commands
        assert isinstance(applied, ApplyRoutes)
        held = {*(() if applied.is_all else held), *applied.added}
    assert held == {*routes}
    beat = Heard(Beat(b"B", 7, B.uri, owner.revision))
    assert run(reader, beat)[1] == []
    assert run(reader, Heard(pages[0]))[1] == []  # who knows all of this revision has no use for its pages
    owner, (said,) = run(run(owner, Heard(hello_of(A, heard=7)))[0], RoutesChanged(removed=routes[:1]))
    assert isinstance(said, Say)
    assert isinstance(said.payload, Routes)
    reader, (applied,) = run(reader, Heard(said.payload))
    assert applied == ApplyRoutes(b"B", (), routes[:1], False)
    for missed in range(3):  # what was known before does not matter
        late = met()
        for number, page in enumerate(pages_of(owner.all_routes())):
            late = run(late, *[Heard(page)] * (number != missed))[0]
        assert run(late, Heard(Beat(b"B", 7, B.uri, owner.revision)))[1] == [Say(B.uri, RoutesWanted(b"A", 1), b"B")]


def test_changes_are_told_and_nothing_is_said_of_what_did_not_change() -> None:
    cluster, commands = run(met(), RoutesChanged(added=(GREET, BYE_ROUTE)))
    assert commands == [Say(B.uri, Routes(b"A", 1, 2, 1, (GREET, BYE_ROUTE)), b"B")]
    assert run(cluster, RoutesChanged(added=(GREET,)))[1] == []
    assert run(cluster, RoutesChanged(removed=((b"x", b"y", 1, b""),)))[1] == []
    assert run(cluster, RoutesChanged(removed=(GREET,)))[1] == [Say(B.uri, Routes(b"A", 1, 3, 2, (), (GREET,)), b"B")]


def test_a_payload_of_another_kind_is_not_for_us() -> None:
    class Other(Payload, identity="other"):
        pass

    cluster = met()
    assert run(cluster, Heard(Other())) == (cluster, [])


@pytest.mark.parametrize("pace", [{"beat_ns": 0}, {"silence_ns": 1}, {"hello_ns": 0}, {"longest_hello_ns": 1}])
def test_a_pace_that_makes_no_sense_is_refused(pace: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="pace"):
        Pace(**pace)


# -- whole clusters


class Network:
    """Nodes that hear each other through a network that loses, repeats and reorders."""

    def __init__(self, count: int, chance: Random) -> None:
        self.chance = chance
        self.loss = 0.0
        self.now_ns = 0
        self.nodes = {f"tcp://{i}": Cluster(Self(bytes([i]), 1, f"tcp://{i}")) for i in range(count)}
        self.known: dict[str, dict[bytes, set[AnnouncedRoute]]] = {uri: {} for uri in self.nodes}
        self.flying: list[tuple[str, Payload]] = []

    def hand_in(self, uri: str, event: Event) -> None:
        self.nodes[uri], commands = step(self.nodes[uri], event, self.now_ns)
        for command in commands:
            self._carry_out(self.known[uri], command)

    def _carry_out(self, known: dict[bytes, set[AnnouncedRoute]], command: Command) -> None:
        match command:
            case Say(to, payload, _):
                copies = 0 if self.chance.random() < self.loss else 1 + (self.chance.random() < self.loss / 2)
                self.flying += [(to, payload_from_body(type(payload), body_from_payload(payload)))] * copies
            case MeetNode(peer):
                assert peer.node not in known
                known[peer.node] = set()
            case LoseNode(node, _):
                del known[node]
            case ApplyRoutes(node, added, removed, is_all):
                known[node] = (set() if is_all else known[node] - set(removed)) | set(added)
            case _:
                pass

    def settle(self, seconds: int) -> None:
        for _ in range(seconds * 4):
            self.now_ns += NS_PER_SECOND // 4
            for uri in list(self.nodes):
                self.hand_in(uri, Ticked())
            while self.flying:
                place = self.chance.randrange(len(self.flying)) if self.loss else 0
                to, payload = self.flying.pop(place)
                if to in self.nodes:
                    self.hand_in(to, Heard(payload))

    def restart(self, uri: str) -> None:
        old = self.nodes[uri]
        again = Self(old.me.node, old.me.incarnation + 1, uri)
        self.nodes[uri], self.known[uri] = Cluster(again), {}
        for link in old.links:
            self.hand_in(uri, Dialled(link))


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("remove"), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("restart"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 8), st.just(0)),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 2)
@given(ACTIONS, st.randoms(use_true_random=False), st.sampled_from([0.0, 0.2, 0.6]))
def test_whatever_is_lost_on_the_way_all_know_the_routes_of_all_in_the_end(
    actions: list[tuple[str, int, int]], chance: Random, loss: float
) -> None:
    network = Network(3, chance)
    for low, high in ((0, 1), (2, 0), (1, 2)):
        network.hand_in(f"tcp://{low}", Dialled(f"tcp://{high}"))
    network.loss = loss
    for what, which, number in actions:
        uri = f"tcp://{which % 3}"
        route: AnnouncedRoute = (b"\1actor", bytes([number]), 1, b"")
        if what == "add":
            network.hand_in(uri, RoutesChanged(added=(route,)))
        elif what == "remove":
            network.hand_in(uri, RoutesChanged(removed=(route,)))
        elif what == "restart":
            network.restart(uri)
        else:
            network.settle(which)
    network.loss = 0.0
    network.settle(30)
    for uri, known in network.known.items():
        others = {other.me.node: set(other.routes) for at, other in network.nodes.items() if at != uri}
        assert known == others


def test_a_peer_that_says_anything_is_alive() -> None:
    cluster = met()
    for second in range(1, 20):
        cluster, commands = run(cluster, Stirred((b"B", b"nobody")), Ticked(), now_ns=second * NS_PER_SECOND)
        assert "LoseNode" not in names(commands)
    assert "LoseNode" in names(run(cluster, Ticked(), now_ns=25 * NS_PER_SECOND)[1])


def test_a_node_that_stood_still_does_not_hold_the_time_against_its_peers() -> None:
    late_ns = 60 * NS_PER_SECOND
    cluster, commands = run(met(), Ticked(late_ns), now_ns=late_ns + NS_PER_SECOND)
    assert "LoseNode" not in names(commands)
    assert "LoseNode" in names(run(cluster, Ticked(), now_ns=late_ns + 6 * NS_PER_SECOND)[1])


# -- who is doubted, and who comes back


def test_a_peer_that_was_heard_of_late_holds_its_place() -> None:
    cluster = met(now_ns=0)
    assert cluster.holds(b"B", 2 * NS_PER_SECOND)
    assert not cluster.holds(b"B", 2 * NS_PER_SECOND + 1)
    assert not cluster.holds(b"nobody", 0)


def test_a_doubted_hello_of_the_same_start_asks_the_peer_and_changes_nothing() -> None:
    cluster = met()
    elsewhere = Hello(b"B", B.incarnation, "tcp://elsewhere:1", via="tcp://a:1")
    after, commands = run(cluster, Doubted(elsewhere, b"secret"))
    assert after == cluster
    asked = Hello(b"A", 1, A.uri, A.formats, A.capabilities, B.incarnation, "tcp://a:1", b"secret")
    assert commands == [Say(B.uri, asked, b"B")]


def test_a_doubted_hello_of_another_start_is_told_to_people_and_to_the_peer() -> None:
    cluster = met()
    after, commands = run(cluster, Doubted(Hello(b"B", B.incarnation + 1, "tcp://elsewhere:1"), b"secret"))
    assert after == cluster
    told = Doubled(b"A", 1, b"B", "tcp://elsewhere:1")
    assert commands == [Warn("duplicate", b"B", "tcp://elsewhere:1"), Say(B.uri, told, b"B")]
    assert run(Cluster(A), Doubted(hello_of(B), b"secret")) == (Cluster(A), [])


def test_an_address_that_one_peer_answered_at_is_not_given_to_another() -> None:
    answered = Heard(hello_of(B, heard=A.incarnation, via=B.uri))
    cluster, _ = run(Cluster(A), Dialled(B.uri), answered)
    thief = Hello(b"C", 5, "tcp://c:1", heard=A.incarnation, via=B.uri)
    cluster, _ = run(cluster, Heard(thief))
    assert cluster.links[B.uri].node == b"B"
    assert cluster.peers[b"C"].uri == "tcp://c:1"


def test_a_peer_that_was_silent_is_met_again_with_its_first_word() -> None:
    late_ns = 6 * NS_PER_SECOND
    cluster, _ = run(met(), Ticked(), now_ns=late_ns)
    assert cluster.peers == {}
    cluster, commands = run(cluster, Stirred((b"B",)), now_ns=late_ns)
    assert names(commands) == ["Connect", "MeetNode", "Hello", "Routes", "RoutesWanted"]
    assert cluster.peers[b"B"].heard_at_ns == late_ns
    assert cluster.silent == {}
    assert run(cluster, Stirred((b"B", b"nobody")), now_ns=late_ns)[1] == []


@pytest.mark.parametrize("last", [Heard(Bye(b"B", B.incarnation)), Refused(b"B")])
def test_a_peer_that_left_or_died_is_not_met_again_by_a_late_word(last: Event) -> None:
    cluster, _ = run(met(), last)
    assert run(cluster, Stirred((b"B",))) == (cluster, [])


# -- members of a cluster

MEMBER = Self(b"A", 1, "tcp://a:1", capabilities=("members",))
OTHER = Self(b"B", 7, "tcp://b:1", capabilities=("members",))


def met_member() -> Cluster:
    return run(Cluster(MEMBER), Heard(hello_of(OTHER, heard=MEMBER.incarnation)))[0]


def test_members_tell_each_other_no_routes_and_beat_to_nobody() -> None:
    cluster, commands = run(Cluster(MEMBER), Heard(hello_of(OTHER, heard=MEMBER.incarnation)))
    assert not [each for each in commands if isinstance(each, Say) and isinstance(each.payload, Routes)]
    cluster, commands = run(cluster, RoutesChanged((GREET,)))
    assert commands == []
    assert run(cluster, Ticked(), now_ns=60 * NS_PER_SECOND)[1] == []
    assert run(cluster, Heard(Routes(b"B", 7, 2, 0, (GREET,))))[1] == []


def test_node_without_a_cluster_is_a_plain_peer_of_a_member() -> None:
    _, commands = run(Cluster(MEMBER), Heard(hello_of(B, heard=MEMBER.incarnation)))
    assert [each for each in commands if isinstance(each, Say) and isinstance(each.payload, Routes)]


def test_link_that_is_not_needed_is_closed_after_a_goodbye() -> None:
    cluster, commands = run(met_member(), Released(b"B"))
    assert commands == [Say("tcp://b:1", Bye(b"A", 1), b"B"), LoseNode(b"B", "idle")]
    assert run(cluster, Released(b"B"))[1] == []
    assert run(cluster, Ticked(), now_ns=3 * NS_PER_SECOND)[1] == [Disconnect("tcp://b:1")]


def test_goodbye_of_a_member_closes_its_link_after_a_while_as_there() -> None:
    cluster, commands = run(met_member(), Heard(Bye(b"B", 7)))
    assert commands == [LoseNode(b"B", "left")]
    assert run(cluster, Heard(Bye(b"B", 7)))[1] == []
    assert run(cluster, Ticked(), now_ns=NS_PER_SECOND)[1] == []
    assert run(cluster, Ticked(), now_ns=3 * NS_PER_SECOND)[1] == [Disconnect("tcp://b:1")]


def test_goodbye_of_a_member_closes_the_link_at_its_other_address_at_once() -> None:
    cluster, uris = Cluster(MEMBER), ("tcp://b:1", "tcp://b.example:1")
    for uri in uris:
        answer = Hello(b"B", 7, uris[0], (6,), ("members",), heard=MEMBER.incarnation, via=uri)
        cluster, _ = run(cluster, Dialled(uri, 5), Heard(answer))
    assert cluster.peers[b"B"].uri == uris[0]
    assert run(cluster, Released(b"B"))[1][1:] == [LoseNode(b"B", "idle"), Disconnect(uris[1])]
    assert run(cluster, Heard(Bye(b"B", 7)))[1] == [LoseNode(b"B", "left"), Disconnect(uris[1])]


@pytest.mark.parametrize("end", [Released(b"B"), Heard(Bye(b"B", 7))])
def test_link_that_is_dialled_again_before_it_is_closed_stays(end: Event) -> None:
    cluster, _ = run(met_member(), end)
    cluster, commands = run(cluster, Dialled("tcp://b:1", 5), now_ns=NS_PER_SECOND)
    assert commands == [Connect("tcp://b:1"), Say("tcp://b:1", cluster.hello("tcp://b:1"))]
    answer = Hello(b"B", 7, "tcp://b:1", (6,), ("members",), heard=MEMBER.incarnation, via="tcp://b:1")
    cluster, _ = run(cluster, Heard(answer), now_ns=NS_PER_SECOND)
    assert b"B" in cluster.peers
    assert run(cluster, Ticked(), now_ns=10 * NS_PER_SECOND)[1] == []


def test_address_of_a_member_is_dialled_a_few_times() -> None:
    cluster, commands = run(Cluster(MEMBER), Dialled("tcp://b:1", 2))
    assert commands[0] == Connect("tcp://b:1")
    said: list[Command] = []
    for second in (1, 2, 4, 8, 16):
        cluster, commands = run(cluster, Ticked(), now_ns=second * NS_PER_SECOND)
        said += commands
    assert len([each for each in said if isinstance(each, Say)]) == 2
    assert said[-1] == Disconnect("tcp://b:1")

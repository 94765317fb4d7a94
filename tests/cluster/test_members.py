"""Scripts of one member: this event in, these commands out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import (
    LEFT,
    Accusation,
    Ack,
    Compare,
    MemberRecord,
    OwnedRoutes,
    Ping,
    Roster,
    RoutesAsked,
    RoutesGiven,
    Rumours,
)
from hopwire.cluster.holdings import digest_of, hash_of
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
    Rise,
    SignsOfLife,
    Tell,
    Tie,
    TimePassed,
)
from hopwire.cluster.members import FUTURE_NS, MAX_MEMBERS, Members
from hopwire.model import Payload
from hopwire.model.units import NS_PER_SECOND

START = 10**18
GREET: AnnouncedRoute = (b"\1actor", b"greet", 1, b"")


def record_of(name: str, incarnation: int = START, sequence: int = 1) -> MemberRecord:
    return MemberRecord(name.encode(), incarnation, sequence, f"tcp://{name}:1")


@dataclass
class Script:
    """A member, its clock, and what it did."""

    members: Members
    now: float = 0.0

    def hand(self, event: MemberEvent) -> list[MemberCommand]:
        return self.members.step(event, int(self.now * NS_PER_SECOND), lambda: 0.99)

    def hear(self, said: Payload) -> list[MemberCommand]:
        return self.hand(MemberSaid(said))

    def wait(self, seconds: float) -> list[MemberCommand]:
        """Let time pass, and give everything that was done."""
        end, commands = self.now + seconds, list[MemberCommand]()
        while self.members.due_ns <= end * NS_PER_SECOND:
            self.now = max(self.now, self.members.due_ns / NS_PER_SECOND)
            commands += self.hand(TimePassed())
        self.now = end
        return commands

    def living(self) -> set[str]:
        return {record.node.decode() for record in self.members.living()}


def alone(*doors: str) -> Script:
    return Script(Members(record_of("me"), doors))


def among(*names: str) -> Script:
    """A member that has met others, with a link to each."""
    script = alone()
    script.wait(0.1)
    for name in names:
        script.hear(Rumours(names[0].encode(), START, (record_of(name),)))
    script.wait(1)
    for name in names:
        script.hand(LinkOpened(name.encode()))
    return script


def told(commands: list[MemberCommand], kind: type[Payload]) -> list[tuple[bytes, Payload]]:
    return [(each.node, each.payload) for each in commands if isinstance(each, Tell) and isinstance(each.payload, kind)]


def accusation(target: str, accuser: str, sequence: int = 1, is_gone: bool = False) -> Rumours:
    return Rumours(
        accuser.encode(), START, (), (Accusation(target.encode(), START, sequence, accuser.encode(), is_gone),)
    )


def test_who_is_alone_knocks_at_every_door_again_and_again() -> None:
    script = alone("tcp://door:1", "dns://doors:2")
    assert script.wait(0) == [Knock("tcp://door:1"), Knock("dns://doors:2")]
    assert len(script.wait(10)) >= 6


def test_door_that_opens_is_told_who_is_there_and_asked_who_else_is() -> None:
    script = alone("tcp://door:1")
    script.wait(0)
    assert script.hand(LinkOpened(b"door")) == [
        Tell(b"door", Rumours(b"me", START, (record_of("me"),))),
        Tell(b"door", Compare(b"me", START)),
    ]
    commands = script.hear(Roster(b"door", START, tuple(range(256)), (record_of("door"), record_of("b")), False))
    assert [each for each in commands if isinstance(each, Admit)] == [Admit(record_of("door")), Admit(record_of("b"))]
    assert Tie(b"b", "tcp://b:1") in script.wait(1)


def test_newcomer_gets_all_members_of_the_buckets_that_differ() -> None:
    script = among("b", "c")
    ((node, roster),) = told(script.hear(Compare(b"new", START)), Roster)
    assert node == b"new"
    assert isinstance(roster, Roster)
    assert {record.node for record in roster.records} == {b"me", b"b", b"c"}
    assert len(roster.buckets) == 3
    assert script.hear(Compare(b"b", START, tuple(script.members.buckets))) == []


def test_door_that_is_asked_too_much_names_others() -> None:
    script = among("b", "c")
    rosters = [told(script.hear(Compare(b"new", START)), Roster)[0][1] for _ in range(60)]
    last = rosters[-1]
    assert isinstance(last, Roster)
    assert (last.buckets, last.is_more) == ((), True)


def test_ping_is_answered() -> None:
    script = among("b")
    ((node, ack),) = told(script.hear(Ping(b"b", START, 17, script.members.digest)), Ack)
    assert (node, ack) == (b"b", Ack(b"me", START, 17, script.members.digest))


def test_news_go_on_to_all_neighbours_but_the_one_who_told() -> None:
    script = among("b", "c", "d")
    script.hear(Rumours(b"b", START, (record_of("new"),)))
    assert {node for node, _ in told(script.wait(0.06), Rumours)} == {b"c", b"d"}
    assert script.hear(Rumours(b"c", START, (record_of("new"),))) == []
    assert told(script.wait(0.06), Rumours) == []


def test_older_record_changes_nothing() -> None:
    script = among("b")
    script.hear(Rumours(b"b", START, (record_of("b", sequence=5),)))
    assert script.hear(Rumours(b"b", START, (record_of("b", sequence=4),))) == []
    assert script.members.find(b"b") == record_of("b", sequence=5)


def test_killed_process_is_dead_when_two_monitors_have_lost_their_connection() -> None:
    script = among("b", "c", "d")
    script.hand(LinkClosed(b"b", is_gone=True))
    assert script.living() == {"me", "b", "c", "d"}
    script.hear(accusation("b", "c", is_gone=True))
    assert Dismiss(b"b", "dead") in script.wait(0.21)


def test_processes_that_are_killed_together_are_dead_for_the_one_that_is_left() -> None:
    script = among("b", "c", "d")
    script.hand(LinkClosed(b"b", is_gone=True))
    script.hand(LinkClosed(b"c", is_gone=True))
    assert not [each for each in script.wait(0.5) if isinstance(each, Dismiss)], "d could still tell"
    script.hand(LinkClosed(b"d", is_gone=True))
    assert {each for each in script.wait(0.21) if isinstance(each, Dismiss)} == {
        Dismiss(node, "dead") for node in (b"b", b"c", b"d")
    }


def test_one_accuser_alone_needs_long() -> None:
    script = among("b", "c", "d")
    script.hear(accusation("b", "c"))
    for second in range(30):
        script.hand(SignsOfLife((b"b", b"c", b"d")))
        dismissed = [each for each in script.wait(1) if isinstance(each, Dismiss)]
        assert not dismissed or second > 10
    assert "b" not in script.living(), "and not for ever"


def test_silent_member_is_told_first_and_dead_after_two_accusations_have_stood() -> None:
    script = among("b", "c", "d")
    commands = list[MemberCommand]()
    for _ in range(4):
        script.hand(SignsOfLife((b"c", b"d")))
        commands += script.wait(1)
    first = next(payload for node, payload in told(commands, Rumours) if node == b"b")
    assert isinstance(first, Rumours)
    assert first.accused == (Accusation(b"b", START, 1, b"me", False, START),)
    script.hear(accusation("b", "d"))
    dismissed = list[MemberCommand]()
    for _ in range(5):
        script.hand(SignsOfLife((b"c", b"d")))
        dismissed += [each for each in script.wait(1) if isinstance(each, Dismiss)]
    assert dismissed == [Dismiss(b"b", "dead")]


def test_refutation_makes_accusations_void() -> None:
    script = among("b", "c", "d")
    script.hear(accusation("b", "c"))
    script.hear(accusation("b", "d"))
    script.hear(Rumours(b"b", START, (record_of("b", sequence=2),)))
    for _ in range(6):
        script.hand(SignsOfLife((b"b", b"c", b"d")))
        assert not [each for each in script.wait(1) if isinstance(each, Dismiss)]


def test_who_is_accused_says_that_it_lives() -> None:
    script = among("b", "c")
    script.hear(accusation("me", "b"))
    assert script.members.me.sequence == 2
    assert {payload.records[0].sequence for _, payload in told(script.wait(0.06), Rumours)} == {2}  # type: ignore[attr-defined]


def test_accusations_of_those_who_are_no_monitors_count_late() -> None:
    names = [f"n{number}" for number in range(30)]
    script = among(*names)
    ring = script.members.ring
    target = b"n0"
    others = [node for node in ring.before(target, 30) if node != b"me"][10:13]
    for node in others:
        script.hear(accusation("n0", node.decode(), is_gone=True))
    everybody = tuple(name.encode() for name in names)
    for _ in range(10):
        script.hand(SignsOfLife(everybody))
        assert not [each for each in script.wait(1) if each == Dismiss(target, "dead")]


def test_node_that_slept_accuses_nobody() -> None:
    script = among("b", "c", "d")
    script.now += 30
    assert not [each for each in script.hand(TimePassed()) if isinstance(each, Dismiss)]
    assert not script.members.suspects
    assert not [payload for _, payload in told(script.wait(4), Rumours) if payload.accused]  # type: ignore[attr-defined]


def test_node_that_slept_believes_what_others_say_since() -> None:
    script = among("b", "c", "d")
    script.now += 30
    script.hand(TimePassed())
    script.hear(accusation("b", "c", is_gone=True))
    script.hear(accusation("b", "d", is_gone=True))
    assert Dismiss(b"b", "dead") in script.wait(0.21)


def test_member_that_leaves_is_gone_at_once_and_does_not_come_back_by_an_old_record() -> None:
    script = among("b", "c")
    left = replace(record_of("b", sequence=2), status=LEFT)
    assert script.hear(Rumours(b"b", START, (left,))) == [Dismiss(b"b", "left")]
    script.hear(Rumours(b"c", START, (record_of("b"),)))
    assert script.living() == {"me", "c"}


def test_leaving_is_told_to_all_neighbours() -> None:
    script = among("b", "c")
    words = told(script.hand(Departing()), Rumours)
    assert {node for node, _ in words} == {b"b", b"c"}
    assert {payload.records[0].status for _, payload in words} == {LEFT}  # type: ignore[attr-defined]


def test_restarted_process_takes_the_place_of_the_former() -> None:
    script = among("b", "c")
    again = replace(record_of("b", START + 5), uri="tcp://elsewhere:1")
    assert script.hear(Rumours(b"c", START, (again,))) == [Dismiss(b"b", "restarted"), Admit(again)]


def test_start_far_in_the_future_is_refused() -> None:
    script = among("b", "c")
    forged = record_of("b", START + 2 * FUTURE_NS)
    assert script.hear(Rumours(b"c", START, (forged,))) == [Warn("future", b"b", "tcp://b:1")]
    assert script.members.find(b"b") == record_of("b")


def test_later_process_with_the_same_identity_is_warned_of_and_the_earlier_falls_silent() -> None:
    script = among("b", "c")
    clone = replace(record_of("me", START + 5), uri="tcp://clone:1")
    assert script.hear(Rumours(b"c", START, (clone,))) == [Warn("duplicate", b"me", "tcp://clone:1")]
    assert told(script.hand(LinkOpened(b"d")), Rumours) == [(b"d", Rumours(b"me", START))]


def test_process_whose_clock_was_set_back_goes_above_its_start_before() -> None:
    script = among("b", "c")
    script.hand(OwnRoutes((GREET,)))
    before = record_of("me", START + 5)
    assert Rise(START + 6) in script.hear(Rumours(b"c", START, (before,)))
    assert not script.members.is_doubled
    (said,) = {payload.records for _, payload in told(script.wait(0.06), Rumours)}  # type: ignore[attr-defined]
    assert (said[0].age, said[0].routes_version) == ((START + 6, 1), 1)
    ((_, given),) = told(script.hear(RoutesAsked(b"c", START, ((b"me", START + 6, 0, 0, 1),))), RoutesGiven)
    assert isinstance(given, RoutesGiven)
    assert given.given[0].added == (GREET,)


def test_process_whose_clock_was_set_back_goes_above_a_start_elsewhere_that_is_lost() -> None:
    script = among("b", "c")
    before = replace(record_of("me", START + 5), uri="tcp://before:1")
    lost = Accusation(b"me", START + 5, 1, b"c", False, START)
    assert Rise(START + 6) in script.hear(Rumours(b"c", START, (before,), (lost,)))


def test_later_start_is_shown_to_who_says_an_older_one() -> None:
    script = among("b", "c")
    script.hear(Rumours(b"b", START, (record_of("b", START + 5),)))
    older = record_of("b", START + 1)
    (shown,) = [payload for node, payload in told(script.hear(Rumours(b"b", START + 1, (older,))), Rumours)]
    assert shown == Rumours(b"me", START, (record_of("b", START + 5),))


def test_who_tells_of_later_starts_again_and_again_makes_a_process_rise_three_times_and_no_more() -> None:
    script = among("b", "c")
    for number in range(10):
        script.hear(Rumours(b"c", START, (record_of("me", START + 100 * (number + 1)),)))
    assert script.members.me.incarnation == START + 301
    late = among("b", "c")
    for _ in range(31):
        late.hand(SignsOfLife((b"b", b"c")))
        late.wait(1)
    assert not [
        each for each in late.hear(Rumours(b"c", START, (record_of("me", START + 5),))) if isinstance(each, Rise)
    ]
    far = among("b", "c")
    assert not [
        each
        for each in far.hear(Rumours(b"c", START, (record_of("me", START + 2 * FUTURE_NS),)))
        if isinstance(each, Rise)
    ]


def test_forged_record_of_oneself_is_overwritten() -> None:
    script = among("b", "c")
    script.hear(Rumours(b"c", START, (replace(record_of("me", sequence=9), uri="tcp://evil:1"),)))
    assert (script.members.me.sequence, script.members.me.uri) == (10, "tcp://me:1")


def test_lost_member_is_told_so_and_comes_back() -> None:
    script = among("b", "c", "d")
    script.hand(LinkClosed(b"b", is_gone=True))
    script.hear(accusation("b", "c", is_gone=True))
    script.wait(0.3)
    words = told(script.hear(Ping(b"b", START, 1, 0)), Rumours)
    assert [node for node, _ in words] == [b"b"]
    back = record_of("b", sequence=2)
    assert Admit(back) in script.hear(Rumours(b"b", START, (back,)))


def test_lost_members_are_knocked_at() -> None:
    script = among("b")
    script.hand(LinkClosed(b"b", is_gone=True))
    commands = script.wait(20)
    assert Dismiss(b"b", "dead") in commands
    assert Knock("tcp://b:1") in commands


def test_routes_are_announced_by_version_and_given_on_demand() -> None:
    script = among("b", "c")
    script.hand(OwnRoutes((GREET,)))
    record = script.members.me
    assert (record.routes_version, record.routes_hash) == (1, digest_of(hash_of([GREET])))
    ((_, given),) = told(script.hear(RoutesAsked(b"b", START, ((b"me", START, 0, 0, 1),))), RoutesGiven)
    assert given == RoutesGiven(b"me", START, (OwnedRoutes(b"me", START, 0, 1, (GREET,), (), 0, 1),))


def test_routes_that_are_new_are_pulled_from_whoever_told_and_passed_on_to_who_waits() -> None:
    script = among("b", "c")
    script.hear(
        Rumours(
            b"b",
            START,
            (replace(record_of("c", sequence=2), routes_version=1, routes_hash=digest_of(hash_of([GREET]))),),
        )
    )
    assert told(script.wait(0.06), RoutesAsked) == [(b"b", RoutesAsked(b"me", START, ((b"c", START, 0, 0, 1),)))]
    assert told(script.hear(RoutesAsked(b"d", START, ((b"c", START, 0, 0, 1),))), RoutesGiven) == []
    script.hand(LinkOpened(b"d"))
    given = RoutesGiven(b"b", START, (OwnedRoutes(b"c", START, 0, 1, (GREET,), (), 0, 1),))
    commands = script.hear(given)
    assert commands[0] == HoldRoutes(b"c", (GREET,), (), True)
    assert [node for node, _ in told(commands, RoutesGiven)] == [b"d"]


def test_other_proofs_are_told_with_a_record_of_their_own() -> None:
    script, proofs = among("b", "c"), (("orders", b"proof"),)
    script.hand(OwnRoutes((GREET,), (), proofs))
    record = script.members.me
    assert (record.routes_version, record.proofs) == (1, proofs)
    script.hand(OwnRoutes((), (), proofs))
    assert script.members.me is record
    script.hand(OwnRoutes((), (), (("orders", b"other"),)))
    newer = script.members.me
    assert newer == replace(record, sequence=record.sequence + 1, proofs=(("orders", b"other"),))
    assert (b"b", Rumours(b"me", START, (newer,))) in told(script.wait(0.06), Rumours)


def test_other_proofs_or_another_address_of_a_member_are_judged_anew_and_passed_on() -> None:
    script = among("b", "c", "d")
    proved = replace(record_of("c", sequence=2), proofs=(("orders", b"proof"),))
    assert script.hear(Rumours(b"b", START, (proved,))) == [JudgeRoutes(b"c", False)]
    assert (b"d", Rumours(b"me", START, (proved,))) in told(script.wait(0.06), Rumours)
    assert script.hear(Rumours(b"b", START, (replace(proved, sequence=3),))) == []
    bare = replace(proved, sequence=4, proofs=())
    assert script.hear(Rumours(b"b", START, (bare,))) == [JudgeRoutes(b"c", False)]
    moved = replace(bare, sequence=5, uri="tcp://m:1")  # without proofs before and after
    assert script.hear(Rumours(b"b", START, (moved,))) == [Admit(moved), JudgeRoutes(b"c", True)]
    again = replace(proved, incarnation=START + 1)  # its routes are forgotten, and asked for anew
    assert script.hear(Rumours(b"b", START, (again,))) == [Dismiss(b"c", "restarted"), Admit(again)]


def test_routes_that_do_not_fit_their_hash_are_not_held() -> None:
    script = among("b", "c")
    script.hear(Rumours(b"b", START, (replace(record_of("c", sequence=2), routes_version=1, routes_hash=b"other"),)))
    script.wait(0.06)
    for wrong in (
        OwnedRoutes(b"c", START, 0, 1, (GREET,), (), 0, 1),
        OwnedRoutes(b"c", START, 0, 1, (), (), 0, 9),
        OwnedRoutes(b"c", START, 0, 1, (GREET,), (), 7, 9),
        OwnedRoutes(b"c", START, 3, 4, (GREET,)),
    ):
        assert script.hear(RoutesGiven(b"b", START, (wrong,))) == []  # nor asked for again at once
    assert told(script.wait(4), RoutesAsked)


def test_many_routes_come_in_pages() -> None:
    script = among("b", "c")
    routes = tuple((b"\1actor", b"contract.%d" % number, 1, b"") for number in range(25))
    record = replace(record_of("c", sequence=2), routes_version=3, routes_hash=digest_of(hash_of(routes)))
    script.hear(Rumours(b"b", START, (record,)))
    script.wait(0.06)
    for offset in (0, 10):
        page = OwnedRoutes(b"c", START, 0, 3, routes[offset : offset + 10], (), offset, 25)
        (asked,) = told(script.hear(RoutesGiven(b"b", START, (page,))), RoutesAsked)
        assert asked == (b"b", RoutesAsked(b"me", START, ((b"c", START, 0, offset + 10, 3),)))
    last = OwnedRoutes(b"c", START, 0, 3, routes[20:], (), 20, 25)
    assert script.hear(RoutesGiven(b"b", START, (last,)))[0] == HoldRoutes(b"c", routes, (), True)


@pytest.mark.slow
def test_there_are_only_so_many_members() -> None:
    script = alone()
    for start in range(0, MAX_MEMBERS + 500, 100):
        records = tuple(record_of(f"n{number}") for number in range(start, start + 100))
        script.members.step(MemberSaid(Rumours(b"n0", START, records)), 0, lambda: 0.5)
    assert len(script.members.ring) == MAX_MEMBERS


@pytest.mark.slow
def test_who_is_lost_makes_room_for_others() -> None:
    script = alone()
    for start in range(0, MAX_MEMBERS, 100):
        records = tuple(record_of(f"n{number}") for number in range(start, start + 100))
        script.members.step(MemberSaid(Rumours(b"n0", START, records)), 0, lambda: 0.5)
    script.hear(Rumours(b"n0", START, (record_of("late"),)))
    assert "late" not in script.living()
    gone = replace(record_of("n7", sequence=2), status=LEFT)
    script.hear(Rumours(b"n0", START, (gone, record_of("late"))))
    assert "late" in script.living()
    assert len(script.members.ring) == MAX_MEMBERS


def test_records_of_all_members_take_only_so_many_bytes_and_who_is_lost_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proofs = tuple((f"domain-{number}", bytes(100)) for number in range(60))
    large = [replace(record_of(f"n{number}"), proofs=proofs) for number in range(12)]
    script = alone()
    monkeypatch.setattr("hopwire.cluster.members.MOST_BYTES", script.members.size_bytes + 10 * large[0].size_bytes + 50)
    commands = script.hear(Rumours(b"n0", START, tuple(large)))
    left_out = [command.node for command in commands if isinstance(command, Warn)]
    assert left_out == [b"n10", b"n11"]
    assert len(script.living()) == 11  # and this node
    grown = replace(large[3], sequence=2, key=bytes(500))
    (warning,) = [each for each in script.hear(Rumours(b"n0", START, (grown,))) if isinstance(each, Warn)]
    assert (warning.what, warning.node) == ("too_large_records", b"n3")
    gone = replace(record_of("n7", sequence=2), status=LEFT)
    script.hear(Rumours(b"n0", START, (gone, large[10])))
    assert "n10" in script.living()
    assert script.members.size_bytes == sum(each.size_bytes for each in script.members._records.values())

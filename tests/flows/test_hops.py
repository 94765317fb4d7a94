"""Sightings in, hops out: one story for each fate."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from hopwire.flows.coverage import LifeSpan
from hopwire.flows.hops import link
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import FATES, HOP_SCHEMA
from tests.flows.story import BEGIN, MS, SECOND, Story, answering, asking, points

A, B, C, D = b"A", b"B", b"C", b"dark"
END = 300_000  # milliseconds that a story lasts


def fates(story: Story) -> list[tuple[Any, ...]]:
    hops = story.hops().to_pylist()
    return sorted((hop["message_key"], hop["from_node"], hop["to_node"], hop["fate"]) for hop in hops)


def test_message_that_leaves_and_arrives_is_one_hop_with_its_latency() -> None:
    (hop,) = Story().hop(A, B, 10, 12, b"m").hops().to_pylist()
    assert (hop["fate"], hop["latency_us"], hop["is_corrected"]) == ("arrived", 2000, True)
    assert (hop["left_at_ns"], hop["arrived_at_ns"]) == (BEGIN + 10 * MS, BEGIN + 12 * MS)
    assert (hop["from_node"], hop["to_node"], hop["is_first"]) == (A, B, True)


def test_message_that_never_comes_is_lost() -> None:
    assert fates(Story().out(A, B, 10, b"m")) == [(b"m", A, B, "lost")]


def test_message_that_leaves_near_the_end_is_in_flight() -> None:
    assert fates(Story().out(A, B, END - 5_000, b"m")) == [(b"m", A, B, "in_flight")]
    assert fates(Story().out(A, B, END - 5_001, b"m")) == [(b"m", A, B, "lost")]


def test_end_of_the_capture_is_that_of_the_receiver_by_the_corrected_clock() -> None:
    story = Story()
    story.offsets = {B: -10 * SECOND}
    assert fates(story.out(A, B, END - 6_000, b"m")) == [(b"m", A, B, "lost")]


def test_message_to_a_node_that_does_not_capture_is_unwitnessed_and_from_one_unsent() -> None:
    assert fates(Story().out(A, D, 10, b"m").came(A, D, 20, b"n")) == [
        (b"m", A, D, "unwitnessed"),
        (b"n", D, A, "unsent"),
    ]


def test_node_that_skips_does_not_lose() -> None:
    story = Story().out(A, B, 20_000, b"during").out(A, B, 40_000, b"after").came(A, B, 21_000, b"from it")
    story.skips = [LifeSpan(B, BEGIN + 19 * SECOND, BEGIN + 22 * SECOND)]
    assert fates(story) == [
        (b"after", A, B, "lost"),
        (b"during", A, B, "unwitnessed"),
        (b"from it", B, A, "unsent"),
    ]


def test_message_to_a_crashed_node_is_lost_since_it_captures_again_later() -> None:
    story = Story(A)
    story.spans += [LifeSpan(B, BEGIN, BEGIN + 10 * SECOND), LifeSpan(B, BEGIN + 20 * SECOND, BEGIN + 300 * SECOND)]
    assert fates(story.out(A, B, 15_000, b"m")) == [(b"m", A, B, "lost")]


@pytest.mark.parametrize(
    ("left", "fate"),
    [(4_999, "lost"), (5_000, "unwitnessed"), (10_000, "unwitnessed"), (12_000, "unwitnessed"), (12_001, "lost")],
)
def test_message_to_a_killed_node_is_not_lost_while_it_may_have_come_unwritten(left: float, fate: str) -> None:
    story = Story().killed(B, at=10_000, back=20_000)
    assert fates(story.out(A, B, left, b"m")) == [(b"m", A, B, fate)]


@pytest.mark.parametrize("left", [9_000, 11_000])
def test_message_to_a_node_that_closed_its_capture_is_lost(left: float) -> None:
    story = Story().killed(B, at=10_000, back=20_000, ending="closed")
    assert fates(story.out(A, B, left, b"m")) == [(b"m", A, B, "lost")]


def test_last_words_of_a_crashed_node_are_unsent_and_not_foreign() -> None:
    story = Story(A)
    story.spans += [LifeSpan(B, BEGIN, BEGIN + 10 * SECOND), LifeSpan(B, BEGIN + 20 * SECOND, BEGIN + 300 * SECOND)]
    story.came(A, B, 10_001, b"last words").came(A, B, 16_000, b"while away")
    story.came(A, B, 30_000, b"when it is back")
    assert fates(story) == [
        (b"last words", B, A, "unsent"),
        (b"when it is back", B, A, "foreign"),
        (b"while away", B, A, "unsent"),  # it may have lived, too shortly to write
    ]


def test_message_to_a_node_before_its_first_sighting_is_unwitnessed() -> None:
    story = Story(A)
    story.spans.append(LifeSpan(B, BEGIN + 10 * SECOND, BEGIN + 300 * SECOND))
    assert fates(story.out(A, B, 5_000, b"m")) == [(b"m", A, B, "unwitnessed")]


def test_message_that_left_before_the_capture_began_is_unsent() -> None:
    story = Story(B)
    story.spans.append(LifeSpan(A, BEGIN + 10 * SECOND, BEGIN + 300 * SECOND))
    assert fates(story.came(B, A, 5_000, b"m")) == [(b"m", A, B, "unsent")]


def test_arrival_too_many_is_a_duplicate() -> None:
    story = Story().hop(A, B, 0, 1, b"m").came(B, A, 150, b"m")
    assert fates(story) == [(b"m", A, B, "arrived"), (b"m", A, B, "duplicate")]
    assert story.hops()["repeat"].to_pylist() == ["", "duplicate"]


def test_arrival_from_a_node_that_never_sent_it_there_is_foreign() -> None:
    story = Story().hop(A, B, 0, 1, b"m").came(C, A, 5, b"m").came(C, A, 6, b"never")
    assert fates(story) == [(b"m", A, B, "arrived"), (b"m", A, C, "foreign"), (b"never", A, C, "foreign")]


@pytest.mark.parametrize(
    ("later", "peer", "signature", "repeat"),
    [
        (999, A, b"mac", "duplicate"),
        (1_001, A, b"mac", "replayed"),
        (10, C, b"mac", "replayed"),
        (60_000, A, b"", "duplicate"),
    ],
)
def test_signed_message_that_comes_later_or_from_elsewhere_is_replayed(
    later: float, peer: bytes, signature: bytes, repeat: str
) -> None:
    story = Story().hop(A, B, 0, 1, b"m", signature=signature).came(B, peer, 1 + later, b"m", signature=signature)
    assert sorted(story.hops()["repeat"].to_pylist()) == ["", repeat]


def test_signed_message_that_is_shown_to_another_node_is_replayed() -> None:
    story = Story().hop(A, B, 0, 1, b"m", signature=b"mac").came(C, D, 60_000, b"m", signature=b"mac")
    assert sorted(story.hops()["repeat"].to_pylist()) == ["", "replayed"]


@pytest.mark.parametrize("change", [{"hops": 2}, {"distribution": 1}, {"signature": b""}])
def test_message_that_a_router_without_capture_passes_on_is_not_replayed(change: dict[str, Any]) -> None:
    first = {"signature": b"mac"} | {name: value for name, value in change.items() if name != "hops"}
    story = Story().hop(A, B, 0, 1, b"m", **first).came(C, D, 60_000, b"m", **(first | change))
    assert story.hops()["repeat"].to_pylist() == ["", ""]


def test_equal_messages_from_a_node_without_capture_are_not_called_duplicates_unless_soon() -> None:
    assert Story().came(B, D, 0, b"m").came(B, D, 5_000, b"m").hops()["repeat"].to_pylist() == ["", ""]
    assert sorted(Story().came(B, D, 0, b"m").came(B, D, 50, b"m").hops()["repeat"].to_pylist()) == ["", "duplicate"]
    known = Story().came(B, D, 0, b"m", message_id=b"id").came(B, D, 5_000, b"m", message_id=b"id")
    assert sorted(known.hops()["repeat"].to_pylist()) == ["", "duplicate"]


def test_nth_departure_belongs_to_the_nth_arrival() -> None:
    story = Story().out(A, B, 0, b"m").out(A, B, 10, b"m").came(B, A, 3, b"m").came(B, A, 14, b"m").out(A, B, 20, b"m")
    hops = sorted(story.hops().to_pylist(), key=lambda hop: hop["left_at_ns"])
    assert [(hop["crossing"], hop["fate"], hop["latency_us"]) for hop in hops] == [
        (0, "arrived", 3000),
        (1, "arrived", 4000),
        (2, "lost", None),
    ]
    assert [hop["is_first"] for hop in hops] == [True, True, True], "without an id each of them is a message"


def test_attempts_are_told_apart() -> None:
    story = Story().out(A, B, 0, b"m", attempt=0).hop(A, B, 100, 101, b"m", attempt=1)
    hops = {hop["attempt"]: (hop["fate"], hop["latency_us"]) for hop in story.hops().to_pylist()}
    assert hops == {0: ("lost", None), 1: ("arrived", 1000)}


def test_matching_compares_no_clocks() -> None:
    story = Story()
    story.offsets = {B: -2 * SECOND}
    (hop,) = story.hop(A, B, 0, 1, b"m").hops().to_pylist()
    assert (hop["fate"], hop["latency_us"]) == ("arrived", 1000)
    unknown = link(story.sightings, story.coverage.__class__(story.coverage.spans), Rules()).to_pylist()
    assert [(hop["fate"], hop["latency_us"], hop["is_corrected"]) for hop in unknown] == [
        ("arrived", 1000 - 2_000_000, False)
    ]


def test_departure_to_a_node_without_a_name_takes_the_arrival_that_is_left_over() -> None:
    story = Story().out(A, b"", 0, b"hello").came(B, A, 1, b"hello").out(A, b"", 5, b"hello")
    assert fates(story) == [(b"hello", A, b"", "unwitnessed"), (b"hello", A, B, "arrived")]


def test_dead_letter_is_a_hop_that_goes_nowhere() -> None:
    (hop,) = Story().dead(A, 5, b"m", "no_route").hops().to_pylist()
    assert (hop["fate"], hop["from_node"], hop["to_node"], hop["dead_reason"]) == ("dead", A, b"", "no_route")
    assert hop["left_at_ns"] == BEGIN + 5 * MS


def test_traced_message_names_its_routers() -> None:
    story = Story()
    story.hop(A, B, 0, 1, b"right", trace_options=1, route_count=1, route_node=A)
    story.hop(A, B, 0, 1, b"other", trace_options=1, route_count=1, route_node=C)
    story.hop(A, B, 0, 1, b"short", trace_options=1, route_count=1, route_node=A, hops=2)
    story.hop(A, B, 0, 1, b"untraced", hops=2)
    story.hop(A, B, 0, 1, b"broadcast", trace_options=1, route_count=1, route_node=A, hops=3, distribution=1)
    wrong = {hop["message_key"] for hop in story.hops().to_pylist() if hop["is_route_wrong"]}
    assert wrong == {b"other", b"short"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (asking(), (False, "answer", HOME := (b"A", b"\0hub"))),
        (answering(), (True, "answer", HOME)),
        (asking(A, 1, b"hopwire.receipt"), (False, "receipt", HOME)),
        (asking(A, 1, b"KINO.RCPTCONFIRM", b"KINO.EXCEPTION"), (False, "receipt", HOME)),
        (asking(A, 1, b"KINO.EXCEPTION"), (False, "", HOME)),
        (asking(A, 1, b"x", b"hopwire.receipt"), (False, "answer", HOME)),
        ({}, (False, "", (b"", b""))),
        (answering(callback_points=points(b"other")), (False, "answer", HOME)),
    ],
)
def test_roles_follow_from_callback_points(fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    (hop,) = Story().hop(A, B, 0, 1, b"m", **fields).hops().to_pylist()
    assert (hop["is_reply"], hop["awaits"], (hop["home_node"], hop["home_receiver"])) == expected


def test_messages_without_a_correlation_id_are_no_flow_together() -> None:
    zeros = b"00000000-0000-0000-0000-000000000000"
    story = Story().hop(A, B, 0, 1, b"m", correlation_id=b"").hop(A, B, 2, 3, b"n", correlation_id=zeros)
    story.hop(A, B, 0, 1, b"o", correlation_id=zeros, message_id=b"own")
    story.hop(A, B, 0, 1, b"q", correlation_id=zeros, **asking(A, 258))
    story.hop(B, A, 2, 3, b"r", correlation_id=zeros, **answering(A, 258))
    flows = {hop["message_key"]: hop["flow_id"] for hop in story.hops().to_pylist()}
    of_key = b"\0hub" + (258).to_bytes(8)
    minute = (BEGIN // (60 * SECOND)).to_bytes(8)
    assert flows == {b"m": b"m" + minute, b"n": b"n" + minute, b"o": b"o", b"q": of_key, b"r": of_key}


def test_beats_are_cut_into_minutes_and_an_arrival_belongs_to_its_departure() -> None:
    story = Story()
    for second in range(15, 145):
        if second != 79:  # the last beat of the second minute is lost
            story.hop(A, B, second * 1000 + 999, second * 1000 + 1002, b"beat", correlation_id=b"")
        else:
            story.out(A, B, second * 1000 + 999, b"beat", correlation_id=b"")
    hops = sorted(story.hops().to_pylist(), key=lambda hop: hop["left_at_ns"])
    assert {hop["latency_us"] for hop in hops if hop["fate"] == "arrived"} == {3000}
    assert [number for number, hop in enumerate(hops) if hop["fate"] == "lost"] == [79 - 15]
    counts = Counter(hop["flow_id"] for hop in hops)
    assert sorted(counts.values()) == [5, 5, 60, 60], "from 15 to 20, 60 each, and from 140 to 145"


def test_beat_that_comes_twice_across_the_end_of_a_minute_is_a_duplicate_and_nobody_is_a_stranger() -> None:
    story = Story()
    for second in range(10, 30):
        story.hop(A, B, second * 1000 + 999, second * 1000 + 1001, b"beat", correlation_id=b"")
    story.came(B, A, 20_001.5, b"beat", correlation_id=b"")  # a minute ends at 20 s
    hops = story.hops().to_pylist()
    (odd,) = [hop for hop in hops if hop["fate"] != "arrived"]
    assert odd["fate"] == "duplicate"
    assert odd["flow_id"] == min(hop["flow_id"] for hop in hops)


def test_order_of_sightings_does_not_matter() -> None:
    story = Story()
    for number in range(50):
        story.hop(A, B, number, number + 1.5, b"m%d" % (number % 7)).hop(B, C, number + 2, number + 3, b"m%d" % number)
    expected = sorted(map(str, story.hops().to_pylist()))
    for seed in range(5):
        random.Random(seed).shuffle(story.rows)
        assert sorted(map(str, story.hops().to_pylist())) == expected


def test_every_sighting_is_in_exactly_one_hop() -> None:
    chance = random.Random(7)
    story = Story()
    for number in range(500):
        node, peer = chance.sample((A, B, C, D, b""), 2)
        see = chance.choice((story.out, story.came))
        see(node, peer, number, b"m%d" % chance.randrange(20), attempt=chance.randrange(2))
    hops = story.hops().to_pylist()
    left = [(hop["from_node"], hop["left_sequence"]) for hop in hops if hop["left_sequence"] is not None]
    came = [(hop["to_node"], hop["arrived_sequence"]) for hop in hops if hop["arrived_sequence"] is not None]
    assert sorted(left + came) == sorted((row["node"], row["sequence"]) for row in story.rows)
    assert {hop["fate"] for hop in hops} <= set(FATES)


def test_nothing_gives_no_hops() -> None:
    assert Story().hops().schema == HOP_SCHEMA
    assert len(Story().hops()) == 0


def test_message_from_just_before_the_first_sighting_of_its_sender_is_not_foreign() -> None:
    story = Story(B)
    story.spans.append(LifeSpan(A, BEGIN + 10 * SECOND, BEGIN + 300 * SECOND))
    assert fates(story.came(B, A, 10_020, b"m")) == [(b"m", A, B, "unsent")]


def test_equal_message_from_before_its_sender_was_seen_is_no_duplicate() -> None:
    story = Story(B)
    story.spans.append(LifeSpan(A, BEGIN + 10 * SECOND, BEGIN + 300 * SECOND))
    hops = story.came(B, A, 9_000, b"beat").hop(A, B, 14_000, 14_001, b"beat").hop(A, B, 19_000, 19_001, b"beat").hops()
    assert [(hop["fate"], hop["repeat"]) for hop in hops.sort_by("arrived_at_ns").to_pylist()] == [
        ("unsent", ""),
        ("arrived", ""),
        ("arrived", ""),
    ]


@pytest.mark.parametrize("doubted", [A, B])
def test_message_is_neither_lost_nor_foreign_where_a_clock_was_set(doubted: bytes) -> None:
    story = Story(A, B)
    story.out(A, B, 0, b"m").came(B, A, 0, b"n")
    assert [fate for *_, fate in fates(story)] == ["lost", "foreign"]
    (life,) = (span for span in story.spans if span.node == doubted)
    story.spans.append(LifeSpan(doubted, life.first_ns - 20 * SECOND, BEGIN - 5 * SECOND, 2))
    assert [fate for *_, fate in fates(story)] == ["unwitnessed", "unsent"]


def test_clock_that_was_set_makes_no_duplicate_of_anything_else() -> None:
    story = Story(A, B).hop(A, B, 0, 1, b"m", message_id=b"m").came(B, A, 2, b"m", message_id=b"m")
    story.spans.append(LifeSpan(A, BEGIN - 30 * SECOND, BEGIN - 5 * SECOND, 2))
    assert [fate for *_, fate in fates(story)] == ["arrived", "duplicate"]


@pytest.mark.parametrize(("ended", "fate"), [(4_900, "foreign"), (9_800, "unsent")])
def test_message_from_a_node_that_has_just_begun_anew_may_be_of_the_life_before(ended: float, fate: str) -> None:
    story = Story().came(B, A, 10_000, b"m").killed(A, at=ended, back=ended + 50, ending="closed")
    assert [each for *_, each in fates(story)] == [fate]

"""The judge against the loops of `naive.py`, in small worlds made of moves."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.flows.coverage import Coverage, LifeSpan
from hopwire.flows.findings import Known
from hopwire.flows.flows import judge_flows
from hopwire.flows.hops import link
from hopwire.flows.requests import judge_requests
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import FATES, FLOW_OUTCOMES
from tests.flows.naive import Row, naive_flows, naive_hops, naive_requests
from tests.flows.story import BEGIN, DEFAULTS, MS, SIGHTINGS, answering, asking, points, telling

RULES = Rules()
NAMES = (b"A", b"B", b"C", b"D")
NO_FLOW = b"00000000-0000-0000-0000-000000000000"
OLD = {"wire_format": 4, "version": None, "version_raw": b"1.0"}
REPLIES = ("answer", "receipt", "failed", "undelivered", "expired", "ended")
TOLD = {
    "receipt": ("received", ""),
    "failed": ("failed", "handler_failed"),
    "undelivered": ("undelivered", "no_route"),
    "expired": ("undelivered", "expired"),
    "ended": ("ended", ""),
}
NEW = ("ask", "ask", "ask", "ask old", "stream", "send", "tell", "broadcast")
ENDS = ("Timeout", "Unreachable", "HandlerFailed", "answered", "UnexpectedAnswer", "Expired")  # what an asker is told
LATER = ("told", "again", "equal", "forward", "forward", "onward", "answer", "answer", "answer", "enough", *TOLD)
WAYS = (
    "within",
    "arrives",
    "arrives",
    "arrives",
    "arrives",
    "lost",
    "doubled",
    "doubled late",
    "unsaid",
    "ends",
    "ends there",
)
REASONS = ("no_route", "duplicate", "nobody_waits", "expired", "handler_failed", "bad_signature", "unexpected_answer")
VERDICTS = ("unsigned", "unsigned", "unsigned", "valid", "valid", "invalid")


class Node(NamedTuple):
    """A node; times in seconds."""

    lives: tuple[tuple[int, int], ...]
    skips: tuple[tuple[int, int], ...] = ()
    offset_ms: int = 0
    is_clock_known: bool = True
    ending: str = "open"
    doubts: tuple[tuple[int, int], ...] = ()


class Move(NamedTuple):
    """One message that is said, or said again, and what becomes of it."""

    kind: str
    way: str = "arrives"
    which: int = 0  # of the messages or questions before
    here: int = 0
    there: int = 1
    gap_ms: int = 1
    latency_ms: int = 1
    ttl_ms: int = 0
    reason: str = "no_route"
    verdict: str = "unsigned"
    flow: bytes = b"flow"
    key: int = 1
    has_id: bool = False


LONG = ((0, 200),)
NODES = st.builds(
    Node,
    lives=st.sampled_from((LONG, LONG, ((0, 40),), ((12, 200),), ((0, 14), (20, 200)), ())),
    skips=st.sampled_from(((), (), ((12, 15),))),
    offset_ms=st.sampled_from((0, 1700, -900)),
    is_clock_known=st.just(True),
    ending=st.sampled_from(("open", "open", "closed", "overheard")),
    doubts=st.sampled_from(((), (), (), ((8, 11),))),
) | st.just(Node(LONG, is_clock_known=False))
MOVES = st.builds(
    Move,
    kind=st.sampled_from((*NEW, *LATER)),
    way=st.sampled_from(WAYS),
    which=st.integers(0, 4),
    here=st.integers(0, 3),
    there=st.integers(0, 3),
    gap_ms=st.sampled_from((1, 40, 600, 2500, 8000, 30000)),
    latency_ms=st.sampled_from((1, 30, 1500, 7000)),
    ttl_ms=st.sampled_from((0, 0, 1000, 6000, 50000)),
    reason=st.sampled_from(REASONS),
    verdict=st.sampled_from(VERDICTS),
    flow=st.sampled_from((b"flow", b"flow", b"flow", b"other", NO_FLOW)),
    key=st.sampled_from((1, 1, 2)),
    has_id=st.booleans(),
)
BEATS = MOVES.map(lambda move: move._replace(kind="equal", which=0, here=0, there=1, has_id=False))


class World:
    """Moves become the sightings of those nodes that capture and were looking then."""

    def __init__(self, nodes: list[Node], moves: list[Move]) -> None:
        self.nodes = dict(zip(NAMES, nodes, strict=False))
        self.rows: list[Row] = []
        self.messages: list[Row] = []
        self.places: dict[bytes, tuple[bytes, int, int]] = {}
        self._now_ms = 1000
        self._moments = 0
        self._sequences: Counter[tuple[bytes, int]] = Counter()
        for move in moves:
            self._now_ms += move.gap_ms
            self._play(move)

    def _play(self, move: Move) -> None:
        names = list(self.nodes)
        here, there = names[move.here % len(names)], names[move.there % len(names)]
        message = self._message(move, here)
        if message is None:
            return
        if move.kind == "told":
            word = ENDS[(move.there + move.which) % len(ENDS)]
            end = {"dead_reason": word, "dead_note": f"{word.lower()}: so it ended", "message_key": b"end"}
            self._see("told", message["home"], b"", self._now_ms, {**message, **end, "message_id": b""})
            return
        self._now_ms = at_ms = max(self._now_ms, message["since_ms"])
        if move.kind in ("again", "equal"):
            here = message["origin"]
        elif move.kind == "forward":
            here, since_ms, hops = self.places[message["message_key"]]
            at_ms, message = max(at_ms, since_ms + 1), {**message, "hops": hops + 1}
        elif move.kind in REPLIES and move.which % 4:
            there = message["home"]
            here = here if here != there else names[names.index(here) - 1]
        elif move.kind == "enough" and move.which % 4:
            here = message["home"]
        there = there if here != there else names[names.index(here) - 1]
        others = [name for name in names if name != here]
        for goal in others if move.kind == "broadcast" else [there]:
            self._cross(move, message, here, goal, at_ms)

    def _message(self, move: Move, here: bytes) -> Row | None:
        if move.kind in ("again", "equal", "forward"):
            return self._known(move)
        questions = [each for each in self.messages if each["is_question"]]
        if move.kind == "told":
            return questions[move.which % len(questions)] if questions else None
        fields: Row = {"correlation_id": move.flow, "origin": here, "home": here, "is_question": False, "since_ms": 0}
        if move.kind in ("ask", "ask old", "send", "stream"):
            wanted = b"hopwire.receipt" if move.kind == "send" else b"orders.placed"
            fields |= asking(here, move.key, wanted) | {"is_question": True, "callback_receiver_identity": b"\0" + here}
            if move.kind == "ask" and move.has_id and move.which % 2:  # who asks insists
                fields["callback_points"] = points(wanted, b"hopwire.receipt")
            if move.kind == "stream":
                fields["callback_points"] = points(wanted, b"hopwire.stream")
            if move.kind == "ask old":
                fields |= OLD | {"callback_key": 0, "callback_receiver_node_identity": b""}
                fields["callback_points"] = [{**points(wanted)[0], "version": None, "version_raw": b"1.0"}]
        elif move.kind in ("tell", "broadcast"):
            fields |= {"identity": b"orders.told", "distribution": int(move.kind == "broadcast")}
            fields["correlation_id"] = b"" if move.flow == NO_FLOW else move.flow
        elif questions:
            fields |= self._following(move.kind, questions[move.which % len(questions)])
        else:
            return None
        key = b"m%02d" % len(self.messages)
        own: Row = {"message_key": key, "message_id": key if move.has_id else b"", "verdict": move.verdict}
        own |= {"ttl_ticks": move.ttl_ms * 10_000, "signature": b"" if move.verdict == "unsigned" else b"s" + key}
        self.messages.append({**DEFAULTS, **fields, **own})
        return self.messages[-1]

    def _known(self, move: Move) -> Row | None:
        if not self.messages:
            return None
        place = move.which % len(self.messages)
        message = self.messages[place]
        if move.kind == "forward" and message["message_key"] not in self.places:
            return None
        if move.kind == "again" and not message["message_id"]:
            return None
        if move.kind == "again":
            anew = message["signature"] and message["signature"] + b"'"  # a resend is signed again
            message = self.messages[place] = {**message, "attempt": message["attempt"] + 1, "signature": anew}
        return message

    def _following(self, kind: str, question: Row) -> Row:
        node, hub = question["callback_receiver_node_identity"], question["callback_receiver_identity"]
        since_ms = self.places.get(question["message_key"], (b"", 0, 0))[1] + 1
        fields: Row = {"home": question["home"], "correlation_id": question["correlation_id"], "since_ms": since_ms}
        if kind in TOLD:
            fields |= telling(*TOLD[kind], node, question["callback_key"])
        elif kind == "enough":
            fields |= asking(node, question["callback_key"], identity=b"hopwire.enough") | {"callback_points": []}
            return fields | {"callback_receiver_identity": hub, "receiver_identity": b"\0hopwire.feeds"}
        else:
            fields |= answering(node, question["callback_key"]) if kind == "answer" else {"identity": b"orders.check"}
            same = ("callback_points", "callback_key", "wire_format", "version", "version_raw")
            fields |= {name: question[name] for name in same}
            fields |= {"callback_receiver_identity": hub, "callback_receiver_node_identity": node}
        return fields if kind == "onward" else fields | {"receiver_identity": hub}

    def _cross(self, move: Move, message: Row, here: bytes, there: bytes, at_ms: int) -> None:
        if move.way == "ends":
            self._see("dead", here, b"", at_ms, {**message, "dead_reason": move.reason})
            return
        if move.way == "within":
            self._see("local", here, here, at_ms, message)
            self.places[message["message_key"]] = here, at_ms, message["hops"]
            return
        arrives_ms = at_ms + move.latency_ms
        if move.way != "unsaid":
            self._see("out", here, there, at_ms, message)
        if move.way != "lost":
            self._see("in", there, here, arrives_ms, message)
            if move.way != "ends there":
                self.places[message["message_key"]] = there, arrives_ms, message["hops"]
        if move.way.startswith("doubled"):
            self._see("in", there, here, arrives_ms + (6000 if move.way == "doubled late" else 6), message)
        if move.way == "ends there" or (move.way.startswith("doubled") and move.which % 2):
            self._see("dead", there, b"", arrives_ms + 6500, {**message, "dead_reason": move.reason})

    def _see(self, direction: str, node: bytes, peer: bytes, at_ms: int, message: Row) -> None:
        self._moments += 1
        its = self.nodes[node]
        lives = [number for number, (first, last) in enumerate(its.lives) if first * 1000 <= at_ms <= last * 1000]
        if lives and not any(first * 1000 <= at_ms <= last * 1000 for first, last in its.skips):
            seen_at_ns = BEGIN + (at_ms + its.offset_ms) * MS + self._moments * 1000  # no two at the same time
            own = {"direction": direction, "node": node, "peer": peer, "seen_at_ns": seen_at_ns}
            place = node, lives[0]
            self.rows.append({**message, **own, "incarnation": lives[0], "sequence": self._sequences[place]})
            self._sequences[place] += 1

    @property
    def sightings(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, schema=SIGHTINGS)

    @property
    def coverage(self) -> Coverage:
        capturing = {name: node for name, node in self.nodes.items() if node.lives}
        return Coverage(
            [
                self._span(name, *life)._replace(incarnation=number, ending=node.ending)
                for name, node in capturing.items()
                for number, life in enumerate(node.lives)
            ],
            [self._span(name, *skip) for name, node in capturing.items() for skip in node.skips],
            {name: node.offset_ms * MS for name, node in capturing.items()},
            {name: b"A" if node.is_clock_known else name for name, node in capturing.items()},
            doubts=[self._span(name, *doubt) for name, node in capturing.items() for doubt in node.doubts],
        )

    def _span(self, name: bytes, first: int, last: int) -> LifeSpan:
        begin = BEGIN + self.nodes[name].offset_ms * MS + MS // 2  # no border where a sighting is
        return LifeSpan(name, begin + first * 1000 * MS, begin + last * 1000 * MS)


class Judged(NamedTuple):
    hops: list[Row]
    requests: list[Row]
    flows: list[Row]


def by_judge(world: World) -> Judged:
    coverage = world.coverage
    hops = link(world.sightings, coverage, RULES)
    requests = judge_requests(hops, coverage, RULES)
    flows = judge_flows(hops, requests, Known(coverage, RULES))
    return Judged(hops.to_pylist(), requests.to_pylist(), flows.to_pylist())


def by_loops(world: World) -> Judged:
    hops = naive_hops(world.rows, world.coverage, RULES)
    requests = naive_requests(hops, world.coverage, RULES)
    return Judged(hops, requests, naive_flows(hops, requests))


HOP_FIELDS = (
    "message_key", "left_incarnation", "left_sequence", "arrived_incarnation", "arrived_sequence", "correlation_id",
    "attempt", "crossing", "is_first", "from_node", "to_node", "fate", "left_at_ns", "arrived_at_ns", "latency_us",
    "is_corrected", "wire_format", "identity", "version", "version_raw", "partition", "distribution", "hop_count",
    "ttl_ticks", "size_bytes", "home_node", "home_receiver", "callback_key", "is_reply", "awaits", "outcome_kind",
    "outcome_reason", "verdict", "dead_reason", "repeat", "told", "told_reason", "is_insisted", "is_control",
    "becomes",
)  # fmt: skip
REQUEST_FIELDS = (
    "callback_receiver_node_identity", "callback_receiver_identity", "callback_key", "correlation_id", "home_node",
    "message_key", "identity", "version", "version_raw", "partition", "awaits", "asked_at_ns", "deadline_ns",
    "outcome", "reason", "answered_at_ns", "latency_us", "answer_identity", "lost_from_node", "lost_to_node",
    "reached_node", "last_seen_node", "last_seen_at_ns", "attempts", "hop_count", "is_reused",
    "is_callback_unreached", "told", "told_reason", "told_at_ns", "is_told_otherwise", "is_holder_gone",
    "is_outcome_guessed", "open_until_ns", "is_insisted", "is_control",
)  # fmt: skip
FLOW_FIELDS = (
    "correlation_id", "identity", "outcome", "started_at_ns", "ended_at_ns", "duration_us", "hop_count",
    "message_count", "size_bytes", "lost_count", "dead_count", "in_flight_count", "request_count", "answered_count",
    "nodes", "contracts", "is_control",
)  # fmt: skip


def compared(judged: Judged, rows: list[Row], fields: tuple[str, ...]) -> list[Row]:
    """The rows, with the first message of a flow as its name, in an order of their own."""
    first: dict[Any, bytes] = {}
    for hop in judged.hops:
        first[hop["flow_id"]] = min(hop["message_key"], first.get(hop["flow_id"], hop["message_key"]))
    kept = [{"flow": first[row["flow_id"]], **{name: row[name] for name in fields}} for row in rows]
    return sorted(kept, key=repr)


def differences(world: World, loops: Judged) -> list[tuple[list[Row], list[Row]]]:
    """What the judge finds and what the loops find, where that is not the same."""
    judge = by_judge(world)
    both = [
        (compared(judge, ours, fields), compared(loops, theirs, fields))
        for ours, theirs, fields in zip(judge, loops, (HOP_FIELDS, REQUEST_FIELDS, FLOW_FIELDS), strict=True)
    ]
    return [(ours, theirs) for ours, theirs in both if ours != theirs]


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples)
@given(st.lists(NODES, min_size=2, max_size=4), st.lists(MOVES, min_size=1, max_size=8))
def test_judge_finds_in_small_worlds_what_loops_find(nodes: list[Node], moves: list[Move]) -> None:
    world = World(nodes, moves)
    loops = by_loops(world)
    assert differences(world, loops) == []


@pytest.mark.slow
@given(st.lists(NODES, min_size=2, max_size=2), st.lists(BEATS, min_size=2, max_size=6))
def test_judge_matches_equal_messages_as_loops_do(nodes: list[Node], beats: list[Move]) -> None:
    world = World(nodes, [beats[0]._replace(kind="tell"), *beats[1:]])
    loops = by_loops(world)
    assert differences(world, loops) == []


SHOWN = (
    #  outcome       nodes that capture, and how long   what happens
    ("answered",     (200, 200), (Move("ask"), Move("answer", which=1))),
    ("failed",       (200, 200), (Move("ask"), Move("failed", which=1))),
    ("answered",     (200, 200), (Move("ask", ttl_ms=1000), Move("answer", which=1, gap_ms=8000))),
    ("late",         (200, 200), (Move("ask", ttl_ms=1000), Move("answer", "ends there", which=1, gap_ms=8000,
                                                                 reason="nobody_waits"))),
    ("expired",      (200, 200), (Move("ask", "ends there", reason="expired"),)),
    ("lost",         (200, 200), (Move("ask", "lost"),)),
    ("open",         (20, 200),  (Move("ask"), Move("answer", "doubled", which=1, flow=b"other", gap_ms=30_000))),
    ("delivered",    (200, 0),   (Move("tell"), Move("tell", here=1, there=0))),
    ("delivered",    (200, 200), (Move("tell", "doubled", gap_ms=30_000), Move("tell", "unsaid", gap_ms=30_000))),
    ("open",         (200, 20),  (Move("tell", gap_ms=30_000),)),
    ("answered",     (200, 200), (Move("ask", "within"), Move("answer", "within", here=0, which=0),
                                  Move("told", there=0))),
    ("lost",         (200, 200), (Move("ask", "within"),)),
)  # fmt: skip


@pytest.mark.slow
def test_small_worlds_can_show_every_fate_and_every_outcome() -> None:
    fates = set()
    for outcome, ends, moves in SHOWN:
        world = World([Node(((0, end),) if end else ()) for end in ends], list(moves))
        loops = by_loops(world)
        assert {flow["outcome"] for flow in loops.flows} == {outcome}
        assert differences(world, loops) == []
        fates |= {hop["fate"] for hop in loops.hops}
    assert {outcome for outcome, _, _ in SHOWN} == {*FLOW_OUTCOMES}
    assert fates == {*FATES}

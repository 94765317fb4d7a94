"""Scripts of sightings: who saw what when, in as few words as a test needs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from hopwire.flows.coverage import Coverage, LifeSpan
from hopwire.flows.findings import Known
from hopwire.flows.flows import judge_flows
from hopwire.flows.hops import SIGHTING_COLUMNS, link
from hopwire.flows.requests import judge_requests
from hopwire.flows.rules import Rules

MS = 1_000_000
SECOND = 1000 * MS
BEGIN = 1_000 * SECOND  # of every story
POINT = pa.struct(
    [("identity", pa.binary()), ("version", pa.int32()), ("version_raw", pa.binary()), ("partition", pa.binary())]
)
TYPES = {
    "attempt": pa.int32(),
    "incarnation": pa.int64(),
    "sequence": pa.int64(),
    "seen_at_ns": pa.int64(),
    "direction": pa.string(),
    "dead_reason": pa.string(),
    "dead_note": pa.string(),
    "wire_format": pa.int8(),
    "version": pa.int32(),
    "distribution": pa.int32(),
    "hops": pa.int32(),
    "ttl_ticks": pa.int64(),
    "size_bytes": pa.int64(),
    "trace_options": pa.int64(),
    "route_count": pa.int32(),
    "callback_points": pa.list_(POINT),
    "callback_key": pa.int64(),
    "verdict": pa.string(),
    "outcome_kind": pa.string(),
    "outcome_reason": pa.string(),
}
SIGHTINGS = pa.schema([(name, TYPES.get(name, pa.binary())) for name in SIGHTING_COLUMNS])
DEFAULTS: dict[str, Any] = {
    "attempt": 0,
    "incarnation": 1,
    "message_id": b"",
    "correlation_id": b"flow",
    "dead_reason": "",
    "dead_note": "",
    "wire_format": 6,
    "identity": b"orders.place",
    "version": 1,
    "version_raw": None,
    "partition": b"",
    "distribution": 0,
    "hops": 1,
    "ttl_ticks": 0,
    "size_bytes": 100,
    "trace_options": 0,
    "route_count": 0,
    "route_node": b"",
    "receiver_identity": b"",
    "receiver_node_identity": b"",
    "callback_points": [],
    "callback_key": 0,
    "callback_receiver_identity": b"",
    "callback_receiver_node_identity": b"",
    "signature": b"",
    "verdict": "unsigned",
    "outcome_kind": "",
    "outcome_reason": "",
}
HUB = b"\0hub"


def points(*identities: bytes) -> list[dict[str, Any]]:
    """Callback points of these identities."""
    return [{"identity": each, "version": 1, "version_raw": None, "partition": b""} for each in identities]


def asking(home: bytes = b"A", key: int = 1, *wanted: bytes, **more: Any) -> dict[str, Any]:
    """The fields of a question."""
    return {
        "callback_points": points(*(wanted or (b"orders.placed",))),
        "callback_key": key,
        "callback_receiver_identity": HUB,
        "callback_receiver_node_identity": home,
        **more,
    }


def answering(home: bytes = b"A", key: int = 1, identity: bytes = b"orders.placed", **more: Any) -> dict[str, Any]:
    """The fields of an answer."""
    return {
        **asking(home, key, identity),
        "identity": identity,
        "receiver_identity": HUB,
        "receiver_node_identity": home,
        **more,
    }


def telling(kind: str, reason: str = "", home: bytes = b"A", key: int = 1, **more: Any) -> dict[str, Any]:
    """The fields of an outcome."""
    return {
        "identity": b"hopwire.outcome",
        "outcome_kind": kind,
        "outcome_reason": reason,
        "receiver_identity": HUB,
        "receiver_node_identity": home,
        "callback_key": key,
        **more,
    }


class Story:
    """Sightings in the order in which they are told; times are milliseconds from the begin."""

    def __init__(self, *nodes: bytes, seconds: int = 300) -> None:
        self.rows: list[dict[str, Any]] = []
        self.spans: list[LifeSpan] = [
            LifeSpan(node, BEGIN - 10 * SECOND, BEGIN + seconds * SECOND) for node in nodes or (b"A", b"B", b"C")
        ]
        self.skips: list[LifeSpan] = []
        self.offsets: dict[bytes, int] = {}
        self._sequences: Counter[bytes] = Counter()

    def _see(self, direction: str, node: bytes, peer: bytes, at: float, key: bytes, more: dict[str, Any]) -> Story:
        captures = {span.node for span in self.spans}
        if node in captures:
            own = {"node": node, "peer": peer, "direction": direction, "message_key": key}
            at_ns = BEGIN + round(at * MS) + self.offsets.get(node, 0)
            self.rows.append({**DEFAULTS, **own, "seen_at_ns": at_ns, "sequence": self._sequences[node], **more})
            self._sequences[node] += 1
        return self

    def out(self, node: bytes, peer: bytes, at: float, key: bytes, **more: Any) -> Story:
        """A message leaves."""
        return self._see("out", node, peer, at, key, more)

    def came(self, node: bytes, peer: bytes, at: float, key: bytes, **more: Any) -> Story:
        """A message arrives at `node`."""
        return self._see("in", node, peer, at, key, more)

    def dead(self, node: bytes, at: float, key: bytes, reason: str, **more: Any) -> Story:
        """A message ends."""
        return self._see("dead", node, b"", at, key, {"dead_reason": reason, **more})

    def local(self, node: bytes, at: float, key: bytes, **more: Any) -> Story:
        """A message goes from an actor or a hub to another within a node."""
        return self._see("local", node, node, at, key, more)

    def told(self, node: bytes, at: float, word: str, note: str = "", **more: Any) -> Story:
        """A promise ends; `more` is the question."""
        return self._see("told", node, b"", at, b"told", {"dead_reason": word, "dead_note": note, **more})

    def hop(self, node: bytes, peer: bytes, left: float, arrived: float, key: bytes, **more: Any) -> Story:
        """A message leaves and arrives."""
        return self.out(node, peer, left, key, **more).came(peer, node, arrived, key, **more)

    @property
    def sightings(self) -> pa.Table:
        """What `link` takes."""
        return pa.Table.from_pylist(self.rows, schema=SIGHTINGS)

    @property
    def coverage(self) -> Coverage:
        """What the nodes cover; clocks are known."""
        clocks = {span.node: b"A" for span in self.spans}
        spans = list(map(self._by_own_clock, self.spans))
        return Coverage(spans, self.skips, self.offsets, clocks)

    def _by_own_clock(self, span: LifeSpan) -> LifeSpan:
        offset = self.offsets.get(span.node, 0)
        return span._replace(first_ns=span.first_ns + offset, last_ns=span.last_ns + offset)

    def killed(self, node: bytes, at: float, back: float, ending: str = "open") -> Story:
        """A node writes its last sighting, and begins anew later; without a word it was killed."""
        (life,) = (span for span in self.spans if span.node == node)
        self.spans.remove(life)
        first = LifeSpan(node, life.first_ns, BEGIN + round(at * MS), 1, ending)
        self.spans += [first, LifeSpan(node, BEGIN + round(back * MS), life.last_ns, 2)]
        return self

    def hops(self, rules: Rules | None = None) -> pa.Table:
        """The hops."""
        return link(self.sightings, self.coverage, rules or Rules())

    def requests(self, rules: Rules | None = None) -> pa.Table:
        """The requests."""
        return judge_requests(self.hops(rules), self.coverage, rules or Rules())

    def flows(self, rules: Rules | None = None, **known: Any) -> pa.Table:
        """The flows."""
        hops = self.hops(rules)
        requests = judge_requests(hops, self.coverage, rules or Rules())
        return judge_flows(hops, requests, Known(self.coverage, rules or Rules(), **known))

    def findings(self, **known: Any) -> list[tuple[str, bytes]]:
        """Kind and node of each finding."""
        lists = self.flows(**known)["findings"].to_pylist()
        return [(finding["kind"], finding["node"]) for flow in lists for finding in flow]

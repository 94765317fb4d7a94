"""Random networks: what their nodes see for some minutes, with faults of every kind, and captures that can be cut."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa

from hopwire.flows.spans import SourceSpan, joined_spans, spans_from_batch
from tests.flows.story import BEGIN, DEFAULTS, MS, SECOND, SIGHTINGS, answering, asking

ZEROS = b"00000000-0000-0000-0000-000000000000"
SPAN_COLUMNS = {"node_name": pa.string(), "skipped": pa.int64()}


@dataclass(frozen=True)
class SourcePart:
    """Some rows of a source, and what a reader says of them."""

    sightings: pa.Table
    spans: tuple[SourceSpan, ...]


@dataclass
class Network:
    """A network of three nodes, of which all or two capture."""

    chance: Random
    minutes: int = 12
    seen: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = self.chance
        self.nodes = [b"A", b"B", b"C"]
        self.capturing = self.nodes[: chance.choice((2, 3, 3, 3))]
        self.offset = {node: chance.choice((0, 0, 3 * SECOND, -1500 * MS)) for node in self.nodes}
        self.drift = {node: chance.choice((0, 0, 0, 40e-6)) for node in self.nodes}
        end = self.minutes * 60_000
        self.lives = {node: self._lives(end) for node in self.nodes}
        self.talks = [(0, end)] if chance.random() < 0.7 else [(0, end // 3), (2 * end // 3, end)]
        self._traffic(end)

    def _lives(self, end: int) -> list[tuple[int, int]]:
        if self.chance.random() < 0.5:
            return [(-1000, end + 1000)]
        killed = self.chance.randrange(end)
        return [(-1000, killed), (killed + self.chance.choice((500, 20_000, 200_000)), end + 1000)]

    def _see(self, direction: str, node: bytes, peer: bytes, at: float, **more: Any) -> None:
        alive = [number for number, (first, last) in enumerate(self.lives[node]) if first <= at < last]
        if alive and node in self.capturing:
            true = BEGIN + 3600 * SECOND + round(at * MS)
            own = true + self.offset[node] + round(self.drift[node] * at * MS)
            row = {**DEFAULTS, "node": node, "peer": peer, "direction": direction, "seen_at_ns": own, **more}
            self.seen.append(row | {"incarnation": alive[0] + 1})

    def _send(self, node: bytes, peer: bytes, at: float, **more: Any) -> float | None:
        chance = self.chance
        self._see("out", node, peer, at, **more)
        if chance.random() < 0.05:
            return None
        came = at + chance.choice((0.3, 0.4, 0.5, 1, 3, 900))
        self._see("in", peer, node, came, **more)
        if chance.random() < 0.03:
            self._see("in", peer, node, came + chance.choice((100, 3000, 400_000)), **more)
        return came

    def _traffic(self, end: int) -> None:
        chance = self.chance
        for begin, last in self.talks:
            for number in range(begin, last, 1500):
                self._ask(number + chance.random() * 1000, b"%d" % number)
            for second in range(begin, last, 5000):
                a, b = chance.sample(self.nodes, 2)
                beat = {"message_key": b"beat" + a + b, "correlation_id": ZEROS, "identity": b"beat"}
                self._send(a, b, second + chance.choice((0, 2500, 4999.8)), **beat)

    def _ask(self, at: float, name: bytes) -> None:
        chance = self.chance
        home, other, third = chance.sample(self.nodes, 3)
        more = {"correlation_id": b"flow" + name, "ttl_ticks": chance.choice((0, 10**7, 20 * 10**7))}
        if chance.random() < 0.2:
            more["message_id"] = b"id" + name
        came = self._send(home, other, at, message_key=b"q" + name, **asking(home, 7), **more)
        if came is None or chance.random() < 0.05:
            return
        if chance.random() < 0.1:
            self._see(
                "dead", other, b"", came + 1, message_key=b"q" + name, dead_reason="no_route", **asking(home, 7), **more
            )
            return
        if chance.random() < 0.3:
            self._send(other, third, came + 0.2, message_key=b"p" + name, **asking(home, 7), **more)
        more.pop("message_id", None)
        back = came + chance.choice((0.4, 5, 700, 30_000, 300_000) if chance.random() < 0.2 else (0.4, 5))
        self._send(other, home, back, message_key=b"a" + name, **answering(home, 7), **more)

    # -- captures

    def parts(self, cut_count: int) -> list[SourcePart]:
        """The captures of all nodes, cut into parts at random; a node may have skipped some sightings."""
        chance = self.chance
        rows: dict[tuple[bytes, int], list[dict[str, Any]]] = defaultdict(list)
        for each in sorted(self.seen, key=lambda each: each["seen_at_ns"] - self.offset[each["node"]]):
            rows[each["node"], each["incarnation"]].append(each)
        found = []
        for (node, life), own in sorted(rows.items()):
            own = [each | {"sequence": number, "node_name": "", "skipped": 0} for number, each in enumerate(own)]
            if len(own) > 20 and chance.random() < 0.4:
                first = chance.randrange(len(own) - 10)
                del own[first : first + chance.randrange(1, 8)]
            cuts = sorted(chance.sample(range(1, len(own)), min(cut_count, len(own) - 1)))
            ending = chance.choice(("open", "closed"))
            for first, last in zip([0, *cuts], [*cuts, len(own)], strict=True):
                is_last = last == len(own)
                found.append(_part(f"{node!r}-{life}", own[first:last], ending if is_last else "open"))
        return found


def _part(segment: str, rows: list[dict[str, Any]], ending: str) -> SourcePart:
    table = pa.Table.from_pylist(rows, SIGHTINGS)
    extra = {name: pa.array([row[name] for row in rows], kind) for name, kind in SPAN_COLUMNS.items()}
    for name, column in extra.items():
        table = table.append_column(name, column)
    (batch,) = table.combine_chunks().to_batches()
    spans = tuple(replace(span, ending=ending) for span in joined_spans(spans_from_batch(batch, segment)))
    return SourcePart(table.select(SIGHTINGS.names), spans)

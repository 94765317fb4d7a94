"""What a step costs against how much is closed: 1,000 new sightings on none, and on more and more.

    python benchmarks/steps.py [LARGEST]

Four nodes ask one another, in captures that come in order. The closed part grows by large steps between measurements.
Each measurement is the least CPU time of some steps of 1,000 sightings. Without Spark, and without files.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pyarrow as pa

from hopwire.flows.rules import Rules
from hopwire.flows.spans import SourceSpan
from hopwire.flows.steps import StepState, begin, step
from tests.flows.story import BEGIN, DEFAULTS, MS, SECOND, SIGHTINGS, answering, asking

NODES = (b"A", b"B", b"C", b"D")
SIZES = (0, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
TRIES = 7
PER_SECOND = 400  # sightings: a hundred requests


class Traffic:
    """Sightings of a network, as many as somebody wants next."""

    def __init__(self) -> None:
        self.number = 0  # of the request
        self.sequence = dict.fromkeys(NODES, 0)

    def next(self, count: int) -> tuple[pa.Table, list[SourceSpan]]:
        """Give sightings that follow those before, and what a source has of them."""
        rows: list[dict[str, Any]] = []
        for _ in range(count // 4):
            rows += self._request()
        rows.sort(key=lambda row: row["seen_at_ns"])
        spans = []
        for node in NODES:
            own = [row for row in rows if row["node"] == node]
            first = self.sequence[node]
            for number, row in enumerate(own, first):
                row["sequence"] = number
            self.sequence[node] += len(own)
            times = own[0]["seen_at_ns"], own[-1]["seen_at_ns"]
            spans.append(SourceSpan(node.decode(), node, 1, "", first, self.sequence[node] - 1, *times, len(own)))
        return pa.Table.from_pylist(rows, SIGHTINGS), spans

    def _request(self) -> list[dict[str, Any]]:
        number = self.number
        self.number += 1
        home, other = NODES[number % 4], NODES[(number + 1 + number // 4 % 3) % 4]
        at = BEGIN + number * 4 * SECOND // PER_SECOND
        name = number.to_bytes(8)
        more = {**DEFAULTS, "correlation_id": b"flow" + name, "ttl_ticks": 10**8}
        asked, answered = (
            {"message_key": b"q" + name, **asking(home, 7)},
            {"message_key": b"a" + name, **answering(home, 7)},
        )
        seen = (
            (home, other, "out", at, asked),
            (other, home, "in", at + MS // 2, asked),
            (other, home, "out", at + MS, answered),
            (home, other, "in", at + 3 * MS // 2, answered),
        )
        return [
            {**more, **fields, "node": node, "peer": peer, "direction": way, "seen_at_ns": when}
            for node, peer, way, when, fields in seen
        ]


def cost(state: StepState, traffic: Traffic) -> tuple[StepState, float]:
    """Give the least CPU time of some steps, in milliseconds."""
    found = []
    for _ in range(TRIES):
        rows, spans = traffic.next(1_000)
        begun = time.process_time()
        state = step(state, rows, spans)
        found.append(time.process_time() - begun)
    return state, 1_000 * min(found)


def main() -> None:
    """Print a line for each size."""
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    alone = begin(SIGHTINGS, Rules())
    rows, spans = Traffic().next(1_000)
    begun = time.process_time()
    step(alone, rows, spans)
    print(f"1,000 alone: {1_000 * (time.process_time() - begun):.0f} ms of CPU")
    state, traffic = begin(SIGHTINGS, Rules()), Traffic()
    for size in SIZES:
        if size > largest:
            break
        while traffic.number * 4 < size:
            state = step(state, *traffic.next(min(20_000, max(4_000, size - traffic.number * 4))))
        state, found = cost(state, traffic)
        open_count = len(state.open.sightings)
        print(
            f"{traffic.number * 4:>10,} sightings, {open_count:>7,} open: {found:6.0f} ms of CPU for 1,000 new",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""A simulated network in memory: its sightings decoded one by one, by flow, and its truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.model.sighting import Sighting
from hopwire.model.sighting_batch import SCHEMA, sightings_from_batch
from hopwire.simulate import Chunk, SimulatedWorld, SimulateSettings, rates_from_text, simulate_chunk
from hopwire.wire import decode


@dataclass(frozen=True)
class Seen:
    sighting: Sighting
    message: Message | None  # None: cannot be read
    reason: str = ""  # why not

    @property
    def at_ns(self) -> int:
        return self.sighting.seen_at_ns


@dataclass(frozen=True)
class Network:
    world: SimulatedWorld
    chunks: tuple[Chunk, ...]
    seen: tuple[Seen, ...]
    truth: dict[str, pa.Table]

    def rows(self, table: str) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = self.truth[table].to_pylist()
        return rows

    def flows_with(self, fault: str) -> dict[bytes, list[Seen]]:
        """What was seen of each flow that has a fault, as far as it can be read."""
        wanted = {row["correlation_id"] for row in self.rows("truth_flows") if row["fault"] == fault}
        flows: dict[bytes, list[Seen]] = {flow: [] for flow in wanted if isinstance(flow, bytes)}
        for seen in self.seen:
            if seen.message is not None and seen.message.correlation_id in flows:
                flows[seen.message.correlation_id].append(seen)
        return flows


@cache
def network(
    messages: int = 600, seed: int = 7, formats: tuple[int, ...] = (3, 4, 5, 6), faults: str = "all"
) -> Network:
    settings = SimulateSettings(messages, seed, 6, formats, rates_from_text(faults))
    world = SimulatedWorld(settings)
    bases = [0] * settings.nodes
    chunks = []
    for number in range(settings.closing + 1):
        chunk, bases = simulate_chunk(world, number, bases)
        chunks.append(chunk)
    batches = [capture.sightings.cast(SCHEMA) for chunk in chunks for capture in chunk.captures]
    seen = tuple(_seen(sighting) for batch in batches for sighting in sightings_from_batch(batch))
    truth = {name: pa.concat_tables([chunk.truth[name] for chunk in chunks]) for name in chunks[0].truth}
    return Network(world, tuple(chunks), seen, truth)


def _seen(sighting: Sighting) -> Seen:
    if sighting.direction == "skipped":
        return Seen(sighting, None, "skipped")
    try:
        return Seen(sighting, decode(sighting.frames))
    except WireError as error:
        return Seen(sighting, None, error.reason)

"""`bronze.sightings`: the captures as they are."""

from __future__ import annotations

from hopwire.lake.split import SIGHTINGS
from hopwire.lake.tables import Column, Table, declare

__all__ = ["SEEN", "SIGHTINGS_TABLE"]

# fmt: off
SEEN = {
    "segment":     "name of the source it was read from, as it is once the file is sealed",
    "node":        "identity of the node that saw it",
    "node_name":   "what people call the node",
    "incarnation": "which life of the node; it grows with each start",
    "sequence":    "number of the sighting within the incarnation, from 0",
    "seen_at_ns":  "when, by the clock of the node, in nanoseconds since 1970",
    "direction":   "in, out, dead, or skipped where sightings are missing",
    "peer":        "identity of the node at the other end; empty for the node's own actors",
    "frames":      "the message as it was on the wire",
    "reason":      "why a dead letter went no further, or why sightings are missing",
    "note":        "the same in words, where there is more to say",
    "skipped":     "how many sightings are missing here",
}
# fmt: on

SIGHTINGS_TABLE = declare(
    Table(
        "bronze.sightings",
        key=("segment", "node", "incarnation", "sequence"),
        reads=(),
        columns=tuple(Column(each.name, each.type, SEEN[each.name]) for each in SIGHTINGS),
        meaning="One captured message as one node saw it, untouched, or the place where sightings are missing.",
    )
)

"""`silver.quarantine`: every sighting that is not a message, kept whole so that a better decoder can try again."""

from __future__ import annotations

from hopwire.lake.silver.messages import SEEN_AND_SIZED
from hopwire.lake.split import QUARANTINE
from hopwire.lake.tables import Column, Table, declare

__all__ = ["QUARANTINE_TABLE"]

# fmt: off
MEANINGS = SEEN_AND_SIZED | {
    "reason":       "why it is not a message: a code of docs/reasons.md",
    "reason_frame": "the frame that is wrong, from 0; null where no place can be named",
    "reason_byte":  "the byte within that frame, from 0; null where no place can be named",
    "decoder":      "the version of the decoder that said so",
}
# fmt: on

QUARANTINE_TABLE = declare(
    Table(
        "silver.quarantine",
        key=("segment", "node", "incarnation", "sequence"),
        reads=("bronze.sightings",),
        columns=tuple(Column(each.name, each.type, MEANINGS[each.name]) for each in QUARANTINE),
        meaning="One sighting that is not a message: why, where, and its raw frames.",
    )
)

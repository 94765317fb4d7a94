"""The capture record: one message as one node saw it, or the place where sightings are missing.

`Sighting` is the only declaration; the Arrow schema (`sighting_batch.py`) and the columns of `bronze.sightings` follow
from it. A node needs only the declaration, so this module loads no Arrow.

- A node numbers its sightings from 0, anew in each incarnation. Every number is in the capture: on the row of its
  message, or within a row of direction `skipped`. Example: a row of direction `skipped` with sequence 10 and `skipped`
  3 stands for the numbers 10, 11 and 12. So the capture itself proves whether it is complete.
- No column is ever null. A value that does not apply is empty or 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Direction", "Sighting"]


class Direction(StrEnum):
    """What happened to the message at the node."""

    IN = "in"
    OUT = "out"
    DEAD = "dead"
    SKIPPED = "skipped"


# fmt: off
class Sighting(NamedTuple):
    """One sighting."""

    node: bytes                # identity of the node that saw the message
    node_name: str             # what people call the node
    incarnation: int           # which start of the node this is; grows with each start
    sequence: int              # number of the sighting within the incarnation, from 0
    seen_at_ns: int            # when, by the clock of the node, in nanoseconds since 1970
    direction: str             # a Direction
    peer: bytes                # identity of the node at the other end; empty for the node's own actors
    frames: Sequence[bytes]    # the message as it was on the wire
    reason: str = ""           # why a dead letter went no further, or why sightings are missing
    note: str = ""             # the reason in words, where there is more to say
    skipped: int = 0           # how many sightings are missing here
# fmt: on

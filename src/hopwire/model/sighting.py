"""The capture record: one message as one node saw it, or the place where sightings are missing.

`Sighting` is the only declaration; the Arrow schema (`sighting_batch.py`) and the columns of `bronze.sightings` follow
from it. A node needs only the declaration, so this module loads no Arrow.

- A node numbers its sightings from 0, anew in each incarnation. Every number is in the capture: on the row of its
  message, or within a row of direction `skipped`. Example: a row of direction `skipped` with sequence 10 and `skipped`
  3 stands for the numbers 10, 11 and 12. So the capture itself proves whether it is complete.
- No column is ever null. A value that does not apply is empty or 0.

| direction | the frames are | `peer` | `reason` |
|---|---|---|---|
| `in`, `out` | a message from or to another node | the other node | |
| `local` | a message from an actor or a hub of the node to another | the node | |
| `dead` | a message that goes no further | | why |
| `told` | a question without its body, whose promise has ended | | what its asker was told |
| `skipped` | none | | why sightings are missing |

A promise that ends by an answer in the capture has no row of direction `told`. All other promises have one: its reason
is the name of the error, such as `Timeout`, and its note is the text of the error. The reason is `answered` where the
question may have left the node, and the answer comes from the node itself.

A gateway to a partner network is two nodes. What crosses from the one to the other has rows of direction `out` and
`in`, as between any two nodes; their note is the key (`flows/keys.py`) of the message that it becomes there.
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
    LOCAL = "local"
    TOLD = "told"
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
    peer: bytes                # identity of the node at the other end; of a `local` message this node; else empty
    frames: Sequence[bytes]    # the message as it was on the wire
    reason: str = ""           # why a dead letter went no further, what an asker was told, why sightings are missing
    note: str = ""             # the reason in words, where there is more to say; or what a message becomes at a border
    skipped: int = 0           # how many sightings are missing here
# fmt: on

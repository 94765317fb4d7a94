"""A message on its way through a node.

An envelope of the ordinary way holds the message. An envelope of the express way (`express.py`) holds what a message
that is known says anew, and makes the message of it when somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hopwire.model import Message, Payload
from hopwire.model.choice import Choice
from hopwire.node.credit import line_of

if TYPE_CHECKING:
    from hopwire.node.express import KnownMessage

__all__ = ["HEADER_BYTES", "Envelope"]

HEADER_BYTES = 200  # what a message weighs in a queue beside its body


class Envelope(msgspec.Struct, gc=False):
    """A message on its way through this node."""

    said: Message | None  # nothing, where the message is known and nobody has asked for all of it
    deadline: float = 0.0  # on the clock of the node; 0 is never
    came_from: bytes = b""  # the node that sent it, none if it started here
    may_wait: bool = False  # whether its sender waits where there is no room
    known: KnownMessage | None = None  # what it has in common with others like it, on the express way
    body: bytes = b""  # and what it has not
    key: int = 0
    correlation_id: bytes = b""
    ttl_ticks: int = 0
    payload: Payload | None = None  # that is handed over as it is, instead of a body
    size: int = 0  # in bytes, once it was asked for
    is_taken: bool = False  # whether a receiver here has it
    message_id: bytes = b""  # of a message that may come again; its answer is remembered
    signature: bytes = b""  # with which a known message arrived
    parts: int = 0  # of its answer that were sent; what is told of it comes behind them
    choice: Choice | None = None  # how its actor is chosen, unless actors take turns
    is_passing: bool = False  # whether it only waits here to leave for another network: nobody has received it
    moved_to: bytes = b""  # the node that it was sent to in the end, since the one that was chosen had no room
    came_on: bytes | None = None  # the credit line that it came on, where another receiver was chosen here

    @property
    def message(self) -> Message:
        """The whole message."""
        said = self.said
        if said is None:
            assert self.known is not None
            said = self.said = self.known.message_of(self)
        return said

    @property
    def has_callback(self) -> bool:
        """Whether somebody waits for what becomes of the message."""
        return bool(self.key if self.said is None else self.said.callback_key)

    @property
    def line(self) -> bytes:
        """The credit line of the message."""
        return line_of(self.message) if self.known is None else self.known.line

    def go_to(self, message: Message) -> None:
        """Go on as another message: a receiver was chosen here; whoever sent it gets the credit back that it gave."""
        if self.came_on is None:
            self.came_on = self.line
        self.said, self.known = message, None

    @property
    def arrival_line(self) -> bytes:
        """The credit line that the message came on."""
        return self.line if self.came_on is None else self.came_on

    def size_bytes(self) -> int:
        """Roughly what it takes in memory."""
        if not self.size:
            self.size = HEADER_BYTES + (len(self.body) if self.said is None else sum(map(len, self.said.body_frames)))
        return self.size

    def weight_bytes(self) -> int:
        """Roughly what it takes in memory, in a queue: credit counts bodies, and names that are very long count too."""
        if self.said is None:
            return self.size_bytes()
        return self.size_bytes() + max(0, self.said.beside_bytes - HEADER_BYTES)

"""The router of a node: asks `decide`, then delivers here or sends away.

What goes nowhere is a dead letter, and whoever waits for it is told. The router holds no sockets, and its clock is the
one of the event loop that the node is started on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from hopwire.errors import Closed, HopwireError
from hopwire.model import Message
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.flow import RECEIPT, Outcome, outcome_of, ticks_from_seconds
from hopwire.node.mailbox import Mailbox, Overflow
from hopwire.routing import HOP_LIMIT, Decision, Tables, decide

__all__ = ["Envelope", "Router"]

HEADER_BYTES = 200  # what a message weighs in a queue beside its body


@dataclass(slots=True)
class Envelope:
    """A message on its way through this node."""

    message: Message
    deadline: float = 0.0  # on the clock of the node; 0 is never
    came_from: bytes = b""  # the node that sent it, none if it started here
    may_wait: bool = False  # whether its sender waits where there is no room

    @property
    def size_bytes(self) -> int:
        """Roughly what it takes in memory."""
        frames = self.message.body_frames
        return HEADER_BYTES + (len(frames[0]) if len(frames) == 1 else sum(map(len, frames)))


def _not_started() -> float:
    raise Closed("the node is not started")


Inbox = Mailbox[Envelope]
SendAway = Callable[[bytes, Envelope], str]  # node and message; gives a reason if it cannot be sent


class Router:
    """Finds the way of every message of one node."""

    def __init__(self, here: bytes, tables: Tables, send_away: SendAway, hop_limit: int = HOP_LIMIT) -> None:
        self.here, self.tables, self.hop_limit = here, tables, hop_limit
        self.dead = DeadLetters()
        self.clock: Callable[[], float] = _not_started
        self._send_away = send_away
        self._inboxes: dict[bytes, Inbox | Callable[[Envelope], None]] = {}

    def open(self, receiver: bytes, inbox: Inbox | Callable[[Envelope], None]) -> None:
        """Let a receiver take messages: into a queue, or by a function that never waits."""
        self._inboxes[receiver] = inbox

    def shut(self, receiver: bytes) -> None:
        """Let a receiver take no more."""
        self._inboxes.pop(receiver, None)

    def ttl_ticks(self, envelope: Envelope) -> int:
        """Give the time to live that is left; 0 is no limit."""
        return ticks_from_seconds(envelope.deadline - self.clock()) if envelope.deadline else 0

    def is_expired(self, envelope: Envelope) -> bool:
        """Tell whether the time of a message has run out."""
        return bool(envelope.deadline) and self.clock() >= envelope.deadline

    def route(self, envelope: Envelope, avoid: Collection[bytes] = ()) -> tuple[tuple[bytes, ...], list[Inbox]]:
        """Pass a message on: the nodes it was sent to, and the queues here that its sender has to wait for.

        Nodes to avoid are asked only where there is no other. Only hubs wait for room. What came from another node, and
        what an actor says, is refused instead: the one would stall the network, the other actors that wait in a circle.
        """
        if self.is_expired(envelope):
            self.give_up(envelope, "expired")
            return (), []
        decision = self._decide(envelope, avoid)
        if avoid and decision.reason == "excluded":
            decision = self._decide(envelope, ())
        if decision.reason:
            self.give_up(envelope, decision.reason)
            return (), []
        full = [inbox for receiver in decision.receivers if (inbox := self._deliver(receiver, envelope)) is not None]
        for node in decision.nodes:
            reason = self._send_away(node, envelope)
            if reason:
                self.give_up(envelope, reason, node.decode(errors="replace"))
        return decision.nodes, full

    def _decide(self, envelope: Envelope, exclude: Collection[bytes]) -> Decision:
        return decide(
            envelope.message,
            self.tables,
            self.here,
            exclude=exclude,
            came_from=envelope.came_from,
            hop_limit=self.hop_limit,
        )

    def _deliver(self, receiver: bytes, envelope: Envelope) -> Inbox | None:
        """Deliver here; a queue that is given back is full, and the sender may wait for it."""
        inbox = self._inboxes[receiver]
        if not isinstance(inbox, Mailbox):
            inbox(envelope)
            return None
        taken, pushed_out = inbox.offer(envelope, envelope.size_bytes)
        for old in pushed_out:
            self.give_up(old, "queue_full", "pushed out by a newer message")
        if taken:
            self.received(envelope)
            return None
        if inbox.overflow is Overflow.WAIT and not inbox.is_closed and envelope.may_wait:
            return inbox
        self.give_up(envelope, "queue_full")
        return None

    def received(self, envelope: Envelope) -> None:
        """A message was taken here: its receipt, where one is wanted."""
        points = envelope.message.callback_points
        if points and RECEIPT in points:
            self.tell_outcome(envelope, Outcome("received", detail=self.here.hex()))

    def give_up(self, envelope: Envelope, reason: str, detail: str = "") -> None:
        """A message goes no further: a dead letter, and a word to whoever waits for it."""
        self.dead.add(DeadLetter(reason, detail, envelope.message))
        self.tell_outcome(envelope, Outcome("undelivered", reason, detail))

    def tell_outcome(self, envelope: Envelope, outcome: Outcome) -> None:
        """Tell whoever waits for a message what became of it."""
        told = outcome_of(envelope.message, outcome)
        if told is not None:
            self.route(Envelope(told))

    def fail(self, envelope: Envelope, error: Exception, where: str) -> None:
        """A handler raised: counted, and told to whoever waits as data, without a stack."""
        text = str(error) if isinstance(error, HopwireError) else " ".join(str(error).split())
        self.dead.counts["handler_failed"] += 1
        self.tell_outcome(envelope, Outcome("failed", type(error).__name__, f"{where}: {text}" if text else where))

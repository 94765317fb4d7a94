"""The router of a node: asks `decide`, then delivers here or sends away.

What goes nowhere is a dead letter, and whoever waits for it is told. The router holds no sockets, and its clock is the
one of the event loop that the node is started on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from hopwire.errors import Closed, HopwireError
from hopwire.model import Message
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.flow import RECEIPT, Outcome, outcome_of
from hopwire.node.mailbox import Mailbox, Overflow
from hopwire.routing import HOP_LIMIT, Tables, decide

__all__ = ["Envelope", "Router"]

HEADER_BYTES = 200  # what a message weighs in a queue beside its body


class Envelope(msgspec.Struct, gc=False):
    """A message on its way through this node."""

    message: Message
    deadline: float = 0.0  # on the clock of the node; 0 is never
    came_from: bytes = b""  # the node that sent it, none if it started here
    may_wait: bool = False  # whether its sender waits where there is no room

    def size_bytes(self) -> int:
        """Roughly what it takes in memory."""
        return HEADER_BYTES + sum(map(len, self.message.body_frames))


def _nowhere(_node: bytes, _envelope: Envelope) -> str:
    return "unreachable"


def _not_started() -> float:
    raise Closed("the node is not started")


Inbox = Mailbox[Envelope]
NOWHERE: tuple[tuple[bytes, ...], Sequence[Inbox]] = ((), ())
SendAway = Callable[[bytes, Envelope], str]  # node and message; gives a reason if it cannot be sent


class Router:
    """Finds the way of every message of one node."""

    def __init__(self, here: bytes, tables: Tables, hop_limit: int = HOP_LIMIT) -> None:
        self.here, self.tables, self.hop_limit = here, tables, hop_limit
        self.dead = DeadLetters()
        self.clock: Callable[[], float] = _not_started
        self.send_away: SendAway = _nowhere
        self._inboxes: dict[bytes, Inbox | Callable[[Envelope], None]] = {}

    def open(self, receiver: bytes, inbox: Inbox | Callable[[Envelope], None]) -> None:
        """Let a receiver take messages: into a queue, or by a function that never waits."""
        self._inboxes[receiver] = inbox

    def shut(self, receiver: bytes) -> None:
        """Let a receiver take no more."""
        self._inboxes.pop(receiver, None)

    def is_expired(self, envelope: Envelope) -> bool:
        """Tell whether the time of a message has run out."""
        return bool(envelope.deadline) and self.clock() >= envelope.deadline

    def route(self, envelope: Envelope, avoid: Collection[bytes] = ()) -> tuple[tuple[bytes, ...], Sequence[Inbox]]:
        """Pass a message on: the nodes it was sent to, and the queues here that its sender has to wait for.

        Nodes to avoid are asked only where there is no other. Only hubs wait for room. What came from another node, and
        what an actor says, is refused instead: the one would stall the network, the other actors that wait in a circle.
        """
        if envelope.deadline and self.clock() >= envelope.deadline:
            self.give_up(envelope, "expired")
            return NOWHERE
        message, came_from = envelope.message, envelope.came_from
        decision = decide(message, self.tables, self.here, avoid, came_from, self.hop_limit)
        if avoid and decision.reason == "excluded":
            decision = decide(message, self.tables, self.here, (), came_from, self.hop_limit)
        if decision.reason:
            self.give_up(envelope, decision.reason)
            return NOWHERE
        full: Sequence[Inbox] = ()
        for receiver in decision.receivers:
            inbox = self._deliver(receiver, envelope)
            if inbox is not None:
                full = (*full, inbox)
        for node in decision.nodes:
            reason = self.send_away(node, envelope)
            if reason:
                self.give_up(envelope, reason, node.decode(errors="replace"))
        return decision.nodes, full

    def _deliver(self, receiver: bytes, envelope: Envelope) -> Inbox | None:
        """Deliver here; a queue that is given back is full, and the sender may wait for it."""
        inbox = self._inboxes[receiver]
        if type(inbox) is not Mailbox:
            inbox(envelope)  # type: ignore[operator] # it is a function
            return None
        taken, pushed_out = inbox.offer(envelope, envelope.size_bytes())
        if pushed_out:
            for old in pushed_out:
                self.give_up(old, "queue_full", "pushed out by a newer message")
        if taken:
            points = envelope.message.callback_points
            if points and RECEIPT in points:
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

"""Flow control between nodes: who sends more than another node can take waits, and nobody else does.

A sender has a credit line for each peer and each contract, or receiver that is named: so many messages and so many
bytes may be on the way, or wait in an inbox there. The receiver counts what its actors have taken out of their inboxes,
and tells the sender from time to time. With a window of 1,000 messages, the receiver tells after each 250.

- Answers need no credit: a question that is on the way has room for its answer. Neither do broadcasts and control
  messages.
- Only those wait who can: hubs. What a handler returns is sent without credit, and counts.
- Whatever becomes of a message at the receiver, the message is counted there once it no longer waits.
- A message that gets lost with its connection is never counted. So a sender that has waited for a second without a word
  asks (`CreditWanted`), and the receiver answers with what really waits. Messages arrive in order, so all that were
  sent before the question are there, or lost.
- A peer that does not know of credit does not announce it, and is sent to without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from hopwire.cluster.announce import Credit, CreditWanted
from hopwire.model import Message
from hopwire.model.names import HUB
from hopwire.node.waiters import Waiters

__all__ = ["CAPABILITY", "Consumption", "CreditLine", "Credits", "line_of"]

CAPABILITY = "credit"
FIRST_MESSAGES, FIRST_BYTES = 16, 64 * 1024  # until the receiver says what it has room for, right after its hello
TELL_PARTS = 4  # the receiver tells after each such part of a window
LEAST_MESSAGES, LEAST_BYTES = 1, 1024  # of a window, however many share an inbox
LARGEST = 2**62  # of what a peer may say that it has sent
ANSWERS_PER_SECOND = 10  # to questions of one peer for credit: each looks through all inboxes
MOST_LINES = 10_000  # that are counted for one peer; a peer chooses its contracts

Key: TypeAlias = tuple[bytes, bytes]  # a node, and a receiver or the identity of a contract


def line_of(message: Message) -> bytes:
    """Give what a credit line is for: the receiver that is named, or the contract; nothing where none is needed."""
    receiver = message.receiver_identity
    if message.distribution or receiver[:1] == HUB:
        return b""
    return receiver or message.identity


class CreditLine:
    """What one sender may have on the way to one peer, for one contract."""

    __slots__ = ("max_bytes", "max_messages", "sent", "sent_bytes", "taken", "taken_bytes", "timer", "waiters")

    def __init__(self, max_messages: int = FIRST_MESSAGES, max_bytes: int = FIRST_BYTES) -> None:
        self.sent = self.sent_bytes = self.taken = self.taken_bytes = 0
        self.max_messages, self.max_bytes = max_messages, max_bytes
        self.timer: asyncio.TimerHandle | None = None  # when those who wait ask for credit
        self.waiters = Waiters()

    @property
    def has_room(self) -> bool:
        """Whether one message more may go; a single one always may, however large."""
        on_the_way = self.sent - self.taken
        if on_the_way <= 0:
            return True
        return on_the_way < self.max_messages and self.sent_bytes - self.taken_bytes < self.max_bytes


class Credits:
    """The sender's side: all credit lines of a node."""

    def __init__(self) -> None:
        self._lines: dict[Key, CreditLine] = {}
        self._first: dict[bytes, tuple[int, int]] = {}  # what a new line has room for, by peer that knows of credit

    def meet(self, node: bytes) -> None:
        """Keep lines for a peer from now on."""
        self._first.setdefault(node, (FIRST_MESSAGES, FIRST_BYTES))

    def forget(self, node: bytes) -> None:
        """Drop the lines of a peer that is gone; who waits there looks again, and finds nobody."""
        self._first.pop(node, None)
        for key in [key for key in self._lines if key[0] == node]:
            line = self._lines.pop(key)
            if line.timer is not None:
                line.timer.cancel()
            line.waiters.wake(len(line.waiters))

    def line(self, node: bytes, what: bytes) -> CreditLine | None:
        """Give a credit line; none for a peer that does not know of credit."""
        line = self._lines.get((node, what))
        if line is None and what and node in self._first:
            line = self._lines[node, what] = CreditLine(*self._first[node])
        return line

    def grant(self, said: Credit) -> None:
        """Hear what a peer has taken, or, without a line, what it has room for."""
        room = max(said.max_messages, LEAST_MESSAGES), max(said.max_bytes, LEAST_BYTES)
        if not said.line and said.node in self._first:
            self._first[said.node] = room
        line = self._lines.get((said.node, said.line))
        if line is None:
            return
        line.taken, line.taken_bytes = min(said.taken, line.sent), min(said.taken_bytes, line.sent_bytes)
        line.max_messages, line.max_bytes = room
        if line.waiters:
            line.waiters.wake(max(1, line.max_messages - (line.sent - line.taken)))


class _Taken:
    """What was taken of one peer's messages."""

    __slots__ = ("count", "size_bytes", "told", "told_bytes")

    def __init__(self) -> None:
        self.count = self.size_bytes = self.told = self.told_bytes = 0


class Consumption:
    """The receiver's side: what the actors of a node have taken, by peer and contract."""

    def __init__(
        self,
        here: bytes,
        incarnation: int,
        max_messages: int,
        max_bytes: int,
        tell: Callable[[bytes, Credit], None],
    ) -> None:
        self._here, self._incarnation, self._tell = here, incarnation, tell
        self._max_messages, self._max_bytes = max_messages, max_bytes  # of one inbox
        self._taken: dict[bytes, dict[bytes, _Taken]] = {}  # by peer and line
        self._answers: dict[bytes, tuple[float, int]] = {}  # by peer: since when, how many
        self._contracts = 1  # the most that one actor here handles
        self._unwelcomed: set[bytes] = set()  # peers that were met, and not told yet what there is room for
        self._window()

    def _window(self) -> None:
        """Let all lines share an inbox: those of its contracts have a third, those to the actor itself another.

        The last third is for what comes without credit.
        """
        sharing = 3 * max(1, len(self._taken)) * self._contracts
        self.max_messages = max(self._max_messages // sharing, LEAST_MESSAGES)
        self.max_bytes = max(self._max_bytes // sharing, LEAST_BYTES)

    def host(self, contracts: int) -> None:
        """Let an actor that handles so many contracts have room for each of them."""
        if contracts > self._contracts:
            self._contracts = contracts
            self._window()

    def meet(self, node: bytes) -> None:
        """Count what a peer sends, from now on."""
        self._taken.setdefault(node, {})
        self._unwelcomed.add(node)
        self._window()

    def welcome(self, node: bytes) -> None:
        """Tell a peer that was met what there is room for, once, after our hello has gone to it."""
        if node in self._unwelcomed:
            self._unwelcomed.discard(node)
            self._say(node, b"", _Taken())

    def forget(self, node: bytes) -> None:
        """Count no more what a peer sent that is gone."""
        self._taken.pop(node, None)
        self._unwelcomed.discard(node)
        self._answers.pop(node, None)
        self._window()

    def take(self, node: bytes, message: Message, size_bytes: int) -> None:
        """Count a message of a peer that no longer waits."""
        lines = self._taken.get(node)
        what = line_of(message)
        if lines is None or not what:
            return
        taken = lines.get(what)
        if taken is None:
            if len(lines) >= MOST_LINES:
                return
            taken = lines[what] = _Taken()
        taken.count += 1
        taken.size_bytes += size_bytes
        if (
            (taken.count - taken.told) * TELL_PARTS >= self.max_messages
            or (taken.size_bytes - taken.told_bytes) * TELL_PARTS >= self.max_bytes
            or taken.count == 1  # the sender learns at once what there is room for
        ):
            self._say(node, what, taken)

    def is_due(self, said: CreditWanted, now: float) -> bool:
        """Tell whether a question of a peer for credit is answered: one that makes sense, and some in each second."""
        lines = self._taken.get(said.node)
        if lines is None or (said.line not in lines and len(lines) >= MOST_LINES):
            return False
        if not (0 <= said.sent < LARGEST and 0 <= said.sent_bytes < LARGEST):
            return False
        second, count = self._answers.get(said.node, (now, 0))
        if now - second >= 1:
            second, count = now, 0
        self._answers[said.node] = second, count + 1
        return count < ANSWERS_PER_SECOND

    def answer(self, said: CreditWanted, waiting: int, waiting_bytes: int) -> None:
        """Tell a peer that asks what was taken of all that it sent: everything but what still waits."""
        lines = self._taken.get(said.node)
        if lines is None:
            return
        taken = lines.setdefault(said.line, _Taken())
        taken.count, taken.size_bytes = said.sent - waiting, said.sent_bytes - waiting_bytes
        self._say(said.node, said.line, taken)

    def _say(self, node: bytes, what: bytes, taken: _Taken) -> None:
        taken.told, taken.told_bytes = taken.count, taken.size_bytes
        here, incarnation = self._here, self._incarnation
        credit = Credit(here, incarnation, what, taken.count, taken.size_bytes, self.max_messages, self.max_bytes)
        self._tell(node, credit)

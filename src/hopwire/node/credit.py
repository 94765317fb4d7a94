"""Flow control between nodes: who sends more than another node can take waits, and nobody else does.

A sender has a credit line for each peer and each contract, or receiver that is named: so many messages and so many
bytes may be on the way, or wait in an inbox there. The receiver counts what its actors have taken out of their inboxes,
and tells the sender from time to time. With a window of 1,000 messages, the receiver tells after each 250.

- Answers need no credit: a question that is on the way has room for its answer. Neither do broadcasts, control
  messages, and traces, which wait in no inbox.
- Only those wait who can: hubs. What a handler returns is sent without credit, and counts.
- Whatever becomes of a message at the receiver, the message is counted there once it no longer waits.
- A message that gets lost with its connection is never counted. So a sender whose line was full a second ago, and is
  full still, asks (`CreditWanted`), and the receiver answers with what really waits. Messages arrive in order, so all
  that were sent before the question are there, or lost. A sender whose message went to another node asks too, or the
  node would have no turn any more.
- A peer that does not know of credit does not announce it, and is sent to without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice, repeat, takewhile
from typing import TypeAlias

from hopwire.cluster.announce import Credit, CreditWanted
from hopwire.model import Message
from hopwire.model.names import HUB
from hopwire.model.units import MEBIBYTE
from hopwire.node.rates import Rate
from hopwire.node.share import in_slices
from hopwire.node.waiters import Waiters
from hopwire.wire.extension import extension_of

__all__ = ["CAPABILITY", "Consumption", "CreditLine", "Credits", "line_of"]

CAPABILITY = "credit"
FIRST_MESSAGES, FIRST_BYTES = 16, 64 * 1024  # until the receiver says what it has room for, right after its hello
TELL_PARTS = 4  # the receiver tells after each such part of a window
LEAST_MESSAGES, LEAST_BYTES = 1, 1024  # of a window, however many share an inbox
WINDOW_BYTES = 4 * MEBIBYTE  # of a line: what is on its way stays in the caches, and 50 ms away it is 80 MB a second
MOST_MESSAGES, MOST_BYTES = 2**20, 2**32  # of a window, whatever a peer says
LARGEST = 2**62  # of what a peer may say that it has sent
ANSWERS_PER_SECOND = 10  # to questions of one peer for credit: each looks through all inboxes
MOST_LINES = 10_000  # that are counted for one peer; the oldest makes way, and costs its sender a question
LONGEST_LINE = 1024  # bytes: a peer chooses its contracts, and what is longer needs no credit

Key: TypeAlias = tuple[bytes, bytes]  # a node, and a receiver or the identity of a contract


def line_of(message: Message) -> bytes:
    """Give what a credit line is for: the receiver that is named, or the contract; nothing where none is needed."""
    receiver = message.receiver_identity
    if message.distribution or receiver[:1] == HUB:
        return b""
    if message.extensions and extension_of(message).trace_only:
        return b""
    what = receiver or message.identity
    return what if len(what) <= LONGEST_LINE else b""


class CreditLine:
    """What one sender may have on the way to one peer, for one contract."""

    __slots__ = (
        "max_bytes",
        "max_messages",
        "sent",
        "sent_bytes",
        "sure",
        "sure_bytes",
        "taken",
        "taken_bytes",
        "timer",
        "waiters",
    )

    def __init__(self, max_messages: int = FIRST_MESSAGES, max_bytes: int = FIRST_BYTES) -> None:
        self.sent = self.sent_bytes = 0
        self.grant(0, 0, max_messages, max_bytes)
        self.timer: asyncio.TimerHandle | None = None  # when those who wait ask for credit
        self.waiters = Waiters()

    def grant(self, taken: int, taken_bytes: int, max_messages: int, max_bytes: int) -> None:
        """Hear what was taken, and how much more may be on the way."""
        self.taken, self.taken_bytes = taken, taken_bytes
        self.max_messages, self.max_bytes = max_messages, max_bytes
        self.sure, self.sure_bytes = taken + max_messages, taken_bytes + max_bytes  # less was sent: there is room

    @property
    def has_room(self) -> bool:
        """Whether one message more may go; a single one always may, however large."""
        on_the_way = self.sent - self.taken
        if on_the_way <= 0:
            return True
        return on_the_way < self.max_messages and self.sent_bytes - self.taken_bytes < self.max_bytes

    def wake(self) -> None:
        """Let those who wait go on in their order, as far as there is room.

        A question in line is sent at once. Who waits as a task is woken, and sends in its own turn of the loop: nobody
        behind it goes on before.
        """
        waiters = self.waiters
        while waiters and not waiters.called and self.has_room:
            first = next(iter(waiters))
            if isinstance(first, asyncio.Future):
                tasks = takewhile(lambda waiter: isinstance(waiter, asyncio.Future), waiters)
                waiters.wake(sum(1 for _ in islice(tasks, self.room())))
                return
            waiters.wake()

    def room(self) -> int:
        """Give how many messages more may go, if they are as large as those before; at least one."""
        mean_bytes = self.sent_bytes // self.sent + 1 if self.sent else 1
        free_bytes = self.max_bytes - (self.sent_bytes - self.taken_bytes)
        return max(1, min(self.max_messages - (self.sent - self.taken), free_bytes // mean_bytes + 1))


class Credits:
    """The sender's side: all credit lines of a node."""

    def __init__(self, on_room: Callable[[bytes, bytes], None] | None = None) -> None:
        self.lines: dict[Key, CreditLine] = {}
        self._on_room = on_room  # hears of a line that has room, and that nobody waits in
        self._first: dict[bytes, tuple[int, int]] = {}  # what a new line has room for, by peer that knows of credit

    def meet(self, node: bytes) -> None:
        """Keep lines for a peer from now on."""
        self._first.setdefault(node, (FIRST_MESSAGES, FIRST_BYTES))

    def forget(self, node: bytes) -> None:
        """Drop the lines of a peer that is gone; who waits there looks again, and finds nobody."""
        self._first.pop(node, None)
        for key in [key for key in self.lines if key[0] == node]:
            self.drop(*key)

    def drop(self, node: bytes, what: bytes) -> None:
        """Drop the line to an actor that is gone; who waits there looks again."""
        line = self.lines.pop((node, what), None)
        if line is not None:
            if line.timer is not None:
                line.timer.cancel()
            line.grant(line.sent, line.sent_bytes, MOST_MESSAGES, MOST_BYTES)  # nobody waits for room any more
            if line.waiters:
                in_slices(asyncio.get_running_loop(), map(line.waiters.wake, repeat(1, len(line.waiters))))

    def line(self, node: bytes, what: bytes) -> CreditLine | None:
        """Give a credit line; none for a peer that does not know of credit."""
        line = self.lines.get((node, what))
        if line is None and what and node in self._first:
            line = self.lines[node, what] = CreditLine(*self._first[node])
        return line

    def questions(self, node: bytes, here: bytes, incarnation: int) -> list[CreditWanted]:
        """Give what is asked over a new connection to a peer: what was taken of all that may have got lost."""
        lines = [(line, what) for (owner, what), line in self.lines.items() if owner == node and line.sent > line.taken]
        lines.sort(key=lambda each: (each[0].has_room, -len(each[0].waiters)))
        asked = lines[: ANSWERS_PER_SECOND - 1]
        return [CreditWanted(here, incarnation, what, line.sent, line.sent_bytes) for line, what in asked]

    def grant(self, said: Credit) -> None:
        """Hear what a peer has taken, or, without a line, what it has room for; whatever it says makes sense."""
        room = (
            min(max(said.max_messages, LEAST_MESSAGES), MOST_MESSAGES),
            min(max(said.max_bytes, LEAST_BYTES), MOST_BYTES),
        )
        if not said.line and said.node in self._first:
            self._first[said.node] = room
        line = self.lines.get((said.node, said.line))
        if line is None:
            return
        line.grant(min(max(said.taken, 0), line.sent), min(max(said.taken_bytes, 0), line.sent_bytes), *room)
        line.wake()
        if self._on_room is not None and not line.waiters and line.has_room:
            self._on_room(said.node, said.line)


class _Taken:
    """What was taken of one peer's messages."""

    __slots__ = ("count", "size_bytes", "tell_at", "tell_at_bytes")

    def __init__(self) -> None:
        self.count = self.size_bytes = 0
        self.tell_at = self.tell_at_bytes = 0  # when the peer is told next; of the first message at once


def _new_line(lines: dict[bytes, _Taken], what: bytes) -> _Taken:
    if len(lines) >= MOST_LINES:
        del lines[next(iter(lines))]
    taken = lines[what] = _Taken()
    return taken


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
        self._answers = Rate(ANSWERS_PER_SECOND)
        self._contracts = 1  # the most that one actor here handles
        self._unwelcomed: set[bytes] = set()  # peers that were met, and not told yet what there is room for
        self._window()

    def _window(self) -> None:
        """Let all lines share an inbox: those of its contracts have a third, those to the actor itself another.

        The last third is for what comes without credit.
        """
        sharing = 3 * max(1, len(self._taken)) * self._contracts
        self.max_messages = max(self._max_messages // sharing, LEAST_MESSAGES)
        self.max_bytes = min(max(self._max_bytes // sharing, LEAST_BYTES), WINDOW_BYTES)

    def host(self, contracts: int) -> None:
        """Let an actor that handles so many contracts have room for each of them."""
        if contracts > self._contracts:
            self._contracts = contracts
            self._window()

    def rise(self, incarnation: int) -> None:
        """Speak under a later start from now on."""
        self._incarnation = incarnation

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
        self._answers.forget(node)
        self._window()

    def take(self, node: bytes, what: bytes, size_bytes: int) -> None:
        """Count a message of a peer that no longer waits, on its credit line."""
        lines = self._taken.get(node)
        if lines is None or not what:
            return
        taken = lines.get(what)
        if taken is None:
            taken = _new_line(lines, what)
        taken.count += 1
        taken.size_bytes += size_bytes
        if taken.count >= taken.tell_at or taken.size_bytes >= taken.tell_at_bytes:
            self._say(node, what, taken)

    def is_due(self, said: CreditWanted, now: float) -> bool:
        """Tell whether a question of a peer for credit is answered: one that makes sense, and some in each second."""
        lines = self._taken.get(said.node)
        if lines is None or len(said.line) > LONGEST_LINE:
            return False
        if not (0 <= said.sent < LARGEST and 0 <= said.sent_bytes < LARGEST):
            return False
        return self._answers.is_due(said.node, now)

    def answer(self, said: CreditWanted, waiting: int, waiting_bytes: int) -> None:
        """Tell a peer that asks what was taken of all that it sent: everything but what still waits."""
        lines = self._taken.get(said.node)
        if lines is None:
            return
        taken = lines.get(said.line) or _new_line(lines, said.line)
        taken.count, taken.size_bytes = said.sent - waiting, said.sent_bytes - waiting_bytes
        self._say(said.node, said.line, taken)

    def _say(self, node: bytes, what: bytes, taken: _Taken) -> None:
        taken.tell_at = taken.count + -(-self.max_messages // TELL_PARTS)  # of the window that the peer hears of now
        taken.tell_at_bytes = taken.size_bytes + -(-self.max_bytes // TELL_PARTS)
        here, incarnation = self._here, self._incarnation
        credit = Credit(here, incarnation, what, taken.count, taken.size_bytes, self.max_messages, self.max_bytes)
        self._tell(node, credit)

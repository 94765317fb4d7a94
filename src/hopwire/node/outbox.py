"""The queues of a transport: what waits for each peer, bounded in messages and bytes, and who waits for room in them.

- A message that comes alone leaves at once, past the queue. One that comes behind another in the same turn of the
  loop, or in the turn after one with several, waits until the end of its turn, with all that are queued meanwhile: to a
  peer that reads trains they are sent as trains. Control messages and those that fit no train go as plain frames. A
  message that fits no train does not wait for the end of the turn if nothing waits before it.
- Control messages that depend on no order go first (`goes_first`), in their order among themselves.
- Turns are counted, not time: a thousand messages are one train however long each of them takes. The end of a turn is
  a step of the loop. A turn in which one message left at once, while a connection was read, needs no such step: the
  turn is over when the connection is read again.
- What is sent is built before its first byte is sent, and stays in the queue until it was taken.

A transport says what sending is: `_send_waiting`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import chain, count, islice, repeat, starmap
from operator import itemgetter
from time import monotonic_ns
from typing import NamedTuple, TypeAlias

from hopwire.model.units import NS_PER_SECOND
from hopwire.node.mailbox import BoundedQueue, Overflow
from hopwire.node.share import in_slices
from hopwire.node.transport import Frames, OnRefused, OnSent, OutboxLimits
from hopwire.node.waiters import ELSEWHERE, OtherPlaces
from hopwire.node.waking import Turn, Waking
from hopwire.wire.train import SMALLEST, TRAIN_BYTES, TRAIN_FRAMES, TRAIN_MESSAGES, USUAL, pack_train

__all__ = ["CONTROL_MESSAGES", "EARLY_MESSAGES", "NEVER_EARLY", "RETRY_SECONDS", "Load", "Outbox", "Outboxes"]

WAKE_AT_MOST = 256  # of those who wait for room, in one turn of the loop: what comes back has to be read meanwhile
RETRY_SECONDS = 0.002  # after no more was taken for a peer
CONTROL_MESSAGES, CONTROL_BYTES = 1000, 16 * 1024 * 1024  # so much more may wait if it is control messages

MOST_FRAMES = TRAIN_FRAMES + 1  # of a message in a train, with the one in front that stays here
NEVER_EARLY = 0  # messages that wait
EARLY_MESSAGES = TRAIN_MESSAGES // 2  # so many leave before the end of a turn: their receiver works meanwhile
IN_TRAIN, ALONE, CONTROL = range(3)  # how a message goes; control messages go alone, and nothing pushes them out

# frames, a number that grows, how it goes, when it was queued
Item: TypeAlias = tuple[Frames, int, int, int]
_SIZE = itemgetter(1)  # of an item in its queue


class Load(NamedTuple):
    """What is sent next: one message, or a train of several; the first frame, which does not leave, names the node."""

    messages: list[Frames]
    frames: Frames


class Outbox(BoundedQueue[Item]):
    """What waits for one peer."""

    def __init__(self, limits: OutboxLimits) -> None:
        super().__init__(
            limits.max_messages, limits.max_bytes, Overflow.DROP_OLDEST if limits.drops_oldest else Overflow.WAIT
        )
        self.takes_trains = self.dates_trains = False
        self.sent_at = 0
        self.is_quiet, self.left = True, 0  # at most one message in the last turn; so many left before the end of this
        self.turn: Turn | None = None  # in which one left at once; none: a step of the loop ends the turn
        self.mean_bytes = 1  # of a message, in the last load
        self.is_even = True  # whether all that waits may go in trains: then no message is looked at by itself
        self.firsts = 0  # messages at the front that go first; `is_even` does not speak of them

    @property
    def has_messages(self) -> bool:
        """Whether anything waits but control messages."""
        return any(item[2] != CONTROL for item, _ in self.queued)

    def make_room(self, size_bytes: int) -> list[Item]:
        """Take out the oldest messages until one of that size fits; control messages stay."""
        pushed_out = []
        while not self.has_room(size_bytes):
            place = next((at for at, (item, _) in enumerate(self.queued) if item[2] != CONTROL), None)
            if place is None:
                break
            item, item_bytes = self.queued[place]
            del self.queued[place]
            self.size_bytes -= item_bytes
            pushed_out.append(item)
        return pushed_out

    def allow_trains(self, is_dated: bool) -> None:
        """Send in trains from now on; what waits already goes alone, as it leaves before the hello behind it.

        The peer takes a train only over a connection with a hello that it believes.
        """
        if not self.takes_trains and self.queued:
            alone = [
                ((item[0], item[1], ALONE if item[2] == IN_TRAIN else item[2], item[3]), size)
                for item, size in self.queued
            ]
            self.queued.clear()
            self.queued.extend(alone)
            self.is_even = False
        self.takes_trains, self.dates_trains = True, is_dated

    def next_load(self) -> Load:
        """Take out what is sent next, so that nothing pushes it out meanwhile."""
        queued = self.queued
        if self.firsts:
            self.firsts -= 1
            frames, _, _, _ = self.pop_first()
            return Load([frames], frames)
        items = self._even_train() if self.is_even and self.takes_trains else self._uneven_load()
        self.is_even = self.is_even or not queued
        (frames, _, how, queued_ns), total = items[-1]
        if len(items) > 1:
            total = sum(map(_SIZE, items))
        self.size_bytes -= total
        self.mean_bytes = total // len(items) + 1
        if how != IN_TRAIN or not self.takes_trains:
            return Load([frames], frames)
        messages = [item[0] for item, _ in items]
        return Load(messages, [messages[0][0], pack_train(messages, queued_ns if self.dates_trains else None)])

    def _even_train(self) -> list[tuple[Item, int]]:
        """Take out what fits into one train, where all that waits may go in trains."""
        queued = self.queued
        count = min(len(queued), TRAIN_MESSAGES)
        if self.size_bytes > TRAIN_BYTES and sum(map(_SIZE, islice(queued, count))) > TRAIN_BYTES:
            return self._uneven_load()
        if count < len(queued):
            return [queued.popleft() for _ in range(count)]
        items = list(queued)
        queued.clear()
        return items

    def _uneven_load(self) -> list[tuple[Item, int]]:
        """Take out one message, or several that follow one another and fit into one train."""
        queued = self.queued
        first = queued.popleft()
        items, (item, total) = [first], first
        if item[2] != IN_TRAIN or not self.takes_trains:
            return items
        while queued and len(items) < TRAIN_MESSAGES:
            item, size_bytes = queued[0]
            total += size_bytes
            if item[2] != IN_TRAIN or total > TRAIN_BYTES:
                break
            items.append(queued.popleft())
        return items


class Outboxes(ABC):
    """The queues of all peers of a transport."""

    _loop: asyncio.AbstractEventLoop
    _on_refused: OnRefused
    _on_sent: OnSent | None

    def __init__(
        self,
        limits: OutboxLimits | None,
        alone_bytes: int = TRAIN_BYTES,
        early_messages: int = EARLY_MESSAGES,
        waking: Waking | None = None,
    ) -> None:
        self._waking = waking or Waking()
        self._limits = limits or OutboxLimits()
        self._alone_bytes = alone_bytes  # a larger message goes alone
        self._early_messages = early_messages
        self._peers: dict[str, Outbox] = {}
        self._busy: dict[str, None] = {}  # peers with something to send, in the order in which it came
        self._flush_at: asyncio.Handle | None = None
        self._number: Callable[[], int] = count(1).__next__
        self._is_closed = False

    @abstractmethod
    def _send_waiting(self, uri: str, outbox: Outbox) -> bool:
        """Send what waits for a peer; False where no more is taken for now, and it is tried again."""

    def _says_directly(self, uri: str, frames: Frames) -> bool:
        """Send a control message past the queue, if there is a way."""
        return False

    def _sends_at_once(self, uri: str, frames: Frames, train_at_ns: int | None) -> bool:
        """Send a message that comes alone past the queue, where nothing waits before it, if the peer takes it now.

        With a time it goes as a train of one, to a peer that reads trains.
        """
        return False

    def allow_trains(self, uri: str, is_dated: bool = False) -> None:
        """Send what comes from now on for a peer in trains."""
        if uri in self._peers:
            self._peers[uri].allow_trains(is_dated)

    def forbid_trains(self, uri: str) -> None:
        """Send what comes from now on for a peer alone, until there was a hello again."""
        if uri in self._peers:
            self._peers[uri].takes_trains = False

    def leave(self, uri: str) -> None:
        """Forget when something was sent to a peer last."""
        if uri in self._peers:
            self._peers[uri].sent_at = 0

    def empty(self, uri: str) -> None:
        """Refuse what waits for a peer that is gone; the connection stays, for whoever comes next."""
        self.forbid_trains(uri)
        if uri in self._peers:
            self._refuse(uri, self._peers[uri], "unreachable")

    def send(
        self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False, goes_first: bool = False
    ) -> str:
        """Put frames into the queue of a peer; gives `queue_full` or `unreachable` where that is not possible."""
        outbox = self._peers.get(uri)
        if outbox is None or self._is_closed:
            return "unreachable"
        queued = outbox.queued
        if (
            queued
            and not is_control
            and len(frames) == USUAL
            and size_bytes <= self._alone_bytes
            and outbox.size_bytes + size_bytes <= outbox.max_bytes
            and len(queued) + outbox.putters.called < outbox.max_items
        ):  # nearly all: behind others that wait for the end of this turn
            queued.append(((frames, self._number(), IN_TRAIN, monotonic_ns()), size_bytes))
            outbox.size_bytes += size_bytes
            if len(queued) == self._early_messages:
                outbox.left += self._early_messages
                self._send_waiting(uri, outbox)
            return ""
        now, goes_alone = monotonic_ns(), size_bytes > self._alone_bytes or not SMALLEST < len(frames) <= MOST_FRAMES
        if is_control:
            if self._says_directly(uri, frames):
                return ""
        elif queued:
            pass
        elif goes_alone:
            if self._sends_at_once(uri, frames, None):
                outbox.sent_at = now
                return ""
        elif (
            (turn := self._waking.turn) is not None
            and outbox.is_quiet
            and (not outbox.left or (outbox.turn is not None and outbox.turn.is_over))
            and not outbox.putters
            and self._sends_at_once(uri, frames, now)
        ):  # nearly all, one at a time: the only one of this turn so far, in which a connection is read
            outbox.left, outbox.turn, outbox.sent_at = 1, turn, now
            return ""
        waiting = len(queued)
        if outbox.size_bytes + size_bytes > outbox.max_bytes or waiting + outbox.putters.called >= outbox.max_items:
            reason = self._make_room(uri, outbox, size_bytes, is_control)
            if reason:
                return reason
            waiting = len(queued)
        how = IN_TRAIN
        if is_control or goes_alone:
            how = CONTROL if is_control else ALONE
            outbox.is_even = outbox.is_even and goes_first
        if outbox.turn is not None and outbox.turn.is_over:
            outbox.left, outbox.turn = 0, None
        is_alone = not waiting and outbox.is_quiet and not outbox.left
        if is_alone and how == IN_TRAIN and self._sends_at_once(uri, frames, now):
            outbox.left, outbox.turn = 1, self._waking.turn
            if outbox.turn is not None and not outbox.putters:
                outbox.sent_at = now
                return ""
        else:
            item = (frames, self._number(), how, now)
            if goes_first:
                queued.insert(outbox.firsts, (item, size_bytes))
                outbox.firsts += 1
            else:
                queued.append((item, size_bytes))
            outbox.size_bytes += size_bytes
            if is_alone:
                outbox.left = int(self._send_waiting(uri, outbox))
        if not waiting:
            outbox.sent_at = now
            self._busy[uri] = None
            if self._flush_at is None:
                self._flush_at = self._loop.call_soon(self._flush)
        return ""

    def _make_room(self, uri: str, outbox: Outbox, size_bytes: int, is_control: bool) -> str:
        """Make room in a queue that may be full; gives `queue_full` where that is not possible."""
        if not outbox.queued or outbox.has_room(size_bytes):
            return ""
        if is_control:
            return "" if outbox.has_room(size_bytes, CONTROL_MESSAGES, CONTROL_BYTES) else "queue_full"
        if outbox.overflow is Overflow.WAIT:
            return "queue_full"
        for old, _, _, _ in outbox.make_room(size_bytes):
            self._on_refused(uri, old, "queue_full")
        return ""

    def waiting(self) -> tuple[int, int]:
        """Give the messages and bytes that wait in all queues."""
        outboxes = self._peers.values()
        return sum(map(len, outboxes)), sum(outbox.size_bytes for outbox in outboxes)

    def is_full(self, uri: str) -> bool:
        """Tell whether there is no room in the queue of a peer, so that who can wait has to."""
        outbox = self._peers.get(uri)
        if outbox is None or outbox.overflow is not Overflow.WAIT:
            return False
        return len(outbox) + outbox.putters.called >= outbox.max_items or outbox.size_bytes >= outbox.max_bytes

    def is_idle(self, uri: str, seconds: float) -> bool:
        """Tell whether nothing waits for a peer, and nothing was sent to it for so long."""
        outbox = self._peers.get(uri)
        return outbox is None or (not outbox and monotonic_ns() - outbox.sent_at > seconds * NS_PER_SECOND)

    def mark(self, uri: str) -> int:
        """Give the number of the last message in the queue of a peer, or 0 where none waits."""
        outbox = self._peers.get(uri)
        if outbox is None or len(outbox) <= outbox.firsts:
            return 0
        (_, number, _, _), _ = outbox.queued[-1]
        return number

    def is_queued(self, uri: str, mark: int) -> bool:
        """Tell whether a message still waits for a peer that was put into its queue up to that mark."""
        outbox = self._peers.get(uri)
        if outbox is None or len(outbox) <= outbox.firsts:
            return False
        (_, number, _, _), _ = outbox.queued[outbox.firsts]
        return number <= mark

    async def room(self, uri: str, elsewhere: OtherPlaces | None = None) -> str:
        """Wait until there may be room in the queue of a peer; gives `unreachable` if there is no such connection.

        Who is called elsewhere meanwhile gets `elsewhere`.
        """
        outbox, is_called_away = self._peers.get(uri), False
        if outbox is None or self._is_closed:
            return "unreachable"
        if not outbox:  # room came before anybody asked for it, and nothing is left that would bring more
            await asyncio.sleep(0)
        else:
            is_called_away = await outbox.putters.wait(elsewhere=elsewhere)
        if not outbox:  # who was woken may put nothing there, and then nobody else would wake the next
            self._loop.call_soon(self._wake, outbox)
        if uri not in self._peers or self._is_closed:
            return "unreachable"
        return ELSEWHERE if is_called_away else ""

    def _wake(self, outbox: Outbox) -> None:
        """Wake as many of those who wait for room as there is room for."""
        waiters = outbox.putters
        if not waiters:
            return
        taken = len(outbox) + waiters.called
        free_bytes = outbox.max_bytes - outbox.size_bytes - waiters.called * outbox.mean_bytes
        free = min(outbox.max_items - taken, free_bytes // outbox.mean_bytes)
        free = max(free, 0 if taken else 1)  # a message that is larger than the limit needs an empty queue
        waiters.wake(min(free, WAKE_AT_MOST - waiters.called))

    def _flush(self) -> None:
        self._flush_at = None
        for uri in list(self._busy):
            outbox = self._peers[uri]
            outbox.is_quiet, outbox.left, outbox.turn = len(outbox.queued) + outbox.left <= 1, 0, None
            is_empty = not outbox.queued and not outbox.putters  # all has left before the end of the turn
            if is_empty or self._send_waiting(uri, outbox):
                self._busy.pop(uri, None)
        if self._busy and not self._is_closed:
            self._flush_at = self._loop.call_later(RETRY_SECONDS, self._flush)

    def _refuse(self, uri: str, outbox: Outbox, reason: str, *, is_end: bool = False) -> None:
        """Refuse all that waits for a peer, and let all who wait for room look again; at the end in this turn."""
        waiting, outbox.size_bytes = [frames for frames, _, _, _ in outbox.items()], 0
        outbox.queued.clear()
        outbox.firsts = 0
        steps = chain(
            starmap(self._on_refused, ((uri, frames, reason) for frames in waiting)),
            map(outbox.putters.wake, repeat(1, len(outbox.putters))),
        )
        if is_end:
            for _ in steps:
                pass
        else:
            in_slices(self._loop, steps)

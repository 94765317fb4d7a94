"""A peer that cannot follow: its queue is bounded, and each policy does what it says; everything is accounted for."""

from __future__ import annotations

import asyncio
from time import perf_counter

import pytest

from hopwire.model import Codec, Payload
from hopwire.node import Actor, Node, NodeSettings, Overflow, handles
from hopwire.node.outbox import Outbox, Outboxes
from hopwire.node.transport import OutboxLimits
from hopwire.node.waking import Turn
from tests.node.loopback import told

TOLD = 3000
QUESTION = [b"peer", b"", b"question", b"meta"]


class Load(Payload, identity="load", codec=Codec.RAW):
    data: bytes


class Takes(Actor):
    def __init__(self) -> None:
        self.count = 0

    @handles
    async def load(self, request: Load) -> None:
        self.count += 1


@pytest.mark.parametrize("overflow", Overflow)
def test_a_full_queue_to_a_peer_waits_refuses_or_drops_the_oldest(overflow: Overflow) -> None:
    async def story() -> tuple[int, int]:
        settings = NodeSettings(overflow=overflow, outbox_messages=20)
        async with Node() as there, Node(peers=[there.uri], settings=settings) as here:
            takes = Takes()
            there.host(takes)
            await here.knows(Load)
            hub, load = here.hub(), Load(b"x" * 1000)
            most = 0
            for _ in range(TOLD):
                await hub.tell(load)
                most = max(most, here.statistics().outbox_messages)
            assert most <= 20
            while takes.count + here.dead_letters.counts["queue_full"] < TOLD:
                await asyncio.sleep(0.005)
            return takes.count, here.dead_letters.counts["queue_full"]

    taken, refused = told(story)
    assert taken + refused == TOLD
    assert (refused == 0) == (overflow is Overflow.WAIT)


class Sluggish(Outboxes):
    """A transport whose every load takes a while, as under TLS on a busy machine."""

    def __init__(self) -> None:
        super().__init__(OutboxLimits())
        self._loop = asyncio.get_running_loop()
        self._peers["peer"] = Outbox(OutboxLimits())
        self.allow_trains("peer")
        self.loads: list[int] = []

    def _send_waiting(self, uri: str, outbox: Outbox) -> bool:
        while outbox.queued:
            self.loads.append(len(outbox.next_load().messages))
            until = perf_counter() + 0.0002
            while perf_counter() < until:
                pass
        return True

    async def turn(self, count: int) -> list[int]:
        """Send so many messages in one turn of the loop, and give the loads that they left in."""
        self.loads = []
        for _ in range(count):
            assert self.send("peer", [b"peer", b"", b"body", b"meta"], 8) == ""
        for _ in range(3):
            await asyncio.sleep(0)
        return self.loads


def test_messages_of_one_turn_leave_in_one_train_however_long_each_takes() -> None:
    async def story() -> None:
        peers = Sluggish()
        assert await peers.turn(1) == [1]
        assert await peers.turn(100) == [1, 99]  # nobody knew that others would follow
        assert await peers.turn(100) == [100]
        assert await peers.turn(2) == [2]
        assert await peers.turn(1) == [1]
        assert await peers.turn(2) == [1, 1]
        assert await peers.turn(2) == [2]

    asyncio.run(story())


def test_a_message_that_comes_alone_leaves_at_once() -> None:
    async def story() -> None:
        peers = Sluggish()
        for _ in range(3):
            peers.loads = []
            peers.send("peer", [b"peer", b"", b"body", b"meta"], 8)
            assert peers.loads == [1]  # before the loop does anything else
            await peers.turn(0)

    asyncio.run(story())


class Read(Sluggish):
    """A transport whose messages are answers to what is read from a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = Turn()

    def _sends_at_once(self, uri: str, frames: list[bytes], train_at_ns: int | None) -> bool:
        self.loads.append(1)
        return True

    def read(self, count: int) -> tuple[list[int], bool]:
        """Answer so many messages of one read; give what left, and whether the loop has to end the turn."""
        self.loads = []
        self._waking.hold(self.begun)
        for _ in range(count):
            assert self.send("peer", QUESTION, 12) == ""
        self._waking.run()
        return self.loads, self._flush_at is not None

    def read_again(self, count: int) -> tuple[list[int], bool]:
        """Answer what the same connection brings in another turn."""
        self.begun.is_over, self.begun = True, Turn()
        return self.read(count)


def test_a_turn_with_one_answer_is_over_when_the_connection_is_read_again() -> None:
    async def story() -> None:
        peers = Read()
        for _ in range(3):
            assert peers.read_again(1) == ([1], False)
        assert peers.read(2) == ([], True), "two more of the same turn leave at its end"
        assert await peers.turn(0) == [2]
        assert peers.read_again(1) == ([], True), "and so does the next, since the turn before had several"

    asyncio.run(story())


def test_a_turn_without_a_read_is_ended_by_the_loop() -> None:
    async def story() -> None:
        peers = Read()
        assert peers.read_again(1) == ([1], False)
        assert peers.loads == [1]
        peers.loads = []
        assert peers.send("peer", QUESTION, 12) == ""
        assert peers.loads == [], "nobody has read since: this may be the same turn"
        assert await peers.turn(0) == [1]

    asyncio.run(story())


class Stopped(Outboxes):
    """A transport to a peer that takes nothing for now."""

    def __init__(self) -> None:
        super().__init__(OutboxLimits())
        self._loop = asyncio.get_running_loop()
        self._peers["peer"] = self.outbox = Outbox(OutboxLimits())
        self.allow_trains("peer")

    def _send_waiting(self, uri: str, outbox: Outbox) -> bool:
        return True

    def say(self, word: bytes, goes_first: bool = False) -> None:
        assert self.send("peer", [b"peer", word], len(word), is_control=True, goes_first=goes_first) == ""

    def loads(self) -> list[list[bytes]]:
        """Give the last frame of each message, load by load."""
        loads = []
        while self.outbox:
            loads.append([frames[-2] if len(frames) > 2 else frames[-1] for frames in self.outbox.next_load().messages])
        return loads


def test_control_messages_that_go_first_keep_their_order_and_split_no_train() -> None:
    async def story() -> None:
        peer = Stopped()
        for _ in range(3):
            peer.send("peer", QUESTION, 12)
        peer.say(b"credit 1", goes_first=True)
        peer.send("peer", QUESTION, 12)
        peer.say(b"credit 2", goes_first=True)
        assert peer.loads() == [[b"credit 1"], [b"credit 2"], [b"question"] * 4]
        peer.say(b"credit 3", goes_first=True)
        peer.send("peer", QUESTION, 12)
        peer.say(b"goodbye")
        peer.say(b"credit 4", goes_first=True)
        assert peer.loads() == [[b"credit 3"], [b"credit 4"], [b"question"], [b"goodbye"]]
        assert peer.waiting() == (0, 0)

    asyncio.run(story())


def test_what_goes_first_does_not_hide_what_waits_behind_it() -> None:
    async def story() -> None:
        peer = Stopped()
        peer.say(b"credit", goes_first=True)
        assert peer.mark("peer") == 0
        peer.send("peer", QUESTION, 12)
        mark = peer.mark("peer")
        peer.say(b"credit", goes_first=True)
        assert peer.is_queued("peer", mark)
        for _ in range(2):
            peer.outbox.next_load()
        assert peer.is_queued("peer", mark)
        peer.outbox.next_load()
        peer.say(b"credit", goes_first=True)
        assert not peer.is_queued("peer", mark)

    asyncio.run(story())


def test_what_waits_when_trains_are_allowed_leaves_alone_before_the_hello_that_lets_trains_in() -> None:
    async def story() -> None:
        peer = Stopped()
        peer.outbox.takes_trains = False
        peer.say(b"credit", goes_first=True)
        for _ in range(2):
            peer.send("peer", QUESTION, 12)
        peer.allow_trains("peer")
        peer.say(b"hello")
        for _ in range(2):
            peer.send("peer", QUESTION, 12)
        peer.allow_trains("peer")  # once more, as when a peer has moved: nothing changes
        hello, question = [b"hello"], [b"question"]
        assert peer.loads() == [[b"credit"], question, question, hello, question * 2]
        assert peer.waiting() == (0, 0)

    asyncio.run(story())

from __future__ import annotations

import asyncio
import threading

import pytest

from hopwire.errors import Timeout
from hopwire.node import Actor, Node, handles
from hopwire.node.transit import MOST_CONNECTIONS, WINDOW_NS, Transit
from tests.node.loopback import ANSWER_SECONDS, told
from tests.node.stories import Count, Greet, Greeting

C = b"connection"


def test_a_train_is_late_by_what_it_took_longer_than_the_quickest() -> None:
    transit = Transit()
    assert transit.late_ns(C, 100_000, 7_001) == 0
    assert transit.late_ns(C, 105_000, 14_001) == 2_000
    assert transit.late_ns(C, 105_000, 11_901) == 0  # a quicker one
    assert transit.late_ns(C, 106_000, 13_001) == 100
    assert transit.late_ns(b"another", 5, 10**12) == 0


def test_the_quickest_counts_for_one_to_two_windows() -> None:
    transit = Transit()
    transit.late_ns(C, 0, 100)
    assert transit.late_ns(C, WINDOW_NS, WINDOW_NS + 1_100) == 1_000
    assert transit.late_ns(C, 2 * WINDOW_NS, 2 * WINDOW_NS + 1_100) == 1_000
    assert transit.late_ns(C, 3 * WINDOW_NS, 3 * WINDOW_NS + 2_200) == 1_100


def test_connections_are_forgotten_when_there_are_too_many() -> None:
    transit = Transit()
    for number in range(MOST_CONNECTIONS + 10):
        transit.late_ns(b"%d" % number, 0, 0)
    assert len(transit._quickest) == MOST_CONNECTIONS


class Holder(Actor):
    """Holds the whole loop, and counts what is handled afterwards."""

    def __init__(self) -> None:
        self.greeted: list[str] = []
        self.go_on = threading.Event()

    @handles
    async def hold(self, request: Count) -> None:
        self.go_on.wait()

    @handles
    async def greet(self, request: Greet) -> Greeting:
        self.greeted.append(request.name)
        return Greeting(request.name)


@pytest.mark.slow
def test_what_waited_in_a_socket_for_longer_than_its_time_is_not_handled() -> None:
    holder = Holder()
    uri: list[str] = []

    async def hold() -> None:
        async with Node() as node:
            node.host(holder)
            uri.append(node.uri)
            await asyncio.get_running_loop().run_in_executor(None, done.wait)

    done = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()

    async def story() -> None:
        while not uri:
            await asyncio.sleep(0.01)
        async with Node(peers=[uri[0]]) as node:
            await node.knows(Greet)
            hub = node.hub()
            for number in range(20):
                await hub.ask(Greet(f"in time {number}"), Greeting)
            await hub.tell(Count(1))
            late = [hub.ask(Greet("too late"), Greeting, timeout=0.2) for _ in range(20)]
            ended = await asyncio.gather(*late, return_exceptions=True)
            assert {type(each) for each in ended} == {Timeout}
            await asyncio.sleep(0.5)  # they wait there for much longer than they may
            holder.go_on.set()
            await hub.ask(Greet("again"), Greeting, timeout=ANSWER_SECONDS)

    try:
        told(story)
    finally:
        holder.go_on.set()
        done.set()
        thread.join()
    assert "too late" not in holder.greeted
    assert len(holder.greeted) == 21


def test_times_that_make_no_sense_and_hellos_begin_anew() -> None:
    transit = Transit()
    transit.late_ns(C, 2**63 - 1, 1000)
    assert transit.late_ns(C, 1000, 2000) == 0  # no queue is so long
    assert transit.late_ns(C, 2000, 5000) == 2000
    transit.late_ns(C, 10_000, 3000)
    transit.forget(C)
    assert transit.late_ns(C, 3000, 9000) == 0

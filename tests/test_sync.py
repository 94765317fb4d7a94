from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from hopwire import sync
from hopwire.errors import Closed, NoRoute, SettingsError
from hopwire.node import Actor, handles
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number


class Blocking(Actor):
    """Its handler is no coroutine, so it runs in a thread."""

    concurrency = 4

    @handles
    def greet(self, request: Greet) -> Greeting:
        return Greeting(text=f"blocking {request.name}")


def test_blocking_code_asks_sends_tells_and_broadcasts() -> None:
    with sync.Node() as there, sync.Node(peers=[there.uri]) as here:
        greeter = Greeter()
        there.host(greeter)
        here.knows(Greet)
        hub = here.hub()
        assert hub.ask(Greet("Ada"), Greeting, timeout=5) == Greeting("hello Ada")
        assert hub.send(Greet("Bob")).node == there.identity
        hub.tell(Greet("Cy"))
        hub.broadcast(Greet("all"))
        assert hub.ask(Greet("last"), Greeting) == Greeting("hello last")
        assert greeter.greeted == ["Ada", "Bob", "Cy", "all", "last"]
        there.unhost(greeter)
        assert not here.dead_letters.counts


def test_many_threads_may_share_a_hub() -> None:
    with sync.Node() as node, ThreadPoolExecutor(8) as pool:
        node.host(Blocking())
        hub = node.hub()
        answers = pool.map(lambda i: hub.ask(Greet(str(i)), Greeting).text, range(200))
        assert list(answers) == [f"blocking {i}" for i in range(200)]


def test_errors_reach_the_caller() -> None:
    with sync.Node() as node:
        hub = node.hub()
        with pytest.raises(NoRoute):
            hub.ask(Greet("Ada"), Greeting)
    with pytest.raises(Closed):
        hub.ask(Greet("Ada"), Greeting)
    with pytest.raises(SettingsError, match="cannot listen"), sync.Node("tcp://256.0.0.1:1", insecure=True):
        pass


def test_blocking_code_takes_a_stream_part_by_part() -> None:
    with sync.Node() as there, sync.Node(peers=[there.uri]) as here:
        there.host(Counter())
        here.knows(Count)
        hub = here.hub()
        assert [part.value for part in hub.stream(Count(100), Number, timeout=10)] == list(range(100))
        for part in hub.stream(Count(10**6), Number):
            if part.value == 5:
                break
        assert hub.ask(Count(1), Number, timeout=5) == Number(0)  # the actor is free again
        with pytest.raises(NoRoute):
            next(iter(hub.stream(Greet("nobody"), Greeting)))
        with pytest.raises(SettingsError):
            hub.stream(Count(1), Count)


def test_blocking_node_is_started_looked_at_drained_and_stopped() -> None:
    node = sync.Node()
    node.start()
    node.host(Greeter())
    hub = node.hub(new=True)
    assert hub.trace(Greet("x")).node == node.identity
    assert (node.statistics().actors, node.peers) == (1, ())
    hub.close()
    with pytest.raises(Closed):
        hub.ask(Greet("x"), Greeting)
    assert node.drain(timeout=5)
    node.stop()
    with pytest.raises(Closed):
        node.statistics()

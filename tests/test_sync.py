from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from hopwire import sync
from hopwire.errors import Closed, NoRoute, SettingsError
from hopwire.node import Actor, handles
from tests.node.stories import Greet, Greeter, Greeting


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

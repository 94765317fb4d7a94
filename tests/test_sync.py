from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import get_args, get_type_hints

import pytest

from hopwire import sync
from hopwire.errors import Closed, Escalated, NoRoute, SettingsError
from hopwire.node import Actor, BlockingContext, Context, Hub, Node, handles
from hopwire.node.node import NodeOptions
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


def test_a_node_is_started_drained_and_stopped_without_a_block() -> None:
    node = sync.Node(name="shop")
    node.start()
    greeter = Greeter()
    node.host(greeter)
    assert (node.name, node.peers, node.capture_status) == ("shop", (), None)
    hub = node.hub()
    assert hub.trace(Greet("Ada")).node == node.identity
    hub.send(Greet("Ada"))
    assert node.drain(5)
    assert (greeter.greeted, node.statistics().actors) == (["Ada"], 1)
    node.stop()
    node.stop()
    with pytest.raises(Closed):
        node.hub()


def test_a_hub_of_blocking_code_can_be_closed() -> None:
    with sync.Node() as node:
        hub = node.hub(new=True)
        assert hub.identity != node.hub().identity
        hub.close()
        with pytest.raises(Closed):
            hub.tell(Greet("Ada"))


class Needed(Blocking):
    supervision = "escalate"

    async def on_start(self) -> None:
        raise OSError("no database")


def test_an_actor_that_escalates_ends_the_block_of_blocking_code_with_its_error() -> None:
    def block() -> None:
        with sync.Node() as node:
            node.host(Needed())
            with pytest.raises(Escalated):
                node.wait_closed()

    with pytest.raises(Escalated, match=r"Needed\.on_start failed: OSError"):
        block()


def test_a_node_of_blocking_code_takes_what_a_node_takes() -> None:
    options = {name for name in inspect.signature(Node.__init__).parameters if name not in ("self", "listen")}
    assert options == set(NodeOptions.__annotations__)


def test_a_node_of_blocking_code_does_what_a_node_does() -> None:
    for blocking, plain in ((sync.Node, Node), (sync.Hub, Hub)):
        missing = {name for name in dir(plain) if not name.startswith("_")} - set(dir(blocking))
        assert missing <= LEFT_OUT


OF_A_FLOW = {"correlation_id", "trace"}  # a handler is within a flow that has them


def options_of(call: Callable[..., object]) -> set[str]:
    """Give the names of what can be said of a call, also where they come from a list of options."""
    found = set[str]()
    hints = get_type_hints(call, include_extras=True)
    for name, parameter in inspect.signature(call).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            found.add(name)
        elif parameter.kind is parameter.VAR_KEYWORD:
            found |= set(get_args(hints[name])[0].__annotations__)
    return found


@pytest.mark.parametrize("name", ["ask", "send", "tell", "broadcast", "stream", "trace"])
def test_a_call_has_the_same_options_of_a_hub_of_blocking_code_and_within_a_flow(name: str) -> None:
    options = options_of(getattr(Hub, name))
    assert options >= {"partition"}
    assert options_of(getattr(sync.Hub, name)) == options
    assert options_of(getattr(Context, name)) == options - OF_A_FLOW
    plain = [None, None, None] if name in ("ask", "stream") else [None, None]
    blocking = inspect.signature(getattr(BlockingContext, name))
    blocking.bind(*plain, **dict.fromkeys(options - OF_A_FLOW))  # raises where one is missing


LEFT_OUT = {
    "border",
    "overview",
    "find_route",
    "is_closed",
    "lose_node",
    "open_promises",
    "sent_late",
    "take",
    "take_answer",
    "take_known",
    "use",
}  # for the node itself


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


def test_a_node_that_is_started_twice_goes_on() -> None:
    with sync.Node() as node:
        node.host(Greeter())
        with pytest.raises(Closed, match="a node is started once"):
            node.start()
        assert node.hub().ask(Greet("x"), Greeting, timeout=10) == Greeting("hello x")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e300, 10**400])
def test_a_time_that_is_none_is_refused_and_does_not_pass_for_a_loop_that_is_held(seconds: float) -> None:
    with sync.Node() as node:
        node.host(Greeter())
        with pytest.raises(SettingsError, match="timeout must be"):
            node.hub().ask(Greet("x"), Greeting, timeout=seconds)
        with pytest.raises(SettingsError, match="ttl must be"):
            node.hub().tell(Greet("x"), ttl=seconds)

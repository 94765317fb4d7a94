"""Bad arguments: refused at once, by a line that names the culprit, before anything is sent or registered."""

from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hopwire.errors import Closed, HopwireError, PayloadError, SettingsError
from hopwire.model import Codec, Payload
from hopwire.model.limits import Limits
from hopwire.node import Actor, Address, Hub, Node, NodeSettings, Overflow, handles
from hopwire.security import Domain, Domains, Key
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeter, Greeting

Call = Callable[[Hub], Awaitable[Any]]
NAN, ENDLESS = float("nan"), float("inf")


class Nameless(Payload):
    text: str = ""


class Blob(Payload, identity="blob", codec=Codec.RAW):
    data: bytes


class Unwritable(Payload, identity="unwritable"):
    thing: Any


async def refuses(call: Call, kind: type[Exception], text: str, **settings: Any) -> None:
    """Make a call on a hub, and see that it raises, sends nothing and leaves nothing."""

    async def story(network: Network) -> None:
        async with network.node(**settings) as node:
            node.host(Greeter())
            hub = node.hub()
            with pytest.raises(kind, match=text):
                await call(hub)
            assert hub.open_promises == 0
            assert not node.dead_letters.counts

    await story(Network())


def refused(call: Call, kind: type[Exception], text: str, **settings: Any) -> None:
    run(lambda _: refuses(call, kind, text, **settings))


# -- what is said


@pytest.mark.parametrize(
    ("payload", "kind", "text"),
    [
        pytest.param(Nameless(), SettingsError, "Nameless has no identity", id="no identity"),
        pytest.param("text", SettingsError, "str", id="text"),
        pytest.param(None, SettingsError, "NoneType", id="None"),
        pytest.param(Unwritable(object()), PayloadError, "Unwritable cannot be written", id="a field of any kind"),
        pytest.param(Greet, SettingsError, "an instance of Greet", id="the class"),
    ],
)
@pytest.mark.parametrize("call", ["ask", "send", "tell", "broadcast"])
def test_what_is_no_payload_is_refused(call: str, payload: Any, kind: type[Exception], text: str) -> None:
    arguments = (payload, Greeting) if call == "ask" else (payload,)
    refused(lambda hub: getattr(hub, call)(*arguments), kind, text)


def test_a_payload_that_no_peer_would_read_is_refused() -> None:
    refused(
        lambda hub: hub.tell(Blob(b"x" * 2000)),
        PayloadError,
        "Blob has 2000 bytes",
        settings=NodeSettings(limits=Limits(max_bytes=1000)),
    )


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param(Nameless, "Nameless has no identity", id="no identity"),
        pytest.param(str, "str", id="a class that is no payload"),
        pytest.param(Greeting("x"), "reply", id="an instance"),
        pytest.param((), "reply", id="no type at all"),
        pytest.param([Greeting], "reply", id="a list"),
        pytest.param(None, "reply", id="None"),
    ],
)
def test_a_reply_type_that_is_none_is_refused(reply: Any, text: str) -> None:
    refused(lambda hub: hub.ask(Greet("x"), reply), SettingsError, text)


def test_knows_takes_the_class_and_no_instance() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            with pytest.raises(SettingsError, match=r"^expected the class Greet, found an instance$"):
                await node.knows(Greet("x"))  # type: ignore[arg-type]
            with pytest.raises(SettingsError, match="str is no payload"):
                await node.knows(str)  # type: ignore[arg-type]

    run(story)


# -- for how long


SECONDS = [
    *[pytest.param(seconds, id=repr(seconds)) for seconds in (0, -1, NAN, -ENDLESS, ENDLESS, "1")],
    pytest.param(1e300, id="more than the wire can say"),
    pytest.param(1e-320, id="less than a clock can say"),
]


@pytest.mark.parametrize("seconds", [*SECONDS, None])
@pytest.mark.parametrize("call", ["ask", "send"])
def test_a_timeout_is_more_than_nothing_and_less_than_for_ever(call: str, seconds: Any) -> None:
    arguments = (Greet("x"), Greeting) if call == "ask" else (Greet("x"),)
    refused(lambda hub: getattr(hub, call)(*arguments, timeout=seconds), SettingsError, "timeout")


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("call", ["tell", "broadcast"])
def test_a_time_to_live_is_more_than_nothing_and_less_than_for_ever(call: str, seconds: Any) -> None:
    refused(lambda hub: getattr(hub, call)(Greet("x"), ttl=seconds), SettingsError, "ttl")


# -- to whom


def test_a_broadcast_takes_no_receiver() -> None:
    refused(lambda hub: hub.broadcast(Greet("x"), to=Address(b"n")), TypeError, "'to'")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "to",
    [
        pytest.param("node", id="text"),
        pytest.param(b"node", id="bytes"),
        pytest.param(Address("node"), id="an address of text"),  # type: ignore[arg-type]
        pytest.param(Address(b"n", b"?who"), id="neither hub nor actor"),
        pytest.param(Address(b""), id="an empty address"),
    ],
)
def test_a_receiver_is_an_address(to: Any) -> None:
    refused(lambda hub: hub.tell(Greet("x"), to=to), SettingsError, "address|to ")


@pytest.mark.parametrize("partition", ["west", 5])
def test_a_partition_is_bytes(partition: Any) -> None:
    refused(lambda hub: hub.tell(Greet("x"), partition=partition), SettingsError, "partition")


def test_a_partition_is_bytes_also_where_an_actor_is_hosted() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            with pytest.raises(SettingsError, match="partition"):
                node.host(Greeter(), partition="west")  # type: ignore[arg-type]

    run(story)


def test_a_correlation_id_is_bytes() -> None:
    refused(lambda hub: hub.tell(Greet("x"), correlation_id="flow"), SettingsError, "correlation_id")  # type: ignore[arg-type]


# -- by whom


def test_a_hub_of_a_stopped_node_is_closed_and_so_is_one_that_was_closed() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            closed, stopped = node.hub(new=True), node.hub()
            closed.close()
            with pytest.raises(Closed, match="hub is closed"):
                await closed.tell(Greet("x"))
        with pytest.raises(Closed):
            await stopped.tell(Greet("x"))
        for use in (node.hub, lambda: node.host(Greeter())):
            with pytest.raises(Closed, match="node is stopped"):
                use()

    run(story)


def test_a_hub_of_a_node_that_is_not_started_says_so() -> None:
    async def story(network: Network) -> None:
        hub = network.node().hub()
        for call in (hub.ask(Greet("x"), Greeting), hub.tell(Greet("x"), ttl=1)):
            with pytest.raises(Closed, match="not started"):
                await call
        assert hub.open_promises == 0

    run(story)


def test_a_hub_is_used_on_the_loop_of_its_node_and_on_no_other() -> None:
    found: list[BaseException | None] = []

    async def elsewhere(hub: Hub) -> None:
        await hub.ask(Greet("x"), Greeting, timeout=0.2)

    def thread(hub: Hub) -> None:
        try:
            asyncio.run(elsewhere(hub))
        except BaseException as error:
            found.append(error)
        else:
            found.append(None)

    async def story() -> None:
        async with Node() as node:
            node.host(Greeter())
            other = threading.Thread(target=thread, args=(node.hub(),))
            other.start()
            await asyncio.to_thread(other.join)

    asyncio.run(story())
    assert isinstance(found[0], SettingsError)


# -- actors


class Twice(Actor):
    @handles
    async def one(self, request: Greet) -> None: ...
    @handles
    async def two(self, request: Greet) -> None: ...


@pytest.mark.parametrize(
    ("actor", "text"),
    [
        pytest.param(Twice(), "two handlers for Greet: one and two", id="two handlers for one contract"),
        pytest.param(Actor(), "has no handler", id="no handler"),
        pytest.param("Greeter", "str has no handler", id="text"),
        pytest.param(Greeter, "an instance", id="the class"),
    ],
)
def test_an_actor_that_is_none_is_refused_and_nothing_of_it_stays(actor: Any, text: str) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            with pytest.raises(SettingsError, match=text):
                node.host(actor)
            assert node.statistics().actors == 0
            assert node._tables.local.routes() == []

    run(story)


def test_an_actor_is_hosted_once() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            greeter = Greeter()
            node.host(greeter)
            with pytest.raises(SettingsError, match="Greeter is hosted already"):
                node.host(greeter)

    run(story)


@pytest.mark.parametrize("identity", ["", "x" * 256])
def test_an_identity_of_a_payload_has_1_to_255_bytes(identity: str) -> None:
    with pytest.raises(SettingsError, match="1 to 255 bytes"):
        types.new_class("Bad", (Payload,), {"identity": identity})


# -- nodes


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"identity": b""}, id="an empty identity"),
        pytest.param({"identity": b"x" * 256}, id="an identity of 256 bytes"),
        pytest.param({"identity": "node"}, id="an identity of text"),
        pytest.param({"identity": b"\0node"}, id="an identity that begins with 0"),
        pytest.param({"peers": "tcp://127.0.0.1:1"}, id="peers as text"),
        pytest.param({"peers": ["nonsense"]}, id="a peer that is no address"),
        pytest.param({"peers": ["tcp://127.0.0.1"]}, id="a peer without a port"),
        pytest.param({"peers": [b"tcp://127.0.0.1:1"]}, id="a peer of bytes"),
        pytest.param({"listen": "nonsense"}, id="no address"),
        pytest.param({"listen": "tcp://256.0.0.1:1"}, id="an address that is none"),
        pytest.param({"listen": "tcp://127.0.0.1:99999"}, id="a port that is none"),
        pytest.param({"listen": None}, id="None"),
        pytest.param({"listen": "tcp://0.0.0.0:0"}, id="every address at once"),
        pytest.param({"domains": None}, id="no domains"),
        pytest.param({"settings": {"hop_limit": 3}}, id="settings as a table"),
    ],
)
def test_a_node_that_makes_no_sense_is_refused_before_it_runs(settings: dict[str, Any]) -> None:
    async def story() -> None:
        node = Node(**settings)
        await node.start()
        await node.stop()

    with pytest.raises(SettingsError):
        asyncio.run(story())


@pytest.mark.parametrize(
    "settings",
    [
        {"hop_limit": 0},
        {"inbox_messages": 0},
        {"formats": ()},
        {"formats": (7,)},
        {"seen_messages": 0},
        {"replay_seconds": -1.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        NodeSettings(**settings)


def test_peers_may_come_one_by_one_and_are_looked_at_all_the_same() -> None:
    async def story() -> None:
        async with Node() as a, Node(peers=(uri for uri in [a.uri])) as b:
            a.host(Greeter())
            await b.knows(Greet)

    asyncio.run(story())
    with pytest.raises(SettingsError, match="nonsense"):
        Node(peers=(uri for uri in ["tcp://127.0.0.1:1", "nonsense"]))


def test_a_domain_needs_a_key_and_a_key_its_length() -> None:
    with pytest.raises(SettingsError, match="has no key"):
        Domain("shop", [], ["greeter.*"])
    with pytest.raises(SettingsError, match="short"):
        Domain("shop", [Key("k", b"short")], ["greeter.*"])


def test_a_node_that_signs_has_a_domain_for_its_own_messages() -> None:
    shop = Domains([Domain("shop", [Key("k", b"0123456789abcdef")], ["greeter.*"])])
    with pytest.raises(SettingsError, match=r"hopwire\.\*"):
        Node(domains=shop)


def test_what_no_domain_owns_is_refused_where_it_is_said() -> None:
    domains = Domains([Domain("wires", [Key("k", b"0123456789abcdef")], ["hopwire.*"])])
    refused(lambda hub: hub.tell(Greet("x")), HopwireError, "no domain", domains=domains)


# -- actors, and what a node is given


@pytest.mark.parametrize("concurrency", ["8", None, 0, -5, 1.5, True])
def test_a_concurrency_that_is_no_number_from_one_is_refused(concurrency: Any) -> None:
    class Odd(Greeter):
        pass

    Odd.concurrency = concurrency

    async def story(network: Network) -> None:
        async with network.node() as node:
            with pytest.raises(SettingsError, match=r"Odd.concurrency must be a number from 1"):
                node.host(Odd())
            assert not node.statistics().actors

    run(story)


def test_a_node_that_runs_is_used_on_its_own_loop() -> None:
    async def story() -> None:
        async with Node() as node:
            actor = Greeter()
            for call in (lambda: node.host(actor), node.events):
                with pytest.raises(SettingsError, match=r"hopwire.sync"):
                    await asyncio.to_thread(call)
            node.host(actor)
            assert await node.hub().ask(Greet("Ada"), Greeting) == Greeting("hello Ada")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tls": {"certificate": "x"}}, "tls must be Tls"),
        ({"domains": 5}, "domains_from_file"),
        ({"domains": "x.toml"}, "cannot read the domains x.toml"),
        ({"settings": {"hop_limit": 3}}, "settings must be NodeSettings, found dict"),
    ],
)
def test_a_node_names_what_it_was_given_instead(options: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        Node(**options)


@pytest.mark.parametrize("name", ["express", "telemetry"])
def test_a_switch_is_true_or_false(name: str) -> None:
    options: dict[str, Any] = {name: "no"}
    with pytest.raises(SettingsError, match=f"{name} must be True or False, found 'no'"):
        NodeSettings(**options)


def test_a_policy_may_be_said_as_text() -> None:
    assert NodeSettings(overflow="drop_oldest").overflow is Overflow.DROP_OLDEST  # type: ignore[arg-type]

"""The law of the express way: bytes, decisions, answers, dead letters and captures are those of the ordinary way.

Each story is told twice, with and without the express way, with the same chance: every byte between the nodes, every
answer, every error and every dead letter must be the same.
"""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hopwire.capture import read_capture, sightings_from_batch
from hopwire.errors import HopwireError, Timeout
from hopwire.model import Codec, Payload
from hopwire.model.payload import weigher_of
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Actor, Address, Context, Node, NodeSettings, handles
from hopwire.node import node as node_module
from hopwire.node import outbox as outbox_module
from hopwire.node import post as post_module
from hopwire.node import trust as trust_module
from hopwire.node.dead import DeadLetter
from hopwire.node.zmtp_socket import ZmtpSocket
from hopwire.security import Domain, Domains, Key
from hopwire.testing import Network, run
from hopwire.wire import decode
from tests.node.virtual_sockets import run_on_sockets


class Ping(Payload, identity="law.ping", version=3):
    text: str
    number: int = 0


class Pong(Payload, identity="law.pong", version=3):
    text: str
    number: int = 0


class Other(Payload, identity="law.other"):
    items: list[int]


class Deep(Payload, identity="law.deep"):
    text: str


class Raw(Payload, identity="law.raw", codec=Codec.RAW):
    data: bytes


class Keyed(Payload, identity="law.keyed", choose="key", key="text"):
    text: str


class KeyedUnknown(Payload, identity="law.keyed"):
    """The same contract, as a sender knows it that knows nothing of the key."""

    text: str


class Light(Payload, identity="law.light", choose="least_loaded"):
    text: str


class Sticky(Payload, identity="law.sticky", choose="sticky"):
    text: str


class Answers(Actor):
    """Does with a question what the question says."""

    def __init__(self, name: str) -> None:
        self.name = name

    @handles
    async def ping(self, request: Ping, context: Context) -> Any:
        match request.text:
            case "raise":
                raise ValueError("it was said so")
            case "nothing":
                return None
            case "other":
                return Other([1])
            case "two":
                return [Other([2]), Pong(self.name)]
            case "deep":
                return await context.ask(Deep(self.name), Pong)
            case "slow":
                await asyncio.sleep(0.2)
        return Pong(f"{self.name} {request.text}", request.number)

    @handles
    async def deep(self, request: Deep) -> Pong:
        return Pong(f"{self.name} below {request.text}")

    @handles
    async def keyed(self, request: Keyed) -> Pong:
        return Pong(f"{self.name} has {request.text}")

    @handles
    async def light(self, request: Light) -> Pong:
        await asyncio.sleep(0.01)
        return Pong(f"{self.name} is free for {request.text}")

    @handles
    async def sticky(self, request: Sticky) -> Pong:
        return Pong(f"{self.name} again")

    @handles
    async def raw(self, request: Raw) -> Raw | None:
        return None

    @handles
    async def many(self, request: Other) -> AsyncIterator[Pong]:
        for item in request.items:
            yield Pong(self.name, item)


class Plain(Actor):
    """Answers a question that needs no context, and is told things."""

    @handles
    async def ping(self, request: Ping) -> Pong:
        return Pong("plain " + request.text, request.number)


class Step(NamedTuple):
    """One thing that happens in a story."""

    what: str
    node: int
    text: str = ""
    times: int = 1


TEXTS = st.sampled_from(("a", "bb", "é", "raise", "nothing", "other", "two", "deep", "slow", "x" * 300))
STEPS = st.one_of(
    st.builds(Step, st.just("ask"), st.integers(0, 2), TEXTS, st.integers(1, 6)),
    st.builds(Step, st.just("ask"), st.integers(0, 2), TEXTS, st.integers(1, 6)),
    st.builds(
        Step,
        st.sampled_from(
            (
                "ask_keyed",
                "ask_unknown",
                "ask_light",
                "ask_sticky",
                "ask_once",
                "ask_flow",
                "ask_traced",
                "ask_there",
                "tell",
                "send",
                "broadcast",
                "stream",
                "wrong",
                "short",
            )
        ),
        st.integers(0, 2),
        TEXTS,
        st.integers(1, 3),
    ),
    st.builds(Step, st.sampled_from(("host", "unhost", "cut", "heal", "lose", "crash", "wait")), st.integers(0, 2)),
)


class Told(NamedTuple):
    """Everything that can be seen of a story."""

    wire: list[tuple[str, str, tuple[bytes, ...]]]
    ends: list[str]
    dead: list[tuple[int, str, str, object]]
    counts: list[tuple[int, int, int, int]]


@pytest.fixture(autouse=True, scope="module")
def _chance() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_module, "_guid", lambda: f"{CHANCE.getrandbits(128):032x}-abc".encode())
        patch.setattr(node_module, "time", SimpleNamespace(time_ns=lambda: NOW_NS - 10**9))
        patch.setattr(node_module, "_random_keys", lambda: [CHANCE.getrandbits(62) + 1 for _ in range(16)])
        yield


CHANCE = Random(0)


NOW_NS = 10**18
SECRET = b"a secret of thirty-two bytes, or"


def domains(scheme: str) -> Domains:
    """Two domains, the keys of one of which change in the middle of most stories."""
    later = NOW_NS + NS_PER_SECOND
    keys = [Key("first", SECRET, not_after_ns=later), Key("second", SECRET[::-1])]
    return Domains([Domain("law", keys, ["law.*"], scheme=scheme), Domain("wires", [Key("k", SECRET)], ["hopwire.*"])])


def tell_story(steps: list[Step], is_express: bool, formats: tuple[int, ...] = (6, 5, 4, 3), scheme: str = "") -> Told:
    CHANCE.seed(7)
    told = Told([], [], [], [])
    clock = SimpleNamespace(
        time_ns=lambda: NOW_NS + round(asyncio.get_running_loop().time() * NS_PER_SECOND), monotonic_ns=lambda: 0
    )
    with pytest.MonkeyPatch.context() as patch:
        for module in (post_module, trust_module):
            patch.setattr(module, "time", clock)
        patch.setattr(post_module, "os", SimpleNamespace(urandom=CHANCE.randbytes))
        _tell(steps, is_express, formats, {"domains": domains(scheme)} if scheme else {}, told)
    return told


def _tell(steps: list[Step], is_express: bool, formats: tuple[int, ...], more: dict[str, Any], told: Told) -> None:

    async def story(network: Network) -> None:
        carry = network._carry

        def spy(sender: Any, uri: str, frames: list[bytes]) -> None:
            told.wire.append((sender.uri, uri, tuple(frames[1:])))
            carry(sender, uri, frames)

        network._carry = spy  # type: ignore[method-assign]
        nodes: list[Node] = []
        for number in range(3):
            options = NodeSettings(express=is_express, formats=formats if number == 2 else (6, 5, 4, 3))
            node = network.node(peers=[each.uri for each in nodes], settings=options, **more)
            node.dead_letters.subscribe(lambda letter, number=number: told.dead.append(seen(number, letter)))  # type: ignore[misc]
            await node.start()
            nodes.append(node)
        actors = [Answers(f"n{number}") for number in range(3)]
        nodes[1].host(actors[1])
        nodes[2].host(actors[2])
        nodes[2].host(Plain())
        for node in nodes:
            await node.knows(Ping)
        for step in steps:
            await take(step, network, nodes, actors, told.ends)
        for node in nodes:
            counted = node.statistics()
            told.counts.append((counted.messages_in, counted.messages_out, counted.bytes_in, counted.bytes_out))
            await node.stop()

    run(story, seed=3)


def seen(number: int, letter: DeadLetter) -> tuple[int, str, str, object]:
    return number, letter.reason, letter.detail, letter.message or letter.frames


async def take(step: Step, network: Network, nodes: list[Node], actors: list[Answers], ends: list[str]) -> None:
    node, text = nodes[step.node], step.text
    hub, number = node.hub(), len(ends)
    match step.what:
        case "ask":
            asked = [ended(hub.ask(Ping(text, each), Pong, timeout=0.7)) for each in range(step.times)]
            ends += await asyncio.gather(*asked)
        case "ask_keyed" | "ask_unknown" | "ask_light" | "ask_sticky":
            kind: Any = {"keyed": Keyed, "unknown": KeyedUnknown, "light": Light, "sticky": Sticky}[step.what[4:]]
            asked = [ended(hub.ask(kind(f"{text} {each}"), Pong, timeout=0.7)) for each in range(2 * step.times)]
            ends += await asyncio.gather(*asked)
        case "ask_once":
            ends.append(await ended(hub.ask(Ping(text, number), Pong, timeout=0.6, at_least_once=True)))
        case "ask_flow":
            ends.append(await ended(hub.ask(Ping(text), Pong, correlation_id=text.encode(), timeout=0.7)))
        case "ask_traced":
            ends.append(await ended(hub.ask(Ping(text), Pong, trace=True, timeout=0.7)))
        case "ask_there":
            to = Address(nodes[2].identity, b"")
            ends.append(await ended(hub.ask(Ping(text), Pong, to=to, timeout=0.7)))
        case "tell":
            for each in range(step.times):
                ends.append(await ended(hub.tell(Ping(text, each))))
        case "send":
            ends.append(await ended(hub.send(Ping(text), timeout=0.6)))
        case "broadcast":
            ends.append(await ended(hub.broadcast(Ping(text))))
        case "stream":
            ends.append(await ended(streamed(hub, Other(list(range(step.times))))))
        case "wrong":
            for payload in (Ping(text, "many"), Ping(text, 2**70), Ping("\ud800"), Raw(b"")):  # type: ignore[arg-type]
                ends.append(await ended(hub.ask(payload, Pong, timeout=0.5)))
        case "short":
            ends.append(await ended(hub.ask(Ping("slow"), Pong, timeout=0.1)))
        case "host":
            if len(node._actors) < 4:
                node.host(Plain())
        case "unhost":
            if id(actors[step.node]) in node._actors:
                await node.unhost(actors[step.node])
        case "cut":
            network.cut(nodes[step.node], nodes[(step.node + 1) % 3])
        case "heal":
            network.heal()
            network.faults.drop = network.faults.duplicate = 0.0
        case "lose":
            network.faults.drop, network.faults.duplicate = 0.2, 0.2
        case "crash":
            if step.node == 1:
                network.crash(nodes[1])
        case "wait":
            await asyncio.sleep(0.6)


async def streamed(hub: Any, question: Payload) -> list[Pong]:
    return [part async for part in hub.stream(question, Pong, timeout=0.6)]


async def ended(awaitable: Any) -> str:
    try:
        return repr(await awaitable)
    except (HopwireError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@given(st.lists(STEPS, min_size=1, max_size=12))
@example([Step("ask", 0, "a", 1), Step("wrong", 0, "a", 1)])
@pytest.mark.slow
def test_both_ways_tell_the_same_story(steps: list[Step]) -> None:
    assert tell_story(steps, is_express=True) == tell_story(steps, is_express=False)


@given(st.lists(STEPS, min_size=1, max_size=8), st.sampled_from(("hopwire-2", "hopwire-1", "legacy")))
@example([Step("ask", 0, "a", 3), Step("wrong", 0, "bb", 3), Step("ask", 0, "a", 3)], "hopwire-2")
@pytest.mark.slow
def test_both_ways_tell_the_same_story_where_everything_is_signed(steps: list[Step], scheme: str) -> None:
    assert tell_story(steps, True, scheme=scheme) == tell_story(steps, False, scheme=scheme)


@pytest.mark.slow
@pytest.mark.parametrize("formats", [(6,), (5, 4), (4,), (3,)])
def test_both_ways_tell_the_same_story_to_peers_of_every_format(formats: tuple[int, ...]) -> None:
    steps = [
        Step("ask", 0, "a", 3),
        Step("ask", 2, "a", 3),
        Step("ask", 0, "bb", 3),
        Step("unhost", 1),
        Step("ask", 0, "a", 3),
        Step("ask", 1, "deep", 3),
    ]
    assert tell_story(steps, True, formats) == tell_story(steps, False, formats)


def test_the_express_way_is_taken_and_left_as_the_tables_change() -> None:
    """A message that was known yesterday goes where the tables say today."""
    every = ["ask", "tell", "send", "host", "ask", "unhost", "ask", "cut", "ask", "heal", "wait", "ask", "crash", "ask"]
    steps = [Step(what, number % 3, "a", 4) for number, what in enumerate(every)]
    assert tell_story(steps, True) == tell_story(steps, False)


@pytest.mark.parametrize("what", ["ask_keyed", "ask_unknown", "ask_light", "ask_sticky"])
def test_both_ways_tell_the_same_story_whatever_the_rule(what: str) -> None:
    changes = ["", "wait", "host", "unhost", "", "cut", "heal", "wait", "crash", ""]
    steps = [
        each
        for number, change in enumerate(changes)
        for each in (Step(what, number % 3, "a", 3), Step(change, 1 + number % 2))
    ]
    assert tell_story(steps, True) == tell_story(steps, False)


def test_what_repeats_itself_is_learned_and_the_rest_is_not() -> None:
    async def story(network: Network) -> None:
        async with network.node() as there, network.node(peers=[there.uri]) as here:
            there.host(Answers("there"))
            await here.knows(Ping)
            for number in range(5):
                assert await here.hub().ask(Ping("a", number), Pong) == Pong("there a", number)
                await asyncio.sleep(0.01)
            assert len(there._incoming._known) == 1
            assert len(here._incoming._known) == 1
            await here.hub().ask(Ping("a"), Pong, trace=True)
            assert len(there._incoming._known) == 1

    run(story)


def test_a_payload_that_nobody_can_change_is_handed_over_and_any_other_is_a_copy() -> None:
    got: list[Payload] = []

    class Keeps(Actor):
        @handles
        async def ping(self, request: Ping) -> Pong:
            got.append(request)
            return PONG

        @handles
        async def many(self, request: Other) -> None:
            got.append(request)

    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Keeps())
            hub, plain, listed = node.hub(), Ping("a"), Other([1])
            await hub.ask(plain, Pong)
            assert await hub.ask(plain, Pong) is PONG
            assert got[-1] is plain
            await hub.tell(listed)
            await asyncio.sleep(0.1)
            copy: Payload = got[-1]
            assert copy == listed
            assert copy is not listed

    PONG = Pong("the same")
    run(story)


ALONE = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(("a", "bb", "long", "large", "raise", "nothing", "two"))),
    st.tuples(st.just("ask"), st.sampled_from(("a", "bb"))),
    st.tuples(st.sampled_from(("ask_traced", "ask_keyed", "tell", "host", "unhost", "late", "several")), st.just("a")),
)


def tell_alone(steps: list[tuple[str, str]], is_express: bool) -> Told:
    """Tell of questions that are asked one at a time over a socket, as trains of one or as large frames."""
    CHANCE.seed(7)
    told = Told([], [], [], [])
    write = ZmtpSocket.write

    def spy(self: ZmtpSocket, parts: list[bytes]) -> bool:
        data = b"".join(parts)
        if b"law." in data and b"incarnation" not in data:  # what nodes say of themselves has times of the machine
            told.wire.append(("", "", (re.sub(rb"127.0.0.1:\d+", b"", data),)))
        return write(self, parts)

    async def story() -> None:
        options = NodeSettings(express=is_express)
        async with Node(settings=options) as there, Node(peers=[there.uri], settings=options) as here:
            for number, node in enumerate((there, here)):
                node.dead_letters.subscribe(lambda letter, number=number: told.dead.append(seen(number, letter)))  # type: ignore[misc]
            actors = [Plain(), Answers("there")]
            there.host(actors[1])
            await here.knows(Ping)
            hub, is_hosted = here.hub(), False
            for what, word in steps:
                text = {"long": "b" * 300, "large": "b" * 20_000}.get(word, word)
                if what == "host":
                    if not is_hosted:
                        there.host(actors[0])
                    is_hosted = True
                elif what == "unhost":
                    if is_hosted:
                        await there.unhost(actors[0])
                    is_hosted = False
                elif what == "late":  # the train says that it was queued much later than those before
                    patch.setattr(outbox_module, "monotonic_ns", lambda: -(10**9))
                    told.ends.append(await ended(hub.ask(Ping("a"), Pong, timeout=0.5)))
                    patch.setattr(outbox_module, "monotonic_ns", lambda: 0)
                elif what == "several":
                    asked = [ended(hub.ask(Ping("slow", number), Pong)) for number in range(3)]
                    told.ends.extend(await asyncio.gather(*asked))
                elif what == "ask_keyed":
                    told.ends.append(await ended(hub.ask(Keyed(text), Pong)))
                elif what == "tell":
                    told.ends.append(await ended(hub.tell(Ping(text))))
                else:
                    told.ends.append(await ended(hub.ask(Ping(text), Pong, trace=what == "ask_traced")))
                await asyncio.sleep(0.01)  # one at a time, also what nobody waits for
            for node in (there, here):
                counted = node.statistics()
                told.counts.append((counted.messages_in, counted.messages_out, counted.bytes_in, counted.bytes_out))

    clock = SimpleNamespace(time_ns=lambda: NOW_NS, monotonic_ns=lambda: 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(post_module, "time", clock)
        patch.setattr(outbox_module, "monotonic_ns", lambda: 0)
        patch.setattr(ZmtpSocket, "write", spy)
        run_on_sockets(story)
    return told


@given(st.lists(ALONE, min_size=1, max_size=12))
@example([("ask", "a")] * 4 + [("late", "a"), ("ask", "a"), ("host", "a")] + [("ask", "a")] * 4)
@example([("ask", "large")] * 6 + [("ask", "a")] * 3 + [("several", "a"), ("unhost", "a"), ("ask", "raise")])
@pytest.mark.slow
def test_both_ways_tell_the_same_of_messages_that_come_alone(steps: list[tuple[str, str]]) -> None:
    assert tell_alone(steps, is_express=True) == tell_alone(steps, is_express=False)


@pytest.mark.parametrize("size", [1, 20_000])
def test_a_fault_of_ours_costs_the_message_that_came_alone_and_no_other(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters: list[DeadLetter] = []

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    async def story() -> None:
        async with Node() as there, Node(peers=[there.uri]) as here:
            there.host(Answers("there"))
            there.dead_letters.subscribe(letters.append)
            await here.knows(Ping)
            hub = here.hub()
            for _ in range(6):
                await hub.ask(Ping("b" * size), Pong)
                await asyncio.sleep(0.01)
            counted = there.statistics().messages_in
            with monkeypatch.context() as patch:
                patch.setattr(there._incoming._router, "only_inbox", fail)
                with pytest.raises(Timeout):
                    await hub.ask(Ping("b" * size), Pong, timeout=0.1)
            assert there.statistics().messages_in > counted
            assert await hub.ask(Ping("b" * size), Pong) == Pong("there " + "b" * size)

    run_on_sockets(story)
    assert [(letter.reason, letter.detail) for letter in letters] == [("node_failed", "RuntimeError")]
    assert decode([b"", *letters[0].frames[1:]]).identity == b"law.ping"


class Watched(Payload, identity="law.watched", weakref=True):
    text: str


def test_a_payload_within_a_node_is_let_go_as_soon_as_it_is_handled() -> None:
    seen: list[weakref.ref[Payload]] = []
    gone: list[int] = []

    class Looks(Actor):
        @handles
        async def look(self, request: Watched) -> Pong:
            gone.append(sum(each() is None for each in seen))
            seen.append(weakref.ref(request))
            return Pong("a")

    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Looks())
            hub = node.hub()
            for _ in range(2):
                await hub.ask(Watched("a"), Pong)
            await asyncio.gather(*[hub.ask(Watched("a"), Pong) for _ in range(3)])

    run(story)
    assert gone == [0, 1, 2, 3, 4]


def test_questions_with_another_time_end_in_their_own_time_beside_many_with_the_usual_time() -> None:
    class Sleeps(Actor):
        concurrency = 8

        @handles
        async def ping(self, request: Ping) -> Pong:
            await asyncio.sleep(request.number)
            return Pong("a")

    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Sleeps())
            hub, loop = node.hub(), asyncio.get_running_loop()
            for _ in range(3):
                await hub.ask(Ping("a"), Pong)
            began = loop.time()
            for timeout, end in ((2.0, 2.0), (64, 64.0), (30.0, 30.0)):
                with pytest.raises(Timeout):
                    await hub.ask(Ping("a", 100), Pong, timeout=timeout)
                assert end <= round(loop.time() - began, 3) <= end * 33 / 32  # a deadline is exact to a part of 32
                assert await hub.ask(Ping("a"), Pong) == Pong("a")
                began = loop.time()

    run(story)


class Changing(Payload, identity="law.changing", frozen=False):
    text: str


@pytest.mark.parametrize(
    ("payload", "size"),
    [(Ping("abc", 1), 12), (Ping("é"), -1), (Ping("a", 2**64), -1), (Ping("a", True), -1), (Ping(b"a"), -1)],  # type: ignore[arg-type]
)
def test_only_what_could_be_written_and_read_is_handed_over(payload: Payload, size: int) -> None:
    weigh = weigher_of(type(payload))
    assert weigh is not None
    assert weigh(payload) == size


def test_payloads_that_may_change_are_never_handed_over() -> None:
    assert [weigher_of(each) for each in (Changing, Other, Raw)] == [None, None, None]


@pytest.mark.slow
@pytest.mark.parametrize("is_express", [True, False])
def test_captures_of_both_ways_tell_the_same(tmp_path: Path, is_express: bool) -> None:
    """Real sockets and trains: every question and answer is seen once by each of both nodes, in both ways."""

    async def story() -> None:
        options = NodeSettings(express=is_express)
        async with (
            Node(capture=tmp_path, name="there", settings=options) as there,
            Node(peers=[there.uri], capture=tmp_path, name="here", settings=options) as here,
        ):
            there.host(Answers("there"))
            await here.knows(Ping)
            hub = here.hub()
            for _ in range(5):
                await asyncio.gather(*(hub.ask(Ping("a", number), Pong) for number in range(200)))

    asyncio.run(story())
    seen: dict[tuple[str, str, bytes], list[bytes]] = {}
    for sighting in (each for batch in read_capture(tmp_path) for each in sightings_from_batch(batch)):
        if sighting.direction in ("in", "out"):
            message = decode(sighting.frames)
            if message.identity.startswith(b"law."):
                key = (sighting.node_name, sighting.direction, message.identity)
                seen.setdefault(key, []).append(message.correlation_id)
    assert {key: (len(ids), len({*ids})) for key, ids in seen.items()} == {
        ("here", "out", b"law.ping"): (1000, 1000),
        ("there", "in", b"law.ping"): (1000, 1000),
        ("there", "out", b"law.pong"): (1000, 1000),
        ("here", "in", b"law.pong"): (1000, 1000),
    }

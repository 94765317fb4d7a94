"""Choosing among the actors of several nodes: by key, by load, sticky, and what happens when actors come and go."""

from __future__ import annotations

import asyncio
from collections import Counter as Counted
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hopwire.errors import PayloadError, SettingsError
from hopwire.model import Payload
from hopwire.model.names import ACTOR
from hopwire.node import Actor, Address, Context, Handled, KeysMoved, Node, NodeSettings, handles
from hopwire.node.envelope import Envelope
from hopwire.security import Domain, Domains, Key
from hopwire.testing import Network, run
from hopwire.wire.extension import Extension, with_extension
from tests.node.stories import NETWORKS, Balance, Charge, Keeper, Nodes

ACCOUNTS = [f"account {number}" for number in range(24)]
SECRET = b"sixteen bytes or more, from a safe place"


class Unruled(Payload, identity="keeper.charge", version=1):
    """The same contract, as nodes know it that know nothing of its rule."""

    account: str
    amount: int = 1


class Work(Payload, identity="chosen.work", choose="least_loaded"):
    number: int = 0


class Visit(Payload, identity="chosen.visit", choose="sticky"):
    text: str = ""


class Step(Payload, identity="chosen.step", choose="sticky", key="flow"):
    text: str = ""


class Listing(Payload, identity="chosen.listing", choose="key", key="account"):
    account: str


class Bill(Payload, identity="chosen.bill"):
    account: str


class Loose(Payload, identity="chosen.loose", choose="key", key="key"):
    key: Any


class Clerk(Actor):
    """Says who it is, whatever it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wake = asyncio.Event()
        self.at_work = 0

    @handles
    async def visit(self, request: Visit) -> Balance:
        return Balance(self.name, 0)

    @handles
    async def step(self, request: Step) -> Balance:
        return Balance(self.name, 0)

    @handles
    async def listing(self, request: Listing) -> AsyncIterator[Balance]:
        for number in range(3):
            yield Balance(self.name, number)


class Worker(Clerk):
    @handles
    async def work(self, request: Work) -> Balance:
        self.at_work += 1
        await self.wake.wait()
        return Balance(self.name, request.number)


class Lead(Payload, identity="chosen.lead", choose="key"):
    text: str = ""


class Leader(Clerk):
    @handles
    async def lead(self, request: Lead) -> Balance:
        return Balance(self.name, 0)


class Biller(Actor):
    """Passes a question on: whoever keeps the account answers."""

    @handles
    async def bill(self, request: Bill, context: Context) -> Charge:
        return Charge(request.account)


async def until_known(nodes: list[Node], payload: type[Payload], actors: int) -> None:
    for node in nodes:
        while (await node.knows(payload)).actors != actors:
            await node._next_change()


async def keepers(node: Node, kind: type[Payload] = Charge, **options: Any) -> dict[str, str]:
    asked = [node.hub().ask(kind(account=each), Balance, **options) for each in ACCOUNTS]
    return {account: found.keeper for account, found in zip(ACCOUNTS, await asyncio.gather(*asked), strict=True)}


async def three(network: Nodes, **more: Any) -> list[Node]:
    """Three nodes that know each other, with a keeper on the first and the second."""
    nodes: list[Node] = []
    for _ in range(3):
        nodes.append(network.node(peers=[each.uri for each in nodes], **more))
        await nodes[-1].start()
    nodes[0].host(Keeper("a"))
    nodes[1].host(Keeper("b"))
    await until_known(nodes, Charge, 2)
    return nodes


def nothing_lost(nodes: list[Node]) -> bool:
    """Tell whether every charge has found a keeper; what keepers return where nobody waits does not matter."""
    letters = [letter.message for node in nodes for letter in node.dead_letters.latest]
    return not any(message is None or message.identity != b"keeper.balance" for message in letters)


async def stop(nodes: list[Node]) -> None:
    for node in nodes:
        await node.stop()


# -- by key


@pytest.mark.parametrize("network", NETWORKS)
def test_an_account_has_the_same_keeper_whoever_asks(network: str) -> None:
    async def story(network: Nodes) -> None:
        nodes = await three(network)
        nodes[0].host(Keeper("a2"))
        await until_known(nodes, Charge, 3)
        found = await keepers(nodes[0])
        assert [await keepers(node) for node in nodes] == [found] * 3
        assert {*found.values()} == {"a", "a2", "b"}
        assert [await keepers(node, at_least_once=True) for node in nodes] == [found] * 3
        hub = nodes[2].hub()
        for account in ACCOUNTS:
            await hub.tell(Charge(account))
            await hub.send(Charge(account))
        balances = [await hub.ask(Charge(account), Balance) for account in ACCOUNTS]
        assert [each.amount for each in balances] == [10] * len(ACCOUNTS)  # 1 + 3 + 3 asked, told, sent, asked
        assert nothing_lost(nodes)
        await stop(nodes)

    NETWORKS[network](story)


def test_keys_move_to_a_keeper_that_comes_and_back_when_it_goes_and_no_others_move() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        before, events = await keepers(nodes[2]), nodes[2].events()
        late = Keeper("c")
        address = nodes[2].host(late)
        await until_known(nodes, Charge, 3)
        after = await keepers(nodes[0])
        assert all(after[account] in (keeper, "c") for account, keeper in before.items())
        assert "c" in after.values()
        await nodes[2].unhost(late)
        await until_known(nodes, Charge, 2)
        assert await keepers(nodes[0]) == await keepers(nodes[2]) == before
        moved = []
        while (event := events.take()) is not None:
            if isinstance(event, KeysMoved):
                moved.append(event)
        contract, actors = "keeper.charge v1", (address.receiver,)
        third: Any = pytest.approx(1 / 3)
        assert moved == [KeysMoved(contract, 1, 0, actors, third), KeysMoved(contract, 0, 1, actors, third)]
        await stop(nodes)

    run(story)


@pytest.mark.parametrize("scheme", ["", "hopwire-1", "hopwire-2"])
def test_a_keeper_that_is_gone_when_the_message_arrives_is_replaced_by_the_same_rule(scheme: str) -> None:
    """The node in the middle knows nothing of the payload: the number of the key has come along."""
    domains = (
        [Domain(n, [Key("k", SECRET)], [f"{n}.*"], scheme=scheme) for n in ("keeper", "hopwire")] if scheme else []
    )

    async def story(network: Network) -> None:
        nodes = await three(network, **({"domains": Domains(domains)} if domains else {}))
        keeper = Keeper("a2")
        nodes[0].host(keeper)
        await until_known(nodes, Charge, 3)
        before = await keepers(nodes[2])
        nodes[0]._router.choosers.clear()
        network.faults.delay = 0.5
        leaving = asyncio.ensure_future(nodes[0].unhost(keeper))
        await asyncio.sleep(0.1)  # others hear of it half a second later
        assert (await nodes[2].knows(Charge)).actors == 3
        told = [nodes[2].hub().tell(Charge(account)) for account in ACCOUNTS]
        await asyncio.gather(*told)
        after = await keepers(nodes[2])
        await leaving
        network.faults.delay = 0.0
        await until_known(nodes, Charge, 2)
        assert after == await keepers(nodes[2]) == await keepers(nodes[0])
        assert all(after[account] == keeper for account, keeper in before.items() if keeper != "a2")
        moved = [account for account in ACCOUNTS if before[account] == "a2"]
        balances = [await nodes[1].hub().ask(Charge(account), Balance) for account in moved]
        assert {each.amount for each in balances} == {5}
        assert nothing_lost(nodes)
        await stop(nodes)

    run(story)


def test_a_sender_that_knows_nothing_of_the_rule_reaches_the_same_keeper() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        found = await keepers(nodes[0])
        for _ in range(3):  # the second time it is known to the express way
            assert await keepers(nodes[2], Unruled) == found
            await asyncio.sleep(0.1)
        assert nothing_lost(nodes)
        await stop(nodes)

    run(story)


@pytest.mark.parametrize("formats", [(5,), (4,), (3,)])
def test_peers_of_older_formats_are_chosen_too(formats: tuple[int, ...]) -> None:
    """V3 and V4 carry no key of a callback, so nobody waits there for an answer."""

    async def story(network: Network) -> None:
        nodes = await three(network)
        old, keeper = network.node(peers=[n.uri for n in nodes], settings=NodeSettings(formats=formats)), Keeper("old")
        async with old:
            old.host(keeper)
            await until_known([*nodes, old], Charge, 3)
            for node in (*nodes, old):
                for account in ACCOUNTS:
                    await node.hub().tell(Charge(account))
            await asyncio.sleep(0.1)
            assert keeper.accounts
            assert {*keeper.accounts.values()} == {4}
        await stop(nodes)

    run(story)


def test_the_question_of_a_node_that_died_goes_to_the_next_keeper_and_stays_otherwise() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        await until_known(nodes, Charge, 2)
        before = await keepers(nodes[2], at_least_once=True)
        network.crash(nodes[1])
        after = await keepers(nodes[2], at_least_once=True)
        assert {*before.values()} == {"a", "b"}
        assert {*after.values()} == {"a"}
        await stop(nodes)

    run(story)


def test_an_insisted_question_stays_with_its_keeper_while_messages_get_lost() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        before = await keepers(nodes[2])
        network.faults.drop = 0.2
        for _ in range(3):
            assert await keepers(nodes[2], at_least_once=True, timeout=600) == before
        network.faults.drop = 0.0
        balances = [await nodes[2].hub().ask(Charge(account), Balance) for account in ACCOUNTS]
        assert {each.amount for each in balances} == {5}  # each once, by one keeper
        await stop(nodes)

    run(story)


def test_streams_and_what_handlers_return_and_say_are_chosen_by_key_too() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        nodes[0].host(Clerk("a"))
        nodes[1].host(Clerk("b"))
        nodes[2].host(Biller())
        await until_known(nodes, Listing, 2)
        await until_known(nodes, Bill, 1)
        found = await keepers(nodes[0])
        assert await keepers(nodes[1], Bill) == found
        streams = set()
        for node in nodes:
            streamed = [[part async for part in node.hub().stream(Listing(each), Balance)] for each in ACCOUNTS]
            assert {len(parts) for parts in streamed} == {3}
            streams.add(tuple(parts[0].keeper for parts in streamed))
        assert len(streams) == 1
        await stop(nodes)

    run(story)


def test_whom_a_call_names_gets_it_whatever_the_key() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        address = nodes[0].host(Keeper("named"))
        for to in (address, Address(nodes[1].identity)):
            found = await keepers(nodes[2], to=to)
            assert {*found.values()} == {"named" if to is address else "b"}
        await nodes[2].hub().broadcast(Charge("all"))
        assert (await nodes[2].hub().trace(Charge("all"), to=address)).choose == ""
        await stop(nodes)

    run(story)


def test_a_partition_is_a_key_of_its_own() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            for node in (a, b):
                for name in ("1", "2"):
                    node.host(Leader(f"{node.uri} {name}"), partition=b"east")
            for node in (a, b):
                while (await node.knows(Lead, partition=b"east")).actors < 4:
                    await node._next_change()
            asked = [n.hub().ask(Lead(), Balance, partition=b"east") for n in (a, b) for _ in range(5)]
            assert len({each.keeper for each in await asyncio.gather(*asked)}) == 1

    run(story)


def test_a_node_that_drains_gives_its_keys_to_others_also_for_its_own_hub() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        assert "a" in (await keepers(nodes[0])).values()
        assert await nodes[0].drain()
        assert {*(await keepers(nodes[0])).values()} == {"b"}
        await nodes[1].drain()
        assert {*(await keepers(nodes[1])).values()} == {"b"}
        await stop(nodes)

    run(story)


def test_actors_that_come_and_go_leave_nothing_behind() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        lines = len(nodes[2]._outgoing._credits.lines)
        for _ in range(8):
            passing = Keeper("passing")
            nodes[0].host(passing)
            await until_known(nodes, Charge, 3)
            await keepers(nodes[2])
            await nodes[0].unhost(passing)
            await until_known(nodes, Charge, 2)
        assert len(nodes[2]._outgoing._credits.lines) <= lines + 2
        assert len(nodes[2]._tables.rings._shared) == 1
        assert not nodes[2]._tables.rings._changes
        await stop(nodes)

    run(story)


@pytest.mark.parametrize(("number", "is_handled"), [(1, True), (2**63 - 1, True), (0, False), (-7, False)])
def test_a_receiver_that_never_was_is_replaced_only_by_the_number_of_a_key(number: int, is_handled: bool) -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        third = Keeper("a2")
        nodes[0].host(third)
        await until_known(nodes, Charge, 3)
        to = Address(nodes[0].identity, ACTOR + b"nobody")
        message = nodes[2].hub()._message(Charge("ada"), (to, b"", b"", False), 0)
        nodes[2]._router.route(Envelope(with_extension(message, Extension(chosen_by=number))))
        await asyncio.sleep(0.1)
        actors = [running.actor for node in nodes for running in node._actors.values()]
        assert sum("ada" in each.accounts for each in actors if isinstance(each, Keeper)) == is_handled
        assert nodes[0].dead_letters.counts["unknown_receiver"] == (not is_handled)
        await stop(nodes)

    run(story)


def test_moved_keys_are_told_from_the_first_look_on_also_when_a_node_drains() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        seen = [node.events() for node in nodes]
        await nodes[0].drain()
        await until_known(nodes[1:], Charge, 1)
        for events in seen:
            moved = []
            while (event := events.take()) is not None:
                moved += [event] if isinstance(event, KeysMoved) else []
            assert [(each.came, each.went, each.share) for each in moved] == [(0, 1, 0.5)]
        await stop(nodes)

    run(story)


@pytest.mark.slow
def test_credit_comes_back_for_what_is_chosen_where_it_arrives() -> None:
    """Small inboxes: whoever was not given back what it sent would wait for ever."""

    async def story(network: Network) -> None:
        nodes = await three(network, settings=NodeSettings(inbox_messages=60))
        hub = nodes[2].hub()
        for kind in (Unruled, Charge):
            asked = [hub.ask(kind(ACCOUNTS[n % 24]), Balance, timeout=60) for n in range(1200)]
            assert len(await asyncio.gather(*asked)) == 1200
        balances = [await hub.ask(Charge(account, 0), Balance) for account in ACCOUNTS]
        assert {each.amount for each in balances} == {100}
        await asyncio.sleep(3)  # what was sent is asked for after a second, if it was not given back
        assert all(line.sent - line.taken <= 20 for line in nodes[2]._outgoing._credits.lines.values())
        await stop(nodes)

    run(story)


# -- by load


def test_questions_go_to_whoever_has_less_to_do() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b, network.node(peers=[a.uri, b.uri]) as c:
            workers = [Worker("a1"), Worker("a2"), Worker("b"), Worker("c")]
            a.host(workers[0])
            a.host(workers[1])
            b.host(workers[2])
            c.host(workers[3])
            await until_known([a, b, c], Work, 4)
            for worker in workers[:2]:
                worker.wake.set()  # the others take their time
            hub, answers = c.hub(), list[str]()
            slow = [asyncio.ensure_future(hub.ask(Work(number), Balance, timeout=60)) for number in range(8)]
            await asyncio.sleep(0.1)
            assert sum(not each.done() for each in slow) == 4  # all were said at once, two to each
            for number in range(40):
                answers.append((await hub.ask(Work(number), Balance, timeout=60)).keeper)
            assert set(answers) == {"a1", "a2"}
            assert abs(Counted(answers)["a1"] - 20) <= 2
            for worker in workers:
                worker.wake.set()
            await asyncio.gather(*slow)
            assert not c._loads._open

    run(story)


def test_a_node_gives_what_arrives_to_the_actor_with_less_to_do() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            slow, quick = Worker("slow"), Worker("quick")
            a.host(slow)
            a.host(quick)
            quick.wake.set()
            await until_known([b], Work, 2)
            asked = [asyncio.ensure_future(b.hub().ask(Work(n), Balance, timeout=60)) for n in range(30)]
            await asyncio.sleep(1)
            more = [await b.hub().ask(Work(n), Balance, timeout=60, at_least_once=n % 2 == 0) for n in range(10)]
            assert {each.keeper for each in more} == {"quick"}
            slow.wake.set()
            await asyncio.gather(*asked)
            assert (await b.hub().trace(Work())).choose == "least_loaded"
            assert not b._loads._open

    run(story)


# -- sticky


def test_a_caller_keeps_its_actor_while_others_come() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            clerks = [Clerk("0"), Clerk("1")]
            for clerk in clerks:
                a.host(clerk)
            await until_known([b], Visit, 2)
            hubs = [b.hub(new=True) for _ in range(12)]
            before = [(await hub.ask(Visit(), Balance)).keeper for hub in hubs]
            assert {*before} == {"0", "1"}
            for number in range(2, 8):
                a.host(Clerk(str(number)))
            await until_known([b], Visit, 8)
            assert [(await hub.ask(Visit(), Balance)).keeper for hub in hubs] == before
            await a.unhost(clerks[0])
            await until_known([b], Visit, 7)
            after = [(await hub.ask(Visit(), Balance)).keeper for hub in hubs]
            assert "0" not in after
            assert all(now == "1" for now, then in zip(after, before, strict=True) if then == "1")
            assert [(await hub.ask(Visit(), Balance)).keeper for hub in hubs] == after

    run(story)


def test_a_flow_keeps_its_actor_and_flows_are_spread() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            for number in range(4):
                a.host(Clerk(str(number)))
            await until_known([b], Step, 4)
            flows = [b"flow %d" % number for number in range(12)]
            found = [
                [(await hub.ask(Step(), Balance, correlation_id=flow)).keeper for flow in flows]
                for hub in (a.hub(), b.hub(), b.hub(new=True))
            ]
            assert found[0] == found[1] == found[2]
            assert len({*found[0]}) > 1
            way = await b.hub().trace(Step())
            assert (way.choose, way.key) == ("sticky", "flow")

    run(story)


def test_a_node_remembers_no_more_callers_than_it_is_told() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=NodeSettings(sticky_callers=5)) as node:
            node.host(Clerk("one"))
            for number in range(20):
                await node.hub().ask(Step(), Balance, correlation_id=b"%d" % number)
            assert len(node._tables.rings._kept) == 5

    run(story)


# -- what is told, and what is refused


def test_the_way_and_the_handlers_say_how_the_choice_is_made() -> None:
    async def story(network: Network) -> None:
        nodes = await three(network)
        assert await nodes[2].knows(Charge) == Handled("keeper.charge v1", "key", "account", 2, 2)
        assert (await nodes[2].knows(Unruled)).choose == "turns"
        found = await keepers(nodes[2])
        for account in ACCOUNTS[:6]:
            way = await nodes[2].hub().trace(Charge(account))
            assert (way.choose, way.key, len(way.receivers)) == ("key", "account", 1)
            assert way.node == nodes["ab".index(found[account])].identity
        await stop(nodes)

    run(story)


@pytest.mark.parametrize("call", ["ask", "send", "tell", "stream"])
def test_a_key_without_stable_bytes_is_refused_before_anything_is_sent(call: str) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Clerk("one"))
            hub, payload = node.hub(), Loose(1.5)
            calls: dict[str, Any] = {
                "ask": lambda: hub.ask(payload, Balance),
                "send": lambda: hub.send(payload),
                "tell": lambda: hub.tell(payload),
                "stream": lambda: anext(hub.stream(payload, Balance)),
            }
            with pytest.raises(PayloadError, match=r"^Loose.key is a key: expected text, .* found float$"):
                await calls[call]()
            assert (hub.open_promises, dict(node.dead_letters.counts)) == (0, {})

    run(story)


@pytest.mark.parametrize("name", ["node_turns", "sticky_callers"])
def test_limits_are_numbers_from_one(name: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} must be a number from 1, found 0$"):
        NodeSettings(**{name: 0})  # type: ignore[arg-type]


def test_a_node_with_many_actors_draws_no_more_questions_than_its_limit() -> None:
    class Counting(Clerk):
        count = 0

        @handles
        async def count_it(self, request: Bill) -> Balance:
            type(self).count += 1
            return Balance(self.name, 0)

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            settings = NodeSettings(node_turns=4)
            async with network.node(peers=[a.uri, b.uri], settings=settings) as c:
                for _ in range(100):
                    a.host(Counting("many"))
                for _ in range(4):
                    b.host(Counting("few"))
                await until_known([c], Bill, 104)
                found = [(await c.hub().ask(Bill("x"), Balance)).keeper for _ in range(80)]
                assert Counted(found) == {"many": 40, "few": 40}

    run(story)

"""What crosses the border of two networks, and what does not, on a network in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hopwire.capture import read_capture
from hopwire.errors import Expired, HandlerFailed, NoRoute, QueueFull, Timeout, Unreachable
from hopwire.model import Message, contract_of
from hopwire.model.names import partner_of
from hopwire.model.sighting_batch import sightings_from_batch
from hopwire.node import Address, DeadLetter, Node, NodeSettings, Partner, Receipt
from hopwire.testing import Network, run
from hopwire.wire import decode
from tests.node.partner_networks import (
    BillingDesk,
    Charge,
    Charged,
    Keyed,
    Listing,
    Middleman,
    OrderDesk,
    OrderThroughBilling,
    Place,
    Placed,
    Secret,
    partners,
)
from tests.node.stories import until


def test_question_of_one_network_is_answered_by_another() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = await pair.opened("shop")
            for number in range(20):
                assert await pair.acme[0].hub().ask(Place(number), Placed) == Placed(number, "shop")
            assert desk.taken == list(range(20))
            assert [node.dead_letters.counts for node in pair.every] == [{}] * 4
            assert [node.partners()[0].open_questions for node in (pair.shop[1], pair.acme[1])] == [0, 0]

    run(story)


def test_members_of_the_two_networks_do_not_know_each_other() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            assert [set(node.peers) for node in pair.shop] == [{b"shop-gw0"}, {b"shop"}]
            assert [set(node.peers) for node in pair.acme] == [{b"acme-gw0"}, {b"acme"}]

    run(story)


def test_gateway_itself_may_ask_and_answer() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            pair.shop[1].host(OrderDesk("gateway"))
            await pair.acme[1].knows(Place)
            assert await pair.acme[1].hub().ask(Place(1), Placed) == Placed(1, "gateway")

    run(story)


def test_what_a_handler_raises_is_told_across() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            with pytest.raises(HandlerFailed, match="no such order") as caught:
                await pair.acme[0].hub().ask(Place(-1), Placed)
            assert (caught.value.reason, caught.value.node) == ("ValueError", b"acme-gw0")

    run(story)


def test_receipt_comes_from_who_took_the_message_and_names_the_gateway() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = await pair.opened()
            assert await pair.acme[0].hub().send(Place(1), timeout=5) == Receipt(b"acme-gw0")
            assert desk.taken == [1]

    run(story)


def test_gateway_gives_no_receipt_for_what_it_cannot_pass_on() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = await pair.opened()
            network.cut(pair.shop[1].border("acme"), pair.acme[1].border("shop"))
            with pytest.raises((Timeout, Unreachable, NoRoute, Expired)):
                await pair.acme[0].hub().send(Place(1), timeout=3)
            assert desk.taken == []

    run(story)


def test_message_that_must_arrive_crosses_a_link_that_loses_messages() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = await pair.opened()
            network.faults.drop = 0.15
            ask = pair.acme[0].hub().ask
            calls = [ask(Place(number), Placed, timeout=120, at_least_once=True) for number in range(30)]
            answers = await asyncio.gather(*calls)
            network.faults.drop = 0.0
            assert [answer.number for answer in answers] == list(range(30))
            assert sorted(set(desk.taken)) == list(range(30))

    run(story)


def test_stream_crosses_and_its_maker_waits_for_whoever_takes_it() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = OrderDesk()
            pair.shop[0].host(desk)
            await pair.acme[0].knows(Listing)
            stream = pair.acme[0].hub().stream(Listing(500), Placed)
            assert (await anext(stream)).number == 0
            await asyncio.sleep(5)
            assert len(desk.taken) < 100
            assert [part.number async for part in stream] == list(range(1, 500))
            assert pair.shop[0].dead_letters.counts == {}

    run(story)


def test_stream_that_nobody_wants_any_more_ends_on_the_other_side() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = OrderDesk()
            pair.shop[0].host(desk)
            await pair.acme[0].knows(Listing)
            stream = pair.acme[0].hub().stream(Listing(10_000), Placed, timeout=600)
            assert (await anext(stream)).number == 0
            await stream.aclose()
            await until(lambda: not len(pair.shop[0]._feeds))
            assert len(desk.taken) < 200

    run(story)


def test_time_that_is_left_shrinks_and_hops_are_counted() -> None:
    async def story(network: Network) -> None:
        seen: list[Message] = []
        async with partners(network, link={"rate": 10}, far_link={}) as pair:
            pair.shop[0].host(OrderDesk())
            pair.shop[0].dead_letters.subscribe(lambda letter: seen.append(letter.message))  # type: ignore[arg-type]
            await pair.acme[0].knows(Place)
            calls = [pair.acme[0].hub().ask(Place(-1), Placed, timeout=10) for _ in range(30)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(end) for end in ends] == [HandlerFailed] * 30
            assert {message.hops for message in seen} == {2}  # from the gateway on
            left = [message.ttl_ticks / 10_000_000 for message in seen]
            assert 9.5 < max(left) <= 10
            assert 7 < min(left) < 9  # the last ones waited for two seconds on the way: ten pass in a second

    run(story)


def test_question_whose_time_is_over_is_not_handled_in_the_other_network() -> None:
    async def story(network: Network) -> None:
        async with partners(network, link={"rate": 10}, far_link={}) as pair:
            desk = await pair.opened()
            calls = [pair.acme[0].hub().ask(Place(number), Placed, timeout=1.05) for number in range(60)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            answered = [end.number for end in ends if isinstance(end, Placed)]
            assert {type(end) for end in ends} <= {Placed, Timeout, Expired}
            assert 10 <= len(answered) < 40
            await asyncio.sleep(20)
            assert len(desk.taken) <= len(answered) + 1  # one may have been answered too late
            assert pair.acme[1].partners()[0].open_questions == 0

    run(story)


def test_way_of_a_traced_message_begins_at_the_gateway_and_shows_no_member() -> None:
    async def story(network: Network) -> None:
        letters: list[DeadLetter] = []
        async with partners(network) as pair:
            pair.shop[0].host(OrderDesk())
            pair.shop[0].dead_letters.subscribe(letters.append)
            await pair.acme[0].knows(Place)
            with pytest.raises(HandlerFailed):
                await pair.acme[0].hub().ask(Place(-1), Placed, trace=True)
            [message] = [letter.message for letter in letters]
            assert message is not None
            assert [entry.identity for entry in message.routing] == [b"acme-gw0@shop", b"shop-gw0"]
            assert b"acme" != message.callback_receiver_node_identity == b"shop-gw0"

    run(story)


def test_trace_of_a_way_ends_at_the_gateway_and_names_the_partner() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            way = await pair.acme[0].hub().trace(Place(1))
            assert (way.node, [partner_of(receiver) for receiver in way.receivers]) == (b"acme-gw0", ["shop"])

    run(story)


def test_callback_finds_home_over_actors_of_both_networks() -> None:
    async def story(network: Network) -> None:
        async with partners(network, back=["invoices.*"]) as pair:
            pair.shop[0].host(Middleman())
            pair.acme[0].host(BillingDesk())
            await pair.acme[0].knows(OrderThroughBilling)
            await pair.shop[0].knows(Charge)
            # acme asks shop, shop passes the question on to acme, and the answer goes home through both borders
            assert await pair.acme[0].hub().ask(OrderThroughBilling(7), Charged) == Charged(7)
            assert [node.partners()[0].open_questions for node in (pair.shop[1], pair.acme[1])] == [0, 0]

    run(story)


def test_contract_that_is_not_on_both_lists_does_not_cross() -> None:
    async def story(network: Network) -> None:
        async with partners(network, export=["orders.*", "secret.*"]) as pair:
            await pair.opened()
            assert pair.acme[1].partners()[0].imports == ("orders.keyed v1", "orders.list v1", "orders.place v1")
            with pytest.raises(NoRoute):
                await pair.acme[0].hub().ask(Secret(1), Placed, timeout=2)
        async with partners(network, import_=["orders.*", "secret.*"]) as pair:
            await pair.opened()
            assert "secret.read v1" not in pair.shop[1].partners()[0].exports
            with pytest.raises(NoRoute):
                await pair.acme[0].hub().ask(Secret(1), Placed, timeout=2)

    run(story)


def test_contract_of_another_kind_does_not_cross_under_the_name_of_a_stand_in() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            border = pair.acme[1].border("shop")
            [route] = border._tables.remote.handlers_of(contract_of(Place))
            with pytest.raises(NoRoute) as caught:  # a receiver is chosen by name and version alone
                await border.hub().ask(Secret(1), Placed, to=Address(route.node, route.receiver), timeout=5)
            assert caught.value.reason == "receiver_does_not_handle"

    run(story)


def test_broadcast_stays_in_its_network() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            here, there = OrderDesk(), OrderDesk()
            pair.acme[0].host(here)
            pair.shop[0].host(there)
            await until(lambda: bool(pair.acme[1].partners()[0].imports))
            await until(lambda: len(pair.acme[0]._tables.handlers_of(contract_of(Place))) == 2)
            await pair.acme[0].hub().broadcast(Place(1))
            await until(lambda: pair.acme[1].dead_letters.counts["no_route"] == 1)
            assert (here.taken, there.taken) == ([1], [])

    run(story)


def test_key_decides_who_gets_a_message_in_the_other_network_whatever_the_gateway() -> None:
    async def story(network: Network) -> None:
        async with partners(network, gateways=2) as pair:
            for number, node in enumerate(pair.shop):
                node.host(OrderDesk(f"desk {number}"))
            await until(lambda: len(pair.acme[0]._tables.handlers_of(contract_of(Keyed))) == 2)
            await until(lambda: all(len(each._tables.handlers_of(contract_of(Keyed))) == 3 for each in pair.shop))
            hub, by = pair.acme[0].hub(), dict[int, set[str]]()
            for number in list(range(60)) * 2:
                by.setdefault(number, set()).add((await hub.ask(Keyed(number), Placed)).by)
            assert all(len(desks) == 1 for desks in by.values())
            assert len(set.union(*by.values())) == 3
            asked = [gateway.partners()[0].asked for gateway in pair.acme[1:]]
            assert sum(asked) == 120

    run(story)


@pytest.mark.slow
def test_slow_actor_there_makes_its_own_callers_wait_and_no_others() -> None:
    async def story(network: Network) -> None:
        small, both = {"settings": NodeSettings(inbox_messages=12)}, ("orders.*", "invoices.*")
        async with partners(network, export=both, import_=both, shop=small, acme=small) as pair:
            desk = OrderDesk()
            desk.hold = asyncio.Event()
            pair.shop[0].host(desk)
            pair.shop[0].host(BillingDesk())
            await pair.acme[0].knows(Place)
            await pair.acme[0].knows(Charge)
            calls = [asyncio.ensure_future(pair.acme[0].hub().ask(Place(n), Placed, timeout=600)) for n in range(300)]
            await asyncio.sleep(20)
            assert not any(call.done() for call in calls)
            waiting = pair.acme[1]._gateways["shop"][0].imports._budget.messages
            assert waiting <= 12
            for number in range(20):  # another actor, in the same direction over the same link
                assert await pair.acme[0].hub().ask(Charge(number), Charged, timeout=1) == Charged(number)
            desk.go_on()
            assert sorted(answer.number for answer in await asyncio.gather(*calls)) == list(range(300))

    run(story)


def test_questions_beyond_the_limit_are_refused() -> None:
    async def story(network: Network) -> None:
        async with partners(network, far_link={"questions": 5}) as pair:
            desk = await pair.opened(is_held=True)
            calls = [asyncio.ensure_future(pair.acme[0].hub().ask(Place(n), Placed, timeout=60)) for n in range(8)]
            await until(lambda: sum(call.done() for call in calls) == 3)
            refused = [call.exception() for call in calls if call.done()]
            assert [type(each) for each in refused] == [QueueFull] * 3
            desk.go_on()
            await asyncio.gather(*calls, return_exceptions=True)
            assert sorted(desk.taken) == [0, 1, 2, 3, 4]

    run(story)


def test_messages_beyond_the_rate_wait_and_are_not_lost() -> None:
    async def story(network: Network) -> None:
        async with partners(network, link={"rate": 10}, far_link={}) as pair:
            desk = await pair.opened()
            began = asyncio.get_running_loop().time()
            calls = [pair.acme[0].hub().ask(Place(number), Placed, timeout=60) for number in range(50)]
            await asyncio.gather(*calls)
            assert 3.5 < asyncio.get_running_loop().time() - began < 10  # ten at once, and the others at ten a second
            assert len(desk.taken) == 50

    run(story)


@pytest.mark.slow
def test_flow_over_two_networks_has_one_correlation_id_in_the_captures_of_all_its_nodes(tmp_path: Path) -> None:
    async def story() -> None:
        lent = Partner("acme", export=["orders.*"])
        async with Node(name="shop", capture=tmp_path) as shop:
            shop.host(OrderDesk())
            async with Node(name="shop-gw", peers=[shop.uri], partners=[lent], capture=tmp_path) as gate:
                borrowed = Partner("shop", [gate.border("acme").uri], import_=["orders.*"])
                async with Node(name="acme-gw", partners=[borrowed], capture=tmp_path) as asks:
                    await asks.knows(Place)
                    assert await asks.hub().ask(Place(1), Placed, correlation_id=b"flow") == Placed(1)

    asyncio.run(story())
    sightings = [each for batch in read_capture(tmp_path) for each in sightings_from_batch(batch)]
    seen = [(each.node_name, str(each.direction), decode(list(each.frames))) for each in sightings]
    flow = {(node, way, message.identity) for node, way, message in seen if message.correlation_id == b"flow"}
    nodes = [
        "acme-gw",
        "acme-gw@shop",
        "shop-gw@acme",
        "shop-gw",
        "shop",
    ]  # within a gateway, from one node to the other
    there = [*((node, "out") for node in nodes[:-1]), *((node, "in") for node in nodes[1:])]
    back = [*((node, "in") for node in nodes[:-1]), *((node, "out") for node in nodes[1:])]
    expected = {(*step, b"orders.place") for step in there} | {(*step, b"orders.placed") for step in back}
    assert flow == expected


def test_what_waits_for_a_full_member_is_not_called_to_an_actor_that_is_no_business_of_the_partner() -> None:
    async def story(network: Network) -> None:
        async with partners(network, shop={"settings": NodeSettings(inbox_messages=30)}) as pair:
            desk, private = OrderDesk("shop"), OrderDesk("private")
            desk.hold = asyncio.Event()
            pair.shop[0].host(desk)
            await pair.acme[0].knows(Place)
            hub = pair.acme[0].hub()
            asking = [asyncio.ensure_future(hub.ask(Place(number), Placed, timeout=60)) for number in range(50)]
            await until(lambda: pair.shop[0].statistics().inbox_messages > 1)
            await asyncio.sleep(1)  # of the story's clock: the gateway waits for room
            pair.shop[1].host(private, local_only=True)
            await asyncio.sleep(1)
            desk.go_on()
            assert {answer.by for answer in await asyncio.gather(*asking)} == {"shop"}
            assert private.taken == []

    run(story)


def test_question_that_moved_to_another_member_ends_with_that_member() -> None:
    async def story(network: Network) -> None:
        async with partners(network, shop={"settings": NodeSettings(inbox_messages=30)}) as pair:
            desk, other = OrderDesk("shop"), OrderDesk("other")
            desk.hold, other.hold = asyncio.Event(), asyncio.Event()
            pair.shop[0].host(desk)
            await pair.acme[0].knows(Place)
            hub = pair.acme[0].hub()
            asking = [asyncio.ensure_future(hub.ask(Place(number), Placed, timeout=600)) for number in range(50)]
            await until(lambda: pair.shop[0].statistics().inbox_messages > 1)
            await asyncio.sleep(1)  # of the story's clock: the gateway waits for room
            second = network.node(join=[pair.shop[1].uri])
            await second.start()
            second.host(other)
            await until(lambda: bool(second.statistics().inbox_messages))  # one more is being handled
            network.kill(second)
            desk.go_on()
            answers = await asyncio.gather(*asking, return_exceptions=True)
            assert {type(answer) for answer in answers} == {Placed, Unreachable}
            await second.stop()

    run(story)

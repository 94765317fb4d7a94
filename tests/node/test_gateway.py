"""Gateways in pairs, on a network in memory: lists that change, links that end, gateways that die, three networks."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.errors import Expired, HopwireError, NoRoute, SettingsError, Timeout, UnexpectedAnswer, Unreachable
from hopwire.model import contract_of
from hopwire.model.names import partner_of
from hopwire.node import Node, Partner
from hopwire.node.border_crossing import INSIDE
from hopwire.security import Domain, Domains, Key
from hopwire.testing import Network, run
from tests.node.partner_networks import (
    BillingDesk,
    Charge,
    Charged,
    Listing,
    Middleman,
    OrderDesk,
    OrderThroughBilling,
    Place,
    Placed,
    handlers,
    partners,
)
from tests.node.stories import until

GONE = (NoRoute, Unreachable, Expired, Timeout)


def test_domain_that_is_taken_off_the_export_list_is_gone_at_once_on_both_sides() -> None:
    async def story(network: Network) -> None:
        async with partners(network, gateways=2) as pair:
            await pair.opened()
            for gateway in pair.shop[1:]:
                gateway.allow("acme", export=["invoices.*"])
                assert gateway.partners()[0].exports == ()
            await until(lambda: handlers(pair.acme[0]) == 0, 1)
            with pytest.raises(NoRoute):
                await pair.acme[0].hub().ask(Place(1), Placed, timeout=5)
            for gateway in pair.shop[1:]:
                gateway.allow("acme", export=["orders.*"])
            await until(lambda: handlers(pair.acme[0]) == 2, 1)
            assert await pair.acme[0].hub().ask(Place(1), Placed, timeout=5) == Placed(1)

    run(story)


def test_domain_that_is_taken_off_the_import_list_is_gone_at_once_and_comes_back() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            pair.acme[1].allow("shop", import_=[])
            await until(lambda: handlers(pair.acme[0]) == 0, 1)
            pair.acme[1].allow("shop", import_=["orders.place"])
            await until(lambda: handlers(pair.acme[0]) == 1, 1)
            assert pair.acme[1].partners()[0].imports == ("orders.place v1",)

    run(story)


def test_open_questions_end_when_their_domain_is_taken_off_and_their_answers_do_not_cross() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = await pair.opened(is_held=True)
            calls = [asyncio.ensure_future(pair.acme[0].hub().ask(Place(n), Placed, timeout=60)) for n in range(5)]
            await until(lambda: pair.shop[1].partners()[0].open_questions == 5)
            pair.shop[1].allow("acme", export=[])
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(end) for end in ends] == [NoRoute] * 5
            answers = pair.acme[1]._gateways["shop"][0].imports.tally["answers"]
            desk.go_on()
            await until(lambda: pair.shop[1].dead_letters.counts["nobody_waits"] == 5)
            assert answers == pair.acme[1]._gateways["shop"][0].imports.tally["answers"] == 0

    run(story)


def test_question_whose_actor_has_left_ends_too_when_its_domain_is_taken_off() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = OrderDesk()
            desk.hold = asyncio.Event()
            late = network.node(join=[pair.shop[0].uri])
            await late.start()
            late.host(desk)
            await pair.acme[0].knows(Place)
            call = asyncio.ensure_future(pair.acme[0].hub().ask(Place(1), Placed, timeout=600))
            await until(lambda: pair.shop[1].partners()[0].open_questions == 1)
            draining = asyncio.ensure_future(late.drain(30))
            await until(lambda: handlers(pair.acme[0]) == 0)
            pair.shop[1].allow("acme", export=[])
            with pytest.raises(NoRoute):
                await call
            desk.go_on()
            await draining
            await late.stop()

    run(story)


def test_partner_hears_of_a_loss_inside_and_not_of_the_node_or_the_contract() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            pair.shop[0].host(Middleman())
            await pair.acme[0].knows(OrderThroughBilling)
            with pytest.raises(UnexpectedAnswer) as caught:
                await pair.acme[0].hub().ask(OrderThroughBilling(1), Charged, timeout=20)
            assert (caught.value.contract, caught.value.node) == (INSIDE, b"acme-gw0")
            assert "invoices.charge v1" not in str(caught.value)

    run(story)


def test_actor_that_leaves_still_answers_what_it_has() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = OrderDesk()
            desk.hold = asyncio.Event()
            late = network.node(join=[pair.shop[0].uri])
            await late.start()
            late.host(desk)
            await pair.acme[0].knows(Place)
            call = asyncio.ensure_future(pair.acme[0].hub().ask(Place(1), Placed, timeout=60))
            await until(lambda: pair.shop[1].partners()[0].open_questions == 1)
            draining = asyncio.ensure_future(late.drain(30))
            await until(lambda: handlers(pair.acme[0]) == 0)
            desk.go_on()
            assert await call == Placed(1)
            assert await draining
            await late.stop()

    run(story)


def test_gateway_that_drains_is_withdrawn_on_both_sides_and_answers_what_has_crossed() -> None:
    async def story(network: Network) -> None:
        async with partners(network, gateways=2) as pair:
            desk = await pair.opened(is_held=True)
            calls = [asyncio.ensure_future(pair.acme[0].hub().ask(Place(n), Placed, timeout=60)) for n in range(8)]
            await until(lambda: sum(each.partners()[0].open_questions for each in pair.shop[1:]) == 8)
            draining = asyncio.ensure_future(pair.acme[1].drain(30))
            await until(lambda: handlers(pair.acme[0]) == 1)
            assert not draining.done()
            desk.go_on()
            assert len(await asyncio.gather(*calls)) == 8
            assert await draining

    run(story)


def test_question_ends_when_the_node_dies_that_has_it_in_the_other_network() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = OrderDesk()
            desk.hold = asyncio.Event()
            late = network.node(join=[pair.shop[0].uri])
            await late.start()
            late.host(desk)
            await pair.acme[0].knows(Place)
            call = asyncio.ensure_future(pair.acme[0].hub().ask(Place(1), Placed, timeout=600))
            await until(lambda: pair.shop[1].partners()[0].open_questions == 1)
            network.kill(late)
            began = asyncio.get_running_loop().time()
            with pytest.raises(Unreachable):
                await call
            assert asyncio.get_running_loop().time() - began < 30

    run(story)


@pytest.mark.parametrize("side", ["shop", "acme"])
def test_when_a_gateway_is_killed_the_other_takes_over_and_no_question_hangs(side: str) -> None:
    async def story(network: Network) -> None:
        async with partners(network, gateways=2) as pair:
            await pair.opened()
            hub = pair.acme[0].hub()
            asked = [asyncio.ensure_future(hub.ask(Place(n), Placed, timeout=30)) for n in range(40)]
            insisted = [
                asyncio.ensure_future(hub.ask(Place(n), Placed, timeout=60, at_least_once=True)) for n in range(40, 80)
            ]
            kill(network, getattr(pair, side)[1])
            ends = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(end, Placed | Unreachable | NoRoute | Timeout) for end in ends), ends
            assert [answer.number for answer in await asyncio.gather(*insisted)] == list(range(40, 80))
            assert await hub.ask(Place(99), Placed, timeout=30, at_least_once=True) == Placed(99)
            getattr(pair, side).pop(1)

    run(story)


def kill(network: Network, gateway: Node) -> None:
    """End both nodes of a gateway as one process."""
    for partner in gateway.partners():
        network.kill(gateway.border(partner.name))
    network.kill(gateway)


def test_when_all_links_are_down_routes_are_withdrawn_and_promises_end_and_come_back() -> None:
    async def story(network: Network) -> None:
        async with partners(network, gateways=2) as pair:
            desk = await pair.opened(is_held=True)
            call = asyncio.ensure_future(pair.acme[0].hub().ask(Place(1), Placed, timeout=600))
            await until(lambda: sum(each.partners()[0].open_questions for each in pair.acme[1:]) == 1)
            for one in pair.shop[1:]:
                for other in pair.acme[1:]:
                    network.cut(one.border("acme"), other.border("shop"))
            await until(lambda: handlers(pair.acme[0]) == 0, 10)  # silence is borne for five beats
            with pytest.raises(Unreachable):
                await call
            with pytest.raises(GONE):
                await pair.acme[0].hub().ask(Place(2), Placed, timeout=5)
            network.heal()
            desk.go_on()
            await until(lambda: handlers(pair.acme[0]) == 2)
            assert await pair.acme[0].hub().ask(Place(3), Placed, timeout=5) == Placed(3)

    run(story)


def test_gateway_that_is_started_again_announces_everything_anew() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            await pair.acme[1].stop()
            await until(lambda: handlers(pair.acme[0]) == 0)
            doors = [pair.shop[1].border("acme").uri]
            partner = Partner("shop", doors, import_=["orders.*"])
            again = network.node(join=[pair.acme[0].uri], identity=b"acme-gw0", partners=[partner])
            await again.start()
            await until(lambda: handlers(pair.acme[0]) == 1)
            assert await pair.acme[0].hub().ask(Place(3), Placed, timeout=5) == Placed(3)
            pair.acme[1] = again

    run(story)


# -- three networks


async def third(network: Network, gateway: Node) -> Node:
    """A third network of one node, whose partner is a second partner of a gateway that is there."""
    partner = Partner("middle", [gateway.border("third").uri], import_=["*"])
    node = network.node(join=[], identity=b"third", partners=[partner])
    await node.start()
    return node


def test_imported_route_is_never_passed_on_to_a_third_network() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            pair.shop[0].host(OrderDesk("shop"))
            middle = network.node(
                join=[pair.acme[0].uri], identity=b"to-third", partners=[Partner("third", [], export=["*"])]
            )
            await middle.start()
            far = await third(network, middle)
            await middle.knows(Place)  # the middle network uses orders of the shop
            middle.host(BillingDesk())
            await far.knows(Charge)  # and lends its own billing
            assert middle.partners()[0].exports == ("invoices.charge v1",)
            with pytest.raises(NoRoute):
                await far.hub().ask(Place(1), Placed, timeout=5)
            own = OrderDesk("middle")
            middle.host(own)
            await far.knows(Place)
            for number in range(20):  # also if the middle network has both: the third gets what is not imported
                assert (await far.hub().ask(Place(number), Placed, timeout=5)).by == "middle"
            assert own.taken == list(range(20))
            await far.stop()
            await middle.stop()

    run(story)


def test_message_that_has_crossed_goes_to_nobody_who_would_pass_it_on() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            pair.shop[0].host(OrderDesk("shop"))
            own = OrderDesk("acme")
            pair.acme[1].host(own)  # on the gateway itself: its own actor takes turns with a stand-in there
            middle = network.node(
                join=[pair.acme[0].uri], identity=b"to-third", partners=[Partner("third", [], export=["orders.*"])]
            )
            await middle.start()
            far = await third(network, middle)
            await far.knows(Place)
            await until(lambda: handlers(middle) == 2)
            by = {(await far.hub().ask(Place(number), Placed, timeout=5)).by for number in range(20)}
            assert by == {"acme"}
            inside = {(await pair.acme[0].hub().ask(Place(number), Placed, timeout=5)).by for number in range(20)}
            assert inside == {"acme", "shop"}
            await far.stop()
            await middle.stop()

    run(story)


def test_networks_that_lend_each_other_the_same_contract_do_not_send_it_round_in_circles() -> None:
    async def story(network: Network) -> None:
        async with partners(network, gateways=2, export=["*"], import_=["*"], back=["*"]) as pair:
            desk = await pair.opened("shop")
            await asyncio.sleep(5)
            assert all(gateway.partners()[0].exports == () for gateway in pair.acme[1:])
            assert handlers(pair.shop[0]) == 1
            await until(lambda: handlers(pair.acme[0]) == 2)
            await pair.shop[0].unhost(desk)
            await until(lambda: handlers(pair.acme[0]) == 0)
            with pytest.raises(NoRoute):
                await pair.acme[0].hub().ask(Place(1), Placed, timeout=5)

    run(story)


# -- keys


def signed(secret: bytes, *names: str) -> Domains:
    key = Key("k", secret)
    return Domains([Domain(name, [key], [f"{name}.*"]) for name in ("orders", "billing", "hopwire") if name in names])


def test_each_network_signs_with_its_own_keys_and_the_link_with_keys_of_its_own() -> None:
    async def story(network: Network) -> None:
        shop = {"domains": signed(b"s" * 16, "orders", "billing", "hopwire")}
        acme = {"domains": signed(b"a" * 16, "orders", "billing", "hopwire")}
        link = {"domains": signed(b"l" * 16, "orders", "hopwire")}
        async with partners(network, shop=shop, acme=acme, link=link, export=["orders"], import_=["orders"]) as pair:
            await pair.opened("shop")
            assert await pair.acme[0].hub().ask(Place(1), Placed, timeout=5) == Placed(1, "shop")
            with pytest.raises(HopwireError, match="no such order"):
                await pair.acme[0].hub().ask(Place(-1), Placed, timeout=5)
            parts = [part.number async for part in pair.acme[0].hub().stream(Listing(100), Placed)]
            assert parts == list(range(100))
            borders = pair.shop[1].border("acme"), pair.acme[1].border("shop")
            refused = {reason for node in (*pair.every, *borders) for reason in node.dead_letters.counts}
            assert refused <= {"handler_failed"}

    run(story)


def test_partner_with_another_key_is_not_met() -> None:
    async def story(network: Network) -> None:
        link, other = {"domains": signed(b"l" * 16, "orders", "hopwire")}, signed(b"x" * 16, "orders", "hopwire")
        async with partners(network, link=link) as pair:
            await pair.opened()
            partner = Partner("shop", [pair.shop[1].border("acme").uri], import_=["*"], domains=other)
            false = network.node(join=[], partners=[partner])
            await false.start()
            await asyncio.sleep(30)
            assert (false.border("shop").peers, false.partners()[0].imports) == ((), ())
            assert pair.shop[1].border("acme").dead_letters.counts["bad_signature"] > 0
            assert await pair.acme[0].hub().ask(Place(1), Placed, timeout=5) == Placed(1)
            await false.stop()

    run(story)


# -- lists


def test_partner_that_a_node_does_not_have_is_named_with_those_that_it_has() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            with pytest.raises(SettingsError, match="no partner 'acne'; the partners of this node: acme"):
                pair.shop[1].allow("acne", export=[])
            with pytest.raises(SettingsError, match="export: a star may only stand at the end"):
                pair.shop[1].allow("acme", export=["or*ders"])

    run(story)


def test_imported_routes_are_marked_wherever_they_are_known() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            for node in pair.acme:
                [route] = node._tables.handlers_of(contract_of(Place))
                assert partner_of(route.receiver) == "shop"
            assert {*pair.acme[0]._tables.remote.imported[contract_of(Place)]} == {b"acme-gw0"}
            await pair.acme[1].stop()
            await until(lambda: not pair.acme[0]._tables.remote.imported)

    run(story)


def test_answer_of_both_directions_at_once() -> None:
    async def story(network: Network) -> None:
        async with partners(network, gateways=2, back=["invoices.*"]) as pair:
            pair.shop[0].host(OrderDesk())
            pair.acme[0].host(BillingDesk())
            await pair.acme[0].knows(Place)
            await pair.shop[0].knows(Charge)
            there = [pair.acme[0].hub().ask(Place(n), Placed) for n in range(50)]
            back = [pair.shop[0].hub().ask(Charge(n), Charged) for n in range(50)]
            found = await asyncio.gather(*there, *back)
            assert [each.number for each in found] == [*range(50), *range(50)]

    run(story)


def test_stream_of_a_domain_that_is_taken_off_ends_on_both_sides() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = OrderDesk()
            pair.shop[0].host(desk)
            await pair.acme[0].knows(Listing)
            stream = pair.acme[0].hub().stream(Listing(10_000), Placed, timeout=600)
            assert (await anext(stream)).number == 0
            pair.shop[1].allow("acme", export=[])
            with pytest.raises(NoRoute):
                async for _ in stream:
                    pass
            await until(lambda: not len(pair.shop[0]._feeds), 5)
            assert len(desk.taken) < 200

    run(story)


def test_stream_ends_when_the_node_dies_that_takes_it() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = OrderDesk()
            pair.shop[0].host(desk)
            late = network.node(join=[pair.acme[0].uri])
            await late.start()
            await late.knows(Listing)
            stream = late.hub().stream(Listing(10_000), Placed, timeout=3000)
            assert (await anext(stream)).number == 0
            network.kill(late)
            await until(lambda: not len(pair.shop[0]._feeds))
            assert len(desk.taken) < 200
            await stream.aclose()
            await late.stop()

    run(story)

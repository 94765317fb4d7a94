"""A partner network that means ill: it gets what is on the list, at its rate, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.cluster.announce import Hello, Routes
from hopwire.cluster.gossip import Accusation, MemberRecord, Ping, Roster, Rumours
from hopwire.errors import HopwireError, NoRoute, QueueFull, Timeout
from hopwire.model import CallbackPoint, Message, Payload, body_from_payload, contract_of
from hopwire.model.names import FEEDS, PARTNER
from hopwire.model.outcome import Outcome
from hopwire.node import Actor, Address, Node, Partner, handles
from hopwire.node.demand import Demand, Enough
from hopwire.node.envelope import Envelope
from hopwire.node.status import Status, StatusActor, StatusWanted
from hopwire.testing import Network, run
from hopwire.wire import encode
from hopwire.wire.extension import Extension, with_extension
from tests.attacks.stranger import said
from tests.node.partner_networks import Charge, Charged, Listing, OrderDesk, Place, Placed, Secret, partners
from tests.node.stories import until


def speak(border: Node, *words: Payload, name: bytes = b"X") -> None:
    """Let a border node hear control messages of somebody at the port."""
    for word in words:
        border._incoming.take_frames([name, *said(word)])


def routes(count: int, identity: bytes = b"orders.%d") -> tuple[tuple[bytes, bytes, int, bytes], ...]:
    return tuple((b"\1actor-%d" % n, identity % n if b"%" in identity else identity, 1, b"") for n in range(count))


def test_partner_that_announces_foreign_domains_gets_none_of_their_messages() -> None:
    async def story(network: Network) -> None:
        async with partners(network, back=["invoices.*"]) as pair:
            gateway = pair.shop[1]
            border = gateway.border("acme")
            foreign = ((b"\1thief", b"secret.read", 1, b""), (b"\1thief", b"orders.place", 1, b""))
            own = ((b"\1thief", b"hopwire.status.wanted", 1, b""), (b"\0hub", b"", 0, b""))
            speak(border, Hello(b"X", 1, "memory://x"), Routes(b"X", 1, 2, 0, (*foreign, *own)))
            await asyncio.sleep(1)
            assert gateway.partners()[0].imports == ()
            assert border._tables.remote.routes_of(b"X") == []
            assert gateway.partners()[0].refused_routes == 3
            with pytest.raises(NoRoute):
                await pair.shop[0].hub().ask(Secret(1), Placed, timeout=2)

    run(story)


def test_partner_that_announces_very_many_routes_is_kept_to_its_limit() -> None:
    async def story(network: Network) -> None:
        async with partners(network, back=["orders.*"], link={"routes": 100}) as pair:
            gateway = pair.shop[1]
            border = gateway.border("acme")
            for number in range(20):
                name = b"X%d" % number
                speak(border, Hello(name, 1, f"memory://x{number}"), name=name)
                speak(border, Routes(name, 1, 2, 0, routes(500, b"orders.%d-%%d" % number)), name=name)
            await asyncio.sleep(5)
            assert len(gateway.partners()[0].imports) == 100
            assert gateway.partners()[0].left_out > 0
            kept = [len(border._tables.remote.routes_of(b"X%d" % number)) for number in range(20)]
            assert (max(kept), sum(kept)) == (100, 800)
            assert len(pair.shop[0]._tables.candidates) <= 101

    run(story)


def test_partner_cannot_speak_as_a_member() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            gateway = pair.shop[1]
            border, peers = gateway.border("acme"), set(gateway.peers)
            false = MemberRecord(b"false", 1, 1, "memory://false", (6,), ("members",))
            speak(border, Hello(b"X", 1, "memory://x", capabilities=("members",)))
            accused = Accusation(b"shop", 2**62, 1, b"X", True)
            speak(border, Rumours(b"X", 1, (false,), (accused,)), Roster(b"X", 1, (), (false,)))
            speak(border, Ping(b"X", 1, 1, 1, (false,), (accused,)))
            await asyncio.sleep(10)
            assert set(gateway.peers) == peers == {b"shop"}
            assert border.dead_letters.counts["bad_control"] == 3
            assert set(pair.shop[0].peers) == {b"shop-gw0"}

    run(story)


def test_hello_with_the_name_of_a_member_changes_nothing_inside() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened("honest")
            border = pair.shop[1].border("acme")
            speak(border, Hello(b"shop", 2**62, "memory://thief"), name=b"shop")
            speak(border, Routes(b"shop", 2**62, 2, 0, ((b"\1thief", b"orders.place", 1, b""),)), name=b"shop")
            for number in range(10):
                assert (await pair.acme[0].hub().ask(Place(number), Placed, timeout=5)).by == "honest"
            assert pair.shop[1]._outgoing.address(b"shop") == pair.shop[0].uri

    run(story)


def test_partner_reaches_no_member_and_no_actor_that_it_names() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = OrderDesk()
            inside = pair.shop[0].host(desk)
            pair.shop[1].host(StatusActor(pair.shop[1]), local_only=True)
            await pair.acme[0].knows(Place)
            far = pair.acme[1].border("shop")
            for to in (inside, Address(b"shop-gw0@acme", inside.receiver), Address(b"shop-gw0")):
                with pytest.raises((NoRoute, Timeout)):
                    await far.hub().ask(Secret(1), Placed, to=to, timeout=2)
                with pytest.raises((NoRoute, Timeout)):
                    await far.hub().ask(StatusWanted(), Status, to=to, timeout=2)
            assert desk.taken == []

    run(story)


def forged_answer(key: int, flow: bytes, receiver: bytes, node: bytes) -> Message:
    contract = contract_of(Charged)
    return Message(
        contract.identity,
        contract.version,
        body_frames=(body_from_payload(Charged(666)),),
        correlation_id=flow,
        receiver_identity=receiver,
        receiver_node_identity=node,
        callback_key=key,
        callback_points=(CallbackPoint(*contract),),
    )


def test_partner_cannot_steer_answers_to_questions_that_it_was_not_asked() -> None:
    async def story(network: Network) -> None:
        class Till(Actor):
            @handles
            async def charge(self, charge: Charge) -> Charged:
                await asyncio.sleep(5)
                return Charged(charge.number)

        async with partners(network) as pair:
            pair.shop[1].host(Till())
            await pair.shop[0].knows(Charge)
            hub = pair.shop[0].hub()
            call = asyncio.ensure_future(hub.ask(Charge(1), Charged, correlation_id=b"flow", timeout=20))
            await asyncio.sleep(1)
            [key] = hub._promises
            border = pair.shop[1].border("acme")
            speak(border, Hello(b"X", 1, "memory://x"))
            for receiver, node in (
                (hub.identity, b"shop"),
                (hub.identity, b"shop-gw0@acme"),
                (PARTNER + b"acme", b"shop-gw0@acme"),
                (PARTNER + b"acme", b"shop-gw0"),
            ):
                border._incoming.take_frames([b"X", *encode(forged_answer(key, b"flow", receiver, node))[1:]])
            assert await call == Charged(1)
            assert sum(border.dead_letters.counts.values()) >= 4

    run(story)


def test_answer_of_another_contract_or_flow_does_not_cross() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = await pair.opened(is_held=True)
            call = asyncio.ensure_future(pair.acme[0].hub().ask(Place(1), Placed, correlation_id=b"f", timeout=20))
            crossing = pair.acme[1]._gateways["shop"][0].imports
            await until(lambda: crossing.open_questions == 1)
            [key] = crossing._questions
            border = pair.acme[1].border("shop")
            crossing.take(forged_answer(key, b"f", PARTNER, border.identity))
            crossing.take(forged_answer(key, b"another", PARTNER, border.identity))
            assert dict(border.dead_letters.counts) == {"unexpected_answer": 1, "wrong_flow": 1}
            outcome = contract_of(Outcome)
            false = body_from_payload(Outcome("received", detail="no hex"))
            word = Message(outcome.identity, outcome.version, body_frames=(false,), correlation_id=b"f")
            crossing.take(word.replace(callback_key=key))
            assert border.dead_letters.counts["bad_payload"] == 1
            desk.go_on()
            assert await call == Placed(1)

    run(story)


def test_what_a_partner_says_about_streams_reaches_no_stream_of_a_member() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            await pair.opened()
            far, hub = pair.acme[1].border("shop"), pair.shop[1].hub()
            stream = hub.stream(Listing(300), Placed, correlation_id=b"flow")
            taken = [(await anext(stream)).number]
            [key] = hub._promises  # the worst case: the partner knows all that a word about the stream needs
            words: tuple[Payload, ...] = (Enough(1), Demand(-1))
            for said_of_it in words:
                for node in (b"shop-gw0@acme", b"shop", b"shop-gw0"):
                    word = Message(
                        contract_of(said_of_it).identity,
                        1,
                        body_frames=(body_from_payload(said_of_it),),
                        correlation_id=b"flow",
                        receiver_identity=FEEDS,
                        receiver_node_identity=node,
                        callback_key=key,
                        callback_receiver_identity=hub.identity,
                        callback_receiver_node_identity=b"shop-gw0",
                    )
                    far._router.route(Envelope(word))
                    pair.shop[1].border("acme")._incoming.take_frames([far.identity, *encode(word)[1:]])
            await asyncio.sleep(1)
            taken += [part.number async for part in stream]
            assert taken == list(range(300))

    run(story)


def test_mark_that_a_partner_writes_into_a_message_gives_it_no_more_rights() -> None:
    """A message that has crossed one border is marked, and crosses no other: not either if its sender marks it."""

    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk, own = OrderDesk("shop"), OrderDesk("acme")
            pair.shop[0].host(desk)
            pair.acme[1].host(own)
            middle = network.node(
                join=[pair.acme[0].uri], identity=b"to-third", partners=[Partner("third", [], export=["orders.*"])]
            )
            await middle.start()
            partner = Partner("middle", [middle.border("third").uri], import_=["*"])
            third = network.node(join=[], identity=b"third", partners=[partner])
            await third.start()
            await third.knows(Place)
            await until(lambda: len(middle._tables.handlers_of(contract_of(Place))) == 2)
            far, marks = third.border("middle"), ("", "shop", "third", "to-third", "x" * 3000)
            for number, mark in enumerate(marks * 8):
                message = Message(b"orders.place", 1, body_frames=(body_from_payload(Place(number)),))
                far._router.route(Envelope(with_extension(message, Extension(partner=mark))))
            await until(lambda: len(own.taken) == 8 * len(marks))
            assert desk.taken == []
            await third.stop()
            await middle.stop()

    run(story)


def test_flood_of_a_partner_is_kept_to_its_rate_and_members_go_on() -> None:
    async def story(network: Network) -> None:
        link = {"rate": 100, "messages": 200}
        async with partners(network, link=link, far_link={}) as pair:
            desk = await pair.opened()
            far = pair.acme[1].border("shop")
            message = Message(b"orders.place", 1, body_frames=(body_from_payload(Place(1)),))
            for _ in range(2000):  # without credit
                far._router.route(Envelope(message))
            await asyncio.sleep(1)
            assert len(desk.taken) <= 210
            crossing = pair.shop[1]._gateways["acme"][0].exports
            assert crossing._budget.messages <= 200
            assert pair.shop[1].border("acme").dead_letters.counts["queue_full"] > 1000
            assert await pair.shop[0].hub().ask(Place(2), Placed, timeout=1) == Placed(2)

    run(story)


def test_questions_that_a_partner_never_answers_end_in_time_and_are_forgotten() -> None:
    async def story(network: Network) -> None:
        async with partners(network, back=["invoices.*"]) as pair:

            class Silent(Actor):
                @handles
                async def charge(self, charge: Charge) -> Charged:
                    await asyncio.sleep(1e6)
                    return Charged(0)

            pair.acme[0].host(Silent())
            await pair.shop[0].knows(Charge)
            calls = [pair.shop[0].hub().ask(Charge(n), Charged, timeout=5) for n in range(100)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(end, HopwireError) for end in ends)
            await asyncio.sleep(5)
            assert pair.shop[1].partners()[0].open_questions == 0
            assert pair.acme[1].partners()[0].open_questions == 0

    run(story, seconds=1e7)


def test_stream_that_a_partner_makes_without_being_asked_for_more_ends_at_the_border() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            pair.shop[0].host(OrderDesk())
            await pair.acme[0].knows(Listing)
            stream = pair.acme[0].hub().stream(Listing(10_000), Placed, timeout=60, correlation_id=b"f")
            assert (await anext(stream)).number == 0
            crossing = pair.acme[1]._gateways["shop"][0].imports
            [key] = crossing._questions
            contract = contract_of(Placed)
            part = Message(contract.identity, 1, body_frames=(body_from_payload(Placed(1)),), correlation_id=b"f")
            part = part.replace(callback_key=key, callback_points=(CallbackPoint(*contract),))
            for _ in range(5000):  # the same part again and again
                crossing.take(with_extension(part, Extension(part=2)))
            assert crossing.tally["answers"] < 500
            assert crossing.open_questions == 0
            with pytest.raises(QueueFull):
                async for _ in stream:
                    pass

    run(story)


def test_words_about_a_question_cross_a_few_times_and_no_more() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            desk = await pair.opened(is_held=True)
            call = asyncio.ensure_future(pair.acme[0].hub().ask(Place(1), Placed, correlation_id=b"f", timeout=20))
            crossing = pair.acme[1]._gateways["shop"][0].imports
            await until(lambda: crossing.open_questions == 1)
            [key] = crossing._questions
            before = pair.acme[1].statistics().messages_out
            for outcome in (Outcome("received", detail="00"), Outcome("failed", "no_answer", "", "another v1")):
                contract = contract_of(Outcome)
                word = Message(contract.identity, 1, body_frames=(body_from_payload(outcome),), correlation_id=b"f")
                for _ in range(1000):
                    crossing.take(word.replace(callback_key=key))
            assert pair.acme[1].statistics().messages_out - before < 40
            desk.go_on()
            assert await call == Placed(1)

    run(story)


def test_border_that_others_can_reach_needs_keys_too() -> None:
    with pytest.raises(HopwireError, match=r"partner acme: .* is open to all who can reach it"):
        Node(partners=[Partner("acme", [], listen="tcp://0.0.0.0:0", advertise="tcp://gateway:7500")])

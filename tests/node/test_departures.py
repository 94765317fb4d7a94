"""Nodes that are gone are kept in mind: who, since when, why; for some time, and so many."""

from __future__ import annotations

import asyncio

from hopwire.node import Address
from hopwire.node.departures import LEFT_SECONDS, LOST_SECONDS, MOST_LEFT, MOST_LOST, Departed, Departures
from hopwire.node.status import DepartedList, DepartedWanted, StatusActor
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeter


def gone(number: int, reason: str = "dead", at: float = 0.0) -> Departed:
    return Departed(b"n%d" % number, f"name {number}", "tcp://a:1", at, reason)


def test_those_who_said_goodbye_push_out_nobody_who_was_lost() -> None:
    departures = Departures()
    departures.note(gone(-1))
    for number in range(3 * MOST_LOST):
        departures.note(gone(number, "left", number))
    listed = departures.listed(3.0 * MOST_LOST)
    assert len(listed) == MOST_LEFT + 1
    assert (listed[0].node, listed[-1].node) == (b"n%d" % (3 * MOST_LOST - 1), b"n-1")


def test_of_very_many_that_were_lost_the_last_ones_are_kept_and_for_a_day() -> None:
    departures = Departures()
    for number in range(2 * MOST_LOST):
        departures.note(gone(number, at=number / 1000))
    departures.note(gone(9999, "left"))
    assert len(departures.listed(1.0)) == MOST_LOST + 1
    assert b"n9999" not in {each.node for each in departures.listed(LEFT_SECONDS + 1)}
    assert len(departures.listed(LOST_SECONDS)) == MOST_LOST
    assert departures.listed(LOST_SECONDS + 1) == []


def test_who_is_met_again_is_gone_no_more_and_each_stands_once() -> None:
    departures = Departures()
    departures.note(gone(1))
    departures.note(gone(1, "left", 5.0))
    assert [(each.node, each.reason, each.gone_seconds) for each in departures.listed(7.0)] == [(b"n1", "left", 2.0)]
    departures.forget(b"n1")
    assert departures.listed(7.0) == []


def test_words_say_whether_connections_died_or_nothing_was_said() -> None:
    departures = Departures()
    for number, witnesses in enumerate([((b"a", True), (b"b", False)), ((b"a", False),), ()]):
        departures.note(gone(number)._replace(witnesses=witnesses, at=-number))
    departures.note(gone(3, "silent", -3))
    departures.note(gone(4, "left", -4))
    assert [(each.why, each.witnesses) for each in departures.listed(0.0)] == [
        ("its connections died, and nobody reached it again", (b"a", b"b")),
        ("it said nothing more", (b"a",)),
        ("nobody was reached any more, it neither", ()),
        ("it says nothing any more", ()),
        ("it said goodbye", ()),
    ]


def test_a_member_that_was_killed_is_named_with_its_witnesses_until_it_is_back() -> None:
    async def story(network: Network) -> None:
        async with network.node(join=[]) as door:
            door.host(StatusActor(door), local_only=True)
            others = [network.node(join=[door.uri]) for _ in range(2)]
            till = network.node(join=[door.uri], name="till", identity=b"till")
            for node in (*others, till):
                await node.start()
            till.host(Greeter())
            for node in (door, *others):
                await node.knows(Greet)
            uri = till.uri
            network.kill(till)
            while b"till" in door.peers:
                await asyncio.sleep(0.1)
            wanted = DepartedWanted(), DepartedList
            [lost] = (await others[0].hub().ask(*wanted, to=Address(door.identity))).departed
            assert (lost.node, lost.name, lost.uri, lost.reason) == (b"till", "till", uri, "dead")
            assert lost.why.startswith("its connections died")
            assert len(lost.witnesses) >= 2
            assert 0 <= lost.gone_seconds < 1
            back = network.node(join=[door.uri], name="till", identity=b"till")
            await back.start()
            while b"till" not in door.peers:
                await asyncio.sleep(0.1)
            assert door.overview().departed() == []
            await back.stop()
            while b"till" in door.peers:
                await asyncio.sleep(0.1)
            assert [each.why for each in door.overview().departed()] == ["it said goodbye"]
            for node in others:
                await node.stop()

    run(story)


def test_a_peer_that_is_lost_keeps_its_name() -> None:
    async def story(network: Network) -> None:
        async with network.node() as here, network.node(peers=[here.uri], name="till") as there:
            there.host(Greeter())
            await here.knows(Greet)
            await there.stop()
            while here.peers:
                await asyncio.sleep(0.1)
            assert [(each.name, each.reason) for each in here.overview().departed()] == [("till", "left")]

    run(story)

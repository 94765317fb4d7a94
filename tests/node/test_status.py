"""A node answers questions about itself: bounded, in pages, and only to whom it believes."""

from __future__ import annotations

import pytest

from hopwire.errors import HandlerFailed, NoRoute, Timeout
from hopwire.model import Contract
from hopwire.node import Address, Node, overview
from hopwire.node.credit import Credits
from hopwire.node.overview import PAGE_ENTRIES, Overview
from hopwire.node.status import (
    ContractPage,
    ContractPageWanted,
    MemberPage,
    MemberPageWanted,
    Status,
    StatusActor,
    StatusWanted,
)
from hopwire.routing import RemoteNode, Tables
from hopwire.security import Domain, Domains, Key
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeter


def test_a_node_says_how_it_does_and_whom_it_knows() -> None:
    async def story(network: Network) -> None:
        async with network.node(name="there") as there, network.node(peers=[there.uri], name="here") as here:
            there.host(StatusActor(there), local_only=True)
            there.host(Greeter())
            await here.knows(Greet)
            hub, to = here.hub(), Address(there.identity)
            status = await hub.ask(StatusWanted(), Status, to=to)
            assert (status.node, status.name, status.uri) == (there.identity, "there", there.uri)
            assert (status.members, status.counts["peers"], status.counts["actors"]) == (1, 1, 2)
            page = await hub.ask(MemberPageWanted(), MemberPage, to=to)
            assert (page.total, [member.node for member in page.members]) == (1, [here.identity])
            assert (page.members[0].uri, page.members[0].routes) == (here.uri, 0)
            own = here.overview().members(0)[1]
            assert [(member.node, member.routes) for member in own] == [(there.identity, 1)]
            contracts = (await hub.ask(ContractPageWanted(), ContractPage, to=to)).contracts
            assert {each.identity: each.actors_here for each in contracts}[b"greeter.greet"] == 1
            for offset in (-1, 2**64 - 1):
                with pytest.raises(HandlerFailed, match=f"a page begins at 0 or later, found {offset}"):
                    await hub.ask(MemberPageWanted(offset), MemberPage, to=to)

    run(story)


def test_a_node_that_does_not_host_it_does_not_answer_and_nobody_is_told_of_one_that_does() -> None:
    async def story(network: Network) -> None:
        async with network.node() as there, network.node(peers=[there.uri]) as here:
            there.host(Greeter())
            await here.knows(Greet)
            with pytest.raises(NoRoute):
                await here.hub().ask(StatusWanted(), Status, to=Address(there.identity))
            there.host(StatusActor(there), local_only=True)
            with pytest.raises(NoRoute):
                await here.hub().ask(StatusWanted(), Status)

    run(story)


def test_only_holders_of_the_key_may_ask() -> None:
    def domains(secret: bytes) -> Domains:
        return Domains([Domain("network", [Key("1", secret)], ["hopwire.*", "greeter.*"])])

    async def story(network: Network) -> None:
        async with network.node(domains=domains(b"a secret of the network")) as there:
            there.host(StatusActor(there), local_only=True)
            async with network.node(domains=domains(b"another secret, of others"), peers=[there.uri]) as stranger:
                with pytest.raises((NoRoute, Timeout)):
                    await stranger.hub().ask(StatusWanted(), Status, to=Address(there.identity), timeout=5)
            async with network.node(domains=domains(b"a secret of the network"), peers=[there.uri]) as member:
                there.host(Greeter())
                await member.knows(Greet)
                assert await member.hub().ask(StatusWanted(), Status, to=Address(there.identity))

    run(story)


def test_pages_are_bounded_in_entries_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Tables()
    names = [b"c%04d" % number for number in range(PAGE_ENTRIES + 7)]
    far = RemoteNode(b"far", ("tcp://far:1",), 1)
    for name in names:
        tables.remote.register(far, b"\1actor", [Contract(name, 1, b"")])
    seen = Overview(tables, Credits(), lambda node: (0.5, 3), lambda node: "")
    total, first = seen.contracts(0)
    _, second = seen.contracts(len(first))
    assert (total, len(first), len(second)) == (len(names), PAGE_ENTRIES, 7)
    assert [each.identity for each in (*first, *second)] == names
    assert seen.contracts(10**9) == (len(names), [])
    assert seen.members(0) == (1, [(b"far", "tcp://far:1", 1, 0.5, 3, 0, 0, 0, "")])
    monkeypatch.setattr(overview, "PAGE_BYTES", 12)
    assert len(seen.contracts(0)[1]) == 3


def test_a_node_knows_who_answered_at_an_address() -> None:
    async def story(network: Network) -> None:
        async with network.node() as there, network.node(peers=[there.uri]) as here:
            there.host(Greeter())
            assert (here.node_at(there.uri), here.unanswered) == (b"", (there.uri,))
            await here.knows(Greet)
            assert (here.node_at(there.uri), here.unanswered) == (there.identity, ())
            assert here.node_at("tcp://nobody:1") == b""

    run(story)
    assert Node().node_at("tcp://nobody:1") == b""

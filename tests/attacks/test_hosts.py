"""A member of a cluster that has only the key of `hopwire.*` hosts nothing else, whoever passes its routes on.

The routes of a member come through others. What proves that the member has the key of a domain is in its record, and
comes through others too.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from hopwire.cluster.gossip import MemberRecord, Rumours
from hopwire.errors import NoRoute
from hopwire.node import Node
from hopwire.security import Domain, Domains, Host, Key, prove_host
from hopwire.testing import Network, run
from tests.node.loopback import told
from tests.node.networks import key_folder, member, needs_openssl, node_in
from tests.node.stories import Greet, Greeter, Greeting, until
from tests.node.test_joining import stop

NETWORK = Domain("network", [Key("n", b"n" * 16)], ["hopwire.*"])
OLD, NEW = Key("old", b"o" * 16), Key("new", b"g" * 16)
GREETING = Domain("greeting", [OLD], ["greeter.*"])
ALL, MEMBER = Domains([NETWORK, GREETING]), Domains([NETWORK])
GUESSED = Domains([NETWORK, Domain("greeting", [Key("old", b"guessed guessed!")], ["greeter.*"])])


def greeting_by(*keys: Key) -> Domains:
    return Domains([NETWORK, Domain("greeting", keys, ["greeter.*"])])


async def joined(network: Network, *domains: Domains) -> list[Node]:
    """A door that has only the key of the network, and others with these domains."""
    nodes = [network.node(join=[], domains=MEMBER)]
    await nodes[0].start()
    for each in domains:
        nodes.append(network.node(join=[nodes[0].uri], domains=each))
        await nodes[-1].start()
    await until(lambda: all(len(node.peers) == len(domains) for node in nodes))
    return nodes


def has_route(node: Node, owner: Node) -> bool:
    return any(route.receiver.startswith(b"\1") for route in node._tables.remote.routes_of(owner.identity))


def record_of(owner: Node, at: Node) -> MemberRecord:
    assert at._membership.joining is not None
    found = at._membership.joining.members.find(owner.identity)
    assert found is not None
    return found


def holds(node: Node, owner: Node) -> bool:
    assert node._membership.joining is not None
    holding = node._membership.joining.members.routes.holdings.get(owner.identity)
    return holding is not None and any(identity.startswith(b"greeter.") for _, identity, _, _ in holding.routes())


def claim(mallory: Node, *proofs: tuple[str, bytes]) -> None:
    """Let a member say that it hosts, with proofs of its making."""
    mallory._trust.host_proofs = lambda _here, _added: proofs  # type: ignore[assignment, method-assign]
    mallory.host(Greeter("stolen"))


@pytest.mark.parametrize("domains", [MEMBER, GUESSED], ids=["without the key", "with another key"])
def test_a_member_without_the_key_of_a_domain_draws_no_question_of_it(domains: Domains) -> None:
    thief, honest = Greeter("stolen"), Greeter()

    async def story(network: Network) -> None:
        nodes = await joined(network, ALL, ALL, ALL, domains)
        mallory, askers = nodes[4], nodes[1:3]
        mallory.host(thief)
        await until(lambda: all(node.dead_letters.counts["no_proof"] for node in nodes[1:4]))
        assert not any(has_route(node, mallory) for node in nodes)
        with pytest.raises(NoRoute):
            await askers[0].hub().ask(Greet("Ada"), Greeting, timeout=5)
        nodes[3].host(honest)
        for number in range(40):
            assert (await askers[number % 2].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        for _ in range(20):
            mallory.host(Greeter("stolen"))
        await asyncio.sleep(2)
        for node in nodes[1:4]:  # one for the member and its domain, however many routes it announces
            assert node.dead_letters.counts["no_proof"] == 1
            (letter,) = [each for each in node.dead_letters.latest if each.reason == "no_proof"]
            assert "of domain 'greeting', without a proof of its key" in letter.detail
        assert nodes[0].dead_letters.counts["no_proof"] == 0  # the door cannot judge, and passes on
        await stop(*nodes)

    run(story)
    assert (thief.greeted, len(honest.greeted)) == ([], 40)


def test_a_record_that_comes_through_a_third_member_keeps_its_proof() -> None:
    async def story(network: Network) -> None:
        nodes = await joined(network, ALL, ALL)
        door, host, asker = nodes
        network.cut(host, asker)  # they hear of each other through the door, which has no key of the domain
        host.host(Greeter())
        await until(lambda: has_route(asker, host))
        assert not has_route(door, host)
        assert record_of(host, at=asker).proofs == record_of(host, at=door).proofs
        network.heal()
        assert (await asker.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        assert not asker.dead_letters.counts["no_proof"]
        await stop(*nodes)

    run(story)


@pytest.mark.parametrize("kind", ["forged", "of another node", "of another start", "of another domain", "elsewhere"])
def test_a_proof_that_is_not_that_of_the_process_is_refused(kind: str) -> None:
    async def story(network: Network) -> None:
        nodes = await joined(network, ALL, ALL, MEMBER)
        _, asker, honest, mallory = nodes
        honest.host(Greeter())
        await until(lambda: has_route(asker, honest))
        own = Host(mallory.identity, mallory._incarnation, mallory.uri)
        orders = Domain("orders", [OLD], ["orders.*"])
        stolen = {
            "forged": bytes((3,)) + b"old" + bytes(32),
            "of another node": dict(record_of(honest, at=mallory).proofs)["greeting"],
            "of another start": prove_host(own._replace(incarnation=own.incarnation - 1), GREETING, 0),
            "of another domain": prove_host(own, orders, 0),
            "elsewhere": prove_host(own._replace(uri=honest.uri), GREETING, 0),
        }
        claim(mallory, ("greeting", stolen[kind]))
        await until(lambda: asker.dead_letters.counts["no_proof"] == 1)
        assert holds(asker, mallory)
        assert not has_route(asker, mallory)
        assert "(invalid)" in asker.dead_letters.latest[-1].detail
        await stop(*nodes)

    run(story)


def test_routes_that_were_refused_count_as_soon_as_a_newer_record_proves_them() -> None:
    async def story(network: Network) -> None:
        nodes = await joined(network, ALL, MEMBER)
        _, asker, late = nodes
        late.host(Greeter())
        await until(lambda: asker.dead_letters.counts["no_proof"] == 1)
        late.reload(ALL)  # it gets the key, and its routes stay as they are
        await until(lambda: has_route(asker, late))
        assert (await asker.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        await stop(*nodes)

    run(story)


def test_keys_are_changed_while_members_talk() -> None:
    async def story(network: Network) -> None:
        nodes = await joined(network, greeting_by(OLD), greeting_by(OLD))
        _, asker, host = nodes
        host.host(Greeter())
        for keys in ((OLD, NEW), (NEW, OLD), (NEW,)):  # everywhere, one step after the other
            for node in (host, asker):
                node.reload(greeting_by(*keys))
                await asyncio.sleep(1)
                assert (await asker.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        late = network.node(join=[nodes[0].uri], domains=greeting_by(NEW))
        await late.start()
        assert (await late.hub().ask(Greet("Bob"), Greeting, timeout=5)).text == "hello Bob"
        assert not asker.dead_letters.counts["no_proof"] + late.dead_letters.counts["no_proof"]
        await stop(*nodes, late)

    run(story)


def test_routes_go_with_the_key_that_proved_them() -> None:
    async def story(network: Network) -> None:
        nodes = await joined(network, greeting_by(OLD), greeting_by(OLD))
        _, asker, host = nodes
        host.host(Greeter())
        await until(lambda: has_route(asker, host))
        asker.reload(greeting_by(NEW))
        await until(lambda: not has_route(asker, host))
        assert asker.dead_letters.counts["no_proof"] == 1
        await stop(*nodes)

    run(story)


def test_a_key_that_begins_by_the_clock_proves_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000]

    async def story(network: Network) -> None:
        nodes = await joined(network, ALL, ALL)
        _, asker, host = nodes
        for node in (asker, host):
            node.reload(greeting_by(Key("later", b"l" * 16, not_before_ns=2000)))
        monkeypatch.setattr("hopwire.node.trust.time.time_ns", lambda: now[0])
        host.host(Greeter())
        await until(lambda: holds(asker, host))
        assert not has_route(asker, host)
        now[0] = 2000
        await until(lambda: has_route(asker, host), 200)
        monkeypatch.undo()
        await stop(*nodes)

    run(story)


def test_a_record_that_moves_a_host_to_another_address_moves_nothing() -> None:
    async def story(network: Network) -> None:
        nodes = await joined(network, ALL, ALL, MEMBER)
        _, asker, host, mallory = nodes
        host.host(Greeter())
        await until(lambda: has_route(asker, host) and holds(mallory, host))
        record = record_of(host, at=mallory)
        moved = replace(record, sequence=record.sequence + 1, uri=mallory.uri)
        asker._membership.joining.take(Rumours(mallory.identity, 1, (moved,)))  # type: ignore[union-attr]
        assert has_route(asker, host)
        assert record_of(host, at=asker).uri == host.uri
        assert asker.dead_letters.counts["bad_signature"] == 1
        await stop(*nodes)

    run(story)


@needs_openssl
@pytest.mark.slow
def test_the_certificate_of_a_member_is_asked_before_a_message_goes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopwire.cluster.members.MONITORED", 1)  # so that some members have no link to each other
    monkeypatch.setattr("hopwire.cluster.members.LONG", 0)
    folder = key_folder(tmp_path)
    places = [member(folder, f"member-{number}", (), ("greeting",)) for number in range(5)]
    honest_in = member(folder, "honest", ("greeting",))

    async def story() -> None:
        nodes = [node_in(places[0], join=[])]
        await nodes[0].start()
        for place in (*places[1:], honest_in):
            nodes.append(node_in(place, join=[nodes[0].uri]))
            await nodes[-1].start()
        await until(lambda: all(len(node.peers) == len(nodes) - 1 for node in nodes), 20)
        members, honest = nodes[1:-1], nodes[-1]
        asker, other = next(
            (one, two)
            for one in members
            for two in members
            if one is not two and two.identity not in one._membership._cluster.peers
        )
        other.host(thief := Greeter("stolen"))
        await until(lambda: bool(asker.dead_letters.counts["no_proof"]), 10)  # by the certificate in its record
        with pytest.raises(NoRoute):
            await asker.hub().ask(Greet("Ada"), Greeting, timeout=5)
        assert not has_route(asker, other)
        details = [each.detail for each in asker.dead_letters.latest if each.reason == "no_proof"]
        assert any("which the certificate of the node does not name" in each for each in details)
        honest.host(Greeter())
        await until(lambda: has_route(asker, honest), 10)
        for _ in range(10):
            assert (await asker.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        assert thief.greeted == []
        await stop(*nodes)

    told(story)

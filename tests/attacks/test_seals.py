"""Nobody writes a record or an accusation for another member, and nobody says hello for one, also without certificates.

Each attack is refused, counted and harmless, and honest questions are asked meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from hopwire.cluster.announce import Hello
from hopwire.cluster.gossip import LEFT, Accusation, MemberRecord, OwnedRoutes, RoutesGiven, Rumours
from hopwire.cluster.members import FUTURE_NS
from hopwire.cluster.seals import UNSEALED
from hopwire.errors import HopwireError
from hopwire.model import Payload
from hopwire.node import Node
from hopwire.security import Domain, Domains, Key
from tests.node.loopback import ANSWER_SECONDS, told
from tests.node.networks import key_folder, member, needs_openssl, node_in
from tests.node.stories import Greet, Greeter, Greeting, until
from tests.node.test_joining import stop

pytestmark = pytest.mark.slow
NETWORK = Domain("network", [Key("n", b"n" * 16)], ["hopwire.*"])
GREETING = Domain("greeting", [Key("g", b"g" * 16)], ["greeter.*"])
ALL = Domains([NETWORK, GREETING])


class Scene(NamedTuple):
    asker: Node
    honest: Node
    mallory: Node


def members_of(node: Node) -> Any:
    assert node._membership.joining is not None
    return node._membership.joining.members


def record_of(owner: Node, at: Node) -> MemberRecord:
    found = members_of(at).find(owner.identity)
    assert isinstance(found, MemberRecord)
    return found


def pass_on(scene: Scene, *records: MemberRecord, accused: tuple[Accusation, ...] = ()) -> None:
    """Let mallory tell the asker and the honest node what others are said to have written."""
    said = Rumours(scene.mallory.identity, scene.mallory._incarnation, records, accused)
    for node in (scene.asker, scene.honest):
        say(scene.mallory, node, said)


def say(who: Node, to: Node, payload: Payload) -> None:
    who._membership._say(to.uri, payload, to.identity)


def play(attack: Callable[[Scene], Awaitable[None]], *folders: Path) -> None:
    """Let an attack happen among honest questions, all of which are answered."""

    async def story() -> None:
        door = Node(identity=b"asker", join=[], domains=ALL) if not folders else node_in(folders[0], join=[])
        await door.start()
        nodes = [door]
        for number, name in enumerate((b"honest", b"mallory"), 1):
            options: dict[str, Any] = {"join": [door.uri]}
            nodes.append(
                Node(identity=name, domains=ALL, **options) if not folders else node_in(folders[number], **options)
            )
            await nodes[-1].start()
        await until(lambda: all(len(node.peers) == 2 for node in nodes))
        scene = Scene(*nodes)
        scene.honest.host(Greeter())
        await scene.asker.knows(Greet)
        await until(lambda: len(scene.mallory._membership._cluster.peers) == 2)
        is_over = asyncio.Event()
        asked = asyncio.ensure_future(questions(scene.asker, is_over))
        await attack(scene)
        is_over.set()
        assert await asked > 10
        assert scene.honest.identity in scene.asker.peers
        assert record_of(scene.honest, at=scene.asker).uri == scene.honest.uri
        await stop(*nodes)

    told(story)


async def questions(asker: Node, is_over: asyncio.Event) -> int:
    number = 0
    while not is_over.is_set() or number < 20:
        number += 1
        answer = await asker.hub().ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS)
        assert answer == Greeting(f"hello {number}")
    return number


@pytest.fixture(params=["domains", "certificates"])
def folders(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, ...]:
    if request.param == "domains":
        return ()
    folder = key_folder(tmp_path)
    names = ("asker", "honest", "mallory")
    return tuple(member(folder, name, ("greeting",)) for name in names)


def newer(record: MemberRecord, **changes: Any) -> MemberRecord:
    return replace(record, sequence=record.sequence + 1, **changes)


# fmt: off
FORGERIES: dict[str, Callable[[MemberRecord, Scene], MemberRecord]] = {
    # kind                          record of the honest node, as mallory writes it
    "a later sequence":             lambda honest, _: newer(honest),
    "another address":              lambda honest, on: newer(honest, uri=on.mallory.uri),
    "a goodbye":                    lambda honest, _: newer(honest, status=LEFT),
    "no routes":                    lambda honest, _: newer(honest, routes_version=9, routes_hash=b""),
    "no proofs":                    lambda honest, _: newer(honest, proofs=()),
    "a restart":                    lambda honest, _: replace(honest, incarnation=honest.incarnation + 1),
    "a start in the future":        lambda honest, _: replace(honest, incarnation=honest.incarnation + 2 * FUTURE_NS),
    "without a signature":          lambda honest, _: newer(honest, signature=b""),
    "signed by another member":     lambda honest, on: signed_by(on.mallory, newer(honest)),
    "with the key of another":      lambda honest, on: replace(signed_by(on.mallory, newer(honest)), key=honest.key),
}
# fmt: on


def signed_by(node: Node, record: MemberRecord) -> MemberRecord:
    signed = node._membership.joining.seals.sign(record)  # type: ignore[union-attr]
    assert isinstance(signed, MemberRecord)
    return signed


def warned_or_refused(node: Node) -> bool:
    return node.dead_letters.counts["bad_signature"] > 0 or bool(members_of(node)._claims)


@needs_openssl
@pytest.mark.parametrize("kind", FORGERIES)
def test_a_record_counts_only_if_its_owner_has_written_it(kind: str, folders: tuple[Path, ...]) -> None:
    async def attack(on: Scene) -> None:
        before = record_of(on.honest, at=on.asker)
        for _ in range(20):
            pass_on(on, FORGERIES[kind](before, on))
        await until(lambda: warned_or_refused(on.asker))
        assert record_of(on.honest, at=on.asker) == before
        assert on.honest.identity in on.mallory.peers
        assert not members_of(on.honest).is_doubled

    play(attack, *folders)


@needs_openssl
def test_an_accusation_counts_only_if_its_accuser_has_written_it(folders: tuple[Path, ...]) -> None:
    async def attack(on: Scene) -> None:
        before = record_of(on.honest, at=on.asker)
        forged = Accusation(on.honest.identity, *before.age, on.asker.identity, True, on.asker._incarnation, b"s" * 64)
        stolen = on.mallory._membership.joining.seals.accuse(replace(forged, signature=b""))  # type: ignore[union-attr]
        for each in (forged, stolen, replace(forged, signature=b"")):
            pass_on(on, accused=(each,))
        await until(lambda: on.honest.dead_letters.counts["bad_signature"] >= 3)
        assert record_of(on.honest, at=on.asker) == before  # it had nothing to answer

    play(attack, *folders)


def test_who_accuses_in_its_own_name_is_answered_and_declares_nobody_dead() -> None:
    async def attack(on: Scene) -> None:
        seals = on.mallory._membership.joining.seals  # type: ignore[union-attr]
        for _ in range(30):
            age = record_of(on.honest, at=on.mallory).age
            said = Accusation(on.honest.identity, *age, on.mallory.identity, True, on.mallory._incarnation)
            pass_on(on, accused=(seals.accuse(said),))
            await asyncio.sleep(0.1)
        assert on.honest.identity in on.asker.peers
        assert record_of(on.honest, at=on.asker).sequence > 5

    play(attack)


def test_a_recorded_record_changes_nothing() -> None:
    async def attack(on: Scene) -> None:
        old = record_of(on.honest, at=on.mallory)
        on.honest.host(Greeter())
        await until(lambda: record_of(on.honest, at=on.asker).age > old.age)
        now = record_of(on.honest, at=on.asker)
        for _ in range(20):
            pass_on(on, old)
        await asyncio.sleep(0.5)  # it has been heard by then, and would have been passed on
        assert record_of(on.honest, at=on.asker) == now

    play(attack)


def test_routes_that_their_owner_has_not_announced_are_not_held() -> None:
    route = (b"\1stolen", b"greeter.greet", 1, b"")

    async def attack(on: Scene) -> None:
        held = members_of(on.asker).routes.holdings[on.honest.identity]
        version, routes = held.version, held.routes()
        start = record_of(on.honest, at=on.asker).incarnation
        for newest in (version, version + 1, version + 1000):
            for base, added in ((0, (route,)), (version, (route,)), (0, (*routes, route))):
                given = OwnedRoutes(on.honest.identity, start, base, newest, added, (), 0, len(added))
                say(on.mallory, on.asker, RoutesGiven(on.mallory.identity, on.mallory._incarnation, (given,)))
        await asyncio.sleep(0.5)
        assert members_of(on.asker).routes.holdings[on.honest.identity].routes() == routes
        on.honest.host(Greeter())  # and what it announces next is held
        await until(lambda: members_of(on.asker).routes.holdings[on.honest.identity].version == version + 1)

    play(attack)


def test_a_hello_in_the_name_of_a_member_without_a_link_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member lives, and the asker has no connection to it: mallory comes first, with the key of the network."""
    monkeypatch.setattr("hopwire.cluster.members.MONITORED", 1)
    monkeypatch.setattr("hopwire.cluster.members.LONG", 0)

    async def story() -> None:
        nodes = [Node(join=[], domains=ALL)]
        await nodes[0].start()
        for number in range(7):
            nodes.append(Node(join=[nodes[0].uri], domains=ALL, identity=b"node-%d" % number))
            await nodes[-1].start()
        await until(lambda: all(len(node.peers) == len(nodes) - 1 for node in nodes), 30)
        asker, honest = next(
            (one, two)
            for one in nodes[1:]
            for two in nodes[1:]
            if one is not two and two.identity not in one._membership._cluster.peers
        )
        honest.host(Greeter())
        await asker.knows(Greet)
        thief = Node(identity=honest.identity, peers=[asker.uri], domains=ALL)
        thief.host(stolen := Greeter("stolen"))
        thief._incarnation = honest._incarnation
        await thief.start()
        for start in (honest._incarnation, honest._incarnation + 1, honest._incarnation - 1):
            said = Hello(honest.identity, start, thief.uri, heard=asker._incarnation, seal=b"s" * 64)
            thief._membership._say(asker.uri, said)
            await until(lambda: bool(asker.dead_letters.counts["bad_control"]))
            asker.dead_letters.counts.clear()
        for number in range(20):
            answer = await asker.hub().ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS)
            assert answer.text == f"hello {number}"
        assert stolen.greeted == []
        await stop(thief, *nodes)

    told(story)


def test_a_restarted_process_has_its_name_again_in_a_moment() -> None:
    async def story() -> None:
        nodes = [Node(join=[], domains=ALL)]
        await nodes[0].start()
        for _ in range(3):
            nodes.append(Node(join=[nodes[0].uri], domains=ALL))
            await nodes[-1].start()
        first = Node(join=[nodes[0].uri], domains=ALL, identity=b"again")
        await first.start()
        await until(lambda: all(b"again" in node.peers for node in nodes))
        await first._transport.close(0)  # as if it had been killed: no goodbye
        first._membership._ticker.cancel()
        first._membership.joining._timer.cancel()  # type: ignore[union-attr]
        second = Node(first.uri, join=[nodes[0].uri], domains=ALL, identity=b"again")
        second.host(Greeter())
        await second.start()
        await until(lambda: all(record_of(second, at=each).incarnation == second._incarnation for each in nodes))
        for node in nodes:
            await node.knows(Greet)
            assert (await node.hub().ask(Greet("Ada"), Greeting, timeout=ANSWER_SECONDS)).text == "hello Ada"
        await stop(second, *nodes)

    told(story)


def test_members_without_security_sign_nothing() -> None:
    async def story() -> None:
        async with Node(join=[]) as node:
            assert node._membership.joining is not None
            assert node._membership.joining.seals is UNSEALED
            assert members_of(node).me.signature == b""

    asyncio.run(story())


def test_the_error_names_the_package_that_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hopwire.node.owner_seals", None)
    with pytest.raises(HopwireError, match=r"hopwire\[cluster\]"):
        Node(join=[], domains=ALL)

"""A question that finds nobody is told what its node knows: other versions, silent addresses, refused signatures."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from hopwire.errors import NoRoute
from hopwire.model import Contract, Payload
from hopwire.node import Actor, Address, Node, handles
from hopwire.node.no_route import MOST_NAMED, MOST_REFUSALS, Refusals, Surmise, why_nobody
from hopwire.security import OPEN, Domains
from hopwire.testing import Network, run
from tests.node.certificates import OURS, THEIRS
from tests.node.loopback import told
from tests.node.stories import Greet, Greeter, Greeting
from tests.node.test_notices import WRONG, domains

CHARGE = Contract(b"pay.charge", 2, b"")


class Charge(Payload, identity="no_route.charge", version=2):
    amount: int


class OldCharge(Payload, identity="no_route.charge", version=1):
    amount: int


class Till(Actor):
    @handles
    async def charge(self, request: OldCharge) -> Greeting:
        return Greeting("charged")


def test_words_name_versions_addresses_and_refusals() -> None:
    nobody = "nobody handles pay.charge v2 that this node knows of"
    assert why_nobody(CHARGE, Surmise((), (), (), is_alone=True)).startswith(f"{nobody}; this node knows no other node")
    other = [(b"pay.charge", 1, b""), (b"pay.refund", 2, b""), CHARGE]
    assert why_nobody(CHARGE, Surmise(other, ())) == "pay.charge v1 is handled, v2 is not"
    west = Contract(b"pay.charge", 2, b"west")
    assert why_nobody(west, Surmise([CHARGE], ())) == "pay.charge v2 is handled, v2 in partition west is not"
    silent = [("tcp://a:1", "connection refused"), ("tcp://b:1", "")]
    words = f"{nobody}; no answer yet from tcp://a:1 (connection refused), tcp://b:1; wait"
    assert why_nobody(CHARGE, Surmise((), silent), "wait") == words
    many = why_nobody(CHARGE, Surmise((), [(f"tcp://a:{port}", "") for port in range(MOST_NAMED + 2)]))
    assert many.endswith("and 2 others")


def test_refusals_are_few_and_forgotten_when_the_node_is_believed() -> None:
    refusals = Refusals()
    for number in range(MOST_REFUSALS + 5):
        refusals.note(b"%d" % number, f"node {number}", "no key")
    assert len(refusals.words()) == MOST_REFUSALS
    assert refusals.words()[0] == f"refused what node {MOST_REFUSALS + 4} says: no key"
    refusals.forget(b"%d" % (MOST_REFUSALS + 4))
    assert len(refusals.words()) == MOST_REFUSALS - 1


def test_ask_says_who_has_not_answered_yet_and_which_version_is_handled() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri, "memory://nobody"]) as b:
            with pytest.raises(NoRoute) as caught:
                await b.hub().ask(Charge(1), Greeting)
            assert str(caught.value) == (
                "no_route: nobody handles no_route.charge v2 that this node knows of; "
                f"no answer yet from {a.uri}, memory://nobody; await node.knows(Charge) first"
            )
            a.host(Till())
            await b.knows(OldCharge)
            for call in (b.hub().ask(Charge(1), Greeting), b.knows(Charge, timeout=1)):
                with pytest.raises(NoRoute, match=r"^no_route: no_route.charge v1 is handled, v2 is not$"):
                    await call
            with pytest.raises(NoRoute, match=r"^no_route: no_route.charge v1 is handled, v2 is not$"):
                await anext(b.hub().stream(Charge(1), Greeting))

    run(story)


def test_refusal_of_another_node_names_that_node() -> None:
    async def story(network: Network) -> None:
        async with network.node(identity=b"shop") as a, network.node(peers=[a.uri]) as b:
            a.host(Till())
            await b.knows(OldCharge)
            with pytest.raises(NoRoute, match=r"nobody handles no_route.charge v2 at node shop, which was asked"):
                await b.hub().ask(Charge(1), Greeting, to=Address(b"shop"))

    run(story)


def test_who_finds_nobody_is_told_whose_signature_does_not_fit_and_who_gives_no_answer() -> None:
    async def story(network: Network) -> None:
        async with network.node(domains=domains()) as a, network.node(domains=domains(WRONG), peers=[a.uri]) as b:
            b.host(Greeter())
            refused = f"; refused what '{b.uri}' says: its signature does not fit"
            with pytest.raises(NoRoute, match=refused):
                await a.knows(Greet, timeout=5)
            with pytest.raises(NoRoute, match=refused):
                await a.hub().ask(Greet("x"), Greeting)
            with pytest.raises(NoRoute, match=f"; no answer from {a.uri}$"):  # which says nothing to strangers
                await b.knows(Charge, timeout=5)

    run(story)


async def _why_silent(uri: str, words: str, own: Domains = OPEN) -> None:
    async with Node(peers=[uri], domains=own) as node:
        with pytest.raises(NoRoute) as caught:
            await node.knows(Greet, timeout=0.1)
        while words not in str(caught.value):  # a slow machine has not dialled yet
            with pytest.raises(NoRoute) as caught:
                await node.knows(Greet, timeout=0.05)


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 64)
    writer.close()


def test_knows_says_why_an_address_does_not_answer() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        await _why_silent(f"tcp://127.0.0.1:{port}", f"no answer from tcp://127.0.0.1:{port} (connection refused)")
        server = await asyncio.start_server(_hang_up, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await _why_silent(f"tcp://127.0.0.1:{port}", "(it does not speak ZMTP)")

    told(story)


def test_knows_says_that_keys_may_differ_where_a_node_is_connected_and_keeps_silent() -> None:
    async def story() -> None:
        async with Node(domains=domains(WRONG)) as there:
            words = f"no answer from {there.uri} (connected, and no hello comes back: are the keys the same"
            await _why_silent(there.uri, words, domains())

    told(story)


def test_peers_that_are_met_and_lost_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hopwire.node")

    async def story(network: Network) -> None:
        async with network.node(identity=b"shop") as a:
            async with network.node(identity=b"till", peers=[a.uri]) as b:
                b.host(Greeter())
                await a.knows(Greet)
            await asyncio.sleep(1)

    run(story)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert "met node 'till' at 'memory://2'" in lines
    assert "lost node 'till' at 'memory://2': it said goodbye" in lines


@pytest.mark.parametrize("is_dialling", [True, False])
def test_knows_says_whose_certificate_was_refused(is_dialling: bool) -> None:
    async def story() -> None:
        async with Node(tls=OURS) as a, Node(tls=THEIRS, peers=[a.uri]) as b:
            words = "it does not speak TLS, or shows no certificate of our authority"
            found = ""
            while words not in found:
                with pytest.raises(NoRoute) as caught:
                    await (b if is_dialling else a).knows(Greet, timeout=0.05)
                found = str(caught.value)
            assert (f"no answer from {a.uri} ({words})" if is_dialling else "cut off a connection from") in found

    told(story)

"""One connection for both directions, and what happens when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct

import pytest
import zmq
import zmq.asyncio

from hopwire.cluster.announce import Bye, Credit, Hello
from hopwire.cluster.events import Pace
from hopwire.cluster.gossip import Ack, Ping
from hopwire.errors import Unreachable
from hopwire.model.limits import Limits
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings
from hopwire.node.unfinished import Unfinished
from hopwire.node.waking import Waking
from hopwire.node.zmtp_socket import HAND_OVER_AT_MOST, ZmtpSocket
from hopwire.wire import decode
from hopwire.wire.connection import connection_name
from hopwire.wire.zmtp import GREETING, Zmtp, heads, ready
from tests.attacks.stranger import Stranger, said
from tests.node.child import child
from tests.node.loopback import ANSWER_SECONDS, FAITHFUL, NOWHERE, SECONDS, UNHURRIED, streams_of, told, until
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number
from tests.ports import free_port


def connections_of(node: Node) -> int:
    streams = streams_of(node)
    own = [link for link in streams._links.values() if link.connection and link.connection not in streams._users]
    return len(streams._inbound) + len(own)


def test_two_nodes_of_which_one_dials_have_one_connection_for_both_directions() -> None:
    async def story() -> None:
        async with Node() as a, Node(peers=[a.uri]) as b:
            a.host(Greeter())
            b.host(Counter())
            await b.knows(Greet)
            await a.knows(Count)
            assert await b.hub().ask(Greet("Ada"), Greeting) == Greeting("hello Ada")
            assert await a.hub().ask(Count(1), Number) == Number(0)
            assert (connections_of(a), connections_of(b)) == (1, 1)

    told(story)


def test_a_node_that_nobody_can_dial_is_asked_over_the_connection_that_it_opened() -> None:
    async def story() -> None:
        async with Node() as a, Node(peers=[a.uri], advertise=NOWHERE) as hidden:
            hidden.host(Greeter())
            await a.knows(Greet)
            answers = [await a.hub().ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS) for number in range(100)]
            assert answers == [Greeting(f"hello {number}") for number in range(100)]

    told(story)


@pytest.mark.slow
@pytest.mark.parametrize("is_dialled", [False, True])
def test_a_process_that_is_killed_is_gone_long_before_its_silence_tells(is_dialled: bool) -> None:
    async def story() -> None:
        async with Node(settings=UNHURRIED) as first:
            with child("sleeper", *([] if is_dialled else [first.uri])) as (process, uri):
                async with Node(peers=[uri] if is_dialled else [], settings=UNHURRIED) as second:
                    node = second if is_dialled else first
                    await node.knows(Greet)
                    waiting = asyncio.ensure_future(node.hub().ask(Greet("Ada"), Greeting, timeout=SECONDS))
                    await node.hub().send(Greet("arrived"), timeout=SECONDS)
                    process.kill()
                    with pytest.raises(Unreachable, match="unreachable"):
                        await waiting
                    assert node.peers == ()

    told(story)


@pytest.mark.slow
def test_a_process_that_stands_still_for_some_seconds_is_not_given_up() -> None:
    async def story() -> None:
        async with Node() as a:
            with child("greeter", a.uri) as (process, _):
                await a.knows(Greet)
                os.kill(process.pid, signal.SIGSTOP)
                waiting = asyncio.ensure_future(a.hub().ask(Greet("Ada"), Greeting))
                await asyncio.sleep(2.0)
                assert len(a.peers) == 1
                os.kill(process.pid, signal.SIGCONT)
                assert await waiting == Greeting("hello Ada")

    told(story)


def test_a_connection_that_breaks_is_opened_again_and_its_peer_is_not_given_up() -> None:
    async def story() -> None:
        lost: list[bytes] = []
        async with Node(settings=FAITHFUL) as a, Node(peers=[a.uri], settings=FAITHFUL) as b:
            a.host(Greeter())
            await b.knows(Greet)
            b._membership._on_lost = lambda node, reason: lost.append(node)
            (link,) = streams_of(b)._links.values()
            former = link.connection
            assert former is not None
            former.close("broken")
            await until(lambda: link.connection is not None)
            assert await b.hub().ask(Greet("Ada"), Greeting, timeout=ANSWER_SECONDS) == Greeting("hello Ada")
            assert lost == []

    told(story)


def test_who_repeats_a_hello_of_another_gets_no_message_that_is_for_the_other() -> None:
    async def story() -> None:
        async with Node() as node:
            name = connection_name(b"victim", bytes(8))
            with Stranger(node.uri, name) as stranger:
                stranger.greet()
                stranger.send(said(Hello(b"victim", 5, NOWHERE)))
                await until(lambda: b"victim" in node.peers)
                (link,) = streams_of(node)._links.values()
                assert link.connection is None
                assert link.candidate is not None
                streams_of(node).send(NOWHERE, [b"", b"", b"for the victim"], 14)
                assert streams_of(node).waiting() == (1, 14)
                stranger.send(said(Hello(b"victim", 5, NOWHERE, heard=node._incarnation)))
                await until(lambda: link.connection is not None)  # only the victim could have heard that number
                await until(lambda: streams_of(node).waiting() == (0, 0))  # at the end of the turn

    told(story)


def test_a_second_connection_under_one_name_does_not_push_out_that_of_another_host() -> None:
    async def story() -> None:
        async with Node(listen="tcp://127.0.0.1:0") as node:
            name = connection_name(b"peer", bytes(8))
            streams = streams_of(node)
            with Stranger(node.uri, name) as first, Stranger(node.uri, name) as second:
                first.greet()
                await until(lambda: name in streams._names)
                streams._hosts[streams._names[name]] = "192.0.2.1"
                second.greet()
                await until(lambda: streams.closed["name_taken"])
                assert streams._hosts[streams._names[name]] == "192.0.2.1"

    told(story)


@pytest.mark.slow
def test_a_peer_that_sends_a_message_which_takes_long_is_alive_meanwhile() -> None:
    async def story() -> None:
        settings = NodeSettings(pace=Pace(beat_ns=NS_PER_SECOND // 20, silence_ns=NS_PER_SECOND // 2))
        async with Node(settings=settings) as node:
            with Stranger(node.uri, connection_name(b"peer", bytes(8))) as peer:
                peer.greet()
                peer.send(said(Hello(b"peer", 5, NOWHERE)))
                await until(lambda: b"peer" in node.peers)
                peer.claim(1_000_000)
                for _ in range(15):
                    peer.pour(bytes(1000))
                    await asyncio.sleep(0.1)  # three times as long as silence is borne
                assert b"peer" in node.peers
                await until(lambda: b"peer" not in node.peers)

    told(story)


@pytest.mark.slow
def test_a_node_that_stops_while_very_much_waits_for_a_peer_is_gone_there_long_before_its_silence_tells() -> None:
    async def story() -> None:
        async with Node(settings=UNHURRIED) as node:
            stopping = Node(peers=[node.uri], settings=UNHURRIED)
            await stopping.start()
            await until(lambda: node.peers and stopping.peers)
            for _ in range(30):
                assert streams_of(stopping).send(node.uri, [b"", b"", bytes(2_000_000), b"meta"], 2_000_004) == ""
            assert streams_of(stopping).waiting()[1] > 40_000_000  # the goodbye waits behind it
            await stopping.stop(timeout=0.0)
            await until(lambda: not node.peers)

    told(story)


def test_credit_and_pings_go_before_what_waits_for_a_peer_and_a_goodbye_does_not() -> None:
    async def story() -> None:
        async with Node() as node:
            with Stranger(node.uri, connection_name(b"peer", bytes(8))) as peer:
                peer.greet()
                peer.send(said(Hello(b"peer", 5, NOWHERE, heard=node._incarnation)))
                await until(lambda: streams_of(node)._links and b"peer" in node.peers)
                await until(lambda: streams_of(node)._links[NOWHERE].connection is not None)
                for _ in range(2):  # of the first the kernel takes a part, the second waits
                    streams_of(node).send(NOWHERE, [b"", b"", bytes(16_000_000), b"meta"], 16_000_004)
                me = node.identity, node._incarnation
                for word in (Bye(*me), Credit(*me, b"greet", 1, 1, 1, 1), Ping(*me, 1, 0), Ack(*me, 1, 0)):
                    node._outgoing.say(NOWHERE, b"peer", word)
                waiting = [frames for frames, *_ in streams_of(node)._peers[NOWHERE].items()]
                names = [b"hopwire.credit", b"hopwire.member.ping", b"hopwire.member.ack", b"", b"hopwire.bye"]
                assert [decode(frames).identity if len(frames[2]) < 1000 else b"" for frames in waiting] == names

    told(story)


def test_a_hello_goes_before_credit_over_a_connection_that_is_opened_late() -> None:
    async def story() -> None:
        with zmq.asyncio.Context() as context, context.socket(zmq.ROUTER) as listener:
            listener.linger, there = 0, f"tcp://127.0.0.1:{free_port()}"
            async with Node(peers=[there]) as node:
                node._outgoing.say(there, b"", Credit(node.identity, node._incarnation, b"greet", 1, 1, 1, 1))
                listener.bind(there)
                heard = [decode(await listener.recv_multipart()).identity for _ in range(2)]
                assert heard == [b"hopwire.hello", b"hopwire.credit"]

    told(story)


def two_names(port: int) -> tuple[str, str]:
    return f"tcp://127.0.0.1:{port}", f"tcp://localhost:{port}"


@pytest.mark.slow
def test_two_nodes_that_dial_each_other_by_two_names_each_believe_all_four_connections() -> None:
    async def meet() -> None:
        ports = free_port(), free_port()
        (one, also_one), (other, also_other) = [
            (f"tcp://127.0.0.1:{port}", f"tcp://localhost:{port}") for port in ports
        ]
        async with (
            Node(one, advertise=also_one, peers=[also_other, other]) as here,
            Node(other, peers=[one, also_one]) as there,
        ):
            here.host(Greeter())
            await there.knows(Greet, timeout=SECONDS)
            assert await there.hub().ask(Greet("Ada"), Greeting, timeout=SECONDS) == Greeting("hello Ada")
            await until(lambda: not (here._membership.unanswered() or there._membership.unanswered()))

    async def story() -> None:
        for _ in range(6):  # who hears whom first is chance: of two such pairs more than one never met
            await meet()

    told(story)


@pytest.mark.parametrize("is_waiting", [False, True], ids=["at once", "what waited"])
def test_what_came_before_the_end_of_a_connection_is_read_though_a_write_fails_first(is_waiting: bool) -> None:
    async def story() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
        ours.setblocking(False)
        loop, found, ends = asyncio.get_running_loop(), list[list[bytes]](), list[str]()
        connection = ZmtpSocket(
            loop,
            ours,
            Zmtp(Limits()),
            b"",
            lambda frames: found.append(frames) or 1,  # type: ignore[func-returns-value]
            lambda _: None,
            lambda _, reason: ends.append(reason),
            Waking(),
            Unfinished(loop),
        )
        with listener:
            if is_waiting:
                while connection.write([bytes(100_000)]):
                    pass
            count = 3 * HAND_OVER_AT_MOST
            message = b"".join(heads([b"", b"body", b"meta"]))
            theirs.sendall(GREETING + ready(b"DEALER", b"who") + message * count)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            theirs.close()
            if is_waiting:
                connection._writable()
            assert not connection.write([b"a question"])
            await until(lambda: ends)
        assert len(found) == count

    told(story)

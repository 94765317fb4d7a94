"""Nobody at the other end of a connection ends a node: not by dying, not by the name of the connection."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import pytest

from hopwire.cluster.announce import Bye, Routes
from hopwire.node import Address, Node
from tests.attacks.stranger import COMMAND, Stranger, frame, said
from tests.attacks.victim import node_of, victim
from tests.node.loopback import ANSWER_SECONDS, FAITHFUL, cuttable, told
from tests.node.stories import Greet, Greeter, Greeting
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PRODUCERS, ROUNDS = 3, 3  # in `make test` one round
TICK_SECONDS = 0.002
WATCHED_SECONDS = 4.0  # libzmq's timers end within two


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a producer, or the consumer."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "tests.attacks.producer", *arguments]
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    running = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, text=True, env=environ)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def first_line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def survives(running: subprocess.Popen[str], seconds: float) -> bool:
    try:
        running.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


@pytest.mark.slow
def test_a_busy_consumer_survives_producers_that_are_killed_while_it_has_not_read_what_they_sent(
    is_long: bool,
) -> None:
    with process() as consumer:
        uri = first_line(consumer)
        for _ in range(ROUNDS if is_long else 1):
            with ExitStack() as stack:
                producers = [stack.enter_context(process(uri)) for _ in range(PRODUCERS)]
                assert [first_line(producer) for producer in producers] == ["full"] * PRODUCERS
                for producer in producers:
                    os.kill(producer.pid, signal.SIGKILL)
            assert survives(consumer, WATCHED_SECONDS), consumer.returncode


@pytest.mark.slow
def test_two_connections_under_one_name_do_not_end_a_node() -> None:
    with ExitStack() as stack:
        victims = [stack.enter_context(victim(kind)) for kind in ("open", "signed")]
        with ExitStack() as connections:
            for it, name in product(victims, (b"one", b"two", b"three")):
                first, second = (connections.enter_context(Stranger(it.uri, name)) for _ in range(2))
                first.greet()
                second.greet()
                first.send([b"", b"noise"])
                first.close()
            assert survives(victims[0].process, 7), victims[0].process.returncode
            assert survives(victims[1].process, 0), victims[1].process.returncode
        assert [it.report()["peers"] for it in victims] == [0, 0]


def names_of(peer: Node) -> list[bytes]:
    """The names that a stranger could try in order to be taken for a peer."""
    return [peer.identity, peer.identity + b"~" + b"0" * 16]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["open", "signed"])
def test_a_stranger_under_the_name_of_a_peer_cuts_no_link(kind: str) -> None:
    async def story() -> None:
        async with node_of(kind) as a, node_of(kind, peers=(a.uri,)) as b:
            a.host(Greeter())
            await b.knows(Greet)
            hub = b.hub()
            with ExitStack() as stack:
                for name in names_of(b):
                    stranger = stack.enter_context(Stranger(a.uri, name))
                    stranger.greet()
                    stranger.send([b"", b"noise"])
                for number in range(50):
                    assert (
                        await hub.ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS)
                    ).text == f"hello {number}"
            for number in range(50):
                assert (await hub.ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS)).text == f"hello {number}"

    told(story)


@pytest.mark.parametrize("kind", ["open", "signed"])
def test_a_stranger_under_the_name_of_a_peer_cannot_speak_for_the_peer(kind: str) -> None:
    async def story() -> None:
        async with node_of(kind) as a, node_of(kind, peers=(a.uri,)) as b:
            a.host(Greeter())
            await b.knows(Greet)
            incarnation = a._membership._cluster.peers[b.identity].incarnation
            with ExitStack() as stack:
                for name in names_of(b):
                    stranger = stack.enter_context(Stranger(a.uri, name))
                    stranger.greet()
                    stranger.send(said(Bye(b.identity, incarnation)))
                    stranger.send(said(Routes(b.identity, incarnation, 99)))
                reason = "bad_signature" if kind == "signed" else "bad_control"
                while a.dead_letters.counts[reason] < 4:
                    await asyncio.sleep(0.001)
            assert a.peers == (b.identity,)
            assert (await b.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS)).text == "hello x"

    told(story)


@pytest.mark.slow
def test_nodes_that_dial_each_other_by_different_names_answer_every_question() -> None:
    async def story(kind: str) -> None:
        port = free_port()
        async with (
            node_of(kind, peers=(f"tcp://localhost:{port}",)) as b,
            node_of(kind, f"tcp://127.0.0.1:{port}", peers=(b.uri.replace("127.0.0.1", "localhost"), b.uri)) as a,
        ):
            a.host(Greeter())
            await b.knows(Greet)
            home, there, loop = b.hub(), Address(a.identity), asyncio.get_running_loop()
            ends_at, slowest = loop.time() + 6, 0  # two beats and the end of silence
            while loop.time() < ends_at:
                began = ticks
                assert (await home.ask(Greet("x"), Greeting, to=there, timeout=20)).text == "hello x"
                slowest = max(slowest, ticks - began)
                await asyncio.sleep(TICK_SECONDS)  # so that the three kinds of nodes share the processor
            assert slowest * TICK_SECONDS < 1  # a second in which this process could run, and nothing came
            assert not b.dead_letters.counts
            assert not a.dead_letters.counts

    ticks = 0

    async def count() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(TICK_SECONDS)
            ticks += 1

    async def stories() -> None:
        ticking = asyncio.ensure_future(count())
        async with asyncio.TaskGroup() as group:
            for kind in ("open", "signed", "encrypted"):
                group.create_task(asyncio.wait_for(story(kind), timeout=90), name=kind)
        ticking.cancel()

    asyncio.run(stories())


@pytest.mark.slow
def test_a_link_whose_tcp_connection_is_cut_comes_back_under_its_name() -> None:
    async def story() -> None:
        async with (
            Node(settings=FAITHFUL) as a,
            cuttable(a.uri) as (uri, cut),
            Node(peers=[uri], settings=FAITHFUL) as b,
        ):
            a.host(Greeter())
            await b.knows(Greet)
            hub = b.hub()
            for _ in range(3):
                await hub.ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS, at_least_once=True)
                cut()
                await hub.ask(Greet("y"), Greeting, timeout=ANSWER_SECONDS, at_least_once=True)
                assert len(a._membership._trust.callers) <= 2  # its own connection, and one that a opened meanwhile
            assert "not_met" not in a.dead_letters.counts

    told(story)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["open", "signed"])
def test_pings_between_many_messages_and_a_reset_behind_them_do_not_end_a_node(kind: str) -> None:
    burst = (3 * frame(b"x") + frame(b"\4PING\0\0", COMMAND)) * 500
    with victim(kind) as it:
        for number in range(10):
            stranger = Stranger(it.uri, b"pinging-%d" % number)
            stranger.greet()
            stranger.pour(burst)
            stranger.reset()
        assert it.report()["turn"] < 1.0
        assert it.is_alive

"""A process that has no descriptors left serves those who are there, and goes on when there are some again."""

from __future__ import annotations

import errno
import resource
import socket
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from hopwire.cluster.events import Dialled
from hopwire.node import Node
from hopwire.node.streams import FIRST_PAUSE_SECONDS
from tests.attacks.stranger import Stranger
from tests.attacks.victim import victim
from tests.node.loopback import ANSWER_SECONDS, streams_of, told, until
from tests.node.stories import Greet, Greeter, Greeting

FEW = 40  # descriptors: some of them the process needs itself


@pytest.mark.slow
def test_strangers_that_use_up_all_descriptors_harm_nobody_who_is_connected() -> None:
    async def story() -> None:
        with victim() as it:
            _, most = resource.prlimit(it.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(it.process.pid, resource.RLIMIT_NOFILE, (FEW, most))
            async with Node(peers=[it.uri]) as first:
                await first.knows(Greet)
                with ExitStack() as stack:
                    for _ in range(2 * FEW):
                        stack.enter_context(Stranger(it.uri)).greet()
                    for number in range(50):
                        answer = await first.hub().ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS)
                        assert answer == Greeting(f"hello {number}")
                async with Node(peers=[it.uri]) as second:
                    await second.knows(Greet)
                    assert await second.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS) == Greeting("hello x")

    told(story)


@pytest.mark.parametrize("host", ["a..b", "x" * 100, "a\0b", "\u2603" * 80])
def test_an_address_that_cannot_be_one_is_tried_again_like_any_other(host: str) -> None:
    async def story() -> None:
        async with Node(peers=[f"tcp://{host}:1"]) as node:
            (link,) = streams_of(node)._links.values()
            await until(lambda: link.pause > 2 * FIRST_PAUSE_SECONDS)  # it grows with each attempt

    told(story)


def test_a_link_is_dialled_again_after_there_was_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Node() as a:
            a.host(Greeter())
            failures = iter(range(3))

            def no_descriptor(*arguments: Any) -> socket.socket:
                if next(failures, None) is not None:
                    raise OSError(errno.EMFILE, "Too many open files")
                return socket.socket(*arguments)

            scarce = SimpleNamespace(**{**vars(socket), "socket": no_descriptor})  # for whoever dials, and nobody else
            async with Node() as b:
                monkeypatch.setattr("hopwire.node.streams.socket", scarce)
                b._membership._step(Dialled(a.uri))
                await b.knows(Greet, timeout=ANSWER_SECONDS)
                monkeypatch.undo()
                assert next(failures, None) is None
                assert await b.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS) == Greeting("hello x")

    told(story)

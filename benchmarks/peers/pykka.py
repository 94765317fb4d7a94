"""Pykka: an actor in a thread of its own, asked by its reference, which is its fast way."""

# mypy: disable-error-code="import-not-found, misc"
from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import pykka

from benchmarks.peers import Pipe


class Echo(pykka.ThreadingActor):
    """Answers with what it got."""

    def on_receive(self, message: bytes) -> bytes:
        return message


@contextmanager
def connect(address: str) -> Iterator[Pipe]:
    actor = Echo.start()
    asked: deque[pykka.Future[bytes]] = deque()
    yield Pipe(
        submit=lambda body: asked.append(actor.ask(body, block=False)),
        collect=lambda: asked.popleft().get(),
    )
    actor.stop()

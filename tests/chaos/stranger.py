"""A stranger who never stops: every attack of `tests/attacks/stranger.py`, in turns, on all members.

He has no key. Members come and go, so a connection that is refused or cut off is no failure of his.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from hopwire.cluster.announce import Beat, Bye, Hello, RoutesWanted
from hopwire.model import Payload
from tests.attacks.stranger import Stranger, empty_train, nested_message, said

__all__ = ["ATTACKS"]

PAUSE_SECONDS = 0.1
MEMBERS = (b"a1", b"a2", b"b1", b"b2")


def _greeted(uri: str, name: bytes) -> Stranger:
    stranger = Stranger(uri, name)
    try:
        stranger.greet()
    except OSError:
        stranger.close()
        raise
    return stranger


def under_one_name(uri: str) -> None:
    """Connect twice under one name, speak on the first connection and reset it."""
    with _greeted(uri, b"twice") as first, _greeted(uri, b"twice"):
        first.send([b"", b"body", b"meta"])
        first.reset()


def as_a_member(uri: str) -> None:
    """Connect under the names of members, and speak for them."""
    for member in MEMBERS:
        with _greeted(uri, member) as stranger:
            for payload in forged(member):
                stranger.send(said(payload))


def forged(member: bytes) -> tuple[Payload, ...]:
    """Give what a member could say, with an incarnation far in the future."""
    far = 2**62
    return (
        Hello(member, far, "tcp://127.0.0.1:1", (6,), ("train",), 0, ""),
        Beat(member, far, "tcp://127.0.0.1:1", 9),
        RoutesWanted(member, far),
        Bye(member, far),
    )


def trains(uri: str) -> None:
    """Send trains of messages without frames, and trains that end within a length."""
    with _greeted(uri, b"") as stranger:
        stranger.send(empty_train(200_000))
        stranger.send([b"HWT\x01\xff\xff"])


def nesting(uri: str) -> None:
    """Send extensions that are nested deep."""
    with _greeted(uri, b"") as stranger:
        for depth in (10, 500, 1300):
            stranger.send(nested_message(depth, identity=b"chaos.work"))


def noise(uri: str) -> None:
    """Send bytes that are no messages, and bytes that are not even ZMTP."""
    with _greeted(uri, b"") as stranger:
        for size in (0, 1, 100, 10_000):
            stranger.send([b"", os.urandom(size), os.urandom(size % 77)])
    with Stranger(uri) as stranger:
        stranger.pour(os.urandom(500))


def unfinished(uri: str) -> None:
    """Claim a huge frame, and hold connections that say nothing."""
    with ExitStack() as held:
        for _ in range(20):
            held.enter_context(Stranger(uri))
        stranger = held.enter_context(_greeted(uri, b""))
        stranger.claim(2**30)
        stranger.pour(bytes(100_000))


async def _again_and_again(attack: Callable[[str], None], uris: Sequence[str]) -> None:
    while True:
        for uri in uris:
            with suppress(OSError):  # refused, cut off, or the member is away
                await asyncio.to_thread(attack, uri)
            await asyncio.sleep(PAUSE_SECONDS)


ATTACKS: dict[str, Callable[[Sequence[str]], Awaitable[None]]] = {
    attack.__name__: partial(_again_and_again, attack)
    for attack in (under_one_name, as_a_member, trains, nesting, noise, unfinished)
}

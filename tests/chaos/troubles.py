"""The kinds of trouble that a network is given, one function for each.

A hand plays its cards one after the other, in an order that the seed decides; the hands of a network play at the same
time. One hand has what happens to processes: they are killed, stopped, made to ask and to toil. Another hand has what
surrounds them: the clock, the disk, the network. So a process is also killed while its disk is full, and started while
its clock is wrong.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hopwire.model.units import NS_PER_SECOND
from tests.chaos.life import Member

__all__ = ["TROUBLES", "Force", "Hand", "Spell"]

AHEAD_SECONDS = (-3600, 30)  # back by an hour, and ahead by as much as clocks may differ


@dataclass(frozen=True, slots=True)
class Force:
    """How hard the network is hit."""

    pause_seconds: tuple[float, float] = (1.0, 3.0)  # between two cards of a hand
    away_seconds: tuple[float, float] = (0.0, 1.5)  # that a killed member stays away
    stopped_seconds: tuple[float, float] = (0.5, 2.0)
    wrong_seconds: tuple[float, float] = (2.0, 6.0)  # that a clock is wrong, a disk is full or a cable is pulled
    burst: int = 10_000
    toil: int = 2_000


@dataclass(frozen=True, slots=True)
class Spell:
    """A trouble, and from when to when it lasted."""

    kind: str
    member: str
    words: str
    began_at: float
    ended_at: float

    def overlaps(self, began_at: float, ended_at: float, slack_seconds: float = 0.0) -> bool:
        """Tell whether a time overlaps the trouble, or the slack behind it."""
        return self.began_at <= ended_at and began_at <= self.ended_at + slack_seconds


@dataclass(slots=True)
class Hand:
    """Who makes trouble: on these members, with this force, in the order of this chance."""

    members: Sequence[Member]
    force: Force
    chance: random.Random
    spells: list[Spell] = field(default_factory=list)

    async def play(self, cards: Sequence[str], until: float) -> None:
        """Play the cards again and again, in a new order each time, until the time is over; all of them once."""
        rounds = 0
        while cards:
            for kind in self.chance.sample(cards, len(cards)):
                await asyncio.sleep(self.chance.uniform(*self.force.pause_seconds))
                if rounds and time.monotonic() >= until:
                    return
                await TROUBLES[kind](self)
            rounds += 1

    def anybody(self) -> Member:
        """Choose a member."""
        return self.chance.choice(self.members)

    async def pass_time(self, seconds: tuple[float, float]) -> None:
        """Wait for some time."""
        await asyncio.sleep(self.chance.uniform(*seconds))

    @contextmanager
    def spell(self, kind: str, member: Member, words: str = "") -> Iterator[None]:
        """Write down a trouble, and when it was."""
        began_at = time.monotonic()
        try:
            yield
        finally:
            self.spells.append(Spell(kind, member.name, words, began_at, time.monotonic()))


async def kill(hand: Hand) -> None:
    """End a process by kill -9, and start it again at the same address."""
    member = hand.anybody()
    with hand.spell("kill", member):
        await member.kill()
        await hand.pass_time(hand.force.away_seconds)
        await member.begin(tuple(other.uri for other in hand.members if other is not member))


async def stop(hand: Hand) -> None:
    """Let a process stand still, as a debugger or a machine without memory would."""
    member = hand.anybody()
    with hand.spell("stop", member):
        member.signal(signal.SIGSTOP)
        await hand.pass_time(hand.force.stopped_seconds)
        member.signal(signal.SIGCONT)


async def burst(hand: Hand) -> None:
    """Let a member ask thousands of questions at once."""
    member = hand.anybody()
    with hand.spell("burst", member, f"{hand.force.burst:,} questions at once"):
        member.say(f"burst {hand.force.burst}")


async def toil(hand: Hand) -> None:
    """Let a member send thousands of messages to actors that take 50 ms for each."""
    member = hand.anybody()
    with hand.spell("toil", member, f"{hand.force.toil:,} messages to slow consumers"):
        member.say(f"toil {hand.force.toil}")


async def clock(hand: Hand) -> None:
    """Set the clock of a member back or ahead, and right again after a while."""
    member, ahead = hand.anybody(), hand.chance.choice(AHEAD_SECONDS)
    with hand.spell("clock", member, f"{ahead:+,} s"):
        member.set_clock(ahead * NS_PER_SECOND)
        await hand.pass_time(hand.force.wrong_seconds)
        member.set_clock(0)


async def disk(hand: Hand) -> None:
    """Fill the disk of a capture, and give room again after a while."""
    member = hand.chance.choice([member for member in hand.members if member.disk])
    assert member.disk is not None
    with hand.spell("disk", member):
        member.disk.fill()
        await hand.pass_time(hand.force.wrong_seconds)
        member.disk.free()


async def cut(hand: Hand) -> None:
    """Pull the cable of a member, and plug it in again after a while."""
    member = hand.chance.choice([member for member in hand.members if member.wire])
    assert member.wire is not None
    with hand.spell("cut", member):
        member.wire.pull()
        await hand.pass_time(hand.force.wrong_seconds)
        member.wire.plug()


TROUBLES: Mapping[str, Callable[[Hand], Awaitable[None]]] = {
    each.__name__: each for each in (kill, stop, burst, toil, clock, disk, cut)
}

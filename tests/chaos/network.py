"""Networks under load and in trouble: what was done to them, and what became of them.

| network | members | what they are given |
|---|---|---|
| attacked | a1 and a2 ask b1 and b2, who ask them; all sign | kills, stops, bursts, slow consumers, full disks, cuts |
| open | c1 asks d1, who asks c1; nobody signs | clocks that are set: nothing may follow |
| signed | e1 asks f1, who asks e1; both sign | clocks that are set, and kills meanwhile |
| killed | as attacked, in its place (`--kills`) | kills and stops alone: nothing excuses the lake |

A stranger attacks the first network all the time.

The seed decides everything that is up to chance here; what the machine does in between is its own. Nothing may end but
what was killed here, and no promise may stay open.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tests.chaos.life import Life, Member
from tests.chaos.member import Role
from tests.chaos.record import Promise, Recorded, life_of, read_records
from tests.chaos.small_disk import SmallDisk, mounted
from tests.chaos.troubles import Force, Hand, Spell
from tests.chaos.wires import NotPossibleError, Wire, laid

__all__ = ["ATTACKED", "KILLED", "NETWORKS", "OPEN", "SMALL_DISK", "Network", "Order", "Report", "run"]


@dataclass(frozen=True, slots=True)
class Network:
    """Members that know each other, and the hands that make trouble for them."""

    name: str
    members: tuple[str, ...]
    hands: tuple[tuple[str, ...], ...]
    is_signed: bool = True
    is_attacked: bool = False
    share: float = 1.0  # of the rate

    def has(self, flow: str) -> bool:
        """Tell whether a flow, or a life, is of one of the members."""
        return flow.startswith(self.members)


ATTACKED = Network(
    "attacked",
    ("a1", "a2", "b1", "b2"),
    (("kill", "kill", "kill", "stop", "burst", "toil"), ("disk", "cut")),
    is_attacked=True,
)
OPEN = Network("open", ("c1", "d1"), (("clock",),), is_signed=False, share=0.3)
SIGNED = Network("signed", ("e1", "f1"), (("clock",), ("kill",)), share=0.3)
NETWORKS = (ATTACKED, OPEN, SIGNED)
KILLED = Network("killed", ATTACKED.members, (("kill", "kill", "kill", "stop"),))
SURROUNDINGS = frozenset({"disk", "cut"})  # troubles that need a disk or cables of their own
SMALL_DISK = "b2"  # the member whose capture lies on a disk of its own
QUIET_SECONDS = 5.0  # at the end, so that the last restart is over
LOOK_SECONDS = 0.5  # between two samples of memory and descriptors

Attack = Callable[[Sequence[str]], Awaitable[None]]  # on these addresses, until it is cancelled


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done."""

    seconds: float
    seed: int
    rate: float = 100.0  # questions of each member in a second
    force: Force = field(default_factory=Force)
    attacks: Sequence[Attack] = ()
    networks: Sequence[Network] = NETWORKS


@dataclass(slots=True)
class Report:
    """What happened."""

    order: Order
    captures: Path
    began_at: float
    ended_at: float = 0.0
    epoch: float = field(default_factory=lambda: time.time() - time.monotonic())  # of the monotonic clock, in seconds
    spells: list[Spell] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # members that went without being killed
    lives: list[Life] = field(default_factory=list)
    attacks: list[str] = field(default_factory=list)  # attackers that failed by themselves, and why
    left_out: list[str] = field(default_factory=list)  # troubles that this machine does not allow, and why
    recorded: Recorded = field(default_factory=Recorded)

    def hanging(self) -> list[Promise]:
        """Give the promises that did not end though their member lived."""
        gone = {life.name for life in self.lives if life.ended_at}
        return [each for each in self.recorded.promises.values() if not each.told and life_of(each.flow) not in gone]


async def run(directory: Path, order: Order) -> Report:
    """Let the networks live, and give the report; what they captured is in the directory."""
    for name in ("told", "logs", "captures"):
        (directory / name).mkdir(parents=True)
    (directory / "secret").write_bytes(os.urandom(32))
    report = Report(order, directory / "captures", time.monotonic())
    with ExitStack() as stack:
        wires, disk = _surroundings(stack, directory, report)
        networks = {
            network: [_member(directory, order, name, network, wires.get(name), disk) for name in network.members]
            for network in order.networks
        }
        try:
            async with asyncio.TaskGroup() as group:
                for network, members in networks.items():
                    group.create_task(_live(network, members, report))
        finally:
            for member in chain.from_iterable(networks.values()):
                if member.is_running:
                    await member.kill()
                report.lives += member.lives
        if disk is not None:
            disk.ship()
            for file in disk.path.glob("*.arrows"):
                shutil.copy(file, report.captures)
    report.ended_at = time.monotonic()
    report.spells.sort(key=lambda spell: spell.began_at)
    report.recorded = read_records(directory / "told")
    return report


def _surroundings(stack: ExitStack, directory: Path, report: Report) -> tuple[dict[str, Wire], SmallDisk | None]:
    """Lay cables and mount a small disk, as far as the machine allows it."""
    wires: dict[str, Wire] = {}
    disk = None
    cards = {card for network in report.order.networks for hand in network.hands for card in hand}
    if not cards & SURROUNDINGS:
        return wires, disk
    try:
        wires = stack.enter_context(laid(ATTACKED.members))
    except NotPossibleError as error:
        report.left_out.append(f"no network was cut: {error}")
    try:
        disk = stack.enter_context(mounted(directory / "disk", report.captures))
    except NotPossibleError as error:
        report.left_out.append(f"no disk was full: {error}")
    return wires, disk


def _member(
    directory: Path, order: Order, name: str, network: Network, wire: Wire | None, disk: SmallDisk | None
) -> Member:
    disk = disk if name == SMALL_DISK else None
    role = Role(
        name,
        life=0,
        listen=f"tcp://{wire.host if wire else '127.0.0.1'}:0",
        peers=(),
        others=tuple(other for other in network.members if other != name),
        captures=str(disk.path if disk else directory / "captures"),
        told=str(directory / "told" / f"{name}.jsonl"),
        secret=(directory / "secret").read_bytes() if network.is_signed else b"",
        seed=order.seed,
        rate=order.rate * network.share,
        has_small_buffer=disk is not None,
    )
    return Member(role, directory / "logs" / f"{name}.txt", wire, disk)


async def _live(network: Network, members: list[Member], report: Report) -> None:
    """Start members, make trouble, and let them go."""
    for member in members:
        await member.begin(tuple(each.uri for each in members if each.uri))
    uris = [member.uri for member in members]
    attacks = report.order.attacks if network.is_attacked else ()
    others = [asyncio.ensure_future(attack(uris)) for attack in attacks]
    others.append(asyncio.ensure_future(_watch(members, report)))
    try:
        await _suffer(network, members, report)
        await _all(Member.rest, members, report)
    finally:
        for other in others:
            other.cancel()
        for failed in await asyncio.gather(*others, return_exceptions=True):
            if isinstance(failed, Exception):
                report.attacks.append(f"{type(failed).__name__}: {failed}")
    await _all(Member.end, members, report)


async def _suffer(network: Network, members: list[Member], report: Report) -> None:
    order = report.order
    until = time.monotonic() + order.seconds - QUIET_SECONDS
    is_here = {"disk": any(member.disk for member in members), "cut": any(member.wire for member in members)}
    async with asyncio.TaskGroup() as group:
        for number, cards in enumerate(network.hands):
            hand = Hand(members, order.force, random.Random(f"{order.seed} {network.name} {number}"), report.spells)
            group.create_task(hand.play([card for card in cards if is_here.get(card, True)], until))
    await asyncio.sleep(QUIET_SECONDS)


async def _watch(members: list[Member], report: Report) -> None:
    """Take samples, and start a member again that has gone by itself."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for member in members:
            if member.is_running:
                member.look()
            elif not member.life.was_killed:
                report.ended.append(f"{member.life.name} ended with {member.process.returncode}")
                member.life.ended_at = time.monotonic()
                await member.begin(tuple(other.uri for other in members if other is not member))


async def _all(step: Callable[[Member], Awaitable[None]], members: list[Member], report: Report) -> None:
    """Let all members take a step at the same time; a member that cannot has gone before."""
    for ending in await asyncio.gather(*map(step, members), return_exceptions=True):
        if isinstance(ending, BaseException):
            report.ended.append(f"{type(ending).__name__}: {ending}")

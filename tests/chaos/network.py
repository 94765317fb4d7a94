"""Four members under load, killed, stopped and disturbed: what was done to them, and what they were told.

Members a1 and a2 ask b1 and b2, and the other way round. Every few seconds one of them is killed and comes back under
the same identity and address, or is stopped for a while. A stranger attacks all of them all the time. The seed decides
everything that is up to chance here; what the machine does in between is its own.

Nothing may end but what was killed here, and no promise may stay open.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.member import Role

__all__ = ["Promise", "Report", "promises_of", "run"]

ROOT = Path(__file__).parents[2]
NAMES = ("a1", "a2", "b1", "b2")
PAUSE_SECONDS = (2.0, 5.0)  # between two blows
AWAY_SECONDS = (0.0, 1.5)  # that a killed member stays away
STOPPED_SECONDS = (0.5, 2.0)
BLOWS = {"kill": 3, "stop": 1}
QUIET_SECONDS = 5.0  # at the end, so that the last restart is over
STEP_SECONDS = 60.0

Attack = Callable[[Sequence[str]], Awaitable[None]]  # on these addresses, until it is cancelled


@dataclass(frozen=True, slots=True)
class Promise:
    """One call of a member, and what it came to; nothing where the member was killed first."""

    flow: str
    call: str
    temper: str
    told: str = ""


@dataclass(slots=True)
class Report:
    """What happened."""

    captures: Path
    blows: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)  # members that went without being killed
    members: list[dict[str, Any]] = field(default_factory=list)  # what each counted at its end
    attacks: list[str] = field(default_factory=list)  # attackers that failed by themselves, and why
    promises: dict[str, Promise] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)  # lives, as `a1-3`

    def hanging(self) -> list[Promise]:
        """Give the promises that did not end though their member lived."""
        return [each for each in self.promises.values() if not each.told and life_of(each.flow) not in self.killed]


def life_of(flow: str) -> str:
    """Give the life of a member that a flow began in."""
    return flow.rpartition("-")[0]


class _Member:
    """A member as seen from outside."""

    def __init__(self, name: str, directory: Path, secret: bytes, seed: int, rate: float) -> None:
        self.name, self._directory = name, directory
        told = directory / "told" / f"{name}.jsonl"
        captures = directory / "captures"
        self._role = Role(name, -1, "tcp://127.0.0.1:0", (), str(captures), str(told), secret, seed, rate)
        self.uri = ""
        self.process: asyncio.subprocess.Process | None = None

    @property
    def life(self) -> str:
        """The name of the life that it leads now."""
        return f"{self.name}-{self._role.life}"

    async def begin(self, peers: tuple[str, ...]) -> None:
        """Start it, at the address that it had before."""
        role = msgspec.structs.replace(self._role, life=self._role.life + 1, peers=peers, listen=self.uri or "")
        self._role = role if self.uri else msgspec.structs.replace(role, listen="tcp://127.0.0.1:0")
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        with open(self._directory / "logs" / f"{self.name}.txt", "ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.chaos.member", msgspec.json.encode(self._role).decode()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environ,
                start_new_session=True,
            )
        self.uri = (await self._line()).decode().strip()

    async def _line(self) -> bytes:
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(STEP_SECONDS):
            line = await self.process.stdout.readline()
        if not line:
            raise ChildProcessError(f"{self.life} ended with {await self.process.wait()}")
        return line

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, which this program has started."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    async def kill(self) -> None:
        """End it as if the power failed."""
        assert self.process is not None
        self.signal(signal.SIGKILL)
        await self.process.wait()

    async def end(self) -> dict[str, Any]:
        """Let it wait for its promises and go; gives what it counted."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        counts: dict[str, Any] = msgspec.json.decode(await self._line())
        async with asyncio.timeout(STEP_SECONDS):
            await self.process.wait()
        return {**counts, "exit": self.process.returncode}


async def run(directory: Path, seconds: float, seed: int, rate: float, attacks: Sequence[Attack] = ()) -> Report:
    """Let a network live for so long, and give the report; its captures are in the directory."""
    for name in ("told", "logs", "captures"):
        (directory / name).mkdir(parents=True)
    secret, report = os.urandom(32), Report(directory / "captures")
    (directory / "secret").write_bytes(secret)
    members = [_Member(name, directory, secret, seed, rate) for name in NAMES]
    attackers: list[asyncio.Future[None]] = []
    try:
        for member in members:
            await member.begin(tuple(each.uri for each in members if each.uri))
        uris = [member.uri for member in members]
        attackers = [asyncio.ensure_future(attack(uris)) for attack in attacks]
        await _beat(members, report, seconds, random.Random(seed))
        for ending in await asyncio.gather(*(member.end() for member in members), return_exceptions=True):
            if isinstance(ending, BaseException):
                report.ended.append(f"{type(ending).__name__}: {ending}")
            else:
                report.members.append(ending)
    finally:
        for attacker in attackers:
            attacker.cancel()
        for failed in await asyncio.gather(*attackers, return_exceptions=True):
            if isinstance(failed, Exception):
                report.attacks.append(f"{type(failed).__name__}: {failed}")
        for member in members:
            if member.process is not None and member.process.returncode is None:
                await member.kill()
    report.promises = {each.flow: each for each in promises_of(directory / "told")}
    return report


async def _beat(members: list[_Member], report: Report, seconds: float, chance: random.Random) -> None:
    """Kill and stop members until the time is over, and look whether one has gone by itself."""
    until = time.monotonic() + seconds - QUIET_SECONDS
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(*PAUSE_SECONDS))
        member = chance.choice(members)
        for each in members:
            if each.process is None or each.process.returncode is not None:
                report.ended.append(f"{each.life} ended with {each.process and each.process.returncode}")
                report.killed.add(each.life)
                await each.begin(tuple(other.uri for other in members if other is not each))
        blow = chance.choices(list(BLOWS), list(BLOWS.values()))[0]
        report.blows[blow] += 1
        if blow == "stop":
            member.signal(signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(*STOPPED_SECONDS))
            member.signal(signal.SIGCONT)
        else:
            await member.kill()
            report.killed.add(member.life)
            await asyncio.sleep(chance.uniform(*AWAY_SECONDS))
            await member.begin(tuple(other.uri for other in members if other is not member))
    await asyncio.sleep(QUIET_SECONDS)


def promises_of(told: Path) -> Iterator[Promise]:
    """Read what members wrote down of their promises."""
    for path in sorted(told.glob("*.jsonl")):
        asked: dict[str, Promise] = {}
        for line in path.read_bytes().splitlines():
            match msgspec.json.decode(line, type=list[str]):
                case ["asked", flow, call, temper]:
                    asked[flow] = Promise(flow, call, temper)
                case ["ended", flow, told_as]:
                    asked[flow] = Promise(flow, asked[flow].call, asked[flow].temper, told_as)
        yield from asked.values()

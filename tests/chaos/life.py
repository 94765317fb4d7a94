"""A member as seen from outside: its process, its lives one after the other, and what each life costs."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hopwire.model.units import MEBIBYTE
from tests.chaos.member import Role
from tests.chaos.small_disk import SmallDisk
from tests.chaos.wires import Wire

__all__ = ["Life", "Member", "Sample"]

ROOT = Path(__file__).parents[2]
STEP_SECONDS = 120.0  # for a member to do anything that it is told


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process has at one moment."""

    rss_mb: int
    descriptors: int


@dataclass(slots=True)
class Life:
    """One life of a member."""

    name: str  # as `a1-3`
    began_at: float
    ready_at: float = 0.0
    ended_at: float = 0.0  # for a life that ended before its time
    was_killed: bool = False
    samples: list[Sample] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)  # what the member counted, if it went by itself
    exit_code: int | None = None


class Member:
    """Starts, tells, stops and ends one member."""

    module = "tests.chaos.member"  # what its process runs

    def __init__(self, role: Role, log: Path, wire: Wire | None = None, disk: SmallDisk | None = None) -> None:
        self.name, self.wire, self.disk = role.name, wire, disk
        self.uri = ""
        self.lives: list[Life] = []
        self._role, self._log = role, log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def life(self) -> Life:
        """The life that it leads now, or led last."""
        return self.lives[-1]

    @property
    def process(self) -> asyncio.subprocess.Process:
        """Its process."""
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.returncode is None

    async def begin(self, peers: tuple[str, ...]) -> None:
        """Start it, at the address and with the clock that it had before."""
        role = msgspec.structs.replace(self._role, life=len(self.lives), peers=peers)
        command = (sys.executable, "-m", self.module, msgspec.json.encode(role).decode())
        with open(self._log, "ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(self.wire.prefix if self.wire else ()),
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
                start_new_session=True,
            )
        self.lives.append(Life(f"{self.name}-{role.life}", time.monotonic()))
        self.uri = (await self._line()).decode().strip()
        self.life.ready_at = time.monotonic()
        self._role = msgspec.structs.replace(self._role, listen=self.uri)

    async def _line(self) -> bytes:
        assert self.process.stdout is not None
        async with asyncio.timeout(STEP_SECONDS):
            line = await self.process.stdout.readline()
        if not line:
            raise ChildProcessError(f"{self.life.name} ended with {await self.process.wait()}")
        return line

    def say(self, line: str) -> None:
        """Tell it what to do; a member that is gone hears nothing."""
        assert self.process.stdin is not None
        if self.is_running:
            self.process.stdin.write(line.encode() + b"\n")

    def set_clock(self, ahead_ns: int) -> None:
        """Set its clock, in this life and the next ones."""
        self._role = msgspec.structs.replace(self._role, clock_ns=ahead_ns)
        self.say(f"clock {ahead_ns}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, which this program has started."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    async def kill(self) -> None:
        """End it as if the power failed."""
        self.life.was_killed = self.is_running
        self.signal(signal.SIGKILL)
        self.life.exit_code = await self.process.wait()
        self.life.ended_at = time.monotonic()

    async def rest(self) -> None:
        """Let it ask no more, wait for its promises, and reach all others."""
        self.say("rest")
        if await self._line() != b"rested\n":
            raise ChildProcessError(f"{self.life.name} did not rest")

    async def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.life.counts = msgspec.json.decode(await self._line())
        async with asyncio.timeout(STEP_SECONDS):
            self.life.exit_code = await self.process.wait()

    def look(self) -> None:
        """Take a sample of what the process has now."""
        if not self.is_running or not self.life.ready_at:
            return
        where = Path("/proc") / str(self.process.pid)
        with suppress(OSError, ValueError, IndexError):
            pages = int((where / "statm").read_text().split()[1])
            descriptors = len(os.listdir(where / "fd"))
            self.life.samples.append(Sample(pages * resource.getpagesize() // MEBIBYTE, descriptors))

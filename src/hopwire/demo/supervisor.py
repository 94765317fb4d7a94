"""All processes of the shop, from the first hello to the last goodbye.

Nothing here waits for a time: each step waits until it is done, or for so long that something must be wrong. However it
ends, no process is left: those that do not go by themselves are killed, by their number.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hopwire.demo.process import Assignment
from hopwire.demo.roles import KILLED, ROLES, SHOP, domains_of
from hopwire.demo.stranger import STRANGER
from hopwire.demo.trouble import TROUBLES
from hopwire.disk import OWNER_ONLY, make_directory
from hopwire.errors import Timeout, Unreachable
from hopwire.model.reasons import WIRE_REASONS
from hopwire.security import Domains

__all__ = ["CAPTURES", "PATIENCE_SECONDS", "Day", "live"]

CAPTURES, LOGS = "captures", "logs"
PATIENCE_SECONDS = 1.0  # on one machine a message that takes so long is lost
MARGIN_SECONDS = 1.0  # that the captures go on for after that
STEP_SECONDS = 60.0  # for one act, however slow the machine
GOODBYE_SECONDS = 5.0
SECRET_BYTES = 32
FIRST_SHARE = 0.7  # of the orders come before billing is killed

OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Day:
    """What there is when everything is over."""

    captures: Path
    domains: Domains
    endings: Mapping[str, str]  # what the hub saw of each flow with a question
    seconds: float


class _Process:
    """One of the processes, as seen from outside."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, log: Path) -> None:
        self.process, self.name, self._log = process, name, log

    async def tell(self, what: Any) -> Any:
        """Say a line, and give the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(msgspec.json.encode(what) + b"\n")
            await self.process.stdin.drain()
            async with asyncio.timeout(STEP_SECONDS):
                answer = await self.process.stdout.readline()
        except TimeoutError:
            raise Timeout("timed_out", f"{self.name} did not answer within {STEP_SECONDS:.0f} s: {what}") from None
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if not answer:
            raise Unreachable("unreachable", f"the process of {self.name} ended: {self._last_words()}")
        return msgspec.json.decode(answer)

    def _last_words(self) -> str:
        lines = self._log.read_text("utf-8", "replace").splitlines()
        return lines[-1] if lines else "it says nothing"

    async def kill(self) -> None:
        """End it at once, as if the power failed."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)  # Process.kill would reap it behind the back of asyncio
        await self.process.wait()

    async def end(self) -> None:
        """Let it say goodbye, and kill it if that takes too long."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self.process.wait()
        except TimeoutError:
            await self.kill()


@asynccontextmanager
async def _process(name: str, logs: Path) -> AsyncIterator[_Process]:
    log = logs / f"{name}.txt"
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, OWNER_ONLY)) as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hopwire.demo.process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for us; they end when we do
        )
    running = _Process(process, name, log)
    try:
        yield running
    finally:
        await running.kill()


class _Supervisor:
    """The processes, and who is where."""

    def __init__(self, stack: AsyncExitStack, me: Assignment, logs: Path) -> None:
        self._stack, self._me, self._logs = stack, me, logs
        self._idle: dict[str, list[_Process]] = {}
        self.processes: dict[str, _Process] = {}
        self.uris: dict[str, str] = {}

    async def open(self, *names: str) -> None:
        """Start processes; each becomes somebody later, since starting takes long."""
        for name in names:
            process = await self._stack.enter_async_context(_process(name, self._logs))
            self._idle.setdefault(name, []).append(process)

    async def begin(self, name: str) -> None:
        """Let the next process of that name become a node that knows all who are there already."""
        self.processes[name] = self._idle[name].pop()
        others = tuple(uri for other, uri in self.uris.items() if uri and other != name)
        me = msgspec.structs.replace(self._me, name=name, peers=others)
        self.uris[name] = await self.processes[name].tell(me)

    async def act(self, name: str, *act: Any) -> Any:
        """Let a process do something, and wait until it is done."""
        return await self.processes[name].tell(act)


async def live(directory: Path, seed: int, orders: int, on_step: OnStep = lambda step: None) -> Day:
    """Let the shop have its day, with all its troubles; the captures are in the directory then."""
    logs, captures, secret = directory / LOGS, directory / CAPTURES, os.urandom(SECRET_BYTES)
    make_directory(logs)
    began = time.monotonic()
    me = Assignment("", secret, str(captures), (), seed, PATIENCE_SECONDS + MARGIN_SECONDS)
    async with AsyncExitStack() as stack:
        world = _Supervisor(stack, me, logs)
        endings = await _day(world, orders, on_step)
        on_step("closing")
        await asyncio.gather(*(process.end() for process in world.processes.values()))
    return Day(captures, domains_of(secret), endings, time.monotonic() - began)


async def _day(world: _Supervisor, orders: int, on_step: OnStep) -> dict[str, str]:
    on_step("starting the processes")
    await world.open(*ROLES, STRANGER, KILLED)  # the second of them is for later
    for name in (*ROLES, STRANGER):
        await world.begin(name)
    for name in ROLES:
        await world.act(name, "ready")
    first = round(orders * FIRST_SHARE)
    on_step("a stranger disturbs")
    await world.act(STRANGER, "disturb", world.uris["stock"])
    await _until_disturbed(world)
    on_step("orders, and what goes wrong with them")
    await world.act(SHOP, "suffer", first)
    await world.act(SHOP, "strand")
    await world.act(KILLED, "written")  # or what it saw last would die with it
    on_step(f"killing {KILLED}")
    await world.processes[KILLED].kill()
    await world.act(SHOP, "miss")
    on_step(f"starting {KILLED} again")
    await world.begin(KILLED)
    for name in (KILLED, "stock"):
        await world.act(name, "ready")
    await world.act(SHOP, "recover")
    on_step("more orders")
    await world.act(SHOP, "trade", orders - first)
    on_step("waiting for what will not come")
    endings: dict[str, str] = await world.act(SHOP, "rest")
    return endings


async def _until_disturbed(world: _Supervisor) -> None:
    """Wait until everything that the stranger sent has been refused."""
    async with asyncio.timeout(STEP_SECONDS):
        while True:
            dead = await world.act("stock", "count")
            broken = sum(count for reason, count in dead.items() if reason in WIRE_REASONS)
            if broken >= TROUBLES["broken"].times and dead.get("bad_signature", 0) >= TROUBLES["forged"].times:
                return

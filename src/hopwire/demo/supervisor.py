"""The day of the shop: starts all processes, tells them what to do, kills billing, cuts a link, and ends them all.

No step waits for a fixed time. A step waits until it is done, and fails after `STEP_SECONDS`. However the day ends, no
process is left: a process that does not end by itself is killed by its process id.
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
from hopwire.demo.shop import CUT_OFF, KILLED, RENDEZVOUS, ROLES, SHOP, domains_of
from hopwire.demo.trouble import STRANGER, TROUBLES
from hopwire.disk import OWNER_ONLY, make_directory
from hopwire.errors import Timeout, Unreachable
from hopwire.model.reasons import WIRE_REASONS
from hopwire.security import Domains

__all__ = ["CAPTURES", "PATIENCE_SECONDS", "Day", "live"]

CAPTURES, LOGS = "captures", "logs"
PATIENCE_SECONDS = 1.0  # on one machine, a message that takes longer is lost
MARGIN_SECONDS = 1.0  # the captures go on for so long after the patience is over
STEP_SECONDS = 60.0  # for one act, also on a slow machine
GOODBYE_SECONDS = 5.0
SECRET_BYTES = 32
CUT_SECONDS = 5.0  # long enough for the nodes to notice
FIRST_SHARE = 0.7  # the share of the orders that come before billing is killed

OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Day:
    """What a day leaves behind."""

    captures: Path
    domains: Domains
    endings: Mapping[str, str]  # correlation id of a question: what the hub saw of it
    seconds: float
    members: int = 0  # that every node knew in the end
    losses: tuple[str, ...] = ()  # nodes that another one gave up: each as often as that happened


class _Process:
    """One process, as seen from outside."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, log: Path) -> None:
        self.process, self.name, self._log = process, name, log

    async def tell(self, what: Any) -> Any:
        """Write one line to the process, and give its answer."""
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
        """End the process at once, as if the power failed."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)  # Process.kill reaps the process unseen by asyncio
        await self.process.wait()

    async def end(self) -> None:
        """Let the process say goodbye, and kill it if that takes too long."""
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
            start_new_session=True,  # Ctrl+C reaches this program only; the processes end with it
        )
    running = _Process(process, name, log)
    try:
        yield running
    finally:
        await running.kill()


class _Supervisor:
    """All processes, and the address of each node."""

    def __init__(self, stack: AsyncExitStack, me: Assignment, logs: Path) -> None:
        self._stack, self._me, self._logs = stack, me, logs
        self._idle: dict[str, list[_Process]] = {}
        self.processes: dict[str, _Process] = {}
        self.uris: dict[str, str] = {}

    async def open(self, *names: str) -> None:
        """Start processes, which takes long; `begin` makes a node of each later."""
        for name in names:
            process = await self._stack.enter_async_context(_process(name, self._logs))
            self._idle.setdefault(name, []).append(process)

    async def begin(self, name: str) -> None:
        """Make a node of the next process of this name; the node is told where the rendezvous is, and nothing else."""
        self.processes[name] = self._idle[name].pop()
        door = self.uris.get(RENDEZVOUS)
        me = msgspec.structs.replace(self._me, name=name, join=(door,) if door else ())
        self.uris[name] = await self.processes[name].tell(me)

    async def act(self, name: str, *act: Any) -> Any:
        """Let a process do an act, and give its result."""
        return await self.processes[name].tell(act)


async def live(directory: Path, seed: int, orders: int, on_step: OnStep = lambda step: None) -> Day:
    """Let the shop have its day, with all its troubles; the captures are in the directory afterwards."""
    logs, captures, secret = directory / LOGS, directory / CAPTURES, os.urandom(SECRET_BYTES)
    make_directory(logs)
    began = time.monotonic()
    me = Assignment("", secret, str(captures), (), seed, PATIENCE_SECONDS + MARGIN_SECONDS)
    async with AsyncExitStack() as stack:
        supervisor = _Supervisor(stack, me, logs)
        endings = await _day(supervisor, orders, on_step)
        counts = [await supervisor.act(name, "members") for name in ROLES]
        losses = [each for name in ROLES for each in await supervisor.act(name, "losses")]
        on_step("closing")
        await asyncio.gather(*(process.end() for process in supervisor.processes.values()))
    return Day(captures, domains_of(secret), endings, time.monotonic() - began, min(counts), tuple(losses))


async def _day(supervisor: _Supervisor, orders: int, on_step: OnStep) -> dict[str, str]:
    on_step("starting the processes")
    await supervisor.open(*ROLES, STRANGER, KILLED)  # the second process of KILLED begins after the first is killed
    for name in (*ROLES, STRANGER):
        await supervisor.begin(name)
    for name in ROLES:
        await supervisor.act(name, "ready")
    first = round(orders * FIRST_SHARE)
    on_step("a stranger disturbs")
    await supervisor.act(STRANGER, "disturb", supervisor.uris["stock"])
    await _until_disturbed(supervisor)
    on_step("orders, and what goes wrong with them")
    await supervisor.act(SHOP, "suffer", first)
    await supervisor.act(SHOP, "strand")
    await supervisor.act(KILLED, "written")  # or the last sightings of this node are lost with it
    on_step(f"killing {KILLED}")
    await supervisor.processes[KILLED].kill()
    await supervisor.act(SHOP, "miss")
    on_step(f"starting {KILLED} again")
    await supervisor.begin(KILLED)
    for name in (KILLED, "stock"):
        await supervisor.act(name, "ready")
    on_step(f"cutting the link between {SHOP} and {CUT_OFF}")
    await supervisor.act(SHOP, "cut", CUT_OFF, supervisor.uris[CUT_OFF])
    await asyncio.gather(supervisor.act(SHOP, "sever"), asyncio.sleep(CUT_SECONDS))
    await supervisor.act(SHOP, "cut", "", "")
    await supervisor.act(SHOP, "recover")
    on_step("more orders")
    await supervisor.act(SHOP, "trade", orders - first)
    on_step("waiting for answers that will not come")
    endings: dict[str, str] = await supervisor.act(SHOP, "rest")
    return endings


async def _until_disturbed(supervisor: _Supervisor) -> None:
    """Wait until stock has refused every message of the stranger."""
    async with asyncio.timeout(STEP_SECONDS):
        while True:
            dead = await supervisor.act("stock", "count")
            broken = sum(count for reason, count in dead.items() if reason in WIRE_REASONS)
            if broken >= TROUBLES["broken"].times and dead.get("bad_signature", 0) >= TROUBLES["forged"].times:
                return

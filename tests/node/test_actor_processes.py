"""Actors whose handlers run in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hopwire as hw
from tests.node.computing import Compute, Computed, Computer

ROOT = Path(__file__).parents[2]
SECONDS = 60.0


def eventually(is_so: object) -> None:
    """Wait until something is so."""
    assert callable(is_so)
    until = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def is_there(process: int) -> bool:
    """Tell whether a process runs; one that ends while the kernel is asked is gone."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.slow
def test_handlers_run_in_processes_of_their_own_and_a_process_that_dies_is_replaced() -> None:
    async def story() -> None:
        async with hw.Node() as node:
            node.host(Computer())
            hub = node.hub()

            async def ask(what: str = "") -> Computed:
                return await hub.ask(Compute(what), Computed, timeout=SECONDS)

            first = await ask()
            assert first.process != os.getpid()
            assert first.note == "started", "the actor is copied after its start"
            with pytest.raises(hw.HandlerFailed, match="as asked"):
                await ask("fail")
            with pytest.raises(hw.HandlerFailed, match="SystemExit"):
                await ask("exit")
            with pytest.raises(hw.HandlerFailed, match=r"Computer.compute: Unreadable: code 7"):
                await ask("unreadable")
            os.kill(first.process, signal.SIGTERM)  # as a service manager does with all processes of a service
            await ask()
            assert is_there(first.process), "neither an error nor the end of a service costs a process"
            with pytest.raises(hw.HandlerFailed, match="a process of Computer has ended"):
                await ask("die")
            again = await ask()
            assert again.process not in (first.process, os.getpid())
        eventually(lambda: not is_there(again.process))

    asyncio.run(story())


@pytest.mark.slow
def test_processes_end_with_their_node_also_in_the_middle_of_a_handler(tmp_path: Path) -> None:
    async def story() -> None:
        async with hw.Node() as node:
            node.host(Computer(str(tmp_path)))
            asked = [asyncio.ensure_future(node.hub().ask(Compute("stick"), Computed, timeout=600)) for _ in range(2)]
            while len(list(tmp_path.iterdir())) < 2:
                await asyncio.sleep(0.01)
            assert not any(each.done() for each in asked), "two at a time, each in a process"
            await node.stop(timeout=0.2)
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(story())
    eventually(lambda: not any(is_there(int(path.name)) for path in tmp_path.iterdir()))


@pytest.mark.slow
def test_processes_end_when_their_node_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with subprocess.Popen([sys.executable, "-m", "tests.node.computing", str(tmp_path)], env=environment) as node:
        eventually(lambda: any(tmp_path.iterdir()))
        node.kill()
    eventually(lambda: not any(is_there(int(path.name)) for path in tmp_path.iterdir()))


class Asking(hw.Actor):
    executor = "processes"

    @hw.handles
    def compute(self, request: Compute, context: hw.BlockingContext) -> Computed:
        raise AssertionError


class Odd(Computer):
    executor = "fibres"


def refused(actor: hw.Actor) -> str:
    with pytest.raises(hw.SettingsError) as error:
        hw.Node().host(actor)
    return str(error.value)


def test_what_cannot_run_in_processes_is_refused_in_words() -> None:
    assert "Asking.compute runs in a process, where it has no context" in refused(Asking())
    assert "Odd.executor must be one of threads, processes, found 'fibres'" in refused(Odd())
    locked = Computer()
    locked.handle = sys.stdout  # type: ignore[attr-defined]
    assert "Computer runs in processes, and cannot be copied to them: TypeError" in refused(locked)

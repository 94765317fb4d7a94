"""Real processes that know one door: they find everybody, and go on whoever is killed or stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 40  # on a machine that is busy with other tests
pytestmark = pytest.mark.slow


class Process:
    """A member in a process of its own."""

    def __init__(self, *command: str) -> None:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        self._process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )
        assert self._process.stdout is not None
        self.uri = self._process.stdout.readline().strip()

    def say(self, what: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, what: str) -> str:
        self.say(what)
        return self.hear()

    def tell(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def running(*command: str) -> Iterator[Process]:
    process = Process(*command)
    try:
        yield process
    finally:
        process.end()


def member(*doors: str) -> tuple[str, ...]:
    return ("-m", "tests.node.joining_child", *doors)


def wait_for(members: list[Process], what: str, count: int) -> float:
    """Wait until all members say so, and give the seconds that it took."""
    began = time.monotonic()
    while any(process.ask(what) != str(count) for process in members):
        assert time.monotonic() - began < PATIENCE_SECONDS, [process.ask(what) for process in members]
    return time.monotonic() - began


def test_members_find_each_other_through_one_door_and_go_on_without_it() -> None:
    with ExitStack() as stack:
        door = stack.enter_context(running("-m", "hopwire.cli", "rendezvous", "--listen", "tcp://127.0.0.1:0"))
        members = [stack.enter_context(running(*member(door.uri))) for _ in range(4)]
        wait_for(members, "peers", 4)
        wait_for(members, "routes", 4)
        assert [process.ask("ask") for process in members] == ["hello x"] * 4

        door.end()
        print(f"the door is missed after {wait_for(members, 'peers', 3):.2f} s")
        assert [process.ask("ask") for process in members] == ["hello x"] * 4

        members.append(stack.enter_context(running(*member(members[1].uri))))
        wait_for(members, "routes", 5)

        members.pop(0).end()
        print(f"a killed member is unrouted everywhere after {wait_for(members, 'routes', 4):.2f} s")
        wait_for(members, "peers", 3)
        assert [process.ask("ask") for process in members] == ["hello x"] * 4


def test_member_that_stands_still_for_three_seconds_is_not_dead() -> None:
    with ExitStack() as stack:
        first = stack.enter_context(running(*member()))
        members = [first, *(stack.enter_context(running(*member(first.uri))) for _ in range(3))]
        wait_for(members, "routes", 4)
        still = members.pop()
        still.tell(signal.SIGSTOP)
        for process in members:
            process.say("lost 3")
        assert [process.hear() for process in members] == ["0"] * 3
        assert [process.ask("peers") for process in members] == ["3"] * 3
        still.tell(signal.SIGCONT)
        assert still.ask("peers") == "3"
        assert [process.ask("routes") for process in (*members, still)] == ["4"] * 4


def test_member_that_stands_still_for_ten_seconds_is_not_dead_by_one_accuser() -> None:
    with ExitStack() as stack:
        first = stack.enter_context(running(*member()))
        still = stack.enter_context(running(*member(first.uri)))
        wait_for([first, still], "routes", 2)
        still.tell(signal.SIGSTOP)
        assert first.ask("lost 10") == "0"
        assert first.ask("peers") == "1"
        still.tell(signal.SIGCONT)
        assert (first.ask("routes"), still.ask("routes")) == ("2", "2")

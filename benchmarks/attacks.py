"""Attacks on a node in a process of its own, and what honest questions meet with meanwhile.

    python -m benchmarks.attacks --seconds 3

The attacks are those of `tests/attacks`. An honest node in a third process asks eight questions at a time: first alone,
then while the attack is repeated. What the attacker says is counted by the attacked node, as dead letters by reason.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from msgspec.structs import replace

from benchmarks.timing import show_table
from hopwire.cluster.gossip import Accusation, Rumours
from hopwire.errors import HopwireError
from hopwire.node import Node
from tests.attacks import test_bounds as bounds
from tests.attacks.test_anything import Chatter
from tests.attacks.victim import DOMAINS, node_of, victim
from tests.node.stories import Greet, Greeting

IN_FLIGHT = 8
MEGABYTE = 1024 * 1024
Attack = Callable[[str, threading.Event], None]


class Trial(NamedTuple):
    """An attack, the kind of node that is attacked, and who attacks."""

    name: str
    attack: Attack
    kind: str = "open"
    who: str = "a stranger"


# -- attackers


def repeated(attack: bounds.Attack) -> Attack:
    """Let strangers attack again and again, each time over new connections."""

    def play(uri: str, is_over: threading.Event) -> None:
        while not is_over.is_set():
            with ExitStack() as stack:
                attack(uri, stack)

    return play


def chatter(kind: str) -> Attack:
    """A peer that says every kind of control message with every kind of value."""

    async def play(uri: str, is_over: threading.Event) -> None:
        async with Node(peers=[uri], domains=DOMAINS[kind]) as peer:
            await peer.knows(Greet)
            (node,) = peer.peers
            says = Chatter(1, (node,), peer.identity, peer._incarnation)
            while not is_over.is_set():
                for _ in range(50):
                    peer._outgoing.tell(node, says.payload())
                await asyncio.sleep(0.01)

    return lambda uri, is_over: asyncio.run(play(uri, is_over))


def liar(kind: str) -> Attack:
    """A member that accuses everybody in everybody's name, and writes records for others."""

    async def play(uri: str, is_over: threading.Event) -> None:
        async with Node(join=[uri], domains=DOMAINS[kind.removesuffix(" member")]) as mallory:
            await mallory.knows(Greet)
            joining = mallory._membership.joining
            assert joining is not None
            while not is_over.is_set():
                others = [each for each in joining.members.living() if each.node != mallory.identity]
                for each in others:
                    forged = replace(each, sequence=each.sequence + 1, uri="tcp://127.0.0.1:1")
                    said = [
                        Accusation(each.node, *each.age, by.node, True, by.incarnation, b"s" * 64)
                        for by in joining.members.living()
                    ]
                    for words in (Rumours(mallory.identity, mallory._incarnation, (forged,)),
                                  Rumours(mallory.identity, mallory._incarnation, (), tuple(said))):  # fmt: skip
                        for node in mallory.peers:
                            mallory._membership.tell(node, words)
                await asyncio.sleep(0.01)

    return lambda uri, is_over: asyncio.run(play(uri, is_over))


UNENDED = (bounds.announced_frames, bounds.silent_connections, bounds.frames_without_end, bounds.pings)
HANDSHAKES = (bounds.half_hellos, bounds.hellos_without_an_end, bounds.large_records)
TRIALS = (
    *(Trial(each.__name__, repeated(each)) for each in (*bounds.ATTACKS, *UNENDED)),
    *(Trial(each.__name__, repeated(each), "encrypted") for each in HANDSHAKES),
    Trial("anything at all", chatter("open"), "open", "a peer"),
    Trial("anything at all", chatter("signed"), "signed", "a peer with the keys"),
    Trial("forged records, accusations", liar("signed member"), "signed member", "a member with the keys"),
)


# -- honest questions


async def ask_honestly(uri: str, kind: str) -> None:
    """Ask until the input ends; each line of it ends a part, and is answered with what became of the questions."""
    loop, took, ended = asyncio.get_running_loop(), list[float](), list[str]()
    async with node_of(kind, peers=(uri,)) as honest:
        await honest.knows(Greet)
        hub = honest.hub()

        async def ask() -> None:
            while True:
                began = time.perf_counter()
                try:
                    await hub.ask(Greet("x"), Greeting, timeout=20)
                    took.append(time.perf_counter() - began)
                except HopwireError as error:
                    ended.append(type(error).__name__)

        asking = [asyncio.ensure_future(ask()) for _ in range(IN_FLIGHT)]
        print("ready", flush=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps({"took": sorted(took), "ended": ended}), flush=True)
            took.clear()
            ended.clear()
        for each in asking:
            each.cancel()


def part(honest: subprocess.Popen[str]) -> dict[str, Any]:
    """Give what became of the questions since the last part."""
    assert honest.stdin is not None
    assert honest.stdout is not None
    honest.stdin.write("\n")
    honest.stdin.flush()
    found: dict[str, Any] = json.loads(honest.stdout.readline())
    return found


def tried(trial: Trial, seconds: float) -> tuple[object, ...]:
    """Attack, and give a row."""
    with victim(trial.kind) as it:
        honest = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.attacks", "--honest", it.uri, "--kind", trial.kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert honest.stdout is not None
            assert honest.stdout.readline() == "ready\n"
            part(honest)
            time.sleep(seconds)
            alone, before, is_over = part(honest), it.report(), threading.Event()
            attacking = threading.Thread(target=trial.attack, args=(it.uri, is_over))
            attacking.start()
            time.sleep(seconds)
            meanwhile, after = part(honest), it.report()
            is_over.set()
            attacking.join()
        finally:
            honest.kill()
            honest.communicate()
    return _row(trial, alone, meanwhile, before, after, seconds)


def _row(
    trial: Trial,
    alone: dict[str, Any],
    meanwhile: dict[str, Any],
    before: dict[str, Any],
    after: dict[str, Any],
    seconds: float,
) -> tuple[object, ...]:
    counts = {reason: n - before["dead_letters"].get(reason, 0) for reason, n in after["dead_letters"].items()}
    refused = ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items()) if count)
    took = meanwhile["took"]
    return (
        trial.name.replace("_", " "),
        trial.who,
        trial.kind,
        refused or "no dead letter",
        f"{len(took):,}",
        len(meanwhile["ended"]),
        f"{len(took) / max(1, len(alone['took'])):.2f} x",
        f"{statistics.median(took) * 1e3:.1f} ms, {took[-1 - len(took) // 100] * 1e3:.0f} ms" if took else "",
        f"{(after['bytes'] - before['bytes']) / MEGABYTE:+.0f} MB",
    )


def run(seconds: float = 2.0) -> None:
    """Try every attack, and print the table."""
    title = "attacks on one node, and the honest questions of another meanwhile"
    header = (
        "attack",
        "by",
        "node",
        "refused as",
        "answered",
        "not answered",
        "beside no attack",
        "p50, p99",
        "memory",
    )
    show_table(title, header, [tried(trial, seconds) for trial in TRIALS])


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks")
    parser.add_argument("--seconds", type=float, default=2.0, help="before each attack, and of each")
    parser.add_argument("--honest", help=argparse.SUPPRESS)
    parser.add_argument("--kind", default="open", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.honest:
        asyncio.run(ask_honestly(options.honest, options.kind))
    else:
        run(options.seconds)


if __name__ == "__main__":
    main()

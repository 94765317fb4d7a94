"""A node in a process of its own, to be attacked: it hosts a Greeter, and answers each line of its input with a report.

with victim("signed") as it:
    it.report()["dead_letters"]
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hopwire.node import Node
from hopwire.security import OPEN, Domain, Domains, Key
from tests.node.certificates import OURS
from tests.node.stories import Greeter

ROOT = Path(__file__).parents[2]
DOMAINS = {
    "open": OPEN,
    "signed": Domains([Domain("all", [Key("k", b"0123456789abcdef")], ["greeter.*", "hopwire.*"])]),
}
LOOK_EVERY_SECONDS = 0.01


class Victim:
    """The process from outside."""

    def __init__(self, process: subprocess.Popen[str], uri: str) -> None:
        self.process, self.uri = process, uri

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def report(self, after_seconds: float = 0.0) -> dict[str, Any]:
        """Ask what the node has counted: dead letters, peers, memory now, and since the last report the most memory and
        the longest turn of its loop.

        A turn is measured in seconds of the processor, so that other programs on the machine do not count.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{after_seconds}\n")
        self.process.stdin.flush()
        report: dict[str, Any] = json.loads(self.process.stdout.readline())
        return report


@contextmanager
def victim(kind: str = "open", *peers: str, listen: str = "tcp://127.0.0.1:0") -> Iterator[Victim]:
    """Start a node in a process of its own: `open`, `signed`, `signed member` or `encrypted`."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.attacks.victim", kind, listen, *peers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ,
    )
    try:
        assert process.stdout is not None
        yield Victim(process, process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def node_of(kind: str, listen: str = "tcp://127.0.0.1:0", peers: tuple[str, ...] = ()) -> Node:
    """Make a node that such a victim talks to; `signed member` is one of a cluster, or founds it."""
    if kind == "signed member":
        return Node(listen, join=peers, domains=DOMAINS["signed"])
    return Node(listen, peers=peers, domains=DOMAINS.get(kind, OPEN), tls=OURS if kind == "encrypted" else None)


def resident_bytes() -> int:
    """Give the memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def main(kind: str, listen: str, peers: tuple[str, ...]) -> None:
    loop = asyncio.get_running_loop()
    worst, most = 0.0, 0

    async def watch() -> None:
        nonlocal worst, most
        while True:
            began = time.thread_time()
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            worst = max(worst, time.thread_time() - began - LOOK_EVERY_SECONDS)
            most = max(most, resident_bytes())

    async with node_of(kind, listen, peers) as node:
        watching = asyncio.ensure_future(watch())
        node.host(Greeter())
        print(node.uri, flush=True)
        while after_seconds := await loop.run_in_executor(None, sys.stdin.readline):
            await asyncio.sleep(float(after_seconds))
            now = resident_bytes()
            report = {
                "dead_letters": dict(node.dead_letters.counts),
                "peers": len(node.peers),
                "turn": worst,
                "bytes": now,
                "most_bytes": max(most, now),
            }
            worst, most = 0.0, 0
            print(json.dumps(report), flush=True)
        watching.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], tuple(sys.argv[3:])))

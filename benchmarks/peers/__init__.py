"""What `ask` is measured beside: one module for each peer, all with the same interface.

| name | meaning |
|---|---|
| `serve(ready, *options)` | calls `ready` with an address, then answers questions with their own body until killed |
| `connect(address, *options)` | a context manager that gives an `Ask`, or a `Pipe` where the peer blocks |

A peer without `serve` has no address: what it asks lives in its own process, or in one that it starts itself. The
options are those of the row in `PEERS`; most peers have none. Files go into the temporary directory (`tempfile`), which
the benchmark removes.

Each has the settings that its own documentation calls fast, and no codec where it can do without.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["IN_PROCESS", "PEERS", "TWO_PROCESSES", "Ask", "Peer", "Pipe", "Ready"]

Ask: TypeAlias = Callable[[bytes], Awaitable[bytes]]
Ready: TypeAlias = Callable[[str], None]
TWO_PROCESSES, IN_PROCESS = "two processes", "one process"


@dataclass(frozen=True, slots=True)
class Pipe:
    """A peer that blocks: questions go in at one end, their answers come out at the other in the same order."""

    submit: Callable[[bytes], object]
    collect: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Peer:
    """One row of the comparison."""

    key: str
    title: str
    module: str  # under benchmarks.peers
    where: str
    is_served: bool  # whether `serve` runs in a process of its own
    loop: str = "asyncio"  # or uvloop
    options: tuple[str, ...] = ()  # what `serve` and `connect` are given beside
    is_small_only: bool = False  # whether the smallest body says it all, so that a run stays short

    @property
    def is_written(self) -> bool:
        """Whether its bytes go to a file."""
        return not {"capture", "written"}.isdisjoint(self.options)


# fmt: off
PEERS = (
    #     key                    title                module     where          served loop      options        small
    Peer("echo",                 "plain pyzmq echo",  "echo",    TWO_PROCESSES, True),
    Peer("hopwire",              "hopwire",           "hopwire", TWO_PROCESSES, True),
    Peer("hopwire-uvloop",       "hopwire, uvloop",   "hopwire", TWO_PROCESSES, True,  "uvloop"),
    Peer("hopwire-capture",      "hopwire, capture",  "hopwire", TWO_PROCESSES, True,  "asyncio", ("capture",),   True),
    Peer("hopwire-signed",       "hopwire, signed",   "hopwire", TWO_PROCESSES, True,  "asyncio", ("signed",),    True),
    Peer("hopwire-signed-1",     "hopwire, signed 1", "hopwire", TWO_PROCESSES, True,  "asyncio", ("hopwire-1",), True),
    Peer("hopwire-tls",          "hopwire, TLS",      "hopwire", TWO_PROCESSES, True,  "asyncio", ("tls",),       True),
    Peer("hopwire-joined",       "hopwire, cluster",  "hopwire", TWO_PROCESSES, True,  "asyncio", ("joined",),    True),
    Peer("bare",                 "bare minimum",      "bare",    TWO_PROCESSES, True),
    Peer("bare-uvloop",          "bare, uvloop",      "bare",    TWO_PROCESSES, True,  "uvloop",  ("streams",),   True),
    Peer("bare-written",         "bare, written",     "bare",    TWO_PROCESSES, True,  "asyncio", ("written",),   True),
    Peer("bare-signed",          "bare, signed",      "bare",    TWO_PROCESSES, True,  "asyncio", ("signed",),    True),
    Peer("nats",                 "nats-py, uvloop",   "nats",    TWO_PROCESSES, True,  "uvloop"),
    Peer("xoscar",               "xoscar, uvloop",    "xoscar",  TWO_PROCESSES, True,  "uvloop"),
    Peer("grpc",                 "grpc.aio, uvloop",  "grpc",    TWO_PROCESSES, True,  "uvloop"),
    Peer("ray",                  "Ray",               "ray",     TWO_PROCESSES, False),
    Peer("pykka",                "Pykka",             "pykka",   IN_PROCESS,    False, "asyncio", (),             True),
    Peer("hopwire-local",        "hopwire",           "hopwire", IN_PROCESS,    False, "asyncio", (),             True),
    Peer("bare-local",           "bare minimum",      "bare_local", IN_PROCESS, False, "asyncio", (),             True),
    Peer("bare-promised",        "bare, promised",    "bare_local", IN_PROCESS, False, "asyncio", ("promised",), True),
    Peer("hopwire-local-uvloop", "hopwire, uvloop",   "hopwire", IN_PROCESS,    False, "uvloop",  (),             True),
)
# fmt: on

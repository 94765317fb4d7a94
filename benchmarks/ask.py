"""`ask` between two processes beside a plain pyzmq echo of four frames, and `ask` within one node."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import zmq

from benchmarks.timing import print_table
from hopwire import Payload
from hopwire.node import Actor, Node, handles

ROUNDS = 5
ONE_AT_A_TIME = 1_000
PIPELINED = 10_000
IN_FLIGHT = 1_000
BODY = b"x" * 256


class Ping(Payload, identity="bench.ping", version=1):
    data: bytes


class Pong(Payload, identity="bench.pong", version=1):
    data: bytes


class Echo(Actor):
    """Answers with what it got."""

    @handles
    async def ping(self, request: Ping) -> Pong:
        return Pong(request.data)


async def serve_hopwire() -> None:
    async with Node() as node:
        node.host(Echo())
        print(node.uri, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def serve_plain() -> None:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    print(f"tcp://127.0.0.1:{port}", flush=True)
    while True:
        socket.send_multipart(socket.recv_multipart())


@contextmanager
def server(which: str) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.ask", which]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def plain_times(uri: str) -> tuple[float, float]:
    """Round trips a second with many in flight, and the median of one at a time in us."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.set(zmq.SNDHWM, 0)
    socket.connect(uri)
    frames = [b"", b"id", BODY, b"m" * 200]
    alone = []
    for _ in range(ONE_AT_A_TIME):
        begin = time.perf_counter()
        socket.send_multipart(frames)
        socket.recv_multipart()
        alone.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(IN_FLIGHT):
        socket.send_multipart(frames)
    for _ in range(PIPELINED - IN_FLIGHT):
        socket.recv_multipart()
        socket.send_multipart(frames)
    for _ in range(IN_FLIGHT):
        socket.recv_multipart()
    rate = PIPELINED / (time.perf_counter() - begin)
    socket.close(0)
    return rate, statistics.median(alone) * 1e6


async def ask_times(ask: Callable[[], Awaitable[Pong]]) -> tuple[float, float]:
    alone = []
    for _ in range(ONE_AT_A_TIME):
        begin = time.perf_counter()
        await ask()
        alone.append(time.perf_counter() - begin)

    async def worker() -> None:
        for _ in range(PIPELINED // IN_FLIGHT):
            await ask()

    begin = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return PIPELINED / (time.perf_counter() - begin), statistics.median(alone) * 1e6


async def hopwire_times(uri: str | None) -> tuple[float, float]:
    async with Node(peers=[uri] if uri else []) as node:
        if uri is None:
            node.host(Echo())
        await node.knows(Ping)
        hub, ping = node.hub(), Ping(BODY)
        return await ask_times(lambda: hub.ask(ping, Pong))


def run() -> None:
    """Measure and print."""
    found: dict[str, list[tuple[float, float]]] = {
        "plain pyzmq echo": [],
        "ask, two processes": [],
        "ask, one node": [],
    }
    with server("plain") as plain, server("hopwire") as hopwire:
        for _ in range(ROUNDS):
            found["plain pyzmq echo"].append(plain_times(plain))
            found["ask, two processes"].append(asyncio.run(hopwire_times(hopwire)))
            found["ask, one node"].append(asyncio.run(hopwire_times(None)))
    best = {name: (max(rate for rate, _ in all_), min(p50 for _, p50 in all_)) for name, all_ in found.items()}
    base_rate, base_p50 = best["plain pyzmq echo"]
    rows = [
        [name, f"{rate:,.0f}", f"{rate / base_rate:.2f} x", f"{p50:.0f}", f"{p50 / base_p50:.2f} x"]
        for name, (rate, p50) in best.items()
    ]
    header = [
        "256 bytes",
        f"round trips/s, {IN_FLIGHT:,} in flight",
        "of the echo",
        "one at a time, p50 us",
        "of the echo",
    ]
    print_table("ask", header, rows)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["hopwire"]:
            asyncio.run(serve_hopwire())
        case ["plain"]:
            serve_plain()
        case _:
            run()

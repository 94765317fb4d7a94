"""One peer in a process of its own: `serve` it, or `drive` it and say how fast it was. `ask.py` starts both.
`sample-server` and `sample-client` do the same under a sampler, and say where the time goes (`sampling.py`).

Every peer is driven in the same way. Pipelined: a fixed number of questions is in flight at any time, each answer is
followed by the next question, and the answers that come within the time are counted once it has run warm. One at a
time: each question waits for the answer to the last, and each is timed.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import time
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import asdict, dataclass
from statistics import quantiles
from typing import Any, TypeAlias

from benchmarks.peers import PEERS, Ask, Peer, Pipe
from benchmarks.peers.cpu import cpu_seconds
from benchmarks.peers.sampling import ready_to_sample, sample_client

FEWEST = 200  # questions, one at a time, below which a p99 says nothing


@dataclass(frozen=True, slots=True)
class Plan:
    """How a peer is measured."""

    body_bytes: tuple[int, ...] = (256, 65_536)
    seconds: float = 0.8  # for each figure; a run of everything takes less than eight minutes
    warm_up_seconds: float = 0.3
    in_flight: int = 1_000
    sessions: tuple[int, ...] = ()  # of the processes whose processor time counts, beside our own

    def sizes_for(self, peer: Peer) -> tuple[int, ...]:
        """Give the sizes of the body that a peer is measured with."""
        return (min(self.body_bytes),) if peer.is_small_only else self.body_bytes


@dataclass(frozen=True, slots=True)
class Figures:
    """What one round found out about one peer and one size of body."""

    round_trips_per_second: float
    cpu_us: float  # of all processes together, for each round trip with many in flight
    p50_us: float
    p99_us: float


Round: TypeAlias = dict[int, Figures]  # by the size of the body


class Meter:
    """Counts what happens between its making and its reading."""

    def __init__(self, plan: Plan) -> None:
        self._sessions = {os.getsid(0), *plan.sessions}
        self._cpu, self._begin = cpu_seconds(self._sessions), time.perf_counter()

    def read(self, answered: int) -> tuple[float, float]:
        """Give round trips a second, and the processor time of each in us."""
        seconds, cpu = time.perf_counter() - self._begin, cpu_seconds(self._sessions) - self._cpu
        return answered / seconds, cpu / max(1, answered) * 1e6


def figures_from(rate_and_cpu: tuple[float, float], times: list[float]) -> Figures:
    """Give the figures; times are those of single questions, in seconds."""
    percentiles = quantiles(times, n=100)
    return Figures(*rate_and_cpu, percentiles[49] * 1e6, percentiles[98] * 1e6)


async def drive_ask(ask: Ask, body: bytes, plan: Plan) -> Figures:
    """Measure a peer that is asked by coroutines."""
    if await ask(body) != body:
        raise ValueError("the answer is not the question")
    answered, is_over = 0, False

    async def worker() -> None:
        nonlocal answered
        while not is_over:
            await ask(body)
            answered += 1

    workers = [asyncio.ensure_future(worker()) for _ in range(plan.in_flight)]
    await asyncio.sleep(plan.warm_up_seconds)
    meter, before = Meter(plan), answered
    await asyncio.sleep(plan.seconds)
    pipelined = meter.read(answered - before)
    is_over = True
    await asyncio.gather(*workers)
    await _times_of(ask, body, plan.warm_up_seconds)
    return figures_from(pipelined, await _times_of(ask, body, plan.seconds))


async def _times_of(ask: Ask, body: bytes, seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end or len(times) < FEWEST:
        await ask(body)
        times.append(time.perf_counter() - begin)
    return times


def drive_pipe(pipe: Pipe, body: bytes, plan: Plan) -> Figures:
    """Measure a peer that blocks."""
    submit, collect = pipe.submit, pipe.collect
    submit(body)
    if collect() != body:
        raise ValueError("the answer is not the question")
    for _ in range(plan.in_flight):
        submit(body)
    for seconds in (plan.warm_up_seconds, plan.seconds):
        meter, answered, end = Meter(plan), 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            collect()
            submit(body)
            answered += 1
        pipelined = meter.read(answered)
    for _ in range(plan.in_flight):
        collect()
    _pipe_times(pipe, body, plan.warm_up_seconds)
    return figures_from(pipelined, _pipe_times(pipe, body, plan.seconds))


def _pipe_times(pipe: Pipe, body: bytes, seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end or len(times) < FEWEST:
        pipe.submit(body)
        pipe.collect()
        times.append(time.perf_counter() - begin)
    return times


async def drive(context: AbstractAsyncContextManager[Ask] | AbstractContextManager[Pipe], plan: Plan) -> Round:
    """Measure a peer with every size of body."""
    found = {}
    async with AsyncExitStack() as stack:
        if isinstance(context, AbstractContextManager):
            pipe = stack.enter_context(context)
            return {size: drive_pipe(pipe, bytes(size), plan) for size in plan.body_bytes}
        ask = await stack.enter_async_context(context)
        for size in plan.body_bytes:
            found[size] = await drive_ask(ask, bytes(size), plan)
    return found


def run_with(peer: Peer, coroutine: Any) -> Any:
    """Run a coroutine on the event loop that the peer is measured with."""
    factory = importlib.import_module("uvloop").new_event_loop if peer.loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(coroutine)


def main(role: str, key: str, address: str = "", plan: str = "{}") -> None:
    """Play one role of one peer."""
    peer = next(each for each in PEERS if each.key == key)
    module = importlib.import_module(f"benchmarks.peers.{peer.module}")
    if role in ("serve", "sample-server"):
        serving = module.serve(_ready if role == "serve" else ready_to_sample, *peer.options)
        if inspect.isawaitable(serving):
            run_with(peer, serving)
        return
    wanted, context = Plan(**json.loads(plan)), module.connect(address, *peer.options)
    if role == "drive":
        found = run_with(peer, drive(context, wanted))
        print(json.dumps({size: asdict(figures) for size, figures in found.items()}), flush=True)
    else:
        body = bytes(min(wanted.body_bytes))
        print(run_with(peer, sample_client(context, body, wanted.in_flight, wanted.seconds)), flush=True)


def _ready(address: str) -> None:
    print(address, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

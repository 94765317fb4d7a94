"""Where the time goes: a timer of processor time interrupts the process, and the function that runs is counted.

What is counted is own time, without the time of the Python functions that a function calls. The time of functions in C
counts as own time of their caller, at the line of the call. The timer follows the clock of the kernel, 100 to 1,000
times a second, so the process is hardly slower for it; cProfile would double the cost of small functions.

The trap: Python looks for signals where functions begin, where loops turn and after calls. So a sample may land a few
bytecodes too late, in the function that is called next. Differences of a percent or two say nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import NoReturn

from benchmarks.peers import Ask

__all__ = ["Sampler", "ready_to_sample", "sample_client"]

INTERVAL_SECONDS = 0.001  # of processor time; most kernels take four times as long


class Sampler:
    """Counts what runs in the main thread, from `start` to `stop`."""

    def __init__(self) -> None:
        self._lines: Counter[tuple[str, str, int]] = Counter()
        self._cpu = self._main_cpu = 0.0

    def start(self) -> None:
        """Begin to count."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
        self._cpu, self._main_cpu = time.process_time(), time.thread_time()

    def stop(self, answered: int = 0) -> str:
        """Give what was found, as JSON; `answered` is how many questions were."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        found = {
            "cpu_seconds": time.process_time() - self._cpu,
            "main_thread_seconds": time.thread_time() - self._main_cpu,
            "answered": answered,
            "lines": [[*line, count] for line, count in self._lines.items()],
        }
        return json.dumps(found)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        if frame is not None:
            code = frame.f_code
            self._lines[code.co_filename, code.co_qualname, frame.f_lineno or 0] += 1


def ready_to_sample(address: str) -> None:
    """Say the address and begin to count; SIGTERM ends the process, which then says what it found."""
    sampler = Sampler()

    def end(number: int, frame: FrameType | None) -> NoReturn:
        print(sampler.stop(), flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print(address, flush=True)
    sampler.start()


async def sample_client(context: AbstractAsyncContextManager[Ask], body: bytes, in_flight: int, seconds: float) -> str:
    """Keep so many questions in flight for some time, and say what was found."""
    sampler = Sampler()
    async with context as ask:
        sampler.start()
        end = time.perf_counter() + seconds

        async def worker() -> int:
            answered = 0
            while time.perf_counter() < end:
                await ask(body)
                answered += 1
            return answered

        answered = sum(await asyncio.gather(*(worker() for _ in range(in_flight))))
        return sampler.stop(answered)

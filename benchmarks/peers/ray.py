"""Ray: an actor, which Ray itself starts in a process of its own; threads and `get` are its fast way, not asyncio."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from benchmarks.peers import Pipe


class Echo:
    """Answers with what it got."""

    def ask(self, body: bytes) -> bytes:
        return body


@contextmanager
def connect(address: str) -> Iterator[Pipe]:
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as directory:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=directory)
        actor = ray.remote(Echo).remote()
        asked: deque[Any] = deque()
        yield Pipe(
            submit=lambda body: asked.append(actor.ask.remote(body)),
            collect=lambda: ray.get(asked.popleft()),
        )
        ray.shutdown()

"""Nodes in processes of their own, and what they log."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cli.running import ROOT, environment, heed_ctrl_c


class NodeProcess:
    """A node in a process of its own."""

    def __init__(self, running: subprocess.Popen[bytes]) -> None:
        self.running = running

    def next(self, event: str) -> dict[str, Any]:
        """Give the next line that the node logs of an event."""
        assert self.running.stderr is not None
        for line in self.running.stderr:
            found: dict[str, Any] = json.loads(line)
            if found.get("event") == event:
                return found
        raise AssertionError(f"the node ended without {event}")

    def said(self) -> str:
        """Give the next line of the output."""
        assert self.running.stdout is not None
        return self.running.stdout.readline().decode().strip()


@contextmanager
def process_of(command: list[str], **changes: str) -> Iterator[NodeProcess]:
    """Start a node, and kill it in the end if it still runs."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**changes),
        cwd=ROOT,
        preexec_fn=heed_ctrl_c,
    ) as running:
        try:
            yield NodeProcess(running)
        finally:
            running.kill()

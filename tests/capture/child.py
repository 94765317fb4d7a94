"""A process that writes a capture, as it is told on stdin; it answers each line when it is done.

append N      append N more sightings and write what is due
break         write half of the next batch, and be killed
limit N       let no file grow beyond N bytes; 0 lifts it
close         end the capture and print its balance
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.capture.making import append_many, writer


def main(directory: str, settings: str) -> None:
    chosen: dict[str, Any] = {name: int(value) for name, _, value in (each.partition("=") for each in settings.split())}
    capture = writer(Path(directory), **chosen)
    for line in sys.stdin:
        order, *number = line.split()
        if order == "append":
            append_many(capture, int(number[0]), capture.status.offered, size=100)
        elif order == "break":
            os.pwritev = _write_half_and_die  # type: ignore[assignment]
        elif order == "limit":
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(number[0]) or hard, hard))
        elif order == "close":
            capture.close()
        print(asdict(capture.status), flush=True)


def _write_half_and_die(fd: int, parts: list[Any], position: int) -> int:
    data = b"".join(parts)
    os.pwrite(fd, data[: len(data) // 2], position)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

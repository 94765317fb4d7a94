"""nats-py: request and reply through a nats-server on the same machine."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats

from benchmarks.peers import Ask, Ready

SUBJECT = "bench.ask"
PLACES = [str(Path(sys.prefix) / "nats-server/usr/sbin"), os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]


async def serve(ready: Ready) -> None:
    server = shutil.which("nats-server", path=os.pathsep.join(PLACES))
    if server is None:
        raise FileNotFoundError("nats-server is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    subprocess.Popen([server, "-a", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"nats://127.0.0.1:{port}"
    client = await nats.connect(address, max_reconnect_attempts=50, reconnect_time_wait=0.1, error_cb=_ignore)

    async def answer(message: nats.aio.msg.Msg) -> None:
        await message.respond(message.data)

    await client.subscribe(SUBJECT, cb=answer)
    await client.flush()
    ready(address)
    await asyncio.Event().wait()


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Ask]:
    client = await nats.connect(address)

    async def ask(body: bytes) -> bytes:
        answer: bytes = (await client.request(SUBJECT, body, timeout=60)).data
        return answer

    yield ask
    await client.close()


async def _ignore(error: Exception) -> None:
    """The server is not there at once."""

"""xoscar: a stateless actor in the pool of another process."""

# mypy: disable-error-code="import-not-found, misc"
from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import xoscar

from benchmarks.peers import Ask, Ready

NAME = "echo"


class Echo(xoscar.StatelessActor):
    """Answers with what it got; without state it takes no lock."""

    async def ask(self, body: bytes) -> bytes:
        return body


async def serve(ready: Ready) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    pool = await xoscar.create_actor_pool(address, n_process=0)
    await xoscar.create_actor(Echo, address=pool.external_address, uid=NAME)
    ready(pool.external_address)
    await pool.join()


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Ask]:
    actor = await xoscar.actor_ref(address, NAME)

    async def ask(body: bytes) -> bytes:
        answer: bytes = await actor.ask(body)
        return answer

    yield ask

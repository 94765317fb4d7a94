"""grpc.aio: a unary call whose messages are bytes, so that no protobuf is in the way."""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio

from benchmarks.peers import Ask, Ready

SERVICE, METHOD = "bench.Echo", "ask"


async def _answer(body: bytes, context: object) -> bytes:
    return body


async def serve(ready: Ready) -> None:
    server = grpc.aio.server()
    methods = {METHOD: grpc.unary_unary_rpc_method_handler(_answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ready(f"127.0.0.1:{port}")
    await server.wait_for_termination()


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Ask]:
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{SERVICE}/{METHOD}")

        async def ask(body: bytes) -> bytes:
            answer: bytes = await call(body)
            return answer

        yield ask

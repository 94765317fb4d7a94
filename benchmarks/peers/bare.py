"""The least that `ask` can be in Python: the same payloads, meta frames and trains, and nothing is decided.

No routes, credit, deadlines, bounds, supervision, errors or captures. A future for each question, one handler for all.
What is left beside it is what those cost; what it takes itself is the floor of this language and of asyncio.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

from benchmarks.peers import Ask, Ready
from benchmarks.peers.hopwire import Ping, Pong
from hopwire.model import CallbackPoint, Message, body_from_payload, contract_of, payload_from_body
from hopwire.model.limits import Limits
from hopwire.wire.known import KnownMeta, KnownMetas, known_meta
from hopwire.wire.train import TRAIN_MESSAGES, pack_train

NODE, HUB = b"n" * 36, b"h" * 37
FLOW, TICKS = b"f" * 36, 300_000_000
READ_BYTES, HEAD_BYTES = 256 * 1024, 4
LIMITS = Limits()


def _form(payload: type[Ping | Pong], receiver: bytes, node: bytes) -> KnownMeta:
    """Give the meta frame of a question or an answer as hopwire writes it."""
    contract, point = contract_of(payload), CallbackPoint(*contract_of(Pong))
    said = Message(
        contract.identity,
        contract.version,
        body_frames=(b"",),
        correlation_id=FLOW,
        receiver_identity=receiver,
        receiver_node_identity=node,
        callback_points=(point,),
        callback_key=1,
        callback_receiver_identity=HUB,
        callback_receiver_node_identity=NODE,
        ttl_ticks=TICKS,
        hops=1,
    )
    found = known_meta(said)
    assert found is not None
    return found


class _Link:
    """A socket: trains go out at the end of a turn, and come in."""

    def __init__(self, sock: socket.socket, form: KnownMeta, take: Callable[[_Link, bytes, int, bytes], None]) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._take, self._loop = sock, take, asyncio.get_running_loop()
        self._known: KnownMetas[str] = KnownMetas()
        self._known.add(form, "known")
        self._out: list[list[bytes]] = []
        self._rest = self._came = b""
        self._loop.add_reader(sock, self._read)

    def put(self, body: bytes, meta: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append([b"", b"", body, meta])

    def _flush(self) -> None:
        out, self._out = self._out, []
        for at in range(0, len(out), TRAIN_MESSAGES):
            train = pack_train(out[at : at + TRAIN_MESSAGES])
            self._rest += len(train).to_bytes(HEAD_BYTES, "big") + train
        self._write()

    def _write(self) -> None:
        with suppress(BlockingIOError):
            self._rest = self._rest[self._sock.send(self._rest) :]
        if self._rest:
            self._loop.add_writer(self._sock, self._write)
        else:
            self._loop.remove_writer(self._sock)

    def _read(self) -> None:
        came, at = self._came + self._sock.recv(READ_BYTES), 0
        while len(came) >= at + HEAD_BYTES:
            begin = at + HEAD_BYTES
            end = begin + int.from_bytes(came[at:begin], "big")
            if end > len(came):
                break
            for body, _, _, found in self._known.uncouple(came[begin:end], LIMITS) or ():
                assert found is not None
                self._take(self, body, found[1], found[3])
            at = end
        self._came = came[at:]


async def serve(ready: Ready) -> None:
    loop, answer = asyncio.get_running_loop(), _form(Pong, HUB, NODE)
    inbox: deque[tuple[_Link, bytes, int, bytes]] = deque()
    waiting = [loop.create_future()]

    def take(*message: object) -> None:
        inbox.append(message)  # type: ignore[arg-type]
        if not waiting[0].done():
            waiting[0].set_result(None)

    async def ping(request: Ping) -> Pong:
        return Pong(request.data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        ready(str(listener.getsockname()[1]))
        sock, _ = await asyncio.to_thread(listener.accept)
        _Link(sock, _form(Ping, b"", b""), take)
        while True:
            while inbox:
                link, body, key, flow = inbox.popleft()
                result = await ping(payload_from_body(Ping, body))
                link.put(body_from_payload(result), answer.write(key, flow, TICKS))
            waiting[0] = loop.create_future()
            await waiting[0]


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Ask]:
    loop, question = asyncio.get_running_loop(), _form(Ping, b"", b"")
    promises: dict[int, asyncio.Future[Pong]] = {}

    def take(_: _Link, body: bytes, key: int, _flow: bytes) -> None:
        promises[key].set_result(payload_from_body(Pong, body))

    link = _Link(socket.create_connection(("127.0.0.1", int(address))), _form(Pong, HUB, NODE), take)
    keys = count(1).__next__

    async def ask(body: bytes) -> bytes:
        key = keys()
        future: asyncio.Future[Pong] = loop.create_future()
        promises[key] = future
        link.put(body_from_payload(Ping(body)), question.write(key, FLOW, TICKS))
        try:
            return (await future).data
        finally:
            del promises[key]

    yield ask

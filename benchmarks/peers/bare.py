"""The least that `ask` can be in Python: the same payloads, meta frames and trains, and nothing is decided.

No routes, credit, deadlines, bounds, supervision or errors. A future for each question, one handler for all. What is
left beside it is what those cost; what it takes itself is the floor of this language and of asyncio.

| option | what is done beside |
|---|---|
| `streams` | sockets are read and written by the loop itself (`asyncio.Protocol`), which is quick with uvloop |
| `written` | a thread writes the bytes of all trains to a file, some times a second, and nothing else |
| `signed` | each message has a MAC (HMAC-SHA-256) over its body and its meta frame, which its receiver computes again |

`bare_local.py` is the same within one process.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from hmac import compare_digest
from itertools import count
from typing import Any, TypeAlias

from benchmarks.peers import Ask, Ready
from benchmarks.peers.hopwire import Ping, Pong
from hopwire.model import CallbackPoint, Message, body_from_payload, contract_of, payload_from_body
from hopwire.model.limits import Limits
from hopwire.wire.known import KnownMeta, KnownMetas, known_meta
from hopwire.wire.train import TRAIN_MESSAGES, pack_train

NODE, HUB = b"n" * 36, b"h" * 37
FLOW, TICKS = b"f" * 36, 300_000_000
READ_BYTES, HEAD_BYTES = 256 * 1024, 4
LARGE_BYTES, LARGE_FLAG = 16 * 1024, 1 << 31  # a larger body goes alone; its head has the flag
LARGE_IN_A_TURN = 16  # of them that are read, as many as a node reads
LARGE_ON_THE_WAY = 64  # of 64 KB: as many as a node has credit for, so that caches hold them
WRITE_SECONDS = 0.05  # between two writes to the file
LIMITS = Limits()
INNER, OUTER = (hashlib.sha256(bytes(pad ^ 7 for _ in range(64))) for pad in (0x36, 0x5C))
MAC_BYTES = 32
Take: TypeAlias = Callable[["_Link", bytes, int, bytes], None]


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
    """A socket: trains go out at the end of a turn, and come in; a large message goes alone."""

    def __init__(self, sock: socket.socket, form: KnownMeta, take: Take, trains: list[bytes] | None = None) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._take, self._loop = sock, take, asyncio.get_running_loop()
        self._known: KnownMetas[str] = KnownMetas()
        self._known.add(form, "known")
        self._meta_bytes = form.size
        self._trains = trains  # that are to be written to a file
        self._out: list[list[bytes]] = []
        self._rest: deque[bytes | memoryview] = deque()
        self._is_waiting = False  # for the kernel to take more
        self._came = self._head = b""  # the head of a large message whose body comes, with its meta frame
        self._body: list[bytes] = []
        self._missing = 0  # bytes of the body that comes
        self._buffer = bytearray(READ_BYTES)
        self._watch()

    def _watch(self) -> None:
        self._loop.add_reader(self._sock, self._read)

    def put(self, body: bytes, meta: bytes) -> None:
        if len(body) > LARGE_BYTES:
            self._flush()
            self._write([(LARGE_FLAG | len(body)).to_bytes(HEAD_BYTES, "big") + meta, body])
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append([b"", b"", body, meta])

    def _flush(self) -> None:
        out, self._out = self._out, []
        for at in range(0, len(out), TRAIN_MESSAGES):
            train = pack_train(out[at : at + TRAIN_MESSAGES])
            if self._trains is not None:
                self._trains.append(train)
            self._write([len(train).to_bytes(HEAD_BYTES, "big") + train])

    def _write(self, parts: list[bytes]) -> None:
        is_first = not self._rest
        self._rest.extend(parts)
        if is_first:
            self._send()

    def _send(self) -> None:
        rest, sent = self._rest, 0
        with suppress(BlockingIOError):
            sent = self._sock.send(rest[0]) if len(rest) == 1 else self._sock.sendmsg(list(rest)[:64])
        while rest and sent >= len(rest[0]):
            sent -= len(rest.popleft())
        if rest:
            rest[0] = memoryview(rest[0])[sent:]
            self._loop.add_writer(self._sock, self._send)
        elif self._is_waiting:
            self._loop.remove_writer(self._sock)
        self._is_waiting = bool(rest)

    def _read(self) -> None:
        if self._head:
            self._read_large()
        else:
            self._feed(bytes(memoryview(self._buffer)[: self._sock.recv_into(self._buffer)]))

    def _feed(self, data: bytes) -> None:
        came, at = self._came + data, 0
        while len(came) >= at + HEAD_BYTES:
            begin, size = at + HEAD_BYTES, int.from_bytes(came[at : at + HEAD_BYTES], "big")
            if size & LARGE_FLAG:
                body_at = begin + self._meta_bytes
                if body_at > len(came):
                    break
                body = came[body_at : body_at + (size ^ LARGE_FLAG)]
                self._begin_large(came[at:body_at], body)
                at = body_at + len(body)
                continue
            end = begin + size
            if end > len(came):
                break
            self._take_train(came[begin:end])
            at = end
        self._came = came[at:]

    def _take_train(self, train: bytes) -> None:
        if self._trains is not None:
            self._trains.append(train)
        for body, meta_at, meta_end, found in self._known.uncouple(train, LIMITS) or ():
            assert found is not None
            self._take(self, self._checked(body, train, meta_at, meta_end), found[1], found[3])

    def _checked(self, body: bytes, train: bytes, meta_at: int, meta_end: int) -> bytes:
        return body

    def _begin_large(self, head: bytes, body: bytes) -> None:
        size = int.from_bytes(head[:HEAD_BYTES], "big") ^ LARGE_FLAG
        self._head, self._body, self._missing = head, [body], size - len(body)
        if not self._missing:
            self._end_large()

    def _end_large(self) -> None:
        head, self._head, body = self._head, b"", self._body[0] if len(self._body) == 1 else b"".join(self._body)
        found = self._known.find(head, HEAD_BYTES, self._meta_bytes)
        assert found is not None
        self._take(self, body, found[1], found[3])

    def _read_large(self) -> None:
        """Read the rest of a body, and then large messages as long as nothing else comes: a head, and a body."""
        with suppress(BlockingIOError):
            for _ in range(LARGE_IN_A_TURN):
                piece = self._sock.recv(self._missing)
                self._body.append(piece)
                self._missing -= len(piece)
                if self._missing:
                    return
                self._end_large()
                head = self._sock.recv(HEAD_BYTES + self._meta_bytes)
                if len(head) < HEAD_BYTES + self._meta_bytes or not head[0] & (LARGE_FLAG >> 24):
                    self._feed(head)
                    return
                self._head, self._body = head, []
                self._missing = int.from_bytes(head[:HEAD_BYTES], "big") ^ LARGE_FLAG


class _StreamLink(_Link, asyncio.BufferedProtocol):
    """The same over a transport of the loop."""

    _transport: Any = None

    def _watch(self) -> None:
        self._opening = self._loop.create_task(self._loop.create_connection(lambda: self, sock=self._sock))

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._feed(bytes(memoryview(self._buffer)[:nbytes]))

    def _write(self, parts: list[bytes]) -> None:
        self._transport.writelines(parts)


class _SignedLink(_Link):
    """The same with a MAC behind each body."""

    def put(self, body: bytes, meta: bytes) -> None:
        super().put(body + _mac(body + meta), meta)

    def _checked(self, body: bytes, train: bytes, meta_at: int, meta_end: int) -> bytes:
        said, mac = body[:-MAC_BYTES], body[-MAC_BYTES:]
        assert compare_digest(_mac(said + train[meta_at:meta_end]), mac)
        return said


def _mac(data: bytes) -> bytes:
    inner, outer = INNER.copy(), OUTER.copy()
    inner.update(data)
    outer.update(inner.digest())
    return outer.digest()


@contextmanager
def _link_of(option: str) -> Iterator[Callable[[socket.socket, KnownMeta, Take], _Link]]:
    """What makes a link, and a thread that writes while there is one, where that is asked for."""
    if option != "written":
        yield {"": _Link, "streams": _StreamLink, "signed": _SignedLink}[option]
        return
    trains: list[bytes] = []
    writing = asyncio.get_running_loop().create_task(_write_trains(trains))
    try:
        yield lambda sock, form, take: _Link(sock, form, take, trains)
    finally:
        writing.cancel()


async def _write_trains(trains: list[bytes]) -> None:
    with tempfile.TemporaryFile() as file:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            taken = trains[:]
            del trains[: len(taken)]
            for at in range(0, len(taken), 64):
                await asyncio.to_thread(os.writev, file.fileno(), taken[at : at + 64])


async def serve(ready: Ready, option: str = "") -> None:
    loop, answer = asyncio.get_running_loop(), _form(Pong, HUB, NODE)
    inbox: deque[tuple[_Link, bytes, int, bytes]] = deque()
    waiting = [loop.create_future()]

    def take(*message: object) -> None:
        inbox.append(message)  # type: ignore[arg-type]
        if not waiting[0].done():
            waiting[0].set_result(None)

    async def ping(request: Ping) -> Pong:
        return Pong(request.data)

    with socket.create_server(("127.0.0.1", 0)) as listener, _link_of(option) as new_link:
        ready(str(listener.getsockname()[1]))
        sock, _ = await asyncio.to_thread(listener.accept)
        _held = new_link(sock, _form(Ping, b"", b""), take)
        while True:
            while inbox:
                link, body, key, flow = inbox.popleft()
                result = await ping(payload_from_body(Ping, body))
                link.put(body_from_payload(result), answer.write(key, flow, TICKS))
            waiting[0] = loop.create_future()
            await waiting[0]


@asynccontextmanager
async def connect(address: str, option: str = "") -> AsyncIterator[Ask]:
    loop, question = asyncio.get_running_loop(), _form(Ping, b"", b"")
    promises: dict[int, asyncio.Future[Pong]] = {}

    def take(_: _Link, body: bytes, key: int, _flow: bytes) -> None:
        promises[key].set_result(payload_from_body(Pong, body))

    keys = count(1).__next__

    with _link_of(option) as new_link:
        link = new_link(socket.create_connection(("127.0.0.1", int(address))), _form(Pong, HUB, NODE), take)

        async def ask(body: bytes) -> bytes:
            key = keys()
            future: asyncio.Future[Pong] = loop.create_future()
            promises[key] = future
            link.put(body_from_payload(Ping(body)), question.write(key, FLOW, TICKS))
            try:
                return (await future).data
            finally:
                del promises[key]

        credit = asyncio.Semaphore(LARGE_ON_THE_WAY)

        async def ask_for_credit(body: bytes) -> bytes:
            if len(body) <= LARGE_BYTES:
                return await ask(body)
            async with credit:
                return await ask(body)

        await asyncio.sleep(0.1)  # a transport takes a turn to be there
        yield ask_for_credit

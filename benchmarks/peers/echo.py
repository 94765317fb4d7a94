"""A plain echo of four frames over pyzmq, blocking, without a codec: what the others cost more than that is theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from benchmarks.peers import Pipe, Ready

HEAD, TAIL = [b"", b"id"], [b"m" * 200]  # as large as the frames around the body of a message
BODY = 2  # its frame


def serve(ready: Ready) -> None:
    socket = _socket(zmq.ROUTER)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    ready(f"tcp://127.0.0.1:{port}")
    while True:
        socket.send_multipart(socket.recv_multipart())


@contextmanager
def connect(address: str) -> Iterator[Pipe]:
    socket = _socket(zmq.DEALER)
    socket.connect(address)
    try:
        yield Pipe(
            submit=lambda body: socket.send_multipart([*HEAD, body, *TAIL]),
            collect=lambda: socket.recv_multipart()[BODY],
        )
    finally:
        socket.close(0)


def _socket(kind: int) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    socket.set(zmq.SNDHWM, 0)
    socket.set(zmq.RCVHWM, 0)
    return socket

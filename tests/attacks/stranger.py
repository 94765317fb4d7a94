"""The tools of a stranger on the port: raw ZMTP over a plain TCP socket, and bytes that no honest node would send.

    with Stranger(uri, name=b"chosen") as stranger:
        stranger.greet()
        stranger.send([b"", b"body", b"meta"])

Nothing but `hear` and `is_cut_off` waits for the other side, so all else works on the event loop of the attacked node.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from hopwire.model import Message, Payload, body_from_payload, contract_of
from hopwire.wire import encode
from hopwire.wire.extension import MAGIC as EXTENSION
from hopwire.wire.train import MAGIC as TRAIN

SECONDS = 10.0  # for whatever the other side has to do
MORE, LONG, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


class Stranger:
    """One TCP connection to a node."""

    def __init__(self, uri: str, name: bytes = b"", socket_type: bytes = b"DEALER") -> None:
        host, _, port = uri.removeprefix("tcp://").rpartition(":")
        self.name, self.socket_type = name, socket_type
        self._socket = socket.create_connection((host, int(port)), SECONDS)

    def __enter__(self) -> Stranger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def greet(self) -> None:
        """Shake hands, under the chosen name; what the other side says is not waited for."""
        self.pour(GREETING + ready(self.socket_type, self.name))

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""
        last = len(frames) - 1
        self.pour(b"".join(frame(data, MORE if number < last else 0) for number, data in enumerate(frames)))

    def claim(self, size_bytes: int) -> None:
        """Begin a frame of that size, and send nothing of it."""
        self.pour(struct.pack(">BQ", LONG, size_bytes))

    def pour(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def hear(self, words: bytes) -> None:
        """Wait until the other side has said these words, ends the connection, or is silent."""
        heard = b""
        with suppress(TimeoutError):
            while words not in heard and (more := self._socket.recv(65_536)):
                heard += more

    def is_cut_off(self, seconds: float = SECONDS) -> bool:
        """Wait until the other side closes the connection; False says that it did not."""
        give_up_at = time.monotonic() + seconds
        try:
            while (left := give_up_at - time.monotonic()) > 0:
                self._socket.settimeout(left)
                if not self._socket.recv(65_536):
                    return True
        except TimeoutError:
            pass
        except OSError:
            return True
        finally:
            self._socket.settimeout(SECONDS)
        return False

    def reset(self) -> None:
        """Close by a reset, as the kernel does for a killed process that has not read everything."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Close in good order."""
        self._socket.close()


# -- ZMTP


def frame(data: bytes, flags: int = 0) -> bytes:
    """Give one frame as it is on the wire."""
    head = struct.pack(">BQ", flags | LONG, len(data)) if len(data) > 255 else bytes((flags, len(data)))
    return head + data


def ready(socket_type: bytes, name: bytes) -> bytes:
    """Give the command that ends a handshake."""
    properties = ((b"Socket-Type", socket_type), (b"Identity", name))
    pairs = [bytes((len(key),)) + key + struct.pack(">I", len(value)) + value for key, value in properties]
    return frame(b"\5READY" + b"".join(pairs), COMMAND)


# -- what is said


def said_whole(payload: Payload) -> list[bytes]:
    """Give a payload as frames, with that in front in which a node finds the name of the connection."""
    contract = contract_of(payload)
    return encode(Message(contract.identity, contract.version, body_frames=(body_from_payload(payload),)))


def said(payload: Payload) -> list[bytes]:
    """Give a payload as frames behind the name of the connection."""
    return said_whole(payload)[1:]


def empty_train(messages: int) -> list[bytes]:
    """Give a train of messages that have no frames at all: two bytes each."""
    return [TRAIN + bytes(2 * messages)]


def nested(depth: int, kind: str = "map") -> bytes:
    """Give MessagePack that is nested so deep: maps within a field that nobody knows, or arrays."""
    opening = {"map": b"\x81\xa1z", "array": b"\x91"}[kind]
    return b"\x81\xa1z" + opening * depth + b"\xc0"


def nested_message(depth: int, kind: str = "map", identity: bytes = b"greeter.greet") -> list[bytes]:
    """Give a message whose extension of hopwire's own is nested so deep."""
    return encode(Message(identity, 1, extensions=(EXTENSION + nested(depth, kind),)))[1:]

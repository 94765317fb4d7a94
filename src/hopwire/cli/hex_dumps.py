"""Messages from hex dumps, as `xxd` and `hexdump -C` write them.

| what is dumped | read as |
|---|---|
| one dump of what was said over a connection, with or without the greeting of ZeroMQ | its messages |
| several dumps below each other, each from offset 0 | the frames of one message; a line with `-` is an empty frame |

An empty line ends a message. A `*` stands for lines that repeat the line above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hopwire.capture.recording.zmtp_listener import ZmtpListener
from hopwire.errors import SettingsError
from hopwire.model.limits import Limits
from hopwire.wire.zmtp import GREETING, ready

__all__ = ["EMPTY", "is_dump", "messages_from_dumps"]

# fmt: off
LINES = (
    #           offset               bytes                                       text
    re.compile(r"([0-9a-f]{6,16}): " r"((?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*)" r"(?: .*)?", re.IGNORECASE),  # xxd
    re.compile(r"([0-9a-f]{6,16})  " r"((?:[0-9a-f]{2} {1,2})+) *"               r"\|.*\|",   re.IGNORECASE),  # hexdump
)
# fmt: on
END = re.compile(r"[0-9a-f]{6,16}", re.IGNORECASE)  # hexdump ends with the number of bytes
AGAIN, EMPTY = "*", "-"
MAX_BYTES = Limits().max_bytes


def is_dump(line: str) -> bool:
    """Tell whether a line is one of a dump."""
    return any(form.fullmatch(line) for form in LINES)


def messages_from_dumps(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[bytes]]]:
    """Give the messages in lines of dumps, each line with its place in front, and the place of each message."""
    frames: list[bytearray] = []
    begun = ""
    is_again, last = False, b""
    for where, line in lines:
        text = line.strip()
        if not text:
            if frames:
                yield from _messages(begun, frames)
            frames, is_again = [], False
            continue
        begun = begun if frames else where
        if text == EMPTY:
            frames.append(bytearray())
        elif text == AGAIN:
            is_again = True
        else:
            offset, data = _read(where, text)
            if offset == 0 and data:
                frames.append(bytearray())
            if not frames:
                raise SettingsError(f"{where}: the dump begins at offset {offset:#x}, expected 0")
            if is_again:
                _repeat(where, frames[-1], last, offset)
            if offset != len(frames[-1]):
                raise SettingsError(f"{where}: the dump goes on at offset {offset:#x}, expected {len(frames[-1]):#x}")
            frames[-1] += data
            is_again, last = False, data
    if frames:
        yield from _messages(begun, frames)


def _read(where: str, text: str) -> tuple[int, bytes]:
    for form in LINES:
        if found := form.fullmatch(text):
            return int(found[1], 16), bytes.fromhex(found[2])
    if END.fullmatch(text):
        return int(text, 16), b""
    raise SettingsError(f"{where}: found {text!r:.40}, expected a line of xxd or of hexdump -C")


def _repeat(where: str, frame: bytearray, line: bytes, offset: int) -> None:
    missing = offset - len(frame)
    if not line or missing < 0 or missing % len(line) or offset > MAX_BYTES:
        raise SettingsError(f"{where}: {len(line)} bytes do not repeat from {len(frame):#x} to {offset:#x}")
    frame += line * (missing // len(line))


def _messages(where: str, frames: list[bytearray]) -> Iterator[tuple[str, list[bytes]]]:
    """Give the messages that one dump of a connection holds; other dumps are the frames of one message."""
    said = _said(bytes(frames[0])) if len(frames) == 1 else []
    if not said:
        yield where, [bytes(frame) for frame in frames]
    for number, message in enumerate(said, 1):
        yield f"{where}, message {number}", message


def _said(data: bytes) -> list[list[bytes]]:
    """Give the messages in the bytes of a connection; none where the bytes are something else."""
    listener = ZmtpListener(Limits())
    if data[:1] != GREETING[:1]:
        listener.hear(GREETING + ready(b"ROUTER", b""), 0, 0)
    said = listener.hear(data, 0, 0)
    return [] if listener.trouble or listener.is_within else [message.frames for message in said]

"""A message taken apart: every byte of every frame has one item that says what it is.

The walk finds the values that the tables name. This module adds an item for every other byte, so that the items of a
frame follow one another from its first byte to its last:

| found | called |
|---|---|
| a frame above the message | `in front` |
| a frame between body and meta frame | `extensions[0]`, and so on |
| a frame in a block, or above one, that the table does not have | `newer frame` |
| a lane that the table does not have | `reserved` |
| bytes after the last value of a sized entry | `newer bytes` |
| bytes that the walk did not get to | `not read` |

`dissect` never raises. A bad message gives the items up to the fault, and the error. The trap: two formats may claim a
message. If neither format can read the message, or both can, the items are those of the first claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.model.limits import Limits
from hopwire.wire.schema import Type, WireFormat
from hopwire.wire.walk import DEFAULT_LIMITS, Item, Walk, claimants, frames_from, read

__all__ = ["IN_FRONT", "NEWER_BYTES", "NEWER_FRAME", "RESERVED", "UNREAD", "Dissection", "dissect"]

IN_FRONT, NEWER_FRAME, RESERVED, NEWER_BYTES, UNREAD = "in front", "newer frame", "reserved", "newer bytes", "not read"
AFTER_THE_WALK = ("invalid_utf8", "ambiguous_version")  # found after the structure was read to its end


@dataclass(frozen=True, slots=True)
class Dissection:
    """All that can be said about some frames; exactly one of `message` and `error` is set."""

    frames: tuple[bytes, ...]
    fmt: WireFormat | None
    items: tuple[Item, ...]  # by frame and start, without gaps
    message: Message | None
    error: WireError | None

    @property
    def size_bytes(self) -> int:
        """The size of all frames together."""
        return sum(map(len, self.frames))


def dissect(given: object, limits: Limits = DEFAULT_LIMITS, fmt: WireFormat | None = None) -> Dissection:
    """Take a message apart, in the format that the message claims, or in `fmt`."""
    try:
        frames = frames_from(given, limits)
    except WireError as error:
        return Dissection((), None, (), None, error)
    message: Message | None = None
    error_found: WireError | None = None
    shown = fmt
    try:
        shown, message = (fmt, Walk(fmt, frames, limits).message()) if fmt else read(frames, limits)
    except WireError as error:
        shown, error_found = fmt or next(iter(claimants(frames)), None), error
    items = _items(shown, frames, limits) if shown else []
    stands = error_found is None or error_found.reason in AFTER_THE_WALK
    return Dissection(tuple(frames), shown, tuple(_tiled(frames, shown, items, stands)), message, error_found)


def _items(fmt: WireFormat, frames: list[bytes], limits: Limits) -> list[Item]:
    walk = Walk(fmt, frames, limits)
    with suppress(WireError):
        walk.message()
    return walk.items


def _tiled(frames: list[bytes], fmt: WireFormat | None, items: list[Item], stands: bool) -> Iterator[Item]:
    """Give the items in order, and one more for each place between them."""
    by_frame: dict[int, list[Item]] = {}
    for item in items:
        by_frame.setdefault(item.frame, []).append(item)
    top = min(by_frame, default=0)
    between = NEWER_BYTES if fmt and fmt.has_meta_frame else RESERVED
    extension_count = 0
    for index, frame in enumerate(frames):
        if index in by_frame:
            yield from _tiled_frame(index, frame, by_frame[index], between)
        elif stands and index > top and fmt and fmt.has_meta_frame:
            name = f"extensions[{extension_count}]"
            extension_count += 1
            yield Item(index, 0, len(frame), name, Type.RAW, "", frame)
        else:
            title = UNREAD if not stands else IN_FRONT if index < top else NEWER_FRAME
            yield Item(index, 0, len(frame), "", Type.RAW, title, frame)


def _tiled_frame(index: int, frame: bytes, items: list[Item], between: str) -> Iterator[Item]:
    at = 0
    for item in sorted(items, key=lambda item: item.start):
        if item.start > at:
            yield _gap(index, at, item.start, frame, between)
        yield item
        at = item.stop
    if at < len(frame):
        yield _gap(index, at, len(frame), frame, between if between == RESERVED else UNREAD)


def _gap(index: int, start: int, stop: int, frame: bytes, title: str) -> Item:
    return Item(index, start, stop, "", Type.RAW, title, frame[start:stop])

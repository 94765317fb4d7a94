"""Meta frames of known bytes: most messages of a flow that is repeated differ in a few places of their meta frame.

    ... callback key ... signature ... correlation id, time to live ...      these change, where there is a signature
    ... callback key ................. correlation id, time to live ...      these change, where there is none

Whoever sends such a message writes the meta frame once, and afterwards only what changes. Whoever receives the message
compares the rest with what was read before, and reads only what changes. Both give the same bytes and the same values
as `encode` and `decode`, which remain the law: the places are found by encoding, and what would be written is compared
with what `encode` writes before it is used.

The trap: a message is as long as a known one and has the same fixed bytes, or it is another message. So a signature, a
correlation id or a body that has another form than the known one makes an unknown message, never a wrong one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.model.limits import Limits
from hopwire.wire.codec import encode_own
from hopwire.wire.train import (
    ALONE_BYTES,
    ALONE_FORM,
    DATED,
    MAX_TRAIN_BYTES,
    MAX_TRAIN_MESSAGES,
    USUAL,
    USUAL_BYTES,
    first_entry,
    read_alone,
    read_usual,
)

__all__ = ["USUAL_FRAMES", "Entry", "Found", "KnownMeta", "KnownMetas", "fixed_between", "known_meta", "places_of"]

T = TypeVar("T")
USUAL_FRAMES = 4  # of a message that may be known: socket identity, empty frame, body, meta frame
MOST_KNOWN = 1024  # messages that are remembered: traffic has few shapes, and hostile traffic must not fill the memory
MOST_LAYOUTS = 4  # of meta frames of one length
MOST_ALONE = 64  # lengths of trains of one message that are remembered
LARGEST_BYTES = 2048  # of a meta frame that is remembered
_ONES, _TWOS = 0x0101010101010101, 0x0202020202020202  # numbers that differ in every byte

Fixed: TypeAlias = tuple[bytes, ...]
Found: TypeAlias = tuple[T, int, bytes, bytes, int]  # what was remembered, callback key, signature, correlation id, TTL
Alone: TypeAlias = tuple[bytes, int, T, int, bytes, int]  # of a train of one: body, when it was queued, what was found
Entry: TypeAlias = tuple[bytes, int, int, Found[T] | None]  # of a train: body, where the meta frame begins and ends
Places: TypeAlias = tuple[tuple[int, str], ...]  # where a value begins, and its code for `struct`


class KnownMeta:
    """One meta frame of V6 in which a few values change."""

    __slots__ = ("fixed", "form", "is_signed", "pack", "places", "size", "unpack_from")

    def __init__(self, meta: bytes, places: Places) -> None:
        self.size, self.places, self.is_signed = len(meta), places, len(places) > 3
        self.fixed, made = fixed_between(meta, places)
        self.pack, self.unpack_from, self.form = made.pack, made.unpack_from, made.format[1:]

    def write(self, key: int, correlation_id: bytes, ttl_ticks: int) -> bytes:
        """Write the meta frame of a message without a signature; the correlation id is as long as the known one."""
        first, second, third, last = self.fixed
        return self.pack(first, key, second, correlation_id, third, ttl_ticks, last)

    def write_signed(self, key: int, signature: bytes, correlation_id: bytes, ttl_ticks: int) -> bytes:
        """Write the meta frame of a message with a signature, which is as long as the known one."""
        first, second, third, fourth, last = self.fixed
        return self.pack(first, key, second, signature, third, correlation_id, fourth, ttl_ticks, last)


def known_meta(message: Message) -> KnownMeta | None:
    """Find what changes in the meta frame of messages such as this one; None if such messages cannot be known.

    A message can be known with one body frame, without extensions and routing entries, and with a correlation id.
    """
    if len(message.body_frames) != 1 or message.extensions or message.routing or not message.correlation_id:
        return None
    signature = {"signature": bytes(len(message.signature))} if message.signature else {}
    ones = message.replace(
        callback_key=_ONES, correlation_id=b"\1" * len(message.correlation_id), ttl_ticks=_ONES, **signature
    )
    # fmt: off
    changes = (
        ("q",                               {"callback_key": _TWOS}),
        (f"{len(message.signature)}s",      {"signature": b"\2" * len(message.signature)}),
        (f"{len(message.correlation_id)}s", {"correlation_id": b"\2" * len(message.correlation_id)}),
        ("q",                               {"ttl_ticks": _TWOS}),
    )
    # fmt: on
    try:
        meta = encode_own(ones)[-1]
        others = [(code, encode_own(ones.replace(**change))[-1]) for code, change in changes if code != "0s"]
        wanted = encode_own(message)[-1]
    except WireError:
        return None
    if len(meta) > LARGEST_BYTES:
        return None
    known = KnownMeta(meta, places_of(meta, others))
    return known if _written(known, message) == wanted else None


def places_of(data: bytes, others: Sequence[tuple[str, bytes]]) -> Places:
    """Give where others differ first from some bytes: each in one value, which differs in every byte."""
    return tuple(sorted((_first_difference(data, other), code) for code, other in others))


def fixed_between(data: bytes, places: Places) -> tuple[Fixed, struct.Struct]:
    """Give what stands between the places, and what writes and reads both, in their order."""
    codes, fixed, at = "<", [], 0
    for place, code in places:
        codes += f"{place - at}s{code}"
        fixed.append(data[at:place])
        at = place + struct.calcsize(f"<{code}")
    return (*fixed, data[at:]), struct.Struct(f"{codes}{len(data) - at}s")


def _first_difference(one: bytes, other: bytes) -> int:
    return next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)


def _written(known: KnownMeta, message: Message) -> bytes:
    key, correlation_id, ttl_ticks = message.callback_key, message.correlation_id, message.ttl_ticks
    if known.is_signed:
        return known.write_signed(key, message.signature, correlation_id, ttl_ticks)
    return known.write(key, correlation_id, ttl_ticks)


class _Layout(Generic[T]):
    """The known meta frames of one length that change in the same places."""

    __slots__ = ("form", "is_signed", "known", "last", "last_fixed", "places", "unpack_from")

    def __init__(self, known: KnownMeta) -> None:
        self.places, self.unpack_from, self.is_signed = known.places, known.unpack_from, known.is_signed
        self.form = known.form
        self.known: dict[Fixed, T] = {}
        self.last_fixed: Fixed = ()  # what was found last: to compare costs less than to look up
        self.last: T | None = None

    def find(self, fixed: Fixed) -> T | None:
        """Give what was remembered with these bytes, and remember that it was found last."""
        found = self.known.get(fixed)
        if found is not None:
            self.last_fixed, self.last = fixed, found
        return found


class KnownMetas(Generic[T]):
    """Remembers something with each known meta frame, and finds it again; bounded in number."""

    def __init__(self) -> None:
        self._layouts: dict[int, list[_Layout[T]]] = {}  # by the length of the meta frame
        self._count = 0
        self._alone: dict[int, tuple[Callable[[bytes], tuple[Any, ...]], tuple[bytes, ...], T]] = {}  # by their length
        self._alone_size = 0  # of the last train of one that was read step by step

    def __len__(self) -> int:
        return self._count

    def add(self, known: KnownMeta, what: T) -> None:
        """Remember something; when there is too much, everything is forgotten, and what is used is learned again."""
        if self._count >= MOST_KNOWN:
            self.clear()
        layouts = self._layouts.setdefault(known.size, [])
        layout = next((each for each in layouts if each.places == known.places), None)
        if layout is None:
            if len(layouts) >= MOST_LAYOUTS:
                self._count -= len(layouts.pop(0).known)
            layouts.append(layout := _Layout(known))
        self._count += known.fixed not in layout.known
        layout.known[known.fixed], layout.last_fixed = what, ()
        self._alone.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._layouts.clear()
        self._alone.clear()
        self._count = 0

    def find(self, data: bytes, at: int, size: int) -> Found[T] | None:
        """Give what the meta frame that begins at a place was remembered with, and what it says anew.

        That is its callback key, signature, correlation id and time to live.
        """
        for layout in self._layouts.get(size, ()):
            if layout.is_signed:
                first, key, second, signature, third, correlation_id, fourth, ticks, last = layout.unpack_from(data, at)
                fixed: Fixed = (first, second, third, fourth, last)
            else:
                first, key, second, correlation_id, third, ticks, last = layout.unpack_from(data, at)
                fixed, signature = (first, second, third, last), b""
            what = layout.last if fixed == layout.last_fixed else layout.find(fixed)
            if what is not None:
                return what, key, signature, correlation_id, ticks
        return None

    def alone(self, train: bytes) -> Alone[T] | None:
        """Read the only message of a dated train, if it is known and has no signature; else `uncouple` reads the train.

        Trains that are as long as one before, with a body of the same length, are read and compared in one step.
        """
        form = self._alone.get(len(train))
        if form is not None:
            unpack, same, what = form
            head, queued_ns, lengths, body, first, key, second, correlation_id, third, ticks, last = unpack(train)
            if (head, lengths, first, second, third, last) == same:
                return body, queued_ns, what, key, correlation_id, ticks
        return self._alone_anew(train)

    def _alone_anew(self, train: bytes) -> Alone[T] | None:
        """Read such a train step by step; the second of one length is remembered."""
        size = len(train)
        if not ALONE_BYTES <= size <= MAX_TRAIN_BYTES:
            return None
        head, queued_ns, lengths = read_alone(train)
        count, empty, body_size, meta_size = read_usual(lengths)
        meta_at = ALONE_BYTES + body_size
        if head != DATED or count != USUAL - 1 or empty or meta_at + meta_size != size:
            return None
        found = self.find(train, meta_at, meta_size)
        if found is None or found[2]:
            return None
        what, key, _, correlation_id, ticks = found
        if size == self._alone_size:
            layout = next(each for each in self._layouts[meta_size] if each.last is what)
            if len(self._alone) >= MOST_ALONE:
                self._alone.clear()
            form = struct.Struct(f"<{ALONE_FORM}{body_size}s{layout.form}")
            self._alone[size] = form.unpack, (head, lengths, *layout.last_fixed), what
        self._alone_size = size
        return train[ALONE_BYTES:meta_at], queued_ns, what, key, correlation_id, ticks

    def uncouple(self, train: bytes, limits: Limits) -> list[Entry[T]] | None:
        """Read a train: of each message its body, where its meta frame begins and ends, and what that was found with.

        None says that not all of its messages have three frames of which the first is empty, or that it is no train:
        `unpack_train` says what it is. Nothing is cut out but the bodies.
        """
        at, end, find = first_entry(train), len(train), self.find
        if end > MAX_TRAIN_BYTES or limits.max_frames < USUAL - 1:
            return None
        entries: list[Entry[T]] = []
        size, layout = -1, None  # of the message before: most of a train are alike
        for _ in range(MAX_TRAIN_MESSAGES):
            if at > end - USUAL_BYTES:
                break
            count, empty, body_size, meta_size = read_usual(train, at)
            body_at = at + USUAL_BYTES
            meta_at = body_at + body_size
            at = meta_at + meta_size
            if count != USUAL - 1 or empty or at > end:
                return None
            if meta_size != size:
                layouts = self._layouts.get(meta_size)
                size, layout = meta_size, layouts[0] if layouts else None
            found: Found[T] | None = None
            if layout is None:
                pass
            elif layout.is_signed:  # what `find` does first, without a call
                first, key, second, signature, third, correlation_id, fourth, ticks, last = layout.unpack_from(
                    train, meta_at
                )
                if (first, second, third, fourth, last) == layout.last_fixed and (what := layout.last) is not None:
                    found = (what, key, signature, correlation_id, ticks)
            else:
                first, key, second, correlation_id, third, ticks, last = layout.unpack_from(train, meta_at)
                if (first, second, third, last) == layout.last_fixed and (what := layout.last) is not None:
                    found = (what, key, b"", correlation_id, ticks)
            entries.append((train[body_at:meta_at], meta_at, at, found or find(train, meta_at, meta_size)))
        return entries if at == end and entries else None

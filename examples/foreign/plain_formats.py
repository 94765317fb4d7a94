"""The four wire formats by the documents alone: this program has never heard of hopwire.

A message is a dictionary. Frames begin with the empty frame, as a DEALER sends and receives them. One body frame, no
routing entries: that is all that a program needs which asks and answers.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Any, NamedTuple

Point = tuple[bytes, int, bytes]  # identity, version, partition


class Plain(NamedTuple):
    """A message of one body frame."""

    identity: bytes = b""
    version: int = 1
    partition: bytes = b""
    body: bytes = b""
    correlation_id: bytes = b""
    receiver: bytes = b""
    receiver_node: bytes = b""
    callback_receiver: bytes = b""
    callback_node: bytes = b""
    callback_key: int = 0
    points: tuple[Point, ...] = ()
    trace_options: int = 0
    distribution: int = 0
    hops: int = 0
    ttl_ticks: int = 0
    domain: bytes = b""
    signature: bytes = b""


SPELLED = {1: b"1.0"}  # V3 and V4 spell versions
NUMBERED = {spelled: number for number, spelled in SPELLED.items()}


def u16(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}H", *numbers)


def word(*lanes: int) -> bytes:
    """Four lanes of 16 bits; those that are left open are 0."""
    return u16(*lanes).ljust(8, b"\0")


def i32(number: int) -> bytes:
    return struct.pack("<i", number)


def i64(number: int) -> bytes:
    return struct.pack("<q", number)


def version_bytes(fmt: str, version: int) -> bytes:
    return u16(version) if fmt in ("V5", "V6") else SPELLED[version]


# -- writing


def write(fmt: str, m: Plain) -> list[bytes]:
    return {"V3": write_v3, "V4": write_v4_v5, "V5": write_v4_v5, "V6": write_v6}[fmt](fmt, m)


def point_frames(fmt: str, m: Plain) -> list[bytes]:
    """Each callback point from top to bottom: partition, version, identity."""
    return [
        each for identity, version, partition in m.points for each in (partition, version_bytes(fmt, version), identity)
    ]


def write_v3(fmt: str, m: Plain) -> list[bytes]:
    count = len(m.points)
    # fmt: off
    return [b"", *point_frames(fmt, m),
            i32(3),                              # n-20 frames of a callback point
            i32(2),                              # n-19 frames of a routing entry
            m.partition, m.receiver_node,
            i32(m.hops),
            b"", b"",                            # n-15, n-14 no routing entries
            i64(m.trace_options),
            version_bytes(fmt, m.version), m.identity, m.receiver,
            i32(m.distribution),
            m.correlation_id,
            i32(count) if count else b"",
            i32(21) if count else b"",           # n-6  the last callback point ends at n-21
            m.callback_receiver,
            i64(m.ttl_ticks),
            i32(3), b"", m.body]
    # fmt: on


def write_v4_v5(fmt: str, m: Plain) -> list[bytes]:
    count, tail = len(m.points), 15 if fmt == "V4" else 17
    above = [m.callback_node, i64(m.callback_key)] if fmt == "V5" else []
    # fmt: off
    return [b"", m.body, *point_frames(fmt, m), *above,
            m.domain, m.signature,
            word(0, 0, 2, m.hops),
            word(tail + 1 if count else 0, count, 3),
            m.receiver, m.callback_receiver, m.receiver_node, m.partition,
            version_bytes(fmt, m.version), m.identity,
            word(m.trace_options, m.distribution),
            m.correlation_id,
            i64(m.ttl_ticks),
            word(tail + 1 + 3 * count, 1),       # n-2  where the body stands
            i32(4) if fmt == "V4" else u16(5)]
    # fmt: on


def blob(data: bytes) -> bytes:
    return i32(len(data)) + data


def write_v6(fmt: str, m: Plain) -> list[bytes]:
    entries = [blob(partition) + u16(version) + blob(identity) for identity, version, partition in m.points]
    meta = [
        u16(6), blob(m.partition), u16(m.version), blob(m.identity), blob(m.receiver), blob(m.receiver_node),
        word(m.trace_options, m.distribution), blob(m.callback_node), i64(m.callback_key), blob(m.domain),
        blob(m.signature), word(0, m.hops), u16(len(entries)), *map(blob, entries), blob(m.callback_receiver),
        blob(m.correlation_id), i64(m.ttl_ticks), word(2, 1),
    ]  # fmt: skip
    return [b"", m.body, b"".join(meta)]


# -- reading


def read(frames: list[bytes]) -> tuple[str, Plain]:
    if frames[-1][:2] == u16(6) and len(frames[-1]) > 4:
        return "V6", read_v6(frames)
    if len(frames) > 20 and frames[-3] == i32(3):
        return "V3", read_v3(frames)
    fmt = {i32(4): "V4", u16(5): "V5"}[frames[-1]]
    return fmt, read_v4_v5(fmt, frames)


def number(frame: bytes) -> int:
    return int.from_bytes(frame, "little", signed=len(frame) == 8)


def points_from(fmt: str, frames: list[bytes], offset: int, count: int, stride: int) -> tuple[Point, ...]:
    """Walk upwards from the identity of the last callback point."""
    found = []
    for entry in reversed(range(count)):
        at = len(frames) - offset - entry * stride
        partition, version, identity = frames[at - 2 : at + 1]
        found.append((identity, number(version) if fmt == "V5" else NUMBERED[version], partition))
    return tuple(found)


def read_v3(frames: list[bytes]) -> Plain:
    f = {k: frames[-k] for k in range(1, 21)}  # by n-k
    points = points_from("V3", frames, number(f[6]), number(f[7]), number(f[20])) if f[7] else ()
    return Plain(
        identity=f[11], version=NUMBERED[f[12]], partition=f[18], body=f[1], correlation_id=f[8], receiver=f[10],
        receiver_node=f[17], callback_receiver=f[5], points=points, trace_options=number(f[13]),
        distribution=number(f[9]), hops=number(f[16]), ttl_ticks=number(f[4]),
    )  # fmt: skip


def read_v4_v5(fmt: str, frames: list[bytes]) -> Plain:
    f = {k: frames[-k] for k in range(1, 16 if fmt == "V4" else 18)}
    offset, count, stride, _ = struct.unpack("<4H", f[12])
    more: dict[str, Any] = {} if fmt == "V4" else {"callback_node": f[17], "callback_key": number(f[16])}
    return Plain(
        identity=f[6], version=NUMBERED[f[7]] if fmt == "V4" else number(f[7]), partition=f[8],
        body=frames[-number(f[2][:2])], correlation_id=f[4], receiver=f[11], receiver_node=f[9],
        callback_receiver=f[10], points=points_from(fmt, frames, offset, count, stride),
        trace_options=number(f[5][:2]), distribution=number(f[5][2:4]), hops=number(f[13][6:]), ttl_ticks=number(f[3]),
        domain=f[15], signature=f[14], **more,
    )  # fmt: skip


class Meta:
    """Reads a meta frame from its beginning."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def blob(self) -> bytes:
        return self.take(number(self.take(4)))


def read_v6(frames: list[bytes]) -> Plain:
    meta = Meta(frames[-1])
    meta.take(2)
    partition, version, identity = meta.blob(), number(meta.take(2)), meta.blob()
    receiver, receiver_node, options = meta.blob(), meta.blob(), meta.take(8)
    callback_node, key, domain, signature = meta.blob(), number(meta.take(8)), meta.blob(), meta.blob()
    routing = meta.take(8)
    for _ in range(number(routing[:2])):
        meta.blob()
    points = []
    for _ in range(number(meta.take(2))):
        entry = Meta(meta.blob())
        point_partition, point_version = entry.blob(), number(entry.take(2))
        points.append((entry.blob(), point_version, point_partition))
    callback_receiver, correlation_id, ttl_ticks = meta.blob(), meta.blob(), number(meta.take(8))
    return Plain(
        identity=identity, version=version, partition=partition, body=frames[-number(meta.take(2))],
        correlation_id=correlation_id, receiver=receiver, receiver_node=receiver_node,
        callback_receiver=callback_receiver, callback_node=callback_node, callback_key=key, points=tuple(points),
        trace_options=number(options[:2]), distribution=number(options[2:4]), hops=number(routing[2:4]),
        ttl_ticks=ttl_ticks, domain=domain, signature=signature,
    )  # fmt: skip


# -- the rules of the documents


def signed(fmt: str, m: Plain, domain: bytes, secret: bytes) -> Plain:
    """Sign as the original does: HMAC-SHA256 over five fields; without a secret, or in V3, nothing is signed."""
    if not secret or fmt == "V3":
        return m
    return m._replace(domain=domain, signature=mac(fmt, m, secret))


def mac(fmt: str, m: Plain, secret: bytes) -> bytes:
    data = m.identity + version_bytes(fmt, m.version) + m.partition + m.body + m.callback_receiver
    return hmac.new(secret, data, hashlib.sha256).digest()


def answer_to(question: Plain, identity: bytes, body: bytes) -> Plain:
    """Answer by the rules: the flow and the callback are copied; a callback point is addressed to who waits."""
    m = Plain(
        identity, 1, question.partition, body, question.correlation_id, callback_receiver=question.callback_receiver,
        callback_node=question.callback_node, callback_key=question.callback_key, points=question.points,
    )  # fmt: skip
    if (m.identity, m.version, m.partition) in m.points:
        m = m._replace(receiver=m.callback_receiver, receiver_node=m.callback_node)
    return m

"""The golden vectors: bytes that the original implementation wrote, and the messages they stand for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hopwire.model import CallbackPoint, Message, RoutingEntry, Version
from hopwire.wire import FORMATS, WireFormat

VECTORS = Path(__file__).parent.parent / "vectors"
PATTERN = bytes((i * 31 + 7) & 255 for i in range(256))  # which a body given by its rule repeats


class Golden(NamedTuple):
    """One vector."""

    name: str
    fmt: WireFormat
    message: Message
    frames: list[bytes]

    @property
    def id(self) -> str:
        """What a test says of a vector that it finds wrong."""
        return f"{self.fmt}-{self.name}"


def bytes_from(value: Any) -> bytes:
    """Hex, null for nothing, or a body given by its rule."""
    if isinstance(value, dict):
        size: int = value["len"]
        return (PATTERN * (size // 256 + 1))[:size]
    return bytes.fromhex(value or "")


def _version(value: int | str) -> Version:
    return value if isinstance(value, int) else bytes_from(value)


def message_from_fields(fields: dict[str, Any]) -> Message:
    """The message that a vector's fields describe."""
    special = {"version", "body", "callback_points", "routing", "domain", "wire_format_version"}
    values: dict[str, Any] = {
        k: v if isinstance(v, int) else bytes_from(v) for k, v in fields.items() if k not in special
    }
    return Message(
        version=_version(fields["version"]),
        body_frames=(bytes_from(fields["body"]),),
        callback_points=tuple(
            CallbackPoint(bytes_from(p["identity"]), _version(p["version"]), bytes_from(p["partition"]))
            for p in fields["callback_points"]
        ),
        routing=tuple(RoutingEntry(entry["uri"], bytes_from(entry["identity"])) for entry in fields["routing"]),
        domain=fields.get("domain", ""),
        **values,
    )


@cache
def golden_vectors() -> tuple[Golden, ...]:
    """Every message vector of all four formats."""
    return tuple(_read())


def _read() -> Iterator[Golden]:
    for fmt in FORMATS:
        for line in (VECTORS / f"{fmt.name.lower()}.jsonl").read_text().splitlines():
            vector = json.loads(line)
            message = message_from_fields(vector["fields"])
            frames = [message.body if isinstance(frame, dict) else bytes_from(frame) for frame in vector["frames"]]
            yield Golden(vector["name"], fmt, message, frames)


def golden(fmt: WireFormat, name: str) -> Golden:
    """One vector by its name."""
    return next(vector for vector in golden_vectors() if vector.fmt is fmt and vector.name == name)

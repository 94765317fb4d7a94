"""Messages and JSON from arguments, files and stdin. The beginning of a file decides how the file is read.

| the file begins with | read as |
|---|---|
| a line of JSON | JSON lines: each line is a list of frames, or an object that has `frames` |
| JSON over several lines | one JSON text: a message, or a list of messages |
| a line of `xxd` or `hexdump -C` | dumps of frames, or of what was said over a connection (`hex_dumps.py`) |
| the head of a capture, of Parquet or of pcap | sightings; those of a recording only as they arrive, so each once |
| anything else | one message for each line, frames in hex with spaces or commas between them; `#` begins a comment |

Hex may have colons and `0x`. Hex may also have spaces where spaces do not divide frames. An empty frame is `-` or `""`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from hopwire.capture import Direction, Fault, sightings_from_batch
from hopwire.capture.sources import SourceKind, kind_by_content, list_sources, read_source
from hopwire.capture.times import time_text
from hopwire.cli.hex_dumps import EMPTY, is_dump, messages_from_dumps
from hopwire.errors import SettingsError
from hopwire.report.jsonable import bytes_from_rule
from hopwire.report.words import text_or_hex
from hopwire.wire import FORMATS, WireFormat

__all__ = [
    "GivenMessage",
    "InputRecord",
    "format_named",
    "given_from_arguments",
    "given_from_record",
    "read_given",
    "read_records",
]

STDIN = "-"
EMPTY_FRAMES = ("", EMPTY, '""', "''")
EXPECTED = "frames in hex, JSON or JSON lines"


@dataclass(frozen=True, slots=True)
class InputRecord:
    """One line or one JSON value of a file, and its place in the file."""

    where: str
    value: Any
    is_json: bool


@dataclass(frozen=True, slots=True)
class GivenMessage:
    """The frames of one message as a user gave them, with the place and perhaps a name."""

    where: str
    name: str
    frames: list[bytes]


def format_named(name: str, option: str) -> WireFormat:
    """Give the wire format that an option names."""
    known = {fmt.name: fmt for fmt in FORMATS}
    if name.upper() not in known:
        raise SettingsError(f"{option}: found {name!r:.40}, expected one of {', '.join(known)}")
    return known[name.upper()]


def read_given(path: str, on_fault: Callable[[Fault], None]) -> Iterator[GivenMessage]:
    """Give the messages of a file, or of stdin for `-`."""
    if path == STDIN or not _is_source(path):
        return map(given_from_record, read_records(path))
    return _given_from_sightings(path, on_fault)


def _is_source(path: str) -> bool:
    return Path(path).is_file() and kind_by_content(path) is not None


def _given_from_sightings(path: str, on_fault: Callable[[Fault], None]) -> Iterator[GivenMessage]:
    [source] = list_sources(path)
    passed_over = (Direction.SKIPPED, Direction.OUT if source.kind == SourceKind.PCAP else Direction.SKIPPED)
    for batch in read_source(source, on_fault=on_fault):
        for row in sightings_from_batch(batch):
            if row.direction not in passed_over:
                where = f"{path}, {time_text(row.seen_at_ns)}, {row.direction} at {text_or_hex(row.node)}"
                yield GivenMessage(where, "", list(row.frames))


# -- records


def read_records(path: str) -> Iterator[InputRecord]:
    """Give the lines or the JSON values of a file, or of stdin for `-`, one by one."""
    place = "stdin" if path == STDIN else path
    if Path(path).is_char_device() or Path(path).is_block_device():  # one without end would fill the memory
        raise SettingsError(f"{path}: is a device, expected a file; - is stdin")
    with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as file:
        lines = _lines(file, place)
        first = next(filter(_holds_something, lines), None)
        if first is None:
            raise SettingsError(f"{place}: is empty")
        begun = [first]
        while begun[-1].text == EMPTY and (following := next(lines, None)):
            begun.append(following)
        rest = chain(begun, lines)
        if is_dump(begun[-1].text):
            dumped = ((line.where, line.text) for line in rest if not line.text.startswith("#"))
            for where, frames in messages_from_dumps(dumped):
                yield InputRecord(where, [frame.hex() for frame in frames], True)
        elif not first.text.startswith(("{", "[")):
            yield from (InputRecord(line.where, line.text, False) for line in rest if _holds_something(line))
        elif _is_json(first.text):
            yield from (InputRecord(line.where, _json(line.text, line.where), True) for line in rest if line.text)
        else:
            whole = _json("\n" * (first.number - 1) + "\n".join(line.text for line in rest), place)
            yield from _messages(whole, place)


class _TextLine(NamedTuple):
    number: int
    where: str
    text: str


def _lines(file: Iterable[bytes], place: str) -> Iterator[_TextLine]:
    for number, line in enumerate(file, 1):
        where = f"{place}, line {number}"
        try:
            yield _TextLine(number, where, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip())
        except UnicodeDecodeError:
            raise SettingsError(f"{where}: is not text; expected {EXPECTED}") from None


def _holds_something(line: _TextLine) -> bool:
    return bool(line.text) and not line.text.startswith("#")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{where}: is not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{where}: is not JSON that can be read: {type(error).__name__}") from None


def _messages(whole: Any, place: str) -> Iterator[InputRecord]:
    if isinstance(whole, list) and whole and all(isinstance(each, list | dict) and each for each in whole):
        yield from (InputRecord(f"{place}, message {number}", each, True) for number, each in enumerate(whole, 1))
    else:
        yield InputRecord(place, whole, True)


# -- frames


def given_from_arguments(arguments: list[str]) -> GivenMessage:
    """Give the message whose frames are the arguments."""
    expected = "one frame in hex; a file is read with --file"
    return GivenMessage("", "", [_frame(text, f"argument {n}", expected) for n, text in enumerate(arguments, 1)])


def given_from_record(record: InputRecord) -> GivenMessage:
    """Give the message that a line or a JSON value holds."""
    value, where = record.value, record.where
    if not record.is_json:
        parts = value.split(",") if "," in value else value.split()
        return GivenMessage(
            where, "", [_frame(text, f"{where}, frame {index}", EXPECTED) for index, text in enumerate(parts)]
        )
    frames = value.get("frames") if isinstance(value, dict) else value
    if not isinstance(frames, list):
        raise SettingsError(f"{where}: expected a list of frames in hex, or an object that has one as `frames`")
    fields = value.get("fields") if isinstance(value, dict) else None
    name = value.get("name") if isinstance(value, dict) else None
    found = [_json_frame(frame, fields, f"{where}, frame {index}") for index, frame in enumerate(frames)]
    return GivenMessage(where, name if isinstance(name, str) else "", found)


def _json_frame(frame: Any, fields: Any, where: str) -> bytes:
    if isinstance(frame, str):
        return _frame(frame, where, "hex")
    body = fields.get("body") if isinstance(fields, dict) else None
    if isinstance(frame, dict) and isinstance(body, dict):
        data = bytes_from_rule(body, where)
        if frame != {"len": len(data), "sha256": sha256(data).hexdigest()}:
            raise SettingsError(f"{where}: length or sha256 is not that of the body by its rule")
        return data
    raise SettingsError(f"{where}: found {type(frame).__name__}, expected hex")


def _frame(text: str, where: str, expected: str) -> bytes:
    digits = text.strip().lower()
    if digits in EMPTY_FRAMES:
        return b""
    try:
        return bytes.fromhex(digits.replace("0x", "").replace(":", ""))
    except ValueError:
        raise SettingsError(f"{where}: found {text!r:.40}, expected {expected}") from None

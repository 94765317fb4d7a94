"""`hopwire encode`: a message as JSON becomes frames."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from hopwire.cli.exits import ExitCode, fail
from hopwire.cli.message_input import STDIN, InputRecord, format_named, read_records
from hopwire.cli.terminal import say
from hopwire.errors import SettingsError, WireError
from hopwire.model import Message
from hopwire.report import message_from_json
from hopwire.wire import WireFormat, transcode
from hopwire.wire import encode as encode_message

__all__ = ["encode"]


def encode(
    file: Annotated[str, typer.Option("--file", "-f", help="Read messages from a file, or from stdin (-).")] = STDIN,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Write V3, V4, V5 or V6 instead of the message's own format.", show_default=False),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json/--hex", help="One JSON object for each message, or frames in hex.")
    ] = False,
) -> None:
    """Write messages as frames, from JSON as decode prints it. The JSON is the whole object, or only its `fields`.

    A message that the format cannot carry without loss is refused.
    """
    wanted = format_named(to, "--to") if to else None
    for record in read_records(file):
        try:
            message, fmt = message_from_json(_fields(record))
            frames = _encode(message, fmt, wanted or fmt)
        except SettingsError as error:
            raise SettingsError(f"{record.where}: {error}") from None
        except WireError as error:
            fail(f"{record.where}: {error}", ExitCode.BAD)
        if as_json:
            say(json.dumps({"format": (wanted or fmt).name, "frames": [frame.hex() for frame in frames]}))
        else:
            say(" ".join(frame.hex() or "-" for frame in frames))


def _fields(record: InputRecord) -> Any:
    if not record.is_json:
        raise SettingsError("expected JSON")
    value = record.value
    if not isinstance(value, dict) or "fields" not in value:
        return value
    error = value.get("error")
    if value["fields"] is None and isinstance(error, dict):
        raise SettingsError(f"is a bad message ({error.get('reason')}), which has no fields")
    return value["fields"]


def _encode(message: Message, fmt: WireFormat, to: WireFormat) -> list[bytes]:
    return encode_message(message if to is fmt else transcode(message, to), to)

"""`hopwire wireshark`: a dissector for Wireshark and tshark, made from the tables of the formats."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from hopwire.cli.terminal import say
from hopwire.report.lua_tables import lua_tables

__all__ = ["dissector", "wireshark"]

WALK = "wireshark.lua"
HEAD = "-- Made by `hopwire wireshark` from the tables of the wire formats; make it anew after an update of hopwire.\n"


def wireshark(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write into this file.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object: the file, or the dissector.")] = False,
) -> None:
    """Write a dissector in Lua for Wireshark and tshark. They then show every item of a message by the names that
    decode has for them.

    The dissector takes every connection that begins with the greeting of ZeroMQ, and reads messages of all four
    formats, trains, and hopwire's own extension. Filters: hopwire.identity, hopwire.correlation_id, hopwire.error and
    so on. Wireshark loads the file from its folder of personal Lua plugins, which stands under Help, About, Folders.
    """
    made = dissector()
    if output is None:
        say(json.dumps({"dissector": made}) if as_json else made.rstrip("\n"))
        return
    try:
        output.write_text(made, encoding="utf-8")
    except OSError as error:  # a full disk does not say which file it was
        raise OSError(error.errno, error.strerror, str(output)) from None
    words = f"{output} is written; try it: tshark -X lua_script:{output} -r RECORDING -Y hopwire"
    say(json.dumps({"output": str(output), "size_bytes": len(made.encode())}) if as_json else words)


def dissector() -> str:
    """Give the whole program."""
    return f"{HEAD}\n{lua_tables()}\n{resources.files('hopwire.cli').joinpath(WALK).read_text('utf-8')}"

"""tshark, the command line of Wireshark, with our dissector: what it shows of a recording."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hopwire.cli.wireshark import dissector

__all__ = ["ShownMessage", "needs_tshark", "shown_messages", "tshark"]

needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="NOT INSTALLED: tshark, in which the dissector is tried"
)
OWN = "hopwire."


@dataclass
class ShownMessage:
    """One message as tshark shows it: every value under the name in front of it, in order."""

    words: str
    values: list[tuple[str, str, str]] = field(default_factory=list)  # name, what is shown, bytes in hex
    extension: dict[str, tuple[str, str]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)  # what the dissector adds: format, contract, error


def tshark(recording: Path, *options: str) -> str:
    """Run tshark on a recording; a fault of the dissector fails the test."""
    script = recording.with_suffix(".lua")
    script.write_text(dissector(), "utf-8")
    home = {**os.environ, "HOME": str(recording.parent), "XDG_CONFIG_HOME": str(recording.parent)}
    done = subprocess.run(
        ["tshark", "-X", f"lua_script:{script}", "-r", str(recording), *options],
        capture_output=True,
        env=home,
        timeout=100,
        check=True,
    )
    said = done.stdout.decode()
    assert "Lua" not in done.stderr.decode()
    assert "Lua Error" not in said
    return said


def shown_messages(recording: Path) -> list[ShownMessage]:
    """Give the messages of a recording in their order, those of trains too."""
    found = []
    for packet in ElementTree.fromstring(tshark(recording, "-T", "pdml")):
        for each in packet.iter():
            if each.get("showname", "").startswith(("hopwire V", "hopwire no format")):
                found.append(_message(each))
    return found


def _message(element: ElementTree.Element) -> ShownMessage:
    message = ShownMessage(element.get("showname", ""))
    for each in element:
        name = each.get("name", "")
        label = each.get("showname", "").partition(": ")[0]
        if name.removeprefix(OWN) in ("format", "contract", "error", "error.field"):
            message.facts[name.removeprefix(OWN)] = each.get("show", "")
        elif name.startswith(OWN):
            message.values.append((label, each.get("show", ""), each.get("value", "")))
            for part in each:
                if part.get("name", "").startswith(f"{OWN}extension."):
                    key = part.get("name", "").removeprefix(f"{OWN}extension.")
                    message.extension[key] = (part.get("show", ""), part.get("value", ""))
                elif part.get("name") == f"{OWN}error":
                    message.facts["extension_error"] = part.get("show", "")
    return message

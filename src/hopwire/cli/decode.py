"""`hopwire decode`: every frame of a message by its name."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from hopwire.capture.file_faults import Fault, refuse
from hopwire.cli.dissection_table import show_dissection
from hopwire.cli.exits import ExitCode, complain
from hopwire.cli.message_input import STDIN, GivenMessage, format_named, given_from_arguments, read_given
from hopwire.cli.terminal import say, screen
from hopwire.domains_file import domains_from_file
from hopwire.errors import SettingsError, WireError
from hopwire.model.limits import Limits
from hopwire.report import dissection_to_json
from hopwire.report.words import plural
from hopwire.security import Domains, Verdict, is_accepted, verify
from hopwire.wire import WireFormat
from hopwire.wire.dissect import Dissection, dissect
from hopwire.wire.train import is_train, unpack_train

__all__ = ["decode"]

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class _DecodedMessage:
    """One message taken apart; where domains are given, with the verdict on its signature."""

    given: GivenMessage
    dissection: Dissection
    verdict: Verdict | None
    is_accepted: bool

    @property
    def fault(self) -> str:
        """Why the message is bad; empty for a good message."""
        if self.dissection.error:
            return self.dissection.error.reason
        return "" if self.is_accepted else f"signature {self.verdict}"


def decode(
    frames: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FRAME", help='One message, each frame in hex; "-" is an empty frame.', show_default=False
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", help="Read messages from a file, or from stdin (-).", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each message.")] = False,
    fmt: Annotated[str, typer.Option("--format", help="Read as V3, V4, V5 or V6, whatever the message claims.")] = AUTO,
    domains: Annotated[
        str | None,
        typer.Option("--domains", help="Judge signatures by the domains in this TOML file.", show_default=False),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show every byte.")] = False,
) -> None:
    """Show every item of a message: place, name, bytes, meaning.

    A file holds JSON, JSON lines, one message on each line with its frames in hex, or dumps of xxd or hexdump -C. It
    may also be a file of a capture, a Parquet file, or a recording of the network (pcap, pcapng). A dump holds what was
    said over a connection; or each frame has a dump of its own, and an empty line ends a message. A bad message is
    shown as far as it could be read, with a mark at the byte that is wrong.
    """
    wanted = format_named(fmt, "--format") if fmt != AUTO else None
    known = domains_from_file(domains) if domains else None
    show = _write_json if as_json else _MessageScreen(screen(), full).show
    faults: Counter[str] = Counter()
    for given in _given(frames or [], file):
        for dissection in _dissections(given.frames, wanted):
            result = _DecodedMessage(given, dissection, *_judge(dissection, known))
            faults[result.fault] += 1
            show(result)
    if not as_json and faults.total() > 1:
        say(f"\n{_summary(faults)}")
    if faults.total() > faults[""]:
        raise typer.Exit(ExitCode.BAD)


def _given(frames: list[str], file: str | None) -> Iterator[GivenMessage]:
    if frames == [STDIN] or (not frames and file is None and not sys.stdin.isatty()):
        frames, file = [], file or STDIN
    if frames and file is not None:
        raise SettingsError("found frames and --file, expected one of them")
    if file is None and not frames:
        raise SettingsError("found no message: give its frames in hex, or --file")
    if file is None:
        yield given_from_arguments(frames)
    else:
        yield from read_given(file, _tell)


def _dissections(frames: list[bytes], fmt: WireFormat | None) -> Iterator[Dissection]:
    """Take a message apart, or every message of a train."""
    for train in (frames, [b"", *frames]):  # with the name of the sender in front, or as it is on the wire
        if is_train(train):
            try:
                messages = unpack_train(train, Limits())
            except WireError as error:
                yield Dissection(tuple(train), None, (), None, error)
                return
            yield from (dissect(message, fmt=fmt) for message in messages)
            return
    yield dissect(frames, fmt=fmt)


def _tell(fault: Fault) -> None:
    refuse(fault)
    complain(str(fault))


def _judge(dissection: Dissection, domains: Domains | None) -> tuple[Verdict | None, bool]:
    if domains is None or dissection.message is None:
        return None, True
    verdict = verify(dissection.message, domains)
    return verdict, is_accepted(verdict, dissection.message, domains)


def _write_json(result: _DecodedMessage) -> None:
    verdict: dict[str, Any] = {}
    if result.verdict:
        verdict = {"signature": str(result.verdict), "is_accepted": result.is_accepted}
    named = {"name": result.given.name} if result.given.name else {}
    say(json.dumps({**named, **dissection_to_json(result.dissection), **verdict}))


class _MessageScreen:
    """Shows one message below the other."""

    def __init__(self, console: Console, full: bool) -> None:
        self.console = console
        self.full = full
        self.count = 0

    def show(self, result: _DecodedMessage) -> None:
        if self.count:
            self.console.print()
        self.count += 1
        name = result.given.name or result.given.where
        show_dissection(self.console, result.dissection, name, self.full, result.fault)
        if result.verdict:
            style = "green" if result.is_accepted else "bold red"
            refused = "" if result.is_accepted else ", refused"
            self.console.print(Text.assemble("\nsignature: ", (f"{result.verdict}{refused}", style)))


def _summary(faults: Counter[str]) -> str:
    bad = ", ".join(f"{count} {fault}" for fault, count in faults.most_common() if fault)
    count = faults.total() - faults[""]
    return f"{plural(faults.total(), 'message')}: {faults['']} fine, {count} bad" + (f" ({bad})" if bad else "")

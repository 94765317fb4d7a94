"""`hopwire capture ls` and `cat`: what nodes saw, file by file and sighting by sighting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path
from time import sleep
from typing import Annotated, Any, NamedTuple, TypedDict

import pyarrow as pa
import typer

from hopwire.capture import (
    Direction,
    Fault,
    Segment,
    Sighting,
    State,
    follow_capture,
    sightings_from_batch,
)
from hopwire.capture.sources import Source, list_sources, read_source, survey
from hopwire.capture.times import ns_from_text, time_text
from hopwire.cli.exits import ExitCode, complain
from hopwire.cli.place_arguments import place_argument
from hopwire.cli.terminal import plain_table, print_whole, say, screen
from hopwire.disk import shown_name
from hopwire.errors import SettingsError
from hopwire.model.names import is_control
from hopwire.model.units import NS_PER_MS, NS_PER_SECOND, NS_PER_TICK
from hopwire.report.jsonable import jsonable
from hopwire.report.words import cut, duration, node_label, nodes_called, plural, printable, spellings, text_or_hex
from hopwire.wire import decode_batch

__all__ = ["COMMANDS", "cat", "ls"]

POLL_SECONDS = 0.1  # between two looks at a capture that grows
SECONDS = len("2026-01-31T12:00:00")  # so much of a time is shown in a table
DECODED = ("identity", "wire_format", "reason", "version", "version_raw", "partition", "correlation_id")
STYLES = {State.OPEN: "cyan", State.CUT_OFF: "yellow", State.UNREADABLE: "bold red"}
NODE_WIDTH, IDENTITY_WIDTH = 20, 28  # characters, in a line of `cat`

Directory = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", parser=place_argument, help="The directory of a capture or its URL, or one of its files."
    ),
]


class _FaultTeller:
    """Says what is wrong with the files, one line each, and ends the command with a code if a file was unreadable."""

    def __init__(self) -> None:
        self.is_any_unreadable = False

    def tell(self, fault: Fault) -> None:
        complain(str(fault))
        self.is_any_unreadable |= fault.is_serious

    def end(self) -> None:
        if self.is_any_unreadable:
            raise typer.Exit(ExitCode.USAGE)


# -- ls


def ls(
    directory: Directory,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each segment.")] = False,
) -> None:
    """List the segments of a capture, and whether they are whole. Each is shown with what is in it, from when to when.

    Segments that are open or cut off are read as far as they go. Parquet files of raw frames are listed too, and
    recordings of the network (pcap, pcapng) that hold messages over ZeroMQ.
    """
    faults = _FaultTeller()
    segments = [survey(source) for source in list_sources(directory)]
    if as_json:
        for segment in segments:
            say(json.dumps(_segment_to_json(segment)))
    else:
        _show_segments(segments)
    for segment in segments:
        if segment.fault:
            faults.tell(segment.fault)
    faults.end()


def _segment_to_json(segment: Segment) -> dict[str, Any]:
    summary = segment.summary
    return {
        "path": str(segment.path),
        "state": segment.state.value,
        "row_count": summary.row_count,
        "skipped": summary.skipped,
        "nodes": summary.nodes,
        "first_seen_at_ns": summary.first_seen_at_ns if summary.row_count else None,
        "last_seen_at_ns": summary.last_seen_at_ns if summary.row_count else None,
        "size_bytes": segment.size_bytes,
        "cut_bytes": segment.fault.size_bytes if segment.fault else 0,
        "fault": segment.fault.detail if segment.fault else None,
    }


def _show_segments(segments: list[Segment]) -> None:
    table = plain_table()
    for name in ("state", "node"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "skipped", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("from", "for", "segment"):
        table.add_column(name, no_wrap=True)
    for segment in segments:
        summary = segment.summary
        begin = time_text(summary.first_seen_at_ns)[:SECONDS] + "Z" if summary.row_count else ""
        span = _span(summary.last_seen_at_ns - summary.first_seen_at_ns) if summary.row_count else ""
        counts = (f"{count:,}" for count in (summary.row_count, summary.skipped, segment.size_bytes))
        nodes = ", ".join(node_label(bytes.fromhex(node), name) for node, name in sorted(summary.nodes.items()))
        style = STYLES.get(segment.state, "")
        table.add_row(segment.state, nodes, *counts, begin, span, printable(shown_name(segment.path.name)), style=style)
    print_whole(screen(), table)
    if not segments:
        say("no captures here; a node writes them: hopwire node --capture DIRECTORY, or Node(capture=...)")


def _span(nanoseconds: int) -> str:
    """A stretch of time with its units; of more than a second no more than milliseconds."""
    exact = NS_PER_MS if nanoseconds > NS_PER_SECOND else NS_PER_TICK
    return duration(nanoseconds // exact * exact // NS_PER_TICK)


# -- cat


def cat(
    directory: Directory,
    since: Annotated[
        str | None, typer.Option("--since", "--from", help="From this time on, in UTC.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option("--until", "--to", help="Before this time.", show_default=False)] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", help="Only this node, by name or identity.", show_default=False)
    ] = None,
    flow: Annotated[
        str | None, typer.Option("--flow", help="Only messages whose correlation id begins so.", show_default=False)
    ] = None,
    contract: Annotated[
        str | None, typer.Option("--contract", help="Only messages of this identity.", show_default=False)
    ] = None,
    no_control: Annotated[
        bool, typer.Option("--no-control", help="Without what nodes say among themselves, such as signs of life.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Stop after so many lines.", show_default=False)
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for new sightings, and show them as they come.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each line; `hopwire decode -f -` reads it.")
    ] = False,
) -> None:
    """Show what nodes saw, in the order of time, a line each.

    A line has time, node, direction, peer, the identity and version of the message and its partition, its wire format,
    its size and its correlation id. The line of a dead letter also has the reason, and the line of an unreadable
    message what is wrong with it. The line of a promise that ended has what its asker was told. Where sightings are
    missing, a line says how many and why. With --flow, --contract or --no-control only messages are shown. Parquet
    files and recordings of the network are read as well; --follow follows captures only.
    """
    sources = list_sources(directory)
    segments = [survey(source) for source in sources]
    faults = _FaultTeller()
    wanted: _ReaderOptions = {
        "since": ns_from_text(since, "--since/--from") if since else None,
        "until": ns_from_text(until, "--until/--to") if until else None,
        "nodes": _nodes_named(node, segments) if node else None,
        "on_fault": faults.tell,
    }
    if follow:
        sightings = _decoded(follow_capture(directory, _wait, **wanted))
    else:
        streams = [_decoded(_read(group, wanted)) for group in _by_node(sources, segments)]
        sightings = merge(*streams, key=lambda each: each.sighting.seen_at_ns)
    wants = _MessageFilter(
        tuple(spellings(flow)) if flow else None, spellings(contract) if contract else None, no_control
    )
    names = {bytes.fromhex(node): name for segment in segments for node, name in segment.summary.nodes.items()}
    is_any = False
    for each in islice(filter(wants.has, sightings), limit):
        is_any = True
        say(json.dumps(_sighting_to_json(each)) if as_json else _line(each, names), flush=follow)
    if not is_any and not faults.is_any_unreadable:
        complain(f"{directory}: nothing that these options want; hopwire capture ls {directory} lists what there is")
    faults.end()


class _MessageFilter(NamedTuple):
    """Which messages are wanted: of a flow, of a contract, and not of nodes among themselves."""

    flows: tuple[bytes, ...] | None  # the beginning of the correlation id, in every spelling
    contracts: Sequence[bytes] | None
    is_without_control: bool

    def has(self, decoded: _DecodedSighting) -> bool:
        """Tell whether a sighting is wanted; rows that are no messages are wanted only if nothing is asked for."""
        if decoded.identity is None:
            return self.flows is None and self.contracts is None and not self.is_without_control
        return (
            (self.flows is None or (decoded.correlation_id or b"").startswith(self.flows))
            and (self.contracts is None or decoded.identity in self.contracts)
            and not (self.is_without_control and is_control(decoded.identity))
        )


class _ReaderOptions(TypedDict):
    """The options of `cat`, as the readers of captures take them."""

    since: int | None
    until: int | None
    nodes: set[bytes] | None
    on_fault: Callable[[Fault], None]


def _wait() -> bool:
    sleep(POLL_SECONDS)
    return True


class _DecodedSighting(NamedTuple):
    """A sighting, and what could be read of its message."""

    sighting: Sighting
    identity: bytes | None
    wire_format: int | None
    fault: str | None
    version: int | None
    version_raw: bytes | None
    partition: bytes | None
    correlation_id: bytes | None

    @property
    def contract(self) -> str:
        """The identity, version and partition in words; `-` where there is no message."""
        if self.identity is None:
            return "-"
        version = self.version if self.version_raw is None else text_or_hex(self.version_raw)
        partition = f" in {text_or_hex(self.partition)}" if self.partition else ""
        return f"{text_or_hex(self.identity)} v{version}{partition}"


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[_DecodedSighting]:
    for batch in batches:
        decoded = decode_batch(batch.column("frames"), columns=DECODED)
        columns = (decoded.column(name).to_pylist() for name in DECODED)
        for sighting, *message in zip(sightings_from_batch(batch), *columns, strict=True):
            is_message = sighting.direction != Direction.SKIPPED
            yield _DecodedSighting(sighting, *(message if is_message else (None,) * len(DECODED)))


def _read(sources: list[Source], wanted: _ReaderOptions) -> Iterator[pa.RecordBatch]:
    for source in sources:
        yield from read_source(source, **wanted)


def _by_node(sources: Sequence[Source], segments: list[Segment]) -> list[list[Source]]:
    """The sources of each node: those of one node follow each other, those of several nodes are merged by time."""
    groups: dict[tuple[str, ...], list[Source]] = {}
    for source, segment in zip(sources, segments, strict=True):
        groups.setdefault(tuple(sorted(segment.summary.nodes)), []).append(source)
    return list(groups.values())


def _nodes_named(wanted: list[str], segments: list[Segment]) -> set[bytes]:
    known = {bytes.fromhex(node): name for segment in segments for node, name in segment.summary.nodes.items()}
    found = set()
    for each in wanted:
        matches = nodes_called(each, known)
        if not matches:
            labels = ", ".join(node_label(node, name) for node, name in sorted(known.items()))
            raise SettingsError(f"--node: found {each!r:.40}, the capture has {cut(labels, 200) or 'no nodes'}")
        found.update(matches)
    return found


def _sighting_to_json(decoded: _DecodedSighting) -> dict[str, Any]:
    row = decoded.sighting
    message = {
        "identity": decoded.identity,
        "format": f"V{decoded.wire_format}" if decoded.wire_format else None,
        "fault": decoded.fault,
        "version": decoded.version if decoded.version_raw is None else decoded.version_raw,
        "partition": decoded.partition,
        "correlation_id": decoded.correlation_id,
    }
    return dict(jsonable({"seen_at": time_text(row.seen_at_ns), **row._asdict(), **message}))


def _line(decoded: _DecodedSighting, names: Mapping[bytes, str]) -> str:
    row = decoded.sighting
    node = node_label(row.node, row.node_name)
    begin = f"{time_text(row.seen_at_ns)}  {node:<{NODE_WIDTH}}  {printable(row.direction):<7}"
    why = "".join(f"  {printable(text)}" for text in (row.reason, row.note) if text)
    if row.direction == Direction.SKIPPED:
        return f"{begin}  {plural(row.skipped, 'sighting')} missing from sequence {row.sequence} on{why}"
    peer = node_label(row.peer, names.get(row.peer, "")) if row.peer else "-"
    wire_format = f"V{decoded.wire_format}" if decoded.wire_format else "--"
    size = plural(sum(map(len, row.frames)), "byte")
    fault = f"  {decoded.fault}" if decoded.fault else ""
    flow = f"  {text_or_hex(decoded.correlation_id)}" if decoded.correlation_id else ""
    contract = f"{decoded.contract:<{IDENTITY_WIDTH}}"
    return f"{begin}  {peer:<{NODE_WIDTH}}  {contract}  {wire_format}  {size}{flow}{fault}{why}"


COMMANDS = (ls, cat)

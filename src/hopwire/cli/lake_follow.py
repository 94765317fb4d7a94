"""`hopwire lake follow` and `hopwire lake status`: a lake beside a running network, and how it stands."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from hopwire.capture.times import time_text
from hopwire.cli.exits import complain, end_if_incomplete
from hopwire.cli.place_arguments import LakePlace, place_argument
from hopwire.cli.spark_sessions import build_settings, lazy_session, need_spark
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.domains_file import domains_from_file
from hopwire.errors import SettingsError
from hopwire.places import Place
from hopwire.report.words import plural
from hopwire.security import OPEN, Domains

if TYPE_CHECKING:
    from hopwire.lake.follow import FollowSettings
    from hopwire.lake.follow_notes import FollowNotes
    from hopwire.lake.lake_standing import LakeStatus

__all__ = ["follow", "status"]

SHOWN_NODES, SHOWN_BAD = 20, 5
OPTIONS = {"max_rows": "--max-rows", "every_seconds": "--every", "compact_steps": "--compact"}


def follow(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="CAPTURES... LAKE",
            parser=place_argument,
            help="Directories of captures, and last the lake; or their URLs.",
        ),
    ],
    domains: Annotated[
        str | None,
        typer.Option("--domains", help="Judge signatures by the domains in this TOML file.", show_default=False),
    ] = None,
    every: Annotated[float, typer.Option("--every", help="Seconds from one step to the next.")] = 2.0,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Sightings of one step, at most.")] = 100_000,
    compact_steps: Annotated[int, typer.Option("--compact", help="Merge small files after so many steps.")] = 50,
    is_once: Annotated[bool, typer.Option("--once", help="End when there is nothing new.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--spark", help="Let Structured Streaming follow, with this checkpoint.", show_default=False),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", help="Serve Prometheus: a port of this machine, or HOST:PORT.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
) -> None:
    """Follow captures into a lake, as nodes write them. Step after step, the tables are those of a build.

    The command ends in order with Ctrl+C or SIGTERM, and may be killed at any moment: the next one goes on where the
    last step ended. Captures that are not there yet are waited for. One process at a time follows into a lake. Spark is
    started with --spark, or if there is more to judge at once than one process can. With --once nothing is waited for,
    and the exit code is that of a build: 2 if captures are not there, 4 if some are bad.
    """
    if len(paths) < 2:
        raise SettingsError("expected captures and a lake: hopwire lake follow captures lake")
    need_spark()
    known = domains_from_file(domains) if domains else OPEN
    from hopwire.lake.build import bad_captures, need_captures
    from hopwire.lake.follow import Follower, FollowSettings, following

    try:
        settings = FollowSettings(max_rows=max_rows, every_seconds=every, compact_steps=compact_steps)
    except SettingsError as error:
        name, _, said = str(error).partition(" ")
        raise SettingsError(f"{OPTIONS[name]} {said}") from None  # by the name that was typed
    if is_once:
        need_captures(paths[:-1], paths[-1])
    with following(paths[-1]) as lake, _served(metrics, lake), _stopping() as stop:
        if not is_once:
            complain(f"following {', '.join(map(str, paths[:-1]))} into {paths[-1]}; Ctrl+C ends it in order")
        if checkpoint is not None:
            _fed_by_spark(paths, checkpoint, settings, known, None if is_once else stop)
        else:
            with lazy_session("hopwire lake follow", _whole_settings) as spark:
                follower = Follower(paths[:-1], lake, settings, domains=known, spark=spark, tell=complain)
                notes = follower.run(lambda seconds: not stop.wait(seconds), is_once=is_once)
            _show_end(notes, paths[-1], as_json=as_json)
    if is_once:
        end_if_incomplete(bad_captures(paths[:-1], paths[-1]))


def _show_end(notes: FollowNotes, lake: Path, *, as_json: bool) -> None:
    if as_json:
        say(json.dumps({name: getattr(notes, name) for name in notes.__slots__}))
        return
    steps = plural(notes.step_count, "step")
    say(f"{notes.sighting_count:,} sightings in {steps}; version {notes.version} of {lake}")


def _fed_by_spark(
    paths: Sequence[Path], checkpoint: Path, settings: FollowSettings, domains: Domains, stop: threading.Event | None
) -> None:
    """Feed a lake by a query of Spark, until it is stopped; without an event until it has taken what is there."""
    from hopwire.lake.dataframes import plain_errors
    from hopwire.lake.session import session
    from hopwire.lake.stream_feed import feed_lake

    with plain_errors("Spark does not start"):
        spark = session("hopwire lake follow")
    try:
        with plain_errors("the stream"):
            query = feed_lake(
                spark,
                paths[:-1],
                paths[-1],
                checkpoint,
                max_rows=settings.max_rows,
                every_seconds=settings.every_seconds if stop else None,
                domains=domains,
                tell=complain,
            )
            while not query.awaitTermination(1):
                if stop and stop.is_set():
                    query.stop()
    finally:
        spark.stop()


def _whole_settings() -> Mapping[str, Any]:
    complain("there is more to read or to judge than a step can: Spark does it")
    return build_settings(None)


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Give what is set by SIGINT and SIGTERM: a step that runs is ended first."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _served(address: str | None, lake: Place) -> Any:
    if address is None:
        return nullcontext()
    from hopwire.runner.lake_metrics import serving_metrics

    return serving_metrics(address, lake)


# -- status


def status(
    lake: LakePlace,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how a lake stands: its tables, its lag, who follows. The version, and what is open, are shown too.

    Sources that could not be read are named, and the version of the rules by which the tables were judged.
    """
    from hopwire.lake.lake_standing import lake_status

    found = lake_status(lake, time.time_ns())
    if as_json:
        say(json.dumps(_status_to_json(found)))
    else:
        _show_status(found)


def _status_to_json(found: LakeStatus) -> dict[str, Any]:
    from hopwire.lake.manifest import RULES

    follower = found.follower
    return {
        "lake": str(found.lake),
        "version": found.manifest.number,
        "versions": found.versions,
        "published_at_ns": found.published_at_ns,
        "rows": found.rows,
        "files": found.files,
        "size_bytes": found.size_bytes,
        "sources": len(found.manifest.sources),
        "bad_sources": found.bad_sources,
        "quarantined": found.quarantined,
        "rules": found.rules,
        "present_rules": RULES,
        "domains": found.manifest.domains,
        "known_since_ns": found.known_since_ns,
        "expired": found.expired,
        "forgotten": found.forgotten,
        "open_flows": found.open_flows,
        "open_sightings": found.open_sightings,
        "lag_seconds": found.lag_seconds,
        "unread_bytes": found.unread_bytes,
        "nodes": [each._asdict() for each in found.nodes],
        "tables": {
            name: {"row_count": each.row_count, "size_bytes": each.size_bytes, "file_count": each.file_count}
            for name, each in sorted(found.manifest.tables.items())
        },
        "is_followed": found.is_followed,
        "follower": None if follower is None else {name: getattr(follower, name) for name in follower.__slots__},
    }


def _show_status(found: LakeStatus) -> None:
    console = screen()
    age = (time.time_ns() - found.published_at_ns) / 1e9
    lag = (
        "no sightings yet" if found.lag_seconds is None else f"the newest sighting is {_seconds(found.lag_seconds)} old"
    )
    console.print(
        f"{found.lake}: version {found.manifest.number}, published {_seconds(age)} ago; {lag}", soft_wrap=True
    )
    sizes = (
        f"{plural(found.files, 'file')}, {found.size_bytes:,} bytes, {plural(len(found.manifest.sources), 'source')}"
    )
    console.print(f"{sizes}, {plural(found.versions, 'version')} that can be read")
    console.print(_rules_line(found), soft_wrap=True)
    _show_bad(found)
    if found.known_since_ns:
        gone = f"{found.expired:,} sightings before are counted and gone"
        console.print(f"the lake knows from {time_text(found.known_since_ns)[:10]} on; {gone}")
    if found.forgotten:
        console.print(f"{plural(found.forgotten, 'sighting')} forgotten")
    again = f"{plural(found.open_sightings, 'sighting')} judged again by the next step"
    console.print(f"{plural(found.open_flows, 'flow')} open, {again}")
    console.print(_follower_line(found), soft_wrap=True)
    tables = sorted(found.manifest.tables.items())
    rows = [(name, f"{each.row_count:,}", f"{each.file_count:,}", f"{each.size_bytes:,}") for name, each in tables]
    console.print(_shown(("table", "rows", "files", "bytes"), rows))
    lags = [(each.node, f"{_seconds(each.lag_seconds)} ago") for each in found.nodes[:SHOWN_NODES]]
    console.print(_shown(("node", "last seen"), lags))
    if len(found.nodes) > SHOWN_NODES:
        console.print(f"and {len(found.nodes) - SHOWN_NODES} more; --json has all")


def _rules_line(found: LakeStatus) -> str:
    """By which rules the tables were judged, and what the next build makes of it."""
    from hopwire.lake.manifest import RULES

    judges = f"; signatures by {', '.join(found.manifest.domains)}" if found.manifest.domains else ""
    if not found.rules:
        return f"judged by rules that the lake does not name: its last build was before they were written{judges}"
    anew = "" if found.rules == RULES else f", and this hopwire has {RULES}: its next build judges all anew"
    return f"judged by rules {found.rules}{anew}{judges}"


def _show_bad(found: LakeStatus) -> None:
    """What could not be read, and what is no message."""
    console = screen()
    if found.bad_sources:
        console.print(f"{plural(found.bad_source_count, 'source')} could not be read, or not in full:", style="yellow")
    for name, faults in list(found.bad_sources.items())[:SHOWN_BAD]:
        console.print(Text(f"  {name}: {'; '.join(faults) or 'damaged'}"), soft_wrap=True)
    if found.bad_source_count > SHOWN_BAD:
        console.print(f"  and {found.bad_source_count - SHOWN_BAD} more; --json has all")
    if found.quarantined:
        what = plural(found.quarantined, "sighting is no message", "sightings are no messages")
        console.print(f"{what}: silver.quarantine says why")


def _shown(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Any:
    table = plain_table()
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _follower_line(found: LakeStatus) -> str:
    notes = found.follower
    if notes is None:
        return "nobody has followed captures into it"
    who = f"process {notes.process} on {notes.host}"
    done = f"{plural(notes.step_count, 'step')}, {plural(notes.sighting_count, 'sighting')}"
    if not found.is_followed:
        ended = "ended" if notes.state == "ended" else "died"
        return f"nobody follows; {who} {ended} after {done}"
    trouble = f": {notes.trouble}" if notes.trouble else ""
    last = f", the last of {notes.last_step_rows:,} in {notes.last_step_seconds:.1f} s" if notes.step_count else ""
    return f"{who} follows ({notes.state}{trouble}): {done}{last}"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s" if abs(seconds) < 600 else f"{seconds / 60:,.0f} min"

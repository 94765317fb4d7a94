"""`hopwire flows latencies`: how long the questions of each contract took, read from a lake without Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from hopwire.capture.times import ns_from_text
from hopwire.cli.flows import Service
from hopwire.cli.place_arguments import LakePlace
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.flows.histograms import LATENCIES, MINUTE, QUANTILES, added, quantile_of
from hopwire.flows.schemas import OUTCOMES
from hopwire.model.units import NS_PER_US
from hopwire.report.flow_tree import took
from hopwire.report.words import text_or_hex

__all__ = ["latencies"]

TABLE = "gold.latencies"
COUNTS = ("request_count", *(f"{name}_count" for name in OUTCOMES))
NOTEWORTHY = ("failed", "late", "expired", "lost", "open")


class _AskedContract(NamedTuple):
    """What tells contracts apart, for people."""

    contract: str
    version: str
    partition: str


def latencies(
    lake: LakePlace,
    contract: Annotated[
        str | None, typer.Option("--contract", help="Only questions of this identity.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", "--from", help="Only minutes from this time on, in UTC.", show_default=False),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", "--to", help="Only minutes before this time.", show_default=False)
    ] = None,
    everything: Service = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each contract.")] = False,
) -> None:
    """Show how long the questions of each contract took. Quantiles are over any time, and the slowest contract stands
    first.

    Quantiles are read from histograms that add up (gold.latencies), and are too large by 6 % at most.
    """
    rows = _read(lake, contract, since, until, with_service=everything)
    found = sorted((_summed_up(*each) for each in rows.items()), key=lambda row: -(row["p99_us"] or 0))
    if as_json:
        for row in found:
            say(json.dumps(row))
        return
    table = plain_table()
    table.add_column("contract", overflow="fold")
    for name in ("requests", "answered", "p50", "p95", "p99", "longest"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("not answered", overflow="fold")
    for row in found:
        label = " ".join(filter(None, (row["contract"], row["version"] and f"v{row['version']}", row["partition"])))
        times = (took(row[name]) if row[name] is not None else "-" for name in (*QUANTILES, "max_us"))
        odd = ", ".join(f"{row[f'{name}_count']:,} {name}" for name in NOTEWORTHY if row[f"{name}_count"])
        table.add_row(label, f"{row['request_count']:,}", f"{row['answered_count']:,}", *times, Text(odd, "yellow"))
    console = screen()
    if found:
        console.print(table)
    else:
        console.print(Text("no questions", "dim"))


def _read(
    lake: Path, contract: str | None, since: str | None, until: str | None, *, with_service: bool
) -> dict[_AskedContract, list[dict[str, Any]]]:
    """Read the rows of a lake that are wanted, by contract."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    from hopwire.lake.store import read_arrow

    where = ds.scalar(True) if with_service else ~ds.field("is_control")
    if since is not None:
        where &= ds.field("minute") >= pa.scalar(ns_from_text(since, "--since/--from") // NS_PER_US, MINUTE)
    if until is not None:
        where &= ds.field("minute") < pa.scalar(ns_from_text(until, "--until/--to") // NS_PER_US, MINUTE)
    if contract is not None:
        where &= ds.field("identity") == pa.scalar(contract.encode(), pa.binary())
    found: dict[_AskedContract, list[dict[str, Any]]] = defaultdict(list)
    for row in read_arrow(lake, TABLE, [column.name for column in LATENCIES], where).to_pylist():
        version = text_or_hex(row["version_raw"] or b"") if row["version"] is None else str(row["version"])
        found[_AskedContract(text_or_hex(row["identity"]), version, text_or_hex(row["partition"] or b""))].append(row)
    return found


def _summed_up(contract: _AskedContract, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Give one row for all minutes of a contract."""
    bins = added(row["latency_histogram"] for row in rows)
    longest = [row["max_us"] for row in rows if row["max_us"] is not None]
    return {
        **contract._asdict(),
        **{name: sum(row[name] for row in rows) for name in COUNTS},
        "total_us": sum(row["total_us"] for row in rows),
        **{name: _quantile(bins, percent, longest) for name, percent in QUANTILES.items()},
        "max_us": max(longest, default=None),
    }


def _quantile(bins: dict[int, int], percent: int, longest: list[int]) -> int | None:
    """Read a quantile from bins; the last bin may end behind the longest latency."""
    found = quantile_of(bins, percent)
    return None if found is None else min(found, max(longest))

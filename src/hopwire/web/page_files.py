"""What a page shows, as a file: flows in the formats of other tools, and rows as Parquet.

A file has everything that fits, or is refused with the number of what fits: nothing is cut off in silence.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hopwire.errors import SettingsError
from hopwire.lake.flow_exports import FlowExport
from hopwire.report.export_formats import EXPORT_FORMATS
from hopwire.web import lake_questions as ask
from hopwire.web.flow_search import search_from_query
from hopwire.web.lake_views import LakeViews
from hopwire.web.page_content import Missing, bytes_from_address

__all__ = ["MAX_FLOWS", "MAX_ROWS", "PageFile", "export_file", "flows_file", "sql_file"]

MAX_FLOWS = 5_000  # in a file for other tools, which seldom open more
MAX_ROWS = 1_000_000  # in a Parquet file
BLOCK_BYTES = 65_536  # that are sent at once: each time costs a turn of the server and of a thread
PARQUET = "application/vnd.apache.parquet"
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


class PageFile(NamedTuple):
    """A file for the reader."""

    name: str
    media_type: str
    parts: Iterator[bytes]


def export_file(views: LakeViews, form: str, query: Mapping[str, str], shows_bodies: bool) -> PageFile:
    """Give one flow (`flow=`), or the flows that a list shows, in a format of other tools."""
    if form not in EXPORT_FORMATS:
        raise Missing(f"there is no format {form!r:.40}; there are {', '.join(EXPORT_FORMATS)}")
    if form == "pcapng" and not shows_bodies:
        raise SettingsError("this page shows no bodies, and a recording would have them")
    if flow := query.get("flow", ""):
        ids, name = [_known_flow(views, flow)], flow
    else:
        wanted, names = search_from_query(query), ask.node_names(views)
        total = sum(ask.flow_totals(views, wanted, names).values())
        if total > MAX_FLOWS:
            raise SettingsError(f"{total:,} flows fit, and a file has at most {MAX_FLOWS:,}: narrow the list")
        ids, name = ask.flow_ids(views, wanted, names, MAX_FLOWS), "flows"
    ending, media_type, _, _ = EXPORT_FORMATS[form]
    made = FlowExport(views.lake, ids, views.manifest).written(form)
    return PageFile(f"{UNSAFE.sub('_', name)[:80]}.{ending}", media_type, _in_blocks(made))


def _in_blocks(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Put parts together, many of which are some bytes, to blocks that are worth sending."""
    waiting = bytearray()
    for part in parts:
        waiting += part
        if len(waiting) >= BLOCK_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _known_flow(views: LakeViews, text: str) -> bytes:
    for flow_id in dict.fromkeys((bytes_from_address(text), text.encode())):
        if ask.has_flow(views, flow_id):
            return flow_id
    raise Missing(f"the lake has no flow {text!r:.120}")


def flows_file(views: LakeViews, query: Mapping[str, str]) -> PageFile:
    """Give all flows that a list shows, on all its pages, as Parquet."""
    wanted, names = search_from_query(query), ask.node_names(views)
    total = sum(ask.flow_totals(views, wanted, names).values())
    if total > MAX_ROWS:
        raise SettingsError(f"{total:,} flows fit, and a file has at most {MAX_ROWS:,}: narrow the list, or use SQL")
    return _parquet("flows", ask.flow_table(views, wanted, names))


def sql_file(views: LakeViews, query: Mapping[str, str]) -> PageFile:
    """Give the rows of SQL that a reader typed as Parquet."""
    rows = views.table(query.get("q", ""), MAX_ROWS + 1)
    if rows.num_rows > MAX_ROWS:
        raise SettingsError(f"there are more than {MAX_ROWS:,} rows: narrow the question")
    return _parquet("rows", rows)


def _parquet(name: str, rows: pa.Table) -> PageFile:
    made = io.BytesIO()
    pq.write_table(rows, made, compression="zstd")
    return PageFile(f"{name}.parquet", PARQUET, iter([made.getvalue()]))

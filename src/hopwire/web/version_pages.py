"""The versions of a lake, and what a build has changed between two of them.

Versions of a table share files. Flows in a file that both versions have are the same in both, so only the other files
are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from hopwire.lake.store import files_of, read_whole
from hopwire.places import Place
from hopwire.report.words import text_or_hex
from hopwire.web.flow_search import number_from
from hopwire.web.lake_views import LakeViews
from hopwire.web.page_content import PageContent, id_in_address
from hopwire.web.snapshots import Snapshots

__all__ = ["versions"]

FLOWS = "gold.flows"
MAX_VERSIONS, MAX_CHANGED = 50, 200  # that are listed; all of them are counted
COLUMNS = ("flow_id", "outcome", "hop_count", "duration_us")
JOINED = """
    select coalesce(a.flow_id, b.flow_id) as flow_id, a.outcome as a_outcome, b.outcome as b_outcome,
           a.hop_count as a_hops, b.hop_count as b_hops, a.duration_us as a_us, b.duration_us as b_us,
           case when a.flow_id is null then 'new' when b.flow_id is null then 'gone'
                when a.outcome != b.outcome then 'other outcome' else 'other steps' end as change
    from a full join b on a.flow_id = b.flow_id
    where a.flow_id is null or b.flow_id is null or a.outcome != b.outcome
       or a.hop_count != b.hop_count or a.duration_us is distinct from b.duration_us
"""


def versions(snapshots: Snapshots, query: Mapping[str, str]) -> PageContent:
    """The versions that the lake still has; with two of them named, what differs."""
    known = [each._asdict() for each in snapshots.versions(MAX_VERSIONS)]
    values: dict[str, Any] = {
        "versions": known,
        "version_count": len(snapshots.numbers()),
        "a": query.get("a", ""),
        "b": query.get("b", ""),
        "tables": [],
        "totals": [],
        "flows": [],
        "changed": 0,
    }
    if values["a"] and values["b"]:
        one, other = (snapshots.views(number_from(values[name], name, 1)) for name in ("a", "b"))
        values |= _difference(one, other)
    return PageContent("versions.html", "Versions", values)


def _difference(one: LakeViews, other: LakeViews) -> dict[str, Any]:
    counts = [{name: table.row_count for name, table in each.manifest.tables.items()} for each in (one, other)]
    tables = [
        {"name": name, "a_rows": counts[0].get(name), "b_rows": counts[1].get(name)}
        for name in sorted(counts[0] | counts[1])
    ]
    with duckdb.connect() as database:
        for name, rows in zip(("a", "b"), _flows_that_differ(one, other), strict=True):
            database.register(name, rows)
        totals = _rows(
            database,
            f"select change, a_outcome, b_outcome, count(*) as flows from ({JOINED}) group by all order by 4 desc",
        )
        flows = _rows(database, f"{JOINED} order by change, flow_id limit {MAX_CHANGED}")
    made = [{**row, "id": text_or_hex(row["flow_id"]), "address": id_in_address(row["flow_id"])} for row in flows]
    return {"tables": tables, "totals": totals, "flows": made, "changed": sum(row["flows"] for row in totals)}


def _flows_that_differ(one: LakeViews, other: LakeViews) -> list[pa.Table]:
    """Give the flows of both versions that lie in files which the other version does not have."""
    files = [files_of(each.lake, FLOWS, each.manifest) for each in (one, other)]
    both = set(files[0]) & set(files[1])
    return [_read([path for path in paths if path not in both]) for paths in files]


def _read(paths: Sequence[Place]) -> pa.Table:
    if not paths:
        kinds = (pa.binary(), pa.string(), pa.int64(), pa.int64())
        return pa.schema(zip(COLUMNS, kinds, strict=True)).empty_table()
    return pa.concat_tables(read_whole(path, COLUMNS) for path in paths)


def _rows(database: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    answer = database.execute(sql)
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

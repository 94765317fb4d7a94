"""How long each view of the page takes, over a lake: CPU time of the whole process, and wall time.

    python benchmarks/page.py LAKE                      measure the views of a lake
    python benchmarks/page.py LAKE --multiply 10 TO     make a larger lake first: every row ten times

A lake that was multiplied has the layout of the lake that it was made from: the same files, as many times. Copies of a
flow have ids of their own, and lie half an hour apart. The frames of its sightings, nested keys and the tables of
nodes are those of the first copy. So such a lake can be looked at, and must not be judged. One flow with very many
steps is added: the longest one, repeated within itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from starlette.testclient import TestClient

from benchmarks.timing import show_table
from hopwire.lake.manifest import StoredFile, part_name
from hopwire.lake.parquet_output import ParquetFileWriter, TableLayout
from hopwire.lake.settings import LakeSettings
from hopwire.lake.sql import opened
from hopwire.lake.store import files_of, read_manifest, schema_of, writing
from hopwire.lake.tables import all_tables
from hopwire.lake.worker import INGESTED
from hopwire.places import Place
from hopwire.web import lake_views
from hopwire.web.page_content import id_in_address
from hopwire.web.page_server import page_app

MULTIPLIED = (
    "bronze.sightings", "silver.messages", "silver.quarantine", "silver.hops",
    "gold.flows", "gold.requests", "gold.links", "gold.security",
)  # fmt: skip
IDS = ("flow_id", "correlation_id")
TEXTS = ("flow", "correlation")
APART_SECONDS = 1_800
APART_NS = APART_SECONDS * 10**9
LONG_STEPS = 100_000
ROUNDS = 5


# -- a larger lake


def multiply(source: Path, times: int, target: Path) -> None:
    """Make a lake with every row of another so many times, and a flow of very many steps."""
    manifest = read_manifest(source)
    with writing(target) as run:
        for name, table in manifest.tables.items():
            schema = schema_of(source, name, manifest)
            copies = range(times if name in MULTIPLIED else 1)
            made = []
            for number, path in enumerate(files_of(source, name, manifest)):
                for copy in copies:
                    part = part_name(run.name, number * times + copy)
                    made.append(_copied(Path(str(path)), run.place(name), part, copy, _layout(name)))
            if name in ("gold.flows", "silver.hops"):
                made.append(_long_flow(source, run.place(name), part_name(run.name, 99_000), name))
            run.put(name, table.basis, schema, made, made_from=())
            print(f"{name}: {sum(file.row_count for file in made):,} rows in {len(made)} files", flush=True)
        run.publish(manifest.sources, manifest.decoder, manifest.domains)


def _layout(name: str) -> TableLayout:
    return INGESTED[name] if name in INGESTED else all_tables()[name].layout()


def _copied(path: Path, place: Place, part: str, copy: int, layout: TableLayout) -> StoredFile:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        source = f"read_parquet('{path}', hive_partitioning = false)"
        columns = database.execute(f"describe select * from {source}").fetchall()
        changed = ", ".join(_column(each[0], each[1], copy) for each in columns)
        rows = database.sql(f"select {changed} from {source}").to_arrow_table()
    day = f"{path.parent.name}/" if path.parent.name.startswith("date=") else ""
    return _written(rows, place, f"{day}{part}", layout, pq.read_metadata(path).row_group(0).num_rows)


def _column(name: str, kind: str, copy: int) -> str:
    value = f'"{name}"'
    if copy == 0:
        return value
    if name in IDS:
        value = f"{value} || '\\x{0x40 + copy:02X}'::blob"
    elif name in TEXTS:
        value = f"{value} || '{chr(0x40 + copy)}'"
    elif name in ("incarnation", "left_incarnation", "arrived_incarnation"):
        value = f"{value} + {copy}"
    elif kind == "BIGINT" and name.endswith("_ns"):
        value = f"{value} + {copy * APART_NS}"
    elif kind == "TIMESTAMP WITH TIME ZONE":
        value = f"{value} + interval {copy * APART_SECONDS} second"
    elif name == "steps":
        times = ", ".join(f"{each} := s.{each} + {copy * APART_NS}" for each in ("left_at_ns", "arrived_at_ns"))
        value = f"list_transform({value}, lambda s: struct_update(s, {times}))"
    return f'{value} as "{name}"'


def _written(rows: pa.Table, place: Place, name: str, layout: TableLayout, group_rows: int) -> StoredFile:
    writer = ParquetFileWriter(place / f"{name}.parquet", layout, LakeSettings(), group_rows)
    for first in range(0, len(rows), group_rows):
        writer.add(rows.slice(first, group_rows).cast(layout.schema))
    return writer.close(f"{name}.parquet")


def _long_flow(source: Path, place: Place, part: str, table: str) -> StoredFile:
    """One flow of very many steps: the longest flow of a lake, again and again within itself."""
    with opened(source) as lake:
        database = lake.cursor()
        (flow_id, steps, day) = database.execute(
            "select flow_id, len(steps), date::varchar from gold.flows order by hop_count desc limit 1"
        ).fetchall()[0]
    repeats = LONG_STEPS // steps
    with duckdb.connect() as database:
        files = ", ".join(f"'{path}'" for path in files_of(source, table))
        rows = f"read_parquet([{files}], hive_partitioning = false) where flow_id = $id"
        database.execute("SET TimeZone = 'UTC'")
        database.execute("create macro far(t, i) as t + i * 1000000000")
        if table == "gold.flows":
            sql = (
                f"select * replace ('long' as flow, 'long'::blob as flow_id, {steps * repeats} as hop_count,"
                " flatten([list_transform(steps, lambda s: struct_update(s, left_at_ns := far(s.left_at_ns, i),"
                " arrived_at_ns := far(s.arrived_at_ns, i), parent := case when s.parent < 0 then -1 else"
                f" s.parent + i * {steps} end)) for i in range({repeats})]) as steps) from {rows}"
            )
        else:
            sql = (
                "select * replace ('long' as flow, 'long'::blob as flow_id, far(left_at_ns, i) as left_at_ns,"
                f" far(arrived_at_ns, i) as arrived_at_ns) from range({repeats}) r(i), (select * from {rows})"
            )
        made = database.sql(sql, params={"id": flow_id}).to_arrow_table()
        columns = made.select(_layout(table).schema.names)
    return _written(columns, place, f"date={day}/{part}", _layout(table), 100_000)


# -- views


def views_of(lake: Path) -> Iterator[tuple[str, str, float]]:
    """Give the views: what is looked at, the address, and the target in seconds."""
    with opened(lake) as opened_lake:
        database = opened_lake.cursor()
        (flow, day) = database.execute(
            "select flow_id, date::varchar from gold.flows"
            " order by outcome <> 'lost', is_control, started_at_ns desc limit 1"
        ).fetchall()[0]  # a flow that was lost, if there is one
        (long, hops) = database.execute(
            "select flow_id, hop_count from gold.flows order by hop_count desc limit 1"
        ).fetchall()[0]
        other = database.execute(
            "select flow_id from gold.flows order by outcome <> 'answered', is_control limit 1"
        ).fetchall()[0][0]
        contract = database.execute(
            "select contract from gold.flows group by 1 order by count(*) desc limit 1"
        ).fetchall()[0][0]
    one, far = f"/flow/{id_in_address(flow)}", f"/flow/{id_in_address(long)}"
    yield "overview, the first time", "/", 1.0
    yield "overview", "/", 0.3
    yield "flows, the latest", "/flows", 0.3
    yield "flows that were lost", "/flows?outcome=lost", 0.3
    yield "flows of a contract, the longest", f"/flows?contract={quote(contract)}&order=longest", 0.3
    yield "flows of a day", f"/flows?since={day}T00:00&until={day}T01:00", 0.3
    yield "flows by the beginning of an id", "/flows?q=ab12", 0.3
    yield "page 1,000 of the flows", "/flows?page=1000", 0.3
    yield "a flow", one, 0.3
    yield "a flow, both clocks", f"{one}?clock=both", 0.3
    yield "a flow as a sequence", f"{one}?view=sequence", 0.3
    yield "a message, byte by byte", f"{one}/hop/0", 0.3
    yield f"a flow of {hops:,} hops", far, 2.0
    yield f"step {hops // 2:,} of it and on", f"{far}?first={hops // 2}", 2.0
    yield "two flows compared", f"/compare?a={id_in_address(flow)}&b={id_in_address(other)}", 0.3
    yield "links", "/links", 0.3
    yield "links as a matrix", "/links?view=matrix", 0.3
    yield "contracts", "/contracts", 0.3
    yield "nodes and clocks", "/clocks", 0.3
    yield "security", "/security", 0.3
    yield "quarantine", "/quarantine", 0.3
    yield "versions", "/versions", 0.3


def measure(lake: Path) -> None:
    """Print how long each view takes: asked for the first time, and the best of the rounds after it.

    CPU time is that of all threads together. Where nothing else runs, two cores take about half of it.
    """
    lake_views.MAX_SECONDS = 60.0  # on a busy machine a question may take longer than a reader would wait
    counts = {name: table.row_count for name, table in read_manifest(lake).tables.items()}
    if not counts["gold.flows"]:
        raise SystemExit(f"{lake}: has no flows, so there is nothing to look at")
    views = list(views_of(lake))
    begin = time.perf_counter(), time.process_time()
    found: dict[str, tuple[list[float], list[float], int]] = {}
    with TestClient(page_app(lake, ("testserver",))) as client:
        for number in range(ROUNDS):
            for what, address, _ in views:
                is_first = what.endswith("first time")
                if is_first and number:
                    continue
                begin = begin if is_first else (time.perf_counter(), time.process_time())
                answer = client.get(address)
                assert answer.status_code == 200, (address, answer.text[:500])
                wall, cpu, _ = found.setdefault(what, ([], [], len(answer.content)))
                wall.append(time.perf_counter() - begin[0])
                cpu.append(time.process_time() - begin[1])
    rows = []
    for what, _, target in views:
        wall, cpu, size = found[what]
        again_wall, again_cpu = wall[1:] or wall, cpu[1:] or cpu
        rows.append(
            (what, f"{1000 * wall[0]:,.0f}", f"{1000 * cpu[0]:,.0f}", f"{1000 * min(again_wall):,.0f}",
             f"{1000 * min(again_cpu):,.0f}", f"{1000 * target:,.0f}", f"{size / 1024:,.0f}")
        )  # fmt: skip
    title = (
        f"The page of {counts['bronze.sightings']:,} sightings, {counts['gold.flows']:,} flows, "
        f"{counts['silver.hops']:,} hops"
    )
    header = ("view", "first, ms", "its CPU, ms", "again, ms", "its CPU, ms", "target, ms", "KiB")
    show_table(title, header, rows)


def main() -> None:
    """Measure the views of a lake."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lake", type=Path)
    parser.add_argument("--multiply", nargs=2, metavar=("TIMES", "TO"))
    given: Mapping[str, object] = vars(parser.parse_args())
    lake = Path(str(given["lake"]))
    if isinstance(given["multiply"], list):
        times, target = given["multiply"]
        multiply(lake, int(times), Path(target))
        lake = Path(target)
    measure(lake)


if __name__ == "__main__":
    main()

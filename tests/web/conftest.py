"""Pages of a real lake: the one that the demonstration has built, and a copy of it with a second version."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from hopwire.lake.manifest import part_name
from hopwire.lake.parquet_output import stored_file
from hopwire.lake.store import LakeRun, read_arrow, read_manifest, writing
from hopwire.model.message import Message
from hopwire.web.page_server import page_app
from hopwire.wire import encode

MARKUP = "<script>hacked=1</script><img src=x onerror=hacked=2>\"'&"


@pytest.fixture(scope="session")
def page(demo_run: tuple[dict[str, Any], Path]) -> Iterator[TestClient]:
    with TestClient(page_app(demo_run[1] / "lake", ("testserver",))) as client:
        yield client


@pytest.fixture(scope="session")
def versioned_lake(demo_run: tuple[dict[str, Any], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two versions: in the second one order-002 is lost, and order-001 consists of markup."""
    lake = tmp_path_factory.mktemp("versions") / "lake"
    shutil.copytree(demo_run[1] / "lake", lake)
    before = read_manifest(lake)
    with writing(lake) as run:
        flows = read_arrow(lake, "gold.flows")
        flows = _changed(flows, "outcome", pc.equal(flows["flow"], "order-002"), "lost")
        flows = _changed(flows, "identity", pc.equal(flows["flow"], "order-001"), MARKUP.encode())
        _replace(run, "gold.flows", flows)
        hop = (
            read_arrow(lake, "silver.hops", where=pc.field("flow") == "order-001").sort_by("left_at_ns").to_pylist()[0]
        )
        sightings = read_arrow(lake, "bronze.sightings")
        is_it = pc.and_(
            pc.equal(sightings["node"], hop["from_node"]), pc.equal(sightings["sequence"], hop["left_sequence"])
        )
        frames = encode(Message(MARKUP.encode(), 1, correlation_id=MARKUP.encode(), body_frames=(MARKUP.encode(),)))
        _replace(run, "bronze.sightings", _changed(sightings, "frames", is_it, list(frames)))
        run.publish(before.sources, before.decoder, before.domains)
    return lake


def with_flows(lake: Path, copy: Path, names: list[str]) -> Path:
    """Give a copy of a lake that has only the flows with these names."""
    shutil.copytree(lake, copy)
    before = read_manifest(copy)
    with writing(copy) as run:
        flows = read_arrow(copy, "gold.flows")
        _replace(run, "gold.flows", flows.filter(pc.is_in(flows["flow"], pa.array(names))))
        run.publish(before.sources, before.decoder, before.domains)
    return copy


def _changed(rows: pa.Table, column: str, where: Any, value: Any) -> pa.Table:
    values = [
        value if is_it else each
        for each, is_it in zip(rows[column].to_pylist(), pc.fill_null(where, False).to_pylist(), strict=True)
    ]
    place = rows.schema.get_field_index(column)
    return rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))


def _replace(run: LakeRun, table: str, rows: pa.Table) -> None:
    name = f"date=2026-01-01/{part_name(run.name, 0)}.parquet"
    place = run.place(table)
    (place / name).parent.mkdir()
    pq.write_table(rows, place / name)
    run.put(table, "changed by a test", run.schema(table), [stored_file(place, name)])


@pytest.fixture(scope="session")
def versions(versioned_lake: Path) -> Iterator[TestClient]:
    with TestClient(page_app(versioned_lake, ("testserver",))) as client:
        yield client

"""A large source in the lake: read in parts, and nobody can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hopwire.capture import SCHEMA
from hopwire.lake import source
from hopwire.lake.build import build
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import read_arrow, read_manifest
from tests.lake.captures import DOMAINS, make_capture

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FEW = ("silver.messages", "silver.quarantine")


def rows_of(lake: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_arrow(lake, table).to_pylist()
    return sorted(rows, key=repr)


def test_parts_give_the_same_tables_as_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    captures = make_capture(tmp_path / "captures", ("anna", "bert"), count=200)
    build(spark, captures, tmp_path / "whole", FEW, domains=DOMAINS)
    parts = build(spark, captures, tmp_path / "parts", FEW, domains=DOMAINS, settings=LakeSettings(task_bytes=20_000))
    assert parts.read == ("anna.arrows", "bert.arrows")
    manifest = read_manifest(tmp_path / "parts")
    assert manifest.tables["bronze.sightings"].file_count > 4
    assert all(len(source.parts) > 2 for source in manifest.sources.values())
    for table in ("bronze.sightings", "bronze.sources", *FEW):
        assert rows_of(tmp_path / "parts", table) == rows_of(tmp_path / "whole", table)
    (captures / "bert.arrows").unlink()
    again = build(spark, captures, tmp_path / "parts", FEW, redecode=True)
    assert again.read == ("anna.arrows", "bert.arrows"), "what is gone is read from the lake, each part once"
    assert len(rows_of(tmp_path / "parts", "silver.messages")) == len(rows_of(tmp_path / "whole", "silver.messages"))


def test_data_source_gives_parts_to_several_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captures = make_capture(tmp_path / "captures", ("anna",), count=200)
    asked = source.read_options({"path": str(captures)})
    whole = source.SightingsReader(asked, SCHEMA).partitions()
    monkeypatch.setattr(source, "PART_BYTES", 20_000)
    reader = source.SightingsReader(asked, SCHEMA)
    parts = reader.partitions()
    assert (len(whole), len(parts) > 3) == (1, True)
    numbers = [n for part in parts for batch in reader.read(part) for n in batch.column("sequence").to_pylist()]
    assert numbers == list(range(201))

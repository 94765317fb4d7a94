"""The Parquet files of a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopwire.lake.parquet_output import TableLayout, TableOutput
from hopwire.lake.settings import LakeSettings

STEPS = pa.list_(pa.struct([("message_key", pa.binary()), ("depth", pa.int32())]))
SCHEMA = pa.schema([("message", pa.string()), ("message_key", pa.binary()), ("node", pa.binary()), ("steps", STEPS)])
ROW = {"message": "ab", "message_key": b"\xab", "node": b"n", "steps": [{"message_key": b"\xab", "depth": 1}]}


@pytest.mark.parametrize(("chosen", "plain", "others"), [
    ("lz4", "UNCOMPRESSED", "LZ4"), ("zstd", "ZSTD", "ZSTD"), ("none", "UNCOMPRESSED", "UNCOMPRESSED"),
])  # fmt: skip
def test_keys_of_messages_are_compressed_only_where_files_should_be_small(
    tmp_path: Path, chosen: str, plain: str, others: str
) -> None:
    output = TableOutput(tmp_path, "part", TableLayout(SCHEMA), LakeSettings(compression=chosen))
    output.add_stored(pa.RecordBatch.from_pylist([ROW], SCHEMA))
    (file,) = output.close()
    group = pq.read_metadata(tmp_path / file.path).row_group(0)
    found = {column.path_in_schema: column.compression for column in map(group.column, range(group.num_columns))}
    assert found == {
        "message": plain, "message_key": plain, "node": others,
        "steps.list.element.message_key": plain, "steps.list.element.depth": others,
    }  # fmt: skip
    assert pq.read_table(tmp_path / file.path).to_pylist() == [ROW]

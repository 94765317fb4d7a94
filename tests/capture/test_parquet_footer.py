from __future__ import annotations

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopwire.capture.parquet_footer import read_footer
from hopwire.errors import CaptureError


def written(**options: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": list(range(25)), "b": ["x"] * 25}), sink, **options)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"compression": "zstd", "write_page_index": True}])
def test_row_groups_are_those_that_arrow_finds(options: dict[str, object]) -> None:
    content = written(row_group_size=10, **options)
    metadata = pq.read_metadata(BytesIO(content))
    found = read_footer(BytesIO(content))
    assert [group.row_count for group in found] == [10, 10, 5]
    for number, group in enumerate(found):
        columns = [metadata.row_group(number).column(place) for place in range(2)]
        assert [chunk.size_bytes for chunk in group.columns] == [each.total_compressed_size for each in columns]
        assert [chunk.begin for chunk in group.columns] == [
            each.dictionary_page_offset or each.data_page_offset for each in columns
        ]


def test_footer_that_makes_no_sense_is_refused() -> None:
    content = written()
    length = int.from_bytes(content[-8:-4], "little")
    for bad in (
        b"",
        content[-8:],
        content[:-8] + (length + 1).to_bytes(4, "little") + b"PAR1",
        content[:-8] + (2**32 - 1).to_bytes(4, "little") + b"PAR1",
        content[: -8 - length] + bytes(length) + content[-8:],
    ):
        with pytest.raises(CaptureError, match="has a footer "):
            read_footer(BytesIO(bad))

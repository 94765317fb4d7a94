from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.errors import LakeError
from hopwire.lake.tables import TABLES
from hopwire.lake.types import schema_from_text, type_from_text


@pytest.mark.parametrize("name", TABLES)
def test_columns_of_every_table_survive_as_text(name: str) -> None:
    schema = TABLES[name].schema
    assert schema_from_text({column.name: str(column.type) for column in schema}) == schema


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(
            pa.struct([pa.field("a", pa.list_(pa.int8())), pa.field("b", pa.struct([pa.field("c", pa.bool_())]))])
        ),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.float64(),
    ],
)
def test_type_survives_as_text(kind: pa.DataType) -> None:
    assert type_from_text(str(kind)) == kind


def test_unknown_type_is_named() -> None:
    with pytest.raises(LakeError, match="'quaternion'"):
        type_from_text("quaternion")

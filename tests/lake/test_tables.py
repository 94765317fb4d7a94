from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.errors import SettingsError
from hopwire.lake.tables import Column, Table, all_tables, in_order


def make(name: str, *reads: str) -> Table:
    return Table(name, ("a",), reads, (Column("a", pa.int64(), "a number"),), "One row.")


def names(wanted: list[str], *tables: Table) -> list[str]:
    return [table.name for table in in_order(wanted, {table.name: table for table in tables})]


def test_tables_come_behind_what_they_read() -> None:
    tables = (make("gold.c", "silver.b", "bronze.a"), make("silver.b", "bronze.a"), make("bronze.a"), make("gold.d"))
    assert names(["gold.c"], *tables) == ["bronze.a", "silver.b", "gold.c"]
    assert names(["gold.d", "gold.c", "silver.b"], *tables) == ["gold.d", "bronze.a", "silver.b", "gold.c"]


def test_unknown_table_is_named_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"no table 'gold\.x'; there are bronze\.a"):
        names(["gold.x"], make("bronze.a"))
    with pytest.raises(SettingsError, match=r"gold\.c reads silver\.b"):
        names(["gold.c"], make("gold.c", "silver.b"))


def test_tables_that_read_one_another_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"gold\.c reads gold\.d reads gold\.c"):
        names(["gold.c"], make("gold.c", "gold.d"), make("gold.d", "gold.c"))


@pytest.mark.parametrize(
    ("name", "key", "columns", "fault"),
    [
        ("copper.a", ("a",), ("a",), "expected a name such as"),
        ("gold", ("a",), ("a",), "expected a name such as"),
        ("gold.a b", ("a",), ("a",), "expected a name such as"),
        ("gold.a", ("b",), ("a",), "has no column 'b'"),
        ("gold.a", ("a",), ("a", "a"), "a column is there twice"),
    ],
)
def test_declaration_that_makes_no_sense_is_refused(
    name: str, key: tuple[str, ...], columns: tuple[str, ...], fault: str
) -> None:
    with pytest.raises(SettingsError, match=fault):
        Table(name, key, (), tuple(Column(each, pa.int64(), "") for each in columns), "One row.")


@pytest.mark.parametrize("name", all_tables())
def test_table_says_what_a_row_and_what_a_column_is(name: str) -> None:
    table = all_tables()[name]
    assert table.meaning.endswith(".")
    assert all(column.meaning for column in table.columns)
    assert set(table.reads) <= set(all_tables())

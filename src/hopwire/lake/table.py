"""What a table of the lake is: a declaration, and a function from the tables it reads to the DataFrame it is.

    @table("gold.links", key=("from_node", "to_node"), reads=("silver.hops",), columns=(Column("from_node", ...), ...))
    def links(hops: DataFrame) -> DataFrame:
        '''One pair of nodes.'''
        return hops.groupBy(...).agg(...).select(...)

- The decorator registers the table in TABLES and gives the function back; it runs nothing.
- The function takes one DataFrame for each name in `reads`, in that order, and `settings` if it has a parameter of that
  name. Its last select is the schema: the columns, in their order and types. The docstring says what one row is.
- A table that Python workers judge gives `Judged` instead: rows that belong together, and the function for them.
- Tables that the ingest writes have no function: `declare` registers them.
- `hopwire.lake.tables` imports every table there is; a new one gets its line there.

The trap: importing a table must not start Spark. Column functions belong inside the function, not beside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from hopwire.errors import SettingsError
from hopwire.model.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hopwire.lake.judged import Judged
    from hopwire.lake.settings import LakeSettings

__all__ = ["LAYERS", "TABLES", "Column", "Table", "declare", "in_order", "table"]

LAYERS = ("bronze", "silver", "gold")

Build = TypeVar("Build", bound="Callable[..., DataFrame | Judged]")


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the lake."""

    name: str
    key: tuple[str, ...]
    reads: tuple[str, ...]
    columns: tuple[Column, ...]
    meaning: str  # what one row is
    build: Callable[..., DataFrame | Judged] | None = None  # None: the ingest writes it
    partition_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        layer, _, rest = self.name.partition(".")
        names = [column.name for column in self.columns]
        if layer not in LAYERS or not rest.isidentifier():
            raise SettingsError(f"table {self.name!r}: expected a name such as gold.links")
        if len(set(names)) < len(names):
            raise SettingsError(f"table {self.name}: a column is there twice")
        for name in (*self.key, *self.partition_by):
            if name not in names:
                raise SettingsError(f"table {self.name}: has no column {name!r}")

    @property
    def layer(self) -> str:
        """The first part of the name."""
        return self.name.partition(".")[0]

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    def rows(self, inputs: Sequence[DataFrame], settings: LakeSettings) -> DataFrame | Judged:
        """Call the function of the table."""
        assert self.build is not None, f"{self.name} is written by the ingest"
        wants_settings = "settings" in inspect.signature(self.build).parameters
        more: dict[str, Any] = {"settings": settings} if wants_settings else {}
        return self.build(*inputs, **more)


TABLES: dict[str, Table] = {}


def declare(table: Table) -> Table:
    """Register a table."""
    if table.name in TABLES and TABLES[table.name].meaning != table.meaning:
        raise SettingsError(f"table {table.name} is declared twice")
    TABLES[table.name] = table
    return table


def table(
    name: str,
    *,
    key: tuple[str, ...],
    reads: tuple[str, ...],
    columns: Iterable[Column],
    partition_by: tuple[str, ...] = (),
) -> Callable[[Build], Build]:
    """Declare the table that the function below is."""

    def register(build: Build) -> Build:
        meaning = inspect.cleandoc(build.__doc__ or "").partition("\n\n")[0]
        declare(Table(name, key, reads, tuple(columns), meaning, build, partition_by))
        return build

    return register


def in_order(wanted: Iterable[str], tables: Mapping[str, Table] = TABLES) -> list[Table]:
    """Give the tables that are wanted and all that they read, each behind what it reads."""
    found: dict[str, Table] = {}

    def visit(name: str, readers: tuple[str, ...]) -> None:
        if name not in tables:
            by = f"{readers[-1]} reads {name}" if readers else f"no table {name!r}"
            raise SettingsError(f"{by}; there are {', '.join(sorted(tables))}")
        if name in readers:
            raise SettingsError(f"tables read one another: {' reads '.join((*readers, name))}")
        if name not in found:
            for source in tables[name].reads:
                visit(source, (*readers, name))
            found[name] = tables[name]

    for name in wanted:
        visit(name, ())
    return list(found.values())

"""What a table of the lake is: a declaration, and a function from the tables it reads to its rows.

    @table("gold.links", key=("from_node", "to_node"), reads=("silver.hops",), columns=(Column("from_node", ...), ...))
    def links(hops: DataFrame) -> DataFrame:
        '''One pair of nodes.'''
        return hops.groupBy(...).agg(...).select(...)

- The decorator registers the table and gives the function back. The decorator runs nothing.
- The function takes one DataFrame for each name in `reads`, in that order, and `settings` if it has a parameter of that
  name. With a parameter `notes` it gets a dictionary for what it found on its way and others need. Its last select is
  the schema: the columns, in their order and types. Its docstring says what one row is.
- A table that Python workers judge gives `Judged` instead of a DataFrame: sorted rows, and the function for them.
- The ingest and the steps write some tables themselves. Such a table has no function: `declare` registers it.
- A table has a module of its name: `gold.links` is declared in `lake/gold/links.py`. A new table gets its line in
  `NAMES`.

The trap: importing a table must not start Spark. Column functions belong inside the function, not beside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from hopwire.errors import SettingsError
from hopwire.lake.parquet_output import TableLayout, leaf_paths
from hopwire.lake.readable import Names, readable_columns
from hopwire.model.columns import Column, schema_from_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hopwire.lake.dataframes import Judged
    from hopwire.lake.settings import LakeSettings

__all__ = ["LAYERS", "Column", "Table", "all_tables", "declare", "in_order", "table"]

LAYERS = ("bronze", "silver", "gold")
NAMES = (
    "bronze.forgotten",
    "bronze.sightings",
    "bronze.sources",
    "bronze.spans",
    "silver.carried",
    "silver.clocks",
    "silver.closed_flows",
    "silver.crossings",
    "silver.hops",
    "silver.lives",
    "silver.messages",
    "silver.open_sightings",
    "silver.quarantine",
    "gold.contracts",
    "gold.flows",
    "gold.latencies",
    "gold.links",
    "gold.quality",
    "gold.requests",
    "gold.security",
)

# columns that are different in nearly every row: a dictionary of their values costs time and saves nothing
DISTINCT = frozenset(
    {"flow_hash", "flow", "flow_id", "correlation", "correlation_id", "message", "message_key", "horizon_ns",
     "left_sequence", "arrived_sequence", "sequence", "latency_us", "duration_us", "critical_path_us", "deadline_ns",
     "deadline_at", "callback_key"}
    | {f"{name}{ending}" for ending in ("", "_ns")
       for name in ("seen_at", "left_at", "arrived_at", "asked_at", "answered_at", "started_at", "ended_at",
                    "first_seen_at", "last_seen_at")}
)  # fmt: skip

BuildFunction = TypeVar("BuildFunction", bound="Callable[..., DataFrame | Judged]")


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the lake."""

    name: str
    key: tuple[str, ...]
    reads: tuple[str, ...]
    columns: tuple[Column, ...]
    meaning: str  # what one row is
    build: Callable[..., DataFrame | Judged] | None = None  # None: the ingest or a step writes the table
    dated_by: tuple[str, ...] = ()  # the column `date` is the day of the first of these times that is there

    def __post_init__(self) -> None:
        layer, _, rest = self.name.partition(".")
        names = [column.name for column in self.columns]
        if layer not in LAYERS or not rest.isidentifier():
            raise SettingsError(f"table {self.name!r}: expected a name such as gold.links")
        if len(set(names)) < len(names):
            raise SettingsError(f"table {self.name}: a column is there twice")
        for name in (*self.key, *self.dated_by):
            if name not in names:
                raise SettingsError(f"table {self.name}: has no column {name!r}")

    @property
    def layer(self) -> str:
        """The first part of the name."""
        return self.name.partition(".")[0]

    @property
    def schema(self) -> pa.Schema:
        """The columns that the function of the table makes, as Arrow has them."""
        return schema_from_columns(self.columns)

    @property
    def stored_columns(self) -> tuple[Column, ...]:
        """The columns of the files: those that the function makes, and readable columns beside them."""
        return readable_columns(self.columns, self.dated_by)

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns of the files, as Arrow has them."""
        return schema_from_columns(self.stored_columns)

    def layout(self, names: Names | None = None) -> TableLayout:
        """How rows become files; with the names of nodes."""
        schema = self.stored_schema
        paths = [path for field in schema for path in leaf_paths(field)]
        repeating = [path for path in paths if path.rpartition(".")[2] not in DISTINCT]
        return TableLayout(schema, self.dated_by, names, repeating)

    def rows(
        self, inputs: Sequence[DataFrame], settings: LakeSettings, notes: dict[str, Any] | None = None
    ) -> DataFrame | Judged:
        """Call the function of the table; a function may note down what it found on its way."""
        assert self.build is not None, f"{self.name} is written by the ingest"
        given: dict[str, Any] = {"settings": settings, "notes": {} if notes is None else notes}
        wanted = inspect.signature(self.build).parameters
        return self.build(*inputs, **{name: value for name, value in given.items() if name in wanted})


_DECLARED: dict[str, Table] = {}


def declare(table: Table) -> Table:
    """Register a table."""
    if table.name in _DECLARED and _DECLARED[table.name].meaning != table.meaning:
        raise SettingsError(f"table {table.name} is declared twice")
    _DECLARED[table.name] = table
    return table


def table(
    name: str,
    *,
    key: tuple[str, ...],
    reads: tuple[str, ...],
    columns: Iterable[Column],
    dated_by: tuple[str, ...] = (),
) -> Callable[[BuildFunction], BuildFunction]:
    """Declare the table that the function below is."""

    def register(build: BuildFunction) -> BuildFunction:
        meaning = inspect.cleandoc(build.__doc__ or "").partition("\n\n")[0]
        declare(Table(name, key, reads, tuple(columns), meaning, build, dated_by))
        return build

    return register


def all_tables() -> dict[str, Table]:
    """Give every table of the lake by its name; importing the module of a table declares the table."""
    _import_all()
    return _DECLARED


@cache
def _import_all() -> None:
    for name in NAMES:
        import_module(f"hopwire.lake.{name}")


def in_order(wanted: Iterable[str], tables: Mapping[str, Table]) -> list[Table]:
    """Give the tables that are wanted and all tables that they read, each table behind those it reads."""
    reads: dict[str, tuple[str, ...]] = {}
    waiting = [(name, f"no table {name!r}") for name in wanted]
    for name, refusal in waiting:  # the list grows by what each table reads
        if name not in tables:
            raise SettingsError(f"{refusal}; there are {', '.join(sorted(tables))}")
        if name not in reads:
            reads[name] = tables[name].reads
            waiting += [(source, f"{name} reads {source}") for source in reads[name]]
    try:
        return [tables[name] for name in TopologicalSorter(reads).static_order()]
    except CycleError as error:
        raise SettingsError(f"tables read one another: {' reads '.join(reversed(error.args[1]))}") from None

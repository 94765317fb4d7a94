"""`spark.read.format("hopwire").load(path)`: everything that holds sightings, as a table; `readStream` is a stream.

Each file is a partition of its own, a large file is several. A Python worker reads a partition in batches of Arrow. The
columns are those of a capture.

| option | meaning |
|---|---|
| `path`, `paths` | the directories and files that `load` is given: plain, or as URIs (`file:/my%20captures`) |
| `start`, `end` | only sightings from this time on, or before it: 2026-01-31T12:00:00Z, or nanoseconds since 1970 |
| `node` | only sightings of these nodes: text, or hex behind `0x`; commas between several |
| `columns` | only these columns; commas between several |
| `faults` | `refuse` (default): a file that is no capture ends the query; `skip`: such a file has no rows |
| `maxRowsPerBatch` | of a stream: sightings of one micro-batch (100,000) |
| `pieces` | of a stream: `true` gives pieces of segments in place of sightings; see `stream.py` |

A file whose index shows that none of its rows is asked for is not opened.

The trap: Spark can hand the conditions of a query over (`pushFilters`), but Spark 4.3 remembers them for the DataFrame.
Example: after `sightings.where("sequence < 10").count()`, `sightings.count()` counts the first ten rows only. So this
source takes no conditions. Nor does Spark say which columns a query needs: `select` saves nothing before the rows are
in the JVM. The options do both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from hopwire.capture import SCHEMA
from hopwire.capture.file_faults import Fault, refuse
from hopwire.capture.reader import Wanted
from hopwire.capture.sources import Source, list_sources, parts_of, read_source
from hopwire.capture.times import ns_from_text
from hopwire.errors import SettingsError
from hopwire.lake.stream import PIECES, CaptureStream, CaptureStreamOptions
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, RemotePath, place_of

__all__ = ["HopwireSource"]

PART_BYTES = 128 * MEBIBYTE  # as much as Spark gives to one task of its own sources
URI = re.compile(r"file:(?://[^/]*)?(/.*)")  # file:/p and file:///p
OPTIONS = ("path", "paths", "start", "end", "node", "columns", "faults", "maxrowsperbatch", "pieces")
MAX_ROWS = 100_000  # sightings of one micro-batch of a stream
ON_FAULT: dict[str, Callable[[Fault], None]] = {"refuse": refuse, "skip": lambda _: None}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a query."""

    paths: tuple[str, ...]
    wanted: Wanted
    faults: str
    max_rows: int = MAX_ROWS
    is_pieces: bool = False


def read_options(options: Mapping[str, str]) -> SourceOptions:
    """Read the options of a query; a SettingsError names the option that makes no sense."""
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in OPTIONS:
            raise SettingsError(f"option {name!r:.40} is not known; there are {', '.join(OPTIONS)}")
    wanted = Wanted.of(
        _time(given, "start"),
        _time(given, "end"),
        {_identity(text) for text in _parts(given["node"])} if "node" in given else None,
        _parts(given["columns"]) if "columns" in given else None,
    )
    faults = _chosen(given.get("faults", "refuse"))
    return SourceOptions(_paths(given), wanted, faults, _max_rows(given), _is_true(given, "pieces"))


def _max_rows(given: Mapping[str, str]) -> int:
    text = given.get("maxrowsperbatch", str(MAX_ROWS))
    if not (text.isascii() and text.isdigit() and int(text)):
        raise SettingsError(f"option maxRowsPerBatch: found {text!r:.40}, expected a number of sightings")
    return int(text)


def _is_true(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in ("true", "false"):
        raise SettingsError(f"option {name}: found {text!r:.40}, expected true or false")
    return text == "true"


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """Give the paths that `load` was given: one path, or several paths, which Spark writes as JSON."""
    paths = json.loads(given["paths"]) if "paths" in given else [given["path"]] if "path" in given else []
    if not paths:
        raise SettingsError("nothing to read: give load() a directory or a file")
    return tuple(paths)


def _time(given: Mapping[str, str], name: str) -> int | None:
    return ns_from_text(given[name], f"option {name}") if name in given else None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _chosen(text: str) -> str:
    if text not in ON_FAULT:
        raise SettingsError(f"option faults: found {text!r:.40}, expected one of {', '.join(ON_FAULT)}")
    return text


def _identity(text: str) -> bytes:
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise SettingsError(f"option node: found {text!r:.40}, expected text, or hex behind 0x") from None


# -- the source


class _SourcePartition(InputPartition):
    """A file, or a part of a file, is a partition."""

    def __init__(self, source: Source) -> None:
        super().__init__((str(source.path), source.begin))
        self.source = source


class HopwireSource(DataSource):
    """Sightings from captures, Parquet and recordings of the network."""

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return "hopwire"

    def schema(self) -> StructType:
        """The columns of a capture, or the columns that the options name."""
        asked = read_options(self.options)
        if asked.is_pieces:
            return from_arrow_schema(PIECES)
        return from_arrow_schema(pa.schema([SCHEMA.field(name) for name in asked.wanted.columns]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give the reader; a schema of the user chooses among the columns."""
        asked = read_options(self.options)
        wanted = replace(asked.wanted, columns=_checked(schema))
        return SightingsReader(replace(asked, wanted=wanted), to_arrow_schema(schema))

    def streamReader(self, schema: StructType) -> CaptureStream:
        """Give the reader of a stream."""
        asked = read_options(self.options)
        wanted = asked.wanted if asked.is_pieces else replace(asked.wanted, columns=_checked(schema))
        places = tuple(map(path_from_text, asked.paths))
        options = CaptureStreamOptions(places, wanted, ON_FAULT[asked.faults], asked.max_rows, asked.is_pieces)
        return CaptureStream(options, to_arrow_schema(schema))


def _checked(schema: StructType) -> tuple[str, ...]:
    """Give the columns of a schema, or refuse a column that a capture does not have."""
    known = {column.name: column.dataType.simpleString() for column in from_arrow_schema(SCHEMA)}
    for column in schema:
        found, expected = column.dataType.simpleString(), known.get(column.name)
        if expected is None:
            raise SettingsError(f"no column {column.name!r:.40}; there are {', '.join(known)}")
        if found != expected:
            raise SettingsError(f"column {column.name}: found {found:.40}, expected {expected}")
    return tuple(schema.names)


def path_from_text(text: str) -> Place:
    """Give a path from the root, as workers have another directory; `%20` is a space in a URI only."""
    uri = URI.fullmatch(text)
    return Path(unquote(uri[1])) if uri else place_of(text)


def _there(path: Place) -> Place:
    if not isinstance(path, RemotePath) and not path.exists():
        raise SettingsError(f"{path}: is not there; load() takes a directory or a file of this machine, no pattern")
    return path


class SightingsReader(DataSourceReader):
    """Finds the files that may have rows of the query, and reads them."""

    def __init__(self, asked: SourceOptions, schema: pa.Schema) -> None:
        self._asked = asked
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One partition for each file, or for each part of a large file."""
        sources = [source for path in map(path_from_text, self._asked.paths) for source in list_sources(_there(path))]
        wanted = [source for source in sources if self._asked.wanted.covers(source.summary)]
        return [_SourcePartition(part) for source in wanted for part in parts_of(source, PART_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one file or part."""
        if not isinstance(partition, _SourcePartition):  # Spark gives a partition of its own if there are no files
            return
        wanted = self._asked.wanted
        for batch in read_source(
            partition.source,
            since=wanted.since,
            until=wanted.until,
            nodes=wanted.nodes,
            columns=wanted.columns,
            on_fault=ON_FAULT[self._asked.faults],
        ):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

"""The lake: captures to tables on Spark, and the tables for whoever asks.

from hopwire.lake import read

lost = read("lake", "requests", as_="pandas").query("outcome == 'lost'")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hopwire.places import Place, RemotePath
from hopwire.report.words import nearest

__all__ = ["read"]

KINDS = ("arrow", "spark", "polars", "pandas")


def read(
    lake: Place | str,
    table: str,
    as_: str = "arrow",
    *,
    columns: Sequence[str] | None = None,
    at: int | None = None,
    spark: Any = None,
    payloads: Sequence[Any] | None = None,
) -> Any:
    """Give a table of a lake: a pyarrow.Table, a polars.LazyFrame, a DataFrame of pandas or a DataFrame of Spark.

    All tables that are read `at` one version belong together; without a version, the newest state of the lake is read.
    A table has its whole name, such as `gold.requests`, or the part behind the dot. With `payloads`, which are payload
    classes, silver.messages has the columns `body`, as JSON, and `body_fault`; for Arrow, polars and pandas.
    """
    from hopwire.errors import SettingsError
    from hopwire.lake.store import files_of, listed_dataset, read_arrow, read_manifest, schema_of

    if as_ not in KINDS:
        raise SettingsError(f"as_: found {as_!r:.40}, expected one of {', '.join(KINDS)}")
    manifest = read_manifest(lake, at)
    name = _whole_name(lake, table, manifest.tables)
    if payloads is not None:
        return _with_bodies(lake, name, as_, columns, manifest, payloads)
    if as_ == "spark":
        from hopwire.lake.dataframes import read_table
        from hopwire.lake.session import session

        rows = read_table(spark or session(), lake, name, manifest)
        return rows.select(*columns) if columns is not None else rows
    if as_ == "polars":
        import polars

        files = files_of(lake, name, manifest)
        local = [file for file in files if not isinstance(file, RemotePath)]
        if len(local) < len(files):  # polars would ask for the credentials of the store once more
            lazy = polars.scan_pyarrow_dataset(listed_dataset(lake, name, manifest))
        elif local:
            lazy = polars.scan_parquet(local, glob=False, hive_partitioning=False)
        else:
            lazy = polars.LazyFrame(polars.from_arrow(schema_of(lake, name, manifest).empty_table()))
        return lazy.select(columns) if columns is not None else lazy
    rows = read_arrow(lake, name, columns, manifest=manifest)
    return rows.to_pandas() if as_ == "pandas" else rows


def _whole_name(lake: Place | str, table: str, stored: Iterable[str]) -> str:
    """Give the name of a table with its layer, of the tables in this lake or of those that can be built."""
    from hopwire.errors import LakeError
    from hopwire.lake.tables import NAMES

    names = {called: each for each in (*NAMES, *stored) for called in (each, each.partition(".")[2])}
    if table in names:
        return names[table]
    near = nearest(table, names)
    hint = f"did you mean {near!r}?" if near else "`hopwire lake tables` lists what there is"
    raise LakeError(f"{lake}: has no table {table}, nor has any lake; {hint}")


def _with_bodies(
    lake: Place | str, name: str, as_: str, columns: Sequence[str] | None, manifest: Any, payloads: Sequence[Any]
) -> Any:
    from hopwire.errors import SettingsError
    from hopwire.lake.payload_bodies import BODY_COLUMNS, NEEDED, readers_of, with_bodies
    from hopwire.lake.store import read_arrow, schema_of

    schema = schema_of(lake, name, manifest)
    if "body_frames" not in schema.names or as_ == "spark":
        raise SettingsError("payloads: only silver.messages has bodies, for Arrow, polars and pandas")
    wanted = [*schema.names, *BODY_COLUMNS] if columns is None else list(columns)
    stored = dict.fromkeys([*(each for each in wanted if each not in BODY_COLUMNS), *NEEDED])
    rows = read_arrow(lake, name, list(stored), manifest=manifest)
    for column, values in zip(BODY_COLUMNS, with_bodies(rows, readers_of(payloads)), strict=True):
        rows = rows.append_column(column, values)
    rows = rows.select(wanted)
    if as_ == "polars":
        import polars

        return polars.DataFrame(rows).lazy()
    return rows.to_pandas() if as_ == "pandas" else rows

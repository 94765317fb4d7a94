"""SQL over a lake: one state of it, and nothing but reading."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from hopwire.errors import LakeError, SettingsError
from hopwire.lake import read
from hopwire.lake.sql import query
from hopwire.lake.store import files_of, read_manifest, writing
from hopwire.lake.tables import all_tables
from tests.cli.running import ROOT, hopwire
from tests.lake.pure import put_rows
from tests.lake.test_store import SCHEMA, fill


@pytest.mark.parametrize("name", ["lake[1]", "a*b?", "läke {x}", 'a "b"'])
def test_lake_of_any_name_can_be_asked(tmp_path: Path, name: str) -> None:
    fill(tmp_path / name, "one", [7])
    fill(tmp_path / "lake1", "one", [8])
    assert query(tmp_path / name, "select a from t")["a"].to_pylist() == [7]


def test_column_of_a_manifest_that_somebody_wrote_is_no_statement(tmp_path: Path) -> None:
    with writing(tmp_path / "lake") as run:
        schema = pa.schema([("a\" FROM read_text('/etc/hostname')); --", pa.int64())])
        put_rows(run, "gold.select", pa.table([[1]], schema=schema))
        run.publish({}, "")
    assert query(tmp_path / "lake", 'select * from gold."select"').column_names == schema.names


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    place = tmp_path / "it's a lake"
    fill(place, "one", [1, 2])
    with writing(place) as run:
        put_rows(
            run, "silver.words", pa.table({"word": ["a", "\x1b[31mred", 'say "x, y"'], "raw": [b"a", b"\xff", None]})
        )
        run.put("gold.nothing", "x", SCHEMA, [])
        run.publish({}, "")
    fill(place, "two", [3])
    return place


def test_tables_have_two_names_and_are_of_one_state(lake: Path) -> None:
    assert query(lake, "select sum(a) as total from t").to_pylist() == [{"total": 3}]
    assert query(lake, "select a from gold.t").to_pylist() == [{"a": 3}]
    assert query(lake, "select * from t order by a", read_manifest(lake, 1))["a"].to_pylist() == [1, 2]
    assert query(lake, "select count(*) as n from nothing")["n"].to_pylist() == [0]
    assert query(lake, "describe t")["column_name"].to_pylist() == ["a", "b"]


# fmt: off
REFUSED = [
    ("select * from read_text('/etc/passwd')",          "file system operations are disabled"),
    ("select * from read_parquet('{elsewhere}')",       "file system operations are disabled"),
    ("select * from glob('/*')",                        "file system operations are disabled"),
    ("copy (select 1) to '{file}'",                     "found COPY, expected one SELECT; a lake can only be read"),
    ("set enable_external_access = true",               "found SET, expected one SELECT"),
    ("drop view t",                                     "found DROP, expected one SELECT"),
    ("attach '{elsewhere}'",                            "found ATTACH, expected one SELECT"),
    ("install httpfs",                                  "found LOAD, expected one SELECT"),
    ("select 1; drop view t",                           "found SELECT, DROP, expected one SELECT"),
    ("",                                                "found nothing, expected one SELECT"),
    ("select nonsense from t",                          'Referenced column "nonsense" not found'),
    ("selct 1",                                         "syntax error"),
    ("select * from orders",                            "Table with name orders does not exist"),
]
# fmt: on


@pytest.mark.parametrize(("statement", "said"), REFUSED)
def test_what_does_not_read_the_tables_is_refused_in_one_line(
    lake: Path, tmp_path: Path, statement: str, said: str
) -> None:
    (file,) = files_of(lake, "gold.t")
    before = file.read_bytes()
    elsewhere = tmp_path / "elsewhere.parquet"
    elsewhere.write_bytes(before)
    with pytest.raises(LakeError) as caught:
        query(lake, statement.format(file=str(file).replace("'", "''"), elsewhere=elsewhere))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == before


def test_command_gives_rows_for_people_and_for_programs(lake: Path) -> None:
    found = hopwire("lake", "sql", "select a, b from t", str(lake), "--at", "1")
    assert (found.code, found.err) == (0, "")
    assert [line.split() for line in found.out.splitlines()[2:]] == [["1", "1"], ["2", "2"], ["2", "rows"]]
    assert hopwire("lake", "sql", "select * from words", str(lake), "--json").out == (
        '{"word": "a", "raw": "a"}\n{"word": "\\u001b[31mred", "raw": "0xff"}\n'
        '{"word": "say \\"x, y\\"", "raw": null}\n'
    )
    assert hopwire("lake", "sql", "select * from words", str(lake), "--csv").out == (
        'word,raw\na,a\n\\x1b[31mred,0xff\n"say ""x, y""",\n'
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["select * from x"], "SQL: Catalog Error: Table with name x does not exist!"),
        (["select 1", "--json", "--csv"], "--json and --csv: choose one of them"),
        (["select 1", "--at", "9"], "has no version 9, it has 1 to 3"),
    ],
)
def test_mistake_in_a_question_is_one_line(lake: Path, arguments: list[str], said: str) -> None:
    found = hopwire("lake", "sql", arguments[0], str(lake), *arguments[1:])
    assert (found.code, found.out, len(found.err.splitlines())) == (2, "", 1)
    assert said in found.err


def test_select_behind_the_lake_is_told_the_order(lake: Path) -> None:
    found = hopwire("lake", "sql", str(lake), "select 1")
    assert (found.code, len(found.err.splitlines())) == (2, 1)
    assert "expected a SELECT; first the SELECT, then the lake" in found.err


def test_question_may_be_longer_than_the_name_of_a_file(lake: Path) -> None:
    names = ", ".join(f"a as a_name_for_column_{number}" for number in range(30))
    found = hopwire("lake", "sql", f"select {names} from t", str(lake), "--csv")
    assert (found.code, found.err) == (0, "")
    assert len(found.out.splitlines()) == 2


def test_rows_of_very_many_columns_are_lists_of_what_they_have(lake: Path) -> None:
    names = ", ".join(f"a as column_{number}" for number in range(20))
    found = hopwire("lake", "sql", f"select {names}, null as nothing from t", str(lake), "--at", "1", columns=80)
    lines = [line.split() for line in found.out.splitlines() if line.strip()]
    assert lines[:2] == [["column_0", "1"], ["column_1", "1"]]
    assert lines[20:22] == [["column_0", "2"], ["column_1", "2"]]
    assert lines[40:] == [["2", "rows"]]


def test_table_is_read_as_what_is_asked_for(lake: Path) -> None:
    assert read(lake, "t")["a"].to_pylist() == [3]
    assert read(lake, "gold.t", at=1).num_rows == 2
    assert read(lake, "t", "pandas", columns=["b"]).to_dict("list") == {"b": ["3"]}
    lazy = read(lake, "t", "polars", columns=["a"], at=1)
    assert lazy.collect().to_dict(as_series=False) == {"a": [1, 2]}
    assert read(lake, "nothing", "polars").collect().columns == ["a", "b"]
    with pytest.raises(SettingsError, match="as_: found 'numpy', expected one of arrow, spark, polars, pandas"):
        read(lake, "t", "numpy")
    with pytest.raises(LakeError, match="has no table orders, nor has any lake; `hopwire lake tables` lists"):
        read(lake, "orders")
    with pytest.raises(LakeError, match=r"has no table requets, nor has any lake; did you mean 'requests'\?"):
        read(lake, "requets", "pandas")
    with pytest.raises(LakeError, match=r"has no table gold.requests, it has .* --table gold.requests$"):
        read(lake, "requests")


BLOCKS = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "tables.md").read_text(), re.DOTALL)
QUESTIONS = [question for block in BLOCKS for question in block.split(";")[:-1]]


@pytest.fixture(scope="module")
def lake_without_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lake")
    with writing(place) as run:
        for name, table in all_tables().items():
            run.put(name, "x", table.stored_schema, [])
        run.publish({}, "")
    return place


@pytest.mark.slow
def test_questions_of_the_documents_are_answered(lake_without_rows: Path) -> None:
    assert len(QUESTIONS) > len(all_tables())
    for question in QUESTIONS:
        assert len(query(lake_without_rows, question).column_names) > 1, question


def test_engines_that_know_nothing_of_manifests_read_the_newest_version(tmp_path: Path) -> None:
    import polars  # late: each process of the tests reads this file

    fill(tmp_path, "one", [1])
    fill(tmp_path, "two", [2, 3])
    place = str(tmp_path / "gold" / "t")
    assert polars.scan_delta(place).collect()["a"].to_list() == [2, 3]
    assert DeltaTable(place).to_pandas()["a"].to_list() == [2, 3]
    assert polars.scan_delta(place, version=0).collect()["a"].to_list() == [1]

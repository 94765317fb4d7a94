from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hopwire.cli.main import run
from hopwire.errors import LakeError
from hopwire.lake.simulation import check_lake, simulate_here
from hopwire.simulate import FAULTS, SimulateSettings
from tests.lake.pure import build_without_spark, write_lake

pytestmark = pytest.mark.slow
SETTINGS = SimulateSettings(messages=3_000)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "network"
    simulate_here(SETTINGS, out)
    return out


@pytest.fixture(scope="module")
def tables(simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    return build_without_spark(simulated, tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(tables: dict[str, pa.Table], tmp_path: Path) -> Path:
    write_lake(tmp_path / "lake", tables)
    return tmp_path / "lake"


def test_what_the_functions_of_the_lake_find_is_the_truth(simulated: Path, lake: Path) -> None:
    checked = check_lake(lake, simulated / "truth")
    assert [tally for tally in checked.tallies if tally.missed or tally.false] == [], checked.differences
    assert checked.is_same
    assert {tally.aspect for tally in checked.tallies} == {
        "verdicts", "reasons", "hops", "requests", "flows", "findings", "clocks",
    }  # fmt: skip
    assert {tally.fault for tally in checked.tallies} == {"", *FAULTS}
    assert checked.left_out == ()


def test_a_wrong_verdict_is_missed_and_false(simulated: Path, tables: dict[str, pa.Table], tmp_path: Path) -> None:
    messages = tables["silver.messages"]
    wrong = pa.concat_arrays([pa.array(["invented"]), messages["verdict"].combine_chunks()[1:]])
    write_lake(tmp_path / "lake", {**tables, "silver.messages": messages.set_column(3, "verdict", wrong)})
    checked = check_lake(tmp_path / "lake", simulated / "truth")
    assert not checked.is_same
    (difference,) = checked.differences
    assert (difference.aspect, difference.lake) == ("verdicts", "invented")
    assert [(tally.missed, tally.false) for tally in checked.tallies if tally.missed] == [(1, 1)]


def test_what_only_the_lake_has_is_false_and_what_it_lacks_is_missed(
    simulated: Path, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    flows = tables["gold.flows"]
    has_finding = pc.greater(pc.list_value_length(flows["findings"]), 0)
    index = pc.index(has_finding, True).as_py()
    requests = tables["gold.requests"].slice(1)
    write_lake(tmp_path / "lake", {**tables, "gold.flows": _without(flows, index), "gold.requests": requests})
    checked = check_lake(tmp_path / "lake", simulated / "truth")
    assert {(each.aspect, each.lake) for each in checked.differences} == {
        ("findings", None), ("flows", None), ("requests", None),
    }  # fmt: skip
    assert sum(tally.false for tally in checked.tallies) == 0


def _without(table: pa.Table, index: int) -> pa.Table:
    return pa.concat_tables([table.slice(0, index), table.slice(index + 1)])


def test_aspects_without_their_table_are_left_out(simulated: Path, tables: dict[str, pa.Table], tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", {"silver.messages": tables["silver.messages"]})
    checked = check_lake(tmp_path / "lake", simulated / "truth")
    assert checked.is_same
    assert checked.left_out == ("reasons", "hops", "requests", "flows", "findings", "clocks")


def test_a_directory_that_is_no_truth_is_named(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="has no truth_flows; name the directory"):
        check_lake(lake, tmp_path)


@pytest.mark.parametrize("name", ["README", "chunk-000000.parquet", "other.parquet"])
def test_file_that_is_not_of_the_truth_is_one_line(
    simulated: Path, lake: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = tmp_path / "truth"
    shutil.copytree(simulated / "truth", truth)
    file = truth / "truth_flows" / name
    if name == "other.parquet":
        pq.write_table(pa.table({"other": [1]}), file)
    else:
        file.write_bytes(file.read_bytes()[:100] if file.exists() else b"Read me.\n")
    assert run(["lake", "check", str(lake), str(truth)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"hopwire: {file}: cannot be read (")
    assert said.endswith("); remove it if it is not of the truth, or simulate anew\n")
    assert said.count("\n") == 1


def test_the_command_ends_with_0_if_all_is_true_and_with_1_otherwise(
    simulated: Path, lake: Path, tables: dict[str, pa.Table], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lake", "check", str(lake), str(simulated / "truth")]) == 0
    assert "all are as they should be" in capsys.readouterr().out
    write_lake(tmp_path / "other", {**tables, "gold.requests": tables["gold.requests"].slice(5)})
    assert run(["lake", "check", str(tmp_path / "other"), str(simulated / "truth")]) == 1
    assert "facts compared: 5 missed, 0 false" in capsys.readouterr().out
    assert run(["lake", "check", "--json", str(tmp_path / "other"), str(simulated / "truth")]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["is_same"], len(told["differences"])) == (False, 5)

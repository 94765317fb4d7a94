"""`hopwire flows`: found by what they are, shown as a tree, read without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hopwire.capture import CaptureWriter, Direction
from hopwire.flows.schemas import CLOCKS
from hopwire.lake.build import step
from hopwire.lake.store import writing
from hopwire.model import Message
from hopwire.model.columns import schema_from_columns
from hopwire.wire import V6, encode
from tests.cli.running import SECONDS, hopwire, process
from tests.flows.story import Story, answering, asking
from tests.lake.pure import put_rows

A, B, C = b"A", b"B", b"\xff\x01"
PING = "0x" + "00" * 23 + "10"  # a flow without an id: the key of its message, and the minute in which it left
NAMES = {b"unseen": "beta", A: "alpha", B: "beta", C: "gamma"}


def story() -> Story:
    """One flow that is answered, one whose answer is lost, one that goes elsewhere, and one without an id."""
    told = Story(A, B, C)
    for number, name in enumerate((b"11-fine", b"12-lost")):
        flow = {"correlation_id": name}
        at = 1000 * number
        told.hop(A, B, at, at + 1, b"q" + name, **flow, **asking(A, number))
        told.out(B, A, at + 2, b"r" + name, **flow, **answering(A, number))
    told.came(A, B, 3, b"r11-fine", correlation_id=b"11-fine", **answering(A, 0))
    told.hop(A, C, 5000, 5002, b"m", correlation_id=b"20-other", identity=b"stock.moved")
    return told.hop(A, C, 6000, 6001, b"\x00" * 16, correlation_id=b"", identity=b"KINO.PING")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lake(tmp_path_factory.mktemp("lake"), story().flows())


def write_lake(path: Path, flows: pa.Table) -> Path:
    told = story()
    nodes = [{"node": node, "node_name": name} for node, name in NAMES.items()]
    tables = {
        "gold.flows": flows,
        "gold.requests": told.requests(),
        "silver.clocks": pa.Table.from_pylist(nodes, schema=schema_from_columns(CLOCKS)),
    }
    with writing(path) as run:
        for name, table in tables.items():
            put_rows(run, name, table, "basis")
        run.publish({}, "basis")
    return path


def ids(lake: Path, *options: str) -> list[str]:
    found = hopwire("flows", "ls", str(lake), "--json", *options)
    assert (found.code, found.err) == (0, "")
    return [json.loads(line)["flow_id"] for line in found.out.splitlines()]


def test_ls_shows_the_latest_first_with_outcome_and_findings(lake: Path) -> None:
    found = hopwire("flows", "ls", str(lake), "--all", columns=160)
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert lines[0].split() == ["flow", "outcome", "began", "took", "hops", "message", "nodes"]
    assert [line.split()[:2] for line in lines[2:6]] == [
        [PING, "delivered"],
        ["20-other", "delivered"],
        ["12-lost", "lost"],
        ["11-fine", "answered"],
    ]
    assert "hop_lost, callback_unreached" in lines[4]
    assert "alpha, gamma" in lines[3]
    assert lines[-1] == "4 of 4 flows"


@pytest.mark.slow
def test_ls_filters(lake: Path) -> None:
    assert ids(lake, "--outcome", "lost") == ["12-lost"]
    assert ids(lake, "--outcome", "lost", "--outcome", "answered") == ["12-lost", "11-fine"]
    assert ids(lake, "--contract", "stock.moved") == ["20-other"]
    assert ids(lake, "--node", "beta") == ids(lake, "--node", "B") == ["12-lost", "11-fine"]
    assert ids(lake, "--node", "0xff01", "--contract", "stock.moved") == ["20-other"]
    assert ids(lake, "--from", "1970-01-01T00:16:41", "--to", "1970-01-01T00:16:45") == ["12-lost"]
    assert ids(lake, "--limit", "1") == ["20-other"]
    assert ids(lake, "--limit", "1", "--all") == ids(lake, "--contract", "KINO.PING") == [PING]
    assert ids(lake, "--finding", "callback_unreached") == ["12-lost"]
    assert ids(lake, "--finding", "hop_loop") == []
    assert ids(lake, "--node", "nobody") == []
    assert ids(lake, "--node", "\udcff\x01") == ["20-other"], "bytes that are no UTF-8, as the shell gives them"
    assert ids(lake, "--contract", "\udcff") == []


def test_ls_of_nothing_says_so(lake: Path) -> None:
    assert hopwire("flows", "ls", str(lake), "--outcome", "expired").out == "0 of 0 flows\n"


def test_ls_of_a_node_or_contract_that_is_mistyped_names_the_one_that_may_be_meant(tmp_path: Path) -> None:
    lake = write_lake(tmp_path, story().flows())
    with writing(lake) as run:
        contracts = pa.Table.from_pylist([{"identity": b"stock.moved"}], schema=pa.schema({"identity": pa.binary()}))
        put_rows(run, "gold.contracts", contracts, "basis")
        run.publish({}, "basis")
    for option, typed, meant in (("node", "alpa", "alpha"), ("contract", "stock.mved", "stock.moved")):
        found = hopwire("flows", "ls", str(lake), f"--{option}", typed)
        assert (found.code, found.out) == (0, "0 of 0 flows\n")
        assert found.err == f"hopwire: no flow with the {option} '{typed}'; did you mean '{meant}'?\n"
    assert hopwire("flows", "ls", str(lake), "--node", "alpha", "--outcome", "expired").err == ""


def test_show_draws_the_tree_and_marks_where_it_was_lost(lake: Path) -> None:
    found = hopwire("flows", "show", str(lake), "12", columns=100)
    assert (found.code, found.err) == (0, "")
    assert "12-lost  orders.place  lost" in found.out
    question, answer = (line for line in found.out.splitlines() if "v1" in line)
    assert question.split()[2:] == ["orders.place", "v1", "alpha", "->", "beta", "1", "ms"]
    assert "└─ orders.placed v1" in answer
    assert answer.rstrip().endswith("LOST: left beta, never came to alpha")
    assert "orders.place from alpha: LOST between beta and alpha" in found.out
    assert "callback_unreached at alpha" in found.out


@pytest.mark.parametrize("columns", [30, 50, 70, 100, 200])
def test_nothing_is_wider_than_the_screen(lake: Path, columns: int) -> None:
    for arguments in (["ls", str(lake)], ["show", str(lake), "12-lost"]):
        found = hopwire("flows", *arguments, columns=columns)
        assert found.code == 0
        table = [line for line in found.out.splitlines() if "──" in line or "LOST" in line]
        assert all(len(line) <= columns for line in table)


def test_show_takes_a_prefix_in_hex_and_gives_json(lake: Path) -> None:
    flow = json.loads(hopwire("flows", "show", str(lake), "0x0000", "--json").out)
    assert (flow["identity"], flow["node_names"], flow["requests"]) == ("KINO.PING", ["alpha", "gamma"], [])
    flow = json.loads(hopwire("flows", "show", str(lake), "11-fine", "--json").out)
    assert [request["outcome"] for request in flow["requests"]] == ["answered"]
    assert [step["parent"] for step in flow["steps"]] == [-1, 0]


@pytest.mark.slow
def test_show_gives_every_column_of_a_lake_that_was_built(tmp_path: Path) -> None:
    captures, lake = tmp_path / "captures", tmp_path / "lake"
    with CaptureWriter(captures, b"alpha", incarnation=1) as alpha:
        alpha.append(1_800_000_000 * 10**9, Direction.OUT, b"beta", encode(Message(b"a", correlation_id=b"c-1"), V6))
    step(lake, [captures])
    found = hopwire("flows", "show", str(lake), "c-1", "--json")
    assert (found.code, found.err) == (0, "")
    flow = json.loads(found.out)
    assert (flow["date"], flow["started_at"]) == ("2027-01-15", "2027-01-15T08:00:00Z")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "LAKE", "nothing"], "has no flow 'nothing'"),
        (["show", "LAKE", "1"], "several flows begin with '1': 11-fine, 12-lost"),
        (["show", "LAKE", "0xzz"], "has no flow '0xzz'"),
        (["show", "NONE", "1"], "is not a lake"),
        (["ls", "NONE"], "is not a lake"),
        (["ls", "LAKE", "--outcome", "gone"], "--outcome: found 'gone', expected one of lost, "),
        (["ls", "LAKE", "--finding", "gone"], "--finding: found 'gone', expected one of "),
        (["ls", "LAKE", "--from", "noon"], "--from: found 'noon'"),
        (["ls", "LAKE", "--from", "0001-01-01"], "--from: found '0001-01-01', expected a time from 1677-"),
        (["ls", "LAKE", "--to", "9999-12-31"], "--until/--to: found '9999-12-31', expected a time from 1677-"),
        (["show", "LAKE", "\udcff"], "has no flow '\\udcff'"),
    ],
)
def test_mistakes_are_one_line(lake: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    places = {"LAKE": str(lake), "NONE": str(tmp_path)}
    found = hopwire("flows", *(places.get(each, each) for each in arguments))
    assert (found.code, found.out) == (2, "")
    assert words in found.err
    assert len(found.err.splitlines()) == 1


def test_lake_without_flows_names_the_table(tmp_path: Path) -> None:
    with writing(tmp_path) as run:
        run.publish({}, "basis")
    found = hopwire("flows", "ls", str(tmp_path))
    assert found.code == 2
    assert "has no table silver.clocks" in found.err


def test_flow_that_nobody_knows_the_begin_of_is_shown_without_it(tmp_path: Path) -> None:
    flows = story().flows()
    index = flows.column_names.index("started_at_ns")
    field = flows.schema.field(index)
    lake = write_lake(tmp_path, flows.set_column(index, field, pa.nulls(len(flows), field.type)))
    listed = hopwire("flows", "ls", str(lake), "--all", columns=140)
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.endswith("4 of 4 flows\n")
    shown = hopwire("flows", "show", str(lake), "12-lost")
    assert (shown.code, shown.err) == (0, "")
    assert "LOST: left beta, never came to alpha" in shown.out


def test_fate_that_this_hopwire_does_not_know_is_one_line_of_the_flow(tmp_path: Path) -> None:
    rows = story().flows().to_pylist()
    for row in rows:
        row["steps"][0]["fate"] = "teleported"
    lake = write_lake(tmp_path, pa.Table.from_pylist(rows, schema=story().flows().schema))
    shown = hopwire("flows", "show", str(lake), "12-lost")
    assert (shown.code, shown.err) == (0, "")
    assert "teleported: a fate that this hopwire does not know" in shown.out
    assert "LOST: left beta, never came to alpha" in shown.out


@pytest.mark.parametrize("arguments", [["ls"], ["show", "12-lost"]])
def test_lake_with_a_damaged_file_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    lake = write_lake(tmp_path, story().flows())
    (lake / "gold" / "flows" / "rows.parquet").write_bytes(b"PAR1")
    found = hopwire("flows", arguments[0], str(lake), *arguments[1:])
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"hopwire: {lake}: gold.flows: rows.parquet cannot be read (it has 4 bytes, expected ")
    assert len(found.err.splitlines()) == 1


@pytest.mark.slow
def test_flows_are_read_without_spark(lake: Path) -> None:
    code = (
        "import sys; from hopwire.cli.main import run; code = run(['flows', 'ls', sys.argv[1]]);"
        "sys.exit(code or ('pyspark' in sys.modules) * 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(lake)], capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_terminal_without_unicode_gets_plain_trees(lake: Path) -> None:
    found = process("flows", "show", str(lake), "12-lost", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert found.code == 0
    assert "`- orders.placed v1" in found.out

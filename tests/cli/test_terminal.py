"""What comes from the wire or from a file never commands the terminal, whichever command shows it."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings

from hopwire.capture import CaptureWriter, Direction
from hopwire.cli.demo import show_day
from hopwire.cli.exits import complain
from hopwire.cli.main import run
from hopwire.cli.terminal import say, screen
from hopwire.demo.agreement import Disagreement
from hopwire.demo.day_summary import DaySummary, LinkTraffic, TroubleMet
from hopwire.lake.tables import all_tables
from hopwire.model import Message
from hopwire.report.words import printable, printable_lines
from hopwire.wire import V6, encode
from tests.lake.pure import write_lake

CLI = Path(__file__).parents[2] / "src" / "hopwire" / "cli"
HOSTILE = "\x1b]0;pwned\x07\x9b2J\x7f\u202eevil\u2066\u200b\ud800\r\x08[bold]x[/bold]\u2028"
START = 1_800_000_000_000_000_000
TERSE = settings(
    max_examples=settings().max_examples // 12,  # each is a dozen commands
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TEXTS = st.text(st.characters(), max_size=12)  # with control characters and halves of surrogate pairs


def assert_harmless(*texts: str) -> None:
    for text in texts:
        assert text.replace("\n", "").isprintable(), ascii(text)


# -- the filter


@pytest.mark.slow
@given(TEXTS)
@example(HOSTILE)
def test_every_text_becomes_printable_and_printable_text_stays(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    assert_harmless(printable_lines(text))
    if text.isprintable():
        assert printable(text) == text


def test_escapes_show_what_was_there() -> None:
    assert printable("a\x1b[2J\u202e\ud800\n\x9b") == r"a\x1b[2J\u202e\ud800\n\x9b"
    assert printable_lines("a\nb\x1b\n") == "a\nb\\x1b\n"
    assert printable("läke [bold]x[/bold]") == "läke [bold]x[/bold]"


# -- the gate


def test_no_command_prints_past_the_gate() -> None:
    """`print` and rich's Console are used where the gate is, and nowhere else."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in sorted(CLI.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "Console")
    ]
    allowed = ("terminal.py", "exits.py", "main.py")  # main.py: one line that rich is missing
    assert [each for each in found if not each.startswith(allowed)] == []
    assert sum(each.startswith("main.py") for each in found) == 1


@TERSE
@given(TEXTS)
@example(HOSTILE)
def test_gate_lets_nothing_through_that_was_forgotten(capsys: pytest.CaptureFixture[str], text: str) -> None:
    say(text)
    screen().print(text)
    complain(text)
    assert_harmless(*capsys.readouterr())


def test_markup_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    screen().print("[bold]x[/bold] :smile:")
    assert capsys.readouterr().out == "[bold]x[/bold] :smile:\n"


# -- the commands


@pytest.mark.slow
@TERSE
@given(TEXTS, TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(HOSTILE, HOSTILE.encode("utf-8", "surrogatepass"))
def test_captures_are_shown_harmlessly(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], text: str, data: bytes
) -> None:
    place = tmp_path_factory.mktemp("capture")
    written = text.encode("utf-8", "replace").decode()  # Arrow takes no half of a surrogate pair
    with CaptureWriter(place, data, incarnation=1, node_name=written) as writer:
        writer.append(START, Direction.DEAD, data, encode(Message(data or b"x"), V6), written, written)
        writer.append(START, written, data, [data], written, written)  # type: ignore[arg-type]
    name = data.replace(b"/", b"").replace(b"\0", b"")[:40]
    (place / os.fsdecode(name + b".arrows")).write_bytes(b"no capture")
    for command in (["capture", "ls"], ["capture", "cat"], ["capture", "cat", "--node", text or "x"]):
        for options in ([], ["--json"] if "--node" not in command else []):
            run([*command, str(place), *options])
            assert_harmless(*capsys.readouterr())
    for file in place.glob("*.arrows"):
        run(["decode", "-f", str(file)])
        assert_harmless(*capsys.readouterr())


@pytest.mark.slow
@TERSE
@given(TEXTS)
@example(HOSTILE)
def test_arguments_are_repeated_harmlessly(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    name = text.replace("\0", "") or "x"
    file = tmp_path / "given.json"
    file.write_text(json.dumps({"name": text, "frames": ["00"], "wire_format_version": text, text or "x": 1}))
    for arguments in (
        ["decode", name],
        ["decode", "-f", str(file)],
        ["decode", "-f", name],
        ["encode", "-f", str(file)],
        ["capture", "ls", f"nowhere{name}"],
        ["lake", "tables", f"nowhere{name}"],
        ["flows", "ls", f"nowhere{name}", "--outcome", name],
        ["flows", "show", f"nowhere{name}", name],
        ["lake", "build", f"nowhere{name}", f"lake{name}", "--table", name],
        ["lake", "check", f"nowhere{name}", f"lake{name}"],
        ["simulate", str(tmp_path / "out"), "--faults", f"no{name}"],
        [f"no{name}"],
        ["decode", f"--no{name}"],
    ):
        run(arguments)
        assert_harmless(*capsys.readouterr())


WRITTEN = HOSTILE.replace("\ud800", "")  # Parquet takes no half of a surrogate pair
KNOWN: dict[str, Any] = {"fate": "dead", "repeat": "", "kind": "hop_loop", "parent": -1, "flow_id": b"flow"}


def hostile(kind: pa.DataType, name: str = "") -> Any:
    """Give a value of that type, with everything in it that can be text."""
    if name in KNOWN:
        return KNOWN[name]
    if pa.types.is_struct(kind):
        return {field.name: hostile(field.type, field.name) for field in kind}
    if pa.types.is_list(kind):
        return [hostile(kind.value_type)]
    if pa.types.is_string(kind):
        return WRITTEN
    if pa.types.is_binary(kind):
        return WRITTEN.encode()
    return pa.types.is_boolean(kind) or 1


@pytest.fixture(scope="module")
def hostile_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of one flow whose every text is hostile."""
    lake = tmp_path_factory.mktemp("hostile") / "lake"
    schemas = {name: all_tables()[name].schema for name in ("gold.flows", "gold.requests", "silver.clocks")}
    rows = {name: hostile(pa.struct(list(schema))) for name, schema in schemas.items()}
    write_lake(lake, {name: pa.Table.from_pylist([row], schemas[name]) for name, row in rows.items()})
    return lake


@pytest.mark.slow
def test_flows_are_shown_harmlessly(hostile_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--json"]):
        assert run(["flows", "ls", str(hostile_lake), "--all", *options]) == 0
        shown = capsys.readouterr()
        assert_harmless(*shown)
        assert run(["flows", "show", str(hostile_lake), "flow", *options]) == 0
        shown = capsys.readouterr()
        assert_harmless(*shown)
    assert json.loads(shown.out)["steps"][0]["dead_reason"] == WRITTEN, "JSON is exact"


def test_demonstration_is_summed_up_harmlessly(capsys: pytest.CaptureFixture[str]) -> None:
    words: dict[str, Any] = {HOSTILE: 1}
    balance = dict.fromkeys(("rows_in", "message_count", "quarantine_count", "skipped_rows"), 1)
    summary = DaySummary(
        seconds=1.0,
        endings=words,
        troubles=[TroubleMet(HOSTILE, HOSTILE, 1, words, words, False)],
        outcomes=words,
        losses=words,
        differences=[Disagreement(HOSTILE, HOSTILE, HOSTILE)],
        links=[LinkTraffic(HOSTILE, HOSTILE, 6, 1, 1, 1, 1, 1)],
        control_count=0,
        dead_letters=words,
        verdicts=words,
        quarantine=words,
        balance=balance,
        has_lake=True,
    )
    show_day(screen(), summary, None, Path(HOSTILE), 1.0)
    assert_harmless(*capsys.readouterr())

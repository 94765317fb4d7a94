"""`hopwire capture`: segments as a table, sightings as lines, faults as one line and a code."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopwire.capture import CaptureSettings, CaptureWriter, Direction
from hopwire.cli.exits import ExitCode
from hopwire.cli.main import run
from hopwire.model import Message
from hopwire.wire import V5, V6, encode
from tests.capture.recording.recordings import CLIENT, SERVER, Recording, greeting, message, pcap
from tests.cli.running import command, environment, hopwire, process

START = 1_800_000_000_000_000_000
PING = encode(Message(b"ping.ask", correlation_id=b"c-1"), V6)
PONG = encode(Message(b"ping.answer", correlation_id=b"c-1"), V5)
TIGHT = CaptureSettings(buffer_rows=3)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Two nodes that talk to one another; one of them sees more than it can keep, and is not closed."""
    with CaptureWriter(tmp_path, b"\x01\xff", incarnation=1, node_name="alpha") as alpha:
        alpha.append(START, Direction.OUT, b"beta", PING)
        alpha.append(START + 3_000_000, Direction.IN, b"beta", PONG)
        alpha.append(START + 4_000_000, Direction.DEAD, b"", [b"junk"], "undecodable", "from nowhere")
    beta = CaptureWriter(tmp_path, b"beta", incarnation=1, settings=TIGHT)
    beta.offer(START + 1_000_000, Direction.IN, b"\x01\xff", PING)
    beta.offer(START + 2_000_000, Direction.OUT, b"\x01\xff", PONG)
    for more in range(3, 6):
        beta.offer(START + more * 1_500_000, Direction.IN, b"", PING)
    beta.flush(START + 9_000_000)
    return tmp_path


def test_ls_shows_what_is_in_each_segment(capture: Path) -> None:
    found = hopwire("capture", "ls", str(capture), columns=160)
    assert (found.code, found.err) == (0, "")
    head, _, alpha, beta = (line.split() for line in found.out.splitlines())
    assert head == ["state", "node", "rows", "skipped", "bytes", "from", "for", "segment"]
    assert alpha[:4] == ["sealed", "alpha", "3", "0"]
    assert alpha[5:] == ["2027-01-15T08:00:00Z", "4", "ms", "20270115T080000.000000000Z-01ff-000001.arrows"]
    assert beta[:4] == ["open", "beta", "4", "2"]


def test_ls_gives_one_object_for_each_segment(capture: Path) -> None:
    alpha, beta = map(json.loads, hopwire("capture", "ls", "--json", str(capture)).out.splitlines())
    assert (alpha["state"], alpha["row_count"], alpha["skipped"], alpha["nodes"]) == ("sealed", 3, 0, {"01ff": "alpha"})
    assert (alpha["first_seen_at_ns"], alpha["last_seen_at_ns"]) == (START, START + 4_000_000)
    assert alpha["size_bytes"] == Path(alpha["path"]).stat().st_size
    assert (beta["state"], beta["row_count"], beta["skipped"], beta["cut_bytes"]) == ("open", 4, 2, 0)


def test_cat_shows_what_all_nodes_saw_in_the_order_of_time(capture: Path) -> None:
    found = hopwire("capture", "cat", str(capture))
    assert (found.code, found.err) == (0, "")
    ping, pong = (f"{sum(map(len, message))} bytes" for message in (PING, PONG))
    assert [" ".join(line.split()) for line in found.out.splitlines()] == [
        f"2027-01-15T08:00:00.000000000Z alpha out beta ping.ask v1 V6 {ping} c-1",
        f"2027-01-15T08:00:00.001000000Z beta in alpha ping.ask v1 V6 {ping} c-1",
        f"2027-01-15T08:00:00.002000000Z beta out alpha ping.answer v1 V5 {pong} c-1",
        f"2027-01-15T08:00:00.003000000Z alpha in beta ping.answer v1 V5 {pong} c-1",
        "2027-01-15T08:00:00.004000000Z alpha dead - - -- 4 bytes too_few_frames undecodable from nowhere",
        f"2027-01-15T08:00:00.004500000Z beta in - ping.ask v1 V6 {ping} c-1",
        "2027-01-15T08:00:00.006000000Z beta skipped 2 sightings missing from sequence 3 on too_slow",
    ]


# fmt: off
CHOSEN = [
    (["--since", "2027-01-15T08:00:00.003Z"],      ["in", "dead", "in", "skipped"]),
    (["--until", "2027-01-15T08:00:00.001Z"],      ["out"]),
    (["--since", str(START + 1), "--limit", "2"],  ["in", "out"]),
    (["--node", "alpha"],                          ["out", "in", "dead"]),
    (["--node", "0x01ff"],                         ["out", "in", "dead"]),
    (["--node", "01ff", "--limit", "1"],           ["out"]),
    (["--node", "beta", "--node", "alpha"],        ["out", "in", "out", "in", "dead", "in", "skipped"]),
    (["--since", "2030-01-01"],                    []),
]
# fmt: on


@pytest.mark.parametrize(("options", "directions"), CHOSEN, ids=range(len(CHOSEN)))
def test_cat_shows_only_what_is_asked_for(capture: Path, options: list[str], directions: list[str]) -> None:
    found = hopwire("capture", "cat", str(capture), *options, "--json")
    assert [json.loads(line)["direction"] for line in found.out.splitlines()] == directions


def test_cat_gives_objects_that_decode_reads(capture: Path) -> None:
    found = hopwire("capture", "cat", str(capture), "--json", "--until", "2027-01-15T08:00:00.004Z")
    first = json.loads(found.out.splitlines()[0])
    assert first["frames"] == [frame.hex() for frame in PING]
    assert (first["node"], first["node_name"], first["peer"]) == ("01ff", "alpha", b"beta".hex())
    assert (first["identity"], first["format"], first["fault"]) == (b"ping.ask".hex(), "V6", None)
    assert (first["sequence"], first["incarnation"], first["seen_at_ns"]) == (0, 1, START)
    decoded = hopwire("decode", "-f", "-", "--json", given=found.out)
    assert decoded.code == 0
    assert [json.loads(line)["fields"]["identity"] for line in decoded.out.splitlines()] == [
        name.hex() for name in (b"ping.ask", b"ping.ask", b"ping.answer", b"ping.answer")
    ]


def test_one_file_may_be_read_alone(capture: Path) -> None:
    (file,) = capture.glob("*-000001.open.arrows")
    assert len(hopwire("capture", "cat", str(file)).out.splitlines()) == 4
    assert "beta" in hopwire("capture", "ls", str(file)).out


def test_follow_goes_on_with_what_comes(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gamma = CaptureWriter(capture, b"gamma", incarnation=1)
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        gamma.offer(START + len(waits), Direction.OUT, b"", PING)
        gamma.flush(START + len(waits))

    monkeypatch.setattr("hopwire.cli.capture.sleep", sleep)
    found = hopwire("capture", "cat", str(capture), "--follow", "--limit", "9", "--json")
    assert [json.loads(line)["node"] for line in found.out.splitlines()][-2:] == [b"gamma".hex()] * 2
    assert len(waits) == 2


def test_names_from_a_file_cannot_command_the_terminal(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path, b"\x1b[2J", incarnation=1, node_name="\x1b[31m") as writer:
        writer.append(START, Direction.DEAD, b"\x1b", [b"\x1b"], "\x1b[1m", "\x07")
    for name in ("ls", "cat"):
        assert hopwire("capture", name, str(tmp_path)).out.replace("\n", "").isprintable()


# -- what is wrong


def test_a_segment_that_is_cut_off_is_read_as_far_as_it_goes(capture: Path) -> None:
    (file,) = capture.glob("*.open.arrows")
    file.write_bytes(file.read_bytes() + b"\xff\xff\xff")
    line = f"hopwire: {file}: 3 bytes after the last whole batch are cut off\n"
    listed = hopwire("capture", "ls", str(capture))
    assert (listed.code, listed.err) == (0, line)
    assert "cut off" in listed.out
    shown = hopwire("capture", "cat", str(capture))
    assert (shown.code, shown.err) == (0, line)
    assert len(shown.out.splitlines()) == 7


def test_a_foreign_file_is_named_and_the_others_are_read(capture: Path) -> None:
    (capture / "0.arrows").write_text("hello")
    line = f"hopwire: {capture / '0.arrows'}: is not an Arrow stream\n"
    listed = hopwire("capture", "ls", str(capture))
    assert (listed.code, listed.err) == (2, line)
    assert "unreadable" in listed.out
    shown = hopwire("capture", "cat", str(capture))
    assert (shown.code, shown.err) == (2, line)
    assert len(shown.out.splitlines()) == 7


WRONG = [
    (["ls", "/no/such"], "/no/such: No such file or directory"),
    (["cat", "/no/such"], "/no/such: No such file or directory"),
    (["cat", "{}", "--since", "now"], "--since/--from: found 'now', expected a time such as 2026-01-31T12:00:00Z"),
    (
        ["cat", "{}", "--since", "0001-01-01"],
        "--since/--from: found '0001-01-01', expected a time from "
        "1677-09-21T00:12:43.145224192Z to 2262-04-11T23:47:16.854775807Z",
    ),
    (["cat", "{}", "--node", "gamma"], "--node: found 'gamma', the capture has alpha, beta"),
    ([], "Missing command; hopwire capture --help shows how"),
    (["cat"], "Missing argument 'DIR'; hopwire capture cat --help shows how"),
]


@pytest.mark.parametrize(("arguments", "line"), WRONG, ids=range(len(WRONG)))
def test_wrong_usage_is_one_line_and_code_2(
    capture: Path, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["capture", *(str(capture) if each == "{}" else each for each in arguments)]) == ExitCode.USAGE
    assert tuple(capsys.readouterr()) == ("", f"hopwire: {line}\n")


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_quietly(capture: Path) -> None:
    arguments = command("capture", "cat", "--follow", "--json", str(capture))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        with CaptureWriter(capture, b"gamma", incarnation=1) as gamma:
            gamma.append(START, Direction.OUT, b"", PING)
        assert running.stderr.read() == b""
    assert running.returncode == ExitCode.CLOSED


@pytest.mark.slow
def test_a_user_never_sees_a_traceback(capture: Path) -> None:
    (capture / "0.arrows").write_bytes(b"\xff" * 100)
    found = process("capture", "cat", str(capture))
    assert found.code == 2
    assert "Traceback" not in found.err
    assert found.err.count("\n") == 1


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A conversation on the network that is read, and one that is not."""
    heard = Recording()
    heard.open()
    heard.greet()
    heard.say(message(PING[1:]))
    heard.say(message(PONG[1:]), SERVER, CLIENT)
    heard.open(("10.0.0.9", 1), SERVER)
    heard.say(greeting(b"CURVE"), ("10.0.0.9", 1), SERVER)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(heard.packets))
    return path


def test_recording_of_the_network_is_listed_and_shown(recording: Path) -> None:
    for path in (recording, recording.parent):
        listed = hopwire("capture", "ls", str(path), columns=160)
        assert listed.code == ExitCode.FINE
        assert listed.out.splitlines()[-1].split()[:4] == ["sealed", "node-a,", "node-b", "4"]
        assert "1 connection not read: encrypted (CURVE) (tcp://10.0.0.9:1 and tcp://10.0.0.2:7400)" in listed.err
        shown = hopwire("capture", "cat", str(path))
        assert (shown.code, len(shown.err.splitlines())) == (ExitCode.FINE, 1)
        assert [line.split()[1:7] for line in shown.out.splitlines()] == [
            ["node-a", "out", "node-b", "ping.ask", "v1", "V6"],
            ["node-b", "in", "node-a", "ping.ask", "v1", "V6"],
            ["node-b", "out", "node-a", "ping.answer", "v1", "V5"],
            ["node-a", "in", "node-b", "ping.answer", "v1", "V5"],
        ]


def test_recording_can_be_asked_for_one_node(recording: Path) -> None:
    shown = hopwire("capture", "cat", "--node", "node-b", str(recording))
    assert [line.split()[2] for line in shown.out.splitlines()] == ["in", "out"]


def test_messages_of_a_recording_are_decoded_once_each(recording: Path) -> None:
    found = hopwire("decode", "--json", "-f", str(recording))
    assert found.code == ExitCode.FINE
    assert "CURVE" in found.err
    assert len(found.out.splitlines()) == 2
    whole = hopwire("decode", "-f", str(recording))
    assert whole.out.splitlines()[-1] == "2 messages: 2 fine, 0 bad"
    assert "x.pcap, 2027-01-15T08:00:00.006000000Z, in at node-b" in whole.out


def test_files_of_a_capture_are_decoded(capture: Path) -> None:
    alpha, beta = sorted(capture.glob("*.arrows"))
    assert len(hopwire("decode", "--json", "-f", str(alpha)).out.splitlines()) == 3
    found = hopwire("decode", "--json", "-f", str(beta))
    assert (found.code, len(found.out.splitlines())) == (ExitCode.FINE, 3)


def test_parquet_without_frames_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"colour": ["red"]}), path)
    found = hopwire("decode", "-f", str(path))
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert found.err.endswith("x.parquet: has no column frames: expected a list of byte strings\n")


def test_cat_shows_one_flow_one_contract_and_no_control(capture: Path) -> None:
    def directions(*options: str) -> list[str]:
        return [line.split()[2] for line in hopwire("capture", "cat", str(capture), *options).out.splitlines()]

    assert directions("--flow", "c-1") == ["out", "in", "out", "in", "in"]
    assert directions("--contract", "ping.answer") == ["out", "in"]
    assert directions("--no-control") == ["out", "in", "out", "in", "in"]
    assert directions("--flow", "c-") == directions("--flow", "c-1")  # its beginning is enough
    assert directions("--flow", "c-2") == []
    assert hopwire("capture", "cat", str(capture), "--flow", "c-2").err.endswith(
        f"{capture}: nothing that these options want; hopwire capture ls {capture} lists what there is\n"
    )


def test_cat_of_a_file_that_cannot_be_read_says_only_that(tmp_path: Path) -> None:
    path = tmp_path / "x.arrows"
    path.write_text("hello")
    found = hopwire("capture", "cat", str(path))
    assert (found.code, found.err) == (ExitCode.USAGE, f"hopwire: {path}: is not an Arrow stream\n")

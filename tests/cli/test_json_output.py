"""The JSON of every command, byte for byte: programs read these lines, so keys, their order and spellings stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hopwire.capture import CaptureWriter, Direction
from hopwire.demo.agreement import Disagreement
from hopwire.demo.day_summary import DaySummary, LinkTraffic, TroubleMet, summary_to_json
from hopwire.lake import build as lake_build
from hopwire.lake import simulation, store
from hopwire.lake.manifest import Manifest
from hopwire.lake.store import read_manifest, writing
from hopwire.lake.tables import all_tables
from hopwire.simulate.check import Checked, TruthDifference, TruthTally
from tests.cli.running import hopwire
from tests.cli.test_flows import story, write_lake

START = 1_800_000_000_000_000_000

CAT = (
    '{"seen_at": "2027-01-15T08:00:00.000000000Z", "node": "01ff", "node_name": "alpha", "incarnation": 1, '
    '"sequence": 0, "seen_at_ns": 1800000000000000000, "direction": "dead", "peer": "62", "frames": ["6a", ""], '
    '"reason": "undecodable", "note": "from nowhere", "skipped": 0, "identity": null, "format": null, '
    '"fault": "unknown_version", "version": null, "partition": null, "correlation_id": null}\n'
)
FLOW = (
    '{"flow_id": "20-other", "identity": "stock.moved", "outcome": "delivered", "started_at_ns": 1005000000000, '
    '"duration_us": 2000, "depth": 1, "hop_count": 1, "message_count": 1, "size_bytes": 100, "lost_count": 0, '
    '"dead_count": 0, "request_count": 0, "answered_count": 0, "nodes": ["A", "0xff01"], '
    '"contracts": ["stock.moved"], "findings": [], "is_oversized": false, "node_names": ["alpha", "gamma"]}\n'
)
DECODED = (
    '{"format": null, "frames": ["00", "01"], "fields": null, "items": [{"frame": 0, "position": "n-2", "start": 0, '
    '"stop": 1, "name": "(not read)", "type": "raw", "hex": "00", "meaning": "1 byte: 0x00"}, {"frame": 1, '
    '"position": "n-1", "start": 0, "stop": 1, "name": "(not read)", "type": "raw", "hex": "01", '
    '"meaning": "1 byte: 0x01"}], "error": {"reason": "unknown_version", '
    '"meaning": "no format\'s number stands where its number belongs", "detail": "the last frame begins with 01", '
    '"frame": 1, "byte": 0, "field": ""}}\n'
)
BUILT = (
    '{"lake": "LAKE", "sources_read": ["x.arrows"], "tables_built": ["gold.links"], '
    '"tables": {"gold.links": {"row_count": 0, "size_bytes": 0}}, "faults": ["x.arrows: is a FIFO"], '
    '"bad": ["x.arrows"], "too_old": 0}\n'
)


CHECKED = (
    '{"is_same": false, "flows": {"loss": 2}, "faults": {"loss": {"expected": 3, "found": 2, "missed": 1, '
    '"false": 0}}, "aspects": [{"aspect": "requests", "fault": "loss", "expected": 3, "found": 2, "missed": 1, '
    '"false": 0}], "differences": [{"aspect": "requests", "fault": "loss", "key": {"node": "0xff", "sequence": "7", '
    '"peer": "None"}, "truth": "lost", "lake": null}], "left_out": ["clocks"], "gone": 0, '
    '"known_since_ns": 0}\n'
)
DAY = (
    '{"seconds": 1.5, "endings": {"answered": 2}, "troubles": [{"name": "dropped", "what": "the wire swallows it", '
    '"times": 5, "seen": {"Timeout": 5}, "shown": {"lost": 5}, "is_as_expected": true}], "outcomes": {"answered": 2}, '
    '"losses": {}, "differences": [{"flow": "order-001", "hub": "answered", "lake": "lost"}], '
    '"links": [{"from_node": "shop", "to_node": "stock", "wire_format": 5, "sent": 2, "lost": 0, "p50_us": 1, '
    '"p95_us": null, "p99_us": null}], "control_count": 0, "dead_letters": {}, "verdicts": {}, "quarantine": {}, '
    '"balance": {"rows_in": 1}, "has_lake": true, "members": 0, "given_up": {}, '
    '"is_balanced": false, "is_fine": false}\n'
)


def test_a_sighting_and_a_segment(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path, b"\x01\xff", incarnation=1, node_name="alpha") as alpha:
        alpha.append(START, Direction.DEAD, b"b", [b"j", b""], "undecodable", "from nowhere")
    assert hopwire("capture", "cat", "--json", str(tmp_path)).out == CAT
    (file,) = tmp_path.glob("*.arrows")
    assert hopwire("capture", "ls", "--json", str(tmp_path)).out == (
        f'{{"path": "{file}", "state": "sealed", "row_count": 1, "skipped": 0, "nodes": {{"01ff": "alpha"}}, '
        f'"first_seen_at_ns": {START}, "last_seen_at_ns": {START}, "size_bytes": {file.stat().st_size}, '
        '"cut_bytes": 0, "fault": null}\n'
    )


def test_a_flow(tmp_path: Path) -> None:
    lake = write_lake(tmp_path, story().flows())
    assert hopwire("flows", "ls", "--json", "--limit", "1", str(lake)).out == FLOW


def test_a_dissection() -> None:
    assert hopwire("decode", "--json", "00", "01").out == DECODED


def test_the_fields_of_a_message() -> None:
    fields = (
        '{"wire_format_version": 3, "identity": "4d", "version": "312e30", "partition": "", "body_frames": ["01"], '
        '"correlation_id": "", "receiver_identity": "", "receiver_node_identity": "", '
        '"callback_points": [{"identity": "ff", "version": "312e30", "partition": ""}], '
        '"callback_receiver_identity": "", "routing": [{"uri": "tcp://a", "identity": "00"}], "hops": 0, '
        '"trace_options": 0, "distribution": 0, "ttl_ticks": 0, "socket_identity": ""}'
    )
    encoded = hopwire("encode", "--json", given=fields).out
    assert encoded.startswith('{"format": "V3", "frames": ["')
    assert f'"fields": {fields}, "items": ' in hopwire("decode", "--json", given=encoded).out


def test_a_table() -> None:
    (line,) = (each for each in hopwire("lake", "tables", "--json").out.splitlines() if "bronze.sources" in each[:30])
    assert line.startswith('{"name": "bronze.sources", "meaning": "')
    assert '"key": ["segment"], "reads": [' in line
    assert '"columns": [{"name": "segment", "type": "string", "meaning": "' in line


def test_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(tmp_path / "lake") as writer:
        writer.put("gold.links", "basis", all_tables()["gold.links"].stored_schema, [])
        writer.publish({}, "")
    manifest = read_manifest(tmp_path / "lake")
    faults = ("x.arrows: is a FIFO",)
    built = lake_build.Built(Path("LAKE"), manifest, ("x.arrows",), ("gold.links",), faults, ("x.arrows",))
    monkeypatch.setattr(lake_build, "build", lambda *args, **settings: built)
    assert hopwire("lake", "build", str(tmp_path), str(tmp_path / "lake"), "--json").out == BUILT


def test_a_comparison_with_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = TruthTally("requests", "loss", 3, 2, 1, 0)
    difference = TruthDifference("requests", "loss", {"node": b"\xff", "sequence": 7, "peer": None}, "lost", None)
    checked = Checked((tally,), (difference,), {"loss": 2}, ("clocks",))
    monkeypatch.setattr(simulation, "check_lake", lambda lake, truth: checked)
    monkeypatch.setattr(store, "read_manifest", lambda lake: Manifest())
    assert hopwire("lake", "check", "--json", "LAKE", "TRUTH").out == CHECKED


def test_a_day_of_the_demonstration() -> None:
    summary = DaySummary(
        seconds=1.5,
        endings={"answered": 2},
        troubles=[TroubleMet("dropped", "the wire swallows it", 5, {"Timeout": 5}, {"lost": 5}, True)],
        outcomes={"answered": 2},
        losses={},
        differences=[Disagreement("order-001", "answered", "lost")],
        links=[LinkTraffic("shop", "stock", 5, 2, 0, 1, None, None)],
        control_count=0,
        dead_letters={},
        verdicts={},
        quarantine={},
        balance={"rows_in": 1},
        has_lake=True,
    )
    assert json.dumps(summary_to_json(summary)) + "\n" == DAY


def test_a_dissector_for_wireshark(tmp_path: Path) -> None:
    place = tmp_path / "hopwire.lua"
    said = json.loads(hopwire("wireshark", "--output", str(place), "--json").out)
    assert said == {"output": str(place), "size_bytes": place.stat().st_size}
    assert json.loads(hopwire("wireshark", "--json").out) == {"dissector": place.read_text("utf-8")}


@pytest.mark.slow
def test_what_is_done_with_keys(tmp_path: Path) -> None:
    def done(*arguments: str) -> dict[str, Any]:
        found = hopwire("keys", *arguments, "--dir", str(tmp_path), "--json")
        assert (found.code, found.err) == (0, "")
        said: dict[str, Any] = json.loads(found.out.splitlines()[-1])
        return said

    assert done("new", "authority", "net")["name"] == "authority-1"
    assert done("new", "domain", "orders", "--identity", "orders.*")["kind"] == "domain"
    assert done("new", "domain", "orders")["name"] == "orders-2"
    assert done("new", "node", "till")["kind"] == "node"
    assert done("sign", "till", "--hosts", "orders")["hosts"] == ["orders"]
    assert done("use", "orders-2")["domain"] == "orders"
    assert done("show", "till")["state"] == "valid"
    assert done("show", "orders-2", "--secret") == {"secret": (tmp_path / "orders-2.key").read_text("ascii").strip()}
    assert len(done("revoke", "till")["revoked"]) == 1
    assert done("revoke", "orders-1")["kind"] == "domain"

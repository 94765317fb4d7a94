"""`hopwire flows export`: what is written is read by the tools that it is meant for, or by their own descriptions."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hopwire.cli.collector import ATTEMPTS, Collector
from hopwire.errors import DeliveryError
from hopwire.lake import flow_exports
from hopwire.lake.exported_rows import WITHIN
from hopwire.lake.store import read_arrow
from tests.capture.recording.recordings import heard
from tests.cli.running import hopwire
from tests.cli.simulated_lake import make_simulated_lake
from tests.cli.tshark import needs_tshark, shown_messages, tshark

ALL = ("--all", "--limit", "100000")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exports")]  # all share a lake, and what is exported of it


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, is_long: bool) -> Path:
    return make_simulated_lake(tmp_path_factory.mktemp("exports"), 2000 if is_long else 600)


@pytest.fixture(scope="module")
def requests(lake: Path) -> list[dict[str, Any]]:
    """Every flow of the lake as OTLP."""
    found = hopwire("flows", "export", str(lake), "--to", "otlp", *ALL)
    assert (found.code, found.err) == (0, "")
    return [json.loads(line) for line in found.out.splitlines()]


def spans_in(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every span, with its attributes and those of its node as one dictionary."""
    found = []
    for request in requests:
        for resource in request["resourceSpans"]:
            node = plain(resource["resource"]["attributes"])
            for scope in resource["scopeSpans"]:
                found += [{**span, "attributes": plain(span["attributes"]) | node} for span in scope["spans"]]
    return found


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    values = {each["key"]: next(iter(each["value"].items())) for each in attributes}
    return {key: int(value) if kind == "intValue" else value for key, (kind, value) in values.items()}


# -- OTLP


def test_opentelemetry_reads_every_request(requests: list[dict[str, Any]]) -> None:
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for request in requests:
        told = json.loads(json.dumps(request), object_hook=_ids_as_protobuf_has_them)
        read = ParseDict(told, ExportTraceServiceRequest())  # a name that it does not know would be an error
        spans = [span for resource in read.resource_spans for scope in resource.scope_spans for span in scope.spans]
        assert {(len(span.trace_id), len(span.span_id)) for span in spans} == {(16, 8)}
        assert {len(span.parent_span_id) for span in spans} == {0, 8}
        assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)


def _ids_as_protobuf_has_them(value: dict[str, Any]) -> dict[str, Any]:
    """OTLP writes ids in hex, where the JSON of protocol buffers has base64."""
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64encode(bytes.fromhex(each)).decode() if key in ids else each for key, each in value.items()}


def test_every_span_has_one_id_and_a_parent_in_its_trace(requests: list[dict[str, Any]]) -> None:
    spans = spans_in(requests)
    ids = Counter((span["traceId"], span["spanId"]) for span in spans)
    assert max(ids.values()) == 1
    for span in spans:
        assert not span["parentSpanId"] or (span["traceId"], span["parentSpanId"]) in ids
    roots = Counter(span["traceId"] for span in spans if not span["parentSpanId"])
    assert set(roots.values()) == {1}


def test_parents_never_go_in_a_circle(requests: list[dict[str, Any]]) -> None:
    parents = {
        (span["traceId"], span["spanId"]): (span["traceId"], span["parentSpanId"]) for span in spans_in(requests)
    }
    ends: dict[tuple[str, str], bool] = {}
    for start in parents:
        way, at = [], start
        while at in parents and at not in ends and at not in way:
            way.append(at)
            at = parents[at]
        assert at not in way
        ends.update(dict.fromkeys(way, True))


def test_what_is_lost_dead_or_guessed_is_to_be_seen(lake: Path, requests: list[dict[str, Any]]) -> None:
    steps = [step for flow in read_arrow(lake, "gold.flows", ["steps"])["steps"].to_pylist() for step in flow]
    spans = spans_in(requests)
    sent = [span for span in spans if span["name"].startswith(("send ", "dead letter "))]
    assert Counter(span["attributes"]["hopwire.fate"] for span in sent) == Counter(step["fate"] for step in steps)
    bad = [span for span in sent if span["status"]["code"] == 2]
    assert {span["attributes"]["hopwire.fate"] for span in bad} == {"lost", "foreign", "dead"}
    assert all(span["events"] and span["status"]["message"] for span in bad)
    half_seen = [
        step for step in steps if None in (step["left_at_ns"], step["arrived_at_ns"]) and step["fate"] != "dead"
    ]
    assert sum("hopwire.unknown" in span["attributes"] for span in sent) == len(half_seen) > 0
    corrected = Counter(span["attributes"]["hopwire.is_corrected"] for span in sent)
    assert corrected == Counter(step["is_corrected"] for step in steps)
    assert all("hopwire.clock.is_known" in span["attributes"] for span in spans)
    assert any(span["attributes"].get("hopwire.clock.offset_ns") for span in spans)
    outcomes = read_arrow(lake, "gold.requests", ["outcome"])["outcome"].to_pylist()
    asked = [span for span in spans if span["name"].startswith("ask ")]
    assert Counter(span["attributes"]["hopwire.outcome"] for span in asked) == Counter(outcomes)
    kinds = Counter(span["kind"] for span in spans)
    assert set(kinds) == {1, 2, 3, 4, 5}


def test_another_attempt_is_linked_to_the_first(requests: list[dict[str, Any]]) -> None:
    spans = spans_in(requests)
    by_id = {(span["traceId"], span["spanId"]): span for span in spans}
    linked = [span for span in spans if span["links"]]
    assert linked
    for span in linked:
        first = by_id[span["links"][0]["traceId"], span["links"][0]["spanId"]]
        assert first["attributes"]["hopwire.message_key"] == span["attributes"]["hopwire.message_key"]
        assert span["attributes"]["hopwire.attempt"] > 0


def test_one_flow_a_query_and_a_time_can_be_chosen(lake: Path, requests: list[dict[str, Any]]) -> None:
    lost = ("--outcome", "lost", "--limit", "100000")
    listed = [json.loads(line) for line in hopwire("flows", "ls", str(lake), "--json", *lost).out.splitlines()]
    chosen = str(listed[0]["flow_id"])

    def flows(*options: str) -> list[str]:
        found = hopwire("flows", "export", str(lake), *options)
        assert (found.code, found.err) == (0, "")
        spans = spans_in([json.loads(line) for line in found.out.splitlines()])
        return [span["attributes"]["hopwire.flow_id"] for span in spans if not span["parentSpanId"]]

    assert flows(chosen) == [chosen]
    assert sorted(flows(*lost)) == sorted(each["flow_id"] for each in listed)
    assert flows("--from", "2100-01-01") == []
    assert len(flows(*ALL)) == len({span["traceId"] for span in spans_in(requests)})


def test_flows_that_are_left_out_are_told(lake: Path) -> None:
    found = hopwire("flows", "export", str(lake), "--limit", "2")
    assert found.code == 0
    assert found.err.startswith("hopwire: the latest 2 of ")
    assert found.err.endswith(" were taken; --limit takes more\n")


# fmt: off
WRONG = [
    (("--to", "svg"),                             "--to: found 'svg', expected one of otlp, zipkin, perfetto, pcapng"),
    (("--to", "pcapng"),                          "--to pcapng: this is no text; name a file with --output"),
    (("--endpoint", "ftp://x"),  "--endpoint: found 'ftp://x', expected http://HOST:PORT or https://HOST:PORT/PATH"),
    (("--endpoint", "http://x:99999"),
     "--endpoint: found 'http://x:99999', expected http://HOST:PORT or https://HOST:PORT/PATH"),
    (("--endpoint", "http://x", "--to", "zipkin"), "--endpoint: only --to otlp without --output is sent"),
    (("--endpoint", "http://ada:secret@x"),
     "--endpoint: names and passwords in an address are not sent; leave them out"),
    (("--json",),                  "--json: says what was written; name where with --output or --endpoint"),
    (("abc", "--outcome", "lost"),                 "found an id and filters, expected one of them"),
]
# fmt: on


@pytest.mark.parametrize(("options", "line"), WRONG, ids=[line for _, line in WRONG])
def test_wrong_usage_is_one_line(lake: Path, options: tuple[str, ...], line: str) -> None:
    found = hopwire("flows", "export", str(lake), *options)
    assert (found.code, found.out, found.err) == (2, "", f"hopwire: {line}\n")


def test_a_file_that_cannot_be_written_is_one_line_and_leaves_nothing(lake: Path, tmp_path: Path) -> None:
    found = hopwire("flows", "export", str(lake), "--output", str(tmp_path / "none" / "file"))
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []
    found = hopwire("flows", "export", str(lake), "--output", str(tmp_path))
    assert (found.code, found.err) == (2, f"hopwire: --output: {tmp_path} is a directory, expected a file\n")


def test_what_is_no_file_is_written_into_and_stays_what_it_is(lake: Path, tmp_path: Path) -> None:
    (nowhere := tmp_path / "nowhere").symlink_to(os.devnull)
    found = hopwire("flows", "export", str(lake), "--limit", "1", "--output", str(nowhere))
    assert (found.code, nowhere.is_symlink()) == (0, True)


def test_symlink_beside_the_output_is_not_followed(lake: Path, tmp_path: Path) -> None:
    (victim := tmp_path / "victim").write_text("mine")
    (tmp_path / "out.json.part").symlink_to(victim)
    assert hopwire("flows", "export", str(lake), "--limit", "1", "--output", str(tmp_path / "out.json")).code == 0
    assert victim.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.json", "out.json.part", "victim"]


def test_what_was_written_is_said_in_json_too(lake: Path, tmp_path: Path) -> None:
    place = tmp_path / "flows.json"
    said = json.loads(hopwire("flows", "export", str(lake), "--limit", "2", "--output", str(place), "--json").out)
    assert said.pop("of") > 2
    assert said == {"written_to": str(place), "format": "otlp", "flows": 2}


# -- Zipkin


def test_zipkin_has_the_same_spans_in_microseconds(lake: Path, requests: list[dict[str, Any]]) -> None:
    found = hopwire("flows", "export", str(lake), "--to", "zipkin", *ALL)
    assert (found.code, found.err) == (0, "")
    spans = json.loads(found.out)
    others = {(span["traceId"], span["spanId"]): span for span in spans_in(requests)}
    assert {(span["traceId"], span["id"]) for span in spans} == set(others)
    for span in spans:
        other = others[span["traceId"], span["id"]]
        assert span["timestamp"] == int(other["startTimeUnixNano"]) // 1000
        assert span["duration"] >= 1
        assert all(isinstance(value, str) for value in span["tags"].values())
        assert ("error" in span["tags"]) == (other["status"]["code"] == 2)
        assert span.get("kind") in (None, "CLIENT", "SERVER", "PRODUCER", "CONSUMER")


def test_zipkin_of_nothing_is_an_empty_list(lake: Path) -> None:
    assert json.loads(hopwire("flows", "export", str(lake), "--to", "zipkin", "--from", "2100-01-01").out) == []


# -- Perfetto


def test_perfetto_reads_every_packet_and_slices_never_overlap(
    lake: Path, requests: list[dict[str, Any]], tmp_path: Path
) -> None:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    path = tmp_path / "trace.perfetto"
    found = hopwire("flows", "export", str(lake), "--to", "perfetto", "--output", str(path), *ALL)
    assert (found.code, found.err) == (0, "")
    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    packets = list(trace.packet)
    for packet in packets:
        assert len(UnknownFieldSet(packet)) == len(UnknownFieldSet(packet.track_event)) == 0
    tracks = {
        packet.track_descriptor.uuid: packet.track_descriptor
        for packet in packets
        if packet.HasField("track_descriptor")
    }
    events = [packet for packet in packets if packet.HasField("track_event")]
    event_type = protos.TrackEvent.Type
    begun = [each for each in events if each.track_event.type == event_type.TYPE_SLICE_BEGIN]
    assert len(begun) == len(spans_in(requests))
    open_slices: Counter[int] = Counter()
    last: dict[int, int] = {}
    for packet in events:
        event = packet.track_event
        lane = tracks[event.track_uuid]
        assert tracks[lane.parent_uuid].process.process_name
        assert packet.timestamp >= last.get(event.track_uuid, 0)
        last[event.track_uuid] = packet.timestamp
        open_slices[event.track_uuid] += {event_type.TYPE_SLICE_BEGIN: 1, event_type.TYPE_SLICE_END: -1}.get(
            event.type, 0
        )
        assert open_slices[event.track_uuid] in (0, 1)
    assert not any(open_slices.values())
    flows = Counter(flow for each in begun for flow in each.track_event.flow_ids)
    assert set(flows.values()) == {2}  # one end where it left, one where it arrived
    told = {each.name for packet in begun for each in packet.track_event.debug_annotations}
    assert {"hopwire.fate", "hopwire.is_corrected", "hopwire.unknown", "hopwire.clock.offset_ns", "error"} <= told


# -- pcapng


@pytest.fixture(scope="module")
def recording(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pcapng") / "flows.pcapng"
    found = hopwire("flows", "export", str(lake), "--to", "pcapng", "--output", str(path), *ALL)
    assert (found.code, found.err) == (0, "")
    return path


def test_the_recording_has_every_message_of_the_flows(lake: Path, recording: Path) -> None:
    rows, faults = heard(recording.with_name("again.pcapng"), recording.read_bytes())
    assert faults == []
    seen = {
        tuple(row["frames"][1:])
        for row in read_arrow(lake, "bronze.sightings", ["frames"]).to_pylist()
        if row["frames"]
    }
    arrived = [tuple(row.frames[1:]) for row in rows if row.direction == "in"]
    fates = read_arrow(lake, "silver.hops", ["fate"])["fate"].to_pylist()
    assert len(arrived) == len([fate for fate in fates if fate not in WITHIN])
    assert set(arrived) <= seen


@needs_tshark
def test_wireshark_shows_the_recording_with_names_and_comments(lake: Path, recording: Path) -> None:
    found = shown_messages(recording)
    hops = read_arrow(lake, "silver.hops", ["fate", "dead_reason"]).to_pylist()
    hops = [hop for hop in hops if hop["fate"] not in WITHIN]
    assert len(found) == len(hops)
    assert {one.facts.get("format") for one in found} == {"V3", "V4", "V5", "V6"}
    comments = tshark(recording, "-T", "fields", "-e", "frame.comment", "-Y", "frame.comment").splitlines()
    for fate, count in Counter(hop["fate"] for hop in hops).items():
        assert sum(bool(re.search(f"; {fate}[:;]", comment)) for comment in comments) == count
    assert any("clocks not corrected" in comment or "clocks corrected" in comment for comment in comments)
    hosts = tshark(recording, "-q", "-z", "hosts")
    assert "nobody" in hosts


@needs_tshark
def test_capinfos_finds_nothing_wrong_with_the_recording(recording: Path) -> None:
    said = subprocess.run(["capinfos", str(recording)], capture_output=True, check=True, text=True).stdout
    assert "Strict time order:   True" in said


# -- a collector


class Answers:
    """A collector that answers as it is told, and keeps what it gets."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self.answers = list(answers)
        self.got: list[Any] = []
        self.paths: list[tuple[str, str]] = []

    def next(self) -> tuple[int, bytes]:
        return self.answers.pop(0) if self.answers else (200, b"{}")


@contextmanager
def collecting(answers: Answers) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, said = answers.next()
            if status == 200:
                answers.got.append(json.loads(body))
            answers.paths.append((self.path, self.headers["Content-Type"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_collector_gets_every_span_once(lake: Path, requests: list[dict[str, Any]]) -> None:
    answers = Answers()
    with collecting(answers) as url:
        found = hopwire("flows", "export", str(lake), "--endpoint", url, *ALL)
    assert (found.code, found.err) == (0, "")
    assert answers.got == requests
    assert set(answers.paths) == {("/v1/traces", "application/json")}


def test_a_collector_that_is_busy_is_asked_again() -> None:
    answers = Answers((503, b""), (429, b"slow down"), (200, b""))
    with collecting(answers) as url:
        Collector(f"{url}/own/path?key=1", first_pause=0.001).send("{}")
    assert answers.got == [{}]
    assert [path for path, _ in answers.paths] == ["/own/path?key=1"] * 3


# fmt: off
REFUSALS: list[tuple[list[tuple[int, bytes]], str]] = [
    ([(400, b"no\nsuch thing")],                       "{url} says 400 no such thing"),
    ([(503, b"later")] * ATTEMPTS,                     f"{{url}} took nothing in {ATTEMPTS} attempts: 503 later"),
]
# fmt: on


@pytest.mark.parametrize(("said", "line"), REFUSALS, ids=["refused", "busy"])
def test_a_collector_that_takes_nothing_is_one_line(said: list[tuple[int, bytes]], line: str) -> None:
    with collecting(Answers(*said)) as url, pytest.raises(DeliveryError) as raised:
        Collector(url, first_pause=0.001).send("{}")
    assert raised.value.detail == line.format(url=url)


def test_a_key_in_the_address_is_not_shown() -> None:
    with collecting(Answers((400, b""))) as url, pytest.raises(DeliveryError) as raised:
        Collector(f"{url}/traces?key=secret").send("{}")
    assert raised.value.detail == f"{url}/traces says 400"


def test_a_collector_that_is_not_there_is_one_line() -> None:
    with collecting(Answers()) as url:
        pass
    with pytest.raises(DeliveryError, match=f"took nothing in {ATTEMPTS} attempts: .*refused"):
        Collector(url, first_pause=0.001).send("{}")


def test_a_refusal_says_what_was_sent_before_and_ends_with_1(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_exports, "SPANS_AT_ONCE", 500)
    with collecting(Answers((200, b"not json at all"), (400, b"enough"))) as url:
        found = hopwire("flows", "export", str(lake), "--endpoint", url, *ALL)
    assert (found.code, found.out) == (1, "")
    assert found.err == f"hopwire: --endpoint: {url} says 400 enough; taken before it: 1 request\n"


def test_spans_that_a_collector_does_not_take_are_counted(lake: Path) -> None:
    partial = json.dumps({"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}).encode()
    with collecting(Answers((200, partial))) as url:
        found = hopwire("flows", "export", str(lake), "--endpoint", url, *ALL)
    assert (found.code, found.err) == (1, f"hopwire: --endpoint: {url} refused 3 spans: too old\n")

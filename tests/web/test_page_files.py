"""What a page shows, as a file; and what a page that shows no bodies keeps to itself."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from hopwire.web import page_files
from hopwire.web.page_server import page_app


def test_a_flow_is_given_in_every_format_of_other_tools(page: TestClient) -> None:
    found = {name: page.get(f"/export/{name}?flow=order-001") for name in ("otlp", "zipkin", "perfetto", "pcapng")}
    assert {answer.status_code for answer in found.values()} == {200}
    assert len(json.loads(found["zipkin"].content)) > 4
    assert all(json.loads(line)["resourceSpans"] for line in found["otlp"].text.splitlines())
    assert found["pcapng"].content[:4] == bytes.fromhex("0a0d0d0a")
    assert 'filename="order-001.pcapng"' in found["pcapng"].headers["content-disposition"]
    assert found["perfetto"].content[:1] == b"\n"  # a packet of a trace


def test_a_list_is_given_as_a_file_with_every_flow_that_fits(page: TestClient) -> None:
    shown = page.get("/flows.json?outcome=lost,expired").json()
    rows = pq.read_table(io.BytesIO(page.get("/flows.parquet?outcome=lost,expired").content))
    assert rows.num_rows == shown["total"]
    assert set(rows["outcome"].to_pylist()) == {"lost", "expired"}
    traces = {span["traceId"] for span in page.get("/export/zipkin?outcome=lost,expired").json()}
    assert len(traces) == shown["total"]


def test_a_list_is_given_as_sql_that_gives_the_same_rows(page: TestClient) -> None:
    for query in (
        "outcome=lost&node=shop",
        "contract=shop.order&min_ms=1.5",
        "q=order-0&order=longest",
        "finding=hop_lost",
    ):
        text = page.get(f"/flows?{query}").text
        link = next(part for part in text.split('"') if part.startswith("/sql?q="))
        rows = pq.read_table(io.BytesIO(page.get(link.replace("/sql?", "/sql.parquet?")).content))
        assert rows.num_rows == page.get(f"/flows.json?{query}").json()["total"] > 0


def test_a_file_that_would_not_have_everything_is_refused(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_files, "MAX_FLOWS", 10)
    monkeypatch.setattr(page_files, "MAX_ROWS", 10)
    for address in ("/export/otlp", "/flows.parquet", "/sql.parquet?q=select+*+from+flows"):
        answer = page.get(address)
        assert answer.status_code == 400
        assert "10" in answer.text


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/export/visio?flow=order-001", 404, "there is no format"),
        ("/export/otlp?flow=nobody", 404, "the lake has no flow"),
        ("/export/otlp?outcome=gone", 400, "outcome: found"),
        ("/sql.parquet?q=drop+view+flows", 400, "expected one SELECT"),
        ("/sql.parquet?q=select+*+from+nowhere", 400, "SQL:"),
        ("/sql.parquet?q=select+*+from+read_text('/etc/hostname')", 400, "SQL:"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_one_line(page: TestClient, address: str, status: int, said: str) -> None:
    answer = page.get(address)
    assert (answer.status_code, said in answer.text, "Traceback" in answer.text) == (status, True, False)


@pytest.fixture(scope="module")
def discreet(demo_run: tuple[dict[str, Any], Path]) -> Iterator[TestClient]:
    with TestClient(page_app(demo_run[1] / "lake", ("testserver",), shows_bodies=False)) as client:
        yield client


def test_a_page_without_bodies_shows_neither_bodies_nor_what_could_read_them(
    discreet: TestClient, page: TestClient
) -> None:
    assert "kettle" in page.get("/flow/order-001/hop/0").text
    shown = discreet.get("/flow/order-001/hop/0")
    assert "kettle" not in shown.text
    assert b"kettle".hex() not in shown.text.replace("</b>", "").replace("<b>", "")
    assert "shop.order" in shown.text
    secret = [
        field["meaning"]
        for seen in discreet.get("/flow/order-001/hop/0.json").json()["sightings"]
        for field in seen["fields"]
        if field["name"] in ("body_frames[0]", "signature")
    ]
    assert set(secret) == {"hidden"}
    assert not any(row["dump"] for row in discreet.get("/quarantine.json").json()["rows"])
    for address in (
        "/sql?q=select+1",
        "/sql.json?q=select+1",
        "/sql.parquet?q=select+1",
        "/export/pcapng?flow=order-001",
    ):
        assert discreet.get(address).status_code == 400, address
    assert "/sql" not in discreet.get("/flows").text
    assert discreet.get("/export/otlp?flow=order-001").status_code == 200


def test_parts_of_a_file_are_sent_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_files, "BLOCK_BYTES", 10)
    parts = [b"abc", b"", b"defghij", b"k" * 25, b"lm"]
    assert list(page_files._in_blocks(iter(parts))) == [b"abcdefghij", b"k" * 25, b"lm"]
    assert list(page_files._in_blocks(iter([]))) == []

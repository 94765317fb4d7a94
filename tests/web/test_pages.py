"""The pages of the lake that the demonstration has built: what they say is what the lake and the hubs say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from hopwire.lake.store import read_arrow
from hopwire.web import lake_pages
from hopwire.web.page_server import page_app
from tests.web.conftest import with_flows

PAGES = (
    "/", "/flows", "/flows?outcome=lost", "/flows?all=1&order=longest", "/flow/order-001",
    "/flow/order-001?view=sequence",
    "/flow/order-001?view=table", "/flow/order-001?clock=raw", "/flow/order-001/hop/0", "/links", "/links?view=matrix",
    "/contracts", "/clocks", "/security", "/quarantine", "/compare?a=order-001&b=order-002", "/sql?q=select+1",
)  # fmt: skip


def test_every_page_is_there_and_every_kind_of_link_on_it_leads_somewhere(page: TestClient, is_long: bool) -> None:
    followed: dict[str, int] = {}
    for address in PAGES:
        answer = page.get(address)
        assert answer.status_code == 200, address
        for found in sorted(set(re.findall(r'href="(/[^"]*)"', answer.text))):
            kind = re.sub(r"[^/?&=;]*[\d%][^/?&=;]*", "#", found)  # links that differ in a number are of one kind
            followed[kind] = followed.get(kind, 0) + 1
            if followed[kind] <= (2 if is_long else 1):
                assert page.get(found.replace("&amp;", "&")).status_code == 200, (address, found)
    assert len(followed) > 50


def test_totals_are_those_of_the_table(page: TestClient, demo_run: tuple[dict[str, Any], Path]) -> None:
    outcomes = read_arrow(demo_run[1] / "lake", "gold.flows", ["outcome"])["outcome"].to_pylist()
    shown = page.get("/flows.json?all=1").json()
    assert shown["total"] == len(outcomes)
    assert shown["totals"] == {name: outcomes.count(name) for name in set(outcomes)}


def test_pages_of_the_list_show_each_flow_once(page: TestClient) -> None:
    first = page.get("/flows.json?all=1").json()
    ids = [
        flow["id"]
        for number in range(1, first["pages"] + 1)
        for flow in page.get(f"/flows.json?all=1&page={number}").json()["flows"]
    ]
    assert len(ids) == len(set(ids)) == first["total"]


def test_a_lost_message_is_shown_with_its_evidence(page: TestClient) -> None:
    text = page.get("/flow/dropped-001").text
    assert "LOST: left shop, never came to stock" in text
    assert "leaving was observed; the other node was looking, and did not see it arrive" in text


def test_a_message_is_shown_byte_by_byte_on_both_sides(page: TestClient) -> None:
    shown = page.get("/flow/order-001/hop/0.json").json()
    assert [seen["title"] for seen in shown["sightings"]] == ["as it left", "as it arrived"]
    for seen in shown["sightings"]:
        fields = {field["name"]: field["meaning"] for field in seen["fields"]}
        assert fields["identity"] == "shop.order"
        dumped = "".join(byte[0] for frame in seen["frames"] for line in frame["lines"] for byte in line["bytes"])
        assert b"shop.order".hex() in dumped


def test_what_is_quarantined_has_its_reason_and_the_marked_byte(page: TestClient) -> None:
    shown = page.get("/quarantine.json").json()
    assert shown["total"] == 10
    assert all(any("^^" in line for line in row["dump"]) for row in shown["rows"] if row["byte"] is not None)


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/nowhere", 404, "there is no page"),
        ("/flow/unknown", 404, "the lake has no flow"),
        ("/flow/order-00", 404, "more than one flow begins with"),
        ("/flow/order-00.json", 404, "and others"),
        ("/flow/0xzz", 404, "is no id"),
        ("/flow/order-001/hop/99", 404, "and no step 99"),
        ("/flow/order-001/hop/x", 400, "the step: found"),
        ("/flow/order-001?view=cube", 400, "view: found"),
        ("/flow/order-001?first=-1", 400, "first: found"),
        ("/flows?outcome=gone", 400, "outcome: found"),
        ("/flows?since=never", 400, "since: found"),
        ("/links?view=cube", 400, "view: found"),
        ("/quarantine?page=x", 400, "page: found"),
        ("/quarantine?reason=boredom", 400, "reason: found"),
        ("/security?finding=boredom", 400, "finding: found"),
        ("/flows?outcom=lost", 400, "the address: found &#39;outcom&#39;, expected one of outcome, contract,"),
        ("/?outcom=lost", 400, "the address: found &#39;outcom&#39;"),
        ("/flow/order-001?vieww=table", 400, "expected one of view, clock, first, v"),
        ("/flow/order-001/hop/0?first=1", 400, "expected one of v"),
        ("/contracts?node=shop", 400, "expected one of v"),
        ("/flows.json?outcom=lost", 400, '"error":"the address: found'),
        ("/flows.parquet?outcom=lost", 400, "the address: found"),
        ("/export/otlp?flows=order-001", 400, "expected one of flow, outcome,"),
        ("/sql?query=select", 400, "expected one of q, v"),
        ("/flows?node=hub&node=shop", 400, "the address: found &#39;node&#39; twice"),
        ("/static/../page_server.py", 404, ""),
        ("/static/..%2fpage_server.py", 404, ""),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(page: TestClient, address: str, status: int, said: str) -> None:
    answer = page.get(address)
    assert answer.status_code == status
    assert said in answer.text
    assert "Traceback" not in answer.text


def test_the_beginning_of_an_id_is_enough_if_no_other_id_begins_so(
    demo_run: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    lake = with_flows(demo_run[1] / "lake", tmp_path / "lake", ["order-001", "unheard-001"])
    with TestClient(page_app(lake, ("testserver",))) as page:
        assert page.get("/flow/ord.json").json()["id"] == "order-001"
        assert page.get("/flow/0x6f7264/hop/0.json").json()["flow"] == "order-001"
        sides = page.get("/compare.json?a=o&b=u").json()["sides"]
        assert [side["id"] for side in sides] == ["order-001", "unheard-001"]


def test_names_are_broken_between_their_words(page: TestClient) -> None:
    assert ">hopwire.<wbr>member.<wbr>ping<" in page.get("/contracts").text
    assert ">callback_<wbr>points[0].<wbr>partition<" in page.get("/flow/order-001/hop/0").text


def test_of_many_lives_the_last_are_shown_and_those_before_are_a_click_away(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopwire.web.lake_pages.SHOWN_LIVES", 1)
    shown = page.get("/clocks").text
    assert "<summary>1 earlier life</summary>" in shown
    nodes = page.get("/clocks.json").json()["nodes"]
    assert shown.count('<div class="life">') == sum(len(node["lives"]) for node in nodes) > len(nodes)


def test_an_address_with_a_token_that_nobody_asks_for_is_the_same_page(page: TestClient) -> None:
    assert page.get("/contracts?token=old").status_code == 200


@pytest.mark.parametrize(
    "typed",
    [
        "copy (select 1) to '{lake}/written.csv'",
        "explain analyze copy (select 1) to '{lake}/written.csv'",
        "select 1; drop view flows",
        "drop view flows",
        "create table written as select 1",
        "attach '{lake}/written.db'",
        "select * from read_text('/etc/hostname')",
        "select * from glob('/*')",
        "set enable_external_access = true",
        "pragma version",
        "install httpfs",
        "select nothing from nowhere",
        "select",
        "",
    ],
)
def test_sql_reads_the_lake_and_does_nothing_else(
    page: TestClient, demo_run: tuple[dict[str, Any], Path], typed: str
) -> None:
    lake = demo_run[1] / "lake"
    before = sorted(lake.rglob("*"))
    shown = page.get(f"/sql.json?q={quote(typed.format(lake=lake))}").json()
    assert shown["rows"] == []
    assert bool(shown["error"]) == bool(typed)
    assert sorted(lake.rglob("*")) == before
    assert page.get("/sql.json?q=select+count(*)+from+flows").json()["rows"][0][0] > 0


def test_lives_of_nodes_end_in_the_words_of_the_command_line(page: TestClient) -> None:
    lives = [life for node in page.get("/clocks.json").json()["nodes"] for life in node["lives"]]
    assert {life["ending"] for life in lives} == {"stopped", "died"}
    [died] = [life for life in lives if life["ending"] == "died"]
    assert died["came_back"].startswith("came back after ")
    assert died["came_back"] in page.get("/clocks").text


def test_json_has_what_the_page_has(page: TestClient) -> None:
    for address in (
        "/overview.json",
        "/flow/order-001.json",
        "/links.json",
        "/contracts.json",
        "/clocks.json",
        "/security.json",
    ):
        json.loads(page.get(address).text)


def test_names_of_nodes_are_harmless_among_contracts() -> None:
    class OneContract:
        def rows(self, *_: Any) -> list[dict[str, Any]]:
            never = {"first_seen_at_ns": 0, "last_seen_at_ns": 0}
            contract = {"identity": b"q", "version": 1, "version_raw": None, "partition": b""}
            return [{**contract, **never, "senders": ["a\x1b[2J"], "receivers": ["b\u202e"]}]

    (row,) = lake_pages.contracts(cast("Any", OneContract())).values["contracts"]
    assert (row["senders"], row["receivers"]) == (["a\\x1b[2J"], ["b\\u202e"])

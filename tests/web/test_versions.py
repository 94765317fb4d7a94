"""Pages that are pinned to a version of the lake, and what two versions differ in."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

PAGES = ("/", "/flows", "/flow/order-002", "/flow/order-002/hop/0", "/links", "/clocks", "/quarantine", "/sql")


@pytest.mark.parametrize("address", PAGES)
def test_all_links_and_forms_of_a_pinned_page_stay_at_its_version(versions: TestClient, address: str) -> None:
    text = versions.get(f"{address}?v=1").text
    links = re.findall(r'<a [^>]*href="(/[^"]*)"', text.replace("&amp;", "&"))
    free = {link for link in links if not re.search(r"[?&]v=1(&|$)", link)}
    assert {link.partition("?")[0] for link in free} <= {"/versions", address}  # `address`: show the newest
    assert text.count("<form ") == text.count('<input type="hidden" name="v" value="1">')


def test_a_pinned_page_shows_the_lake_as_it_was_and_says_so(versions: TestClient) -> None:
    old, new = (versions.get(f"/flow/order-002{query}") for query in ("?v=1", ""))
    assert "You look at version 1 of the lake; the newest is 2" in old.text
    assert "outcome-answered" in old.text
    assert "You look at" not in new.text
    assert versions.get("/flow/order-002.json").json()["outcome"] == "lost"
    assert versions.get("/flow/order-002.json?v=1").json()["outcome"] == "answered"
    assert versions.get("/flow/order-002.json?v=2").json()["outcome"] == "lost"
    assert versions.get("/version.json").json() == {"newest": 2}


def test_what_a_build_changed_is_counted_and_listed(versions: TestClient) -> None:
    shown = versions.get("/versions.json?a=1&b=2").json()
    assert shown["changed"] == 1
    assert [(row["id"], row["a_outcome"], row["b_outcome"]) for row in shown["flows"]] == [
        ("order-002", "answered", "lost")
    ]
    assert all(row["a_rows"] == row["b_rows"] for row in shown["tables"])
    assert versions.get("/versions.json?a=2&b=2").json()["changed"] == 0
    assert [row["number"] for row in shown["versions"]] == [2, 1]


def test_a_flow_is_compared_with_itself_in_another_version(versions: TestClient) -> None:
    shown = versions.get("/compare.json?a=order-002&va=1&b=order-002&vb=2").json()
    assert [side["outcome"] for side in shown["sides"]] == ["answered", "lost"]
    assert shown["rows"]
    assert {row["only"] for row in shown["rows"]} == {""}


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/flows?v=9", 404, "the lake has no version 9, it has 1 to 2"),
        ("/flows?v=x", 400, "v: found &#39;x&#39;"),
        ("/flows?v=0", 400, "v: found"),
        ("/versions?a=1&b=7", 404, "no version 7"),
        ("/versions?a=1&b=x", 400, "b: found"),
        ("/compare?a=order-001&b=order-001&va=5", 404, "no version 5"),
    ],
)
def test_a_version_that_is_not_there_is_said(versions: TestClient, address: str, status: int, said: str) -> None:
    answer = versions.get(address)
    assert (answer.status_code, said in answer.text) == (status, True)

"""The address of a list of flows: read, written, refused."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import HopwireError
from hopwire.flows.findings import KINDS
from hopwire.flows.schemas import FLOW_OUTCOMES
from hopwire.web.flow_search import ORDERS, FlowSearch, search_from_query

texts = st.text(min_size=1, max_size=20)
filters = st.builds(
    FlowSearch,
    outcome=st.sampled_from(["", *FLOW_OUTCOMES]),
    contract=texts,
    node=texts,
    finding=st.sampled_from(["", *KINDS]),
    q=texts,
    min_ms=st.sampled_from(["", "0", "1.5", "200"]),
    since=st.sampled_from(["", "2026-01-31T12:00:00Z", "1794910322133934494"]),
    all=st.sampled_from(["", "1"]),
    order=st.sampled_from(list(ORDERS)),
    page=st.integers(1, 10**8),
)


@pytest.mark.slow
@given(filters)
def test_an_address_holds_the_whole_filter(wanted: FlowSearch) -> None:
    address = urlsplit(wanted.address())
    assert search_from_query(dict(parse_qsl(address.query, keep_blank_values=True))) == wanted


@pytest.mark.slow
@given(filters)
def test_whatever_people_type_is_a_value_and_never_sql(wanted: FlowSearch) -> None:
    where, values = wanted.where({b"one": "one"})
    table = (
        "select * from (values ('lost', 1, 1, [''], [''::blob], [{'kind': ''}], ''::blob, false))"
        " t(outcome, duration_us, started_at_ns, contract_names, nodes, findings, flow_id, is_control)"
    )
    with duckdb.connect() as database:
        database.execute(f"select count(*) from ({table}) where {where}", values)


@pytest.mark.parametrize(
    ("typed", "fits", "not_"),
    [
        ("ab", [b"ab", b"abc", b"ab\xff\xff"], [b"aa\xff", b"ac", b"a", b"b"]),
        ("0x61ff", [b"a\xff", b"a\xff\x00"], [b"a\xfe", b"b", b"a"]),
        ("0xff", [b"\xff", b"\xff\x01"], [b"\xfe\xff", b""]),
        ("0x6", [b"a", b"o"], [b"q", b"\x16"]),
        ("0xzz", [], [b"a"]),
    ],
)
def test_ids_are_found_by_their_beginning(typed: str, fits: list[bytes], not_: list[bytes]) -> None:
    where, values = FlowSearch(q=typed, all="1").where({})
    with duckdb.connect() as database:
        database.execute("create table ids(flow_id blob)")
        database.executemany("insert into ids values (?)", [[each] for each in (*fits, *not_)])
        rows = database.execute(f"select flow_id from ids where {where}", values).fetchall()
    assert sorted(row[0] for row in rows) == sorted(fits)


def test_a_change_of_the_filter_begins_at_the_first_page() -> None:
    wanted = FlowSearch(outcome="lost", page=7)
    assert wanted.address() == "/flows?outcome=lost&page=7"
    assert wanted.address(node="shop") == "/flows?outcome=lost&node=shop"
    assert wanted.address(page=8) == "/flows?outcome=lost&page=8"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"outcome": "gone"}, "outcome: found 'gone', expected one of lost"),
        ({"finding": "x"}, "finding: found 'x'"),
        ({"order": "up"}, "order: found 'up', expected one of latest"),
        ({"page": "0"}, "page: found '0', expected a number from 1 on"),
        ({"page": "-1"}, "page:"),
        ({"page": "9" * 30}, "page:"),
        ({"page": "\u0663"}, "page:"),
        ({"since": "yesterday"}, "since: found 'yesterday', expected a time"),
        ({"min_ms": "much"}, "min_ms: found 'much', expected a number of milliseconds"),
        ({"min_ms": "nan"}, "min_ms:"),
        ({"q": "x" * 300}, "q: is longer than 200 characters"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused_in_words(query: dict[str, str], said: str) -> None:
    with pytest.raises(HopwireError) as refused:
        search_from_query(query)
    assert str(refused.value).startswith(said)

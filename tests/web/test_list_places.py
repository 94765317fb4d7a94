"""A page of a list lies where the counts say: the same rows as if everything were sorted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopwire.web import lake_questions as ask
from hopwire.web.flow_search import ORDERS, FlowSearch
from hopwire.web.lake_views import LakeViews
from hopwire.web.list_places import HeadPlace, HeadRow, ListPlace, place_in_head, place_of

STRETCHES = [(30, 120), (20, 40), (10, 300)]  # the latest first


@pytest.mark.parametrize(("begin", "place"), [
    (0,   ListPlace(30, 30, 0)),
    (100, ListPlace(30, 20, 0)),
    (120, ListPlace(20, 10, 120)),
    (200, ListPlace(10, 10, 160)),
    (450, ListPlace(10, 10, 160)),
    (460, None),
])  # fmt: skip
def test_a_page_lies_in_few_stretches(begin: int, place: ListPlace | None) -> None:
    assert place_of(STRETCHES, begin, 50) == place


def test_any_page_of_any_counts_lies_where_a_sorted_list_has_it() -> None:
    chance = random.Random(7)
    for _ in range(200):
        counts = [(key, chance.randrange(4)) for key in range(chance.randrange(1, 12))]
        rows = [key for key, count in counts for _ in range(count)]
        begin, size = chance.randrange(30), chance.randrange(1, 9)
        place = place_of(counts, begin, size)
        wanted = rows[begin : begin + size]
        assert (place is None) == (not wanted)
        if place is not None:
            within = [key for key in rows if place.first <= key <= place.last]
            assert within[begin - place.before :][:size] == wanted


HEAD = [HeadRow(value, f"file {value}") for value in (9, 7, 7, 7, 5, 3)]


@pytest.mark.parametrize(("begin", "is_whole", "place"), [
    (0, False, HeadPlace(7, 9, 0, frozenset({"file 9", "file 7"}))),
    (2, False, HeadPlace(7, 7, 1, frozenset({"file 7"}))),
    (4, False, None),
    (4, True,  HeadPlace(3, 5, 0, frozenset({"file 5", "file 3"}))),
    (6, True,  None),
])  # fmt: skip
def test_a_page_takes_all_flows_between_its_first_and_its_last_value(
    begin: int, is_whole: bool, place: HeadPlace | None
) -> None:
    assert place_in_head(HEAD, is_whole, begin, 2) == place


def test_a_head_with_flows_of_no_duration_does_not_tell_their_page() -> None:
    head = [HeadRow(4, "a"), HeadRow(None, "b")]
    assert place_in_head(head, True, 0, 1) == HeadPlace(4, 4, 0, frozenset({"a"}))
    assert place_in_head(head, True, 0, 2) is None


def test_any_page_of_any_head_has_the_rows_of_the_sorted_list() -> None:
    chance = random.Random(11)
    found = 0
    for _ in range(500):
        rows = sorted(((chance.randrange(6), number) for number in range(chance.randrange(1, 30))), reverse=True)
        head = [HeadRow(value, "file") for value, _ in rows[: chance.randrange(1, 30)]]
        begin, size = chance.randrange(30), chance.randrange(1, 9)
        place = place_in_head(head, len(head) == len(rows), begin, size)
        if place is not None:
            found += 1
            between = [row for row in rows if place.low <= row[0] <= place.high]
            assert between[place.before :][:size] == rows[begin : begin + size]
    assert found > 100


class _CountingViews(LakeViews):
    """Views that write down what they are asked."""

    def rows(self, sql: str, given: Any = ()) -> list[dict[str, Any]]:
        self.asked = [*getattr(self, "asked", []), sql]
        return super().rows(sql, given)


def test_a_narrowed_list_is_looked_for_once_and_its_pages_ask_their_own_files_alone(
    demo_run: tuple[dict[str, Any], Path],
) -> None:
    views = _CountingViews(demo_run[1] / "lake")
    names = ask.node_names(views)
    wanted = FlowSearch(outcome="answered")
    counts = ask.flows_over_time(views, wanted, names)
    assert len(counts.head) == sum(counts.totals.values())
    views.asked = []
    for page in (1, 2):
        assert ask.flow_page(views, replace(wanted, page=page), names)
    assert len(views.asked) == 2
    views.close()


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("given", [{}, {"outcome": "answered"}, {"contract": "billing.charge"}, {"all": "1"}])
def test_pages_of_a_lake_are_those_of_the_whole_list(
    demo_run: tuple[dict[str, Any], Path], order: str, given: dict[str, Any]
) -> None:
    views = LakeViews(demo_run[1] / "lake")
    names = ask.node_names(views)
    where, values = replace(FlowSearch(order=order), **given).where(names)
    whole = views.rows(f"select flow_id from gold.flows where {where} order by {ORDERS[order]}", values)
    shown = []
    for page in range(1, len(whole) // ask.PAGE_ROWS + 3):
        wanted = replace(FlowSearch(order=order, page=page), **given)
        shown += [row["flow_id"] for row in ask.flow_page(views, wanted, names)]
    assert shown == [row["flow_id"] for row in whole]
    views.close()


def test_a_row_is_looked_for_in_the_files_that_may_have_it(demo_run: tuple[dict[str, Any], Path]) -> None:
    views = LakeViews(demo_run[1] / "lake")
    row = views.row("select node, incarnation, sequence from bronze.sightings order by sequence desc limit 1")
    life, number = row["incarnation"], row["sequence"]
    near = views.near("bronze.sightings", incarnation=(life, life), sequence=(number, number))
    assert "read_parquet" in near
    assert ask.sighting(views, row["node"], life, number)["sequence"] == number
    assert views.near("bronze.sightings", sequence=(-9, -9)) == "bronze.sightings"
    views.close()


def test_a_flow_is_read_from_the_files_that_have_it(versioned_lake: Path) -> None:
    views = LakeViews(versioned_lake)
    hops = views.rows("select flow_id, left_at_ns, arrived_at_ns, from_node, to_node, message_key from silver.hops")
    ids = {each["flow_id"] for each in views.rows("select flow_id from gold.flows where not is_control limit 30")}
    for flow_id in ids:
        assert "read_parquet" in views.holding("gold.flows", "flow_id", flow_id)
        found = ask.flow_called(views, flow_id, 0, 500)
        shown = ask.hops_of(views, flow_id, found["begins_ns"], 0, 500)
        assert len(shown) == found["step_count"] == sum(hop["flow_id"] == flow_id for hop in hops)
        assert len(ask.requests_of(views, found, 50)) == found["request_count"]
        assert ask.has_flow(views, flow_id)
    assert views.holding("gold.flows", "flow_id", b"nobody") == "gold.flows"
    assert ask.flow_called(views, b"nobody", 0, 500) == {}
    views.close()


def test_rows_of_which_one_time_is_unknown_are_looked_for_by_the_other(demo_run: tuple[dict[str, Any], Path]) -> None:
    views = LakeViews(demo_run[1] / "lake")
    near = views.near_any("silver.hops", left_at_ns=(-9, -9), arrived_at_ns=(0, 2**62))
    assert "read_parquet" in near
    assert views.row(f"select count(*) as n from {near}") == views.row("select count(*) as n from silver.hops")
    views.close()

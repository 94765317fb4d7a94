"""The law of steps on captures of a simulated network: any cutting gives the same rows, and these are the truth."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from hopwire.capture.sources import list_sources, read_source
from hopwire.domains_file import domains_from_file
from hopwire.flows.hops import SIGHTING_COLUMNS
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import CLOSED, OPEN
from hopwire.flows.spans import spans_from_batch
from hopwire.flows.steps import StepState, begin, step
from hopwire.lake.simulation import simulate_here
from hopwire.lake.worker import split_batch
from hopwire.simulate import SimulateSettings
from tests.flows.networks import SourcePart
from tests.flows.test_steps import assert_same, tables_of
from tests.lake.pure import judge_captures, with_route

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "network"
    simulate_here(SimulateSettings(messages=3_000), out)
    return out


@pytest.fixture(scope="module")
def parts(simulated: Path) -> list[SourcePart]:
    """The batches of all captures, cut once more; in the order of time."""
    domains = domains_from_file(str(simulated / "domains.toml"))
    found = []
    for source in list_sources(simulated / "captures"):
        rows = pa.Table.from_batches(read_source(source)).combine_chunks()
        cuts = [0, len(rows) // 3, 2 * len(rows) // 3, len(rows)]
        for first, last in pairwise(cuts):
            for batch in rows.slice(first, last - first).to_batches():
                ending = CLOSED if last == len(rows) and not source.is_open else OPEN
                spans = tuple(replace(span, ending=ending) for span in spans_from_batch(batch, source.name))
                messages = pa.Table.from_batches([split_batch(batch, source.name, domains).messages]).combine_chunks()
                found.append(SourcePart(with_route(messages).select(list(SIGHTING_COLUMNS)), spans))
    return sorted(found, key=lambda part: max(span.last_seen_at_ns for span in part.spans))


def after(parts: list[SourcePart], size: int) -> StepState:
    """What is known after steps of so many parts."""
    state = begin(parts[0].sightings.schema, Rules())
    for first in range(0, len(parts), size):
        some = parts[first : first + size]
        rows = pa.concat_tables([each.sightings for each in some])
        state = step(state, rows, [span for each in some for span in each.spans])
    return state


@pytest.fixture(scope="module")
def whole(parts: list[SourcePart]) -> StepState:
    return after(parts, len(parts))


@pytest.mark.parametrize("size", [1, 3])
def test_steps_in_the_order_of_time_give_the_rows_of_one_step(
    parts: list[SourcePart], whole: StepState, size: int
) -> None:
    assert_same(after(parts, size), whole)


@pytest.mark.parametrize("seed", [1, 2])
def test_steps_in_any_order_give_the_rows_of_one_step(parts: list[SourcePart], whole: StepState, seed: int) -> None:
    assert_same(after(Random(seed).sample(parts, len(parts)), 5), whole)


def test_one_step_gives_the_hops_and_requests_of_a_build(simulated: Path, whole: StepState) -> None:
    built = judge_captures(simulated / "captures", domains_from_file(str(simulated / "domains.toml")), Rules())
    for one, other in ((tables_of(whole).hops, built.hops), (tables_of(whole).requests, built.requests)):
        assert sorted(map(str, one.to_pylist())) == sorted(map(str, other.to_pylist()))

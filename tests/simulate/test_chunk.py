from __future__ import annotations

from collections import defaultdict
from itertools import accumulate

import numpy as np
import pytest

from hopwire.model import payload_from_body
from hopwire.model.names import OUTCOME
from hopwire.model.outcome import Outcome
from hopwire.security import Verdict, verify
from hopwire.simulate import (
    SimulatedWorld,
    SimulateSettings,
    counts_of_chunk,
    next_bases,
    rates_from_text,
    simulate_chunk,
)
from hopwire.simulate import settings as settings_module
from tests.simulate.simulated import network


@pytest.mark.slow
def test_the_same_seed_gives_the_same_chunk_and_another_seed_another() -> None:
    again, other = network.__wrapped__(), network(seed=8)
    for one, two in zip(network().chunks, again.chunks, strict=True):
        assert [each.sightings for each in one.captures] == [each.sightings for each in two.captures]
        assert one.truth == two.truth
    assert [each.sighting for each in network().seen] != [each.sighting for each in other.seen]


@pytest.mark.slow
@pytest.mark.parametrize("faults", ["all", "none"])
def test_every_verdict_is_the_one_that_verify_gives(faults: str) -> None:
    network_ = network(faults=faults)
    truth = {(row["node"], row["incarnation"], row["sequence"]): row for row in network_.rows("truth_sightings")}
    for seen in network_.seen:
        sighting = seen.sighting
        if sighting.direction == "skipped":
            continue
        row = truth.pop((sighting.node, sighting.incarnation, sighting.sequence))
        assert row["reason"] == (seen.reason or None)
        if seen.message is not None:
            assert row["verdict"] == verify(seen.message, network_.world.domains, seen.at_ns)
    assert truth == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("formats", [(3, 4, 5, 6), (3,), (4,), (5,), (6,)], ids=str)
def test_without_faults_everything_is_read_believed_and_answered(seed: int, formats: tuple[int, ...]) -> None:
    quiet = network(300, seed, formats, "none")
    for seen in quiet.seen:
        assert seen.message is not None
        assert verify(seen.message, quiet.world.domains, seen.at_ns) in (Verdict.VALID, Verdict.UNSIGNED)
    assert {row["outcome"] for row in quiet.rows("truth_requests")} == {"answered"}
    assert quiet.rows("truth_findings") == []
    arrived = {message_of(seen) for seen in quiet.seen if seen.sighting.direction == "in"}
    assert arrived == {message_of(seen) for seen in quiet.seen if seen.sighting.direction == "out"}


def message_of(seen: object) -> object:
    message = seen.message  # type: ignore[attr-defined]
    return message.replace(socket_identity=b"")


@pytest.mark.slow
def test_sequence_numbers_are_contiguous_in_each_life_of_a_node() -> None:
    numbers: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    for seen in network().seen:
        sighting = seen.sighting
        count = sighting.skipped or 1
        numbers[sighting.node, sighting.incarnation] += range(sighting.sequence, sighting.sequence + count)
    for each in numbers.values():
        assert each == list(range(len(each)))
    crashed = network().world.nodes[network().world.crashed[0]].identity
    assert {life for node, life in numbers if node == crashed} == {1, 2}


@pytest.mark.slow
def test_chunks_made_apart_are_those_made_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "CHUNK_ROWS", 300)
    world = SimulatedWorld(SimulateSettings(900, 7, 6, (5, 6), rates_from_text("all")))
    count = world.settings.closing + 1
    assert count == 4
    bases = list(accumulate((counts_of_chunk(world, number) for number in range(count)), next_bases, initial=[0] * 6))
    for number in reversed(range(count)):
        chunk, following = simulate_chunk(world, number, bases[number])
        assert following == bases[number + 1]
        assert chunk.number == number


@pytest.mark.slow
def test_nodes_see_in_the_order_of_their_clocks() -> None:
    for chunk in network().chunks:
        for capture in chunk.captures:
            times = capture.sightings.column("seen_at_ns").to_numpy()
            assert (np.diff(times) >= 0).all()


@pytest.mark.slow
def test_what_hopwire_nodes_say_of_themselves_is_what_they_really_say() -> None:
    bodies = {seen.message.body for seen in network().seen if seen.message and seen.message.identity == OUTCOME}
    kinds = {payload_from_body(Outcome, body).kind for body in bodies}
    assert kinds == {"received", "failed", "undelivered"}

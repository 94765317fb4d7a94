"""How long questions and handlers take is counted by contract, if somebody wants to know, and bounded."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hopwire.errors import NoRoute
from hopwire.model import Contract, Payload
from hopwire.node import NodeSettings
from hopwire.node.latencies import BOUNDS_SECONDS, EVERY_SECONDS, MOST_SERIES, Histogram, Latencies
from hopwire.node.metric_families import families_of, text_from_families
from hopwire.node.metrics import NodeCollector
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeter, Greeting

MEASURED = NodeSettings(latencies=True)


def test_a_duration_counts_in_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_SECONDS[0], 0.002, 99.0):
        histogram.observe(seconds)
    assert (histogram.counts[0], histogram.counts[-1], sum(histogram.counts)) == (2, 1, 4)
    assert histogram.counts[BOUNDS_SECONDS.index(0.0025)] == 1


def test_labels_are_bounded_however_many_contracts_there_are() -> None:
    latencies = Latencies()
    for number in range(3 * MOST_SERIES):
        latencies.of_handler(Contract(b"c%d" % number, 1, b"")).observe(1)
        kind = type(f"P{number}", (Payload,), {}, identity=f"bounded.{number}")
        latencies.of_question(kind, "answered").observe(1)
    for found in (latencies.handled, latencies.asked):
        assert len(found) == MOST_SERIES + 1
        assert sum(sum(each.counts) for each in found.values()) == 3 * MOST_SERIES


def test_questions_and_handlers_are_measured_by_contract() -> None:
    async def story(network: Network) -> None:
        measured = network.node(settings=MEASURED)
        async with measured as there, network.node(peers=[there.uri], settings=MEASURED) as here:
            there.host(Greeter())
            await here.knows(Greet)
            await here.hub(new=True).ask(Greet("asked"), Greeting)
            await here.hub(new=True).send(Greet("sent"))
            with pytest.raises(NoRoute):
                await here.hub(new=True).ask(Greeting("nobody"), Greet)
            assert here.latencies is not None
            assert there.latencies is not None
            asked = {place: sum(each.counts) for place, each in here.latencies.asked.items()}
            assert asked == {("greeter.greet v1", "answered"): 2, ("greeter.greeting v1", "NoRoute"): 1}
            assert list(there.latencies.handled) == ["greeter.greet v1"]

    run(story)


def test_a_hub_measures_one_question_and_the_next_some_time_later() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=MEASURED) as node:
            node.host(Greeter())
            hub = node.hub()
            assert node.latencies is not None
            for _ in range(2):
                for i in range(100):
                    await hub.ask(Greet(str(i)), Greeting)  # in no time, by the clock of the network
                await asyncio.sleep(2 * EVERY_SECONDS)
            [histogram] = node.latencies.asked.values()
            assert sum(histogram.counts) == 2

    run(story)


def test_nobody_measures_unless_the_settings_say_so() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            assert node.latencies is None
            assert "seconds" not in text_from_families(families_of(node))

    run(story)


def test_our_text_says_what_prometheus_client_would_say() -> None:
    async def story(network: Network) -> None:
        async with network.node(name='a"\\\nb', settings=MEASURED) as node:
            node.host(Greeter())
            await node.hub().ask(Greet("Ada"), Greeting)
            await node.hub().tell(Greeting("nobody"))
            registry = CollectorRegistry()
            registry.register(NodeCollector(node))
            theirs, ours = generate_latest(registry).decode(), text_from_families(families_of(node))

            def samples(text: str) -> set[object]:
                found = list(text_string_to_metric_families(text))
                return {(s.name, *sorted(s.labels.items()), s.value) for each in found for s in each.samples}

            assert samples(ours) == samples(theirs)
            assert any(name[0] == "hopwire_handle_seconds_bucket" for name in samples(ours))  # type: ignore[index]

    run(story)

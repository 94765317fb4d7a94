"""When a node is ready, by a clock of the test."""

from __future__ import annotations

from hopwire.runner.health import DRAINING, STOPPED, Health
from hopwire.testing import Network, run


def test_a_node_is_ready_with_its_peers_or_after_the_grace_and_stays_so() -> None:
    async def story(network: Network) -> None:
        now = 100.0
        async with network.node() as there, network.node(peers=[there.uri]) as here:
            health = Health(here, 10, lambda: now)
            assert not health.is_ready()  # does not listen yet
            health.run()
            assert (health.is_ready(), health.missing()) == (False, (there.uri,))
            now = 110.0
            assert health.is_ready()
            now = 105.0
            assert health.is_ready()
            health.state = DRAINING
            assert not health.is_ready()
            health.state = STOPPED
            assert health.pages()["/health"]().status == 503

    run(story)


def test_a_node_that_joins_is_ready_with_the_first_that_it_meets() -> None:
    async def story(network: Network) -> None:
        async with network.node() as alone:
            health = Health(alone, 10, lambda: 0.0, ("tcp://door:1", "tcp://door:2"))
            health.run()
            assert (health.is_ready(), health.missing()) == (False, ("tcp://door:1", "tcp://door:2"))
            async with network.node(peers=[alone.uri]):
                events = alone.events()
                while not alone.peers:
                    await anext(events)
                assert health.is_ready()

    run(story)

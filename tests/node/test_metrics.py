from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from hopwire.node.metric_families import families_of
from hopwire.node.metrics import NodeCollector
from hopwire.testing import Network, run
from tests.node.partner_networks import OrderDesk, Place, Placed, partners
from tests.node.stories import Greet, Greeter, Greeting


def test_what_a_node_counts_is_shown_to_prometheus() -> None:
    async def story(network: Network) -> None:
        async with network.node(name="there") as there, network.node(peers=[there.uri], name="here") as here:
            registry = CollectorRegistry()
            registry.register(NodeCollector(here))
            there.host(Greeter())
            await here.knows(Greet)
            hub = here.hub()
            before = here.statistics()
            for i in range(5):
                await hub.ask(Greet(str(i)), Greeting)
            await hub.tell(Greeting("nobody"))
            after = here.statistics()
            assert after.messages_out - before.messages_out >= 5
            assert after.messages_in - before.messages_in >= 5
            assert after.bytes_out - before.bytes_out > 500
            assert (after.peers, after.actors, after.open_promises) == (1, 0, 0)
            text = generate_latest(registry).decode()
            assert f'hopwire_messages_out_total{{node="here"}} {float(after.messages_out)}' in text
            assert 'hopwire_dead_letters_total{node="here",reason="no_route"} 1.0' in text
            assert 'hopwire_peers{node="here"} 1.0' in text

    run(story)


def test_gateway_shows_what_crosses_for_each_partner() -> None:
    async def story(network: Network) -> None:
        async with partners(network) as pair:
            pair.shop[0].host(OrderDesk())
            await pair.acme[0].knows(Place)
            for number in range(3):
                await pair.acme[0].hub().ask(Place(number), Placed)
            found = {}
            for name, gateway in (("shop", pair.shop[1]), ("acme", pair.acme[1])):
                registry = CollectorRegistry()
                registry.register(NodeCollector(gateway))
                found[name] = generate_latest(registry).decode()
            assert 'hopwire_partner_asked_total{node="acme-gw0",partner="shop"} 3.0' in found["acme"]
            imported = len(pair.acme[1].partners()[0].imports)
            assert f'hopwire_partner_imports{{node="acme-gw0",partner="shop"}} {imported}.0' in found["acme"]
            assert 'hopwire_partner_gateways{node="acme-gw0",partner="shop"} 1.0' in found["acme"]
            assert 'hopwire_partner_taken_total{node="shop-gw0",partner="acme"} 3.0' in found["shop"]
            assert 'hopwire_partner_open_questions{node="shop-gw0",partner="acme"} 0.0' in found["shop"]
            assert "hopwire_partner" not in "".join(family.name for family in families_of(pair.acme[0]))

    run(story)

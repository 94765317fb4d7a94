"""The link between two gateways has an authority of its own: real sockets, certificates and keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopwire.cli.authority import KeyFolder
from hopwire.errors import NoRoute
from hopwire.node import Node, Partner
from tests.node.loopback import told
from tests.node.networks import key_folder, member, needs_openssl, tls_in
from tests.node.stories import Greet, Greeter, Greeting

pytestmark = [pytest.mark.slow, needs_openssl]


def partner(
    name: str, place: Path, *gateways: Node, export: tuple[str, ...] = (), import_: tuple[str, ...] = ()
) -> Partner:
    doors = [gateway.border("acme").uri for gateway in gateways]
    return Partner(name, doors, export, import_, domains=place / "domains.toml", tls=tls_in(place))


def test_gateways_meet_by_certificates_of_the_link_and_nobody_else_gets_in(tmp_path: Path) -> None:
    link = key_folder(tmp_path / "link")
    lender = member(link, "shop-gw", ("greeting", "network"))
    borrower = member(link, "acme-gw", ("network",), ("greeting",))
    other = KeyFolder(tmp_path / "other")
    other.new_authority("other", 10)
    other.new_domain("network", ["hopwire.*"], "hopwire-2")
    other.new_domain("greeting", ["greeter.*"], "hopwire-2")
    thief = member(other, "acme-gw", ("network", "greeting"))

    async def story() -> None:
        lent = partner("acme", lender, export=("greeting",))
        async with Node(join=[]) as shop, Node(join=[shop.uri], partners=[lent]) as gateway:
            shop.host(Greeter())
            borrowed = partner("shop", borrower, gateway, import_=("greeting",))
            async with Node(join=[]) as acme, Node(join=[acme.uri], partners=[borrowed]) as theirs:
                await acme.knows(Greet)
                assert (await acme.hub().ask(Greet("Ada"), Greeting)).text == "hello Ada"
                assert theirs.border("shop").identity == b"acme-gw"
                assert gateway.border("acme").peers == (b"acme-gw",)
                async with Node(join=[], partners=[partner("shop", thief, gateway, import_=("greeting",))]) as false:
                    with pytest.raises(NoRoute):
                        await false.knows(Greet, timeout=2)
                    assert false.border("shop").peers == ()
                assert (await acme.hub().ask(Greet("Bob"), Greeting)).text == "hello Bob"

    told(story)


def test_route_of_a_partner_counts_only_if_its_certificate_names_the_domain(tmp_path: Path) -> None:
    link = key_folder(tmp_path / "link")
    lender = member(link, "shop-gw", ("network",), ("greeting",))  # it may ask, and hosts nothing
    borrower = member(link, "acme-gw", ("network",), ("greeting",))

    async def story() -> None:
        async with Node(join=[], partners=[partner("acme", lender, export=("greeting",))]) as gateway:
            gateway.host(Greeter())
            borrowed = partner("shop", borrower, gateway, import_=("greeting",))
            async with Node(join=[], partners=[borrowed]) as theirs:
                events = theirs.border("shop").events()
                while not theirs.border("shop").peers:
                    await anext(events)
                with pytest.raises(NoRoute):
                    await theirs.knows(Greet, timeout=2)

    told(story)

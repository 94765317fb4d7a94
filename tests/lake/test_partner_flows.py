"""Flows over two partner networks: one tree, with the captures of both; what one of them captured is a tree too."""

from __future__ import annotations

import asyncio
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hopwire.errors import HandlerFailed
from hopwire.flows.rules import Rules
from hopwire.model import Payload
from hopwire.node import Actor, Context, Node, Partner, handles
from hopwire.security import OPEN, Domain, Domains, Key
from tests.lake.pure import judge_captures
from tests.node.partner_networks import Listing, OrderDesk, Place, Placed

SHOP, ACME = ("shop", "shop-gw", "shop-gw@acme"), ("acme", "acme-gw", "acme-gw@shop", "clerk")
FLOWS = (b"asked", b"insisted", b"traced", b"told", b"failed", b"streamed", b"three")


class Several(Payload, identity="acme.several", version=1):
    count: int


class Done(Payload, identity="acme.done", version=1):
    count: int


class Clerk(Actor):
    """Places several orders at once in the other network, all in one flow."""

    @handles
    async def several(self, several: Several, context: Context) -> Done:
        orders = [context.ask(Place(number), Placed) for number in range(several.count)]
        return Done(len(await asyncio.gather(*orders)))


def domains(*keys: str) -> Domains:
    """Everything that is said, signed by keys that are called as their network is."""
    chain = [Key(key, key.encode() * 16) for key in keys]
    return Domains([Domain(name, chain, [f"{name}.*"]) for name in ("orders", "acme", "hopwire")])


async def talk(directory: Path, is_signed: bool) -> None:
    """Let `acme` use the desk of `shop` in every way, each in a flow of its own."""
    ours, theirs, link = [domains(key) if is_signed else OPEN for key in ("shop", "acme", "link")]
    shop: dict[str, Any] = {"capture": directory / "shop", "domains": ours}
    acme: dict[str, Any] = {"capture": directory / "acme", "domains": theirs}
    lent = Partner("acme", export=["orders.*"], domains=link)
    async with (
        Node(join=[], identity=b"shop", **shop) as desk,
        Node(join=[desk.uri], identity=b"shop-gw", partners=[lent], **shop) as gateway,
    ):
        desk.host(OrderDesk())
        borrowed = Partner("shop", [gateway.border("acme").uri], import_=["orders.*"], domains=link)
        async with (
            Node(join=[], identity=b"acme", **acme) as asker,
            Node(join=[asker.uri], identity=b"acme-gw", partners=[borrowed], **acme),
            Node(join=[asker.uri], identity=b"clerk", **acme) as office,
        ):
            office.host(Clerk())
            await asyncio.gather(office.knows(Place), asker.knows(Place), asker.knows(Listing), asker.knows(Several))
            hub = asker.hub()
            await hub.ask(Place(1), Placed, correlation_id=b"asked")
            await hub.ask(Place(2), Placed, correlation_id=b"insisted", at_least_once=True)
            await hub.ask(Place(3), Placed, correlation_id=b"traced", trace=True)
            await hub.send(Place(4), correlation_id=b"told")
            with pytest.raises(HandlerFailed):
                await hub.ask(Place(-1), Placed, correlation_id=b"failed")
            parts = [part async for part in hub.stream(Listing(3), Placed, correlation_id=b"streamed")]
            assert len(parts) == 3
            assert await hub.ask(Several(5), Done, correlation_id=b"three") == Done(5)


@pytest.fixture(scope="module", params=["unsigned", "signed"])
def captured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp(request.param)
    asyncio.run(talk(directory, request.param == "signed"))
    for side in ("shop", "acme"):
        shutil.copytree(directory / side, directory / "both", dirs_exist_ok=True)
    return directory


KEYS = domains("shop", "acme", "link")  # who reads the captures of both has the keys of both


def flows_of(captures: Path) -> dict[bytes, dict[str, Any]]:
    flows = judge_captures(captures, KEYS, Rules()).flows.to_pylist()
    return {flow["correlation_id"]: flow for flow in flows if not flow["is_control"]}


def roots(flow: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(step["from_node"], step["to_node"]) for step in flow["steps"] if step["parent"] < 0]


@pytest.mark.slow
def test_flow_over_two_networks_is_one_tree(captured: Path) -> None:
    flows = flows_of(captured / "both")
    assert {*flows} == {*FLOWS}
    for name, flow in flows.items():
        assert roots(flow) == [(b"acme", b"clerk" if name == b"three" else b"acme-gw")], name
        assert not any(step["is_parent_guessed"] for step in flow["steps"]), name
        assert {finding["kind"] for finding in flow["findings"]} <= {"handler_failed"}, name
    way = [(step["from_node"], step["to_node"]) for step in flows[b"asked"]["steps"]]
    there = [b"acme", b"acme-gw", b"acme-gw@shop", b"shop-gw@acme", b"shop-gw", b"shop"]
    there += reversed(there[:-1])
    assert way == [*pairwise(there)]
    assert [step["parent"] for step in flows[b"asked"]["steps"]] == [*range(-1, 9)]
    hops = judge_captures(captured / "both", KEYS, Rules()).hops.to_pylist()
    said = {hop["verdict"] for hop in hops if hop["correlation_id"] in FLOWS and hop["to_node"]}
    assert said == ({"valid"} if captured.name.startswith("signed") else {"unsigned"})


@pytest.mark.slow
def test_each_of_several_questions_at_once_has_its_own_branch_over_both_borders(captured: Path) -> None:
    steps = flows_of(captured / "both")[b"three"]["steps"]
    for step in steps:
        if (step["from_node"], step["to_node"]) == (b"acme-gw", b"clerk"):
            above = []
            while step["parent"] >= 0:
                step = steps[step["parent"]]
                above.append(step["to_node"].decode())
            assert above[0] == "acme-gw"
            assert above[-1] == "clerk"
            assert len(above) == 10  # all ten hops there and back, none of them of another question
    leaves = [step for step in steps if step["to_node"] == b"clerk" and step["from_node"] == b"acme-gw"]
    assert len({step["parent"] for step in leaves}) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("side", "nodes", "first"), [("acme", ACME, "acme"), ("shop", SHOP, "acme-gw@shop")])
def test_what_one_network_captured_is_one_tree_that_names_the_gateway_of_the_other(
    captured: Path, side: str, nodes: tuple[str, ...], first: str
) -> None:
    flows = flows_of(captured / side)
    assert {*flows} == {*FLOWS}
    for name, flow in flows.items():
        assert flow["outcome"] in (("failed", "answered") if name == b"failed" else ("answered",)), name
        seen = {node.decode() for node in flow["nodes"]} - {*nodes}
        assert seen == ({"shop-gw@acme"} if side == "acme" else {"acme-gw@shop"}), name
        if name != b"three" or side == "acme":
            assert [source.decode() for source, _ in roots(flow)] == [first], name
        assert all(f["kind"] == "missing_capture" for f in flow["findings"]), name

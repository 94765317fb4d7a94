"""A network that cuts within frames, stalls, delays, doubles and ends one direction: promises end, and links heal."""

from __future__ import annotations

import asyncio

import pytest

from tests.attacks.faulty_proxy import FAULTS, BadNetwork


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("fault", FAULTS)
def test_promises_end_and_the_link_heals_whatever_the_network_does(fault: str) -> None:
    network = BadNetwork(seed=1)
    asyncio.run(network.run([fault], 1.0))
    assert network.insisted_in_vain == []
    assert network.ends["answered"] > 0
    assert not {*network.ends} - {"answered", "Timeout", "Unreachable", "NoRoute"}

"""`hopwire.run` in a process: what signals do."""

from __future__ import annotations

import signal
import sys

import pytest

from hopwire import PeerLost, sync
from tests.runner.processes import process_of
from tests.runner.shop import Block, Order, Sold

RUN = [sys.executable, "-c", "import sys, hopwire; hopwire.run(*sys.argv[1:], log_format='json', drain_seconds=30)"]
SHOP = "tests.runner.shop"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_says_goodbye_and_ends_it_with_0(how: signal.Signals) -> None:
    with process_of([*RUN, f"{SHOP}:make"]) as process, sync.Node(peers=[process.next("listening")["uri"]]) as client:
        client.knows(Order)
        assert client.hub().ask(Order("tea"), Sold) == Sold("tea")
        events = client.events()
        process.running.send_signal(how)
        process.next("draining")
        process.next("stopped")
        assert process.running.wait(30) == 0
        lost = next(event for event in events if isinstance(event, PeerLost))
        assert lost.reason == "left"  # a goodbye, and not a connection that broke
        assert client.peers == ()


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once() -> None:
    with process_of([*RUN, f"{SHOP}:Stock"]) as process, sync.Node(peers=[process.next("listening")["uri"]]) as client:
        client.knows(Block)
        client.hub().tell(Block(1000))
        assert process.said() == "blocking"
        process.running.send_signal(signal.SIGTERM)
        process.next("draining")
        process.running.send_signal(signal.SIGTERM)
        assert process.running.wait(30) == 130


@pytest.mark.slow
def test_a_signal_before_the_start_ends_it_with_0() -> None:
    with process_of([*RUN, f"{SHOP}:never_opened"]) as process:
        assert process.said() == "entering"
        process.running.send_signal(signal.SIGTERM)
        process.next("ended")
        assert process.running.wait(30) == 0

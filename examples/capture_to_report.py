"""Capture to report: nodes write down what they see, and a few lines tell what was said, how often and how fast."""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import hopwire as hw
from hopwire.capture import Direction, list_segments, read_capture, sightings_from_batch
from hopwire.wire import decode


class Price(hw.Payload, identity="report.price", version=1):
    article: str


class Offer(hw.Payload, identity="report.offer", version=1):
    price: float


class Shop(hw.Actor):
    @hw.handles
    async def price(self, request: Price) -> Offer:
        return Offer(len(request.article) / 2)


async def talk(captures: Path) -> None:
    shop = hw.Node(name="shop", capture=captures)
    async with shop, hw.Node(name="till", capture=captures, peers=[shop.uri]) as till:
        shop.host(Shop())
        await till.knows(Price)
        for number in range(50):
            await till.hub().ask(Price("x" * number), Offer, correlation_id=b"customer-%d" % number)


def report(captures: Path) -> None:
    seen: dict[tuple[bytes, bytes], dict[str, int]] = defaultdict(dict)  # by contract and flow: when it left and came
    for batch in read_capture(captures):
        for sighting in sightings_from_batch(batch):
            if sighting.direction in (Direction.IN, Direction.OUT):
                message = decode(list(sighting.frames))
                seen[message.identity, message.correlation_id][sighting.direction] = sighting.seen_at_ns
    for contract in sorted({contract for contract, _ in seen if contract.startswith(b"report.")}):
        both = [times for (each, _), times in seen.items() if each == contract and len(times) == 2]
        middle_us = median(times[Direction.IN] - times[Direction.OUT] for times in both) / 1000
        print(f"{contract.decode()}: {len(both)} left and arrived, half of them within {middle_us:.0f} us")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(talk(Path(directory)))
        print("segments on disk:", len(list_segments(directory)))
        report(Path(directory))
        print("hopwire lake build CAPTURES LAKE makes tables of it, with every hop, loss and clock")

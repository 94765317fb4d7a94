"""Scatter and gather: one question becomes many, to several nodes at once, and the answers become one."""

from __future__ import annotations

import asyncio

import hopwire as hw

SHOPS = {"north": 12.5, "south": 11.0, "west": 13.9}


class BestPrice(hw.Payload, identity="market.best_price", version=1):
    article: str


class Price(hw.Payload, identity="market.price", version=1):
    article: str


class Offer(hw.Payload, identity="market.offer", version=1):
    shop: str
    price: float


class Shop(hw.Actor):
    def __init__(self, name: str) -> None:
        self.name = name

    @hw.handles
    async def price(self, request: Price) -> Offer:
        if self.name == "west":
            await asyncio.sleep(60)  # one shop is too slow for everybody
        return Offer(self.name, SHOPS[self.name])


class Market(hw.Actor):
    @hw.handles
    async def best_price(self, request: BestPrice, context: hw.Context) -> Offer:
        price = Price(request.article)
        asked = [context.ask(price, Offer, partition=shop.encode(), timeout=2) for shop in SHOPS]  # scatter
        answers = await asyncio.gather(*asked, return_exceptions=True)  # gather, errors among the answers
        offers = [each for each in answers if isinstance(each, Offer)]
        print("no answer in time from:", *(set(SHOPS) - {offer.shop for offer in offers}))
        return min(offers, key=lambda offer: offer.price)


async def main() -> None:
    async with hw.Node() as market, hw.Node(peers=[market.uri]) as shops:
        for name in SHOPS:
            shops.host(Shop(name), partition=name.encode())  # the partition is how each of them is asked
            await market.knows(Price, partition=name.encode())
        market.host(Market())
        best = await market.hub().ask(BestPrice("tea"), Offer, timeout=20)
        print("asked", len(SHOPS), "shops at once")
        print("best offer:", best.shop, "for", best.price)
        print("the slow one kept nobody waiting for longer than its timeout")


if __name__ == "__main__":
    asyncio.run(main())

"""Two networks that share a part of what they have: `acme` places orders in the network of a shop, and nothing else.

Each network has a gateway, an ordinary member with a link to the gateway of the other. What may cross is on a list of
both sides, and may be taken off at any time.

    .venv/bin/python examples/partner_networks.py
"""

import asyncio

import hopwire as hw


class PlaceOrder(hw.Payload, identity="orders.place", version=1):
    item: str


class OrderPlaced(hw.Payload, identity="orders.placed", version=1):
    text: str


class OrderDesk(hw.Actor):
    @hw.handles
    async def place(self, order: PlaceOrder) -> OrderPlaced:
        return OrderPlaced(f"one {order.item} is on its way")


async def main() -> None:
    to_acme = hw.Partner("acme", export=["orders.*"])
    async with hw.Node(join=[]) as shop, hw.Node(join=[shop.uri], identity=b"shop-gw", partners=[to_acme]) as gate:
        shop.host(OrderDesk())
        to_shop = hw.Partner("shop", [gate.border("acme").uri], import_=["orders.*"])
        async with hw.Node(join=[]) as acme, hw.Node(join=[acme.uri], identity=b"acme-gw", partners=[to_shop]):
            await acme.knows(PlaceOrder)
            answer = await acme.hub().ask(PlaceOrder("kettle"), OrderPlaced)
            print(f"acme hears from the shop: {answer.text}")
            print(f"members that acme knows: {[node.decode() for node in acme.peers]}")
            way = await acme.hub().trace(PlaceOrder("kettle"))
            print(f"the way leaves acme at: {way.node.decode()}")

            gate.allow("acme", export=[])
            try:
                while True:  # the other side hears of it a moment later
                    await acme.hub().ask(PlaceOrder("kettle"), OrderPlaced, timeout=5)
            except hw.NoRoute as error:
                print(f"taken off the list: {error.reason}")


asyncio.run(main())

"""Nodes that are run find each other by `join`."""

from __future__ import annotations

import asyncio
from typing import Any

from hopwire.node import Node
from hopwire.runner import serve
from hopwire.runner.service import EndWish
from hopwire.runner.settings import read_settings
from tests.runner.shop import Order, Shop, Sold


def test_a_node_that_was_given_a_door_is_found_by_all() -> None:
    async def main() -> None:
        loop, end = asyncio.get_running_loop(), EndWish()
        doors: asyncio.Future[Node] = loop.create_future()
        shops: asyncio.Future[Node] = loop.create_future()

        def served(started: asyncio.Future[Node], *given: Any, **options: Any) -> asyncio.Future[None]:
            settings = read_settings(options)
            return asyncio.ensure_future(serve(settings, given, end, lambda node, url: started.set_result(node)))

        serving = [served(doors, join=[])]
        door = await doors
        serving.append(served(shops, Shop, join=[door.uri]))
        await shops
        await door.knows(Order)
        assert await door.hub().ask(Order("tea"), Sold) == Sold("tea")
        end.wish()
        await asyncio.gather(*serving)

    asyncio.run(main())

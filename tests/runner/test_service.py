"""The life of a node that is run: ready when it can be given work, drained when it is told to end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hopwire.errors import Closed, Escalated, SettingsError
from hopwire.node import Node
from hopwire.runner import run, serve
from hopwire.runner.service import EndWish
from hopwire.runner.settings import read_settings
from tests.ports import free_port
from tests.runner import shop
from tests.runner.shop import Fragile, Order, Shop, Sold

Page = Callable[[str], Coroutine[Any, Any, tuple[int, str]]]
Story = Callable[[Node, Page], Coroutine[Any, Any, None]]


async def page(url: str, path: str) -> tuple[int, str]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


async def served(story: Story, *given: Any, end: EndWish | None = None, **options: Any) -> None:
    """Run a node while a story happens, and wish its end afterwards."""
    ending = end or EndWish()
    started: asyncio.Future[tuple[Node, str]] = asyncio.get_running_loop().create_future()
    settings = read_settings({"http": "0", **options})
    serving = asyncio.ensure_future(serve(settings, given, ending, lambda node, url: started.set_result((node, url))))
    try:
        await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            node, url = started.result()
            await story(node, lambda path: page(url, path))
    finally:
        ending.wish()
        await serving


async def nothing_happens(node: Node, page: Page) -> None:
    pass


def test_a_node_is_ready_and_healthy_and_tells_its_counts() -> None:
    async def story(node: Node, page: Page) -> None:
        assert await node.hub().ask(Order("tea"), Sold) == Sold("tea")
        assert await page("/ready") == (200, '{"ready": true, "state": "running"}\n')
        assert await page("/health") == (200, '{"healthy": true, "state": "running", "peers": 0}\n')
        status, text = await page("/metrics")
        assert status == 200
        assert 'hopwire_actors{node="till"} 1.0\n' in text
        assert 'hopwire_handle_seconds_count{node="till",contract="till.order v1"} 1.0\n' in text

    asyncio.run(served(story, "tests.runner.shop:make", name="till", status=False))


def test_a_node_is_not_ready_before_its_peers_answered() -> None:
    async def story(node: Node, page: Page) -> None:
        status, text = await page("/ready")
        assert (status, json.loads(text)["waits_for"]) == (503, [peer.removeprefix("")])
        async with Node(peer) as other:
            events = node.events()
            if not node.peers:
                await anext(events)
            assert (await page("/ready"))[0] == 200
            assert other.uri == peer
        assert (await page("/ready"))[0] == 200  # that a peer is gone is no fault of this node

    peer = f"tcp://127.0.0.1:{free_port()}"
    asyncio.run(served(story, Shop, peers=[peer], grace_seconds=1000))


def test_a_node_is_ready_without_its_peers_when_the_grace_is_over() -> None:
    async def story(node: Node, page: Page) -> None:
        assert node.unanswered == (peer,)
        assert (await page("/ready"))[0] == 200

    peer = f"tcp://127.0.0.1:{free_port()}"
    asyncio.run(served(story, Shop, peers=[peer], grace_seconds=0))


def test_a_node_that_is_told_to_end_withdraws_its_routes_and_finishes_its_work() -> None:
    async def main() -> None:
        actor, end = Shop(), EndWish()
        actor.till = asyncio.Event()

        async def story(node: Node, page: Page) -> None:
            async with Node(peers=[node.uri]) as client:
                await client.knows(Order)
                events = client.events()
                question = asyncio.ensure_future(client.hub().ask(Order("tea"), Sold, timeout=30))
                await actor.taken.wait()
                end.wish()
                while type(await anext(events)).__name__ != "RoutesUpdated":
                    pass
                status, text = await page("/ready")
                assert (status, json.loads(text)) == (503, {"ready": False, "state": "draining"})
                assert (await page("/health"))[0] == 200
                assert actor.till is not None
                actor.till.set()
                assert await question == Sold("tea")

        await served(story, actor, end=end, drain_seconds=60)

    asyncio.run(main())


def test_work_that_takes_longer_than_the_drain_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        actor = Shop()
        actor.till = asyncio.Event()

        async def story(node: Node, page: Page) -> None:
            await node.hub().tell(Order("tea"))
            await actor.taken.wait()

        await served(story, actor, drain_seconds=0.01, stop_seconds=0.01)

    asyncio.run(main())
    assert "work is left after 0.01 s, and is given up; 0 messages in queues" in caplog.text


def test_contexts_are_left_after_the_node_has_stopped() -> None:
    async def story(node: Node, page: Page) -> None:
        nodes.append(node)
        assert shop.left == []

    nodes: list[Node] = []
    shop.left.clear()
    asyncio.run(served(story, "tests.runner.shop:opened"))
    assert shop.left == ["opened"]
    assert nodes[0].peers == ()


def test_a_node_that_is_starting_is_healthy_and_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        end, entered, go_on = EndWish(), asyncio.Event(), asyncio.Event()

        async def make() -> Shop:
            entered.set()
            await go_on.wait()
            return Shop()

        started = asyncio.Event()
        serving = asyncio.ensure_future(
            serve(read_settings({"http": "0"}), [make], end, lambda node, url: started.set())
        )
        await entered.wait()
        url = next(record.hopwire_url for record in caplog.records if hasattr(record, "hopwire_url"))
        assert await page(url, "/ready") == (503, '{"ready": false, "state": "starting"}\n')
        assert (await page(url, "/health"))[0] == 200
        assert (await page(url, "/metrics"))[0] == 200
        go_on.set()
        await started.wait()
        assert (await page(url, "/ready"))[0] == 200
        end.wish()
        await serving

    with caplog.at_level(logging.INFO):
        asyncio.run(main())


def test_a_node_that_is_cancelled_stops_before_contexts_are_left() -> None:
    nodes: list[Node] = []
    peers_at_the_end: list[object] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[Shop]:
        try:
            yield Shop()
        finally:
            with pytest.raises(Closed):
                nodes[0].hub()
            peers_at_the_end.append(nodes[0].peers)

    async def main() -> None:
        started = asyncio.Event()

        def on_start(node: Node, url: str) -> None:
            nodes.append(node)
            started.set()

        serving = asyncio.ensure_future(serve(read_settings(), [opened], None, on_start))
        await started.wait()
        serving.cancel()
        await asyncio.wait((serving,))
        assert serving.cancelled()

    asyncio.run(main())
    assert peers_at_the_end == [()]


def test_a_wish_during_the_start_ends_it_in_good_order(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        end = EndWish()
        entered = asyncio.Event()

        async def make() -> Shop:
            entered.set()
            await asyncio.Event().wait()
            return Shop()

        serving = asyncio.ensure_future(serve(read_settings(), ["tests.runner.shop:opened", make], end))
        await entered.wait()
        end.wish()
        await serving

    shop.left.clear()
    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    assert shop.left == ["opened"]
    assert "ended before the node was started" in caplog.text


def test_a_cancelled_node_is_cancelled() -> None:
    async def main() -> None:
        started = asyncio.Event()
        serving = asyncio.ensure_future(serve(read_settings(), [Shop], None, lambda node, url: started.set()))
        await started.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(main())


def test_an_actor_that_escalates_ends_the_run_with_its_error() -> None:
    with pytest.raises(Escalated, match=r"^Fragile.on_start failed: RuntimeError$"):
        asyncio.run(serve(read_settings(), [Fragile]))


def test_a_port_in_use_is_one_line_and_contexts_are_left() -> None:
    async def story(node: Node, page: Page) -> None:
        url = (await page("/health"), node.uri)[1]
        with pytest.raises(SettingsError, match=r"^cannot listen on tcp://127.0.0.1:\d+: Address already in use$"):
            await serve(read_settings({"listen": url}), ["tests.runner.shop:opened"])
        port = url.rpartition(":")[2]
        with pytest.raises(SettingsError, match=r"^http: cannot listen on 127.0.0.1:\d+: .*"):
            await serve(read_settings({"http": port}), [Shop])

    shop.left.clear()
    asyncio.run(served(story, Shop))
    assert shop.left == ["opened"]


def test_run_needs_a_loop_of_its_own() -> None:
    async def main() -> None:
        with pytest.raises(SettingsError, match=r"^run\(\) has an event loop of its own"):
            run(Shop)

    asyncio.run(main())


def test_run_reads_options_the_environment_and_a_file() -> None:
    with pytest.raises(SettingsError, match=r"^HOPWIRE_DRAIN_SECONDS: found 'x'"):
        run(Shop, environ={"HOPWIRE_DRAIN_SECONDS": "x"})
    with pytest.raises(SettingsError, match=r"^lsten: unknown setting; did you mean 'listen'\?$"):
        run(Shop, environ={}, lsten="tcp://127.0.0.1:0")

"""Workers of an actor: as many as there was work for at once, and none before the first message."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from hopwire.model import Payload
from hopwire.node import Actor, Node, handles
from hopwire.node.mailbox import Mailbox
from hopwire.node.recruiting import Recruiter
from hopwire.testing import Network, run


class Task(Payload, identity="recruiting.task", version=1):
    number: int


class Done(Payload, identity="recruiting.done", version=1):
    number: int
    who: str = ""


WHO: ContextVar[str] = ContextVar("who", default="nobody")


class Crew(Actor):
    concurrency = 8

    def __init__(self) -> None:
        self.door = asyncio.Event()

    @handles
    async def work(self, task: Task) -> Done:
        await self.door.wait()
        return Done(task.number, WHO.get())


def workers(node: Node, actor: Actor) -> int:
    return len(node._actors[id(actor)].life._tasks)


def test_an_actor_that_waits_is_no_task_and_gets_workers_as_messages_find_nobody_idle() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            crew = Crew()
            node.host(crew)
            await asyncio.sleep(1)
            assert workers(node, crew) == 0
            asked = [asyncio.ensure_future(node.hub().ask(Task(number), Done)) for number in range(3)]
            await asyncio.sleep(1)
            assert workers(node, crew) == 3
            crew.door.set()
            await asyncio.gather(*asked)
            for number in range(20):
                await node.hub().ask(Task(number), Done)
            assert workers(node, crew) == 3
            crew.door.clear()
            asked = [asyncio.ensure_future(node.hub().ask(Task(number), Done)) for number in range(20)]
            await asyncio.sleep(1)
            assert workers(node, crew) == 8
            crew.door.set()
            assert [done.number for done in await asyncio.gather(*asked)] == list(range(20))

    run(story)


def test_a_worker_has_the_context_of_who_hosted_the_actor_and_not_of_who_asks() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            crew = Crew()
            crew.door.set()
            WHO.set("host")
            node.host(crew)

            async def ask(number: int) -> Done:
                WHO.set(f"asker {number}")
                return await node.hub().ask(Task(number), Done)

            assert {done.who for done in await asyncio.gather(*map(ask, range(4)))} == {"host"}

    run(story)


def test_an_actor_that_took_long_to_start_has_workers_for_all_that_waited() -> None:
    class Slow(Crew):
        async def on_start(self) -> None:
            await asyncio.sleep(2)
            self.door.set()

    async def story(network: Network) -> None:
        async with network.node() as node:
            crew = Slow()
            node.host(crew)
            assert len(await asyncio.gather(*(node.hub().ask(Task(number), Done) for number in range(5)))) == 5
            assert workers(node, crew) == 5

    run(story)


def test_a_recruiter_that_was_stopped_hires_nobody() -> None:
    hired: list[int] = []
    inbox: Mailbox[int] = Mailbox(10, 1000)
    recruiter = Recruiter(inbox, lambda: hired.append(1), 2)
    recruiter.start()
    inbox.offer(1, 1)
    recruiter.stop()
    inbox.offer(2, 1)
    assert (len(hired), inbox.takers.called, len(inbox.takers)) == (1, 0, 0)

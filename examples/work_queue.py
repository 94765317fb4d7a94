"""A work queue that loses nothing: a worker is killed in the middle, and every job is done all the same."""

from __future__ import annotations

import asyncio
import sys

import hopwire as hw

JOBS = 200


class Job(hw.Payload, identity="queue.job", version=1):
    number: int


class Done(hw.Payload, identity="queue.done", version=1):
    number: int
    worker: str


class Worker(hw.Actor):
    concurrency = 4

    def __init__(self, name: str) -> None:
        self.name = name

    @hw.handles
    async def work(self, job: Job) -> Done:
        await asyncio.sleep(0.01)  # the work itself; doing a job twice must do no harm
        return Done(job.number, self.name)


async def work(name: str, uri: str) -> None:
    async with hw.Node(peers=[uri], name=name) as node:
        node.host(Worker(name))
        await asyncio.Event().wait()


async def main() -> None:
    async with hw.Node() as node:
        first = await asyncio.create_subprocess_exec(sys.executable, __file__, "first", node.uri)
        second = await asyncio.create_subprocess_exec(sys.executable, __file__, "second", node.uri)
        while (await node.knows(Job, timeout=30)).nodes < 2:
            await asyncio.sleep(0.01)
        hub = node.hub()
        jobs = [asyncio.create_task(hub.ask(Job(n), Done, timeout=60, at_least_once=True)) for n in range(JOBS)]
        await asyncio.wait(jobs[:20])
        first.kill()  # without a word, with jobs in its hands
        print("the first worker is killed, with work left to do:", not all(job.done() for job in jobs))
        done = await asyncio.gather(*jobs)
        print("jobs asked:", JOBS)
        print("jobs answered:", len({each.number for each in done}))
        print("by whom:", ", ".join(sorted({each.worker for each in done})))
        second.terminate()
        await asyncio.gather(first.wait(), second.wait())


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]) if len(sys.argv) == 3 else main())

"""The least that `ask` can be within one process: an inbox, a future and a deadline for each question, one handler.

One task takes questions out of a queue, calls the handler and gives the future its result. Deadlines share a timer by
the second in which they end. No routes, bounds, fairness, supervision, counts or errors.

With the option `promised` a question also has what every node promises, made of the parts of a node, and nothing else:

| promise | what it takes |
|---|---|
| nobody can guess whom an answer is for, and each flow has a name | a key of chance and an id for each question |
| each question ends, and what became of it can be told | a promise and an envelope, in a table |
| whoever handles the contract gets it | the contract is looked up, and whose turn it is |
| memory is bounded | a payload is weighed on both ways, an inbox has a limit |
| nobody holds the loop | the clock is asked before a question and before a handler |
| a handler may fail | its error is caught, its result is looked at before it goes home |
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count

from benchmarks.peers import Ask
from benchmarks.peers.hopwire import Ping, Pong
from hopwire.model import Message, Payload, contract_of
from hopwire.model.payload import weigher_of
from hopwire.node.deadlines import Deadlines
from hopwire.node.envelope import HEADER_BYTES, Envelope
from hopwire.node.express import KnownMessage
from hopwire.node.mailbox import TAKEN, Mailbox
from hopwire.node.node import _new_ids, _new_keys
from hopwire.node.promise import Promise, expected_of
from hopwire.node.waking import Waking

SECONDS = 5.0
TICKS = 50_000_000
INBOX_MESSAGES, INBOX_BYTES = 10_000, 64 * 1024 * 1024


def connect(address: str, option: str = "") -> AbstractAsyncContextManager[Ask]:
    return _promised() if option == "promised" else _bare()


async def ping(request: Ping) -> Pong:
    return Pong(request.data)


@asynccontextmanager
async def _bare() -> AsyncIterator[Ask]:
    loop = asyncio.get_running_loop()
    inbox: deque[tuple[Ping, float, asyncio.Future[Pong]]] = deque()
    arrival = [loop.create_future()]
    ends: dict[int, dict[int, asyncio.Future[Pong]]] = {}

    async def work() -> None:
        while True:
            while inbox:
                payload, deadline, future = inbox.popleft()
                if loop.time() < deadline and not future.done():
                    future.set_result(await ping(payload))
            arrival[0] = loop.create_future()
            await arrival[0]

    keys = count(1).__next__

    async def ask(body: bytes) -> bytes:
        key, future, deadline = keys(), loop.create_future(), loop.time() + SECONDS
        ending = ends.setdefault(int(deadline), {})
        ending[key] = future
        inbox.append((Ping(body), deadline, future))
        if not arrival[0].done():
            arrival[0].set_result(None)
        try:
            answer: Pong = await future
            return answer.data
        finally:
            del ending[key]

    working = loop.create_task(work())
    yield ask
    working.cancel()


@asynccontextmanager
async def _promised() -> AsyncIterator[Ask]:
    loop, waking = asyncio.get_running_loop(), Waking()
    waking.start(loop)
    asked, answered = contract_of(Ping), contract_of(Pong)
    known = KnownMessage(Message(asked.identity, asked.version))
    routes, expected = {asked: b"echo"}, expected_of(Pong, b"").types
    inboxes: dict[bytes, Mailbox[Envelope]] = {b"echo": Mailbox(INBOX_MESSAGES, INBOX_BYTES, waking=waking)}
    handlers: dict[object, Callable[[Ping], object]] = {asked: ping}
    contracts: dict[type[Payload], object] = {Pong: answered}
    promises: dict[int, Promise] = {}
    deadlines: Deadlines[int] = Deadlines(lambda key: promises[key].future.set_exception(TimeoutError()))
    new_key, new_id, clock, failed = _new_keys(), _new_ids(), time.monotonic, []
    weigh, weigh_answer = weigher_of(Ping), weigher_of(Pong)
    assert weigh is not None
    assert weigh_answer is not None

    def keep(envelope: Envelope, result: object) -> None:
        promise = promises.get(envelope.key)
        if promise is None or promise.correlation_id != envelope.correlation_id or not isinstance(result, Payload):
            return
        kind = promise.expected.get(contracts[type(result)])  # type: ignore[call-overload]
        if kind is type(result) and weigh_answer(result) >= 0 and not promise.future.done():
            waking.set_result(promise.future, result)

    async def work() -> None:
        inbox, ends_at = inboxes[b"echo"], 0.0
        while True:
            now = clock()
            if now >= ends_at:
                ends_at = now + SECONDS
                await asyncio.sleep(0)
            envelope = inbox.pop()
            if envelope is None or envelope.known is None:
                await inbox.arrival()
                continue
            handler = handlers[envelope.known.contract]
            if now >= envelope.deadline or type(envelope.payload) is not Ping:
                continue
            try:
                keep(envelope, await handler(envelope.payload))  # type: ignore[misc]
            except Exception as error:
                failed.append((envelope, error))

    async def ask(body: bytes) -> bytes:
        payload, now = Ping(body), clock()
        while (key := new_key()) in promises:
            pass
        size, flow, future = HEADER_BYTES + weigh(payload), new_id(), asyncio.Future[Pong](loop=loop)
        promise = promises[key] = Promise(future, expected, None, flow, (), known, TICKS, key)
        ending = deadlines.add(key, now, SECONDS)
        try:
            promise.envelope = Envelope(
                None, now + SECONDS, b"", True, known, b"", key, flow, TICKS, payload, size, True
            )
            if inboxes[routes[known.contract]].offer(promise.envelope, size) is not TAKEN:
                raise OverflowError
            return (await future).data
        finally:
            ending.pop(key, None)
            del promises[key]

    working = loop.create_task(work())
    yield ask
    working.cancel()
    deadlines.end_all()

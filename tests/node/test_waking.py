"""Tasks that go on together: in their order, in their contexts, in bounded turns, whatever one of them does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, ParamSpec

import pytest

from hopwire.node.waking import MOST_PASSES, Turn, Waking

WHO: ContextVar[str] = ContextVar("WHO")
P = ParamSpec("P")


def on_a_loop(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(story)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(story(*arguments, **named))

    return run


def started() -> tuple[Waking, asyncio.AbstractEventLoop]:
    waking, loop = Waking(), asyncio.get_running_loop()
    loop.set_debug(False)
    waking.start(loop)
    return waking, loop


async def waiting(count: int) -> tuple[list[asyncio.Future[str]], list[asyncio.Task[str]]]:
    """Tasks that wait for a future each, and say who they are."""

    async def wait(number: int, future: asyncio.Future[str]) -> str:
        WHO.set(f"task {number}")
        result = await future
        return f"{WHO.get()}: {result}"

    futures = [asyncio.get_running_loop().create_future() for _ in range(count)]
    tasks = [asyncio.ensure_future(wait(number, future)) for number, future in enumerate(futures)]
    await asyncio.sleep(0)
    return futures, tasks


@on_a_loop
async def test_all_go_on_in_one_turn_in_their_order_and_contexts() -> None:
    waking, _ = started()
    futures, tasks = await waiting(3)
    ended: list[int] = []
    for number, task in enumerate(tasks):
        task.add_done_callback(partial(_note, ended, number))
    for future in reversed(futures):
        waking.set_result(future, "woken")
    assert not any(task.done() for task in tasks)  # nobody goes on within whoever wakes
    await asyncio.sleep(0)
    assert [task.result() for task in tasks] == [f"task {number}: woken" for number in range(3)]
    await asyncio.sleep(0)
    assert ended == [2, 1, 0]


@on_a_loop
async def test_whoever_holds_lets_them_go_on_at_the_end() -> None:
    waking, _ = started()
    futures, tasks = await waiting(2)
    reader = asyncio.get_running_loop().create_future()

    def read() -> None:
        waking.hold(Turn())
        for future in futures:
            waking.set_result(future, "read")
        waking.run()
        reader.set_result([task.done() for task in tasks])

    asyncio.get_running_loop().call_soon(read)
    assert await reader == [True, True]


@on_a_loop
async def test_two_that_wake_each_other_leave_the_loop_its_turns() -> None:
    waking, loop = started()
    places: list[asyncio.Future[None]] = [loop.create_future(), loop.create_future()]
    steps, is_over = 0, False

    async def play(mine: int) -> None:
        nonlocal steps
        while not is_over:
            await places[mine]
            places[mine] = loop.create_future()
            steps += 1
            if not places[1 - mine].done():
                waking.set_result(places[1 - mine], None)

    players = [asyncio.ensure_future(play(mine)) for mine in (0, 1)]
    await asyncio.sleep(0)
    waking.set_result(places[0], None)
    for turn in range(1, 4):
        await asyncio.sleep(0)
        assert steps <= turn * MOST_PASSES
    assert steps > MOST_PASSES
    is_over = True
    for player in players:
        player.cancel()
    await asyncio.gather(*players, return_exceptions=True)


@on_a_loop
async def test_a_task_that_is_cancelled_after_it_was_woken_is_cancelled() -> None:
    waking, _ = started()
    (future, other), (task, second) = await waiting(2)
    waking.set_result(future, "too late")
    waking.set_result(other, "woken")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await second == "task 1: woken"


@on_a_loop
async def test_an_error_that_ends_the_loop_costs_nobody_behind_it() -> None:
    waking, loop = started()

    async def fall(future: asyncio.Future[None]) -> None:
        await future
        raise SystemExit

    falling: asyncio.Future[None] = loop.create_future()
    task = asyncio.ensure_future(fall(falling))
    futures, tasks = await waiting(2)
    waking.hold(Turn())
    for future in (falling, *futures):
        waking.set_result(future, "woken")
    with pytest.raises(SystemExit):
        _outside_of_tasks(waking)
    assert task.done()
    assert isinstance(task.exception(), SystemExit)
    assert await asyncio.gather(*tasks) == ["task 0: woken", "task 1: woken"]


def _note(ended: list[int], number: int, _: asyncio.Task[str]) -> None:
    ended.append(number)


def _outside_of_tasks(waking: Waking) -> None:
    """Run as the loop does, between two tasks."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    asyncio.tasks._leave_task(loop, task)
    try:
        waking.run()
    finally:
        asyncio.tasks._enter_task(loop, task)


UNUSUAL = ["not started", "debugged", "waited for twice", "not waited for", "another Python"]


@pytest.mark.parametrize("kind", UNUSUAL)
@on_a_loop
async def test_what_is_unusual_is_left_to_the_loop(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    waking = Waking()
    loop.set_debug(kind == "debugged")
    if kind == "another Python":
        monkeypatch.setattr("hopwire.node.waking.asyncio", SimpleNamespace(Future=object))
    if kind != "not started":
        waking.start(loop)
    heard: list[str] = []
    (future,), (task,) = await waiting(1)
    if kind == "waited for twice":
        future.add_done_callback(lambda done: heard.append(done.result()))
    if kind == "not waited for":
        future = loop.create_future()
        task.cancel()
    waking.set_result(future, "woken")
    await asyncio.sleep(0)
    loop.set_debug(False)
    assert future.result() == "woken"
    assert heard == (["woken"] if kind == "waited for twice" else [])
    if kind != "not waited for":
        assert await task == "task 0: woken"

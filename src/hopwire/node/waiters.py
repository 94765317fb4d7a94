"""Those who wait for one thing on one event loop, in the order in which they came.

To come, to be woken and to give up cost the same for one who waits and for a hundred thousand. Who is woken and gives
up before running wakes the next. `called` are those who were woken and have not run yet: what they were woken for is
theirs.

The line is a dict of futures, so that to ask whether anybody waits is no call; an ordered one, which finds its first
key at once after any number of removals.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Protocol

from hopwire.node.waking import Waking

__all__ = ["ELSEWHERE", "Lines", "OtherPlaces", "Waiter", "Waiters"]

ELSEWHERE = "elsewhere"  # whoever waited for one place was called to another


class Waiter(Protocol):
    """Somebody who waits: a future, or what has the same two methods."""

    def done(self) -> bool:
        """Tell whether nobody waits any more."""

    def set_result(self, result: bool | None, /) -> None:
        """Be woken; whoever does at once what it waited for takes itself off `called`. True calls it away instead."""


class OtherPlaces(OrderedDict[Waiter, None]):
    """Those who wait in some line, and would go to another place as soon as there is room."""

    __slots__ = ()

    def call(self, count: int) -> None:
        """Call so many of those away who came first."""
        while count > 0 and self:
            waiter, _ = self.popitem(last=False)
            if not waiter.done():
                count -= 1
                waiter.set_result(True)


class Waiters(OrderedDict[Waiter, None]):
    """A line of those who wait."""

    __slots__ = ("_waking", "called")

    def __init__(self, waking: Waking | None = None) -> None:
        super().__init__()
        self.called = 0
        self._waking = waking  # lets those go on who are woken; none: the loop does

    def wake(self, count: int = 1) -> None:
        """Wake so many of those who came first, or all if they are fewer."""
        while count > 0 and self:
            future, _ = self.popitem(last=False)
            if not future.done():
                self.called += 1
                count -= 1
                if self._waking is None:
                    future.set_result(None)
                else:
                    self._waking.set_result(future, None)

    async def wait(self, is_again: bool = False, elsewhere: OtherPlaces | None = None) -> bool:
        """Wait to be woken; who was woken in vain waits again in front of all others.

        Who could also go elsewhere waits in that line too. True says that it was called from there.
        """
        future = asyncio.get_running_loop().create_future()
        self[future] = None
        if is_again and len(self) > 1:
            self.move_to_end(future, last=False)
        if elsewhere is not None:
            elsewhere[future] = None
        try:
            is_called_away: bool = await future or False
        except asyncio.CancelledError:
            self.pop(future, None)
            if future.done() and not future.cancelled() and not future.result():
                self.called -= 1
                self.wake()
            raise
        finally:
            if elsewhere is not None:
                elsewhere.pop(future, None)
        if is_called_away:
            self.pop(future, None)
        else:
            self.called -= 1
        return is_called_away

    def return_to_front(self, waiter: Waiter) -> None:
        """Let somebody who was woken in vain wait again, in front of all others."""
        self[waiter] = None
        self.move_to_end(waiter, last=False)


class Lines(OrderedDict[Hashable, Waiters]):
    """Lines of those who wait for one thing, each with its turn: whoever waits alone is not behind thousands.

        A thousand wait in line A, and then one comes in line B. The next two who are woken are one of A, and that of B.

    There are no empty lines here, so that to ask whether anybody waits is no call.
    """

    __slots__ = ()

    async def wait(self, name: Hashable) -> None:
        """Wait to be woken, behind those who came before in the line of that name."""
        line = self.get(name)
        if line is None:
            line = self[name] = Waiters()
        try:
            await line.wait()
        finally:
            if not line and self.get(name) is line:
                del self[name]

    def wake(self, count: int) -> None:
        """Wake so many of those who wait, one of each line in turn."""
        while count > 0 and len(self) > 1:
            name, line = self.popitem(last=False)
            line.wake()
            count -= 1
            if line:
                self[name] = line  # behind the others
        if count > 0 and self:
            name, line = self.popitem()  # the only one
            line.wake(count)
            if line:
                self[name] = line

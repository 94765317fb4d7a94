"""The memory that lets a signed message in once.

A message is fresh while `now - window_ns <= sent_at <= now + skew_ns`. A message that was let in is remembered. A
message is forgotten because it grew old, or because the memory is full; a forgotten message raises the floor. One rule
makes a bounded memory safe:

    every message that was let in is remembered, or was sent at or before the floor;
    no message that was sent at or before the floor is let in.

| case | answer |
|---|---|
| sent before the window, or too far in the future | refused |
| sent at or before the floor | refused |
| nonce remembered | refused |
| else | let in and remembered; when the memory is full, the oldest message is forgotten |

Example: a window of 60 s with a capacity of 2, at 100 s. Messages sent at 97 s, 98 s and 99 s are let in; the third
fills the memory, so the message of 97 s is forgotten and the floor is 97 s. The message of 97 s is refused when it
comes again, and so is any other message that was sent at 97 s or before.

Each scope (domain and key id) has a floor of its own, the latest time of sending among its forgotten messages. So a
clock that jumped ahead and came back lets no replay in and shuts no honest sender out. With more than `capacity`
messages in one window, the window in effect gets shorter. The memory of a `ReplayWindow` is shared by all scopes: the
holder of one key can fill it, and honest messages under another key are refused. `ReplayWindows` has a memory for each
scope, as nodes need it.

The trap: windows are mutable. A window belongs to one node and one thread, and a restart empties the window. What keeps
messages from before the restart out is the recipient in their stamp, or the time of the start where a scheme has no
recipient (`Listener` in `signing.py`). A window by itself can start with `floor_ns`.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol, TypeAlias

from hopwire.errors import SettingsError
from hopwire.model.units import NS_PER_SECOND

__all__ = ["SKEW_NS", "Replay", "ReplayWindow", "ReplayWindows", "Scope"]

Scope: TypeAlias = tuple[str, str]  # domain and key id: all that share one secret
_Entry: TypeAlias = tuple[int, Scope, bytes]  # when it was sent, and its nonce; there may be a million of them

SKEW_NS = 2 * NS_PER_SECOND  # clocks kept by NTP differ by far less; a sender ahead by more needs its clock mended


class Replay(Protocol):
    """A memory that lets each nonce in once."""

    def admit(self, scope: Scope, nonce: bytes, sent_at_ns: int, now_ns: int) -> bool:
        """Let a nonce in, once, if it is fresh; call it only for a message whose MAC is right."""


class ReplayWindow:
    """Lets each nonce in once, with at most `capacity` nonces in memory.

    A call costs O(1) while messages come in the order in which they were sent, and O(log n) for those that do not.
    """

    def __init__(self, window_ns: int, capacity: int, *, skew_ns: int = SKEW_NS, floor_ns: int = -1) -> None:
        if window_ns < 1 or capacity < 1 or skew_ns < 0:
            found = f"window_ns={window_ns}, capacity={capacity}, skew_ns={skew_ns}"
            raise SettingsError(
                f"a replay window needs window_ns and capacity above 0, skew_ns not below, found {found}"
            )
        self.window_ns = window_ns
        self.capacity = capacity
        self.skew_ns = skew_ns
        self.floor_ns = floor_ns
        self._floors: dict[Scope, int] = {}
        self._seen: dict[Scope, set[bytes]] = {}
        # What was let in, each sent later than the one before: time, scope, nonce, and so on, without tuples. Python
        # would look through a million tuples for garbage, again and again.
        self._in_order: deque[Any] = deque()
        self._latest_ns = -1  # of these
        self._remembered = 0
        self._scope: Scope | None = None  # of the last message, and the nonces that are remembered of it
        self._nonces: set[bytes] = set()
        self._highest_floor_ns = floor_ns  # of all scopes
        self._belated: list[_Entry] = []  # the rest, as a heap
        self._calm_until_ns = -1  # up to then nothing grows old that is remembered

    def __len__(self) -> int:
        return self._remembered

    def __repr__(self) -> str:
        return f"ReplayWindow(window_ns={self.window_ns}, capacity={self.capacity}, remembered={len(self)})"

    def admit(self, scope: Scope, nonce: bytes, sent_at_ns: int, now_ns: int) -> bool:
        """Let a nonce in, once, if it is fresh; call it only for a message whose MAC is right."""
        if scope is not self._scope:
            self._scope, self._nonces = scope, self._seen.setdefault(scope, set())
        nonces, remembered = self._nonces, self._remembered
        if (
            now_ns <= self._calm_until_ns
            and self._latest_ns < sent_at_ns <= now_ns + self.skew_ns
            and remembered < self.capacity
            and self._highest_floor_ns < sent_at_ns
            and nonce not in nonces
        ):  # nearly all: later than what came before, and nothing is forgotten for it; the rest says the same at length
            nonces.add(nonce)
            self._latest_ns, self._remembered = sent_at_ns, remembered + 1
            self._in_order += sent_at_ns, scope, nonce
            return True
        return self._admit_at_length(scope, nonce, sent_at_ns, now_ns)

    def _admit_at_length(self, scope: Scope, nonce: bytes, sent_at_ns: int, now_ns: int) -> bool:
        """Do the same, and forget what has grown old."""
        in_order, nonces = self._in_order, self._nonces
        earliest_ns = now_ns - self.window_ns
        while in_order and in_order[0] < earliest_ns:
            self._forget_first()
        while self._belated and self._belated[0][0] < earliest_ns:
            self._forget(*heappop(self._belated))
        is_fresh = earliest_ns <= sent_at_ns <= now_ns + self.skew_ns
        if not is_fresh or sent_at_ns <= self._floors.get(scope, self.floor_ns) or nonce in nonces:
            return False
        nonces.add(nonce)
        self._remembered += 1
        if sent_at_ns >= self._latest_ns or not in_order:
            self._latest_ns = sent_at_ns
            in_order += sent_at_ns, scope, nonce
        else:
            heappush(self._belated, (sent_at_ns, scope, nonce))
        if self._remembered > self.capacity:
            self._forget_oldest()
        self._calm_until_ns = self._oldest_ns() + self.window_ns
        return True

    def _oldest_ns(self) -> int:
        """Give when the oldest message that is remembered was sent; there is one."""
        times: list[int] = [entry[0] for entry in self._belated[:1]]
        return min([*times, self._in_order[0]] if self._in_order else times)

    def _forget_oldest(self) -> None:
        belated, in_order = self._belated, self._in_order
        if belated and (not in_order or belated[0] < (in_order[0], in_order[1], in_order[2])):
            self._forget(*heappop(belated))
        else:
            self._forget_first()

    def _forget_first(self) -> None:
        take = self._in_order.popleft
        self._forget(take(), take(), take())

    def _forget(self, sent_at_ns: int, scope: Scope, nonce: bytes) -> None:
        self._seen[scope].remove(nonce)
        self._remembered -= 1
        floor_ns = self._floors[scope] = max(sent_at_ns, self._floors.get(scope, self.floor_ns))
        self._highest_floor_ns = max(self._highest_floor_ns, floor_ns)


class ReplayWindows:
    """A replay window for each scope; there are as many as keys, since only a message with a right MAC gets here."""

    def __init__(self, window_ns: int, capacity: int, *, skew_ns: int = SKEW_NS, floor_ns: int = -1) -> None:
        self._new = partial(ReplayWindow, window_ns, capacity, skew_ns=skew_ns, floor_ns=floor_ns)
        self._new()  # or say now what is wrong with the numbers
        self._windows: dict[Scope, ReplayWindow] = {}

    def admit(self, scope: Scope, nonce: bytes, sent_at_ns: int, now_ns: int) -> bool:
        """Let a nonce in, once, if it is fresh; call it only for a message whose MAC is right."""
        return self.window(scope).admit(scope, nonce, sent_at_ns, now_ns)

    def window(self, scope: Scope) -> ReplayWindow:
        """Give the window of a scope, for whoever asks it for many messages."""
        window = self._windows.get(scope)
        if window is None:
            window = self._windows[scope] = self._new()
        return window

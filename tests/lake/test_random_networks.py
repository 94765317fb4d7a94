"""Small networks of real nodes with random faults: every verdict of the lake beside what the promise said.

The nodes run in memory, with a clock of their own, and capture. They are killed, begin anew, are cut off from each
other, and their messages get lost, late or doubled. Whoever asked writes down how its promise ended. So the lake has a
witness that is not the lake.

    pytest tests/lake/test_random_networks.py --networks 2000        a larger run by hand
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopwire.demo.agreement import AGREES
from hopwire.errors import Closed, HopwireError
from hopwire.flows.rules import Rules
from hopwire.model import Payload
from hopwire.node import Actor, Context, Hub, Node, handles
from hopwire.security import OPEN
from hopwire.testing import Network, run
from tests.lake.pure import Judged, judge_captures

RULES = Rules()
KINDS = ("well", "well", "bad", "nothing", "other", "shared", "onward", "slow")
QUESTIONS = ("ask", "ask", "ask", "ask", "ask and leave", "send")
TROUBLES = ("drop", "duplicate", "delay", "kill", "cut", "heal", "wait")
PAUSES = {"slow": 0.8}
TIMEOUTS = (0.3, 1.0, 3.0)
END_SECONDS = 30.0  # for all promises, and until silence is told from blindness
START_SECONDS = 5.0
GIVEN_UP = AGREES["Timeout"]
FITS = {**AGREES, "Cancelled": GIVEN_UP, "Closed": GIVEN_UP, "QueueFull": {"failed", "lost"}}


class Work(Payload, identity="random.work", version=1):
    """Something to do, in one of several ways."""

    kind: str


class Part(Payload, identity="random.part", version=1):
    """A part of it, for somebody else."""


class Onward(Payload, identity="random.onward", version=1):
    """The same work, for somebody else."""


class Other(Payload, identity="random.other", version=1):
    """What nobody asked for."""


class Done(Payload, identity="random.done", version=1):
    """It is done."""


class Worker(Actor):
    """Does it."""

    concurrency = 64

    @handles
    async def work(self, work: Work, context: Context) -> Done | Onward | Other | None:
        await asyncio.sleep(PAUSES.get(work.kind, 0.0))
        if work.kind == "bad":
            raise ValueError("no")
        if work.kind == "shared":
            return await context.ask(Part(), Done)
        return {"nothing": None, "other": Other(), "onward": Onward()}.get(work.kind, Done())

    @handles
    async def part(self, part: Part) -> Done:
        return Done()

    @handles
    async def onward(self, onward: Onward) -> Done:
        return Done()


class Peer(NamedTuple):
    """How a node is made."""

    is_capturing: bool = True
    is_local_captured: bool = False
    is_working: bool = True


class Event(NamedTuple):
    """What happens next: somebody asks, or something goes wrong."""

    what: str
    node: int = 0
    kind: str = "well"
    timeout: float = 1.0
    is_insisted: bool = False
    share: float = 0.0
    pause: float = 0.0
    is_new: bool = False


PEERS = st.builds(
    Peer,
    is_capturing=st.sampled_from((True, True, True, False)),
    is_local_captured=st.booleans(),
    is_working=st.sampled_from((True, True, False)),
)
EVENTS = st.builds(
    Event,
    what=st.sampled_from((*QUESTIONS, *TROUBLES)),
    node=st.integers(0, 3),
    kind=st.sampled_from(KINDS),
    timeout=st.sampled_from(TIMEOUTS),
    is_insisted=st.sampled_from((False, False, True)),
    share=st.sampled_from((0.0, 0.2, 0.6)),
    pause=st.sampled_from((0.0, 0.0, 0.05, 0.5, 2.0)),
    is_new=st.booleans(),
)


class Told(NamedTuple):
    """How one promise ended."""

    word: str
    is_home_whole: bool  # whether the node that asked lived to the end, and captured


class Play:
    """A story of events, and what was told in it."""

    def __init__(self, network: Network, captures: Path, peers: list[Peer]) -> None:
        self._network, self._captures = network, captures
        self._peers = [Peer(is_working=peers[0].is_working), *peers[1:]]  # the first asks most
        self._nodes: list[Node] = []
        self._hubs: list[Hub] = []
        self._asking: list[asyncio.Task[None]] = []
        self._told: dict[bytes, tuple[str, Node]] = {}
        self._killed: set[int] = set()
        self._count = 0

    async def play(self, events: list[Event]) -> dict[bytes, Told]:
        """Let everything happen, wait until all is over, and give what was told of each question."""
        async with AsyncExitStack() as self._stack:
            for place in range(len(self._peers)):
                await self._begin(place, b"node-%d" % place)
            with suppress(HopwireError):
                await self._nodes[0].knows(Work, timeout=START_SECONDS)
            for event in events:
                await self._happen(event)
                await asyncio.sleep(event.pause)
            self._network.heal()
            self._network.faults.drop = self._network.faults.duplicate = 0.0
            await asyncio.sleep(END_SECONDS)
            await asyncio.gather(*self._asking)
        return {
            flow: Told(word, id(node) not in self._killed and node.capture_status is not None)
            for flow, (word, node) in self._told.items()
        }

    async def _begin(self, place: int, identity: bytes) -> None:
        peer = self._peers[place]
        capture = {"capture": self._captures, "capture_local": peer.is_local_captured} if peer.is_capturing else {}
        others = [node.uri for node in self._nodes if id(node) not in self._killed]
        node = self._network.node(identity=identity, name=f"node-{place}", peers=others, **capture)
        await self._stack.enter_async_context(node)
        if peer.is_working:
            node.host(Worker())
        self._nodes[place : place + 1] = [node]
        self._hubs[place : place + 1] = [node.hub()]

    async def _happen(self, event: Event) -> None:
        faults, place = self._network.faults, event.node % len(self._nodes)
        if event.what in ("ask", "ask and leave", "send"):
            self._ask(event, place)
        elif event.what == "drop":
            faults.drop = event.share
        elif event.what == "duplicate":
            faults.duplicate = event.share
        elif event.what == "delay":
            faults.delay = faults.jitter = event.share
        elif event.what == "cut":
            self._network.cut(self._nodes[0], self._nodes[place - 1])
        elif event.what == "heal":
            self._network.heal()
        elif event.what == "kill" and place:
            self._killed.add(id(self._nodes[place]))
            self._network.kill(self._nodes[place])
            await asyncio.sleep(event.pause)
            identity = b"node-%d/%d" % (place, len(self._killed)) if event.is_new else self._nodes[place].identity
            await self._begin(place, identity)

    def _ask(self, event: Event, place: int) -> None:
        flow, hub, node = b"flow-%03d" % self._count, self._hubs[place], self._nodes[place]
        self._count += 1
        options: dict[str, Any] = {"timeout": event.timeout, "correlation_id": flow, "at_least_once": event.is_insisted}
        work = Work(event.kind)
        call: Awaitable[Any] = hub.ask(work, Done, **options) if event.what != "send" else hub.send(work, **options)
        task = asyncio.ensure_future(self._write_down(flow, node, call))
        self._asking.append(task)
        if event.what == "ask and leave":
            asyncio.get_running_loop().call_later(event.timeout / 4, task.cancel)

    async def _write_down(self, flow: bytes, node: Node, call: Awaitable[Any]) -> None:
        try:
            await call
            word = "answered"
        except asyncio.CancelledError:
            word = "Cancelled"
        except Closed:
            word = "Closed"
        except HopwireError as error:
            word = type(error).__name__
        self._told[flow] = word, node


def contradictions(judged: Judged, told: dict[bytes, Told], peers: list[Peer], is_anybody_killed: bool) -> list[Any]:
    """Say where the lake and the promises do not agree."""
    rows = {row["correlation_id"]: row for row in judged.requests.to_pylist() if row["identity"] == b"random.work"}
    is_blind = is_anybody_killed or not all(peer.is_capturing and peer.is_local_captured for peer in peers)
    found: list[Any] = []
    for flow, (word, is_home_whole) in told.items():
        if not is_home_whole:
            continue
        row = rows.get(flow)
        if row is None:
            if word != "answered" or not is_blind:  # an answer within the node may be in no capture
                found.append((flow, word, "no request"))
            continue
        fits = {*FITS[word], *(("open",) if is_blind else ())}
        if row["outcome"] not in fits:
            found.append((flow, word, row["outcome"], row["reason"]))
        if row["told"] not in ((word,) if word != "answered" else (None, "answered")):
            found.append((flow, word, "told", row["told"]))
        if row["is_told_otherwise"]:
            found.append((flow, word, row["outcome"], "told otherwise"))
    hops = [hop for hop in judged.hops.to_pylist() if not hop["is_control"]]
    found += [(hop["correlation_id"], hop["identity"], "foreign") for hop in hops if hop["fate"] == "foreign"]
    return found


def check_network(peers: list[Peer], events: list[Event], seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        captures = Path(directory)
        told = run(lambda network: Play(network, captures, peers).play(events), seed=seed)
        judged = judge_captures(captures, OPEN, RULES)
        whole = [Peer(is_working=peers[0].is_working), *peers[1:]]
        is_killed = any(event.what == "kill" for event in events)
        assert contradictions(judged, told, whole, is_killed) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.usefixtures("is_long")
def test_lake_and_promises_agree_whatever_goes_wrong(pytestconfig: pytest.Config) -> None:
    networks = (
        st.lists(PEERS, min_size=2, max_size=4),
        st.lists(EVENTS, min_size=1, max_size=25),
        st.integers(0, 2**20),
    )
    count = pytestconfig.getoption("--networks")
    check: Callable[[], None] = settings(max_examples=count, suppress_health_check=list(HealthCheck))(
        given(*networks)(check_network)
    )
    check()

"""The parts of a kind of flow: steps, and the way and the fate that follow from the steps. `kinds.py` has the kinds.

A step is one crossing of one message from one node to another, a message within a node, the end of a message at a node,
or the end of a promise. Nodes are numbered
within the flow: the flow begins at node 0, and answers go there.

| mode | the step |
|---|---|
| NEW | sends a message for the first time; the message has the way of its cause, and its hops begin anew |
| ON | sends the message of step `of` on: one hop more |
| FAN | sends the broadcast of step `of` to one more node, as hopwire does: each node gets its own message |
| PILE | sends the broadcast of step `of` to one more node, as the original does: hops and way grow with each node |
| COPY | shows the message of step `of` once more: an arrival, perhaps changed, a dead letter, the end of its promise |
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import NamedTuple

__all__ = [
    "AT_ONCE",
    "HANDLING",
    "ORDINARY_TTL",
    "UNSEEN_BY",
    "Change",
    "Kind",
    "Millis",
    "Mode",
    "Says",
    "SeenAt",
    "Step",
    "To",
    "Waits",
    "Window",
    "fate_of",
    "findings_of",
    "way_of",
]


class Says(IntEnum):
    """What a message says; the first five are contracts of a family."""

    REQUEST = 0
    ONWARD = 1
    FURTHER = 2
    REPLY = 3
    EVENT = 4
    RECEIVED = 5  # hopwire's outcomes
    FAILED = 6
    EXPIRED = 7
    NO_ROUTE = 8
    EXCEPTION = 9  # the original's
    CONFIRMED = 10


Mode = IntEnum("Mode", "NEW ON FAN PILE COPY", start=0)
SeenAt = IntEnum("SeenAt", "BOTH LEFT CAME DEAD LOCAL TOLD", start=0)
To = IntEnum("To", "ANY HOME NODE ACTOR", start=0)
Window = IntEnum("Window", "MAIN OPEN BEFORE UNWRITTEN DYING CRASH AFTER SKIP AGAIN END CLOSE", start=0)
LONE = {SeenAt.DEAD: "dead", SeenAt.LOCAL: "local", SeenAt.TOLD: "told"}  # what only one node sees, and its fate
UNSEEN_BY = {Window.SKIP: 1, Window.UNWRITTEN: 1, Window.DYING: 0}  # the node of a flow that has no sightings


class Waits(IntEnum):
    """The callback data that a message carries."""

    NOTHING = 0
    ANSWER = 1
    ANSWER_AND_RECEIPT = 2
    RECEIPT = 3
    KEY = 4  # hopwire's outcomes: the key and no more
    ITSELF = 5  # the original's receipt


class Change(IntEnum):
    """What is changed in a message or in its frames."""

    NONE = 0
    SIGNATURE = 1  # changed on the way
    BODY = 2
    WRONG_KEY = 3  # wrong from the beginning
    UNKNOWN_KEY = 4
    NOT_IN_DOMAIN = 5
    VERSION = 6
    GIANT = 7
    TRUNCATED = 8  # the frames, on the way
    MUTATED = 9


class Millis(NamedTuple):
    """A time in milliseconds between two bounds; with a tail, `low` and a random time with the mean `high` on top."""

    low: float
    high: float
    has_tail: bool = False


TRAVEL, HANDLING = Millis(0.3, 1.5, True), Millis(0.1, 4.0, True)
AT_ONCE = Millis(0, 0)
ORDINARY_TTL = Millis(5_000, 30_000)


class Step(NamedTuple):
    """One crossing."""

    src: int
    dst: int
    says: Says = Says.REQUEST
    cause: int = -1  # the step whose arrival causes this one; -1 is the begin of the flow
    waits: Waits = Waits.NOTHING
    to: To = To.ANY
    mode: Mode = Mode.NEW
    of: int = -1  # the step whose message this is; for NEW, the step whose words the new message repeats
    seen: SeenAt = SeenAt.BOTH
    wait: Millis = HANDLING
    travel: Millis = TRAVEL
    change: Change = Change.NONE
    reason: str = ""  # of a dead letter, or what an asker was told
    note: str = ""
    attempt: int = -1  # of a message that carries an id
    is_broadcast: bool = False
    names: tuple[int, ...] | None = None  # the routers that the message names, where it passed others


class Kind(NamedTuple):
    """A kind of flow."""

    name: str
    steps: tuple[Step, ...]
    weight: float = 1.0  # among the kinds of its fault, or among ordinary kinds
    fault: str = ""
    flavour: str = ""  # "hopwire", "kino", or either
    formats: tuple[int, ...] = (3, 4, 5, 6)
    outcomes: tuple[str, ...] = ()  # of its requests
    is_reused: bool = False
    findings: tuple[str, ...] = ()
    flow_outcome: str = ""  # of the flow, where it is not the worst outcome of its requests
    ttl: Millis = ORDINARY_TTL
    window: Window = Window.MAIN
    signed: bool | None = None  # None: chance decides
    has_id: bool = False
    is_traced: bool | None = None  # None: chance decides

    @property
    def told(self) -> str:
        """What the asker of its request was told, if that is in the capture."""
        return next((step.reason for step in self.steps if step.seen is SeenAt.TOLD), "")


@cache
def way_of(steps: tuple[Step, ...], number: int) -> tuple[tuple[int, ...], int]:
    """Give the routers that a crossing names, as nodes of the flow, and its hops."""
    step = steps[number]
    if step.names is not None:
        return step.names, way_of((*steps[:number], step._replace(names=None)), number)[1]
    if step.seen in (SeenAt.LOCAL, SeenAt.TOLD) or (step.mode is Mode.NEW and step.seen is SeenAt.DEAD):
        return (), 0  # the message never left
    if step.mode is Mode.COPY:
        if step.seen is SeenAt.DEAD:
            return way_of(steps, step.cause)
        return way_of(steps, step.of)
    if step.mode is Mode.ON:
        way, hops = way_of(steps, step.cause)
        return (*way, step.src), hops + 1
    if step.mode is Mode.PILE:
        copies = 1 + sum(each.mode is Mode.PILE for each in steps[: number + 1])
        return (step.src,) * copies, copies
    is_begin = step.cause < 0 or step.mode is Mode.FAN or step.says in (Says.REQUEST, Says.EVENT)
    way = () if is_begin else way_of(steps, step.cause)[0]
    return (*way, step.src), 1


def findings_of(kind: Kind) -> tuple[str, ...]:
    """Give the findings of a kind of flow; a hop that is lost is one."""
    is_lost = any(fate_of(kind, number) == "lost" for number in range(len(kind.steps)))
    return (*kind.findings, *(["hop_lost"] if is_lost else []))


def fate_of(kind: Kind, number: int) -> str:
    """Give the fate that `silver.hops` has for a crossing; empty where the crossing is no hop of its own."""
    step = kind.steps[number]
    if step.seen in LONE:
        return LONE[step.seen]
    blind = UNSEEN_BY.get(kind.window)
    if blind in (step.src, step.dst):
        return "unwitnessed" if step.dst == blind else "unsent"
    if step.seen is SeenAt.BOTH:
        return "arrived"
    is_dark = kind.fault == "missing_capture"
    if step.seen is SeenAt.LEFT:
        changes = {each.change for each in kind.steps if each.mode is Mode.COPY and each.of == number}
        if Change.SIGNATURE in changes:
            return "arrived"  # the copy that came in its place has the same key
        return "unwitnessed" if is_dark else "in_flight" if kind.window is Window.END else "lost"
    if step.change in (Change.SIGNATURE, Change.TRUNCATED, Change.MUTATED):
        return ""
    if step.change is Change.BODY or (step.mode is Mode.COPY and step.src != kind.steps[step.of].src):
        return "foreign"
    return "unsent" if is_dark else "duplicate"

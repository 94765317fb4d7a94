"""The way of messages from one network to another, in one direction, through a gateway.

    an actor stands in on the near side for the actors of a contract on the far side
    a question for hub X on node Y, key 7, waits in the inbox of the stand-in
    it goes on as a question of this gateway on the far side, for the receiver PARTNER, with a key drawn here: 4711
    the answer to 4711 comes to PARTNER, and goes on to hub X on node Y, key 7

What the far side says decides nothing about where an answer goes: the key is drawn by chance, and forgotten with the
answer. Nobody gives a receipt for a message that only waits here; the receipt comes from whoever takes it.

| bound | beyond it |
|---|---|
| `messages`, `size_bytes` of all inboxes of a direction | whoever can wait waits, others are refused: `queue_full` |
| `questions` that are open | `queue_full` |
| `rate` of messages from the partner | those behind wait in their inboxes, and their senders for credit |
| the time that a message has left, or `LONGEST_SECONDS` | `expired` |

A capture has what crosses as a hop between the two nodes of the gateway, with the key of the message that it becomes.

A message waits for room on the far side in the line of its contract, and no other contract waits with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec

from hopwire.errors import PayloadError, WireError
from hopwire.model import (
    CallbackPoint,
    Contract,
    Message,
    Payload,
    RoutingEntry,
    body_from_payload,
    contract_of,
    payload_from_body,
)
from hopwire.model.choice import Choice, Choose
from hopwire.model.names import FEEDS
from hopwire.model.outcome import Outcome
from hopwire.model.payload import Weigh
from hopwire.node.dead import DeadLetter
from hopwire.node.deadlines import Deadlines, Group
from hopwire.node.demand import NO_MORE, WINDOW_PARTS, Demand
from hopwire.node.envelope import Envelope
from hopwire.node.feeds import Place, place_of
from hopwire.node.mailbox import REFUSED, Mailbox
from hopwire.node.partner import Partner
from hopwire.node.router import Room, Router
from hopwire.node.spawn import (
    NO_ANSWER,
    OUTCOME,
    numbered,
    outcome_of,
    ticks_from_seconds,
    wants_answer,
    wants_stream,
    words_of,
)
from hopwire.node.tap import Tap
from hopwire.node.waiters import Waiters
from hopwire.routing import Route, Tables
from hopwire.routing.borders import NO_HOME, Bar, WayHome, bar_inside, bar_outside, chosen, crossed, offers
from hopwire.security.allow_lists import AllowList
from hopwire.wire.extension import extension_of, with_extension

__all__ = ["BorderCrossing", "Shore"]

log = logging.getLogger("hopwire.node")
LONGEST_SECONDS, SHORTEST_SECONDS = 60.0, 0.001  # of a question, and of the wait of a message without a time to live
MOST_SECONDS = 1e6  # of a deadline
COPIES = 4 * WINDOW_PARTS  # of parts that may come twice
MOST_WORDS = 16  # about one question, before its answer
LINGER_SECONDS = 5.0  # for parts of a stream that its end has overtaken
BURST_SECONDS = 1.0  # of the rate: so much may come at once
HOME_BYTES, POINT_BYTES = 4096, 64  # of the callback data of one question, and of a point beside its names
DETAIL_CHARACTERS = 2000  # of what an error of the other network says
MOST_VERDICTS = 100_000  # identities whose verdict is remembered
DEMAND = contract_of(Demand)
INSIDE = "a message of the partner network"  # in place of a contract that a question led to
Announce: TypeAlias = Callable[[Iterable[Route], Iterable[Route]], None]


class Shore(NamedTuple):
    """One side of a crossing: what it needs of the node there."""

    here: bytes
    router: Router
    tables: Tables
    announce: Announce
    onward: list[Callable[[Message], bool]]  # those who pass on what is said to streams
    new_key: Callable[[], int]
    tap: Tap | None = None


class _Budget:
    """What may wait in all inboxes of one direction together."""

    def __init__(self, messages: int, size_bytes: int) -> None:
        self.most, self.most_bytes = messages, size_bytes
        self.messages = self.size_bytes = 0
        self.waiters = Waiters()

    def has_room(self, size_bytes: int) -> bool:
        is_within = self.messages < self.most and self.size_bytes + size_bytes <= self.most_bytes
        return is_within or not self.messages

    def count(self, messages: int, size_bytes: int) -> None:
        self.messages += messages
        self.size_bytes += size_bytes
        if messages < 0 and self.waiters:
            self.waiters.wake()


class _TransitInbox(Mailbox[Envelope]):
    """The inbox of a stand-in: what is in it has not been received."""

    def __init__(self, budget: _Budget, on_offer: Callable[[], None]) -> None:
        super().__init__(budget.most, budget.most_bytes)
        self._budget, self._on_offer = budget, on_offer

    def offer(self, item: Envelope, size_bytes: int) -> tuple[bool, Sequence[Envelope]]:
        if not self._budget.has_room(size_bytes):
            return REFUSED
        offered = super().offer(item, size_bytes)
        if offered[0]:
            item.is_passing = True
            self._budget.count(1, size_bytes)
            self._on_offer()
        return offered

    async def put(self, item: Envelope, size_bytes: int) -> tuple[bool, Sequence[Envelope]]:
        while not self.is_closed:
            while not self.is_closed and not self._budget.has_room(size_bytes):
                await self._budget.waiters.wait()
            offered = await super().put(item, size_bytes)
            if offered[0]:
                return offered
        return REFUSED

    def pop(self) -> Envelope | None:
        before = self.size_bytes
        item = super().pop()
        if item is not None:
            self._budget.count(-1, self.size_bytes - before)
        return item

    def close(self) -> list[Envelope]:
        before = self.size_bytes
        rest = super().close()
        self._budget.count(-len(rest), self.size_bytes - before)
        waiters = self._budget.waiters
        waiters.wake(len(waiters))  # those who wait for this inbox give up, the others look again
        return rest


class _StandIn:
    """An actor without code, in place of those that handle a contract on the far side."""

    def __init__(self, receiver: bytes, contract: Contract) -> None:
        self.receiver, self.contract = receiver, contract
        self.inbox: _TransitInbox
        self.pump: asyncio.Task[None] | None = None


class _Passed(msgspec.Struct):
    """A question that has crossed, and its way home."""

    asked: Message  # on the near side, without its body
    said: Message  # on the far side, without its body
    deadline: float
    ending: Group[int]
    sent_to: tuple[bytes, ...] = ()
    taken_by: bytes = b""  # the node that gave a receipt, or makes a stream
    is_received: bool = False  # whether a receipt went home
    parts: int = 0  # of its stream that went home
    wanted: int = WINDOW_PARTS  # parts that may go home, as far as whoever asked has said
    words: int = 0  # about it that went home
    is_over: bool = False  # whether the end of its stream went home, and only parts may follow


class BorderCrossing:
    """Lets messages of one direction cross, and their answers come back."""

    def __init__(
        self,
        near: Shore,
        far: Shore,
        partner: Partner,
        allowed: AllowList,
        home: bytes,
        new_name: Callable[[], bytes],
        room: tuple[int, int],
        *,
        is_inward: bool,
    ) -> None:
        self._near, self._far, self._partner, self._is_inward = near, far, partner, is_inward
        self._allowed, self._home, self._new_name = allowed, home, new_name
        self._bar: Bar = bar_inside if is_inward else bar_outside
        self._gone = "no_route" if is_inward else "unreachable"  # why nobody is left on the far side
        self._verdicts: dict[bytes, bool] = {}
        self._stand_ins: dict[Contract, _StandIn] = {}
        self._questions: dict[int, _Passed] = {}  # by the key that was drawn here
        self._places: dict[Place, int] = {}  # of streams, by where they go
        self._deadlines: Deadlines[int] = Deadlines(self._close)
        self._budget = _Budget(*room)  # messages and bytes
        self._tasks: set[asyncio.Task[None]] = set()
        self._due = 0.0  # when the next message may cross, by the rate
        self._is_ending = False
        self.tally: Counter[str] = Counter()
        self.left_out = 0  # contracts that were beyond the limit when it was looked last
        far.router.open_home(home, self)
        far.tables.local.register(home, is_local_only=True)
        near.onward.append(self._demand)

    # -- what may cross

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """What is offered on the near side now."""
        return tuple(self._stand_ins)

    @property
    def open_questions(self) -> int:
        """How many questions have crossed and wait for an answer."""
        return sum(not question.is_over for question in self._questions.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits here, and nothing is waited for."""
        return not self.open_questions and not self._tasks and not self._budget.messages

    def use(self, allowed: AllowList) -> None:
        """Let these cross from now on, and no others; what is open of others ends."""
        self._allowed = allowed
        self._verdicts.clear()
        self.look()
        for key, question in list(self._questions.items()):
            if not self.allows(question.asked.identity):
                self._end(key, question, "no_route", self._words("it does not cross any more to"))

    def allows(self, identity: bytes) -> bool:
        """Tell whether messages of an identity may cross."""
        verdict = self._verdicts.get(identity)
        if verdict is None:
            if len(self._verdicts) >= MOST_VERDICTS:
                self._verdicts.clear()
            verdict = self._verdicts[identity] = self._allowed.allows(identity)
        return verdict

    def look(self) -> None:
        """Let stand-ins come and go with those that they stand in for."""
        found = {} if self._is_ending else dict.fromkeys(offers(self._far.tables, self.allows, self._bar))
        gone = [contract for contract in self._stand_ins if contract not in found]
        removed = [route for contract in gone for route in self._withdraw(contract)]
        new = [contract for contract in found if contract not in self._stand_ins]
        room = self._partner.routes - len(self._stand_ins)
        self.left_out = max(0, len(new) - room)
        added = [route for contract in new[:room] for route in self._stand_in(contract)]
        if added or removed:
            self._near.announce(added, removed)

    def _stand_in(self, contract: Contract) -> list[Route]:
        near, stand_in = self._near, _StandIn(self._new_name(), contract)
        stand_in.inbox = _TransitInbox(self._budget, lambda: self._begin(stand_in))
        self._stand_ins[contract] = stand_in
        near.router.open(stand_in.receiver, stand_in.inbox)
        return near.tables.local.register(stand_in.receiver, [contract])

    def _withdraw(self, contract: Contract) -> list[Route]:
        """Let nothing more cross to a contract."""
        near, stand_in = self._near, self._stand_ins.pop(contract)
        routes = near.tables.local.unregister(stand_in.receiver)
        near.router.shut(stand_in.receiver)
        is_revoked = not self.allows(contract.identity)
        for envelope in stand_in.inbox.close():
            near.router.give_up(envelope, "no_route" if is_revoked else self._gone, self._words("nobody is left at"))
            near.router.consumed(envelope)
        if is_revoked and stand_in.pump is not None:
            stand_in.pump.cancel()
        return routes

    def _words(self, what: str) -> str:
        return f"{what} partner {self._partner.name}"

    # -- over

    def _begin(self, stand_in: _StandIn) -> None:
        if stand_in.pump is None:
            stand_in.pump = self._task(self._pump(stand_in))

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _pump(self, stand_in: _StandIn) -> None:
        """Empty the inbox of a stand-in into the far side."""
        router = self._near.router
        try:
            while (envelope := stand_in.inbox.pop()) is not None:
                try:
                    await self._cross(stand_in, envelope)
                except asyncio.CancelledError:
                    reason = "closed" if self._is_ending else "no_route"
                    router.give_up(envelope, reason, self._words("it does not cross any more to"))
                    raise
                except Exception as error:  # a fault of ours; the messages behind this one must not suffer from it
                    log.exception("a message could not cross to another network")
                    router.give_up(envelope, "node_failed", type(error).__name__)
                finally:
                    router.consumed(envelope)
        finally:
            stand_in.pump = None

    async def _cross(self, stand_in: _StandIn, envelope: Envelope) -> None:
        near, far, message = self._near, self._far, envelope.message
        if self._is_inward:
            await self._keep_pace()
        refusal = self._refusal(stand_in, envelope)
        if refusal is not None:
            near.router.give_up(envelope, *refusal)
            return
        extension = extension_of(message)
        if extension.partner and not self._is_inward:
            self._stay_inside(envelope, extension.partner)
            return
        barred = self._bar(far.tables, message.contract)
        if barred is None:
            near.router.give_up(envelope, self._gone, self._words("nobody is left at"))
            return
        choice = Choice(Choose.KEY, extension.chosen_by) if extension.chosen_by > 0 else None
        receiver = b"" if choice is None else chosen(far.tables, message.contract, choice, self._bar)
        left = self._left(envelope)
        home = WayHome(self._home, far.here, self._new_key()) if _is_question(message) else NO_HOME
        partner = self._partner.name if self._is_inward else ""
        if self._is_inward and message.routing:  # a partner may not say which members a message has passed
            message = message.replace(routing=tuple([each for each in message.routing if not self._is_inside(each)]))
        said = crossed(message, partner, home, receiver, ticks_from_seconds(left) if envelope.deadline else 0)
        question = self._remember(home.key, message, said, envelope.deadline, left) if home.key else None
        passing = Envelope(said, envelope.deadline, may_wait=True, choice=choice)
        _write_down(near, far, envelope.message, said)
        self.tally["messages"] += 1
        self.tally["size_bytes"] += envelope.size_bytes()
        nodes, full = far.router.route(passing, barred, partial(self._bar, far.tables, message.contract))
        if question is not None:
            question.sent_to = nodes
        for put in full:
            await self._wait(far.router, put, passing)
        if question is not None and passing.moved_to:
            question.sent_to = (passing.moved_to,)  # which may be this node

    def _is_inside(self, entry: RoutingEntry) -> bool:
        return entry.identity == self._far.here or entry.identity in self._far.tables.remote

    async def _wait(self, router: Router, put: Room, envelope: Envelope) -> None:
        """Wait for room, as long as the message has time."""
        try:
            async with asyncio.timeout(self._left(envelope)):
                reason = await put(envelope)
        except TimeoutError:
            reason = "expired" if envelope.deadline else "queue_full"
        if reason:
            router.give_up(envelope, reason)

    def _left(self, envelope: Envelope) -> float:
        """Give the seconds that a message has left."""
        clock = self._near.router.timing.clock
        return max(envelope.deadline - clock(), SHORTEST_SECONDS) if envelope.deadline else LONGEST_SECONDS

    def _refusal(self, stand_in: _StandIn, envelope: Envelope) -> tuple[str, str] | None:
        """Give why a message may not cross, or nothing."""
        message = envelope.message
        if self._near.router.is_expired(envelope):
            return "expired", ""
        if message.contract != stand_in.contract:  # a receiver is chosen by name and version alone
            return "receiver_does_not_handle", words_of(message.contract)
        if not self.allows(message.identity):
            return "no_route", self._words("it does not cross any more to")
        if message.distribution:
            return "no_route", f"a broadcast does not cross to partner {self._partner.name}"
        try:
            extension_of(message)
        except WireError as error:
            return error.reason, str(error)
        if not _is_question(message):
            return None
        if len(self._questions) >= self._partner.questions:
            return "queue_full", f"{self._partner.questions} questions wait for partner {self._partner.name}"
        if _home_bytes(message) > HOME_BYTES:
            return "too_many_bytes", f"callback data beyond {HOME_BYTES} bytes"
        return None

    def _stay_inside(self, envelope: Envelope, partner: str) -> None:
        """Send a message that has crossed a border already to somebody who handles it in this network."""
        near, message = self._near, envelope.message
        barred = bar_inside(near.tables, message.contract)
        if barred is None:
            near.router.give_up(envelope, "no_route", f"it came from partner {partner}, and crosses no other border")
            return
        inside = message.replace(receiver_identity=b"", receiver_node_identity=b"", signature=b"")
        near.router.route(Envelope(inside, envelope.deadline), barred)

    async def _keep_pace(self) -> None:
        """Wait until the rate of the partner allows one message more."""
        now = self._near.router.timing.clock()
        self._due = max(self._due, now - BURST_SECONDS) + 1 / self._partner.rate
        if self._due > now:
            await asyncio.sleep(self._due - now)

    def _new_key(self) -> int:
        while (key := self._far.new_key()) in self._questions:
            pass
        return key

    def _remember(self, key: int, message: Message, said: Message, deadline: float, seconds: float) -> _Passed:
        ending = self._deadlines.add(key, self._near.router.timing.clock(), min(seconds, MOST_SECONDS))
        asked = message.replace(body_frames=(), extensions=())
        question = _Passed(asked, said.replace(body_frames=(), extensions=()), deadline, ending)
        self._questions[key] = question
        if wants_stream(message):
            self._places[place_of(message)] = key
        return question

    def _close(self, key: int) -> None:
        question = self._questions.pop(key, None)
        if question is not None:
            question.ending.pop(key, None)
            self._places.pop(place_of(question.asked), None)

    # -- and back

    def take(self, message: Message) -> None:
        """Take an answer, or what became of a question, and send it home."""
        dead, key = self._far.router.dead, message.callback_key
        question = self._questions.get(key)
        try:
            part = extension_of(message).part
        except WireError as error:
            dead.add(DeadLetter(error.reason, str(error), message))
            return
        node = message.socket_identity or self._far.here
        if question is None:
            dead.add(DeadLetter("nobody_waits", "", message))
            if part and message.contract != OUTCOME:
                self._say_to_producer((node,), message, Demand(NO_MORE, part))
        elif message.correlation_id != question.asked.correlation_id:
            dead.add(DeadLetter("wrong_flow", "", message))
        elif message.contract == OUTCOME:
            self._take_outcome(key, question, message, part)
        elif CallbackPoint(*message.contract) not in question.said.callback_points:
            dead.add(DeadLetter("unexpected_answer", "", message))
        else:
            question.parts += bool(part)
            if question.parts > question.wanted + COPIES:
                self._end(key, question, "queue_full", self._words("more parts came than were asked for from"))
                return
            if part:
                question.taken_by = node
            else:
                self._close(key)
            self._go_home(question, message, part)

    def _go_home(self, question: _Passed, message: Message, part: int) -> None:
        router, asked = self._near.router, question.asked
        home = WayHome(asked.callback_receiver_identity, asked.callback_receiver_node_identity, asked.callback_key)
        answer = crossed(message, "" if self._is_inward else self._partner.name, home)
        said = msgspec.structs.replace(extension_of(answer), partner="")  # it goes to whoever asked, and nowhere else
        answer = with_extension(
            answer, said, receiver_identity=home.receiver, receiver_node_identity=home.node, ttl_ticks=message.ttl_ticks
        )
        _write_down(self._far, self._near, message, answer)
        self.tally["answers"] += 1
        envelope = Envelope(answer, question.deadline, may_wait=bool(part))
        _, full = router.route(envelope)
        for put in full:
            self._task(self._wait(router, put, envelope))

    def _take_outcome(self, key: int, question: _Passed, message: Message, part: int) -> None:
        router = self._far.router
        if not router.is_vouched(question.said, message):
            return
        try:
            outcome = payload_from_body(Outcome, message.body)
            if outcome.kind == "received":
                question.taken_by = bytes.fromhex(outcome.detail)
        except (PayloadError, ValueError) as error:
            router.dead.add(DeadLetter("bad_payload", str(error), message))
            return
        question.words += 1
        if question.words > MOST_WORDS:
            router.dead.add(DeadLetter("nobody_waits", "too much was said about one question", message))
            return
        if outcome.kind == "received":
            if not wants_answer(question.asked):
                self._close(key)
            if not question.is_received:  # a receipt for a copy says nothing new
                question.is_received = True
                self._tell(question, Outcome("received", detail=self._near.here.hex()), heard=message)
            return
        is_further_on = outcome.contract not in ("", words_of(question.asked.contract))
        if part:  # the end of a stream may have overtaken a part
            question.ending.pop(key, None)
            question.ending = self._deadlines.add(key, router.timing.clock(), LINGER_SECONDS)
            question.is_over = True
        elif not (outcome.reason == NO_ANSWER and is_further_on):  # another branch of the flow may still answer
            self._close(key)
        self._tell(question, self._discreet(outcome, is_further_on) if self._is_inward else outcome, part, message)

    def _discreet(self, outcome: Outcome, is_further_on: bool) -> Outcome:
        """Give an outcome as a partner may hear it: without names of nodes, and of contracts that it does not know."""
        detail = outcome.detail if outcome.kind == "failed" else ""
        return Outcome(outcome.kind, outcome.reason, detail, INSIDE if is_further_on else outcome.contract)

    def _tell(self, question: _Passed, outcome: Outcome, part: int = 0, heard: Message | None = None) -> None:
        """Tell whoever asked what became of the question, as the far side said; it is this gateway that says so."""
        near, asked = self._near, question.asked
        told = outcome_of(asked, outcome, near.here)
        if told is None:
            return
        if outcome.kind != "received":
            contract = (outcome.contract or words_of(asked.contract))[:DETAIL_CHARACTERS]
            words = (outcome.reason[:DETAIL_CHARACTERS], outcome.detail[:DETAIL_CHARACTERS], contract, near.here)
            told = told.replace(body_frames=(body_from_payload(Outcome(outcome.kind, *words)),))
        if heard is not None:
            _write_down(self._far, near, heard, told)
        told = near.router.vouched(asked, told)
        near.router.route(Envelope(numbered(told, part) if part else told))

    def _end(self, key: int, question: _Passed, reason: str, detail: str) -> None:
        """Give a question up: whoever asked is told, and whoever makes a stream for it."""
        self._close(key)
        if not question.is_over:
            self._stop_stream(question)
            self._tell(question, Outcome("undelivered", reason, detail))

    # -- streams

    def _demand(self, message: Message) -> bool:
        """Pass on what is said to a stream that is made on the far side; False if there is none."""
        key = self._places.get(place_of(message))
        question = None if key is None else self._questions.get(key)
        if question is None or question.asked.correlation_id != message.correlation_id:
            return False
        if self._near.router.is_vouched(question.asked, message):
            question.wanted = max(question.wanted, _taken_of(message) + WINDOW_PARTS)
            self._say_on(self._producers(question), question.said, message)
        return True

    def _producers(self, question: _Passed) -> tuple[bytes, ...]:
        return (question.taken_by,) if question.taken_by else question.sent_to or (self._far.here,)

    def _stop_stream(self, question: _Passed) -> None:
        if wants_stream(question.asked):
            self._say_to_producer(self._producers(question), question.said, Demand(NO_MORE))

    def _say_to_producer(self, nodes: Iterable[bytes], stream: Message, word: Payload) -> None:
        contract = contract_of(word)
        said = Message(contract.identity, contract.version, body_frames=(body_from_payload(word),))
        self._say_on(nodes, stream, said)

    def _say_on(self, nodes: Iterable[bytes], stream: Message, word: Message) -> None:
        """Say something about a stream to the nodes that make it."""
        far = self._far
        for node in nodes:
            said = Message(
                identity=word.identity,
                version=word.version,
                body_frames=word.body_frames,
                correlation_id=stream.correlation_id,
                receiver_identity=FEEDS,
                receiver_node_identity=node,
                callback_key=stream.callback_key,
                callback_receiver_identity=stream.callback_receiver_identity,
                callback_receiver_node_identity=stream.callback_receiver_node_identity,
            )
            if node == far.here:
                far.router.is_home(said)
            elif far.router.is_known(node):
                far.router.route(Envelope(far.router.vouched(stream, said)))

    # -- losses, and the end

    def lose_far(self, node: bytes, reason: str) -> None:
        """A node of the far side is gone: what it had and did not answer is lost."""
        for key, question in list(self._questions.items()):
            if node in ((question.taken_by,) if question.taken_by else question.sent_to):
                self._end(key, question, "unreachable", f"{self._words('a node is gone at')}; it may have been handled")

    def lose_near(self, node: bytes) -> None:
        """A node of the near side is gone: nobody waits there any more."""
        for key, question in list(self._questions.items()):
            if question.asked.callback_receiver_node_identity == node:
                self._close(key)
                self._stop_stream(question)

    def drain(self) -> None:
        """Offer nothing any more; what has crossed is still answered."""
        self._is_ending = True
        self.look()

    def stop(self) -> None:
        """End everything that waits."""
        self.drain()
        for task in list(self._tasks):
            task.cancel()
        for key, question in list(self._questions.items()):
            self._end(key, question, "unreachable", self._words("a gateway stops to"))
        self._deadlines.end_all()

    # -- a home of answers, as the router knows it

    def sent_late(self, key: int, nodes: tuple[bytes, ...]) -> None:
        """Hear to which nodes a question went for which a route had to be found first."""
        question = self._questions.get(key)
        if question is not None:
            question.sent_to = nodes

    def expects(self, contract: Contract, key: int, correlation_id: bytes) -> bool:
        """No answer takes the express way through a border."""
        return False

    def take_known(self, contract: Contract, key: int, correlation_id: bytes, body: bytes) -> bool:
        """No answer takes the express way through a border."""
        return False

    def take_answer(
        self, contract: Contract, key: int, correlation_id: bytes, payload: Payload, weigh: Weigh | None
    ) -> bool:
        """No answer is handed over as it is."""
        return False


def _write_down(source: Shore, target: Shore, message: Message, goes_on: Message) -> None:
    """Have in the captures that a message went from one node of a gateway to the other, and as what it goes on."""
    if source.tap is not None:
        source.tap.saw_crossing(message, goes_on, target.here, is_in=False)
    if target.tap is not None:
        target.tap.saw_crossing(message, goes_on, source.here, is_in=True)


def _taken_of(message: Message) -> int:
    """Give how many parts of a stream were taken, if a message says so."""
    try:
        return payload_from_body(Demand, message.body).parts if message.contract == DEMAND else 0
    except PayloadError:
        return 0


def _is_question(message: Message) -> bool:
    """Tell whether somebody waits for what becomes of a message."""
    return bool(message.callback_key and message.callback_receiver_identity)


def _home_bytes(message: Message) -> int:
    points = sum(POINT_BYTES + len(point.identity) + len(point.partition) for point in message.callback_points)
    names = len(message.callback_receiver_identity) + len(message.callback_receiver_node_identity)
    return points + names + len(message.correlation_id)

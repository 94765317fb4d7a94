"""The router of a node: asks `decide`, then delivers here or sends away.

What goes nowhere is a dead letter, and whoever waits for it is told. The router holds no sockets: what is for another
node goes to its `Outlet`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from msgspec.structs import replace

from hopwire.cluster.announce import NAME_BYTES
from hopwire.errors import PayloadError
from hopwire.model import Contract, Message, Payload, Version, body_from_payload, contract_of, payload_from_body
from hopwire.model.choice import Choice, Choose, choice_of
from hopwire.model.names import HUB
from hopwire.model.outcome import Outcome
from hopwire.model.payload import Weigh, rule_of, weigher_of
from hopwire.node.credit import Consumption, CreditLine
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.envelope import Envelope
from hopwire.node.express import KnownMessage
from hopwire.node.mailbox import REFUSED, TAKEN, Mailbox, Overflow
from hopwire.node.notices import shown
from hopwire.node.seen import SeenMessages
from hopwire.node.spawn import NO_ANSWER, RECEIPT, Way, numbered, outcome_of, spawned, wants_answer, words_of
from hopwire.node.telemetry import Telemetry
from hopwire.node.timing import Timing
from hopwire.node.waiters import ELSEWHERE, OtherPlaces
from hopwire.report.words import text_or_hex
from hopwire.routing import HOP_LIMIT, Candidates, Decision, Tables, decide, peek
from hopwire.routing.turns import ContractKey
from hopwire.wire.extension import NOTHING, Extension, extension_of, with_extension

__all__ = ["Home", "Inbox", "Outlet", "Room", "Router"]

MOST_CALLED = 256  # that are called to an actor of this node at once
ASKER_SECONDS = 0.5  # for word of an asker that is not known yet
MOST_LATE_ANSWERS, MOST_LATE_BYTES = 1000, 16 * 1024 * 1024  # that wait for it
PLACES_TRIED = 4  # by a message whose turn is a full node or actor, before it waits there
MOST_OF_AN_ERROR = 2000  # characters of what an error says


class Outlet(Protocol):
    """The way to other nodes."""

    @property
    def uri(self) -> str:
        """The address that others reach this node by."""

    def send(self, node: bytes, envelope: Envelope) -> str:
        """Send a message to another node; gives a reason where that is not possible, `queue_full` among them."""

    def send_known(
        self,
        node: bytes,
        known: KnownMessage,
        body: bytes,
        key: int,
        correlation_id: bytes,
        deadline: float,
        line: CreditLine | None = None,
        ticks: int = 0,
    ) -> bool:
        """Send a message of the express way; False says that nothing was sent, and it needs the ordinary way."""

    def credit_line(self, node: bytes, what: bytes) -> CreditLine | None:
        """Give the credit line of a peer for a contract; none where no credit is needed."""

    async def send_when_possible(self, node: bytes, envelope: Envelope, elsewhere: OtherPlaces | None = None) -> str:
        """Wait for room, and send; gives a reason where that is not possible, `elsewhere` if it was called away."""

    def is_full(self, node: bytes) -> bool:
        """Tell whether there is no room in the queue to a node, so that who can wait has to."""

    def is_reached_at(self, node: bytes, uri: str) -> bool:
        """Tell whether a node is talked to at this address."""

    def vouched(self, about: Message, told: Message) -> Message:
        """Give what is said about a question with the domain that is to sign it."""

    def is_vouched(self, about: Message, told: Message) -> bool:
        """Tell whether what is said about a question was said with the key of the question, or of an answer to it."""


class Home(Protocol):
    """A receiver that waits for answers: a hub. It takes what is addressed to it, and never waits."""

    def take(self, message: Message) -> None:
        """Take an answer, or what became of a question."""

    def take_known(self, contract: Contract, key: int, correlation_id: bytes, body: bytes) -> bool:
        """Take an answer of the express way; False where anything about the answer is unusual."""

    def take_answer(
        self, contract: Contract, key: int, correlation_id: bytes, payload: Payload, weigh: Weigh | None
    ) -> bool:
        """Take an answer from an actor of this node; False where nobody waits for it, or not for this.

        What weighs a payload says whether nobody can change it; without that it is copied.
        """

    def sent_late(self, key: int, nodes: tuple[bytes, ...]) -> None:
        """Hear to which nodes a question went for which a route had to be found first."""


Inbox = Mailbox[Envelope]
Seek: TypeAlias = Callable[[Contract, Callable[[], bool]], Awaitable[None]]  # asks others for a route, and waits
Barred: TypeAlias = Callable[[], Collection[bytes] | None]  # who is not to be asked now; None if nobody else is left
Room: TypeAlias = Callable[[Envelope], Awaitable[str]]  # waits for room and puts the message there, or gives a reason
NOBODY = Decision(reason="excluded")
NOWHERE: tuple[tuple[bytes, ...], Sequence[Room]] = ((), ())


class Router:
    """Finds the way of every message of one node."""

    def __init__(
        self,
        here: bytes,
        tables: Tables,
        outlet: Outlet,
        dead: DeadLetters,
        timing: Timing,
        seen: SeenMessages,
        consumption: Consumption,
        *,
        hop_limit: int = HOP_LIMIT,
        waits_for_room: bool = True,
        is_express: bool = True,
        telemetry: Telemetry | None = None,
        why_nobody: Callable[[Contract], str] = words_of,
        called: Callable[[bytes], str] = text_or_hex,
        seek: Seek | None = None,
        saw_local: Callable[[Message], None] | None = None,
    ) -> None:
        self.why_nobody = why_nobody  # says what is known of a contract without a route
        self.called = called  # gives a node in words
        self._seek = seek  # asks the cluster for a route, where there is one
        self._saw_local = saw_local  # hears of each message that stays within the node, where that is wanted
        self.here, self.dead, self.timing, self.telemetry = here, dead, timing, telemetry
        self.is_express = is_express and telemetry is None  # a context of whoever speaks makes each message another
        self._tables, self._outlet, self._seen, self._hop_limit = tables, outlet, seen, hop_limit
        self.candidates = tables.candidates  # who takes turns for each contract, here and elsewhere
        self._consumption = consumption
        self._waits_for_room = waits_for_room  # whether a sender waits for a full queue to another node
        self._inboxes: dict[bytes, Inbox] = {}
        self.waiting_elsewhere: dict[ContractKey, OtherPlaces] = {}  # who waits for one node, and would go to any other
        self.homes: dict[bytes, Home] = {}
        self._late_answers = self._late_bytes = 0  # that wait for word of their askers
        self.choosers: dict[tuple[bytes, Version], type[Payload]] = {}  # handled here, and chosen by key

    def open(self, actor: bytes, inbox: Inbox) -> None:
        """Let an actor take messages, into a queue."""
        self._inboxes[actor] = inbox

    def open_home(self, hub: bytes, home: Home) -> None:
        """Let a hub take messages and answers."""
        self.homes[hub] = home

    def shut(self, receiver: bytes) -> None:
        """Let a receiver take no more."""
        self._inboxes.pop(receiver, None)
        self.homes.pop(receiver, None)

    def is_expired(self, envelope: Envelope) -> bool:
        """Tell whether the time of a message has run out."""
        return bool(envelope.deadline) and self.timing.clock() >= envelope.deadline

    def say(self, envelope: Envelope, avoid: Collection[bytes] = ()) -> tuple[tuple[bytes, ...], Sequence[Room]]:
        """Pass on a message that begins here, with the context of whoever says it."""
        if envelope.choice is not None:
            self._choose(envelope, envelope.choice)
        if self.telemetry is not None:
            envelope.said = self.telemetry.carried(envelope.message)
        return self.route(envelope, avoid)

    def route(
        self, envelope: Envelope, avoid: Collection[bytes] = (), bar: Barred | None = None
    ) -> tuple[tuple[bytes, ...], Sequence[Room]]:
        """Pass a message on: the nodes it was sent to, and the full queues that its sender has to wait for.

        Nodes to avoid are asked only where there is no other. If the message waits for one node and is called to
        another place, `bar` says who is not to be asked by then. Only hubs wait for room. What came from another node,
        and what an actor says, is refused instead: the one would stall the network, the other actors that wait in a
        circle.
        """
        if envelope.deadline and self.timing.clock() >= envelope.deadline:
            self.give_up(envelope, "expired")
            return NOWHERE
        if self.choosers and envelope.came_from and envelope.choice is None:
            self._choose_for_sender(envelope)
        message, came_from = envelope.message, envelope.came_from
        decision = decide(message, self._tables, self.here, avoid, came_from, self._hop_limit)
        if decision.reason == "unknown_receiver" and self._is_chosen_anew(envelope):
            message = envelope.message
            decision = decide(message, self._tables, self.here, avoid, came_from, self._hop_limit)
        if avoid and decision.reason == "excluded":
            decision = decide(message, self._tables, self.here, (), came_from, self._hop_limit)
        if decision.reason:
            if decision.reason == "unknown_node" and self._waits_for_asker(envelope):
                return NOWHERE
            if decision.reason == "no_route" and self._seek is not None and envelope.may_wait:
                return (), (partial(self._route_late, self._seek, avoid),)
            self.give_up(envelope, decision.reason, _looked_for(envelope.message, decision.reason))
            return NOWHERE
        return self._carry_out(decision, envelope, avoid, bar)

    def _waits_for_asker(self, envelope: Envelope) -> bool:
        """Keep an answer for a moment if its asker is not known here: word of who has just joined is on its way."""
        is_answer = envelope.message.receiver_identity[:1] == HUB
        size_bytes = envelope.weight_bytes()
        if not is_answer or self._seek is None or self._late_answers >= MOST_LATE_ANSWERS:
            return False
        if self._late_bytes + size_bytes > MOST_LATE_BYTES:
            return False
        self._late_answers += 1
        self._late_bytes += size_bytes
        self.timing.loop.call_later(ASKER_SECONDS, self._answer_late, envelope, size_bytes)
        return True

    def _answer_late(self, envelope: Envelope, size_bytes: int) -> None:
        self._late_answers -= 1
        self._late_bytes -= size_bytes
        decision = decide(envelope.message, self._tables, self.here, (), envelope.came_from, self._hop_limit)
        if decision.reason:
            self.give_up(envelope, decision.reason, _looked_for(envelope.message, decision.reason))
        else:
            self._carry_out(decision, envelope)

    async def _route_late(self, seek: Seek, avoid: Collection[bytes], envelope: Envelope) -> str:
        """Ask the cluster for a route that is not known here, once, and pass the message on."""
        message = envelope.message
        contract = Contract(message.identity, message.version, message.partition)
        await seek(contract, lambda: bool(self.candidates.get(contract)))
        decision = decide(message, self._tables, self.here, avoid, envelope.came_from, self._hop_limit)
        if decision.reason:
            return decision.reason
        nodes, full = self._carry_out(decision, envelope, avoid)
        home = self.homes.get(message.callback_receiver_identity)
        if home is not None and nodes:
            home.sent_late(message.callback_key, nodes)
        for put in full:
            reason = await put(envelope)
            if reason:
                return reason
        return ""

    def _carry_out(
        self, decision: Decision, envelope: Envelope, avoid: Collection[bytes] = (), bar: Barred | None = None
    ) -> tuple[tuple[bytes, ...], Sequence[Room]]:
        full: Sequence[Room] = ()
        for receiver in decision.receivers:
            inbox = self._deliver(receiver, envelope)
            if inbox is not None:
                nodes = self._placed(envelope, (*avoid, receiver))
                if nodes is not None:
                    return nodes, ()
                full = (*full, partial(self._put, inbox))
        for node in decision.nodes:
            reason = self._outlet.send(node, envelope)
            if reason == "queue_full" and envelope.may_wait:
                nodes = self._placed(envelope, (*avoid, node))
                if nodes is not None:
                    return nodes, ()
                if self._waits_for_room:
                    if _is_for_anyone(envelope.message):
                        full = (*full, partial(self._send_somewhere, node, bar or (lambda: avoid)))
                    else:
                        full = (*full, partial(self._outlet.send_when_possible, node))
                    continue
            if reason:
                self.give_up(envelope, reason, self.called(node))
        return decision.nodes, full

    # -- choosing by a rule of the contract

    def _choose(self, envelope: Envelope, choice: Choice, is_trial: bool = False) -> None:
        """Name the actor that a message goes to by the rule of its contract, as far as nobody has named another.

        The key travels along as a number: if the actor is gone when the message arrives, the node there chooses anew.
        """
        message = envelope.message
        if choice.choose is Choose.LEAST_LOADED:
            self.candidates.choose_by_load((message.identity, message.version, message.partition))
            return
        if message.receiver_identity or message.distribution:
            return
        actor = self._tables.choose(message.contract, choice, (), is_trial)
        if actor and self._lives_at(actor, message.receiver_node_identity):
            said = extension_of(message)
            extension = (
                Extension(chosen_by=choice.number) if said is NOTHING else replace(said, chosen_by=choice.number)
            )
            # a signature may cover the receiver: this node signs anew
            envelope.go_to(with_extension(message, extension, receiver_identity=actor, signature=b""))

    def _lives_at(self, actor: bytes, node: bytes) -> bool:
        """Tell whether an actor lives at a node; any node will do if none is named."""
        if not node:
            return True
        return actor in self._tables.local if node == self.here else node in self._tables.remote.nodes_of(actor)

    def _choose_for_sender(self, envelope: Envelope) -> None:
        """Choose for a node that knows nothing of the rule: the key is in the body, which this node can read."""
        message = envelope.message
        kind = self.choosers.get((message.identity, message.version))
        if kind is None or message.receiver_node_identity or message.receiver_identity or message.distribution:
            return
        try:
            choice = choice_of(rule_of(kind), payload_from_body(kind, message.body), message)
        except PayloadError:  # whoever gets it says so
            return
        if choice is not None:
            envelope.choice = choice
            self._choose(envelope, choice)

    def _is_chosen_anew(self, envelope: Envelope) -> bool:
        """Choose another actor by the same key, since the one that was chosen is gone; False if nobody chose it."""
        if envelope.choice is None:
            return False
        envelope.go_to(envelope.message.replace(receiver_identity=b"", receiver_node_identity=b""))
        self._choose(envelope, envelope.choice)
        return True

    # -- the express way

    def say_known(self, envelope: Envelope, candidates: Candidates) -> tuple[tuple[bytes, ...], Sequence[Room]]:
        """Pass on a message that begins here and names no receiver, as `say` does; who takes turns was looked up."""
        if candidates.remote.total and candidates.is_remote_turn():
            node = candidates.remote.pick()
            nodes = (node,)
            known, body, key, correlation_id = envelope.known, envelope.body, envelope.key, envelope.correlation_id
            assert known is not None
            line = self._outlet.credit_line(node, known.line)
            has_credit = line is None or (line.has_room and not line.waiters)
            if has_credit and self._outlet.send_known(node, known, body, key, correlation_id, envelope.deadline, line):
                return nodes, ()
            return self._carry_out(Decision((), nodes), envelope)
        actor = candidates.local.only or candidates.local.pick()
        inbox = self._inboxes[actor]
        offered = REFUSED if inbox.putters else inbox.offer(envelope, envelope.size)
        if offered is TAKEN:
            envelope.is_taken = True
            if self._saw_local is not None:
                self._saw_local(envelope.message)
            return NOWHERE
        if self._offered(inbox, envelope, offered) is None:
            return NOWHERE
        moved = self._placed(envelope, (actor,))
        return (moved, ()) if moved is not None else ((), (partial(self._put, inbox),))

    def put_here(self, envelope: Envelope, actor: bytes) -> bool:
        """Put a message that begins here into the inbox of an actor; False says that it takes the way of all."""
        inbox = self._inboxes[actor]
        if inbox.putters or self._saw_local is not None:
            return False
        offered = inbox.offer(envelope, envelope.size)
        return offered is TAKEN or (offered[0] and self._offered(inbox, envelope, offered) is None)

    def only_inbox(self, known: KnownMessage) -> Inbox | None:
        """Give the inbox that all such messages of another node go into; None where each is asked for by itself."""
        candidates = self.candidates.get(known.contract) if known.is_unaddressed and not known.wants_receipt else None
        if candidates is None or not candidates.local.only or self._is_chosen(known):
            return None
        return self._inboxes[candidates.local.only]

    def _is_chosen(self, known: KnownMessage) -> bool:
        """Tell whether an actor here is chosen by a rule of the contract."""
        return bool(self.choosers) and known.contract[:2] in self.choosers

    def take_known(self, envelope: Envelope) -> None:
        """Pass on a message of another node that is known, as `route` does."""
        known, envelope.is_taken = envelope.known, False
        assert known is not None
        candidates = self.candidates.get(known.contract) if known.is_unaddressed else None
        is_late = bool(envelope.deadline) and self.timing.clock() >= envelope.deadline
        actor = b"" if candidates is None or is_late or self._is_chosen(known) else candidates.local.pick()
        if actor:
            inbox = self._inboxes[actor]
            self.take_offered(inbox, envelope, inbox.offer(envelope, envelope.size))
            return
        self.route(envelope)
        if not envelope.is_taken:
            self.consumed(envelope)

    def take_offered(self, inbox: Inbox, envelope: Envelope, offered: tuple[bool, Sequence[Envelope]]) -> None:
        """Do what follows from the offer of a message of another node; whatever became of it, it is counted."""
        envelope.is_taken = False
        self._offered(inbox, envelope, offered)
        if not envelope.is_taken:  # it does not wait here
            self.consumed(envelope)

    def answer_known(self, envelope: Envelope, payload: Any) -> bool:
        """Send an answer home; False says that nothing was done, and what was returned needs the ordinary way."""
        known = envelope.known
        if known is None or not known.is_answerable:
            return False
        answer = known.answers.get(type(payload)) or (known.answer(payload) if isinstance(payload, Payload) else None)
        if answer is None:
            return False
        node, key, correlation_id = answer.receiver_node, envelope.key, envelope.correlation_id
        if node == self.here:
            home = self.homes.get(answer.receiver) if self._saw_local is None else None  # what is seen needs its bytes
            return home is not None and home.take_answer(answer.contract, key, correlation_id, payload, answer.weigh)
        body = body_from_payload(payload)
        line = self._outlet.credit_line(node, answer.line) if answer.line else None  # counted, and not waited for
        return self._outlet.send_known(node, answer, body, key, correlation_id, envelope.deadline, line)

    def _others(self, envelope: Envelope, full: Collection[bytes]) -> Decision:
        """Give another place than those that are full, for a message that any actor may take."""
        message = envelope.message
        if not _is_for_anyone(message):
            return NOBODY
        return decide(message, self._tables, self.here, full, envelope.came_from, self._hop_limit)

    def _placed(self, envelope: Envelope, full: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
        """Put a message that any actor may take where there is room, beside what is full; gives the nodes that have it.

        None says that no room was found. Nobody is pushed out, and nobody who waits is passed over.
        """
        for _ in range(PLACES_TRIED):
            others = self._others(envelope, full)
            if others.reason:
                return None
            for receiver in others.receivers:
                inbox = self._inboxes[receiver]
                if not inbox.putters and inbox.has_room(envelope.weight_bytes()):
                    self._deliver(receiver, envelope)
                    return ()
            if others.nodes and not self._outlet.send(others.nodes[0], envelope):
                return others.nodes
            full = (*full, *others.receivers, *others.nodes)
        return None

    def elsewhere(self, contract: ContractKey) -> OtherPlaces:
        """Give the line of those who wait for one node with what any actor of a contract may take."""
        line = self.waiting_elsewhere.get(contract)
        if line is None:
            line = self.waiting_elsewhere[contract] = OtherPlaces()
        return line

    def call_away(self, node: bytes = b"", what: bytes = b"") -> None:
        """Call those who wait for a node that is full: another has room, which is named, or routes have changed."""
        for contract, waiting in tuple(self.waiting_elsewhere.items()):
            candidates = self.candidates.get(contract)
            if candidates is None:
                if not waiting:  # of a contract that is there, somebody may be about to wait
                    del self.waiting_elsewhere[contract]
            elif not node and candidates.local.total:
                waiting.call(MOST_CALLED)
            elif contract[0] == what or not node:
                for each in (node,) if node else tuple(candidates.remote):
                    waiting.call(self._room_at(each, contract[0]) if candidates.remote.weight(each) else 0)

    def call_here(self, contracts: Iterable[ContractKey]) -> None:
        """Call those who wait for another node: an actor of this node that handles these contracts is idle."""
        for contract in contracts:
            waiting = self.waiting_elsewhere.get(contract)
            if waiting:
                waiting.call(MOST_CALLED)

    def _room_at(self, node: bytes, what: bytes) -> int:
        """Give how many messages a node has room for, beside those that wait for it."""
        if self._outlet.is_full(node):  # who waits for room in its queue would be called to where it waits
            return 0
        line = self._outlet.credit_line(node, what)
        if line is None:
            return MOST_CALLED
        return line.room() if line.has_room and not line.waiters else 0

    async def _send_somewhere(self, node: bytes, bar: Barred, envelope: Envelope) -> str:
        """Wait for room at one node until it takes the message, or another place that it may go to has room for it."""
        message, gone = envelope.message, set[bytes]()
        while True:
            elsewhere = self.elsewhere((message.identity, message.version, message.partition))
            reason = await self._outlet.send_when_possible(node, envelope, elsewhere)
            if reason not in (ELSEWHERE, "unreachable"):
                return reason
            barred = bar()
            if barred is None:
                return "no_route"
            if reason != ELSEWHERE:
                gone.add(node)  # and is not tried again, as long as this message looks for a place
            nodes = self._placed(envelope, (*barred, *gone, node))
            if nodes is not None:
                (envelope.moved_to,) = nodes or (self.here,)
                return ""
            decision = self._others(envelope, (*barred, *gone, node))
            for receiver in decision.receivers:
                envelope.moved_to = self.here
                inbox = self._deliver(receiver, envelope)
                return "" if inbox is None else await self._put(inbox, envelope)
            if decision.nodes:
                (node,) = decision.nodes
                envelope.moved_to = node
            elif reason != ELSEWHERE:  # the node is gone, and there is no other
                return reason

    async def _put(self, inbox: Inbox, envelope: Envelope) -> str:
        taken, _ = await inbox.put(envelope, envelope.weight_bytes())
        if taken:
            if not envelope.came_from:
                self.see_local(envelope.message)
            self.received(envelope)
        return "" if taken else "closed"

    def _deliver(self, receiver: bytes, envelope: Envelope) -> Inbox | None:
        """Deliver here; a queue that is given back is full, and the sender may wait for it."""
        home = self.homes.get(receiver)
        if home is not None:
            if not envelope.came_from:
                self.see_local(envelope.message)
            home.take(envelope.message)
            envelope.is_taken = True
            return None
        return self._put_into(self._inboxes[receiver], envelope)

    def _put_into(self, inbox: Inbox, envelope: Envelope) -> Inbox | None:
        if envelope.may_wait and inbox.putters:  # behind those who wait already, however large their messages are
            return inbox
        return self._offered(inbox, envelope, inbox.offer(envelope, envelope.weight_bytes()))

    def _offered(self, inbox: Inbox, envelope: Envelope, offered: tuple[bool, Sequence[Envelope]]) -> Inbox | None:
        """Do what follows from an offer; a queue that is given back is full, and the sender may wait for it."""
        taken, pushed_out = offered
        if pushed_out:
            for old in pushed_out:
                self.give_up(old, "queue_full", "pushed out by a newer message")
                self.consumed(old)
        if taken:
            envelope.is_taken = True
            if self._saw_local is not None and not envelope.came_from:
                self._saw_local(envelope.message)
            if envelope.known is None or envelope.known.wants_receipt:
                self.received(envelope)
            return None
        if inbox.overflow is Overflow.WAIT and not inbox.is_closed and envelope.may_wait:
            return inbox
        self.give_up(envelope, "closed" if inbox.is_closed else "queue_full")
        return None

    def consumed(self, envelope: Envelope) -> None:
        """A message of another node waits no longer here: its sender may send another."""
        came_from, known = envelope.came_from, envelope.known
        if came_from:
            line = envelope.arrival_line if known is None else known.line
            self._consumption.take(came_from, line, envelope.size or envelope.size_bytes())

    def waiting_from(self, node: bytes, what: bytes) -> tuple[int, int]:
        """Give the messages and bytes of one node that wait here, of one credit line."""
        waiting = [
            envelope.size_bytes()
            for inbox in self._inboxes.values()
            for envelope in inbox.items()
            if envelope.came_from == node and envelope.arrival_line == what
        ]
        return len(waiting), sum(waiting)

    def is_home(self, message: Message) -> bool:
        """Hand a message from another node to the hub of this node that it names; False if there is none.

        An answer is at home here: it needs no decision, and its time to live does not matter any more.
        """
        home = self.homes.get(message.receiver_identity)
        if home is None or message.receiver_node_identity != self.here:
            return False
        home.take(message)
        return True

    @property
    def sees_local(self) -> bool:
        """Whether messages that stay within the node are captured."""
        return self._saw_local is not None

    def see_local(self, message: Message) -> None:
        """Let the capture know of a message that stays within the node, where that is wanted."""
        if self._saw_local is not None:
            self._saw_local(message)

    def is_answered(self, cause: Message, payload: Payload) -> bool:
        """Hand an answer straight to a hub of this node that waits for it; False says that it takes the way of all."""
        if cause.callback_receiver_node_identity != self.here or self._saw_local is not None:
            return False
        home = self.homes.get(cause.callback_receiver_identity)
        contract = contract_of(payload, cause.partition)
        weigh = weigher_of(type(payload))
        return home is not None and home.take_answer(contract, cause.callback_key, cause.correlation_id, payload, weigh)

    def answer(self, envelope: Envelope, message: Message) -> None:
        """Send an answer home, and remember it where the question may come again."""
        if envelope.message_id:
            self._seen.answered(envelope.message_id, message)
        self.say(Envelope(message, envelope.deadline))

    def is_reached_at(self, node: bytes, uri: str) -> bool:
        """Tell whether a node is talked to at this address."""
        return self._outlet.is_reached_at(node, uri)

    def is_known(self, node: bytes) -> bool:
        """Tell whether a node can be talked to."""
        return node in self._tables.remote

    def trace(self, envelope: Envelope) -> None:
        """Say which way a message would take from here; a node that it would be sent to goes on with the report."""
        if envelope.choice is not None:
            self._choose(envelope, envelope.choice, is_trial=True)
        message = envelope.message
        decision = peek(message, self._tables, self.here, envelope.came_from, self._hop_limit)
        if decision.reason == "unknown_receiver" and self._is_chosen_anew(envelope):
            message = envelope.message
            decision = peek(message, self._tables, self.here, envelope.came_from, self._hop_limit)
        reason, detail = decision.reason, _looked_for(message, decision.reason)
        for node in decision.nodes:
            reason = self._outlet.send(node, envelope)
            if reason == "cannot_carry":
                detail = f"node {shown(node)} reads no V6, so it would handle the message"
        if decision.receivers:
            passed = tuple([(entry.uri, entry.identity) for entry in message.routing])
            way = Way(self.here, self._outlet.uri, decision.receivers, passed)
            self.route(Envelope(spawned(message, way, message.ttl_ticks), envelope.deadline))
        elif reason:
            self.tell_outcome(envelope, Outcome("undelivered", reason, detail))

    def received(self, envelope: Envelope) -> None:
        """A message was taken here: its receipt, where one is wanted."""
        points = envelope.message.callback_points
        if points and RECEIPT in points and not envelope.is_passing:
            self.tell_outcome(envelope, Outcome("received", detail=self.here.hex()))

    def give_up(self, envelope: Envelope, reason: str, detail: str = "") -> None:
        """A message goes no further: a dead letter, and a word to whoever waits for it."""
        self.bury(envelope, reason, detail)
        self.tell_outcome(envelope, Outcome("undelivered", reason, detail))

    def bury(self, envelope: Envelope, reason: str, detail: str = "") -> None:
        """A message goes no further, and whoever waits for it knows."""
        self.dead.add(DeadLetter(reason, detail, envelope.message))

    def unanswered(self, envelope: Envelope, where: str) -> None:
        """A handler returned nothing: told to whoever waits for an answer."""
        if wants_answer(envelope.message):
            self.tell_outcome(envelope, Outcome("failed", NO_ANSWER, where))

    def outcome(self, about: Message, outcome: Outcome) -> Message | None:
        """Give the message that tells who waits what became of another message; None where nobody waits."""
        told = outcome_of(about, outcome, self.here)
        return None if told is None else self.vouched(about, told)

    def vouched(self, about: Message, told: Message) -> Message:
        """Give what is said about a question with the domain that is to sign it."""
        return self._outlet.vouched(about, told)

    def is_vouched(self, about: Message, told: Message) -> bool:
        """Tell whether what is said about a question may be believed; if not, it is a dead letter."""
        if self._outlet.is_vouched(about, told):
            return True
        detail = f"domain {shown(told.domain)} speaks about {words_of(about.contract)}"
        self.dead.add(DeadLetter("no_proof", detail, told))
        return False

    def tell_outcome(self, envelope: Envelope, outcome: Outcome) -> None:
        """Tell whoever waits for a message what became of it."""
        told = self.outcome(envelope.message, outcome)
        if told is not None:
            if envelope.message_id and outcome.kind == "failed":
                self._seen.answered(envelope.message_id, told)
            if envelope.parts:
                told = numbered(told, envelope.parts + 1)
            self.route(Envelope(told))

    def fail(self, envelope: Envelope, error: BaseException, where: str, reason: str = "handler_failed") -> None:
        """A handler raised: a dead letter, and told to whoever waits as data, without a stack."""
        kind, text = type(error).__name__, _text(error)
        detail = f"{where}: {text}" if text else where
        self.dead.add(DeadLetter(reason, f"{detail} ({kind})", envelope.message))
        self.tell_outcome(envelope, Outcome("failed", kind, detail))


def _is_for_anyone(message: Message) -> bool:
    """Tell whether any actor of its contract may take a message."""
    return not (message.distribution or message.receiver_identity or message.receiver_node_identity)


def _looked_for(message: Message, reason: str) -> str:
    """Say whom a message looked for that is not known."""
    if reason == "unknown_node":
        return f"node {text_or_hex(message.receiver_node_identity[:NAME_BYTES])} is not known"
    if reason == "unknown_receiver":
        return f"receiver {text_or_hex(message.receiver_identity[:NAME_BYTES])} is not known"
    return ""


def _text(error: BaseException) -> str:
    """Give what an error says, in one line that can be written, whatever the error is."""
    try:
        return " ".join(str(error)[:MOST_OF_AN_ERROR].split()).encode(errors="replace").decode()
    except BaseException:  # also SystemExit, raised by whatever gives the text
        return ""

"""Questions of programs that are no nodes, and the way home for their answers.

Such a program knows the wire formats and ZeroMQ, and says no hello. Its question names a callback node that nobody has
met, or none at all. So its answer can go only one way: back over the connection that the question came over.

    a question comes over connection C, for hub X on node Y, key 7: nobody has met Y
    it goes on as a question of this node, for the receiver FOREIGN, with a key that was drawn here: 4711
    the answer to 4711 comes home, from an actor here or elsewhere: it is sent over C, for hub X on node Y, key 7

Nothing that the question says decides where its answer goes, but the connection alone. Whoever names a node that is
met, or a hub that is known, as the callback is no such program: the answer takes its ordinary way to that node.

| bound | why |
|---|---|
| `EACH`, `ALL` questions | one connection, and all of them; beyond, a question is refused and told so |
| `MOST_BYTES` of callback data | they are remembered |
| `LONGEST_SECONDS`, or the time to live | an answer that does not come is told, and forgotten |
| the queue of the connection | who does not read gets no more (`streams.py`) |

What becomes of a question that gets no answer is told in the words that the program waits for: `KINO.EXCEPTION` if that
is among its callback points, as the original has it, and `hopwire.outcome` if not. `KINO.RCPTCONFIRM` is a receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from hopwire.errors import DeliveryError, NoRoute, PayloadError, Timeout, UnexpectedAnswer
from hopwire.model import CallbackPoint, Contract, Message, Payload, body_from_payload, payload_from_body
from hopwire.model.limits import Limits
from hopwire.model.names import FOREIGN, is_hub
from hopwire.model.outcome import Outcome
from hopwire.model.payload import Weigh
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.deadlines import Deadlines, Group
from hopwire.node.foreign_peers import EXCEPTION_POINT, RECEIPT_POINT, ForeignPeers
from hopwire.node.post import Outgoing
from hopwire.node.promise import ERRORS
from hopwire.node.spawn import NO_ANSWER, OUTCOME, RECEIPT, STREAM, seconds_from_ticks, ticks_from_seconds, words_of
from hopwire.node.timing import Timing
from hopwire.node.transport import ADOPTED, Frames, Transport
from hopwire.routing import Tables
from hopwire.wire import VERSIONS, WireFormat, recognise
from hopwire.wire.exception_body import RaisedError, write_exception

__all__ = ["Abroad", "Surroundings"]

EACH, ALL = 1_000, 10_000  # questions that are open
MOST_BYTES = 4096  # of the callback data of one question, with its correlation id
LONGEST_SECONDS, SHORTEST_SECONDS = 60.0, 0.001
MOST_SECONDS = 1e9  # of a time to live: the ticks of the answer fit into their field
POINT_BYTES = 64  # that a callback point takes beside its bytes
SPECIAL = frozenset((RECEIPT, STREAM, EXCEPTION_POINT, RECEIPT_POINT))  # points that no payload of a handler answers
RAISED: Mapping[str, type[DeliveryError]] = {**ERRORS, NO_ANSWER: UnexpectedAnswer, "timed_out": Timeout}
GONE = frozenset(("unreachable", "queue_full", "closed"))  # reasons for which nothing more can be said


class Surroundings(NamedTuple):
    """What questions from abroad need of their node."""

    here: bytes
    transport: Transport
    outgoing: Outgoing
    tables: Tables
    dead: DeadLetters
    timing: Timing
    limits: Limits
    new_key: Callable[[], int]
    answers: bool  # whether programs are answered that this node did not dial
    is_signing: bool


class ForeignQuestion(msgspec.Struct):
    """A question of a program that is no node, and the way home."""

    connection: bytes
    address: str
    name: bytes  # of the program, for captures
    fmt: WireFormat
    contract: Contract
    correlation_id: bytes
    receiver: bytes
    node: bytes
    key: int
    points: tuple[CallbackPoint, ...]
    trace_options: int
    deadline: float  # on the clock of the node; 0 if the question has no time to live
    ending: Group[int]
    is_received: bool = False

    @property
    def wants_receipt_only(self) -> bool:
        """Whether nothing but a receipt is waited for."""
        return all(point in SPECIAL for point in self.points)


class Abroad:
    """Lets questions of programs that are no nodes in, and their answers out."""

    def __init__(self, surroundings: Surroundings, peers: ForeignPeers) -> None:
        self._around, self._peers = surroundings, peers
        self._questions: dict[int, ForeignQuestion] = {}  # by the key that was drawn here
        self._of: dict[bytes, dict[int, None]] = {}  # the same, by connection
        self._deadlines: Deadlines[int] = Deadlines(self._time_out)

    def __len__(self) -> int:
        return len(self._questions)

    def sent_late(self, key: int, nodes: tuple[bytes, ...]) -> None:
        """Nothing depends on where a question went: its answer comes home, or its time is over."""

    # -- what comes in

    def name_of(self, connection: bytes) -> bytes:
        """Give the name of the foreign peer at the other end, as captures show it; nothing of anybody else."""
        peer = self._peers.at(connection)
        return b"" if peer is None else peer.identity

    def admit(self, message: Message, frames: Frames, connection: bytes) -> Message | None:
        """Give a message as the router takes it; nothing where it goes no further."""
        message = self._peers.restored(message)
        if self._is_question(message, connection):
            return self._open(message, recognise(frames, self._around.limits), connection)
        return message

    def _is_question(self, message: Message, connection: bytes) -> bool:
        """Tell whether the answer to a message can go home over its connection only, and may."""
        receiver, node = message.callback_receiver_identity, message.callback_receiver_node_identity
        if not receiver or message.extensions or is_hub(message.receiver_identity):
            return False
        if not _points_here(message.callback_points):  # nobody waits for an answer or a receipt
            return False
        around, peer = self._around, self._peers.at(connection)
        if peer is None and not (around.answers and (message.signature or not around.is_signing)):
            return False
        if node:
            is_own = peer is not None and node == peer.identity
            return node != around.here and (is_own or node not in around.tables.remote)
        return receiver not in around.tables.local and not around.tables.remote.nodes_of(receiver)

    def refuse(self, message: Message, frames: Frames, connection: bytes, reason: str) -> None:
        """Tell whoever asked in V3 or V4 that a version is spelled in a way which no number stands for."""
        if self._is_question(message, connection):
            points = [point for point in message.callback_points if point.version in VERSIONS]
            numbered = [CallbackPoint(each.identity, VERSIONS[each.version], each.partition) for each in points]  # type: ignore[index]
            asked = message.replace(callback_points=tuple(numbered))
            question = self._question(asked, recognise(frames, self._around.limits), connection)
            if question is not None:
                self._tell(question, Outcome("undelivered", reason))

    def _question(self, message: Message, fmt: WireFormat, connection: bytes) -> ForeignQuestion | None:
        """Give what is remembered of a question; nothing if there is no way home."""
        around, peer = self._around, self._peers.at(connection)
        address = around.transport.adopt(connection) if peer is None else peer.uri
        if not address:
            around.dead.add(DeadLetter("unreachable", "its connection has ended, or too many others ask", message))
            return None
        seconds = min(seconds_from_ticks(message.ttl_ticks), MOST_SECONDS)
        return ForeignQuestion(
            connection,
            address,
            self.name_of(connection) or message.socket_identity,
            fmt,
            message.contract,
            message.correlation_id,
            message.callback_receiver_identity,
            message.callback_receiver_node_identity,
            message.callback_key,
            message.callback_points,
            message.trace_options,
            around.timing.clock() + seconds if seconds > 0 else 0.0,
            {},
        )

    def _open(self, message: Message, fmt: WireFormat, connection: bytes) -> Message | None:
        """Remember a question, and give it as one of this node; nothing if it is refused."""
        around, question = self._around, self._question(message, fmt, connection)
        if question is None:
            return None
        if refusal := self._refusal(question):
            around.dead.add(DeadLetter(*refusal, message))
            self._tell(question, Outcome("undelivered", *refusal))
            return None
        while (key := around.new_key()) in self._questions:
            pass
        seconds = seconds_from_ticks(message.ttl_ticks) if message.ttl_ticks > 0 else LONGEST_SECONDS
        seconds = min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)
        question.ending = self._deadlines.add(key, around.timing.clock(), seconds)
        self._questions[key] = question
        self._of.setdefault(connection, {})[key] = None
        return message.replace(
            callback_points=_points_here(question.points),
            callback_key=key,
            callback_receiver_identity=FOREIGN,
            callback_receiver_node_identity=around.here,
            signature=b"",  # it was believed, and this node signs what it passes on
        )

    def _refusal(self, question: ForeignQuestion) -> tuple[str, str] | None:
        size = len(question.receiver) + len(question.node) + len(question.correlation_id)
        for point in question.points:
            size += POINT_BYTES + len(point.identity) + len(point.partition)
        if size > MOST_BYTES:
            return "too_many_bytes", f"callback data of {size} bytes, at most {MOST_BYTES} are remembered"
        if len(self._of.get(question.connection, ())) >= EACH:
            return "queue_full", f"{EACH} questions of one connection wait for their answers"
        if len(self._questions) >= ALL:
            return "queue_full", f"{ALL} questions of programs that are no nodes wait for their answers"
        return None

    # -- what goes home

    def take(self, message: Message) -> None:
        """Take an answer, or what became of a question, and send it over the connection that the question came over."""
        key, dead = message.callback_key, self._around.dead
        question = self._questions.get(key)
        if question is None:
            dead.add(DeadLetter("nobody_waits", "", message))
        elif message.correlation_id != question.correlation_id:
            dead.add(DeadLetter("wrong_flow", "", message))
        elif message.contract == OUTCOME:
            self._take_outcome(key, question, message)
        elif CallbackPoint(*message.contract) not in question.points:
            dead.add(DeadLetter("unexpected_answer", "", message))
        else:
            self._close(key)
            reason = self._send(question, message, _without_receipts(question.points))
            if reason and reason not in GONE:  # a version that the format does not spell, or no key
                self._tell(question, Outcome("undelivered", reason, "the answer could not be written"))

    def _take_outcome(self, key: int, question: ForeignQuestion, message: Message) -> None:
        try:
            outcome = payload_from_body(Outcome, message.body)
        except PayloadError as error:
            self._around.dead.add(DeadLetter("bad_payload", str(error), message))
            return
        is_further_on = outcome.contract not in ("", words_of(question.contract))
        if outcome.kind == "received":
            if not question.is_received:
                question.is_received = True
                self._tell_receipt(question, outcome)
            if question.wants_receipt_only:
                self._close(key)
        elif not (outcome.reason == NO_ANSWER and is_further_on):  # another branch of the flow may still answer
            self._close(key)
            self._tell(question, outcome)

    def _tell_receipt(self, question: ForeignQuestion, outcome: Outcome) -> None:
        if RECEIPT_POINT in question.points:
            receipt = Message(RECEIPT_POINT.identity, RECEIPT_POINT.version, body_frames=(b"",))
            if not self._send(question, receipt, (RECEIPT_POINT,)):
                return
        self._send(question, _outcome(outcome), ())

    def _tell(self, question: ForeignQuestion, outcome: Outcome) -> None:
        """Tell a program what became of its question, in the words that it waits for."""
        contract = outcome.contract or words_of(question.contract)
        if EXCEPTION_POINT in question.points:
            body = write_exception(_raised(outcome, contract))
            raised = Message(EXCEPTION_POINT.identity, EXCEPTION_POINT.version, body_frames=(body,))
            reason = self._send(question, raised, _without_receipts(question.points))
            if not reason or reason in GONE:
                return
        told = Outcome(outcome.kind, outcome.reason, outcome.detail, contract, outcome.node or self._around.here)
        self._send(question, _outcome(told), ())

    def _send(self, question: ForeignQuestion, message: Message, points: tuple[CallbackPoint, ...]) -> str:
        """Send a message home; gives a reason where that is not possible."""
        left = question.deadline - self._around.timing.clock() if question.deadline else 0.0
        message = message.replace(
            ttl_ticks=ticks_from_seconds(max(left, SHORTEST_SECONDS)) if question.deadline else 0,
            correlation_id=question.correlation_id,
            receiver_identity=question.receiver,
            receiver_node_identity=question.node,
            callback_points=points,
            callback_key=question.key,
            callback_receiver_identity=question.receiver,
            callback_receiver_node_identity=question.node,
            trace_options=question.trace_options,
            extensions=(),
            socket_identity=b"",
            domain="",
            signature=b"",
        )
        reason = self._around.outgoing.send_abroad(question.address, question.name, message, question.fmt)
        if reason:
            self._around.dead.add(DeadLetter(reason, "to a program that is no node", message))
        return reason

    def returned(self, uri: str, message: Message) -> Message | None:
        """Give a message that could not leave as it was said here; nothing where nobody is to be told."""
        return None if uri.startswith(ADOPTED) else self._peers.returned(uri, message)

    # -- the end

    def _close(self, key: int) -> None:
        question = self._questions.pop(key)
        question.ending.pop(key, None)
        keys = self._of[question.connection]
        del keys[key]
        if not keys:
            del self._of[question.connection]

    def _time_out(self, key: int) -> None:
        question = self._questions.get(key)
        if question is not None:
            self._close(key)
            self._tell(question, Outcome("undelivered", "timed_out", "no answer came in time"))

    def end(self, connection: bytes) -> None:
        """Forget the questions that came over a connection which has ended."""
        for key in tuple(self._of.get(connection, ())):
            self._close(key)

    def stop(self) -> None:
        """Tell all who wait that no answer will come."""
        for key, question in tuple(self._questions.items()):
            self._close(key)
            self._tell(question, Outcome("undelivered", "closed", "the node stops"))
        self._deadlines.end_all()

    # -- the express way, which ends here: each answer is written anew, in the format of its question

    def take_known(self, contract: Contract, key: int, correlation_id: bytes, body: bytes) -> bool:
        """Tell that an answer takes the ordinary way."""
        return False

    def take_answer(
        self, contract: Contract, key: int, correlation_id: bytes, payload: Payload, weigh: Weigh | None
    ) -> bool:
        """Tell that an answer takes the ordinary way."""
        return False


def _points_here(points: tuple[CallbackPoint, ...]) -> tuple[CallbackPoint, ...]:
    """Give the callback points with which a question goes on within the network."""
    receipt = (RECEIPT,) if RECEIPT in points or RECEIPT_POINT in points else ()
    return tuple([point for point in points if point not in SPECIAL]) + receipt


def _without_receipts(points: tuple[CallbackPoint, ...]) -> tuple[CallbackPoint, ...]:
    return tuple([point for point in points if point not in (RECEIPT, RECEIPT_POINT)])


def _outcome(outcome: Outcome) -> Message:
    return Message(OUTCOME.identity, OUTCOME.version, body_frames=(body_from_payload(outcome),))


def _raised(outcome: Outcome, contract: str) -> RaisedError:
    if outcome.kind == "failed" and outcome.reason != NO_ANSWER:
        return RaisedError(outcome.reason, outcome.detail)
    detail = f": {outcome.detail}" if outcome.detail else ""
    return RaisedError(RAISED.get(outcome.reason, NoRoute).__name__, f"{outcome.reason}: {contract}{detail}")

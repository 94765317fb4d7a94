"""A promise: what somebody waits for, and with which error it ends if it is not kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from hopwire.errors import (
    DeliveryError,
    Expired,
    HandlerFailed,
    NoRoute,
    QueueFull,
    SettingsError,
    Timeout,
    UnexpectedAnswer,
    Unreachable,
)
from hopwire.model import CallbackPoint, Contract, Message, Payload, Version, contract_of
from hopwire.model.names import OWN_PREFIX
from hopwire.model.outcome import Outcome
from hopwire.node.envelope import Envelope
from hopwire.node.express import KnownMessage
from hopwire.node.parts import StreamParts
from hopwire.node.spawn import NO_ANSWER, seconds_from_ticks, words_of
from hopwire.report.words import plural

__all__ = [
    "NOTHING",
    "Expected",
    "Promise",
    "expected_of",
    "has_ended",
    "is_kept",
    "judged",
    "own_answer",
    "tell_news",
    "timeout_of",
]

WhyNobody: TypeAlias = Callable[[Contract], str]
Called: TypeAlias = Callable[[bytes], str]
Key: TypeAlias = tuple[bytes, Version, bytes]  # identity, version and partition
OWN_WORDS = OWN_PREFIX.decode()
FOR_GOOD = frozenset(("expired", "cannot_carry", "cannot_sign", "bad_value"))  # no other attempt ends better
ERRORS: Mapping[str, type[DeliveryError]] = {
    "expired": Expired,
    "unreachable": Unreachable,
    "closed": Unreachable,
    "not_met": Unreachable,
    "queue_full": QueueFull,
}


class Expected(NamedTuple):
    """What may come as an answer."""

    types: Mapping[Key, type[Payload]]
    points: tuple[CallbackPoint, ...]


NOTHING = Expected({}, ())


def expected_of(reply: type[Payload] | tuple[type[Payload], ...], partition: bytes) -> Expected:
    """Give what may come as an answer, for a payload class or several."""
    if isinstance(reply, type):
        return _expected_of((reply,), partition)
    replies = reply
    if type(replies) is not tuple or not replies or not all(isinstance(each, type) for each in replies):
        raise SettingsError(f"reply is a payload class, or a tuple of several, found {reply!r:.80}")
    return _expected_of(replies, partition)


@lru_cache(maxsize=1024)  # the same few questions are asked again and again
def _expected_of(replies: tuple[type[Payload], ...], partition: bytes) -> Expected:
    types: dict[Key, type[Payload]] = {contract_of(each, partition): each for each in replies}
    return Expected(types, tuple(CallbackPoint(*contract) for contract in types))


class Promise(msgspec.Struct):
    """Somebody waits for an answer."""

    future: asyncio.Future[Any]
    expected: Mapping[Key, type[Payload]]  # nothing: only a receipt is waited for
    envelope: Envelope | None  # of the question; none where the question was known, and nobody has asked for it
    correlation_id: bytes
    sent_to: tuple[bytes, ...] = ()
    known: KnownMessage | None = None  # of a question without an envelope
    ttl_ticks: int = 0
    key: int = 0
    is_insisted: bool = False  # whether the message is sent until the promise is kept
    news: asyncio.Future[None] | None = None  # done when a receipt came, or the message is lost, since the last attempt
    taken_by: bytes = b""  # the node that the receipt came from
    attempts: int = 0  # of a message that is sent until the promise is kept
    overtaken: int = 0  # attempts that were lost, since later messages arrived
    receipts: int = 0  # since the last attempt
    waited: int = 0  # pauses for the answer after a receipt, each twice as long as the one before
    parts: StreamParts | None = None  # of a stream; the future is done when the stream has ended
    last: str = ""  # what was heard of it and did not end the promise
    is_in_line: bool = False  # whether the question waits here for credit, and was not even written
    counted_at: tuple[bytes, ...] = ()  # nodes whose load it is, where load decides

    @property
    def question(self) -> Message:
        """What was asked; of a question that was known, and has left, without its body."""
        if self.envelope is None:
            envelope = Envelope(None, known=self.known, key=self.key, correlation_id=self.correlation_id)
            envelope.ttl_ticks, self.envelope = self.ttl_ticks, envelope
        return self.envelope.message


def has_ended(promise: Promise) -> bool:
    """Tell whether the producer of a stream knows that nobody takes more, since the end came from there."""
    if not promise.future.done() or promise.future.cancelled():
        return False
    error = promise.future.exception()
    return error is None or isinstance(error, HandlerFailed | Unreachable | NoRoute)


def is_kept(promise: Promise) -> bool:
    """Tell whether a promise has ended with what was asked for."""
    future = promise.future
    return future.done() and not future.cancelled() and future.exception() is None


def tell_news(promise: Promise) -> None:
    """Wake who waits for news of a promise."""
    if promise.news is not None and not promise.news.done():
        promise.news.set_result(None)


def judged(
    promise: Promise, outcome: Outcome, here: bytes, why_nobody: WhyNobody, called: Called
) -> tuple[bool, DeliveryError]:
    """Give the error that an outcome is, and whether a promise ends with it.

    `here` is the node of whoever waits; `why_nobody` says what that node knows about a contract that nobody handles.
    `called` gives a node in words.
    """
    reason, detail = outcome.reason, outcome.detail
    facts = (outcome.contract, outcome.node)
    asked = words_of(promise.question.contract)
    is_further_on = outcome.contract not in ("", asked)
    expected = " or ".join(words_of(Contract(*each)) for each in promise.expected)
    if promise.parts is not None and outcome.contract.startswith(OWN_WORDS):  # what this node says of the stream
        node, where = _whereabouts(promise, called)
        text = f"{asked}: no more of its answers can be asked for{f', {detail}' if detail else where}"
        return True, ERRORS.get(reason, NoRoute)(reason, text, asked, node)
    if outcome.kind == "failed" and reason != NO_ANSWER:
        failed = HandlerFailed(reason, detail, *facts)
        failed.add_note(_where(outcome.contract or asked, outcome.node, here, called))
        return True, failed
    if outcome.kind == "failed":
        text = f"{asked} was handled by {detail}, which returned nothing, expected {expected}"
        return not is_further_on and promise.attempts < 2, UnexpectedAnswer(NO_ANSWER, text, *facts)
    if reason == "no_route" and is_further_on:
        text = f"{asked} was answered with {outcome.contract}, which nobody takes, expected {expected}"
        return promise.attempts < 2, UnexpectedAnswer("unexpected_answer", text, *facts)
    is_last_word = not promise.is_insisted or reason in FOR_GOOD
    text = _undelivered(promise, outcome, asked, here, called)
    if is_last_word and reason == "no_route" and outcome.node == here and not promise.question.receiver_node_identity:
        text = why_nobody(promise.question.contract)
    return is_last_word, ERRORS.get(reason, NoRoute)(reason, text, *facts)


def _undelivered(promise: Promise, outcome: Outcome, asked: str, here: bytes, called: Called) -> str:
    """Say which message went no further, and where."""
    what, detail = outcome.contract or asked, outcome.detail
    where = _where(what, outcome.node, here, called)
    if outcome.reason == "no_route" and outcome.node not in (b"", here):
        where = f"nobody handles {what} at node {called(outcome.node)}, which was asked"
    if outcome.reason == "unreachable" and detail and outcome.node == here:
        return f"{what} could not be sent to {detail}"
    return f"{where}: {detail}" if detail else where


def _where(what: str, node: bytes, here: bytes, called: Called) -> str:
    """Say which message it was, and at which node, if that is known."""
    if not node:
        return what
    return f"{what} at {called(node) if node != here else 'this node'}"


def timeout_of(promise: Promise, called: Called) -> Timeout:
    """Give the error of a promise whose time is over."""
    asked, seconds = words_of(promise.question.contract), seconds_from_ticks(promise.question.ttl_ticks)
    text = f"no {'answer to' if promise.expected else 'receipt for'} {asked} in {seconds:g} s"
    node, where = _whereabouts(promise, called)
    if promise.parts is not None:
        missing = promise.parts.missing()
        lost = f"; part {missing} is missing" if missing else ""
        return Timeout("timed_out", f"no end of the answers to {asked} in {seconds:g} s{where}{lost}", asked, node)
    text += where
    if promise.last or promise.attempts > 1:
        text += f"; last: {promise.last or 'nothing heard'} ({plural(max(1, promise.attempts), 'attempt')})"
    return Timeout("timed_out", text, asked, node)


def _whereabouts(promise: Promise, called: Called) -> tuple[bytes, str]:
    """Give the node that has a question, as far as that is known and another than this one, and words for it."""
    if promise.taken_by:
        return promise.taken_by, f"; taken by {called(promise.taken_by)}"
    if len(promise.sent_to) == 1:
        return promise.sent_to[0], f"; sent to {called(promise.sent_to[0])}"
    return b"", ""


def own_answer(payload: Payload) -> SettingsError:
    """Give the error of a question that would be its own answer."""
    name = words_of(contract_of(payload))
    return SettingsError(
        f"{name} is asked for as the answer to {name}: it would come straight home; give the answer a type of its own"
    )

"""A seal signs and judges as `sign` and `verify` do, or says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.model import CallbackPoint, Message
from hopwire.security import Domain, Domains, Key, Listener, Recipient, ReplayWindows, Verdict, sign, verify
from hopwire.security.known_seal import SealedMeta, seal_of, seal_to_sign
from hopwire.wire import encode
from hopwire.wire.known import known_meta

HERE, ELSEWHERE = Recipient(b"here", 5), Recipient(b"elsewhere", 5)
LISTENER = Listener((HERE,), since_ns=100)
SECRET, NONCE = b"a secret of thirty-two bytes, or", b"0123456789abcdef"
QUESTION = Message(
    b"orders.ping",
    body_frames=(b"body",),
    correlation_id=b"c" * 36,
    callback_points=(CallbackPoint(b"orders.pong"),),
    callback_key=5,
    callback_receiver_identity=b"\0hub",
    callback_receiver_node_identity=b"node",
    ttl_ticks=7,
    hops=1,
    domain="orders",
)
NUMBERS = st.integers(0, 2**63 - 1)


def orders(scheme: str, *keys: Key) -> Domains:
    return Domains([Domain("orders", keys or [Key("k", SECRET)], ["orders.*"], scheme=scheme)])


@given(st.sampled_from(("hopwire-1", "hopwire-2")), NUMBERS, st.binary(min_size=36, max_size=36), NUMBERS, st.binary())
def test_a_seal_signs_as_the_law_does(scheme: str, key: int, correlation_id: bytes, ttl: int, body: bytes) -> None:
    domains = orders(scheme)
    seal = seal_to_sign(QUESTION, domains, 1000, HERE)
    assert seal is not None
    message = QUESTION.replace(callback_key=key, correlation_id=correlation_id, ttl_ticks=ttl, body_frames=(body,))
    signed = sign(message, domains, 1000, NONCE, HERE)
    meta = known_meta(QUESTION.replace(signature=bytes(seal.size)))
    assert meta is not None
    written = SealedMeta(meta, seal).write(key, correlation_id, ttl, body, 1000, NONCE)
    assert written == encode(signed)[-1]
    other = seal_of(signed, domains, LISTENER)
    assert other is not None
    replay = ReplayWindows(10**18, 10)
    judged = (signed.signature, key, correlation_id, ttl, body, 1001, replay, LISTENER.since_ns)
    assert other.is_valid(*judged)
    assert not other.is_valid(*judged), "a message is believed once"


@given(st.sampled_from(("hopwire-1", "hopwire-2")), st.data())
def test_what_a_seal_believes_the_law_believes(scheme: str, data: st.DataObject) -> None:
    domains = orders(scheme, Key("k", SECRET, not_before_ns=50, not_after_ns=5000))
    sent_at_ns = data.draw(st.sampled_from((60, 100, 101, 1000, 4999)))
    recipient = data.draw(st.sampled_from((HERE, HERE, HERE, ELSEWHERE)))
    signed = sign(QUESTION, domains, sent_at_ns, NONCE, recipient)
    first = sign(QUESTION, domains, 1000, NONCE, HERE)
    seal = seal_of(first, domains, LISTENER)
    assert seal is not None
    signature = bytearray(signed.signature)
    if data.draw(st.booleans()):
        signature[data.draw(st.integers(0, len(signature) - 1))] ^= data.draw(st.integers(0, 255))
    body, ttl = data.draw(st.sampled_from((b"body", b"bodY"))), data.draw(st.sampled_from((7, 6, 0, 8, -1)))
    at_ns = data.draw(st.sampled_from((900, 1001, 4999, 5000, 10**6)))
    message = QUESTION.replace(signature=bytes(signature), ttl_ticks=ttl, body_frames=(body,))
    is_believed = seal.is_valid(
        message.signature, 5, b"c" * 36, ttl, body, at_ns, ReplayWindows(3000, 10), LISTENER.since_ns
    )
    assert is_believed is (verify(message, domains, at_ns, ReplayWindows(3000, 10), LISTENER) is Verdict.VALID)


def test_a_seal_ends_with_its_key_and_with_the_turn_of_another() -> None:
    first, second = Key("first", SECRET, not_before_ns=2000), Key("second", SECRET)
    domains = orders("hopwire-2", first, second)
    seal = seal_to_sign(QUESTION, domains, 1000, HERE)
    assert seal is not None
    for at_ns, is_signed in ((1000, True), (1999, True), (2000, False), (3000, False), (1500, True)):
        assert seal.is_current(at_ns) is is_signed


@pytest.mark.parametrize(
    "domains",
    [
        orders("legacy"),
        Domains([Domain("orders", [Key("k", SECRET)], ["orders.*"], unsigned=["orders.ping"])]),
        Domains([Domain("others", [Key("k", SECRET)], ["orders.*"])]),
        orders("hopwire-2", Key("k", SECRET, not_before_ns=2000)),
    ],
)
def test_what_is_not_signed_with_a_stamp_has_no_seal(domains: Domains) -> None:
    assert seal_to_sign(QUESTION, domains, 1000, HERE) is None


def test_what_was_signed_for_another_process_has_no_seal() -> None:
    domains = orders("hopwire-2")
    assert seal_of(sign(QUESTION, domains, 1000, NONCE, ELSEWHERE), domains, LISTENER) is None

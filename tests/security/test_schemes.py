"""The schemes, byte for byte: what is signed, and how a signature is written."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.errors import SecurityError
from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.security import (
    ANYONE,
    SCHEMES,
    Domain,
    Domains,
    Key,
    Recipient,
    Stamp,
    Verdict,
    mac,
    read_signature,
    sign,
    verify,
)
from hopwire.security import signed_bytes as bytes_to_sign
from hopwire.security.batch_verdicts import verify_batch
from hopwire.security.schemes import stamp_bytes
from hopwire.wire import decode, decode_batch

VECTORS = [json.loads(line) for line in (Path(__file__).parents[1] / "vectors" / "mac.jsonl").read_text().splitlines()]
NAMES = [f"{place}-{vector['format']}-{vector['name']}-{vector['alg']}" for place, vector in enumerate(VECTORS)]
BODY_RULE = bytes((place * 31 + 7) & 255 for place in range(256))

STAMP = Stamp("k1", 1_700_000_000_000_000_000, 300_000_000, bytes(range(16)))


def message_from(vector: dict[str, Any]) -> Message:
    fields = vector["fields"]
    body, version = fields["body"], fields["version"]
    return Message(
        identity=bytes.fromhex(fields["identity"]),
        version=bytes.fromhex(version) if isinstance(version, str) else version,
        partition=bytes.fromhex(fields["partition"] or ""),
        body_frames=(BODY_RULE * (body["len"] // 256) if isinstance(body, dict) else bytes.fromhex(body),),
        callback_receiver_identity=bytes.fromhex(fields["callback_receiver_identity"] or ""),
    )


def test_all_vectors_are_there() -> None:
    assert len(VECTORS) == 164


def test_legacy_gives_and_takes_the_bytes_of_the_origin() -> None:
    for name, vector in zip(NAMES, VECTORS, strict=True):
        message, signature = message_from(vector), bytes.fromhex(vector["signature"])
        data, expected = bytes_to_sign(message, "legacy"), vector["signed_bytes"]
        if isinstance(expected, dict):
            assert (len(data), hashlib.sha256(data).hexdigest()) == (expected["len"], expected["sha256"]), name
        else:
            assert data.hex() == expected, name
        key = Key(vector["key_name"], bytes.fromhex(vector["key"]))
        algorithm = vector["alg"].removeprefix("HMAC-").lower()
        domains = Domains([Domain(vector["domain"], [key], ["*"], "legacy", algorithm)])
        signed = sign(message, domains, 0, b"")
        assert (signed.signature, signed.domain) == (signature, vector["domain"]), name
        assert verify(signed, domains) is Verdict.VALID, name
        wrong = signature[:-1] + bytes([signature[-1] ^ 1])
        assert verify(signed.replace(signature=wrong), domains) is Verdict.INVALID, name


def test_legacy_joins_several_body_frames() -> None:
    one, two = Message(b"M", body_frames=(b"AB",)), Message(b"M", body_frames=(b"A", b"B"))
    assert bytes_to_sign(one, "legacy") == bytes_to_sign(two, "legacy")


def field(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


FULL = Message(
    identity=b"orders.new",
    version=3,
    partition=b"eu",
    body_frames=(b"first", b""),
    correlation_id=b"flow-1",
    receiver_identity=b"actor",
    receiver_node_identity=b"node",
    callback_points=(CallbackPoint(b"orders.done", 2, b"eu"), CallbackPoint(b"error", b"1.0")),
    callback_key=-7,
    callback_receiver_identity=b"hub",
    callback_receiver_node_identity=b"home",
    hops=4,
    routing=(RoutingEntry("tcp://é:1", b"first"), RoutingEntry("", b"")),
    trace_options=1,
    distribution=1,
    domain="orders",
    extensions=(b"HWX\x01\x80", b"of others", b""),
)
PLAIN = [
    *(b"orders.new", b"n" + struct.pack("<q", 3), b"eu"),
    *(b"flow-1", b"actor", b"node", b"hub", b"home"),
    *(b"orders.done", b"n" + struct.pack("<q", 2), b"eu"),
    *(b"error", b"r1.0", b""),
]


def test_hopwire_1_signs_what_its_document_says() -> None:
    fields = [b"hopwire-1 message", b"<stamp>", b"orders", struct.pack("<qqqqq", 1, 1, -7, 2, 2), *PLAIN, b"first", b""]
    assert bytes_to_sign(FULL, "hopwire-1", b"<stamp>") == b"".join(map(field, fields))


def test_hopwire_2_signs_what_its_document_says() -> None:
    fields = [
        b"hopwire-2 message",
        b"<stamp>",
        b"orders",
        struct.pack("<qqqqqqqq", 1, 1, -7, 2, 2, 4, 2, 3),
        *PLAIN,
        *("tcp://é:1".encode(), b"first", b"", b""),
        *(b"HWX\x01\x80", b"of others", b""),
        *(b"first", b""),
    ]
    assert bytes_to_sign(FULL, "hopwire-2", b"<stamp>") == b"".join(map(field, fields))


GOLDEN = json.loads((Path(__file__).parents[1] / "vectors" / "hopwire-2.json").read_text())


@pytest.mark.parametrize("vector", GOLDEN, ids=[vector["name"] for vector in GOLDEN])
def test_hopwire_2_gives_and_takes_the_signatures_that_it_always_gave(vector: dict[str, Any]) -> None:
    message = decode(message_frames(vector))
    assert message.signature.hex() == vector["signature"]
    key = Key(vector["key_id"], bytes.fromhex(vector["secret"]))
    domains = Domains([Domain(vector["domain"], [key], ["*"], "hopwire-2")])
    recipient = Recipient(bytes.fromhex(vector["node"]), vector["incarnation"])
    nonce = bytes.fromhex(vector["nonce"])
    bare = message.replace(signature=b"", domain="", ttl_ticks=vector["ttl_ticks"])
    assert sign(bare, domains, vector["sent_at_ns"], nonce, recipient).signature == message.signature
    assert verify(message, domains, vector["sent_at_ns"]) is Verdict.VALID
    found = verify_batch(decode_batch(pa.array([message_frames(vector)])), domains, pa.array([vector["sent_at_ns"]]))
    assert found.to_pylist() == ["valid"]


def message_frames(vector: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(frame) for frame in vector["frames"]]


def test_the_signature_of_one_message_stays_what_it_is_for_ever() -> None:
    domains = Domains([Domain("orders", [Key("k1", b"0123456789abcdef")], ["orders.*"], "hopwire-1")])
    message = Message(b"orders.new", body_frames=(b"hello",), ttl_ticks=STAMP.ttl_ticks)
    signature = sign(message, domains, STAMP.sent_at_ns, STAMP.nonce).signature
    stamp = "48575301026b3100002a36fe9c971700a3e11100000000000102030405060708090a0b0c0d0e0f"
    assert signature[:-32].hex() == stamp
    assert signature[-32:].hex() == "f74b1503d159c2ac118a0042736b0269eda7a7cfd507c8e4ccad02fb8087167e"


STAMPED = [name for name, scheme in SCHEMES.items() if scheme.has_stamp]


@pytest.mark.parametrize("scheme", STAMPED)
def test_a_shifted_field_boundary_shows_in_hopwire_1_only(scheme: str) -> None:
    one = Message(b"M", partition=b"P", body_frames=(b"AB",))
    two = Message(b"M", partition=b"PA", body_frames=(b"B",))
    assert bytes_to_sign(one, "legacy") == bytes_to_sign(two, "legacy")
    assert bytes_to_sign(one, scheme) != bytes_to_sign(two, scheme)


@pytest.mark.parametrize("scheme", STAMPED)
def test_a_number_and_the_same_number_as_raw_bytes_differ_where_there_is_a_stamp(scheme: str) -> None:
    number, raw = Message(b"M", version=1), Message(b"M", version=b"\x01\x00")
    assert bytes_to_sign(number, "legacy") == bytes_to_sign(raw, "legacy")
    assert bytes_to_sign(number, scheme) != bytes_to_sign(raw, scheme)


@pytest.mark.parametrize("scheme", STAMPED)
def test_a_callback_point_does_not_pass_for_body_frames(scheme: str) -> None:
    point = Message(b"M", callback_points=(CallbackPoint(b"a", b"", b"b"),), body_frames=(b"c",))
    frames = Message(b"M", body_frames=(b"a", b"r", b"b", b"c"))
    assert bytes_to_sign(point, scheme) != bytes_to_sign(frames, scheme)


def test_an_extension_does_not_pass_for_a_body_frame_nor_for_a_part_of_the_way() -> None:
    messages = [
        Message(b"M", extensions=(b"a", b"b")),
        Message(b"M", body_frames=(b"a", b"b")),
        Message(b"M", extensions=(b"a",), body_frames=(b"b",)),
        Message(b"M", routing=(RoutingEntry("a", b"b"),)),
    ]
    assert len({bytes_to_sign(message, "hopwire-2") for message in messages}) == len(messages)


def test_the_signature_of_one_scheme_is_none_of_another_with_the_same_key() -> None:
    for scheme, other in (STAMPED, STAMPED[::-1]):
        domains = Domains([Domain("orders", [Key("k1", b"0123456789abcdef")], ["orders.*"], scheme)])
        signed = sign(Message(b"orders.new"), domains, STAMP.sent_at_ns, STAMP.nonce)
        renumbered = stamp_bytes(STAMP._replace(ttl_ticks=0), other) + signed.signature[-32:]
        assert verify(signed, domains) is Verdict.VALID
        assert verify(signed.replace(signature=renumbered), domains) is Verdict.INVALID


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("version", [-1 << 64, 1 << 64])
def test_a_number_that_fits_no_field_is_refused(scheme: str, version: int) -> None:
    with pytest.raises(SecurityError, match="message 'M' has a number or a text that cannot be signed"):
        bytes_to_sign(Message(b"M", version=version), scheme)


KEY_IDS = st.text("aZ0-é€😀", min_size=1, max_size=16)
NUMBERS = st.integers(0, 2**63 - 1)
STAMPS = st.builds(Stamp, KEY_IDS, NUMBERS, NUMBERS, st.binary(min_size=16, max_size=16), st.just(ANYONE))
RECIPIENTS = st.builds(Recipient, st.binary(max_size=255), NUMBERS)


@settings(deadline=None)
@given(STAMPS, st.binary(min_size=32, max_size=32), RECIPIENTS, st.sampled_from(STAMPED))
def test_a_stamp_is_read_as_it_was_written(stamp: Stamp, code: bytes, recipient: Recipient, reader: str) -> None:
    one, two = stamp_bytes(stamp, "hopwire-1"), stamp_bytes(stamp._replace(recipient=recipient), "hopwire-2")
    assert read_signature(one + code, reader) == ("hopwire-1", stamp, one, code)
    assert read_signature(two + code, reader) == ("hopwire-2", stamp._replace(recipient=recipient), two, code)


@settings(deadline=None)
@given(STAMPS, RECIPIENTS, st.sampled_from(STAMPED), st.data())
def test_a_signature_cut_short_or_with_bytes_added_is_none(
    stamp: Stamp, recipient: Recipient, scheme: str, data: st.DataObject
) -> None:
    signature = stamp_bytes(stamp._replace(recipient=recipient), scheme) + bytes(32)
    length = data.draw(st.integers(0, len(signature) - 1))
    assert read_signature(signature[:length], scheme) is None
    assert read_signature(signature + data.draw(st.binary(min_size=1)), scheme) is None


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"HWS\x01\x01", b"HWS\x02\x01", b"HWS\x02\x01k\x05"]))
def test_garbage_is_never_a_signature_and_never_an_error(garbage: bytes, start: bytes) -> None:
    assert read_signature(garbage, "hopwire-1") is None
    parts = read_signature(start + garbage, "hopwire-1")
    assert parts is None or parts.written + parts.mac == start + garbage


def written(key_id: bytes = b"k", sent_at_ns: int = 0, ttl_ticks: int = 0, magic: bytes = b"HWS\x01") -> bytes:
    return magic + bytes([len(key_id)]) + key_id + struct.pack("<qq", sent_at_ns, ttl_ticks) + bytes(16 + 32)


def bound(node: bytes = b"node", incarnation: int = 0, length: int = 4) -> bytes:
    head = b"HWS\x02\x01k" + bytes([length]) + node + struct.pack("<q", incarnation)
    return head + struct.pack("<qq", 0, 0) + bytes(16 + 32)


def test_a_plain_signature_is_read() -> None:
    stamp = Stamp("k", 0, 0, bytes(16))
    assert read_signature(written(), "hopwire-1") == ("hopwire-1", stamp, written()[:-32], bytes(32))
    to_node = stamp._replace(recipient=Recipient(b"node", 0))
    assert read_signature(bound(), "hopwire-2") == ("hopwire-2", to_node, bound()[:-32], bytes(32))
    parts = read_signature(bound(b"", 0, 0), "hopwire-2")
    assert parts is not None
    assert parts.stamp == stamp
    assert stamp.recipient == ANYONE


# fmt: off
BROKEN = [
    pytest.param(written(magic=b"HWS\x00"), id="no scheme"),
    pytest.param(written(magic=b"HWS\x02"), id="another scheme, whose stamp is longer"),
    pytest.param(written(magic=b"HWS\x03"), id="a scheme of the future"),
    pytest.param(written(magic=b"hws\x01"), id="another magic"),
    pytest.param(written(b""),              id="no key id"),
    pytest.param(written(b"k" * 65),        id="a key id that is too long"),
    pytest.param(written(b"\xff"),          id="a key id that is not UTF-8"),
    pytest.param(written(sent_at_ns=-1),    id="sent before 1970"),
    pytest.param(written(ttl_ticks=-1),     id="a negative TTL"),
    pytest.param(bound(incarnation=-1),     id="a negative incarnation"),
    pytest.param(bound(length=3),           id="a node that is longer than it says"),
    pytest.param(bound(length=255),         id="a node that is shorter than it says"),
]
# fmt: on


@pytest.mark.parametrize("signature", BROKEN)
def test_a_signature_that_breaks_a_rule_is_none(signature: bytes) -> None:
    assert read_signature(signature, "hopwire-1") is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nonce": b"short"}, "a nonce has 16 bytes, found 5"),
        ({"sent_at_ns": -1}, "time -1, TTL 300000000 and incarnation 0 must be 0 to 2**63 - 1"),
        ({"ttl_ticks": 2**63}, f"time {STAMP.sent_at_ns}, TTL {2**63} and incarnation 0 must be 0 to 2**63 - 1"),
        ({"recipient": (b"", -1)}, f"time {STAMP.sent_at_ns}, TTL 300000000 and incarnation -1 must be 0 to 2**63 - 1"),
        ({"recipient": (bytes(256), 0)}, "the node of a recipient has at most 255 bytes, found 256"),
    ],
)
def test_a_stamp_that_could_not_be_read_is_not_written(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SecurityError) as caught:
        stamp_bytes(STAMP._replace(**changes), "hopwire-2")
    assert str(caught.value) == text


@pytest.mark.slow
@settings(deadline=None)
@given(st.binary(min_size=1, max_size=200), st.sampled_from(SCHEMES["legacy"].algorithms), st.binary())
def test_the_mac_is_the_hmac_of_the_standard_library(secret: bytes, algorithm: str, data: bytes) -> None:
    assert mac(secret, algorithm, data) == hmac.digest(secret, data, algorithm)
    assert mac(secret, algorithm, data) == hmac.digest(secret, data, algorithm), "also from the copy that is kept"

"""The schemes, byte for byte: what is signed, and how a signature is written."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.errors import SecurityError
from hopwire.model import CallbackPoint, Message
from hopwire.security import SCHEMES, Domain, Domains, Key, Stamp, Verdict, mac, read_signature, sign, verify
from hopwire.security import signed_bytes as bytes_to_sign
from hopwire.security.schemes import stamp_bytes

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


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_legacy_gives_and_takes_the_bytes_of_the_origin(vector: dict[str, Any]) -> None:
    message, signature = message_from(vector), bytes.fromhex(vector["signature"])
    data, expected = bytes_to_sign(message, "legacy"), vector["signed_bytes"]
    if isinstance(expected, dict):
        assert (len(data), hashlib.sha256(data).hexdigest()) == (expected["len"], expected["sha256"])
    else:
        assert data.hex() == expected
    key = Key(vector["key_name"], bytes.fromhex(vector["key"]))
    algorithm = vector["alg"].removeprefix("HMAC-").lower()
    domains = Domains([Domain(vector["domain"], [key], ["*"], "legacy", algorithm)])
    signed = sign(message, domains, 0, b"")
    assert (signed.signature, signed.domain) == (signature, vector["domain"])
    assert verify(signed, domains) is Verdict.VALID
    wrong = signature[:-1] + bytes([signature[-1] ^ 1])
    assert verify(signed.replace(signature=wrong), domains) is Verdict.INVALID


def test_legacy_joins_several_body_frames() -> None:
    one, two = Message(b"M", body_frames=(b"AB",)), Message(b"M", body_frames=(b"A", b"B"))
    assert bytes_to_sign(one, "legacy") == bytes_to_sign(two, "legacy")


def field(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def test_hopwire_1_signs_what_its_document_says() -> None:
    message = Message(
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
        trace_options=1,
        distribution=1,
        domain="orders",
    )
    fields = [
        b"hopwire-1 message",
        b"<stamp>",
        b"orders",
        struct.pack("<qqqqq", 1, 1, -7, 2, 2),
        *(b"orders.new", b"n" + struct.pack("<q", 3), b"eu"),
        *(b"flow-1", b"actor", b"node", b"hub", b"home"),
        *(b"orders.done", b"n" + struct.pack("<q", 2), b"eu"),
        *(b"error", b"r1.0", b""),
        *(b"first", b""),
    ]
    assert bytes_to_sign(message, "hopwire-1", b"<stamp>") == b"".join(map(field, fields))


def test_the_signature_of_one_message_stays_what_it_is_for_ever() -> None:
    domains = Domains([Domain("orders", [Key("k1", b"0123456789abcdef")], ["orders.*"])])
    message = Message(b"orders.new", body_frames=(b"hello",), ttl_ticks=STAMP.ttl_ticks)
    signature = sign(message, domains, STAMP.sent_at_ns, STAMP.nonce).signature
    stamp = "48575301026b3100002a36fe9c971700a3e11100000000000102030405060708090a0b0c0d0e0f"
    assert signature[:-32].hex() == stamp
    assert signature[-32:].hex() == "f74b1503d159c2ac118a0042736b0269eda7a7cfd507c8e4ccad02fb8087167e"


def test_a_shifted_field_boundary_shows_in_hopwire_1_only() -> None:
    one = Message(b"M", partition=b"P", body_frames=(b"AB",))
    two = Message(b"M", partition=b"PA", body_frames=(b"B",))
    assert bytes_to_sign(one, "legacy") == bytes_to_sign(two, "legacy")
    assert bytes_to_sign(one, "hopwire-1") != bytes_to_sign(two, "hopwire-1")


def test_a_number_and_the_same_number_as_raw_bytes_differ_in_hopwire_1_only() -> None:
    number, raw = Message(b"M", version=1), Message(b"M", version=b"\x01\x00")
    assert bytes_to_sign(number, "legacy") == bytes_to_sign(raw, "legacy")
    assert bytes_to_sign(number, "hopwire-1") != bytes_to_sign(raw, "hopwire-1")


def test_a_callback_point_does_not_pass_for_body_frames() -> None:
    point = Message(b"M", callback_points=(CallbackPoint(b"a", b"", b"b"),), body_frames=(b"c",))
    frames = Message(b"M", body_frames=(b"a", b"r", b"b", b"c"))
    assert bytes_to_sign(point, "hopwire-1") != bytes_to_sign(frames, "hopwire-1")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("version", [-1 << 64, 1 << 64])
def test_a_number_that_fits_no_field_is_refused(scheme: str, version: int) -> None:
    with pytest.raises(SecurityError, match="message 'M' has a number or a text that cannot be signed"):
        bytes_to_sign(Message(b"M", version=version), scheme)


KEY_IDS = st.text("aZ0-é€😀", min_size=1, max_size=16)
STAMPS = st.builds(
    Stamp, KEY_IDS, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.binary(min_size=16, max_size=16)
)


@settings(deadline=None)
@given(STAMPS, st.binary(min_size=32, max_size=32))
def test_a_stamp_is_read_as_it_was_written(stamp: Stamp, code: bytes) -> None:
    written = stamp_bytes(stamp)
    assert read_signature(written + code, "hopwire-1") == (stamp, written, code)


@settings(deadline=None)
@given(STAMPS, st.data())
def test_a_signature_cut_short_or_with_bytes_added_is_none(stamp: Stamp, data: st.DataObject) -> None:
    signature = stamp_bytes(stamp) + bytes(32)
    length = data.draw(st.integers(0, len(signature) - 1))
    assert read_signature(signature[:length], "hopwire-1") is None
    assert read_signature(signature + data.draw(st.binary(min_size=1)), "hopwire-1") is None


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_never_a_signature_and_never_an_error(garbage: bytes) -> None:
    assert read_signature(garbage, "hopwire-1") is None
    likely = b"HWS\x01\x01" + garbage
    parts = read_signature(likely, "hopwire-1")
    assert parts is None or parts.written + parts.mac == likely


def written(key_id: bytes = b"k", sent_at_ns: int = 0, ttl_ticks: int = 0, magic: bytes = b"HWS\x01") -> bytes:
    return magic + bytes([len(key_id)]) + key_id + struct.pack("<qq", sent_at_ns, ttl_ticks) + bytes(16 + 32)


def test_a_plain_signature_is_read() -> None:
    assert read_signature(written(), "hopwire-1") == (Stamp("k", 0, 0, bytes(16)), written()[:-32], bytes(32))


# fmt: off
BROKEN = [
    pytest.param(written(magic=b"HWS\x02"), id="another scheme"),
    pytest.param(written(magic=b"hws\x01"), id="another magic"),
    pytest.param(written(b""),              id="no key id"),
    pytest.param(written(b"k" * 65),        id="a key id that is too long"),
    pytest.param(written(b"\xff"),          id="a key id that is not UTF-8"),
    pytest.param(written(sent_at_ns=-1),    id="sent before 1970"),
    pytest.param(written(ttl_ticks=-1),     id="a negative TTL"),
]
# fmt: on


@pytest.mark.parametrize("signature", BROKEN)
def test_a_signature_that_breaks_a_rule_is_none(signature: bytes) -> None:
    assert read_signature(signature, "hopwire-1") is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nonce": b"short"}, "a nonce has 16 bytes, found 5"),
        ({"sent_at_ns": -1}, "time -1 and TTL 300000000 must be 0 to 2**63 - 1"),
        ({"ttl_ticks": 2**63}, f"time {STAMP.sent_at_ns} and TTL {2**63} must be 0 to 2**63 - 1"),
    ],
)
def test_a_stamp_that_could_not_be_read_is_not_written(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SecurityError) as caught:
        stamp_bytes(STAMP._replace(**changes))
    assert str(caught.value) == text


@pytest.mark.slow
@settings(deadline=None)
@given(st.binary(min_size=1, max_size=200), st.sampled_from(SCHEMES["legacy"].algorithms), st.binary())
def test_the_mac_is_the_hmac_of_the_standard_library(secret: bytes, algorithm: str, data: bytes) -> None:
    assert mac(secret, algorithm, data) == hmac.digest(secret, data, algorithm)
    assert mac(secret, algorithm, data) == hmac.digest(secret, data, algorithm), "also from the copy that is kept"

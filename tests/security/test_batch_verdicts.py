"""The verdicts of a batch are those of its messages, one by one."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from hopwire.model import Message
from hopwire.security import ALWAYS, ANYONE, OPEN, SCHEMES, Domain, Domains, Key, Recipient, Verdict, sign, verify
from hopwire.security.batch_verdicts import JUDGES, WRITERS, verify_batch
from hopwire.wire import FORMATS, decode, decode_batch, encode
from hopwire.wire.arrow import batch_from_messages, messages_from_batch
from hopwire.wire.samples import sample_message
from hopwire.wire.schema import WireFormat

NOW = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000
OLD, NEW, LONG = (
    Key("2023", b"the key of 2023, retired", None, NOW + HOUR),
    Key("2024", b"the key of 2024, in use.", NOW - HOUR),
    Key("key of another länge", b"x" * 200, NOW, NOW + 2 * HOUR),
)
ALGORITHMS = ("md5", "sha1", "sha256", "sha512")


def domains(algorithm: str, *, is_legacy: bool, scheme: str = "hopwire-2") -> Domains:
    orders = ("legacy", algorithm) if is_legacy else (scheme, "sha256")
    return Domains(
        [
            Domain("orders", [OLD, NEW], ["orders.*"], *orders, unsigned=["orders.cancel"]),
            Domain("stock", [LONG, OLD], ["stock.*"], "legacy", algorithm),
            Domain("billing", [NEW, LONG], ["billing.*"], scheme),
            Domain("none", [], unsigned=ALWAYS),
        ]
    )


def spoiled(message: Message, chance: Random, *, has_body_run: bool) -> Message:
    """Change one thing of a signed message that its format still carries, or nothing."""
    signature = message.signature
    cut = chance.randrange(0, len(signature) + 1)
    flipped = signature[:cut] + bytes(byte ^ 1 << chance.randrange(0, 8) for byte in signature[cut : cut + 1])
    changes: list[dict[str, object]] = [
        {},
        {},
        {},
        {"signature": b""},
        {"signature": signature[:cut]},
        {"signature": flipped + signature[cut + 1 :]},
        {"signature": signature + b"\0"},
        {"domain": ""},
        {"domain": "elsewhere"},
        {"domain": "stock"},
        {"domain": "none"},
        {"domain": "", "signature": b""},
        {"identity": b"nobody's"},
        {"partition": message.partition + b"x"},
        {"body_frames": (*message.body_frames, b"") if has_body_run else (b"",)},
        {"ttl_ticks": 0},
        {"ttl_ticks": message.ttl_ticks + 1},
        {"ttl_ticks": message.ttl_ticks // 2},
        {"callback_points": message.callback_points[:1]},
        {"callback_key": message.callback_key + 1},
        {"correlation_id": b"other"},
        {"hops": message.hops + 1},
        {"routing": message.routing[1:]},
        {"extensions": message.extensions[1:]},
        {"extensions": (*message.extensions, b"HWX\x01\x80")},
    ]
    return message.replace(**chance.choice(changes))


def signed_message(fmt: WireFormat, known: Domains, chance: Random) -> Message:
    message = sample_message(fmt, chance)
    recipient = chance.choice((ANYONE, Recipient(b"B", 1), Recipient(b"a longer name", NOW)))
    signed = sign(message, known, NOW + chance.choice((-2, 0, 2)) * HOUR // 3, chance.randbytes(16), recipient)
    changed = spoiled(signed, chance, has_body_run=fmt.has_body_run)
    return changed.replace(**{name: getattr(Message(b""), name) for name in fmt.not_carried})


@pytest.mark.slow
@pytest.mark.parametrize("is_legacy", [True, False])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_batch_has_the_verdict_of_every_message(algorithm: str, is_legacy: bool) -> None:
    chance, known = Random(f"{algorithm}{is_legacy}"), domains(algorithm, is_legacy=is_legacy)
    frames = [encode(signed_message(fmt, known, chance), fmt) for _ in range(300) for fmt in FORMATS]
    times = [NOW + chance.choice((-3, -1, 0, 1, 3)) * HOUR for _ in frames]
    expected = [verify(decode(each), known, time) for each, time in zip(frames, times, strict=True)]
    found = verify_batch(decode_batch(pa.array(frames, pa.list_(pa.binary()))), known, pa.array(times))
    assert found.to_pylist() == expected
    assert len(Counter(expected)) == 5, "every verdict but misdirected and replayed"


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["hopwire-1", "hopwire-2"])
def test_batch_of_both_hopwire_schemes_has_the_verdict_of_every_message(reader: str) -> None:
    chance, known = Random(reader), domains("sha1", is_legacy=False, scheme=reader)
    writers = [domains("sha1", is_legacy=False, scheme=scheme) for scheme in ("hopwire-1", "hopwire-2", "hopwire-2")]
    for _ in range(3):
        few = [encode(signed_message(fmt, chance.choice(writers), chance), fmt) for _ in range(100) for fmt in FORMATS]
        expected = [verify(decode(each), known, NOW) for each in few]
        found = verify_batch(decode_batch(pa.array(few, pa.list_(pa.binary()))), known, pa.array([NOW] * len(few)))
        assert found.to_pylist() == expected
        writers = writers[1:]  # the last batch has one scheme only


def test_every_scheme_can_be_judged_in_batches() -> None:
    assert set(JUDGES) == set(WRITERS) == set(SCHEMES)


@pytest.mark.parametrize("known", [OPEN, domains("md5", is_legacy=True)])
def test_empty_batch_has_no_verdicts(known: Domains) -> None:
    nothing = decode_batch(pa.array([], pa.list_(pa.binary())))
    assert verify_batch(nothing, known, pa.array([], pa.int64())).to_pylist() == []


def test_row_that_is_not_a_message_has_no_verdict() -> None:
    known = domains("sha256", is_legacy=False)
    message = sign(Message(b"orders.new", body_frames=(b"body",)), known, NOW, bytes(16))
    frames = [[b"noise"], encode(message, FORMATS[-1])]
    found = verify_batch(decode_batch(pa.array(frames, pa.list_(pa.binary()))), known, pa.array([NOW, NOW]))
    assert found.to_pylist() == [None, "valid"]


def test_without_keys_what_is_signed_has_no_key() -> None:
    message = sign(Message(b"orders.new"), domains("md5", is_legacy=True), NOW, b"")
    batch = batch_from_messages([message, Message(b"orders.new")], FORMATS[-1:] * 2)
    assert verify_batch(batch, OPEN, pa.array([NOW, NOW])).to_pylist() == ["no_key", "unsigned"]


def test_part_of_a_batch_has_the_verdicts_of_that_part() -> None:
    known, chance = domains("sha1", is_legacy=False), Random(3)
    frames = [encode(signed_message(FORMATS[-1], known, chance), FORMATS[-1]) for _ in range(40)]
    batch, times = decode_batch(pa.array(frames, pa.list_(pa.binary()))), pa.array([NOW] * 40)
    whole = verify_batch(batch, known, times).to_pylist()
    assert verify_batch(batch.slice(7, 20), known, times.slice(7, 20)).to_pylist() == whole[7:27]


@pytest.mark.parametrize("version", [-1, 65_536])
def test_version_that_cannot_be_signed_is_invalid(version: int) -> None:
    known = domains("sha256", is_legacy=True)
    message = sign(Message(b"orders.new", version=version % 65_536), known, NOW, b"").replace(version=version)
    batch = batch_from_messages([message], FORMATS[-1:])
    (same,) = messages_from_batch(batch)
    assert same is not None
    assert verify(same, known, NOW) is Verdict.INVALID
    assert verify_batch(batch, known, pa.array([NOW])).to_pylist() == [Verdict.INVALID]


def test_what_became_of_a_question_is_judged_alike() -> None:
    every = Domains(
        [
            Domain("network", [NEW], ["hopwire.*"]),
            Domain("orders", [LONG], ["orders.*"]),
            Domain("old", [OLD], ["old.*"], "legacy"),
        ]
    )
    said = [
        sign(Message(identity, 1, domain=name), every, NOW, bytes(16))
        for identity in (b"hopwire.outcome", b"hopwire.demand", b"hopwire.beat")
        for name in ("", "orders", "old")
    ]
    said += [each.replace(domain=name) for each in said for name in ("network", "orders", "old")]
    batch = batch_from_messages(said, FORMATS[-1:] * len(said))
    found = verify_batch(batch, every, pa.array([NOW] * len(said), pa.int64())).to_pylist()
    assert found == [verify(each, every, NOW) for each in said]
    assert {"valid", "no_key", "not_in_domain"} == set(found)

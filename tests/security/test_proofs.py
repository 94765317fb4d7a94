"""Proofs of a domain's key: good once, for one process, for what they were made of."""

from __future__ import annotations

import pytest

from hopwire.security import Domain, Domains, Key, Listener, Recipient, ReplayWindows, Verdict
from hopwire.security.proofs import has_domain_of, proof_of, prove, voucher

SECOND = 1_000_000_000
NOW, NONCE, B = 100 * SECOND, bytes(16), Recipient(b"B", 5)
ORDERS = Domain("orders", [Key("o", b"o" * 16)], ["orders.*"])
OTHER_KEY = Domain("orders", [Key("o", b"x" * 16)], ["orders.*"])
OTHER_NAME = Domain("mail", [Key("o", b"o" * 16)], ["orders.*"])
OLD = Domain("old", [Key("l", b"l" * 16)], ["old.*"], "legacy")
FREE = Domain("free", (), ["free.*"], unsigned=["*"])
NETWORK = Domain("network", [Key("n", b"n" * 16)], ["hopwire.*"])
ALL = Domains([ORDERS, NETWORK, OLD, FREE])


def judged(proof: bytes, data: bytes = b"routes", domain: Domain = ORDERS, at_ns: int = NOW, to: Recipient = B) -> str:
    return proof_of(proof, data, domain, at_ns, ReplayWindows(60 * SECOND, 10), Listener((to,)))


PROOF = prove(b"routes", ORDERS, NOW, NONCE, B)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (judged(PROOF), Verdict.VALID),
        (judged(b""), Verdict.UNSIGNED),
        (judged(b"noise"), Verdict.INVALID),
        (judged(PROOF[:-1]), Verdict.INVALID),
        (judged(PROOF, b"other routes"), Verdict.INVALID),
        (judged(prove(b"routes", OTHER_KEY, NOW, NONCE, B)), Verdict.INVALID),
        (judged(prove(b"routes", OTHER_NAME, NOW, NONCE, B)), Verdict.INVALID),
        (judged(prove(b"routes", NETWORK, NOW, NONCE, B)), Verdict.NO_KEY),
        (judged(PROOF, to=Recipient(b"C", 5)), Verdict.MISDIRECTED),
        (judged(PROOF, to=Recipient(b"B", 6)), Verdict.MISDIRECTED),
        (judged(PROOF, at_ns=NOW + 61 * SECOND), Verdict.REPLAYED),
    ],
)
def test_a_proof_counts_for_its_bytes_its_domain_its_recipient_and_its_time(found: str, verdict: Verdict) -> None:
    assert found == verdict


def test_a_proof_counts_once() -> None:
    replay = ReplayWindows(60 * SECOND, 10)
    verdicts = [proof_of(PROOF, b"routes", ORDERS, NOW, replay, Listener((B,))) for _ in range(2)]
    assert verdicts == [Verdict.VALID, Verdict.REPLAYED]


def test_a_legacy_domain_has_proofs_too() -> None:
    proof = prove(b"routes", OLD, NOW, NONCE, B)
    assert judged(proof, domain=OLD) == Verdict.VALID


def test_without_a_key_that_is_valid_there_is_no_proof() -> None:
    later = Domain("orders", [Key("o", b"o" * 16, NOW + 1)], ["orders.*"])
    assert prove(b"routes", later, NOW, NONCE, B) == b""


def test_the_domain_of_an_answer_speaks_first_then_that_of_the_question() -> None:
    assert voucher((b"orders.done", b"hopwire.x"), ALL, NOW) == "orders"
    assert voucher((b"unknown", b"orders.new"), ALL, NOW) == "orders"
    assert voucher((b"old.new", b"free.new"), ALL, NOW) == ""


@pytest.mark.parametrize(
    ("question", "answers", "domain", "may"),
    [
        (b"orders.new", [], "orders", True),
        (b"orders.new", [], "network", False),
        (b"orders.new", [b"hopwire.answer"], "network", True),
        (b"orders.new", [b"unknown"], "network", False),
        (b"old.new", [], "network", True),
        (b"free.new", [], "network", True),
    ],
)
def test_who_may_speak_about_a_question(question: bytes, answers: list[bytes], domain: str, may: bool) -> None:
    assert has_domain_of(question, answers, domain, ALL) is may

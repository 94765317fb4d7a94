"""Host proofs: one process at one address has the key of one domain, for whoever has the key too."""

from __future__ import annotations

import pytest

from hopwire.security import Domain, Host, Key, ProvedHosts, Verdict, host_proof_of, host_proofs, prove, prove_host
from hopwire.security.schemes import ANYONE

SECOND = 1_000_000_000
NOW = 100 * SECOND
OLD, NEW = Key("2025", b"o" * 16), Key("2026", b"n" * 16)
ORDERS = Domain("orders", [OLD], ["orders.*"])
OTHER_NAME = Domain("mail", [OLD], ["mail.*"])
OTHER_KEY = Domain("orders", [Key("2025", b"guessed guessed!")], ["orders.*"])
A = Host(b"A", 5, "tcp://a:1")
PROOF = prove_host(A, ORDERS, NOW)


def judged(proof: bytes, host: Host = A, domain: Domain = ORDERS, at_ns: int = NOW) -> Verdict:
    return host_proof_of(proof, host, domain, at_ns)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (judged(PROOF), Verdict.VALID),
        (judged(PROOF, at_ns=NOW + 10**6 * SECOND), Verdict.VALID),  # it stays true
        (judged(b""), Verdict.UNSIGNED),
        (judged(b"\0"), Verdict.INVALID),
        (judged(b"noise, of some length, that nobody has signed"), Verdict.INVALID),
        (judged(PROOF[:-1]), Verdict.INVALID),
        (judged(PROOF + b"\0"), Verdict.INVALID),
        (judged(PROOF[:-1] + bytes((PROOF[-1] ^ 1,))), Verdict.INVALID),
        (judged(PROOF, A._replace(node=b"M")), Verdict.INVALID),
        (judged(PROOF, A._replace(incarnation=6)), Verdict.INVALID),
        (judged(PROOF, A._replace(uri="tcp://m:1")), Verdict.INVALID),
        (judged(PROOF, A._replace(uri="\ud800")), Verdict.INVALID),
        (judged(PROOF, A._replace(incarnation=2**63)), Verdict.INVALID),
        (judged(PROOF, domain=OTHER_NAME), Verdict.INVALID),
        (judged(prove_host(A, OTHER_KEY, NOW)), Verdict.INVALID),
        (judged(prove_host(A, Domain("orders", [NEW], ["orders.*"]), NOW)), Verdict.NO_KEY),
        (judged(b"\4\xff\xff\xff\xff" + bytes(32)), Verdict.NO_KEY),
        (judged(prove(b"A", ORDERS, NOW, bytes(16), ANYONE)), Verdict.INVALID),
    ],
)
def test_a_host_proof_counts_for_its_process_its_address_and_its_domain(found: Verdict, verdict: Verdict) -> None:
    assert found is verdict


def test_without_a_key_that_is_valid_there_is_no_host_proof() -> None:
    later = Domain("orders", [Key("k", b"k" * 16, NOW + 1)], ["orders.*"])
    assert prove_host(A, later, NOW) == b""
    assert judged(prove_host(A, later, NOW + 1), domain=later) is Verdict.NO_KEY


def test_while_keys_are_changed_the_old_and_the_new_one_prove() -> None:
    before, between, after = (Domain("orders", keys, ["orders.*"]) for keys in ([OLD], [NEW, OLD], [NEW]))
    assert judged(prove_host(A, before, NOW), domain=between) is Verdict.VALID
    assert judged(prove_host(A, between, NOW), domain=between) is Verdict.VALID
    assert judged(prove_host(A, between, NOW), domain=after) is Verdict.VALID
    assert judged(prove_host(A, before, NOW), domain=after) is Verdict.NO_KEY


def test_what_was_proved_stays_until_the_keys_change() -> None:
    hosts = ProvedHosts()
    assert hosts.judge(A, {}, ORDERS, NOW) is Verdict.UNSIGNED
    assert hosts.judge(A, {"orders": PROOF}, ORDERS, NOW) is Verdict.VALID
    assert hosts.judge(A, {}, ORDERS, NOW) is Verdict.VALID
    assert hosts.judge(A._replace(uri="tcp://m:1"), {"orders": PROOF}, ORDERS, NOW) is Verdict.INVALID
    assert hosts.judge(A._replace(incarnation=6), {"orders": PROOF}, ORDERS, NOW) is Verdict.INVALID
    hosts.clear()
    assert hosts.judge(A, {}, ORDERS, NOW) is Verdict.UNSIGNED


def test_only_so_many_proofs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_proofs, "MOST_KNOWN", 2)
    hosts = ProvedHosts()
    for number in range(3):
        host = A._replace(incarnation=number)
        assert hosts.judge(host, {"orders": prove_host(host, ORDERS, NOW)}, ORDERS, NOW) is Verdict.VALID
    found = [hosts.judge(A._replace(incarnation=number), {}, ORDERS, NOW) for number in range(3)]
    assert found == [Verdict.UNSIGNED, Verdict.VALID, Verdict.VALID]


def test_a_refusal_is_told_once() -> None:
    hosts = ProvedHosts()
    assert not hosts.refuse(b"A", "orders", is_told=False)  # the record with the proof may be on its way
    assert hosts.is_untold(b"A")
    assert hosts.refuse(b"A", "orders")
    assert not hosts.refuse(b"A", "orders")
    assert not hosts.is_untold(b"A")
    assert hosts.refuse(b"A", "mail")
    assert (hosts.refused(b"A"), hosts.refused_nodes()) == (("orders", "mail"), (b"A",))
    hosts.accept(b"A", "orders")
    hosts.accept(b"A", "mail")
    assert hosts.refused_nodes() == ()
    assert hosts.refuse(b"A", "orders")
    hosts.forget(b"A")
    assert hosts.refused(b"A") == ()

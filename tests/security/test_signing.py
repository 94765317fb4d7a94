"""Signing and the verdicts: each row of the table, each field, each policy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopwire.errors import NotInDomain, SecurityError, SettingsError
from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.security import (
    ALWAYS,
    ANYONE,
    OPEN,
    Domain,
    Domains,
    Key,
    Listener,
    Recipient,
    ReplayWindow,
    Stamp,
    Verdict,
    is_accepted,
    must_sign,
    sign,
    verify,
)
from hopwire.security.schemes import stamp_bytes
from hopwire.wire.extension import Extension, with_extension

SECRET, OTHER = b"0123456789abcdef", b"fedcba9876543210"
NOW = 1_700_000_000_000_000_000
NONCE = bytes(range(16))
HERE, EARLIER, ELSEWHERE = Recipient(b"B", 20), Recipient(b"B", 10), Recipient(b"C", 20)
KEY = Key("k1", SECRET)
DOMAINS = Domains(
    [
        Domain("orders", [KEY, Key("k2", OTHER, NOW + 100, NOW + 200)], ["orders.*"], unsigned=["orders.ping"]),
        Domain("stock", [KEY], ["stock.*"]),
        Domain("old", [Key("o1", b"A", None, NOW + 100)], ["OLD"], "legacy", "md5"),
        Domain("open", [], ["open.*"], unsigned=ALWAYS),
    ]
)
ORDER = Message(b"orders.new", partition=b"eu", body_frames=(b"one", b"two"), correlation_id=b"flow", ttl_ticks=500)
SIGNED = sign(ORDER, DOMAINS, NOW, NONCE)


# Both ways


@pytest.mark.parametrize("identity", [b"orders.new", b"stock.level", b"OLD"])
def test_what_is_signed_is_valid(identity: bytes) -> None:
    signed = sign(Message(identity, body_frames=(b"body",)), DOMAINS, NOW, NONCE)
    assert verify(signed, DOMAINS, NOW) is Verdict.VALID
    assert is_accepted(Verdict.VALID, signed, DOMAINS)


def test_signing_sets_the_domain_and_the_signature_and_nothing_else() -> None:
    assert SIGNED.domain == "orders"
    assert SIGNED.replace(domain="", signature=b"") == ORDER


def test_signing_again_replaces_the_signature() -> None:
    again = sign(SIGNED.replace(hops=1), DOMAINS, NOW + 1, NONCE[::-1])
    assert again.signature != SIGNED.signature
    assert verify(again, DOMAINS, NOW) is Verdict.VALID


def test_the_same_key_in_another_domain_does_not_carry_a_message_over() -> None:
    renamed = Domains([Domain("stock", [KEY], ["orders.*"])])
    assert verify(SIGNED.replace(domain="stock"), renamed, NOW) is Verdict.INVALID


def test_a_legacy_mac_does_not_pass_where_a_stamp_is_asked_for() -> None:
    old = Domains([Domain("orders", [KEY], ["orders.*"], scheme="legacy")])
    assert verify(sign(ORDER, old, NOW, b""), DOMAINS, NOW) is Verdict.INVALID
    assert verify(SIGNED, old, NOW) is Verdict.INVALID


# What is covered: every field of a message stands in exactly one of these

IDENTITIES = st.binary(max_size=12)
INT64 = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(0, 65535) | st.binary(max_size=4)
POINTS = st.builds(CallbackPoint, IDENTITIES, VERSIONS, IDENTITIES)

# fmt: off
COVERED: dict[str, st.SearchStrategy[Any]] = {
    "identity":                        IDENTITIES,
    "version":                         VERSIONS,
    "partition":                       IDENTITIES,
    "body_frames":                     st.lists(st.binary(max_size=20), max_size=3).map(tuple),
    "correlation_id":                  IDENTITIES,
    "receiver_identity":               IDENTITIES,
    "receiver_node_identity":          IDENTITIES,
    "callback_points":                 st.lists(POINTS, max_size=3).map(tuple),
    "callback_key":                    INT64,
    "callback_receiver_identity":      IDENTITIES,
    "callback_receiver_node_identity": IDENTITIES,
    "trace_options":                   st.integers(0, 65535),
    "distribution":                    st.integers(0, 65535),
    "domain":                          st.text("aZ0. é€😀", min_size=1).filter(str.strip),
}
ROUTED: dict[str, st.SearchStrategy[Any]] = {  # covered by hopwire-2, which every hop signs anew; free in hopwire-1
    "hops":                            st.integers(0, 65535),
    "routing":                         st.lists(st.builds(RoutingEntry, st.text("a:/é€😀"), IDENTITIES)).map(tuple),
    "extensions":                      st.lists(st.binary()).map(tuple),
}
FREE: dict[str, st.SearchStrategy[Any]] = {
    "socket_identity":                 IDENTITIES,
}
OWN = {"ttl_ticks", "signature"}  # these have rules of their own
# fmt: on
FIELDS = {name: values for name, values in {**COVERED, **ROUTED, **FREE}.items() if name != "domain"}
MESSAGES = st.builds(Message, **FIELDS, ttl_ticks=st.integers(0, 2**63 - 1))
STAMPED = ("hopwire-1", "hopwire-2")
CHANGES = [(name, scheme) for scheme in STAMPED for name in (COVERED if scheme == "hopwire-1" else COVERED | ROUTED)]


def owner_of_all(name: str, scheme: str) -> Domains:
    return Domains([Domain(name, [KEY], ["*"], scheme)])


def test_every_field_of_a_message_is_covered_or_free_or_has_its_own_rule() -> None:
    assert sorted([*COVERED, *ROUTED, *FREE, *OWN]) == sorted(Message.__struct_fields__)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scheme"), CHANGES)
@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow])
@given(message=MESSAGES, data=st.data())
def test_any_change_of_a_covered_field_is_invalid(
    name: str, scheme: str, message: Message, data: st.DataObject
) -> None:
    domains = owner_of_all("all", scheme)
    signed = sign(message, domains, NOW, NONCE, HERE)
    assert verify(signed, domains, NOW) is Verdict.VALID
    value = data.draw({**COVERED, **ROUTED}[name].filter(lambda each: each != getattr(signed, name)))
    changed = signed.replace(**{name: value})
    assert verify(changed, owner_of_all(changed.domain, scheme), NOW) is Verdict.INVALID


@pytest.mark.slow
@settings(deadline=None)
@given(message=MESSAGES, changes=st.fixed_dictionaries(FREE), routed=st.fixed_dictionaries(ROUTED))
def test_what_routers_change_leaves_a_message_valid(
    message: Message, changes: dict[str, Any], routed: dict[str, Any]
) -> None:
    for scheme, free in (("hopwire-1", changes | routed), ("hopwire-2", changes)):
        domains = owner_of_all("all", scheme)
        assert verify(sign(message, domains, NOW, NONCE).replace(**free), domains, NOW) is Verdict.VALID


@pytest.mark.slow
@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 2**63 - 1), st.data())
def test_any_change_of_the_recipient_is_invalid(node: bytes, incarnation: int, data: st.DataObject) -> None:
    domains = owner_of_all("all", "hopwire-2")
    signed = sign(ORDER, domains, NOW, NONCE, Recipient(node, incarnation))
    other = data.draw(st.builds(Recipient, st.binary(max_size=40), st.integers(0, 2**63 - 1)))
    stamp = stamp_bytes(Stamp(KEY.id, NOW, ORDER.ttl_ticks, NONCE, other), "hopwire-2")
    verdict = verify(signed.replace(signature=stamp + signed.signature[-32:]), domains, NOW)
    assert verdict is (Verdict.VALID if other == (node, incarnation) else Verdict.INVALID)


EXTENDED = with_extension(ORDER, Extension(message_id=b"id-1", attempt=1))


@pytest.mark.parametrize(
    "changed",
    [
        with_extension(ORDER, Extension(message_id=b"id-2", attempt=1)),
        with_extension(ORDER, Extension(message_id=b"id-1", attempt=2)),
        with_extension(ORDER, Extension(message_id=b"id-1", attempt=1, trace_only=True)),
        ORDER,
        EXTENDED.replace(extensions=(*EXTENDED.extensions, b"of others")),
        EXTENDED.replace(trace_options=1),
    ],
)
def test_a_message_id_or_a_trace_flag_that_changed_is_invalid(changed: Message) -> None:
    signed = sign(EXTENDED, DOMAINS, NOW, NONCE)
    assert verify(signed, DOMAINS, NOW) is Verdict.VALID
    assert verify(changed.replace(domain=signed.domain, signature=signed.signature), DOMAINS, NOW) is Verdict.INVALID


# Whom it is for


# fmt: off
RECIPIENTS = [
    # scheme       for        sent      since     taken too     verdict
    ("hopwire-2", HERE,      NOW,      NOW,      (),           Verdict.VALID),
    ("hopwire-2", HERE,      NOW - 50, NOW,      (),           Verdict.VALID),        # a clock behind ours
    ("hopwire-2", EARLIER,   NOW,      NOW - 50, (),           Verdict.MISDIRECTED),  # before the restart
    ("hopwire-2", ELSEWHERE, NOW,      NOW - 50, (),           Verdict.MISDIRECTED),
    ("hopwire-2", ANYONE,    NOW,      NOW - 50, (),           Verdict.MISDIRECTED),
    ("hopwire-2", ANYONE,    NOW,      NOW,      (ANYONE,),    Verdict.VALID),        # as for a hello
    ("hopwire-1", ELSEWHERE, NOW,      NOW - 50, (),           Verdict.VALID),        # it names nobody
    ("hopwire-1", HERE,      NOW - 50, NOW - 49, (),           Verdict.REPLAYED),     # before the restart
    ("hopwire-1", HERE,      NOW - 50, NOW - 50, (),           Verdict.REPLAYED),
    ("legacy",    ELSEWHERE, NOW - 50, NOW,      (),           Verdict.VALID),        # nobody can tell
]
# fmt: on


@pytest.mark.parametrize(("scheme", "recipient", "sent_at_ns", "since_ns", "others", "expected"), RECIPIENTS)
def test_a_message_is_for_one_process(
    scheme: str, recipient: Recipient, sent_at_ns: int, since_ns: int, others: tuple[Recipient, ...], expected: Verdict
) -> None:
    domains = owner_of_all("all", scheme)
    signed = sign(ORDER, domains, sent_at_ns, NONCE, recipient)
    assert verify(signed, domains, NOW, None, Listener((HERE, *others), since_ns)) is expected
    assert verify(signed, domains, NOW) is Verdict.VALID, "without a listener nobody asks"


def test_a_message_for_another_node_leaves_the_window_alone() -> None:
    replay, signed = ReplayWindow(1000, 10), sign(ORDER, DOMAINS, NOW, NONCE, HERE)
    assert verify(signed, DOMAINS, NOW, replay, Listener((ELSEWHERE,))) is Verdict.MISDIRECTED
    assert len(replay) == 0
    assert verify(signed, DOMAINS, NOW, replay, Listener((HERE,))) is Verdict.VALID
    assert verify(signed, DOMAINS, NOW, replay, Listener((HERE,))) is Verdict.REPLAYED


@pytest.mark.parametrize("reader", STAMPED)
@pytest.mark.parametrize("writer", STAMPED)
def test_domains_of_both_hopwire_schemes_read_both(writer: str, reader: str) -> None:
    signed = sign(ORDER, owner_of_all("all", writer), NOW, NONCE, HERE)
    assert verify(signed, owner_of_all("all", reader), NOW) is Verdict.VALID


# fmt: off
PASSED_ON = [
    # written by   passed on by  signed anew
    ("hopwire-2",  "hopwire-2",  True),
    ("hopwire-2",  "hopwire-1",  True),   # it was for the node that passes it on
    ("hopwire-1",  "hopwire-2",  True),
    ("hopwire-1",  "hopwire-1",  False),
    ("legacy",     "legacy",     False),
]
# fmt: on


@pytest.mark.parametrize(("writer", "reader", "expected"), PASSED_ON)
def test_who_passes_on_what_names_a_recipient_signs_anew(writer: str, reader: str, expected: bool) -> None:
    signed = sign(ORDER, owner_of_all("all", writer), NOW, NONCE, HERE)
    assert must_sign(signed, owner_of_all("all", reader)) is expected
    assert must_sign(ORDER, owner_of_all("all", reader)), "what has no signature needs one"
    assert not must_sign(signed, OPEN), "there is no key"


# fmt: off
TTLS = [
    # signed  found  verdict
    (500,       500, Verdict.VALID),
    (500,       499, Verdict.VALID),
    (500,         1, Verdict.VALID),
    (500,         0, Verdict.INVALID),  # its limit is gone
    (500,        -1, Verdict.INVALID),
    (500,       501, Verdict.INVALID),
    (500, 2**63 - 1, Verdict.INVALID),
    (0,           0, Verdict.VALID),
    (0,         500, Verdict.VALID),    # no limit may get one: that is shorter
    (0,          -1, Verdict.INVALID),
]
# fmt: on


@pytest.mark.parametrize(("signed_ticks", "ttl_ticks", "expected"), TTLS)
def test_a_ttl_may_only_shrink(signed_ticks: int, ttl_ticks: int, expected: Verdict) -> None:
    signed = sign(ORDER.replace(ttl_ticks=signed_ticks), DOMAINS, NOW, NONCE)
    assert verify(signed.replace(ttl_ticks=ttl_ticks), DOMAINS, NOW) is expected


@settings(deadline=None)
@given(st.data())
def test_a_mutated_signature_is_never_valid_and_never_an_error(data: st.DataObject) -> None:
    whole = SIGNED.signature
    place = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 4))
    mutated = whole[:place] + data.draw(st.binary(max_size=4)) + whole[place + length :]
    verdict = verify(SIGNED.replace(signature=mutated), DOMAINS, NOW)
    assert verdict in ({Verdict.VALID} if mutated == whole else {Verdict.INVALID, Verdict.NO_KEY})


@settings(deadline=None)
@given(
    st.binary(max_size=200),
    st.sampled_from([b"orders.new", b"OLD", b"open.x", b"other"]),
    st.sampled_from(["", "orders", "old", "open", "none", "\ud800"]),
)
def test_garbage_is_refused_and_never_an_error(garbage: bytes, identity: bytes, domain: str) -> None:
    message = Message(identity, domain=domain, signature=garbage, version=1 << 70, callback_key=1 << 70)
    verdict = verify(message, DOMAINS, NOW, ReplayWindow(1, 1))
    assert verdict not in (Verdict.VALID, Verdict.REPLAYED)
    assert is_accepted(verdict, message, DOMAINS) == (verdict == Verdict.UNSIGNED and identity == b"open.x")


# Verdicts: each row of the table, then rows against one another

OLD = sign(Message(b"OLD"), DOMAINS, NOW, b"")

# fmt: off
ROWS = [
    # row  message                                                       verdict
    (1,    ORDER,                                                        Verdict.UNSIGNED),
    (1,    Message(b"nobody's"),                                         Verdict.UNSIGNED),
    (2,    SIGNED.replace(domain="none"),                                Verdict.NO_KEY),
    (2,    SIGNED.replace(domain=""),                                    Verdict.NO_KEY),
    (2,    ORDER.replace(domain="none"),                                 Verdict.NO_KEY),         # before row 4
    (2,    Message(b"nobody's", domain="none"),                          Verdict.NO_KEY),         # before row 3
    (3,    SIGNED.replace(domain="stock"),                               Verdict.NOT_IN_DOMAIN),  # before row 7
    (3,    SIGNED.replace(identity=b"stock.level"),                      Verdict.NOT_IN_DOMAIN),
    (3,    SIGNED.replace(identity=b"nobody's"),                         Verdict.NOT_IN_DOMAIN),
    (3,    ORDER.replace(domain="open"),                                 Verdict.NOT_IN_DOMAIN),  # before row 4
    (4,    SIGNED.replace(signature=b""),                                Verdict.UNSIGNED),
    (4,    Message(b"open.x", domain="open"),                            Verdict.UNSIGNED),
    (5,    SIGNED.replace(signature=b"HWS"),                             Verdict.INVALID),
    (5,    SIGNED.replace(signature=SIGNED.signature.replace(b"k1", b"\xff1")), Verdict.INVALID),    # before row 6
    (6,    SIGNED.replace(signature=SIGNED.signature.replace(b"k1", b"k9")), Verdict.NO_KEY),     # before row 7
    (6,    SIGNED.replace(signature=SIGNED.signature.replace(b"k1", b"k2")), Verdict.NO_KEY),     # not valid yet
    (6,    Message(b"open.x", domain="open", signature=SIGNED.signature), Verdict.NO_KEY),
    (7,    SIGNED.replace(body_frames=(b"onetwo",)),                     Verdict.INVALID),
    (7,    OLD.replace(body_frames=(b"other",)),                         Verdict.INVALID),
    (7,    OLD.replace(signature=OLD.signature[:-1]),                    Verdict.INVALID),
    (8,    SIGNED.replace(ttl_ticks=501),                                Verdict.INVALID),
    (11,   SIGNED,                                                       Verdict.VALID),
    (11,   OLD,                                                          Verdict.VALID),
]
# fmt: on


@pytest.mark.parametrize(("row", "message", "expected"), ROWS)
def test_each_row_of_the_table_gives_its_verdict(row: int, message: Message, expected: Verdict) -> None:
    assert verify(message, DOMAINS, NOW) is expected


def test_a_message_that_comes_twice_or_too_late_or_too_early_is_replayed() -> None:
    replay = ReplayWindow(1000, 10, skew_ns=10)
    assert verify(SIGNED, DOMAINS, NOW, replay) is Verdict.VALID
    assert verify(SIGNED.replace(socket_identity=b"C", ttl_ticks=400), DOMAINS, NOW + 1, replay) is Verdict.REPLAYED
    assert verify(sign(ORDER, DOMAINS, NOW - 1001, b"late" * 4), DOMAINS, NOW, replay) is Verdict.REPLAYED
    assert verify(sign(ORDER, DOMAINS, NOW + 11, b"soon" * 4), DOMAINS, NOW, replay) is Verdict.REPLAYED
    assert verify(sign(ORDER, DOMAINS, NOW, b"next" * 4), DOMAINS, NOW, replay) is Verdict.VALID


def test_a_message_that_is_not_valid_leaves_the_window_alone() -> None:
    replay = ReplayWindow(1000, 10)
    for changes in ({"partition": b"us"}, {"ttl_ticks": 501}):
        assert verify(SIGNED.replace(**changes), DOMAINS, NOW, replay) is Verdict.INVALID
    assert verify(SIGNED, DOMAINS, NOW, replay) is Verdict.VALID


def test_legacy_has_no_stamp_and_is_never_called_replayed() -> None:
    replay = ReplayWindow(1, 1)
    assert [verify(OLD, DOMAINS, NOW, replay) for _ in range(3)] == [Verdict.VALID] * 3


def test_a_replay_window_without_a_time_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match="a replay window needs the time"):
        verify(SIGNED, DOMAINS, replay=ReplayWindow(1, 1))


# Keys in time


@pytest.mark.parametrize("scheme", ["hopwire-2", "hopwire-1", "legacy"])
def test_a_rotation_loses_no_message(scheme: str) -> None:
    old, new = Key("old", SECRET), Key("new", OTHER)
    steps = [[old], [old, new], [new, old], [new]]
    stages = [Domains([Domain("d", keys, ["*"], scheme)]) for keys in steps]
    for sender, receiver in pairwise(stages):
        assert verify(sign(ORDER, sender, NOW, NONCE), receiver, NOW) is Verdict.VALID
        assert verify(sign(ORDER, receiver, NOW, NONCE), sender, NOW) is Verdict.VALID
    gone = {"hopwire-2": Verdict.NO_KEY, "hopwire-1": Verdict.NO_KEY, "legacy": Verdict.INVALID}
    assert verify(sign(ORDER, stages[0], NOW, NONCE), stages[3], NOW) is gone[scheme]


@pytest.mark.parametrize("scheme", ["hopwire-2", "hopwire-1", "legacy"])
def test_a_key_works_from_its_first_to_before_its_last_nanosecond(scheme: str) -> None:
    always = Domains([Domain("d", [Key("k", SECRET)], ["*"], scheme)])
    timed = Domains([Domain("d", [Key("k", SECRET, NOW, NOW + 10)], ["*"], scheme)])
    signed = sign(ORDER, always, NOW, NONCE)
    times = {NOW - 1: Verdict.NO_KEY, NOW: Verdict.VALID, NOW + 9: Verdict.VALID, NOW + 10: Verdict.NO_KEY}
    assert {at_ns: verify(signed, timed, at_ns) for at_ns in times} == times
    assert verify(signed, timed) is Verdict.VALID, "without a time every key counts"


def test_nothing_is_signed_while_no_key_is_valid() -> None:
    with pytest.raises(SecurityError, match=f"domain 'old' has no key that is valid at {NOW + 100} ns"):
        sign(Message(b"OLD"), DOMAINS, NOW + 100, NONCE)


# Policy


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize(("identity", "takes_unsigned"), [(b"orders.new", False), (b"open.x", True), (b"none", False)])
def test_only_valid_is_taken_and_unsigned_where_the_domain_says_so(
    verdict: Verdict, identity: bytes, takes_unsigned: bool
) -> None:
    expected = verdict == Verdict.VALID or (verdict == Verdict.UNSIGNED and takes_unsigned)
    assert is_accepted(verdict, Message(identity), DOMAINS) is expected


@pytest.mark.parametrize(("identity", "domain"), [(b"orders.ping", "orders"), (b"open.x", "open")])
def test_what_goes_unsigned_gets_its_domain_and_no_signature(identity: bytes, domain: str) -> None:
    sent = sign(Message(identity, signature=b"left over"), DOMAINS, NOW, NONCE)
    assert (sent.domain, sent.signature) == (domain, b"")
    verdict = verify(sent, DOMAINS, NOW)
    assert verdict is Verdict.UNSIGNED
    assert is_accepted(verdict, sent, DOMAINS)


def test_a_signature_that_was_stripped_off_is_refused() -> None:
    for stripped in (SIGNED.replace(signature=b""), ORDER):
        assert not is_accepted(verify(stripped, DOMAINS, NOW), stripped, DOMAINS)


def test_a_claim_of_an_unsigned_domain_does_not_let_foreign_identities_in() -> None:
    claimed = ORDER.replace(domain="open")
    assert not is_accepted(verify(claimed, DOMAINS, NOW), claimed, DOMAINS)


def test_with_signing_off_nothing_is_signed_and_all_that_is_unsigned_is_taken() -> None:
    off = Domains(DOMAINS.domains, signing=False)
    for domains, name in ((off, "orders"), (OPEN, "")):
        sent = sign(ORDER, domains, NOW, NONCE)
        assert (sent.domain, sent.signature) == (name, b"")
        assert is_accepted(verify(sent, domains, NOW), sent, domains)
    wrong = SIGNED.replace(partition=b"us")
    assert not is_accepted(verify(wrong, off, NOW), wrong, off)


def test_an_identity_without_a_domain_cannot_be_sent() -> None:
    with pytest.raises(NotInDomain, match="identity 'other' belongs to no domain"):
        sign(Message(b"other"), DOMAINS, NOW, NONCE)


@pytest.mark.parametrize("changes", [{"ttl_ticks": -1}, {"callback_key": 1 << 63}, {"version": 1 << 63}])
def test_a_message_that_could_not_be_verified_is_not_signed(changes: dict[str, Any]) -> None:
    with pytest.raises(SecurityError):
        sign(ORDER.replace(**changes), DOMAINS, NOW, NONCE)


def test_verdicts_are_the_words_of_the_tables() -> None:
    assert [*Verdict] == ["valid", "invalid", "unsigned", "no_key", "not_in_domain", "misdirected", "replayed"]


# -- what is said about a question


def test_what_became_of_a_question_may_be_signed_by_any_domain_with_a_stamp_and_nothing_else_of_the_nodes() -> None:
    network = Domain("network", [Key("n", b"n" * 16)], ["hopwire.*"])
    orders = Domain("orders", [Key("o", b"o" * 16)], ["orders.*"])
    old = Domain("old", [Key("l", b"l" * 16)], ["old.*"], "legacy")
    free = Domain("free", [Key("f", b"f" * 16)], ["free.*"], unsigned=["*"])
    every = Domains([network, orders, old, free])
    for identity, named, signer in (
        (b"hopwire.outcome", "orders", "orders"),
        (b"hopwire.outcome", "", "network"),
        (b"hopwire.outcome", "unknown", "network"),
        (b"hopwire.outcome", "old", "network"),
        (b"hopwire.outcome", "free", "network"),
        (b"hopwire.enough", "orders", "orders"),
        (b"hopwire.routes", "orders", "network"),
        (b"orders.new", "network", "orders"),
    ):
        message = sign(Message(identity, 1, domain=named), every, 5, bytes(16))
        assert (message.domain, verify(message, every)) == (signer, Verdict.VALID)
    forged = sign(Message(b"hopwire.routes", 1), Domains([Domain("orders", orders.keys, ["*"])]), 5, bytes(16))
    assert verify(forged, every) is Verdict.NOT_IN_DOMAIN

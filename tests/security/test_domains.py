"""Domains and keys: who owns an identity, which key is used, what is refused, what is never shown."""

from __future__ import annotations

import dataclasses
import pickle
import traceback
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.errors import NotInDomain, SettingsError
from hopwire.security import ALWAYS, NEVER, OPEN, Domain, Domains, Key

SECRET = b"0123456789abcdef"
KEY = Key("k1", SECRET)


def test_an_identity_belongs_to_the_domain_that_names_it_or_its_prefix() -> None:
    orders = Domain("orders", [KEY], ["orders.*", "KINO.PING"])
    stock = Domain("stock", [KEY], [b"stock.level"])
    domains = Domains([orders, stock])
    assert domains.domain_of(b"orders.new") is orders
    assert domains.domain_of(b"orders.") is orders
    assert domains.domain_of(b"KINO.PING") is orders
    assert domains.domain_of(b"stock.level") is stock


@pytest.mark.parametrize("identity", [b"", b"orders", b"KINO.PING2", b"KINO.PIN", b"other"])
def test_an_identity_that_nobody_named_is_not_in_a_domain(identity: bytes) -> None:
    domains = Domains([Domain("orders", [KEY], ["orders.*", "KINO.PING"])])
    assert domains.find(identity) is None
    with pytest.raises(NotInDomain) as caught:
        domains.domain_of(identity)
    assert str(caught.value) == f"identity {identity.decode()!r} belongs to no domain"


PATTERNS = st.lists(st.tuples(st.text("ab", min_size=1, max_size=4), st.booleans()), max_size=3)


@settings(deadline=None)
@given(PATTERNS, PATTERNS, st.text("ab", max_size=5))
def test_two_domains_are_built_only_if_no_identity_could_be_in_both(
    left: list[tuple[str, bool]], right: list[tuple[str, bool]], identity: str
) -> None:
    def means(patterns: list[tuple[str, bool]], found: str) -> bool:
        return any(found.startswith(text) if is_prefix else found == text for text, is_prefix in patterns)

    one, two = ([text + "*" * is_prefix for text, is_prefix in patterns] for patterns in (left, right))
    both = any(means(left, text) and means(right, text) for text, _ in left + right)
    try:
        domains = Domains([Domain("left", [KEY], one), Domain("right", [KEY], two)])
    except SettingsError:
        assert both
        return
    assert not both
    owner = domains.find(identity.encode())
    expected = "left" if means(left, identity) else "right" if means(right, identity) else None
    assert (owner.name if owner else None) == expected


def test_the_first_key_that_is_valid_signs_and_all_that_are_valid_verify() -> None:
    old, new, later = Key("old", SECRET, None, 200), Key("new", SECRET, 100, None), Key("later", SECRET, 300, 400)
    domain = Domain("d", [old, new, later], ["*"])

    def at(time_ns: int | None) -> list[str]:
        return [key.id for key in domain.keys_at(time_ns)]

    assert [at(99), at(100), at(199), at(200), at(300), at(399), at(400)] == [
        ["old"],
        ["old", "new"],
        ["old", "new"],
        ["new"],
        ["new", "later"],
        ["new", "later"],
        ["new"],
    ]
    assert domain.key_at(100) is old
    assert domain.key_at(200) is new


def test_without_a_time_every_key_is_valid() -> None:
    assert Key("k", SECRET, 100, 200).is_valid_at(None)


def test_a_domain_may_have_no_valid_key_at_a_time() -> None:
    assert Domain("d", [Key("k", SECRET, 100, 200)], ["*"]).key_at(200) is None


def test_nothing_goes_unsigned_by_default() -> None:
    assert Domain("d", [KEY], ["*"]).unsigned == NEVER
    assert not Domains([Domain("d", [KEY], ["a.*"])]).allows_unsigned(b"a.b")


def test_a_whole_domain_or_some_of_its_identities_or_all_may_go_unsigned() -> None:
    some = Domain("some", [KEY], ["a.*"], unsigned=["a.ping", "a.debug.*"])
    whole = Domain("whole", [], ["b.*"], unsigned=ALWAYS)
    domains = Domains([some, whole])
    answers = {each: domains.allows_unsigned(each) for each in (b"a.ping", b"a.debug.x", b"a.new", b"b.any", b"c")}
    assert answers == {b"a.ping": True, b"a.debug.x": True, b"a.new": False, b"b.any": True, b"c": False}
    off = Domains([some, whole], signing=False)
    assert all(off.allows_unsigned(each) for each in answers)
    assert OPEN.allows_unsigned(b"anything")


# fmt: off
MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: Key("", SECRET),                         "key id must be text of 1 to 64 bytes, found ''"),
    (lambda: Key("  ", SECRET),                       "key id must be text of 1 to 64 bytes, found '  '"),
    (lambda: Key(b"k", SECRET),                       "key id must be text of 1 to 64 bytes, found b'k'"),  # type: ignore[arg-type]
    (lambda: Key("é" * 33, SECRET),                   "key id must be text of 1 to 64 bytes, found '" + "é" * 33 + "'"),
    (lambda: Key("\ud800", SECRET),                   "key id: '\\ud800' is not valid Unicode"),
    (lambda: Key("k", b""),                           "key 'k': the secret must be bytes, at least one"),
    (lambda: Key("k", SECRET.decode()),               "key 'k': the secret must be bytes, at least one"),  # type: ignore[arg-type]
    (lambda: Key("k", SECRET, 2, 2),                  "key 'k': is never valid, not_before must come before not_after"),
    (lambda: Domain("", [KEY]),                       "domain name must be text that is not blank, found ''"),
    (lambda: Domain(" \t", [KEY]),                    "domain name must be text that is not blank, found ' \\t'"),
    (lambda: Domain("\ud800", [KEY]),                 "domain name: '\\ud800' is not valid Unicode"),
    (lambda: Domain("d"),                             "domain 'd': has no key, though not all of it goes unsigned"),
    (lambda: Domain("d", [], ["a"], unsigned=["a"]),  "domain 'd': has no key, though not all of it goes unsigned"),
    (lambda: Domain("d", [KEY, KEY]),                 "domain 'd': has two keys with the id 'k1'"),
    (lambda: Domain("d", [SECRET]),                   "domain 'd': keys must be a list of keys"),  # type: ignore[list-item]
    (lambda: Domain("d", [Key("k", SECRET[1:])]),
     "domain 'd': key 'k': the secret is short of the 16 bytes of hopwire-2"),
    (lambda: Domain("d", [KEY], scheme="x"),
     "domain 'd': unknown scheme 'x', expected hopwire-1 or hopwire-2 or legacy"),
    (lambda: Domain("d", [KEY], scheme="ab" * 16),  # a secret in the wrong place
     "domain 'd': unknown scheme, expected hopwire-1 or hopwire-2 or legacy"),
    (lambda: Domain("d", [KEY], algorithm="ab" * 16), "domain 'd': unknown algorithm in hopwire-2, expected sha256"),
    (lambda: Domain("d", [KEY], algorithm="md5"),
     "domain 'd': unknown algorithm 'md5' in hopwire-2, expected sha256"),
    (lambda: Domain("d", [KEY], scheme="legacy", algorithm="crc"),
     "domain 'd': unknown algorithm 'crc' in legacy, expected md5 or sha1 or sha256 or sha512"),
    (lambda: Domain("d", [KEY], "a.*"),               "domain 'd': identities must be a list, found one str"),
    (lambda: Domain("d", [KEY], ["a*b"]),
     "domain 'd': identities: a star may only stand at the end, found 'a*b'"),
    (lambda: Domain("d", [KEY], ["a"], unsigned=["b"]),
     "domain 'd': unsigned 'b' is not among its identities"),
    (lambda: Domain("d", [KEY], ["a.b"], unsigned=["a.*"]),
     "domain 'd': unsigned 'a.*' is not among its identities"),
    (lambda: Domains([Domain("d", [KEY]), Domain("d", [KEY])]),
     "two domains have the name 'd'"),
    (lambda: Domains([Domain("d", [KEY], ["a"]), Domain("e", [KEY], ["a"])]),
     "identity 'a' belongs to domain 'd' and to domain 'e'"),
    (lambda: Domains([Domain("d", [KEY], ["a.*"]), Domain("e", [KEY], ["a.*"])]),
     "identity 'a.*' belongs to domain 'd' and to domain 'e'"),
    (lambda: Domains([Domain("d", [KEY], ["a.b"]), Domain("e", [KEY], ["a.*"])]),
     "identity 'a.b' belongs to domain 'e' and to domain 'd'"),
    (lambda: Domains([Domain("d", [KEY], ["a.*"]), Domain("e", [KEY], ["a.b.*"])]),
     "identity 'a.b.*' belongs to domain 'd' and to domain 'e'"),
    (lambda: Domains([Domain("d", [KEY], ["*"]), Domain("e", [KEY], ["a"])]),
     "identity 'a' belongs to domain 'd' and to domain 'e'"),
]
# fmt: on


@pytest.mark.parametrize(("build", "text"), MISTAKES, ids=[text[:60] for _, text in MISTAKES])
def test_a_mistake_is_refused_in_one_line_without_the_secret(build: Callable[[], object], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        build()
    assert str(caught.value) == text
    assert SECRET.decode() not in text


def test_the_same_identity_twice_in_one_domain_does_no_harm() -> None:
    assert Domains([Domain("d", [KEY], ["a.*", "a.b", "a.b"])]).domain_of(b"a.b").name == "d"


def test_no_text_of_a_key_or_of_what_holds_it_shows_the_secret() -> None:
    domains = Domains([Domain("d", [KEY], ["a.*"])])
    for value in (KEY, domains.domains[0], domains, (KEY,), {"k": KEY}):
        for text in (repr(value), str(value), f"{value}", f"{value!a}", f"{value!s:>300}"):
            assert SECRET.decode() not in text
            assert SECRET.hex() not in text
    assert repr(KEY) == "Key(id='k1', not_before_ns=None, not_after_ns=None)"


def test_a_traceback_of_a_refused_key_does_not_show_the_secret() -> None:
    with pytest.raises(SettingsError) as caught:
        Domain("d", [Key("k", SECRET, not_before_ns=5, not_after_ns=4)])
    assert SECRET.decode() not in "".join(traceback.format_exception(caught.value))


def test_keys_are_equal_by_value_and_differ_by_secret() -> None:
    assert Key("k1", SECRET) == KEY
    assert hash(Key("k1", SECRET)) == hash(KEY)
    assert Key("k1", SECRET[::-1]) != KEY
    assert Key("k2", SECRET) != KEY
    assert KEY != "k1"


def test_keys_and_domains_are_frozen() -> None:
    for value, name in ((KEY, "secret"), (Domain("d", [KEY]), "keys"), (Domains(), "domains")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, ())


def test_domains_survive_a_pickle_because_workers_need_them() -> None:
    domains = Domains([Domain("d", [KEY], ["a.*"], unsigned=["a.ping"])])
    copy = pickle.loads(pickle.dumps(domains))
    assert copy == domains
    assert copy.domain_of(b"a.b") is copy.get("d")

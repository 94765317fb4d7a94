"""Lists of what may cross a border: patterns, names of domains, and what never crosses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import SettingsError
from hopwire.security import OPEN, Domain, Domains, Key
from hopwire.security.allow_lists import AllowList

WORDS = st.sampled_from(["orders", "orders.place", "orders.x.y", "billing", "billing.pay", "ord", "hopwire.hello", "x"])
ENTRIES = st.lists(st.one_of(WORDS, WORDS.map(lambda word: word + "*"), st.just("*")), max_size=6)


@given(ENTRIES, WORDS)
def test_identity_crosses_if_an_entry_is_its_name_or_the_beginning_of_its_name(entries: list[str], word: str) -> None:
    named = any(word.startswith(entry[:-1]) if entry.endswith("*") else word == entry for entry in entries)
    is_own = word.startswith("hopwire.")
    assert AllowList(entries, OPEN).allows(word.encode()) is (named and not is_own)


@given(ENTRIES, ENTRIES, WORDS)
def test_longer_list_allows_at_least_as_much(entries: list[str], more: list[str], word: str) -> None:
    if AllowList(entries, OPEN).allows(word.encode()):
        assert AllowList([*entries, *more], OPEN).allows(word.encode())


def test_name_of_a_domain_stands_for_its_identities() -> None:
    key = Key("k", b"0" * 16)
    domains = Domains([Domain("sales", [key], ["orders.*", "quote"]), Domain("net", [key], ["hopwire.*"])])
    allowed = AllowList(["sales", "net", "billing.pay"], domains)
    found = [allowed.allows(each) for each in (b"orders.place", b"quote", b"quotes", b"billing.pay", b"sales")]
    assert found == [True, True, False, True, False]
    assert not allowed.allows(b"hopwire.status.wanted")
    assert AllowList(["sales"], OPEN).allows(b"sales")  # where no domain has this name, it is an identity


def test_nothing_crosses_without_an_entry_and_own_names_never_do() -> None:
    assert not AllowList([], OPEN).allows(b"orders.place")
    everything = AllowList(["*"], OPEN)
    own = (b"hopwire.hello", b"KINO.PING")
    assert [everything.allows(each) for each in (b"orders", b"\xff", *own)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("orders.*", "is a list of domains or identities, found 'orders"),
        ([b"orders"], "found b'orders' in it"),
        ([""], "not empty"),
        (["or*ders"], "a star may only stand at the end"),
        (["x"] * 1001, "1001 entries, the limit is 1000"),
    ],
)
def test_list_that_makes_no_sense_is_refused(entries: Any, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        AllowList(entries, OPEN)

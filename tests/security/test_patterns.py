"""Identities as settings write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.errors import SettingsError
from hopwire.security.patterns import is_covered, patterns_from, shown, stem


def test_text_becomes_utf8_and_bytes_stay_what_they_are() -> None:
    assert patterns_from(["повідомлення", b"\x00\xff*"], "identities") == ("повідомлення".encode(), b"\x00\xff*")


@pytest.mark.parametrize(
    ("identity", "pattern", "expected"),
    [
        (b"orders.new", b"orders.new", True),
        (b"orders.new", b"orders.ne", False),
        (b"orders.new", b"orders.*", True),
        (b"orders.", b"orders.*", True),
        (b"orders", b"orders.*", False),
        (b"Orders.new", b"orders.*", False),
        (b"", b"*", True),
        (b"orders.eu.*", b"orders.*", True),
        (b"ord*", b"orders.*", False),
        (b"orders.*", b"orders.new", False),
    ],
)
def test_a_pattern_means_itself_or_all_that_begins_like_it(identity: bytes, pattern: bytes, expected: bool) -> None:
    assert is_covered(identity, (pattern,)) is expected


@settings(deadline=None)
@given(st.binary(max_size=8), st.binary(max_size=8))
def test_a_prefix_covers_whatever_follows_it(prefix: bytes, rest: bytes) -> None:
    assert is_covered(prefix + rest, (prefix + b"*",))
    assert stem(prefix + b"*") == prefix


@pytest.mark.parametrize(
    ("identities", "text"),
    [
        ("orders.*", "here must be a list, found one str"),
        (b"orders.*", "here must be a list, found one bytes"),
        ([""], "here must be texts or bytes that are not empty, found ''"),
        ([7], "here must be texts or bytes that are not empty, found 7"),
        (["a*b"], "here: a star may only stand at the end, found 'a*b'"),
        (["a\ud800"], "here: 'a\\ud800' is not valid Unicode"),
    ],
)
def test_a_bad_pattern_is_named(identities: Any, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        patterns_from(identities, "here")
    assert str(caught.value) == text


def test_an_identity_is_shown_on_one_line_whatever_its_bytes() -> None:
    assert shown(b"a\nb\xff") == "'a\\nb\\\\xff'"

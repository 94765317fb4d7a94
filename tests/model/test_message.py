from __future__ import annotations

import pytest

import hopwire
from hopwire.errors import SettingsError
from hopwire.model import CallbackPoint, Contract, Distribution, Message, TraceOptions
from hopwire.model.limits import Limits


def test_a_message_is_a_frozen_value() -> None:
    message = Message(b"M")
    with pytest.raises(AttributeError):
        message.hops = 1  # type: ignore[misc]
    assert message.replace(hops=1) == Message(b"M", hops=1)
    assert hash(message) == hash(Message(b"M"))


def test_a_new_message_is_empty() -> None:
    message = Message(b"M")
    assert (message.hops, message.ttl_ticks, message.domain, message.routing) == (0, 0, "", ())
    assert message.distribution == Distribution.UNICAST
    assert message.trace_options == TraceOptions.NONE


def test_the_body_is_the_frames_joined() -> None:
    assert Message(b"M", body_frames=(b"a", b"b")).body == b"ab"
    assert Message(b"M", body_frames=(b"a",)).body == b"a"


def test_the_contract_is_what_a_message_is() -> None:
    assert Message(b"M", 2, b"p").contract == Contract(b"M", 2, b"p")


def test_raw_versions_and_numbers_are_never_equal() -> None:
    assert CallbackPoint(b"X", 1) != CallbackPoint(b"X", b"\1\0")


@pytest.mark.parametrize("name", ["max_frames", "max_bytes", "max_entries"])
def test_a_limit_that_is_not_positive_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Limits(**{name: 0})


def test_the_package_shows_what_users_need() -> None:
    assert all(hasattr(hopwire, name) for name in hopwire.__all__)

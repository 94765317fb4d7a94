"""Rules and keys: what a payload class may say, and which bytes a key has."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest

from hopwire.errors import PayloadError, SettingsError
from hopwire.model import Message, Payload
from hopwire.model.choice import TURNS, Choice, Choose, choice_of, number_of
from hopwire.model.payload import rule_of


class Colour(Enum):
    RED = "red"


class Charge(Payload, identity="choice.charge", choose="key", key="account"):
    account: str
    amount: int = 0


class Anything(Payload, identity="choice.anything", choose="key", key="key"):
    key: Any


class Pair(Payload, identity="choice.pair", choose="key", key=("left", "right")):
    left: str
    right: str


MESSAGE = Message(b"choice", partition=b"east", correlation_id=b"flow", callback_receiver_identity=b"\0hub")


def choice(payload: Payload, message: Message = MESSAGE, caller: bytes = b"") -> Choice | None:
    return choice_of(rule_of(payload), payload, message, caller)


def make(fields: dict[str, Any] | None = None, **settings: Any) -> Any:
    body = {"__annotations__": {"account": str} if fields is None else fields, "__module__": __name__}
    meta: Any = type(Payload)
    return meta("Made", (Payload,), body, identity="choice.made", **settings)


def test_actors_take_turns_unless_a_class_says_otherwise() -> None:
    class Plain(Payload, identity="choice.plain"):
        text: str

    assert rule_of(Plain) is TURNS
    assert choice(Plain("a")) is None
    assert rule_of(make(choose="turns")) is TURNS


def test_one_key_is_one_number_whatever_else_is_said() -> None:
    assert choice(Charge("a", 1)) == choice(Charge("a", 2)) == Choice(Choose.KEY, number_of(b"sa"))
    assert choice(Charge("a")) != choice(Charge("b"))


def test_numbers_of_keys_stay_the_same_from_version_to_version() -> None:
    assert [number_of(b"sada"), number_of(b"i7")] == [215127876506674467, 1449373604769461546]


def test_keys_of_several_fields_do_not_run_into_one_another() -> None:
    assert choice(Pair("ab", "c")) != choice(Pair("a", "bc"))
    assert choice(Pair("a", "b")) != choice(Pair("b", "a"))


def test_the_type_belongs_to_the_key() -> None:
    values = ["7", b"7", 7, UUID(int=7)]
    assert len({choice(Anything(value)) for value in values}) == len(values)
    assert choice(Anything(Colour.RED)) == choice(Anything("red"))


def test_without_a_field_the_partition_is_the_key() -> None:
    made = make(choose="key")
    assert choice(made(account="a")) == Choice(Choose.KEY, number_of(b"east"))
    assert rule_of(made).words() == "partition"


def test_a_sticky_choice_is_the_callers_or_the_flows() -> None:
    caller, flow = make(choose="sticky"), make(choose="sticky", key="flow")
    assert choice(caller(account="a")) == Choice(Choose.STICKY, number_of(b"\0hub"))
    assert choice(caller(account="a"), caller=b"\0other") == Choice(Choose.STICKY, number_of(b"\0other"))
    assert choice(caller(account="a"), Message(b"x", correlation_id=b"flow")) == choice(flow(account="b"))


@pytest.mark.parametrize("value", [1.5, None, True, ["a"], {"a": 1}, (1, 2)], ids=repr)
def test_a_key_without_stable_bytes_is_refused_where_it_is_sent(value: object) -> None:
    with pytest.raises(PayloadError, match=r"^Anything.key is a key: expected text, bytes, .* found \w+$"):
        choice(Anything(value))


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(PayloadError, match=r"^Charge.account is a key, and no text that can be written$"):
        choice(Charge("\ud800"))


# fmt: off
BAD = [
    ({"choose": "chance"},                      "choose is one of turns, least_loaded, key, sticky, found 'chance'"),
    ({"choose": None},                          "choose is one of turns, .* found None"),
    ({"choose": "key", "key": "acount"},        "the key 'acount' is no field of the payload, .* account"),
    ({"choose": "key", "key": 7},               "key is the name of a field, or a tuple of names, found 7"),
    ({"choose": "key", "key": ("account", 7)},  "key is the name of a field, or a tuple of names, found .*"),
    ({"key": "account"},                        "key='account' needs choose='key', found choose='turns'"),
    ({"choose": "least_loaded", "key": "x"},    "key='x' needs choose='key', found choose='least_loaded'"),
    ({"choose": "sticky", "key": "account"},    "the key of a sticky choice is caller or flow, found 'account'"),
]
# fmt: on


@pytest.mark.parametrize(("settings", "text"), BAD, ids=[text for _, text in BAD])
def test_a_rule_that_makes_no_sense_is_refused_in_one_line(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=f"^Made: {text}$"):
        make(**settings)


@pytest.mark.parametrize("kind", [float, bool, list[str], dict[str, str], Charge, Annotated[float, msgspec.Meta(ge=0)]])
def test_a_field_whose_type_has_no_stable_bytes_is_refused_with_its_class(kind: Any) -> None:
    with pytest.raises(SettingsError, match=r"^Made: the key 'account' must be text, .* found \w+$"):
        make({"account": kind}, choose="key", key="account")


@pytest.mark.parametrize("kind", [str, bytes, int, UUID, Colour, Annotated[str, msgspec.Meta(min_length=1)], Any])
def test_a_field_with_stable_bytes_may_be_a_key(kind: Any) -> None:
    assert rule_of(make({"account": kind}, choose="key", key="account")).key == ("account",)

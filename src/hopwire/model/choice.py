"""How the actor of a message is chosen among those that handle its contract: a rule, and the key that the rule needs.

    class Deposit(Payload, identity="bank.deposit", choose="key", key="account"): ...

| `choose` | `key` | goes to |
|---|---|---|
| `turns` | - | each actor in its turn; the default |
| `least_loaded` | - | the one of two with less to do |
| `key` | a field, several, or none for the partition | the same actor for the same key, while that actor lives |
| `sticky` | `caller` (default) or `flow` | the actor that the caller or the flow had before, while that actor lives |

A key becomes a number, the same on every node and in every process. So a key is of a type whose bytes are the same
everywhere: text, bytes, whole numbers, UUIDs, and enums of these. A `float` is not: 0.1 + 0.2 and 0.3 would go to
different actors. The type belongs to the key: the text "7" and the number 7 are two keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, StrEnum
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple, get_args, get_origin
from uuid import UUID

from hopwire.errors import PayloadError, SettingsError
from hopwire.model.message import Message

__all__ = ["KEY_BITS", "TURNS", "Choice", "ChoiceRule", "Choose", "choice_of", "number_of", "rule_from"]

KEY_BITS = 63  # of a key as a number: what the extension of a message and a column of a table can hold
STABLE = (str, bytes, int, UUID)
CALLER, FLOW = "caller", "flow"
EXPECTED = "text, bytes, a whole number or a UUID"


class Choose(StrEnum):
    """How the actor of a message is chosen."""

    TURNS = "turns"
    LEAST_LOADED = "least_loaded"
    KEY = "key"
    STICKY = "sticky"


class ChoiceRule(NamedTuple):
    """What a contract says about the choice of its actor."""

    choose: Choose
    key: tuple[str, ...] = ()  # fields of the payload; or whose memory it is, if the rule is sticky

    def words(self) -> str:
        """Give the key in words: `account`, `partition`, `flow`, or nothing."""
        return ", ".join(self.key) or ("partition" if self.choose is Choose.KEY else "")


class Choice(NamedTuple):
    """How the actor of one message is chosen: the rule, and the key as a number; 0 where there is no key."""

    choose: Choose
    number: int = 0


TURNS = ChoiceRule(Choose.TURNS)
LIGHT = Choice(Choose.LEAST_LOADED)


def rule_from(name: str, choose: Any, key: Any, fields: Iterable[str], hints: dict[str, Any]) -> ChoiceRule:
    """Check what a payload class says about its choice; a SettingsError says what is wrong."""
    if choose not in tuple(Choose):
        raise SettingsError(f"{name}: choose is one of {', '.join(Choose)}, found {choose!r:.80}")
    names = (key,) if isinstance(key, str) and key else key or ()
    if not isinstance(names, tuple) or not all(isinstance(each, str) for each in names):
        raise SettingsError(f"{name}: key is the name of a field, or a tuple of names, found {key!r:.80}")
    choose = Choose(choose)
    if choose is Choose.KEY:
        for each in names:
            _check_field(name, each, tuple(fields), hints.get(each, Any))
    elif choose is Choose.STICKY:
        names = names or (CALLER,)
        if names not in ((CALLER,), (FLOW,)):
            raise SettingsError(f"{name}: the key of a sticky choice is {CALLER} or {FLOW}, found {key!r:.80}")
    elif names:
        raise SettingsError(f"{name}: key={key!r:.80} needs choose='key', found choose={choose.value!r}")
    return ChoiceRule(choose, names)


def _check_field(name: str, field: str, fields: tuple[str, ...], hint: Any) -> None:
    if field not in fields:
        there = ", ".join(fields) or "none"
        raise SettingsError(f"{name}: the key {field!r:.80} is no field of the payload, whose fields are {there}")
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    kind = get_origin(kind) or kind
    is_stable = kind is Any or not isinstance(kind, type) or issubclass(kind, (*STABLE, Enum))
    if not is_stable or kind is bool:
        raise SettingsError(f"{name}: the key {field!r} must be {EXPECTED}, found {kind.__name__}")


def choice_of(rule: ChoiceRule, payload: object, message: Message, caller: bytes = b"") -> Choice | None:
    """Give the choice that a message needs; None where actors take turns.

    The caller is who says the message, if that is not whoever waits for the answer.
    """
    choose, key = rule
    if choose is Choose.TURNS:
        return None
    if choose is Choose.LEAST_LOADED:
        return LIGHT
    if choose is Choose.STICKY:
        said_by = (caller or message.callback_receiver_identity) if key[0] == CALLER else b""
        return Choice(choose, number_of(said_by or message.correlation_id))
    if not key:
        return Choice(choose, number_of(message.partition))
    if len(key) == 1:
        return Choice(choose, number_of(_stable(payload, key[0])))
    parts = [_stable(payload, each) for each in key]
    return Choice(choose, number_of(b"".join([b"%d:%b" % (len(part), part) for part in parts])))


def number_of(key: bytes) -> int:
    """Give a key as a number, which is never 0."""
    return int.from_bytes(blake2b(key, digest_size=8).digest()) >> (64 - KEY_BITS) or 1


def _stable(payload: object, field: str) -> bytes:
    """Give the bytes of a field, the same on every node."""
    value = found = getattr(payload, field)
    if type(value) is not str and isinstance(value, Enum):
        value = value.value
    try:
        if isinstance(value, str):
            return b"s" + value.encode()
        if isinstance(value, bytes):
            return b"b" + value
        if isinstance(value, int) and not isinstance(value, bool):
            return b"i%d" % value
        if isinstance(value, UUID):
            return b"u" + value.bytes
    except UnicodeEncodeError:
        raise PayloadError(f"{type(payload).__name__}.{field} is a key, and no text that can be written") from None
    kind = type(found).__name__
    raise PayloadError(f"{type(payload).__name__}.{field} is a key: expected {EXPECTED}, found {kind}")

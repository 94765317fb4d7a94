"""Payloads: what the body of a message means, as a typed value.

A payload is a frozen struct with a contract: an identity, a version and a codec. The partition belongs to the message,
not to the payload, and is chosen when the payload is sent.

    class Greet(Payload, identity="greeter.greet", version=1):
        name: str

| codec    | the body is                                                                                       |
|----------|---------------------------------------------------------------------------------------------------|
| MSGPACK  | a MessagePack map of the fields; the default                                                      |
| JSON     | a JSON object of the fields                                                                       |
| RAW      | the bytes of the only field                                                                       |
| PROTOBUF | the only field, whose type writes itself by `SerializeToString` and is read by `FromString`       |

A payload is checked when its body is written, as its reader would check it: `Order(quantity="many")` is refused where
it is sent. Fields of plain types are looked at one by one. Where there are others, or a plain field has another type,
the body is read once, up to `CHECKED_BYTES`; larger bodies are checked by their readers alone.

A frozen payload of plain fields is a value that nobody can change. `weigher_of` gives what checks such a payload and
tells its size, so that it can be handed over within a process without being written and read.

A reader skips fields that it does not know, and fields with a default may be missing. So a contract can grow without a
new version. No codec runs code that the bytes name; there is no pickle.

`choose` and `key` say how the actor of such a message is chosen (`choice.py`).
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, cast, dataclass_transform, get_type_hints

import msgspec

from hopwire.errors import PayloadError, PayloadWarning, SettingsError
from hopwire.model.choice import TURNS, ChoiceRule, Choose, rule_from
from hopwire.model.message import Contract
from hopwire.model.names import OWN_PREFIX

__all__ = [
    "Codec",
    "Payload",
    "PayloadContract",
    "Weigh",
    "body_from_payload",
    "check_readable",
    "class_name_of",
    "contract_of",
    "payload_from_body",
    "rule_of",
    "weigher_of",
]

MAX_VERSION = 2**16 - 1  # what V5 and V6 carry
MAX_IDENTITY_BYTES = 255  # long enough for any name, short enough to be repeated in every message
CHECKED_BYTES = 16 * 1024  # of a body that is read to check it: a small part of what it costs to send it
PLAIN = (str, int, float, bool, bytes)  # types of fields that are checked without reading the body
P = TypeVar("P", bound="Payload")


class Codec(StrEnum):
    """How a payload is written into the body of a message."""

    MSGPACK = "msgpack"
    JSON = "json"
    RAW = "raw"
    PROTOBUF = "protobuf"


Weigh: TypeAlias = Callable[[Any], int]
Write: TypeAlias = Callable[[Any], bytes]
Read: TypeAlias = Callable[[bytes], Any]


class PayloadContract(NamedTuple):
    """What a payload class promises."""

    identity: bytes
    version: int
    codec: Codec
    contract: Contract  # with no partition, as most messages have it
    write: Write
    read: Read
    rule: ChoiceRule = TURNS


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _PayloadMeta(msgspec.StructMeta):
    """Takes the contract out of the class statement."""

    __contract__: PayloadContract | None

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        identity: str | bytes | None = None,
        version: int = 1,
        codec: Codec = Codec.MSGPACK,
        choose: str = Choose.TURNS,
        key: str | tuple[str, ...] = "",
        **settings: Any,
    ) -> Any:
        cls = super().__new__(mcls, name, bases, namespace, **{"frozen": True, **settings})
        rule = TURNS if choose == Choose.TURNS and not key else _rule(cls, choose, key)
        cls.__contract__ = None if identity is None else _contract(cls, identity, version, codec, rule)
        return cls


def _rule(cls: Any, choose: str, key: str | tuple[str, ...]) -> ChoiceRule:
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception:  # annotations that name what is not there yet: the key is checked when it is sent
        hints = {}
    return rule_from(cls.__name__, choose, key, cls.__struct_fields__, hints)


def _contract(cls: Any, identity: str | bytes, version: int, codec: Codec, rule: ChoiceRule) -> PayloadContract:
    name = cls.__name__
    raw = identity.encode() if isinstance(identity, str) else identity
    if not isinstance(raw, bytes) or not 1 <= len(raw) <= MAX_IDENTITY_BYTES:
        raise SettingsError(f"{name}: the identity has 1 to {MAX_IDENTITY_BYTES} bytes, found {identity!r:.80}")
    if raw.startswith(OWN_PREFIX) and cls.__module__.partition(".")[0] != "hopwire":
        raise SettingsError(f"{name}: the identity {identity!r:.80} is reserved: what begins with hopwire. is of nodes")
    if not isinstance(version, int) or not 0 <= version <= MAX_VERSION:
        raise SettingsError(f"{name}: the version is a number from 0 to {MAX_VERSION}, found {version!r:.80}")
    if codec not in tuple(Codec):
        raise SettingsError(f"{name}: the codec is one of {', '.join(Codec)}, found {codec!r:.80}")
    write, read = _first_writer(cls, Codec(codec)), _first_reader(cls, Codec(codec))
    _warn_of_another(cls, raw, version, Codec(codec))
    return PayloadContract(raw, version, Codec(codec), Contract(raw, version, b""), write, read, rule)


class _Made(NamedTuple):
    """A payload class that was made: where it stands, and what it looks like."""

    place: str
    shape: tuple[Any, ...]


_MADE: dict[tuple[bytes, int], _Made] = {}  # by identity and version


def _warn_of_another(cls: Any, identity: bytes, version: int, codec: Codec) -> None:
    """Warn if another class has the same identity and version, and other fields: its readers read something else.

    A class that is made again in the same place, as in a notebook, is the same class.
    """
    hints: dict[str, Any] = {}
    for each in reversed(cls.__mro__):
        hints |= inspect.get_annotations(each)
    fields = tuple((name, _spelled(hints.get(name))) for name in cls.__struct_fields__)
    made = _Made(f"{cls.__module__}.{cls.__qualname__}", (codec, fields))
    other = _MADE.setdefault((identity, version), made)
    if other.place == made.place:
        _MADE[identity, version] = made
    elif other.shape != made.shape:
        both = f"{made.place} and {other.place}"
        text = f"{both} have one identity and version and differ: {identity!r} v{version}; raise the version of one"
        warnings.warn(text, PayloadWarning, stacklevel=4)


def class_name_of(contract: Contract) -> str:
    """Give the name of the payload class with this identity and version, or dots where none was made here."""
    made = _MADE.get((contract.identity, contract.version)) if isinstance(contract.version, int) else None
    return "..." if made is None else made.place.rpartition(".")[2]


def _spelled(hint: Any) -> str:
    return hint if isinstance(hint, str) else hint.__name__ if isinstance(hint, type) else repr(hint)


class Payload(msgspec.Struct, metaclass=_PayloadMeta):
    """A typed body. A subclass gets its identity in the class statement, and is used like a dataclass."""

    __contract__: ClassVar[PayloadContract | None]


def contract_of(payload: Payload | type[Payload], partition: bytes = b"") -> Contract:
    """Give the contract of a message with this payload: identity, version and partition."""
    promised: PayloadContract | None = getattr(payload, "__contract__", None)
    if promised is None:
        raise _no_contract(payload if isinstance(payload, type) else type(payload))
    return Contract(promised.identity, promised.version, partition) if partition else promised.contract


def rule_of(payload: Payload | type[Payload]) -> ChoiceRule:
    """Give what the contract of a payload says about the choice of its actor."""
    promised: PayloadContract | None = getattr(payload, "__contract__", None)
    return TURNS if promised is None else promised.rule


def body_from_payload(payload: Payload) -> bytes:
    """Write the body of a message; a PayloadError names the payload that cannot be written."""
    try:
        return payload.__contract__.write(payload)  # type: ignore[union-attr] # a contract of None is an error below
    except Exception as error:  # a protobuf class may raise anything
        if isinstance(payload, type):
            raise SettingsError(f"expected an instance of {payload.__name__}, found the class itself") from None
        raise _refusal(type(payload), "cannot be written", error) from None


def payload_from_body(cls: type[P], body: bytes) -> P:
    """Read the body of a message; a PayloadError says how the body breaks the contract."""
    try:
        return cls.__contract__.read(body)  # type: ignore[no-any-return, union-attr]
    except Exception as error:
        raise _refusal(cls, f"cannot be read from {len(body)} bytes", error) from None


def _refusal(cls: type, what: str, error: Exception) -> Exception:
    promised: PayloadContract | None = getattr(cls, "__contract__", None)
    if promised is None:
        return _no_contract(cls)
    if isinstance(error, SettingsError):
        return error
    return PayloadError(f"{cls.__name__} {what} as {promised.codec}: {_one_line(error)}")


def check_readable(cls: type[Payload]) -> None:
    """Refuse a payload class that can never be read from a body, such as a class with codec RAW and two fields."""
    _CODECS[cls.__contract__.codec][1](cls)  # type: ignore[union-attr]


def _no_contract(cls: type) -> SettingsError:
    what = "has no identity" if issubclass(cls, Payload) else "is no payload"
    return SettingsError(f"{cls.__name__} {what}: class {cls.__name__}(Payload, identity=...)")


# -- the codecs: how a class is written, and how it is read

_MSGPACK = msgspec.msgpack.Encoder()
_JSON = msgspec.json.Encoder()
_MAKING = threading.RLock()  # of readers: what msgspec has noted of a class by half ends the process that reads by it


def _read_msgpack(cls: type[Payload]) -> Read:
    with _MAKING:
        return msgspec.msgpack.Decoder(cls).decode


def _read_json(cls: type[Payload]) -> Read:
    with _MAKING:
        return msgspec.json.Decoder(cls).decode


def _write_raw(payload: Payload) -> bytes:
    return bytes(memoryview(getattr(payload, _only_field(type(payload)))))  # a number would become so many zeros


def _read_raw(cls: type[Payload]) -> Read:
    name = _only_field(cls)
    return lambda body: cls(**{name: body})


def _write_protobuf(payload: Payload) -> bytes:
    return bytes(getattr(payload, _only_field(type(payload))).SerializeToString())


def _read_protobuf(cls: type[Payload]) -> Read:
    name = _only_field(cls)
    read = get_type_hints(cls)[name].FromString
    return lambda body: cls(**{name: read(body)})


_CODECS: dict[Codec, tuple[Write, Callable[[type[Payload]], Read]]] = {
    Codec.MSGPACK: (_MSGPACK.encode, _read_msgpack),
    Codec.JSON: (_JSON.encode, _read_json),
    Codec.RAW: (_write_raw, _read_raw),
    Codec.PROTOBUF: (_write_protobuf, _read_protobuf),
}


def _first_reader(cls: type[Payload], codec: Codec) -> Read:
    """Make the reader at the first message, since annotations may name classes that are defined later."""

    def read(body: bytes) -> Any:
        made = _CODECS[codec][1](cls)
        assert cls.__contract__ is not None
        cls.__contract__ = cls.__contract__._replace(read=made)
        return made(body)

    return read


def _first_writer(cls: type[Payload], codec: Codec) -> Write:
    """Make the writer at the first message, as the reader is made."""

    def write(payload: Any) -> bytes:
        made = _checked_writer(cls, codec)
        assert cls.__contract__ is not None
        cls.__contract__ = cls.__contract__._replace(write=made)
        return made(payload)

    return write


def _checked_writer(cls: type[Payload], codec: Codec) -> Write:
    """Give a writer that refuses what the reader would refuse; straight-line code, since it runs for every message."""
    encode, make_reader = _CODECS[codec]
    if codec not in (Codec.MSGPACK, Codec.JSON):
        return encode
    try:
        hints, read = get_type_hints(cls, include_extras=True), make_reader(cls)
    except Exception:  # a class that cannot be read here, such as one whose annotations name what is not there
        return encode
    fields: dict[str, Any] = {name: hints.get(name) for name in cls.__struct_fields__}
    plain = {name: hint for name, hint in fields.items() if any(hint is each for each in PLAIN)}
    is_right = " and ".join([f"type(payload.{name}) is {hint.__name__}" for name, hint in plain.items()]) or "True"
    is_small = "False" if len(plain) == len(fields) else f"len(body) <= {CHECKED_BYTES}"
    code = (
        f"def write(payload):\n body = encode(payload)\n if {is_small} or not ({is_right}): read(body)\n return body\n"
    )
    made: dict[str, Any] = {"encode": encode, "read": read}
    exec(code, made)  # noqa: S102
    return cast(Write, made["write"])


# fmt: off
# what a plain field must be so that its body could be written and read, and the bytes that it has about
WEIGHED = {
    str:    ("type({0}) is str and {0}.isascii()",               "len({0})"),
    bytes:  ("type({0}) is bytes",                               "len({0})"),
    int:    ("type({0}) is int and -2**63 <= {0} < 2**64",       "9"),
    float:  ("type({0}) is float",                               "9"),
    bool:   ("type({0}) is bool",                                "1"),
}
# fmt: on


@lru_cache(maxsize=4096)
def weigher_of(cls: type[Payload]) -> Weigh | None:
    """Give what tells the size of a payload in bytes, roughly, or -1 for a payload that has to be written and read.

    None says that all payloads of this class have to be: their fields may change, or are not plain.
    """
    promised, config = cls.__contract__, cls.__struct_config__
    if promised is None or promised.codec is not Codec.MSGPACK or not config.frozen or cls.__dictoffset__:
        return None
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception:  # annotations that name what is not there
        return None
    fields = {f"payload.{name}": WEIGHED.get(hints.get(name, Any)) for name in cls.__struct_fields__}
    rules = [rule for rule in fields.values() if rule is not None]
    if len(rules) < len(fields):
        return None
    names = [(name, *rule) for name, rule in zip(fields, rules, strict=True)]
    is_right = " and ".join([check.format(name) for name, check, _ in names]) or "True"
    size = " + ".join([size.format(name) for name, _, size in names]) or "0"
    made: dict[str, Any] = {}
    exec(f"def weigh(payload):\n return {size} if {is_right} else -1\n", made)  # noqa: S102
    return cast(Weigh, made["weigh"])


def _only_field(cls: type[Payload]) -> str:
    names = cls.__struct_fields__
    if len(names) != 1:
        raise SettingsError(f"{cls.__name__} has {len(names)} fields; with its codec it has exactly one")
    return names[0]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import PayloadError, PayloadWarning, SettingsError
from hopwire.model import Codec, Contract, Payload, body_from_payload, contract_of, payload_from_body


class Greet(Payload, identity="greeter.greet", version=3):
    name: str
    times: int = 1


class Report(Payload, identity="report", codec=Codec.JSON):
    lines: tuple[str, ...] = ()


class Picture(Payload, identity="picture", codec=Codec.RAW):
    data: bytes


class Proto:
    """Stands for a class that protoc made: it writes and reads itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def SerializeToString(self) -> bytes:
        return self.text.encode()

    @classmethod
    def FromString(cls, body: bytes) -> Proto:
        if body == b"bad":
            raise RuntimeError("tag 0\nis not allowed")
        return cls(body.decode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proto) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]


class Wrapped(Payload, identity="wrapped", codec=Codec.PROTOBUF):
    message: Proto


META: Any = type(Payload)


class Nameless(Payload):
    text: str


def test_a_payload_is_a_frozen_value_with_a_contract() -> None:
    greet = Greet(name="Ada")
    assert greet == Greet("Ada", 1)
    with pytest.raises(AttributeError):
        greet.name = "Bob"
    assert contract_of(greet) == contract_of(Greet) == Contract(b"greeter.greet", 3, b"")
    assert contract_of(greet, b"EU").partition == b"EU"


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (Greet("Ada"), b"\x82\xa4name\xa3Ada\xa5times\x01"),
        (Report(("a", "b")), b'{"lines":["a","b"]}'),
        (Picture(b"\xff\xd8"), b"\xff\xd8"),
        (Wrapped(Proto("hello")), b"hello"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_codec_writes_and_reads(payload: Payload, body: bytes) -> None:
    assert body_from_payload(payload) == body
    assert payload_from_body(type(payload), body) == payload


@pytest.mark.slow
@given(st.text(), st.integers(-(2**63), 2**63 - 1))
def test_what_is_written_is_read(name: str, times: int) -> None:
    assert payload_from_body(Greet, body_from_payload(Greet(name, times))) == Greet(name, times)


@given(st.binary(max_size=60))
def test_any_body_is_a_payload_or_a_payload_error(body: bytes) -> None:
    for cls in (Greet, Report, Picture, Wrapped):
        try:
            assert isinstance(payload_from_body(cls, body), cls)
        except PayloadError as error:
            assert "\n" not in str(error)


def test_a_contract_grows_by_fields_with_a_default() -> None:
    assert payload_from_body(Greet, msgspec.msgpack.encode({"name": "Ada", "new": [1]})) == Greet("Ada")


@pytest.mark.parametrize(
    ("cls", "body", "text"),
    [
        (Greet, b"\x81\xa4name\x05", "Expected `str`, got `int`"),
        (Greet, b"", "truncated"),
        (Report, b"{", "truncated"),
        (Wrapped, b"bad", "tag 0 is not allowed"),
    ],
)
def test_a_body_that_breaks_the_contract_is_named_in_one_line(cls: type[Payload], body: bytes, text: str) -> None:
    with pytest.raises(PayloadError, match=text) as caught:
        payload_from_body(cls, body)
    assert cls.__name__ in str(caught.value)


def test_a_payload_that_cannot_be_written_is_named() -> None:
    with pytest.raises(PayloadError, match="Greet cannot be written as msgpack"):
        body_from_payload(Greet(name=object()))  # type: ignore[arg-type]
    with pytest.raises(PayloadError, match="Picture cannot be written as raw"):
        body_from_payload(Picture(data="text"))  # type: ignore[arg-type]


def test_a_payload_without_identity_has_no_contract() -> None:
    for use in (contract_of, body_from_payload):
        with pytest.raises(SettingsError, match="Nameless has no identity"):
            use(Nameless("x"))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"identity": ""}, "1 to 255 bytes"),
        ({"identity": "x" * 256}, "1 to 255 bytes"),
        ({"identity": 7}, "1 to 255 bytes"),
        ({"identity": "x", "version": 65536}, "0 to 65535"),
        ({"identity": "x", "version": "1.0"}, "0 to 65535"),
        ({"identity": "x", "codec": "pickle"}, "msgpack, json, raw, protobuf"),
    ],
)
def test_a_contract_that_makes_no_sense_is_refused_where_it_is_written(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        META("Bad", (Payload,), {}, **settings)


def test_raw_bytes_need_exactly_one_field() -> None:
    class Two(Payload, identity="two", codec=Codec.RAW):
        a: bytes
        b: bytes

    with pytest.raises(SettingsError, match="Two has 2 fields"):
        body_from_payload(Two(b"", b""))
    with pytest.raises(SettingsError, match="Two has 2 fields"):
        payload_from_body(Two, b"")


@pytest.mark.parametrize("codec", [Codec.MSGPACK, Codec.JSON])
def test_a_body_that_is_nested_too_deep_is_a_payload_error(codec: Codec) -> None:
    class Deep(Payload, identity="deep.any", codec=codec):
        known: int = 0

    bodies = {Codec.MSGPACK: b"\x81\xa1z" + b"\x91" * 5000 + b"\xc0", Codec.JSON: b'{"z":' + b"[" * 5000 + b"]" * 5000}
    with pytest.raises(PayloadError, match="Deep cannot be read"):
        payload_from_body(Deep, bodies[codec])


class Line(msgspec.Struct):
    text: str


class Order(Payload, identity="orders.order"):
    item: str
    quantity: int
    price: float = 0.0


class Basket(Payload, identity="orders.basket"):
    lines: list[Line]
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    note: str | None = None


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (Order("tea", "many"), "quantity"),  # type: ignore[arg-type]
        (Order(5, 1), "item"),  # type: ignore[arg-type]
        (Order("tea", True), "quantity"),
        (Basket([Line(3)]), "lines"),  # type: ignore[arg-type]
        (Basket([], {"a": "b"}), "counts"),  # type: ignore[dict-item]
        (Basket([], {}, 7), "note"),  # type: ignore[arg-type]
    ],
)
def test_payload_that_breaks_its_contract_is_refused_where_it_is_written(payload: Payload, field: str) -> None:
    with pytest.raises(PayloadError, match=field):
        body_from_payload(payload)


def test_payload_that_its_reader_takes_is_written() -> None:
    for payload in (Order("tea", 1, 2.5), Order("tea", 1, 2), Basket([Line("a")], {"a": 1}, "x"), Basket([])):
        assert payload_from_body(type(payload), body_from_payload(payload)) == payload


def test_large_body_of_lists_is_checked_by_its_reader_alone() -> None:
    basket = Basket([Line("x" * 20_000), Line(3)])  # type: ignore[arg-type]
    body = body_from_payload(basket)
    with pytest.raises(PayloadError, match="lines"):
        payload_from_body(Basket, body)
    with pytest.raises(PayloadError, match="quantity"):  # plain fields are looked at however large the body is
        body_from_payload(Order("x" * 20_000, "many"))  # type: ignore[arg-type]


def test_raw_payload_that_is_no_bytes_is_refused() -> None:
    for data in (5, "text", [1, 2]):
        with pytest.raises(PayloadError, match="bytes-like"):
            body_from_payload(Picture(data))  # type: ignore[arg-type]


def test_class_whose_annotations_name_what_is_not_there_is_written_unchecked() -> None:
    class Torn(Payload, identity="torn"):
        text: Missing  # type: ignore[name-defined] # noqa: F821

    assert body_from_payload(Torn(5)) == msgspec.msgpack.encode({"text": 5})


def make(module: str, **hints: Any) -> None:
    META("Twin", (Payload,), {"__annotations__": hints, "__module__": module}, identity="twin")


def test_second_class_with_the_same_identity_and_other_fields_is_warned_of() -> None:
    make("shop", item=str)
    make("shop", item=str, quantity=int)  # made again in the same place, as in a notebook
    make("stock", item="str", quantity="int")  # the same fields
    with pytest.warns(PayloadWarning, match=r"billing\.Twin and shop\.Twin .* b'twin' v1; raise the version of one"):
        make("billing", item=int)
    make("shop", item=str)
    make("stock", item=str)


@pytest.mark.parametrize("identity", ["hopwire.status", b"hopwire.mine"])
def test_identities_of_nodes_are_reserved(identity: str | bytes) -> None:
    with pytest.raises(SettingsError, match=r"Mine: the identity b?'hopwire\.\w+' is reserved"):

        class Mine(Payload, identity=identity):
            pass

    class Yours(Payload, identity="hopwired.status"):
        pass


# -- threads


class Overlaps:
    """Counts how many threads look up the fields of a class at once: each stays until it has met another, or long."""

    def __init__(self) -> None:
        self.inside, self.most = 0, 0
        self._met, self._lock = threading.Event(), threading.Lock()

    def look(self) -> type:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        if self.most > 1:
            self._met.set()
        self._met.wait(0.05)
        with self._lock:
            self.inside -= 1
        return int


overlaps = Overlaps()


class First(Payload, identity="threads.first"):
    number: overlaps.look()  # type: ignore[valid-type]


class Second(Payload, identity="threads.second", codec=Codec.JSON):
    number: overlaps.look()  # type: ignore[valid-type]


def test_readers_are_made_one_at_a_time_for_what_msgspec_notes_by_half_ends_the_process() -> None:
    bodies = {First: b"\x81\xa6number\x01", Second: b'{"number":1}'}
    with ThreadPoolExecutor(2) as threads:
        made = list(threads.map(payload_from_body, bodies.keys(), bodies.values()))
    assert made == [First(1), Second(1)]
    assert overlaps.most == 1

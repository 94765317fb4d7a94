from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hopwire.errors import SettingsError
from hopwire.model import Payload
from hopwire.node.actors import Actor, handlers_of, handles, payloads_from
from hopwire.node.context import Context
from tests.node.stories import Count, Greet, Greeter, Greeting, Number


class Busy(Actor):
    @handles
    async def coroutine(self, request: Greet, context: Context) -> Greeting:
        return Greeting("")

    @handles(local_only=True)
    async def generator(self, request: Count) -> AsyncIterator[Number]:
        yield Number(1)

    @handles
    def function(self, request: Number) -> None:
        pass

    async def not_marked(self, request: Greeting) -> None:
        pass


def test_handlers_are_found_by_their_annotations() -> None:
    found = {handler.name: handler for handler in handlers_of(Busy)}
    assert {name: handler.kind for name, handler in found.items()} == {
        "coroutine": "coroutine",
        "generator": "generator",
        "function": "function",
    }
    assert [handler.payload for handler in found.values()] == [Greet, Number, Count]
    assert found["coroutine"].takes_context
    assert not found["function"].takes_context
    assert [name for name, handler in found.items() if handler.is_local_only] == ["generator"]


def test_handlers_are_inherited_and_may_be_overridden() -> None:
    class Polite(Greeter):
        @handles
        async def greet(self, request: Greet, context: Context) -> Greeting:
            return Greeting("good day")

    assert [handler.name for handler in handlers_of(Polite)] == ["greet"]


class NoHandler(Actor):
    pass


class Twice(Actor):
    @handles
    async def one(self, request: Greet) -> None: ...
    @handles
    async def two(self, request: Greet) -> None: ...


class NoAnnotation(Actor):
    @handles
    async def greet(self, request) -> None: ...  # type: ignore[no-untyped-def]


class NotAPayload(Actor):
    @handles
    async def greet(self, request: str) -> None: ...


class NoIdentity(Actor):
    class Nameless(Payload):
        pass

    @handles
    async def greet(self, request: NoIdentity.Nameless) -> None: ...


class TooMany(Actor):
    @handles
    async def greet(self, request: Greet, context: Context, more: int) -> None: ...


class Unknown(Actor):
    @handles
    async def greet(self, request: NoSuchName) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("actor", "text"),
    [
        (NoHandler, "NoHandler has no handler"),
        (Twice, "Twice has two handlers for Greet: one and two"),
        (NoAnnotation, "NoAnnotation.greet: 'request' must be annotated"),
        (NotAPayload, "NotAPayload.greet: 'request' must be annotated"),
        (NoIdentity, "Nameless has no identity"),
        (TooMany, "found 3 parameters"),
        (Unknown, "NoSuchName"),
    ],
)
def test_an_actor_that_makes_no_sense_is_named_with_the_reason(actor: type[Actor], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        handlers_of(actor)


class NoContext(Actor):
    @handles
    async def greet(self, request: Greet, r: int) -> None: ...


class AnyContext(Actor):
    @handles
    async def greet(self, request: Greet, context: object) -> None: ...


def test_a_second_parameter_is_the_context_and_nothing_else() -> None:
    with pytest.raises(SettingsError, match=r"NoContext\.greet: 'r' gets the context of the message, found .* int"):
        handlers_of(NoContext)
    assert handlers_of(AnyContext)[0].takes_context


@pytest.mark.parametrize("kind", [int, str, dict, Context])
def test_a_method_that_takes_what_is_plainly_no_payload_is_refused_where_it_is_written(kind: type) -> None:
    async def greet(self: Actor, r: Any) -> None: ...

    greet.__annotations__["r"] = kind
    with pytest.raises(
        SettingsError, match=f"greet: 'r' must be annotated with a payload class, found {kind.__name__}"
    ):
        handles(greet)
    with pytest.raises(SettingsError, match="found"):
        handles(local_only=True)(greet)


@pytest.mark.parametrize(
    ("result", "expected"),
    [(None, []), (Number(1), [Number(1)]), ((Number(1), Number(2)), [Number(1), Number(2)]), ([], [])],
)
def test_a_handler_returns_nothing_one_payload_or_several(result: Any, expected: list[Payload]) -> None:
    assert list(payloads_from(result, "here")) == expected


@pytest.mark.parametrize("result", ["text", 5, [Number(1), "text"], {"a": 1}])
def test_anything_else_is_refused(result: Any) -> None:
    with pytest.raises(SettingsError, match="here returned"):
        payloads_from(result, "here")

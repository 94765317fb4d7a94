"""Actors: classes whose methods take payloads.

    class Greeter(Actor):
        @handles
        async def greet(self, request: Greet, context: Context) -> Greeting: ...

What a handler takes is read off its annotations, once for each class. It returns nothing, one payload, several (a tuple
or a list), or is an async generator. A handler that is not a coroutine runs in a thread, and its context blocks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

from hopwire.errors import SettingsError
from hopwire.model import Payload, contract_of
from hopwire.model.payload import check_readable
from hopwire.node.context import BlockingContext, Context

__all__ = ["Actor", "ExecutorKind", "Handler", "Supervision", "handlers_of", "handles", "payloads_from"]

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__hopwire_handles__"
_HANDLERS: WeakKeyDictionary[type[Actor], tuple[Handler, ...]] = WeakKeyDictionary()  # each class is read once


@dataclass(frozen=True, slots=True)
class Handler:
    """One method of an actor: what it takes and how it is called."""

    name: str
    where: str  # the same with the name of the class
    method: Callable[..., Any]
    payload: type[Payload]
    takes_context: bool
    is_local_only: bool
    kind: str  # "coroutine", "generator" or "function"


def handles(method: F | None = None, *, local_only: bool = False) -> Any:
    """Mark a method as a handler; with `local_only` other nodes are not told of it."""

    def mark(function: F) -> F:
        _refuse_plain(function)
        setattr(function, MARK, local_only)
        return function

    return mark if method is None else mark(method)


def _refuse_plain(function: Callable[..., Any]) -> None:
    """Refuse a first parameter that is plainly no payload; names that cannot be looked up yet are looked at later."""
    parameters = list(inspect.signature(function).parameters.values())[1:2]
    for parameter in parameters:
        found = parameter.annotation
        if isinstance(found, type) and found is not parameter.empty and not issubclass(found, Payload):
            raise _not_a_payload(function.__qualname__, parameter.name, found)


def _not_a_payload(where: str, name: str, found: Any) -> SettingsError:
    what = "nothing" if found is None else getattr(found, "__name__", repr(found))
    return SettingsError(f"{where}: {name!r} must be annotated with a payload class, found {what:.80}")


class Supervision(StrEnum):
    """What becomes of an actor that has failed."""

    RESTART = "restart"
    STOP = "stop"
    ESCALATE = "escalate"


class ExecutorKind(StrEnum):
    """Where handlers run that are no coroutines."""

    THREADS = "threads"
    PROCESSES = "processes"


class Actor:
    """The base of all actors. `concurrency` messages are handled at a time: one, unless a class says otherwise.

    `supervision` says what becomes of an actor that has failed: `restart`, `stop` or `escalate`. `executor` says where
    handlers run that are no coroutines: in `threads` or in `processes`, as many as `concurrency`.
    """

    concurrency: int = 1
    supervision: str = Supervision.RESTART
    executor: str = ExecutorKind.THREADS

    async def on_start(self) -> None:
        """Called before the first message, and again after each failure of the actor."""

    async def on_stop(self) -> None:
        """Called after the last message, and after each failure of the actor."""


def handlers_of(actor_type: type[Actor]) -> tuple[Handler, ...]:
    """Find the handlers of a class by their annotations; a SettingsError names the one that makes no sense."""
    known = _HANDLERS.get(actor_type)
    if known is None:
        known = _HANDLERS[actor_type] = _find_handlers(actor_type)
    return known


def _find_handlers(actor_type: type[Actor]) -> tuple[Handler, ...]:
    found: dict[tuple[bytes, Any, bytes], Handler] = {}
    for name, method in inspect.getmembers(actor_type, inspect.isfunction):
        if not hasattr(method, MARK):
            continue
        handler = _handler(actor_type, name, method)
        contract = contract_of(handler.payload)
        if contract in found:
            both = f"{found[contract].name} and {name}"
            raise SettingsError(f"{actor_type.__name__} has two handlers for {handler.payload.__name__}: {both}")
        found[contract] = handler
    if not found:
        raise SettingsError(f"{actor_type.__name__} has no handler: mark a method with @handles")
    return tuple(found.values())


def _handler(actor_type: type[Actor], name: str, method: Callable[..., Any]) -> Handler:
    where = f"{actor_type.__name__}.{name}"
    parameters = list(inspect.signature(method).parameters.values())[1:]
    try:
        hints = get_type_hints(method)
    except NameError as error:
        raise SettingsError(f"{where}: {error}") from None
    if not 1 <= len(parameters) <= 2:
        raise SettingsError(
            f"{where} takes a payload, and a context if it wants one; found {len(parameters)} parameters"
        )
    payload = hints.get(parameters[0].name)
    if not (isinstance(payload, type) and issubclass(payload, Payload)):
        raise _not_a_payload(where, parameters[0].name, payload)
    context = hints.get(parameters[1].name) if len(parameters) > 1 else None
    contract_of(payload)
    check_readable(payload)
    kind = "function"
    if inspect.iscoroutinefunction(method):
        kind = "coroutine"
    elif inspect.isasyncgenfunction(method):
        kind = "generator"
    if kind == "function" and len(parameters) == 2 and actor_type.executor == ExecutorKind.PROCESSES:
        raise SettingsError(f"{where} runs in a process, where it has no context: make it a coroutine, or use threads")
    fitting = (Context, BlockingContext) if kind == "function" else (Context,)
    if isinstance(context, type) and not any(issubclass(each, context) for each in fitting):
        second, found = parameters[1].name, context.__name__
        raise SettingsError(f"{where}: {second!r} gets the context of the message, found it annotated as {found}")
    return Handler(name, where, method, payload, len(parameters) == 2, getattr(method, MARK), kind)


def payloads_from(result: Any, where: str) -> Sequence[Payload]:
    """Give what a handler returned as a sequence of payloads."""
    if isinstance(result, Payload):
        return (result,)
    if result is None:
        return ()
    if isinstance(result, tuple | list) and all(isinstance(each, Payload) for each in result):
        return result
    raise SettingsError(f"{where} returned {type(result).__name__}, expected nothing or payloads")

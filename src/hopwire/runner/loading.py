"""Actors from modules: `shop.actors:make` becomes the actors that a node hosts.

| the name stands for | the actors are |
|---|---|
| an instance of `Actor` | this actor |
| a class of actors | one instance, made without arguments |
| a callable, also a coroutine function | what it gives |
| a list or a tuple | what each of its items stands for |
| an async context, or a plain one | what it gives when it is entered; it is left after the node has stopped |

What a user's module raises is one line, with the place. The error itself is the cause of that line.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from importlib import import_module
from typing import Any

from hopwire.errors import SettingsError
from hopwire.node import Actor
from hopwire.report.words import nearest

__all__ = ["find_named", "open_actors"]

MOST_LAYERS = 8  # of lists in contexts in callables: a callable that gives itself would never end
EXPECTED = "an actor, a class of actors, several of them, a callable that gives these, or an async context"


def find_named(place: str, directory: str = "") -> Any:
    """Give what a module has under a name, as in `shop.actors:make`; modules in the directory are found too."""
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise SettingsError(f"{place!r:.80} is no place of actors, expected MODULE:NAME such as shop.actors:make")
    if directory and directory not in sys.path:
        sys.path.insert(0, directory)
    found = _called(lambda: import_module(module_name), module_name, "cannot be imported")
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = nearest(part, dir(found))
            hint = f"; did you mean {near!r}?" if near else ""
            raise SettingsError(f"{module_name} has no {name!r:.80}{hint}") from None
    return found


async def open_actors(given: Any, where: str, stack: AsyncExitStack, layers: int = MOST_LAYERS) -> list[Actor]:
    """Give the actors that a value stands for; contexts are entered, and left when the stack is closed."""
    if isinstance(given, Actor):
        return [given]
    if layers and isinstance(given, list | tuple):
        found = [await open_actors(each, where, stack, layers - 1) for each in given]
        return [actor for actors in found for actor in actors]
    if layers and isinstance(given, AbstractAsyncContextManager):
        return await open_actors(await _entered(given, where, stack), where, stack, layers - 1)
    if layers and isinstance(given, AbstractContextManager):
        entered = _called(given.__enter__, where, "raised")
        stack.push(_leaving(given, where))
        return await open_actors(entered, where, stack, layers - 1)
    if layers and callable(given) and not (isinstance(given, type) and not issubclass(given, Actor)):
        result = _called(given, where, "raised")
        if inspect.isawaitable(result):
            try:
                result = await result
            except (Exception, SystemExit) as error:
                raise _raised(where, "raised", error) from error
        return await open_actors(result, where, stack, layers - 1)
    raise SettingsError(f"{where} gives {_words(given)}, expected {EXPECTED}")


async def _entered(given: AbstractAsyncContextManager[Any], where: str, stack: AsyncExitStack) -> Any:
    try:
        entered = await given.__aenter__()
    except (Exception, SystemExit) as error:
        raise _raised(where, "raised", error) from error

    async def leave(*details: Any) -> bool | None:
        try:
            return await given.__aexit__(*details)
        except (Exception, SystemExit) as error:
            raise _raised(where, "raised when it was left", error) from error

    stack.push_async_exit(leave)
    return entered


def _leaving(given: AbstractContextManager[Any], where: str) -> Callable[..., bool | None]:
    def leave(*details: Any) -> bool | None:
        return bool(_called(lambda: given.__exit__(*details), where, "raised when it was left"))

    return leave


def _called(function: Callable[[], Any], where: str, what: str) -> Any:
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise _raised(where, what, error) from error


def _raised(where: str, what: str, error: BaseException) -> SettingsError:
    text = " ".join(str(error).split())
    return SettingsError(f"{where} {what}: {type(error).__name__}{': ' if text else ''}{text:.300}")


def _words(given: Any) -> str:
    if given is None:
        return "nothing"
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__

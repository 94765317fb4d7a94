"""What a name may stand for, and the one line where it stands for something else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from hopwire.errors import SettingsError
from hopwire.runner.loading import find_named, open_actors
from tests.runner import shop

PLACE = "tests.runner.shop"


def actors_of(name: str) -> list[str]:
    async def opened() -> list[str]:
        async with AsyncExitStack() as stack:
            return [type(each).__name__ for each in await open_actors(find_named(name), name, stack)]

    return asyncio.run(opened())


# fmt: off
GIVEN = (
    ("SHOP",       ["Shop"]),
    ("Shop",       ["Shop"]),
    ("make",       ["Shop"]),
    ("make_both",  ["Shop", "Stock"]),
    ("BOTH",       ["Shop", "Stock"]),
    ("opened",     ["Shop"]),
)
WRONG = (
    ("shop",            "'shop' is no place of actors, expected MODULE:NAME such as shop.actors:make"),
    ("nope.x:y",        "nope.x cannot be imported: ModuleNotFoundError: No module named 'nope'"),
    (f"{PLACE}:mak",    f"{PLACE} has no 'mak'; did you mean 'make'?"),
    (f"{PLACE}:zzzzzz", f"{PLACE} has no 'zzzzzz'"),
    (f"{PLACE}:broken", f"{PLACE}:broken raised: ValueError: no money"),
    (f"{PLACE}:nothing", f"{PLACE}:nothing gives nothing, expected an actor, a class of actors, several of them, "
                         "a callable that gives these, or an async context"),
    (f"{PLACE}:NUMBER", f"{PLACE}:NUMBER gives int, expected"),
    (f"{PLACE}:Order",  f"{PLACE}:Order gives the class Order, expected"),
    (f"{PLACE}:endless", f"{PLACE}:endless gives function, expected"),
)
# fmt: on


@pytest.mark.parametrize(("name", "kinds"), GIVEN)
def test_a_name_gives_actors(name: str, kinds: list[str]) -> None:
    assert actors_of(f"{PLACE}:{name}") == kinds


@pytest.mark.parametrize(("name", "line"), WRONG)
def test_anything_else_is_one_line(name: str, line: str) -> None:
    with pytest.raises(SettingsError) as found:
        actors_of(name)
    assert str(found.value).startswith(line)
    assert "\n" not in str(found.value)


def test_a_context_is_left_when_the_stack_is_closed() -> None:
    shop.left.clear()
    assert actors_of(f"{PLACE}:opened") == ["Shop"]
    assert find_named(f"{PLACE}:left") == ["opened"]


def test_plain_contexts_are_entered_and_left_too() -> None:
    @contextmanager
    def plain() -> Iterator[shop.Shop]:
        yield shop.Shop()
        shop.left.append("plain")

    async def main() -> None:
        async with AsyncExitStack() as stack:
            assert len(await open_actors(plain, "plain", stack)) == 1
            assert shop.left == []

    shop.left.clear()
    asyncio.run(main())
    assert shop.left == ["plain"]


def test_a_context_that_fails_when_it_is_left_is_one_line() -> None:
    @asynccontextmanager
    async def waiting() -> AsyncIterator[shop.Shop]:
        yield shop.Shop()
        raise OSError("no more till")

    @contextmanager
    def plain() -> Iterator[shop.Shop]:
        yield shop.Shop()
        raise OSError("no more till")

    async def main(given: object) -> None:
        async with AsyncExitStack() as stack:
            await open_actors(given, "shop:opened", stack)

    for given in (waiting, plain):
        with pytest.raises(SettingsError, match=r"^shop:opened raised when it was left: OSError: no more till$"):
            asyncio.run(main(given))


def test_a_module_that_fails_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "failing_module_of_a_user.py").write_text("raise SystemExit('no')", "utf-8")
    with pytest.raises(SettingsError, match=r"^failing_module_of_a_user cannot be imported: SystemExit: no$"):
        find_named("failing_module_of_a_user:x", str(tmp_path))

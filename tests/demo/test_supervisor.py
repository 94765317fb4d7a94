"""The processes: one that dies is named, and none is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hopwire.demo.supervisor import CAPTURES, _process, live
from hopwire.errors import Unreachable

pytestmark = pytest.mark.slow


def test_a_process_that_cannot_work_is_named_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / CAPTURES).write_text("a file where the captures should go", "utf-8")
    with pytest.raises(Unreachable, match=r"the process of rendezvous ended: .*captures"):
        asyncio.run(live(tmp_path, 7, 1))


def test_a_process_ends_when_nobody_talks_to_it_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with _process("ledger", tmp_path) as process:
            await process.end()
            assert process.process.returncode == 0

    asyncio.run(story())


def test_a_process_is_gone_whatever_happens(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(ZeroDivisionError):
            async with _process("ledger", tmp_path) as process:
                raise ZeroDivisionError
        assert process.process.returncode == -9

    asyncio.run(story())

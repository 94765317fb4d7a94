"""Spark for a command that may need it: started when it is asked for, stopped when the command ends."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hopwire.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["build_settings", "lazy_session", "need_spark"]


def need_spark() -> None:
    """Refuse to go on without the package of Spark."""
    if find_spec("pyspark") is None:
        raise SettingsError('pyspark is not installed: pip install "hopwire[spark]"')


def build_settings(captures: Path | None, master: str | None = None, memory: str | None = None) -> dict[str, Any]:
    """Give the settings of Spark for these captures, or for a lake that is large, and this machine."""
    from hopwire.lake.session import check_master, choose_memory, free_bytes, small_settings

    if master:
        check_master(master)
    settings: dict[str, Any] = {"spark.master": master} if master else {}
    if not master or master.startswith("local"):
        settings["spark.driver.memory"] = choose_memory(memory, free_bytes())
        settings |= small_settings(captures, os.environ) if captures is not None else {}
    elif memory:
        settings["spark.executor.memory"] = memory
    return settings


@contextmanager
def lazy_session(name: str, settings: Callable[[], Mapping[str, Any]]) -> Iterator[Any]:
    """Give the function that starts Spark; a Spark that was started is stopped at the end."""
    started: list[Any] = []
    logging.getLogger().addHandler(logging.NullHandler())  # or py4j writes to the terminal on Ctrl+C

    def start() -> Any:
        if not started:
            need_spark()
            from hopwire.lake.dataframes import plain_errors
            from hopwire.lake.session import session

            chosen, handler = settings(), signal.getsignal(signal.SIGINT)
            with plain_errors("Spark does not start"):
                started.append(session(name, **chosen))
            signal.signal(signal.SIGINT, handler)  # that of Spark asks Java, which already waits
        return started[0]

    try:
        yield start
    finally:
        for spark in started:
            spark.stop()

"""From the captures of a day to the tables of a lake, where Spark can run."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from hopwire.demo.supervisor import PATIENCE_SECONDS, Day
from hopwire.errors import SettingsError
from hopwire.model.units import MEBIBYTE

__all__ = ["build_lake", "what_is_missing"]

CORES = "local[2]"  # the captures of a day are small
TASK_BYTES, STEP_ROWS = MEBIBYTE, 1  # one process would do for so little: Spark shows what it does for more


def what_is_missing() -> str:
    """Say in one line what Spark lacks on this machine, and how to get it; give no text if Spark can run."""
    if find_spec("pyspark") is None:
        return 'pyspark is not installed: pip install "hopwire[spark]"'
    from hopwire.lake.java import find_java
    from hopwire.lake.session import choose_memory, free_bytes

    try:
        find_java()
        choose_memory(None, free_bytes())
    except SettingsError as error:
        return str(error)
    return ""


def build_lake(day: Day, lake: Path, on_step: Callable[[str], None] = lambda step: None) -> int:
    """Build all tables; gives how many."""
    from hopwire.lake.build import build
    from hopwire.lake.session import choose_memory, free_bytes, session
    from hopwire.lake.settings import LakeSettings

    on_step("starting Spark")
    spark = session(
        "hopwire demo",
        **{"spark.master": CORES, "spark.driver.memory": choose_memory(None, free_bytes())},
    )
    try:
        built = build(
            spark,
            day.captures,
            lake,
            domains=day.domains,
            settings=LakeSettings(patience_seconds=PATIENCE_SECONDS, task_bytes=TASK_BYTES, step_rows=STEP_ROWS),
            progress=lambda what, done, total: on_step(f"building {what}"),
        )
    finally:
        spark.stop()
    return len(built.manifest.tables)

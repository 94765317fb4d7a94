"""The Spark session: quiet, in UTC, with Arrow, on this machine unless a setting names a cluster; and its memory.

Which setting wins: the caller's, then SPARK_MASTER, then spark-defaults.conf, then the three tables below. Under
spark-submit the JVM runs already and knows its master and its defaults: only `SQL` and the caller's settings are set.

The trap: Java reads its settings when it starts. A second session in one process keeps the settings of the first.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import pyspark
from pyspark import java_gateway
from pyspark.sql import SparkSession

from hopwire.errors import SettingsError
from hopwire.lake.java import find_java, shown_to_spark
from hopwire.lake.processor import numpy_settings
from hopwire.places import Place, list_files, look_at

__all__ = [
    "GB",
    "Setting",
    "any_names",
    "check_master",
    "choose_memory",
    "choose_settings",
    "free_bytes",
    "session",
    "small_settings",
]

Setting: TypeAlias = str | int | float | bool

LOOPBACK = "127.0.0.1"
UTF_8_LOCALE = "C.UTF-8"
GB = 1024**3
MIN_FREE_BYTES = GB  # a JVM, two Python workers with their batches, and nothing to spare
MAX_DEFAULT_BYTES = 4 * GB  # more does not make a build on one machine faster
UNITS = {"k": 1024, "m": 1024**2, "g": GB, "t": 1024 * GB}
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").as_uri()

# the tables of the lake rely on these
SQL: dict[str, Setting] = {
    "spark.sql.execution.arrow.pyspark.enabled": True,
    "spark.sql.session.timeZone": "UTC",
}
# how a Spark starts that hopwire starts
START: dict[str, Setting] = {
    "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
    "spark.master": "local[*]",
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    # workers keep the memory of a batch for the next: fetching it from the system again made 85 % of the page faults
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
}
# how a Spark starts that has little to do: most of its time would go into compiling code that runs once
SMALL: dict[str, Setting] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SMALL_BYTES = 64 * 1024**2  # captures of fewer bytes are little to do
# the network of a Spark on this machine alone
LOCAL: dict[str, Setting] = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
}


def session(app: str = "hopwire", **settings: Setting) -> SparkSession:
    """Start Spark, or give the session that runs already.

    >>> session("count", **{"spark.master": "local[2]"}).range(10).count()  # doctest: +SKIP
    10
    """
    chosen = choose_settings(settings, os.environ)
    if _is_local(chosen):
        os.environ["PYSPARK_PYTHON"] = sys.executable  # workers need the packages of this process
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)  # or Spark asks for the address of the host name
    builder = SparkSession.builder.appName(app)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    with nullcontext() if _is_submitted(os.environ) else shown_to_spark(find_java()), _no_orphans(), any_names():
        return builder.getOrCreate()


@contextmanager
def any_names() -> Iterator[None]:
    """Let Java find files of any name: under the locale C Java finds no file whose name has an umlaut."""
    before = os.environ.get("LC_ALL")
    chosen = before or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "C"
    if "utf" in chosen.lower() or os.name == "nt":
        yield
        return
    os.environ["LC_ALL"] = UTF_8_LOCALE
    try:
        yield
    finally:
        del os.environ["LC_ALL"]
        if before is not None:
            os.environ["LC_ALL"] = before


@contextmanager
def _no_orphans() -> Iterator[None]:
    """End a JVM whose start fails: PySpark would leave the JVM behind."""
    started: list[Any] = []
    gateway: Any = java_gateway
    popen = gateway.Popen

    def watched(*args: Any, **kwargs: Any) -> Any:
        started.append(popen(*args, **kwargs))
        return started[-1]

    gateway.Popen = watched
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        gateway.Popen = popen


def check_master(master: str) -> None:
    """Refuse in one line a master that Spark would refuse in a hundred lines."""
    if not re.fullmatch(MASTER, master):
        expected = "local, local[2], local[*], spark://host:7077, yarn or k8s://..."
        raise SettingsError(f"--master: found {master!r:.60}, expected {expected}")


def choose_settings(settings: Mapping[str, Setting], environ: Mapping[str, str]) -> dict[str, Setting]:
    """Merge the settings of the caller, the environment, spark-defaults.conf and hopwire; the first of them wins."""
    if _is_submitted(environ):
        return {**SQL, **settings}
    named = {"spark.master": environ["SPARK_MASTER"]} if "SPARK_MASTER" in environ else {}
    chosen = {**SQL, **START, **_read_spark_defaults(environ), **named, **settings}
    return {**LOCAL, **_of_workers(environ), **chosen} if _is_local(chosen) else chosen


def _of_workers(environ: Mapping[str, str]) -> dict[str, Setting]:
    """What workers find in their environment, if they run on the processor of this machine."""
    return {f"spark.executorEnv.{name}": value for name, value in numpy_settings(environ).items()}


MASTER = r"local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?|spark://.+:\d+(,.+:\d+)*|yarn|k8s://.+"


def _is_local(chosen: Mapping[str, Setting]) -> bool:
    return str(chosen.get("spark.master", "")).startswith("local")


def _is_submitted(environ: Mapping[str, str]) -> bool:
    return "PYSPARK_GATEWAY_PORT" in environ


def _read_spark_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    spark_home = environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(environ.get("SPARK_CONF_DIR") or Path(spark_home, "conf"), "spark-defaults.conf")
    text = file.read_text("utf-8") if file.is_file() else ""
    return dict(re.findall(r"^[ \t]*(spark\.[^\s=:]+)(?:[ \t]*[=:][ \t]*|[ \t]+)(.*?)[ \t]*$", text, re.MULTILINE))


def small_settings(captures: Place, environ: Mapping[str, str]) -> dict[str, Setting]:
    """Give the settings of a Spark that is to read these captures, if they are small and nobody has set it up."""
    if _is_submitted(environ) or SMALL.keys() & _read_spark_defaults(environ).keys():
        return {}
    one = look_at(captures)
    files = [one] if one and not one.said else list_files(captures)
    return dict(SMALL) if sum(file.size_bytes for file in files) < SMALL_BYTES else {}


# -- memory: looked at before a build begins, so that the build does not die late


def choose_memory(asked: str | None, free: int | None) -> str:
    """Give the memory for Spark, in the spelling of Spark: as much as was asked for, or half of the free memory."""
    if free is not None and free < MIN_FREE_BYTES:
        raise SettingsError(
            f"{free / GB:.1f} GB of memory are free, a build needs 1 GB: end something, or build elsewhere"
        )
    if asked is None:
        size = MAX_DEFAULT_BYTES if free is None else min(free // 2, MAX_DEFAULT_BYTES)
        return f"{size // UNITS['m']}m"
    found = re.fullmatch(r"(\d+)([kmgt])b?", asked.strip().lower())
    if found is None:
        raise SettingsError(f"--memory: found {asked!r:.40}, expected a size such as 4g or 800m")
    size = int(found[1]) * UNITS[found[2]]
    if size < GB // 2:
        raise SettingsError(f"--memory: found {asked}, Spark needs at least 512m")
    if free is not None and size > free:
        raise SettingsError(f"--memory: found {asked}, {free / GB:.1f} GB are free: ask for less, or end something")
    return f"{size // UNITS['m']}m"


def free_bytes(root: Path = Path("/")) -> int | None:
    """Give the memory that is free on this machine or in this container; None where the system does not say."""
    sizes = [_from_meminfo(root / "proc/meminfo"), _from_cgroup(root / "sys/fs/cgroup")]
    return min((size for size in sizes if size is not None), default=None)


def _from_meminfo(path: Path) -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", path.read_text(), re.MULTILINE) if path.exists() else None
    return int(found[1]) * 1024 if found else None


def _from_cgroup(place: Path) -> int | None:
    try:
        limit, used = ((place / name).read_text().strip() for name in ("memory.max", "memory.current"))
        stat = (place / "memory.stat").read_text()
    except OSError:
        return None
    cached = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)  # the system gives a cache back when asked
    return None if limit == "max" else int(limit) - int(used) + (int(cached[1]) if cached else 0)

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Timer, get_ident

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hopwire.errors import SettingsError
from hopwire.lake.processor import DISABLED, numpy_settings
from hopwire.lake.session import (
    GB,
    SMALL,
    SMALL_BYTES,
    any_names,
    choose_memory,
    choose_settings,
    free_bytes,
    small_settings,
)
from tests.conftest import take_up_again


def test_spark_is_local_and_on_loopback_by_default(tmp_path: Path) -> None:
    chosen = choose_settings({}, {"SPARK_CONF_DIR": str(tmp_path)})
    assert chosen["spark.master"] == "local[*]"
    assert chosen["spark.driver.host"] == "127.0.0.1"
    assert chosen["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize("line", ["spark.master spark://a", "  spark.master = spark://a  ", "spark.master:spark://a"])
def test_spark_defaults_name_the_master(tmp_path: Path, line: str) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"# spark.master yarn\n\n{line}\nspark.ui.enabled true\n")
    chosen = choose_settings({}, {"SPARK_CONF_DIR": str(tmp_path)})
    assert chosen["spark.master"] == "spark://a"
    assert chosen["spark.ui.enabled"] == "true"
    assert "spark.driver.host" not in chosen


def test_environment_wins_over_spark_defaults_and_the_caller_over_both(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master yarn\n")
    environ = {"SPARK_CONF_DIR": str(tmp_path), "SPARK_MASTER": "spark://b:7077"}
    assert choose_settings({}, environ)["spark.master"] == "spark://b:7077"
    assert choose_settings({"spark.master": "local[3]"}, environ)["spark.master"] == "local[3]"


def test_submitted_job_keeps_the_master_and_the_settings_of_spark_submit() -> None:
    chosen = choose_settings({"spark.app.id": "x"}, {"PYSPARK_GATEWAY_PORT": "1", "SPARK_MASTER": "yarn"})
    assert "spark.master" not in chosen
    assert "spark.ui.enabled" not in chosen
    assert (chosen["spark.app.id"], chosen["spark.sql.session.timeZone"]) == ("x", "UTC")


@pytest.mark.spark
@pytest.mark.slow
def test_workers_keep_their_memory_between_batches(spark: SparkSession) -> None:
    def delay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"delay": [os.environ.get("MIMALLOC_PURGE_DELAY", "")]})

    assert [row.delay for row in spark.range(1).mapInArrow(delay, "delay string").collect()] == ["-1"]


@pytest.mark.spark
@pytest.mark.slow
def test_workers_have_the_settings_of_numpy(spark: SparkSession) -> None:
    def disabled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"disabled": [os.environ.get(DISABLED, "")]})

    expected = {**os.environ, **numpy_settings(os.environ)}.get(DISABLED, "")
    assert [row.disabled for row in spark.range(1).mapInArrow(disabled, "disabled string").collect()] == [expected]


@pytest.mark.spark
@pytest.mark.slow
def test_session_counts(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10


class LimitReached(BaseException):
    """What a time limit raises."""


@pytest.mark.spark
@pytest.mark.slow
def test_session_is_taken_up_again_behind_a_test_that_reached_its_limit(spark: SparkSession) -> None:
    def interrupt(*_: object) -> None:
        raise LimitReached

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        Timer(0.1, signal.pthread_kill, (get_ident(), signal.SIGUSR1)).start()
        with pytest.raises(LimitReached):
            spark._jvm.java.lang.Thread.sleep(60_000)
    finally:
        signal.signal(signal.SIGUSR1, before)
    take_up_again(spark)
    assert [spark.range(count).count() for count in (10, 11)] == [10, 11]


@pytest.mark.spark
@pytest.mark.slow
def test_arrow_batches_go_through_python_and_back(spark: SparkSession) -> None:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    numbers = spark.range(10)
    assert sorted(row.id for row in numbers.mapInArrow(same, numbers.schema).collect()) == list(range(10))


@pytest.mark.parametrize(
    ("environ", "chosen"),
    [
        ({"LC_ALL": "C"}, "C.UTF-8"),
        ({"LANG": "de_DE.ISO-8859-1"}, "C.UTF-8"),
        ({}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8"}, None),
        ({"LC_ALL": "C.utf8", "LANG": "C"}, "C.utf8"),
    ],
)
def test_java_starts_with_a_locale_that_knows_every_name(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], chosen: str | None
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with any_names():
        assert os.environ.get("LC_ALL") == chosen
    assert os.environ.get("LC_ALL") == environ.get("LC_ALL")


# -- memory


@pytest.mark.parametrize(
    ("asked", "free", "chosen"),
    [
        (None, 6 * GB, "3072m"),
        (None, 64 * GB, "4096m"),
        (None, None, "4096m"),
        ("2g", 6 * GB, "2048m"),
        ("800M", 6 * GB, "800m"),
    ],
)
def test_memory_is_what_was_asked_for_or_half_of_what_is_free(asked: str | None, free: int | None, chosen: str) -> None:
    assert choose_memory(asked, free) == chosen


@pytest.mark.parametrize(
    ("asked", "free", "fault"),
    [
        (None, GB // 2, "0.5 GB of memory are free, a build needs 1 GB: end something, or build elsewhere"),
        ("8g", 4 * GB, "--memory: found 8g, 4.0 GB are free: ask for less, or end something"),
        ("lots", 4 * GB, "--memory: found 'lots', expected a size such as 4g or 800m"),
        ("100m", 4 * GB, "--memory: found 100m, Spark needs at least 512m"),
    ],
)
def test_too_little_memory_is_refused_with_the_remedy(asked: str | None, free: int, fault: str) -> None:
    with pytest.raises(SettingsError) as caught:
        choose_memory(asked, free)
    assert str(caught.value) == fault


def test_container_has_less_than_its_machine(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) is None
    for name, text in {
        "proc/meminfo": "MemTotal: 9 kB\nMemAvailable:  8388608 kB\n",
        "sys/fs/cgroup/memory.max": f"{4 * GB}\n",
        "sys/fs/cgroup/memory.current": f"{3 * GB}\n",
        "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {GB}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_bytes(tmp_path) == 2 * GB
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert free_bytes(tmp_path) == 8 * GB


def test_java_compiles_little_for_small_captures_unless_somebody_has_set_it_up(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    environ = {"SPARK_CONF_DIR": str(tmp_path / "conf")}
    captures = tmp_path / "captures"
    captures.mkdir()
    (captures / "a.arrows").write_bytes(b"x")
    assert small_settings(captures, environ) == small_settings(captures / "a.arrows", environ) == SMALL
    assert small_settings(captures, {**environ, "PYSPARK_GATEWAY_PORT": "1"}) == {}
    assert small_settings(tmp_path / "missing", environ) == SMALL, "the build says what is missing"
    os.truncate(captures / "a.arrows", SMALL_BYTES)
    assert small_settings(captures, environ) == {}
    os.truncate(captures / "a.arrows", 1)
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Dmine=1\n")
    assert small_settings(captures, environ) == {}

"""A real Spark cluster on this machine: a master and workers as processes, on loopback, ended by their ids."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from hopwire.lake.java import SCRIPT_HOME, find_java
from tests.ports import free_port

HOST = "127.0.0.1"
PATIENCE_SECONDS = 180.0  # for a Java to begin, however slow the machine
DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master, and workers that have registered with it."""

    url: str
    workers: tuple[subprocess.Popen[bytes], ...]
    place: Path


@contextmanager
def standalone(place: Path, workers: int = 2) -> Iterator[Cluster]:
    """Run a master and workers with one core each; the processes end with the block."""
    port = free_port()
    with ExitStack() as stack:
        start = stack.enter_context
        start(_daemon(place, "master", f"{DEPLOY}.master.Master", "--host", HOST, "--port", str(port), *_web()))
        url = f"spark://{HOST}:{port}"
        _wait_for(place / "master.log", "Starting Spark master at")
        more = ("--host", HOST, "--cores", "1", "--memory", "1g", *_web(), url)
        names = [f"worker-{number}" for number in range(workers)]
        running = tuple(
            start(_daemon(place, name, f"{DEPLOY}.worker.Worker", "--work-dir", str(place / name), *more))
            for name in names
        )
        for name in names:
            _wait_for(place / f"{name}.log", "Successfully registered with master")
        yield Cluster(url, running, place)


def _web() -> tuple[str, str]:
    return "--webui-port", str(free_port())


@contextmanager
def _daemon(place: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    home, java = Path(pyspark.__file__).parent, find_java()
    environ = {
        **os.environ,
        "JAVA_HOME": str(SCRIPT_HOME),  # executors are started with an option that a small Java does not know
        "HOPWIRE_JAVA": str(java.path / "bin" / "java"),
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.13",  # which Spark's own scripts would set
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(place / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{home}/jars/*"]
    with open(place / f"{name}.log", "wb") as log:
        process = subprocess.Popen([environ["HOPWIRE_JAVA"], *options, *command], env=environ, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _wait_for(log: Path, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not re.search(words, log.read_text(errors="replace")):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.05)

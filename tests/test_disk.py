"""Files that are opened and made: regular ones only, no symlink followed, for their owner only."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hopwire.disk import (
    MAX_TEXT_BYTES,
    NotRegular,
    check_mode,
    create_file,
    directory_mode,
    local_path,
    make_directory,
    open_regular,
    read_named_text,
    read_regular,
    replace_file,
    shown_name,
)
from hopwire.errors import SettingsError


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # the address of a socket is short
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


# fmt: off
THINGS: list[tuple[str, Callable[[Path], object]]] = [
    ("a FIFO",                           os.mkfifo),
    ("a socket",                         make_socket),
    ("a directory",                      os.mkdir),
    ("a symlink, which is not followed", lambda path: path.symlink_to("/etc/hostname")),
    ("a symlink, which is not followed", lambda path: path.symlink_to("nowhere")),
    ("a symlink, which is not followed", lambda path: path.symlink_to(path.name)),
    ("a symlink, which is not followed", lambda path: path.symlink_to("/dev/zero")),
]
# fmt: on


@pytest.mark.timeout(10)
@pytest.mark.parametrize(("words", "make"), THINGS, ids=range(len(THINGS)))
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, words: str, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x")
    with pytest.raises(NotRegular) as caught:
        open_regular(tmp_path / "x")
    assert caught.value.strerror == f"is {words}, expected a regular file"
    assert caught.value.filename == str(tmp_path / "x")


def test_symlink_that_the_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link", is_named=True) as file:
        assert file.read() == b"x"
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(NotRegular, match="is a device"):
        open_regular(tmp_path / "zero", is_named=True)


def test_file_that_should_be_small_is_read_only_if_it_is(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert read_regular(tmp_path / "x", 5) == b"12345"
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_regular(tmp_path / "x", 4)


def test_new_files_and_directories_are_for_their_owner_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    make_directory(tmp_path / "a" / "b")
    replace_file(tmp_path / "a" / "b" / "x", b"secret")
    assert [mode_of(tmp_path / name) for name in ("a", "a/b", "a/b/x")] == [0o700, 0o700, 0o600]
    make_directory(tmp_path / "c", 0o640)
    os.close(create_file(tmp_path / "c" / "x", 0o640))
    assert [mode_of(tmp_path / name) for name in ("c", "c/x")] == [0o750, 0o640]


def test_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_directory(tmp_path)
    make_directory(tmp_path / "new")
    assert (mode_of(tmp_path), mode_of(tmp_path / "new")) == (0o755, 0o700)


def test_symlink_in_the_place_of_a_file_to_write_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("x", "x.new", "y"):
        (tmp_path / name).symlink_to(victim)
    replace_file(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "y")
    (tmp_path / "z").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "z")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("mode", [0o400, 0o1600, -1, "0o600", True, 0])
def test_mode_that_is_none_is_refused(mode: object) -> None:
    with pytest.raises(SettingsError, match=r"file_mode must be a mode such as 0o600 or 0o640, not"):
        check_mode(mode)


def test_who_may_read_files_may_enter_their_directory() -> None:
    assert [directory_mode(mode) for mode in (0o600, 0o640, 0o644, 0o660)] == [0o700, 0o750, 0o755, 0o770]


@pytest.mark.parametrize("path", ["s3://b/l", "s3a://b/l", "hdfs://h:1/l", "gs://b", "abfss://c@a/l", "file:///tmp/l"])
def test_path_of_another_machine_is_refused_in_words(path: str) -> None:
    for given in (path, Path(path)):  # pathlib has made one slash of two
        with pytest.raises(SettingsError, match=r"^.*: only local paths are supported, not [a-z0-9]+://; "):
            local_path(given)


@pytest.mark.parametrize("name", ["run:1/lake", "a:b", "x,y", "[1]*", "a\nb", "läke", "c:"])
def test_any_local_name_is_a_path_from_the_root(name: str) -> None:
    assert local_path(name) == Path.cwd() / name


def test_name_that_is_no_text_is_refused_in_words() -> None:
    with pytest.raises(SettingsError, match=r"^a\\xffb: is not UTF-8; name another path$"):
        local_path(os.fsdecode(b"a\xffb"))
    with pytest.raises(SettingsError, match="has a NUL in it"):
        local_path("a\0b")
    assert shown_name(os.fsdecode(b"\xff\xc3\xa4")) == "\\xffä"


def test_text_that_a_user_names_is_of_a_regular_file_and_not_endless(tmp_path: Path) -> None:
    file, link = tmp_path / "node.toml", tmp_path / "link.toml"
    file.write_text("name = 'größe'", encoding="utf-8")
    link.symlink_to(file)  # so Kubernetes mounts secrets
    assert read_named_text(link) == "name = 'größe'"
    with pytest.raises(OSError, match="is a device, expected a regular file"):
        read_named_text("/dev/zero")
    with file.open("wb") as grown:
        grown.truncate(MAX_TEXT_BYTES + 1)
    with pytest.raises(OSError, match="has more than 4,194,304 bytes"):
        read_named_text(file)

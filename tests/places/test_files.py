"""Files of a place: the same questions have the same answers on this machine and in a bucket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow import fs

from hopwire.disk import NotRegular
from hopwire.errors import PlaceError, SettingsError
from hopwire.places import (
    Place,
    RemotePath,
    hold_local,
    is_empty,
    list_below,
    list_directories,
    list_files,
    look_at,
    make_place,
    new_file,
    open_file,
    place_of,
    put,
    put_new,
    read_file,
    read_range,
    remove_below,
    remove_files,
    upload,
)
from hopwire.places.hadoop_store import HadoopStore
from hopwire.places.store_errors import place_error
from tests.s3_server import S3Server


def check_words_of_a_place(place: Place, tmp_path: Path) -> None:
    """One story for both kinds of place."""
    assert is_empty(place)
    assert list_files(place) == list_below(place) == []
    make_place(place / "below")
    assert put_new(place / "one", b"first")
    assert not put_new(place / "one", b"second"), "the name is taken"
    put(place / "below" / "two", b"0123456789")
    put(place / "below" / "two", b"abcdefghij")
    assert [each.name for each in list_below(place)] == ["below/two", "one"]
    assert [each.name for each in list_files(place) if not each.said] == ["one"]
    assert list_directories(place) == ["below"]
    found = look_at(place / "one")
    assert found is not None
    assert (found.name, found.size_bytes, found.said) == ("one", 5, "")
    assert look_at(place / "none") is None
    assert read_file(place / "one", 5) == b"first"
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_file(place / "one", 4)
    with pytest.raises(FileNotFoundError):
        read_file(place / "none", 4)
    assert read_range(place / "below" / "two", 2, 5) == b"cde"
    with open_file(place / "below" / "two") as file:
        assert (file.seek(-3, os.SEEK_END), file.read(), file.seek(1), file.read(2)) == (7, b"hij", 1, b"bc")
    written = new_file(place / "below" / "three")
    written.sink.write(b"x" * 100)
    assert written.close() == 100
    assert read_file(place / "below" / "three", 100) == b"x" * 100
    (tmp_path / "big").write_bytes(bytes(range(256)) * 80_000)  # more than one part of an upload
    upload(tmp_path / "big", place / "big")
    assert read_range(place / "big", 20_000_000, 20_000_003) == bytes([0, 1, 2])
    changed = look_at(place / "one")
    put(place / "one", b"other")
    now = look_at(place / "one")
    assert changed is not None
    assert now is not None
    assert changed.version != now.version
    remove_files(place / "one", place / "none")
    remove_below(place / "below")
    assert [each.name for each in list_below(place)] == ["big"]


def test_directory_of_this_machine_knows_the_words_of_a_place(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    check_words_of_a_place(tmp_path / "place", tmp_path)


def test_bucket_knows_the_words_of_a_place(bucket: str, tmp_path: Path) -> None:
    check_words_of_a_place(place_of(f"{bucket}/place"), tmp_path)
    check_words_of_a_place(place_of(bucket) / "other", tmp_path)


def test_symlinks_of_this_machine_are_named_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    (found,) = [each for each in list_files(tmp_path) if each.said]
    assert (found.name, found.said) == ("link", "is a symlink, which is not followed, expected a regular file")
    with pytest.raises(NotRegular):
        open_file(tmp_path / "link")


def test_what_needs_this_machine_says_so() -> None:
    with pytest.raises(SettingsError, match="s3://bucket/x: a checkpoint must be a directory of this machine"):
        hold_local(RemotePath("s3://bucket", "x"), "a checkpoint")


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        ("AccessDenied", "denied", "these credentials may not list it"),
        ("InvalidAccessKeyId", "credentials", "the store does not take the credentials; look at AWS_ACCESS_KEY_ID"),
        ("ExpiredToken", "expired", "the credentials have expired; renew AWS_ACCESS_KEY_ID"),
    ],
)
def test_refusal_of_a_store_is_one_line(bucket: str, s3_server: S3Server, code: str, reason: str, words: str) -> None:
    s3_server.refuse(code)
    with pytest.raises(PlaceError) as refused:
        list_files(place_of(bucket))
    assert refused.value.reason == reason
    assert str(refused.value).startswith(f"{bucket}: {words}")
    assert "never-seen-anywhere" not in str(refused.value)


def test_bucket_that_is_not_there_is_said_by_reading_and_by_writing(bucket: str) -> None:
    place = place_of("s3://no-such-bucket/x")
    for use in (list_files, lambda each: put(each / "y", b""), lambda each: put_new(each / "y", b"")):
        with pytest.raises(PlaceError, match="there is no such bucket; make it, or name another"):
            use(place)


def test_endpoint_that_nobody_answers_at_is_said(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(PlaceError, match="cannot be reached; is the network there, is the endpoint right"):
        list_files(place_of(bucket))


def test_words_of_other_stores_have_their_meaning() -> None:
    place = RemotePath("gs://expired-bucket", "x")  # a name is no reason
    said = place_error(place, OSError("gs://expired-bucket/x: dns error: no such host"), "read it")
    assert (said.reason, str(said).count("\n")) == ("unreachable", 0)
    assert place_error(place, OSError("gs://expired-bucket/x is odd"), "read it").reason == "refused"


def test_hdfs_without_its_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("Unable to load libhdfs: ./libhdfs.so: cannot open shared object file")

    monkeypatch.setattr(fs, "HadoopFileSystem", fail)
    with pytest.raises(PlaceError, match="libhdfs is not on this machine; install Hadoop"):
        list_files(place_of("hdfs://host:8020/lake"))


def test_hdfs_knows_the_words_of_a_store(tmp_path: Path) -> None:
    """With a directory in the place of HDFS, which is not here: what only HDFS does is not proved."""
    store = HadoopStore(RemotePath("hdfs://host:8020"), fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert store.create("lake/one", b"first")
    store.write("lake/below/two", b"0123456789")
    writer = store.writer("lake/three")
    writer.write(b"xyz")
    writer.close()
    assert sorted(each.key for each in store.listed("lake", is_deep=True)) == [
        "lake/below/two",
        "lake/one",
        "lake/three",
    ]
    assert sorted(each.key for each in store.listed("lake", is_deep=False)) == ["lake/one", "lake/three"]
    assert list(store.listed("none", is_deep=True)) == []
    assert store.read("lake/below/two", 2, 5) == b"234"
    assert store.head("lake/one").size_bytes == 5
    with pytest.raises(FileNotFoundError):
        store.head("lake/none")
    store.delete(["lake/one", "lake/none"])
    assert [each.key for each in store.listed("lake", is_deep=False)] == ["lake/three"]

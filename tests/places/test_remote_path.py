from __future__ import annotations

import os
from pathlib import Path

import pytest

from hopwire.errors import SettingsError
from hopwire.places import RemotePath, named_place, place_of

ABFSS = "abfss://captures@account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("text", "root", "key"),
    [
        ("s3://bucket/captures", "s3://bucket", "captures"),
        ("S3://bucket/a//b/", "s3://bucket", "a/b"),
        ("s3://bucket", "s3://bucket", ""),
        ("gs://bucket/with space/x=1", "gs://bucket", "with space/x=1"),
        (f"{ABFSS}/lake", ABFSS, "lake"),
        ("hdfs://name.node:8020/lake", "hdfs://name.node:8020", "lake"),
    ],
)
def test_url_is_a_root_and_a_key(text: str, root: str, key: str) -> None:
    assert place_of(text) == RemotePath(root, key)
    assert place_of(Path(text)) == RemotePath(root, key), "a Path has one slash of two"
    assert place_of(RemotePath(root, key)) == RemotePath(root, key)
    assert str(place_of(text)) == f"{root}/{key}".rstrip("/")


def test_remote_paths_are_put_together_like_paths_and_open_nothing() -> None:
    place = place_of("s3://bucket") / "captures" / "anna.open.arrows"
    assert (place.name, place.suffix, str(place.parent)) == ("anna.open.arrows", ".arrows", "s3://bucket/captures")
    assert place.with_name("bert.arrows") == RemotePath("s3://bucket", "captures/bert.arrows")
    with pytest.raises(TypeError):
        os.listdir(place)  # type: ignore[arg-type]


def test_everything_else_is_a_path_of_this_machine() -> None:
    assert place_of("captures") == Path("captures").absolute()
    assert named_place("captures") == Path("captures")
    assert place_of("run:1/lake") == Path("run:1/lake").absolute()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s3a://bucket/lake", "s3a:// is not known; write s3://"),
        ("file:///lake", "leave file:// out"),
        ("http://host/lake", "there are s3://, gs://, abfss://, hdfs://"),
        ("s3:///lake", "names no place in a store; expected a URL such as s3://bucket/path"),
        ("s3://b/lake", "names no place in a store; expected a URL such as s3://bucket/path; a bucket has 3 to 63 of"),
        ("gs://B/lake", "a bucket has 3 to 222 of a-z, 0-9"),
        ("s3:/bucket/lake", "names no place"),
        ("abfss://captures/lake", "expected a URL such as abfss://container@account"),
        ("s3://bucket/../lake", "has '../' in it"),
        ("s3://bucket/a%20b", "has '%' in it"),
        ("s3://bucket/a#b", "has '#' in it"),
    ],
)
def test_what_is_no_place_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        place_of(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "text", ["s3://key:hidden@bucket/x", "s3://hidden@bucket/x", f"{ABFSS.replace('captures@', 'c:hidden@')}/x"]
)
def test_credentials_in_a_url_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(SettingsError, match="has credentials in it; put them into the environment") as refused:
        place_of(text)
    assert "hidden" not in str(refused.value)


def test_query_of_a_url_may_be_a_secret_and_is_not_repeated() -> None:
    with pytest.raises(SettingsError, match=r"has '\?' in it") as refused:
        place_of("s3://bucket/x?sig=hidden")
    assert "hidden" not in str(refused.value)

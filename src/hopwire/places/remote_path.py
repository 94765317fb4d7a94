"""The path of something in a store: a value that is put together like a path of this machine, and touches nothing.

A `RemotePath` is no `os.PathLike`: what would open it as a file of this machine fails at once.

| a user writes | what follows |
|---|---|
| `s3://bucket/captures` | a RemotePath with the root `s3://bucket` and the key `captures` |
| `captures`, `/captures` | a Path from the root |
| `s3://key:secret@bucket/captures` | refused, and the secret is not repeated |
| `s3://bucket/captures?x=1`, `s3a://bucket` | refused |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from hopwire.disk import local_path
from hopwire.errors import SettingsError

__all__ = ["Place", "RemotePath", "named_place", "place_of"]

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/?)([^/]*)(.*)", re.DOTALL)
UNFIT = re.compile(r"[\x00-\x1f\x7f?#%\\]|(?:^|/)\.\.?(?:/|$)")  # what stores and engines read in different ways
# fmt: off
SCHEMES = {
    # scheme   a bucket, as the URL names it
    "s3":     re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
    "gs":     re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
    "abfss":  re.compile(r"[a-z0-9$][a-z0-9-]{1,62}@[a-z0-9]{3,24}\.dfs\.[a-z0-9.-]+"),
    "hdfs":   re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:\d{1,5})?"),
}
REMEDIES = {
    "file": "leave file:// out",
    "s3a":  "write s3://",
    "s3n":  "write s3://",
    "gcs":  "write gs://",
    "abfs": "write abfss://",
}
EXAMPLES = {
    "s3":    "s3://bucket/path; a bucket has 3 to 63 of a-z, 0-9, . and -",
    "gs":    "gs://bucket/path; a bucket has 3 to 222 of a-z, 0-9, ., _ and -",
    "abfss": "abfss://container@account.dfs.core.windows.net/path",
    "hdfs":  "hdfs://host:8020/path",
}
# fmt: on


@dataclass(frozen=True, slots=True, order=True)
class RemotePath:
    """Something in a store: its root is the scheme and the bucket, its key the path within the bucket."""

    root: str
    key: str = ""

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.root, f"{self.key}/{name}" if self.key else name)

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    @property
    def scheme(self) -> str:
        """What stands in front of the colon."""
        return self.root.partition(":")[0]

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of the name, with its dot."""
        return Path(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """The place that this one lies in."""
        return RemotePath(self.root, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """Give the path with another name."""
        return self.parent / name


Place: TypeAlias = Path | RemotePath


def place_of(text: Place | str) -> Place:
    """Give the place that a user names; a SettingsError says what is wrong with it."""
    if isinstance(text, RemotePath):
        return text
    written = str(text).replace(":/", "://", 1) if isinstance(text, Path) else text  # a Path has one slash of two
    found = URL.fullmatch(written)
    if found is None:
        return local_path(text)
    scheme, slash, bucket, key = found.groups()
    shown = _without_password(found)
    if scheme.lower() not in SCHEMES:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        remedy = REMEDIES.get(scheme.lower(), f"there are {known}, and paths of this machine")
        raise SettingsError(f"{shown}: {scheme}:// is not known; {remedy}")
    scheme = scheme.lower()
    if shown != written:
        raise SettingsError(f"{shown}: has credentials in it; put them into the environment")
    if not slash or not SCHEMES[scheme].fullmatch(bucket):
        raise SettingsError(f"{shown}: names no place in a store; expected a URL such as {EXAMPLES[scheme]}")
    key = re.sub("/+", "/", key).strip("/")
    if unfit := UNFIT.search(key):
        raise SettingsError(f"{shown.partition('?')[0]}: has {unfit[0]!r} in it; name another path")
    return RemotePath(f"{scheme}://{bucket}", key)


def named_place(text: Place | str) -> Place:
    """Give the place that a user names, as `place_of` does; but a path of this machine stays as it is written."""
    place = place_of(text)
    return place if isinstance(place, RemotePath) else Path(cast(str | Path, text))


def _without_password(url: re.Match[str]) -> str:
    """The URL as it may be shown: without what stands in front of an @, unless it is the container of abfss."""
    scheme, slash, bucket, key = url.groups()
    before, at, after = bucket.rpartition("@")
    if at and (scheme.lower() != "abfss" or ":" in before):
        bucket = f"...@{after}"
    return f"{scheme}:/{slash}{bucket}{key}"

"""Files of a place for Arrow's datasets: on this machine Arrow opens them itself, in stores `RemoteFile` reads them.

    ds.dataset([arrow_name(each) for each in places], filesystem=arrow_filesystem(place, sizes))

Arrow reads the columns and row groups that are asked for, several at a time, each by a request of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopwire.places.files import RemoteFile, look_at
from hopwire.places.remote_path import Place, RemotePath

__all__ = ["arrow_filesystem", "arrow_name"]


def arrow_name(place: Place) -> str:
    """Give the name of a file for the file system of its place."""
    return place.key if isinstance(place, RemotePath) else str(place)


def arrow_filesystem(place: Place, sizes: Mapping[str, int] | None = None) -> Any:
    """Give the file system for the files of a place, or None, which is this machine for Arrow.

    Of files whose sizes are known by their names, the store need not be asked.
    """
    if not isinstance(place, RemotePath):
        return None
    from pyarrow import fs

    class StoreFiles(fs.FileSystemHandler):  # type: ignore[misc]
        """The words of Arrow; only those that read are known."""

        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = object.__hash__

        def get_type_name(self) -> str:
            return "hopwire"

        def normalize_path(self, path: str) -> str:
            return path

        def get_file_info(self, paths: list[str]) -> list[Any]:
            return [self._info(path) for path in paths]

        def _info(self, path: str) -> Any:
            size = (sizes or {}).get(path)
            if size is None:
                found = look_at(RemotePath(place.root, path))
                size = found.size_bytes if found else None
            return fs.FileInfo(path, fs.FileType.NotFound if size is None else fs.FileType.File, size=size)

        def open_input_file(self, path: str) -> Any:
            from pyarrow import PythonFile

            return PythonFile(RemoteFile(RemotePath(place.root, path), (sizes or {}).get(path)), mode="r")

        open_input_stream = open_input_file

        def _refused(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError("a dataset of a lake is only read")

        get_file_info_selector = create_dir = delete_dir = delete_dir_contents = _refused
        delete_root_dir_contents = delete_file = move = copy_file = _refused
        open_output_stream = open_append_stream = _refused

    return fs.PyFileSystem(StoreFiles())

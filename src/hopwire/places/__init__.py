"""Where bytes lie: in a directory of this machine, or in a store that is reached by a URL. One set of words for both.

| place | as a value | reached by |
|---|---|---|
| `captures`, `/var/lake` | a `Path` from the root | the system, by the rules of `disk.py` |
| `s3://bucket/lake`, `gs://bucket/lake` | a `RemotePath` | obstore |
| `abfss://container@account.dfs.core.windows.net/lake` | a `RemotePath` | obstore |
| `hdfs://host:8020/lake` | a `RemotePath` | Arrow, with libhdfs |

`place_of` gives the value for what a user writes. Both kinds of values are put together with `/` and know their `name`,
`parent` and `suffix`; everything that touches bytes is a function of `files.py`.

Credentials come from the environment alone (`AWS_*`, `GOOGLE_*`, `AZURE_*`). A URL with a password in it is refused.
"""

from hopwire.places.arrow_files import arrow_filesystem, arrow_name
from hopwire.places.files import (
    FoundFile,
    hold_local,
    is_empty,
    list_below,
    list_directories,
    list_files,
    list_names,
    look_at,
    make_place,
    new_file,
    open_file,
    put,
    put_new,
    read_file,
    read_range,
    remove_below,
    remove_empty,
    remove_files,
    size_below,
    upload,
)
from hopwire.places.remote_path import Place, RemotePath, named_place, place_of
from hopwire.places.remote_store import delta_options
from hopwire.places.store_errors import place_error

__all__ = [
    "FoundFile",
    "Place",
    "RemotePath",
    "arrow_filesystem",
    "arrow_name",
    "delta_options",
    "hold_local",
    "is_empty",
    "list_below",
    "list_directories",
    "list_files",
    "list_names",
    "look_at",
    "make_place",
    "named_place",
    "new_file",
    "open_file",
    "place_error",
    "place_of",
    "put",
    "put_new",
    "read_file",
    "read_range",
    "remove_below",
    "remove_empty",
    "remove_files",
    "size_below",
    "upload",
]

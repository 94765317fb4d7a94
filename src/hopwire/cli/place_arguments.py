"""Arguments that name a place: a path of this machine, or a URL such as s3://bucket/lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from hopwire.cli.exits import ExitCode, fail
from hopwire.errors import SettingsError
from hopwire.places import named_place

__all__ = ["CapturesPlace", "LakePlace", "place_argument"]


def place_argument(text: str | Path) -> Path:
    """Give the place that a user has typed, or end with one line.

    Typer knows no arguments of two types. So a `RemotePath` goes by the type of a path until a function of the lake
    or of captures takes it, which knows both.
    """
    try:
        return cast(Path, named_place(text))
    except SettingsError as error:
        fail(str(error), ExitCode.USAGE)


LakePlace = Annotated[
    Path, typer.Argument(metavar="LAKE", parser=place_argument, help="The directory of the lake, or its URL.")
]
CapturesPlace = Annotated[
    Path,
    typer.Argument(metavar="CAPTURES", parser=place_argument, help="Captures: a directory, its URL, or one file."),
]

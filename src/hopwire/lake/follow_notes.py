"""What a follower of captures writes down about itself, and how to tell whether it is still there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from hopwire.lake.store import OWN, is_held
from hopwire.places import Place, RemotePath, read_file

__all__ = ["FOLLOWER", "FollowNotes", "follow_lock", "is_followed", "read_notes"]

FOLLOWER = "follower.json"
LOCK = "follow.lock"
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FollowNotes:
    """How a follower stands; times are by the clock of its machine."""

    process: int
    host: str
    started_at_ns: int
    noted_at_ns: int = 0
    state: str = "starting"  # then waiting, idle, stepping, following, troubled, ended
    trouble: str = ""  # why it waits
    captures: tuple[str, ...] = ()
    every_seconds: float = 0.0
    version: int = 0  # of the lake, after the last step or look
    step_count: int = 0  # since it started
    sighting_count: int = 0  # since it started
    too_old: int = 0  # of these: from before the day that the lake is kept from, and not in the lake
    last_step_at_ns: int = 0
    last_step_rows: int = 0
    last_step_seconds: float = 0.0
    longest_step_seconds: float = 0.0
    busy_seconds: float = 0.0  # that all steps took together


_READ = msgspec.json.Decoder(FollowNotes).decode  # made before threads read (0208)


def follow_lock(own: Path) -> Path:
    """Give where the lock of the follower of a lake lies."""
    return own / LOCK


def read_notes(place: Place) -> FollowNotes | None:
    """Read what the last follower of a lake wrote down; None if there was none."""
    try:
        return _READ(read_file(place / OWN / FOLLOWER, MAX_BYTES))
    except (OSError, msgspec.MsgspecError):
        return None


def is_followed(place: Place) -> bool:
    """Tell whether somebody follows captures into a lake at this moment, on this machine."""
    return not isinstance(place, RemotePath) and is_held(follow_lock(place / OWN))

"""A lake that follows captures as they are written: step after step, until somebody says that it is enough.

    with following(lake) as held:
        Follower([captures], held, FollowSettings()).run(wait)

Each round looks at the captures, chooses what the next step reads (`step_admission.py`), and makes a step (`build.py`).
How
far each segment was read stands in the manifest, which the step puts down at its end. So there is no checkpoint beside
the lake: whatever moment the process is killed at, the next one goes on from the last manifest, and the tables are
those of one build.

| what happens | what is done |
|---|---|
| captures are not there yet, or there are none | said once; the next round looks again |
| a segment is sealed, and so renamed, while it is looked at | the next round looks again, at once |
| another process builds or compacts the lake | said; the next round tries again |
| the disk is full, a file cannot be read | said; tried again, ever more seldom, up to every 30 s |
| a capture is gone before it was read to its end | said, and a fault of the source in the lake; nothing is read twice |
| there is more to judge than a step can | Spark judges the lake as a whole; without Spark a `WholeNeeded` ends it |
| another follower is there | refused: `LakeBusy` |
| the same in a store, which knows of no locks | one of the two finds the other, and ends: `LakeTaken` |

With `is_once` the first trouble ends the run. Only a file that was sealed a moment ago, and another process that writes
into a store, are tried again, some times.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace

import msgspec

from hopwire.capture.file_faults import Fault
from hopwire.capture.segment import END
from hopwire.errors import BalanceError, LakeBusy, LakeError, LakeTaken, PlaceError, SettingsError, WholeNeeded
from hopwire.lake.build import Built, Session, step_sources
from hopwire.lake.catalog import FoundSource, find_sources, is_changed
from hopwire.lake.compaction_beside import CompactionBeside
from hopwire.lake.follow_notes import FOLLOWER, FollowNotes, follow_lock, read_notes
from hopwire.lake.manifest import Manifest, StoredSource
from hopwire.lake.settings import LakeSettings
from hopwire.lake.step_admission import Admitted, StepLimits, admit
from hopwire.lake.store import OWN, hold, manifest_numbers, own_directory, read_manifest
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, RemotePath, place_of, put
from hopwire.security import OPEN, Domains

__all__ = ["FollowSettings", "Follower", "Wait", "following"]

LONGEST_PAUSE_SECONDS = 30.0  # between two attempts where something is wrong
MAX_SEALED = 3  # looks, one after the other, at each of which a segment was sealed: nodes of one age seal at one time
MAX_TRIES = 8  # one after the other, of a run that is to end
KEEP_SECONDS = 120.0  # old states stay readable for so long: each has files of its own for all that is open
GONE = "is gone"  # so begins the fault of a capture that was not read to its end

Wait = Callable[[float], bool]  # waits for so many seconds; tells whether to go on
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """How captures are followed."""

    max_rows: int = 100_000  # sightings of one step, unless a single batch has more
    max_bytes: int = 64 * MEBIBYTE  # of captures for one step, unless a single batch is larger
    every_seconds: float = 2.0  # from the begin of a step to the next, unless more is waiting
    compact_steps: int = 50  # after so many steps small files are merged
    compact_bytes: int = 256 * MEBIBYTE  # of a compaction, about; if there is more, the next one follows at once

    def __post_init__(self) -> None:
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise SettingsError(f"{each.name} must be a positive number, not {getattr(self, each.name)!r}")


@contextmanager
def following(lake: Place | str, file_mode: int = LakeSettings().file_mode) -> Iterator[Place]:
    """Be the one that follows captures into a lake, as long as the context lasts; give the place of the lake.

    In a store nothing keeps a second follower out: one of the two finds the other at its next round, and ends.
    """
    place = place_of(lake)
    if isinstance(place, RemotePath):
        yield place
        return
    own = own_directory(place, lake, file_mode)
    with hold(follow_lock(own), f"{lake}: is being followed by {{}}; end that one first"):
        yield place


@dataclass(frozen=True)
class _Captures:
    """All captures as they are at this moment."""

    found: Mapping[str, FoundSource] = field(default_factory=dict)
    foreign: Sequence[Fault] = ()
    trouble: str = ""  # why there are none


class Follower:
    """Follows captures into a lake that is held (`following`)."""

    def __init__(
        self,
        captures: Sequence[Place | str],
        lake: Place,
        settings: FollowSettings | None = None,
        *,
        domains: Domains = OPEN,
        lake_settings: LakeSettings | None = None,
        spark: Session | None = None,
        tell: Tell = lambda line: None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._places, self._lake = tuple(captures), lake
        self._settings, self._domains = settings or FollowSettings(), domains
        self._lake_settings = lake_settings or LakeSettings(keep_seconds=KEEP_SECONDS)
        self._spark, self._tell, self._clock_ns = spark, tell, clock_ns
        self._said: dict[str, None] = {}
        self._seen: dict[str, FoundSource] = {}  # the captures of the last look
        self._since_compaction = 0
        self._beside: CompactionBeside | None = None
        self._failed_compactions = 0  # one after the other
        self._tries = 0  # that failed, one after the other
        self._has_begun = False
        self._row_count = 0  # of all sources, before the step
        started = FollowNotes(
            os.getpid(),
            socket.gethostname(),
            clock_ns(),
            captures=tuple(str(place_of(each)) for each in captures),
            every_seconds=self._settings.every_seconds,
        )
        self.notes = started

    # -- rounds

    def run(self, wait: Wait, *, is_once: bool = False) -> FollowNotes:
        """Make rounds until `wait` says no; with `is_once` until there is nothing new."""
        goes_on, was_idle, pause = True, False, self._settings.every_seconds
        try:
            while goes_on:
                begun = time.monotonic()
                try:
                    admitted = self.round()
                    pause, self._tries = self._settings.every_seconds, 0
                except (LakeError, PlaceError, OSError) as error:
                    self._tries += 1
                    is_sealed = isinstance(error, FileNotFoundError) and self._tries <= MAX_SEALED
                    if not is_sealed:
                        self._troubled(error, is_once)
                        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                    admitted = Admitted(has_more=is_sealed)
                is_idle = not admitted.ends and not self._tries
                if is_once and is_idle and was_idle:  # the second look finds what is torn
                    self._compact(is_last=True)
                    break
                was_idle = is_idle
                is_pressed = admitted.has_more or (is_once and not self._tries)
                goes_on = wait(0 if is_pressed else max(0.0, pause - (time.monotonic() - begun)))
        finally:
            if self._beside:
                self._beside.end()
            with suppress(LakeTaken):
                self._note(state="ended")
        return self.notes

    def round(self) -> Admitted:
        """Look at the captures, and make a step if there is something new; give what the step has read."""
        self._refuse_other()
        captures = self._looked()
        manifest = self._manifest()
        known = manifest.sources
        self._row_count = _rows_of(known)
        admitted = admit(captures.found, known, StepLimits(self._settings.max_rows, self._settings.max_bytes))
        if not admitted.ends:
            admitted = Admitted(dict.fromkeys(self._torn(captures, known)))
        gone = self._gone(captures, known)
        if admitted.ends or gone:
            self._step(captures, admitted, gone)
            self._since_compaction += 1
        else:
            state = "waiting" if captures.trouble else "idle"
            self._note(state=state, trouble=captures.trouble, version=manifest.number)
            if captures.trouble:
                self._say(captures.trouble)
        self._compact()
        return admitted

    def _refuse_other(self) -> None:
        """In a store, write down once who follows, and end if somebody else has done so since.

        Who ends writes nothing more. So of two that find each other, one stays.
        """
        if not isinstance(self._lake, RemotePath):
            return
        if not self._has_begun:
            self._put_notes()
            self._has_begun = True
        found = read_notes(self._lake)
        if found and found.state != "ended" and _who(found) != _who(self.notes):
            other = f"process {found.process} on {found.host}"
            raise LakeTaken(f"{self._lake}: is being followed by {other}, too; that one goes on, and this one ends")

    def _manifest(self) -> Manifest:
        return read_manifest(self._lake) if manifest_numbers(self._lake) else Manifest()

    def _troubled(self, error: Exception, is_once: bool) -> None:
        """Say what is wrong, and go on, unless nothing would be better the next time."""
        is_final = isinstance(error, WholeNeeded | BalanceError | LakeTaken)
        is_passing = isinstance(error, FileNotFoundError) or (
            isinstance(error, LakeBusy) and isinstance(self._lake, RemotePath)
        )
        if is_final or (is_once and not (is_passing and self._tries < MAX_TRIES)):
            raise error
        line = f"{error}; trying again" if isinstance(error, LakeError) else f"{_in_words(error)}; trying again"
        self._note(state="troubled", trouble=line)
        self._say(line)

    def _say(self, line: str) -> None:
        """Say a line, unless it was the last that was said."""
        if next(reversed(self._said), "") != line:
            self._said = {line: None}
            self._tell(line)

    # -- captures

    def _looked(self) -> _Captures:
        found: dict[str, FoundSource] = {}
        foreign: list[Fault] = []
        trouble = ""
        for place in self._places:
            try:
                some, faults = find_sources(place)
            except (LakeError, OSError) as error:  # not there, or nothing in it: there may be, later
                trouble = f"waiting: {error if isinstance(error, LakeError) else _in_words(error)}"
                continue
            if both := next(iter(found.keys() & some.keys()), None):
                other = found[both].source.path
                raise LakeError(f"{some[both].source.path}: has the name of {other}; rename one of them")
            found |= some
            foreign += faults
        return _Captures(found, foreign, trouble)

    def _torn(self, captures: _Captures, known: Mapping[str, StoredSource]) -> Iterator[str]:
        """The open segments that end with half a batch, and did so at the last look: a crash, and a fault of theirs."""
        for name, each in captures.found.items():
            before = self._seen.get(name)
            if before and before.stored == each.stored and is_changed(each, known.get(name)):
                yield name

    def _gone(self, captures: _Captures, known: Mapping[str, StoredSource]) -> dict[str, StoredSource]:
        """The captures that were not read to their end and are not there any more, with what is missing of them."""
        gone = {}
        before = {name: each.stored for name, each in self._seen.items() if name not in known}
        for name, source in {**before, **known}.items():
            unread = source.size_bytes - source.position - len(END)
            is_short = name in before or (source.position and unread > 0)
            if name in captures.found or not is_short or any(each.startswith(GONE) for each in source.faults):
                continue
            line = f"{GONE}: {max(unread, 0):,} bytes of it were not read"
            gone[name] = msgspec.structs.replace(source, faults=(*source.faults, line), is_bad=True)
            self._tell(f"{name}: {line}; its sightings there are missing")
        self._seen = dict(captures.found)
        return gone

    # -- a step

    def _step(self, captures: _Captures, admitted: Admitted, gone: Mapping[str, StoredSource]) -> None:
        begun = time.monotonic()
        self._note(state="stepping", trouble="")
        built = step_sources(
            self._lake,
            {name: captures.found[name] for name in admitted.ends},
            ends=admitted.ends,
            gone=gone,
            foreign=captures.foreign,
            domains=self._domains,
            settings=self._lake_settings,
            spark=self._spark,
        )
        for fault in built.sealed_faults:
            self._say(fault)
        if built.left_out:
            self._tell(built.left_out)
        self._count(built, _rows_of(built.manifest.sources) - self._row_count, time.monotonic() - begun)

    def _count(self, built: Built, count: int, seconds: float) -> None:
        notes = self.notes
        self._note(
            state="following",
            version=built.manifest.number,
            step_count=notes.step_count + 1,
            sighting_count=notes.sighting_count + count,
            too_old=notes.too_old + built.too_old,
            last_step_at_ns=self._clock_ns(),
            last_step_rows=count,
            last_step_seconds=seconds,
            longest_step_seconds=max(seconds, notes.longest_step_seconds),
            busy_seconds=notes.busy_seconds + seconds,
        )

    def _compact(self, *, is_last: bool = False) -> None:
        """Begin a compaction, or end one; meanwhile steps go on. The last one is waited for."""
        if self._beside is None and self._since_compaction < self._settings.compact_steps:
            return
        has_more = False
        try:
            beside = self._beside or CompactionBeside(self._lake, self._lake_settings, self._settings.compact_bytes)
            self._beside = beside
            if not beside.is_over and not beside.is_due and not is_last:
                return
            if not beside.is_over:
                beside.finish()
            has_more, self._failed_compactions = beside.has_more, 0
        except LakeBusy:
            raise
        except (LakeError, PlaceError, OSError) as error:  # a step in the same trouble says so itself
            self._failed_compactions += 1
            if self._failed_compactions > 1:
                self._say(f"small files are not merged: {error if isinstance(error, LakeError) else _in_words(error)}")
        self._beside = None
        self._since_compaction = self._settings.compact_steps if has_more else 0

    def _note(self, **values: object) -> None:
        """Write down how things stand, for whoever asks; that this is not possible is no reason to stop."""
        self.notes = replace(self.notes, noted_at_ns=self._clock_ns(), **values)  # type: ignore[arg-type]
        with suppress(OSError, PlaceError):
            self._refuse_other()
            self._put_notes()

    def _put_notes(self) -> None:
        put(self._lake / OWN / FOLLOWER, msgspec.json.encode(self.notes), self._lake_settings.file_mode)


def _who(notes: FollowNotes) -> tuple[str, int, int]:
    return notes.host, notes.process, notes.started_at_ns


def _rows_of(sources: Mapping[str, StoredSource]) -> int:
    return sum(each.row_count for each in sources.values())


def _in_words(error: Exception) -> str:
    said = getattr(error, "strerror", None) or " ".join(str(error).split())
    return f"{getattr(error, 'filename', None) or 'a file'}: {said}"

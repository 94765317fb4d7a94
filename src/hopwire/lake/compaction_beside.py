"""A compaction beside the steps of a follower: what is slow about it needs no turn.

    beside = CompactionBeside(lake, settings, most_bytes)      # a turn: says what is to be merged
    ...                                                        # steps go on; a child writes the merged files
    beside.finish()                                            # a turn: puts them in place of the others

| meanwhile | what becomes of a merge |
|---|---|
| a step opens a flow again, and writes one of the files anew | it is thrown away, and planned anew |
| something was expired or forgotten | the same for all merges: nobody keeps files for them |
| a build or a step adds files | nothing: they are merged next time |
| the process is killed, and the child with it | its files are in no version, and go when they are old |

Tables by minute are merged in the turn: they are small, and each step writes the minute anew that is now. So is all in
a store, where no file can be made younger: retention would take it for one that nobody names.

A child, and not a thread: a thread that gives way to others keeps them waiting whenever it has the interpreter.
"""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from subprocess import PIPE, Popen
from threading import Event

from hopwire.errors import LakeError
from hopwire.lake.compaction import plan_merges, publish_merges
from hopwire.lake.merging import Merged, remove_merge, write_merge
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import writing
from hopwire.places import Place, RemotePath

__all__ = ["CompactionBeside"]

CHILD = (sys.executable, "-c", "from hopwire.lake.merging import be_a_child; be_a_child()")


class CompactionBeside:
    """One compaction beside the steps of a lake: some groups of files, until so many bytes are merged."""

    def __init__(self, lake: Place, settings: LakeSettings, most_bytes: float) -> None:
        self._lake, self._settings = lake, settings
        self._stopped = Event()
        self._child: Popen[bytes] | None = None
        with writing(lake, settings.file_mode) as run:
            self._plan = plan_merges(run, most_bytes)
            is_remote = isinstance(lake, RemotePath)
            soon = [write_merge(each, settings) for each in self._plan.merges if each.is_by_minute or is_remote]
            publish_merges(run, self._plan, soon, settings)
        self._merges = [each for each in self._plan.merges if not (each.is_by_minute or is_remote)]
        self._written: Future[list[Merged]] | None = None
        if self._merges:
            pool = ThreadPoolExecutor(1, "hopwire-compaction")
            self._written = pool.submit(self._write)
            pool.shutdown(wait=False)  # its thread ends with its work

    @property
    def has_more(self) -> bool:
        """Whether files are left to be merged."""
        return self._plan.has_more

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do."""
        return self._written is None

    @property
    def is_due(self) -> bool:
        """Whether the merged files are written, or cannot be."""
        return self._written is not None and self._written.done()

    def finish(self) -> None:
        """Put the merged files in place of the others, as soon as they are there, or say why they are not.

        If the lake is busy, nothing is lost: this may be tried again.
        """
        written = self._written
        assert written
        if error := written.exception():
            self.end()
            raise error
        with writing(self._lake, self._settings.file_mode) as run:
            self._written = None
            publish_merges(run, self._plan, written.result(), self._settings)

    def end(self) -> None:
        """Write no more, and remove what was written and not published."""
        self._stopped.set()
        if self._child:
            self._child.kill()
        if self._written:
            wait([self._written])
            self._written = None
            for each in self._merges:
                remove_merge(each)

    # -- in a thread, which waits

    def _write(self) -> list[Merged]:
        # Ctrl+C is for the follower; in a session of its own the child would be nice to nobody but itself
        with Popen(CHILD, stdin=PIPE, stdout=PIPE, process_group=0) as child:
            self._child = child
            if self._stopped.is_set():
                child.kill()
            assert child.stdin
            assert child.stdout
            pickle.dump((self._merges, self._settings), child.stdin)
            child.stdin.flush()  # and not closed: the child ends with its input
            said = child.stdout.read()
        if not said:
            raise LakeError("the process that merges files died")
        found = pickle.loads(said)  # noqa: S301 - the child has written it
        if isinstance(found, Exception):
            raise found
        merged: list[Merged] = found
        return merged

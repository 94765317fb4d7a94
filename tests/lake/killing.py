"""Processes that are killed in the middle of what they write into a lake, or take out of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

from hopwire.lake.follow import Follower, FollowSettings, following
from hopwire.lake.store import manifest_numbers
from hopwire.places import Place

# how a program begins that is killed before its commit or manifest of the number `left`
DYING = """
import json, os, sys
import hopwire.lake.delta_log as delta_log
import hopwire.lake.store as store

def die_at(function):
    def counted(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return function(*args, **kwargs)
    return counted

delta_log.DeltaLog.commit = die_at(delta_log.DeltaLog.commit)
store.put_new = die_at(store.put_new)
"""

# how a program ends that has a function `work`: each line names a place to work at, and the commit to be killed before
FORKING = """
for line in sys.stdin:
    place, left = json.loads(line)
    child = os.fork()
    if not child:
        try:
            work(place)
            os._exit(0)
        finally:
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

REMOVING = """
from datetime import date
import hopwire.lake.retention as retention
from hopwire.lake.expiry import expire
from hopwire.lake.forgetting import forget
from hopwire.lake.settings import LakeSettings

AT_ONCE = LakeSettings(keep_snapshots=1, keep_seconds=1e-9)
PLAIN = LakeSettings(compression="none")

retention._sweep = die_at(retention._sweep)
retention._forget_log = die_at(retention._forget_log)
for point, call in json.loads(sys.argv[1]):
    left = point
    child = os.fork()
    if not child:
        exec(call)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9, "it was killed"
"""


def kill_at(calls: Mapping[int, str]) -> None:
    """Let processes call `expire` or `forget`, each killed before its commit, manifest or removal of this number."""
    subprocess.run([sys.executable, "-c", DYING + REMOVING, json.dumps(list(calls.items()))], check=True)


class Mortals:
    """Processes that do the same work, each killed at another commit; what they import is loaded once."""

    def __init__(self, work: str) -> None:
        command = [sys.executable, "-W", "ignore", "-c", DYING + work + FORKING]
        self._starter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Mortals:
        return self

    def __exit__(self, *_: object) -> None:
        self._starter.communicate()

    def live(self, place: Path, commits: int) -> int:
        """Let a process work at a place, kill it before its commit or manifest of this number; give its exit code."""
        assert self._starter.stdin
        assert self._starter.stdout
        self._starter.stdin.write(json.dumps([str(place), commits]) + "\n")
        self._starter.stdin.flush()
        return int(self._starter.stdout.readline())


# a process that has loaded everything, and forks a follower for each line that it reads
FOLLOWING = """
import os, sys
import deltalake, obstore, pyarrow.dataset, pyarrow.parquet
from hopwire.lake import compaction
from hopwire.lake.follow import Follower, FollowSettings, following
from hopwire.lake.tables import all_tables
all_tables()
compaction.MAX_FILES = 2
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            with following(sys.argv[2]) as lake:
                settings = FollowSettings(max_rows=int(sys.argv[3]), every_seconds=0.01, compact_steps=1)
                Follower([sys.argv[1]], lake, settings).run(lambda seconds: True)
        finally:
            os._exit(1)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""
SHORTEST_SECONDS, LONGER = 0.02, 1.2


def follow_to_the_end(captures: Place, lake: Place) -> None:
    """Follow until there is nothing new."""
    with following(lake) as held:
        Follower([captures], held, FollowSettings(every_seconds=0.01)).run(lambda seconds: True, is_once=True)


class FollowerLives:
    """Followers of a lake that are killed one after the other, each after a time that chance says.

    Lives get longer while they bring no new version of the lake: on a busy machine none would get anywhere.
    """

    def __init__(self, captures: Place | str, lake: Place, chance: Random, *, max_rows: int = 60) -> None:
        command = [sys.executable, "-W", "ignore", "-c", FOLLOWING, str(captures), str(lake), str(max_rows)]
        self._starter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lake, self._chance, self._longest = lake, chance, 0.4
        self._versions: set[int] = set()
        self.kills = 0

    def __enter__(self) -> FollowerLives:
        return self

    def __exit__(self, *_: object) -> None:
        self._starter.communicate()

    @property
    def version_count(self) -> int:
        """How many versions of the lake somebody has brought about."""
        return len(self._versions)

    def live(self) -> None:
        """Start a follower, and kill it: when is chance, and nothing depends on it."""
        assert self._starter.stdin
        assert self._starter.stdout
        self._starter.stdin.write("follow\n")
        self._starter.stdin.flush()
        child = int(self._starter.stdout.readline())
        time.sleep(self._chance.uniform(SHORTEST_SECONDS, self._longest))
        os.kill(child, signal.SIGKILL)
        assert self._starter.stdout.readline() == "dead\n"
        self.kills += 1
        found = set(manifest_numbers(self._lake))
        self._longest *= LONGER if self._versions >= found else 1.0
        self._versions |= found

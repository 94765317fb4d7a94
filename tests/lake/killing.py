"""Processes that are killed in the middle of what they write into a lake, or take out of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

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

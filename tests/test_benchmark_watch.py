"""What `benchmarks/watch.py` sees of processes, also of those that end while it looks."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from benchmarks.watch import CpuTime

pytestmark = pytest.mark.slow

# a parent that may ignore the end of its children; its child works until it has used so much CPU time, and says so
PARENT = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, {handler})
if (child := os.fork()) == 0:
    while time.process_time() < {seconds}:
        pass
    print("worked", flush=True)
    sys.stdin.readline()
    os._exit(0)
try:
    os.waitpid(child, 0)
except ChildProcessError:
    pass
print("ended", flush=True)
time.sleep(600)
"""
WORKED = 0.4


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "signal.SIG_DFL"])
def test_time_of_a_child_that_ended_stays_counted_once(handler: str) -> None:
    program = PARENT.format(handler=handler, seconds=WORKED)
    cpu, own = CpuTime(), time.process_time()
    before = cpu.seconds()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        try:
            assert parent.stdout.readline() == "worked\n"
            living = cpu.seconds() - before
            parent.stdin.write("end\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "ended\n"
            spent = cpu.seconds() - before - (time.process_time() - own)
        finally:
            parent.kill()
    assert living >= WORKED - 0.02
    assert WORKED - 0.02 <= spent < 1.8 * WORKED

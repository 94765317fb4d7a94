"""A process that follows keeps the memory of one step for the next: the kernel clears few pages anew."""

from __future__ import annotations

import subprocess
import sys

import pytest

# some hundred arrays of a megabyte, by Arrow and by numpy, in threads such as those of a step
TAKING = """
import sys
from hopwire.cli.held_memory import hold_memory
hold_memory(sys.argv[1:])
import resource
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

def take(_):
    numbers = [np.arange(size) for size in range(100_000, 140_000, 800)]
    return [pc.add(pa.array(each), 1) for each in numbers]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(take, range(2)))

step()
before = faults()
for _ in range(10):
    step()
print(faults() - before)
"""


def faults_of(*arguments: str) -> int:
    return int(subprocess.run([sys.executable, "-c", TAKING, *arguments], check=True, capture_output=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other allocators")
def test_follower_keeps_memory_and_other_commands_give_it_back() -> None:
    assert faults_of("lake", "follow") * 2 < faults_of("lake", "build")

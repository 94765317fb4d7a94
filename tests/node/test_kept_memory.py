"""A process with a node does not get new pages of the kernel for each large message."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import asyncio, resource
from hopwire import Node

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

async def main():
    async with Node():
        for _ in range(3):
            [b"x" * 65_536 for _ in range(64)]
        before = faults()
        for _ in range(50):
            [b"x" * 65_536 for _ in range(64)]
        print(faults() - before)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other rules")
def test_memory_of_large_messages_is_used_again() -> None:
    found = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 50 * 64  # new pages would be 16 for each of them

"""A cable that is cut, and a process that stands still: the kernel knows which of the two it is."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import ioctl
from termios import TIOCOUTQ

import pytest

from hopwire.node.addresses import prepare, sends_in_vain
from tests.chaos.wires import NotPossibleError, Wire, laid

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
LISTENER = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
there, _ = server.accept()
while there.recv(4096):
    pass
"""


@contextmanager
def connected() -> Iterator[tuple[socket.socket, Wire, int]]:
    """Give a socket to a process behind a cable, the cable, and the id of the process."""
    try:
        with laid(["x"]) as wires:
            wire = wires["x"]
            command = (*wire.prefix, sys.executable, "-c", LISTENER, wire.host)
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                try:
                    assert process.stdout is not None
                    with socket.create_connection((wire.host, int(process.stdout.readline()))) as sock:
                        prepare(sock)
                        yield sock, wire, process.pid
                finally:
                    process.kill()
    except NotPossibleError as error:
        pytest.skip(str(error))


def unacknowledged(sock: socket.socket) -> int:
    (count,) = struct.unpack("i", ioctl(sock, TIOCOUTQ, bytes(4)))
    return int(count)


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.02)


def test_a_connection_behind_a_cut_cable_sends_in_vain_until_the_cable_is_mended() -> None:
    with connected() as (sock, wire, _):
        assert not sends_in_vain(sock)
        wire.pull()
        sock.send(b"x")
        until(lambda: sends_in_vain(sock))
        wire.plug()
        until(lambda: not sends_in_vain(sock))
        assert not unacknowledged(sock)


def test_a_process_that_stands_still_is_not_sent_to_in_vain() -> None:
    with connected() as (sock, _, process):
        os.kill(process, signal.SIGSTOP)
        try:
            sock.send(b"x")
            until(lambda: not unacknowledged(sock))
            assert not sends_in_vain(sock)
        finally:
            os.kill(process, signal.SIGCONT)

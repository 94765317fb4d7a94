"""Members in network namespaces of their own, each with a cable to one bridge, so that a cable can be pulled.

    with laid(["a1", "a2"]) as wires:
        wires["a1"].prefix      what stands in front of a command that runs in the namespace
        wires["a1"].host        the address of the member
        wires["a1"].pull()      from now on nothing goes in or out, and nobody is told: no reset, only silence
        wires["a1"].plug()

Needs root and `ip`. Names and addresses have the id of this process in them, so that two runs do not meet. Addresses
are of 198.18.0.0/15, which is set aside for tests of networks.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

__all__ = ["NotPossibleError", "Wire", "laid", "run_tool"]


class NotPossibleError(Exception):
    """The machine does not allow it; the text says what was refused."""


def run_tool(*command: str) -> None:
    """Run a tool of the system."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotPossibleError(f"{command[0]}: {error}") from None
    if done.returncode:
        raise NotPossibleError(f"{' '.join(command)}: {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Wire:
    """The cable of one member."""

    namespace: str  # and the name of the end of the cable at the bridge
    host: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """What stands in front of a command that runs in the namespace."""
        return ("ip", "netns", "exec", self.namespace)

    def pull(self) -> None:
        """Cut the network here."""
        run_tool("ip", "link", "set", self.namespace, "down")

    def plug(self) -> None:
        """Join the network again."""
        run_tool("ip", "link", "set", self.namespace, "up")


@contextmanager
def laid(names: Sequence[str]) -> Iterator[dict[str, Wire]]:
    """Lay a cable for each member; raises NotPossibleError where the machine does not allow it."""
    bridge, net = f"hw{os.getpid()}", f"198.{18 + os.getpid() // 250 % 2}.{os.getpid() % 250}"
    wires = {name: Wire(f"{bridge}{name}", f"{net}.{number}") for number, name in enumerate(names, 2)}
    try:
        run_tool("ip", "link", "add", bridge, "type", "bridge")
        run_tool("ip", "address", "add", f"{net}.1/24", "dev", bridge)
        run_tool("ip", "link", "set", bridge, "up")
        for wire in wires.values():
            _lay(wire, bridge)
        yield wires
    finally:
        for name in [*(wire.namespace for wire in wires.values()), bridge]:
            with suppress(NotPossibleError):
                run_tool("ip", "link", "delete", name)
        for wire in wires.values():
            with suppress(NotPossibleError):
                run_tool("ip", "netns", "delete", wire.namespace)


def _lay(wire: Wire, bridge: str) -> None:
    inside = ("ip", "-n", wire.namespace)
    run_tool("ip", "netns", "add", wire.namespace)
    run_tool(*f"ip link add {wire.namespace} type veth peer name eth0 netns {wire.namespace}".split())
    run_tool("ip", "link", "set", wire.namespace, "master", bridge, "up")
    run_tool(*inside, "address", "add", f"{wire.host}/24", "dev", "eth0")
    run_tool(*inside, "link", "set", "eth0", "up")
    run_tool(*inside, "link", "set", "lo", "up")

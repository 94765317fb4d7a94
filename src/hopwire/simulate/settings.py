"""The settings of a simulated network: the same settings give the same bytes.

Time is cut into chunks of one minute, each with about `CHUNK_ROWS` sightings, so that chunks can be made apart from one
another, in any order. Two minutes after the last chunk comes a short closing chunk, in which every node says goodbye:
so a message that is missing before it can be called lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hopwire.errors import SettingsError
from hopwire.simulate.faults import FAULTS
from hopwire.wire import FORMATS

__all__ = ["CHUNK_ROWS", "SimulateSettings", "formats_from_text"]

CHUNK_ROWS = 40_000  # sightings of one chunk: enough for numpy, few enough for any machine
MIN_NODES, MAX_NODES = 4, 1000  # the longest flow has four nodes
MAX_RATE = {"nodes": 1.0, "minutes": 1.0, "flows": 1.0, "sightings": 0.9, "MiB": 256.0}


@dataclass(frozen=True, slots=True)
class SimulateSettings:
    """How a network is simulated."""

    messages: int = 10_000  # sightings, about
    seed: int = 7
    nodes: int = 6  # so many nodes capture; one more node does not
    formats: tuple[int, ...] = tuple(fmt.number for fmt in FORMATS)
    rates: Mapping[str, float] = field(default_factory=lambda: {name: fault.rate for name, fault in FAULTS.items()})

    def __post_init__(self) -> None:
        if self.messages < 1:
            raise SettingsError(f"messages must be 1 or more, found {self.messages}")
        if not MIN_NODES <= self.nodes <= MAX_NODES:
            raise SettingsError(f"nodes must be {MIN_NODES} to {MAX_NODES}, found {self.nodes}")
        if self.seed < 0:
            raise SettingsError(f"seed must be 0 or more, found {self.seed}")
        known = {fmt.number for fmt in FORMATS}
        if not self.formats or not set(self.formats) <= known:
            raise SettingsError(f"formats must be some of {sorted(known)}, found {list(self.formats)}")
        for name, rate in self.rates.items():
            if name not in FAULTS:
                raise SettingsError(f"no fault {name!r:.40}; there are {', '.join(FAULTS)}")
            highest = MAX_RATE[FAULTS[name].of]
            if not 0 <= rate <= highest:
                raise SettingsError(f"fault {name}: the rate must be 0 to {highest:g}, found {rate!r}")
        total = sum(rate for name, rate in self.rates.items() if FAULTS[name].of == "flows")
        if total > 1:
            raise SettingsError(f"the rates of faults that are shares of flows add up to {total:g}, expected at most 1")

    @property
    def chunk_count(self) -> int:
        """How many chunks there are before the closing chunk."""
        return max(1, round(self.messages / CHUNK_ROWS))

    @property
    def closing(self) -> int:
        """The number of the closing chunk."""
        return self.chunk_count

    def rate(self, fault: str) -> float:
        """How often a fault happens."""
        return self.rates.get(fault, 0.0)


def formats_from_text(text: str) -> tuple[int, ...]:
    """Read a list of wire formats: `V3,V6`."""
    numbers = {fmt.name: fmt.number for fmt in FORMATS}
    names = [name.strip().upper() for name in text.split(",")]
    for name in names:
        if name not in numbers:
            raise SettingsError(f"no wire format {name!r:.40}; there are {', '.join(numbers)}")
    return tuple(sorted({numbers[name] for name in names}))

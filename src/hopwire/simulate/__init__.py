"""A whole network as a pure function of a seed: what its nodes would have captured, and what is true of it.

`World(SimulateSettings(...))` is the network, `simulate_chunk` makes a minute of it; writing is the business of others.
"""

from hopwire.simulate.check import CHECKED_TABLES, Checked, check_tables
from hopwire.simulate.chunk import Chunk, SimulatedCapture, counts_of_chunk, next_bases, simulate_chunk
from hopwire.simulate.faults import FAULTS, SimulatedFault, rates_from_text
from hopwire.simulate.settings import SimulateSettings, formats_from_text
from hopwire.simulate.truth import SCHEMAS, clocks_of, faults_of
from hopwire.simulate.world import SimulatedWorld

__all__ = [
    "CHECKED_TABLES",
    "FAULTS",
    "SCHEMAS",
    "Checked",
    "Chunk",
    "SimulateSettings",
    "SimulatedCapture",
    "SimulatedFault",
    "SimulatedWorld",
    "check_tables",
    "clocks_of",
    "counts_of_chunk",
    "faults_of",
    "formats_from_text",
    "next_bases",
    "rates_from_text",
    "simulate_chunk",
]

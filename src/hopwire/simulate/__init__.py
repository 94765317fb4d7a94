"""A whole network as a pure function of a seed: what its nodes would have captured, and what is true of the network.

`SimulatedWorld(SimulateSettings(...))` is the network, `simulate_chunk` makes one minute of its captures and of the
truth, `check_tables` compares a lake with the truth. `lake/simulation.py` reads and writes the files.
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

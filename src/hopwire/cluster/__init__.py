"""The other nodes: what they say of themselves, and what follows from it. Time is an argument."""

from hopwire.cluster.announce import Beat, Bye, Hello, Routes, RoutesWanted
from hopwire.cluster.members import Members
from hopwire.cluster.peers import Cluster, step

__all__ = ["Beat", "Bye", "Cluster", "Hello", "Members", "Routes", "RoutesWanted", "step"]

"""Recordings of the network, such as tcpdump writes: packets to TCP, TCP to ZMTP, ZMTP to sightings of both ends."""

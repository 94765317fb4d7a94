"""A small shop as a network of processes, with everything going wrong that can: what `hopwire demo` shows.

| module | what |
|---|---|
| `payloads.py`, `actors.py` | the story: what is said, and who does what with it |
| `roles.py` | the nodes, the formats that they read, the keys |
| `trouble.py` | the faults, as a table |
| `shopper.py`, `stranger.py` | who causes the traffic, and who disturbs it |
| `process.py` | one node in a process of its own |
| `world.py` | all of the processes, from the first hello to the last goodbye |
| `summary.py` | what the tables of the lake say of it, beside what the hubs saw |
"""

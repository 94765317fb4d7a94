"""A small shop as a network of processes, in which everything goes wrong: what `hopwire demo` shows.

| module | what |
|---|---|
| `shop.py` | the story: what is said, who does what, and on which node |
| `trouble.py` | what goes wrong, as a table; the faulty wire and the stranger who cause it |
| `shopper.py` | the customers, who cause the traffic |
| `process.py` | one node in a process of its own |
| `supervisor.py` | all processes, from the first hello to the last goodbye |
| `pipeline.py` | the captures of a day to tables, where Spark can run |
| `agreement.py` | what a hub saw of a question, beside what the lake says of it |
| `day_summary.py` | all that is reported of a day |
"""

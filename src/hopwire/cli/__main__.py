"""`python -m hopwire.cli` is the command `hopwire`."""

import sys

from hopwire.cli.launch import start

sys.exit(start())

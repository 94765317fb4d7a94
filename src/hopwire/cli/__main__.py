"""`python -m hopwire.cli` is the command `hopwire`."""

import sys

from hopwire.cli.main import run

sys.exit(run())

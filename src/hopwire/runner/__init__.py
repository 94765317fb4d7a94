"""A node as a process: settings from a file, the environment and arguments; signals; health and metrics over HTTP."""

from hopwire.runner.service import run, serve
from hopwire.runner.settings import RunSettings, read_settings

__all__ = ["RunSettings", "read_settings", "run", "serve"]

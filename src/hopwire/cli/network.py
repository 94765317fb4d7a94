"""The commands that run a node, or talk to one; they load nothing that only captures and lakes need."""

from __future__ import annotations

from collections.abc import Callable

from hopwire.cli import config
from hopwire.cli.ask import ask
from hopwire.cli.doctor import doctor
from hopwire.cli.listen import listen
from hopwire.cli.members import members
from hopwire.cli.node import node
from hopwire.cli.rendezvous import rendezvous
from hopwire.cli.routes import routes
from hopwire.cli.send import send
from hopwire.cli.tell import tell
from hopwire.cli.top import top
from hopwire.cli.trace import trace

__all__ = ["COMMANDS", "GROUPS"]

COMMANDS: tuple[Callable[..., None], ...] = (
    rendezvous,
    node,
    ask,
    send,
    tell,
    listen,
    members,
    routes,
    trace,
    doctor,
    top,
)
GROUPS: dict[str, tuple[str, tuple[Callable[..., None], ...]]] = {
    "config": ("See what a node would be run with.", config.COMMANDS),
}

"""A member that says anything at all: every kind of control message, with every kind of value, true to its type.

The member has greeted as everybody does, so its words are read. Whatever it says, the node lives on, stays small, and
answers others.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import types
import typing
from functools import cache
from typing import Any

import pytest
from msgspec.structs import fields, replace

import hopwire.cluster
from hopwire.model import Message, Payload, body_from_payload, contract_of
from hopwire.model.message import CallbackPoint
from hopwire.model.outcome import Outcome
from hopwire.model.units import MEBIBYTE
from hopwire.node import Node
from hopwire.node.demand import Demand, Enough
from hopwire.node.envelope import Envelope
from hopwire.wire.extension import Extension, with_extension
from tests.attacks.victim import DOMAINS, victim
from tests.node.loopback import told, until
from tests.node.stories import Greet, Greeting

SAID = 1_500
NUMBERS = (0, 1, -1, 16, 255, 10**6, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63))
TEXTS = ("", "tcp://127.0.0.1:1", "tcp://[::1]:9", "ipc:///nowhere", "tcp://0.0.0.0:0", "\x1b]0;x", "x" * 300)


@cache
def kinds() -> tuple[type[Payload], ...]:
    """Give every payload that nodes say to each other beside what their actors say."""
    modules = [
        importlib.import_module(f"hopwire.cluster.{each.name}")
        for each in pkgutil.iter_modules(hopwire.cluster.__path__)
    ]
    found = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    words = {each for each in found if issubclass(each, Payload) and each is not Payload}
    return tuple(sorted(words | {Demand, Enough, Outcome}, key=lambda each: each.__name__))


class Chatter:
    """Makes up what is said."""

    def __init__(self, seed: int, names: tuple[bytes, ...], own: bytes, incarnation: int) -> None:
        self.chance, self.names, self.own, self.incarnation = random.Random(seed), names, own, incarnation

    def payload(self) -> Payload:
        """Give a control message; often one that speaks for the member itself, so that it is looked at further."""
        made: Payload = self.struct(self.chance.choice(kinds()), 0)
        own = {"node": self.own, "incarnation": self.incarnation}
        return replace(made, **{name: own[name] for name in own if hasattr(made, name) and self.chance.random() < 0.6})

    def struct(self, kind: Any, depth: int) -> Any:
        return kind(*(self.value(field.type, depth) for field in fields(kind)))

    def value(self, kind: Any, depth: int = 0) -> Any:
        """Give some value of a type."""
        chance, origin, inner = self.chance, typing.get_origin(kind), typing.get_args(kind)
        if kind in (int, float, str, bytes, bool):
            some: dict[Any, tuple[Any, ...]] = {
                int: NUMBERS,
                float: (0.0, -1.0, 1e308, float("inf"), float("nan")),
                str: TEXTS,
                bytes: (b"", *self.names, b"greeter.greet", bytes(16), chance.randbytes(300)),
                bool: (False, True),
            }
            return chance.choice(some[kind])
        if origin in (typing.Union, types.UnionType):
            return self.value(chance.choice(inner), depth)
        if origin is tuple and inner[1:] == (...,):
            return tuple(
                self.value(inner[0], depth + 1) for _ in range(chance.choice((0, 1, 2, 20 if depth < 1 else 3)))
            )
        if origin is tuple:
            return tuple(self.value(each, depth + 1) for each in inner)
        if hasattr(kind, "__struct_fields__"):
            return self.struct(kind, depth + 1)
        if isinstance(kind, type) and issubclass(kind, tuple):
            hints = typing.get_type_hints(kind)
            return kind(*(self.value(hints[name], depth + 1) for name in kind._fields))  # type: ignore[attr-defined]
        return None

    def message(self, payload: Payload, node: bytes) -> Message:
        """Give a payload as a message whose other fields make as little sense."""
        contract, chance = contract_of(payload), self.chance
        message = Message(
            contract.identity,
            contract.version,
            body_frames=(body_from_payload(payload),),
            correlation_id=self.value(bytes),
            receiver_node_identity=node,
            receiver_identity=self.value(bytes),
            callback_points=(CallbackPoint(b"greeter.greeting", 1, b""),) * chance.choice((0, 1, 3)),
            callback_key=chance.getrandbits(63),
            callback_receiver_identity=self.value(bytes),
            callback_receiver_node_identity=self.value(bytes),
            ttl_ticks=chance.choice((0, 1, 2**40)),
            hops=chance.choice((0, 1, 60_000)),
            distribution=chance.choice((0, 0, 1, 2, 3)),
        )
        extension = Extension(
            message_id=self.value(bytes), attempt=chance.choice((0, 1, 5)), part=chance.choice((0, 1, 9))
        )
        return with_extension(message, extension) if chance.random() < 0.5 else message


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [("open", 1), ("signed", 2)])
def test_a_member_that_says_anything_at_all_harms_nobody(kind: str, seed: int) -> None:
    async def story() -> None:
        with victim(kind) as it:
            domains = DOMAINS[kind]
            async with Node(peers=[it.uri], domains=domains) as honest, Node(peers=[it.uri], domains=domains) as member:
                await honest.knows(Greet)
                await member.knows(Greet)
                (node,) = member.peers
                chatter = Chatter(seed, (node, honest.identity), member.identity, member._incarnation)
                before = it.report()["bytes"]
                for number in range(SAID):
                    payload = chatter.payload()
                    if number % 2:
                        member._outgoing.tell(node, payload)
                    else:
                        member._outgoing.send(node, Envelope(chatter.message(payload, node)))
                    if number % 50 == 0:
                        answer = await honest.hub().ask(Greet("x"), Greeting, timeout=90)
                        assert answer == Greeting("hello x")
                await until(lambda: sum(it.report()["dead_letters"].values()) > SAID / 2)  # most is read, and refused
                assert it.report()["bytes"] < before + 50 * MEBIBYTE

    told(story)

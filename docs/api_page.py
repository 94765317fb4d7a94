"""Every public name with what it says of itself: the page `api.md`, made from the docstrings.

A name is public if a module of `MODULES` has it in its `__all__`. A class shows its public methods and properties.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

__all__ = ["api"]

# a module, and what one would look for in it
MODULES = {
    "hopwire": "nodes, actors, hubs, payloads, errors",
    "hopwire.sync": "the same for code without an event loop",
    "hopwire.testing": "a network in memory, with faults and a clock of its own",
    "hopwire.runner": "a node as a process",
    "hopwire.domains_file": "domains and their secrets, from a file",
    "hopwire.security": "domains, keys, signatures, verdicts",
    "hopwire.wire": "messages as bytes, one at a time or as columns",
    "hopwire.capture": "what nodes have written down",
    "hopwire.lake": "tables, for whoever asks",
    "hopwire.lake.sql": "tables, in SQL",
    "hopwire.lake.build": "captures to tables",
}
INTRODUCTION = """\
Every public name, as it says of itself in its docstring. How to use them is in [The network](network.md);
every option of every call has a line in [Calls and options](calls.md).
"""
SHOWN = (type(None), bool, int, float, str, bytes, tuple)
NO_SIGNATURE = (Exception, enum.Enum)


def api() -> str:
    """Give the page of all public names."""
    parts = ["# API\n", INTRODUCTION, "| module | what is in it |", "|---|---|"]
    parts += [f"| [`{name}`](#{name.replace('.', '')}) | {what} |" for name, what in MODULES.items()] + [""]
    seen: set[int] = set()
    for module_name in MODULES:
        module = import_module(module_name)
        parts += [f"## {module_name}\n", f"{_text(module).splitlines()[0]}\n"]
        for name in sorted(module.__all__, key=str.lower):
            value = getattr(module, name)
            if not callable(value) or id(value) in seen or not inspect.getdoc(value):
                continue
            seen.add(id(value))
            parts += list(_entry(name, value))
    return "\n".join(parts)


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}\n"
    is_class = inspect.isclass(value)
    if not (is_class and issubclass(value, NO_SIGNATURE)) and (shown := _signature(value)) is not None:
        yield f"```\n{name}{shown}\n```\n"
    yield f"{_text(value)}\n"
    if is_class and (rows := list(_members(value))):
        yield from ("| member | what it says |", "|---|---|", *rows, "")


def _members(kind: type) -> Iterator[str]:
    named = {each.name for each in fields(kind)} if is_dataclass(kind) else set()
    for name, value in vars(kind).items():
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        is_property = isinstance(value, property)
        if name.startswith("_") or name in named or not (is_property or inspect.isfunction(value)):
            continue
        text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
        if not text:
            continue
        shown = f"`{name}`" if is_property else f"`{name}({_parameters(value)})`"
        yield f"| {shown} | {_cell(text)} |"


def _parameters(call: Any) -> str:
    """Give the names of the parameters, with ... for those that can be left out."""
    shown = []
    for each in inspect.signature(call).parameters.values():
        stars = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        if each.name not in ("self", "cls"):
            shown.append(f"{stars}{each.name}" if each.default is each.empty else f"{each.name}=...")
    return ", ".join(shown)


def _signature(value: Any) -> str | None:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    plain = [_plain(each) for each in signature.parameters.values()]
    shown = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    if len(shown) > 100:
        shown = "(\n    " + ",\n    ".join(str(each) for each in plain) + ",\n)"
    return shown.replace("Ellipsis", "...")


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Give a parameter without its type, and with a default that is short and the same in every run."""
    default = parameter.default
    is_shown = default is parameter.empty or type(default) in SHOWN
    return parameter.replace(annotation=parameter.empty, default=default if is_shown else ...)


def _text(value: Any) -> str:
    """Give a docstring whose examples are code, and whose tables and lists stay what they are."""
    lines, is_code = [], False
    for line in (inspect.getdoc(value) or "").splitlines():
        begins = line.startswith(">>>")
        if begins and not is_code:
            lines.append("```python")
        if is_code and not line.strip():
            lines.append("```")
        is_code = begins or (is_code and bool(line.strip()))
        lines.append(line.replace("  # doctest: +SKIP", ""))
    return "\n".join([*lines, "```"] if is_code else lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

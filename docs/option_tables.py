"""Every call and every option, with its default and one line: the page `calls.md`, made from the signatures.

An option of a call has its line in `WORDS`. A field of a class of settings has its line beside it, as a comment. An
option without a line, and a line without an option, is an error where the page is made.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from hopwire.cluster.events import Pace
from hopwire.model.limits import Limits
from hopwire.node import Hub, Node, NodeSettings, Partner, Tls
from hopwire.runner.settings import OPTIONS, RunOption
from hopwire.testing import Faults, Network, run

__all__ = ["calls", "run_options"]

INTRODUCTION = """\
What can be said to each call, with its default. `hopwire.sync` has the same calls and options. What they promise is in
[The network](network.md).
"""

# fmt: off
CALLS: dict[str, Callable[..., Any]] = {
    "hub.ask":        Hub.ask,
    "hub.stream":     Hub.stream,
    "hub.send":       Hub.send,
    "hub.tell":       Hub.tell,
    "hub.broadcast":  Hub.broadcast,
    "hub.trace":      Hub.trace,
    "Node":           Node,
    "node.host":      Node.host,
    "node.hub":       Node.hub,
    "node.knows":     Node.knows,
    "node.drain":     Node.drain,
    "node.stop":      Node.stop,
    "node.allow":     Node.allow,
    "NodeSettings":   NodeSettings,
    "Pace":           Pace,
    "Limits":         Limits,
    "Tls":            Tls,
    "Partner":        Partner,
    "testing.run":    run,
    "testing.Network": Network,
    "network.node":   Network.node,
    "network.cut":    Network.cut,
    "network.heal":   Network.heal,
    "network.crash":  Network.crash,
    "network.kill":   Network.kill,
    "testing.Faults": Faults,
}

# an option of one call is looked for before an option of all calls
WORDS = {
    "payload":               "what is said",
    "reply":                 "the payload class of the answer, or a tuple of several",
    "part":                  "the payload class of each part, or a tuple of several",
    "timeout":               "seconds until the call ends with `Timeout`; also the time to live of the message",
    "ttl":                   "seconds that the message lives; `None`: for ever",
    "to":                    "one node, or one actor on it, instead of any: `hw.Address(node, actor)`",
    "partition":             "only actors that were hosted in this partition take the message",
    "correlation_id":        "the flow that the message belongs to; a new one otherwise",
    "trace":                 "whether the nodes on the way write themselves down in the message, for captures",
    "at_least_once":         "whether the message is sent again until the call has its answer, or its receipt",
    "hub.stream.timeout":    "seconds for the whole stream; also the time to live of its messages",
    "hub.trace.timeout":     "seconds until the call ends with `Timeout`",
    "Node.listen":           "the address where others reach the node; port 0 takes a free one",
    "Node.advertise":        "the address that others are told, where that is another one",
    "Node.peers":            "addresses of nodes to dial first",
    "Node.join":             "doors of a cluster: addresses of its members, or DNS names (`dns://`); `[]` waits",
    "Node.identity":         "who the node is for all others; drawn, or kept beside the capture, if none is given",
    "Node.name":             "what people call the node, in captures and in the lake",
    "Node.capture":          "a directory where all messages are written down; several processes may share it",
    "Node.capture_local":    "whether messages between actors and hubs of this node are written down too",
    "Node.ship":             "a place where sealed segments of the capture go, such as s3://bucket/captures",
    "Node.keep_shipped":     "whether segments that were shipped stay in the directory, too",
    "Node.domains":          "who may say what, and the keys for it; the path of a file is read again when it changes",
    "Node.tls":              "the certificate of the node, and the authority of the network",
    "Node.insecure":         "whether an address that others can reach may be open to all",
    "Node.partners":         "partner networks that the node is a gateway to, or the path of their file",
    "node.allow.partner":    "the name of the partner network",
    "node.allow.export":     "what the partner may use of this network; as before if not given",
    "node.allow.import_":    "what this network uses of the partner; as before if not given",
    "Node.foreign":          "programs that are no nodes, and that the node dials",
    "Node.settings":         "limits and habits of the node",
    "Node.transport":        "what moves frames, in place of sockets; for tests",
    "node.host.actor":       "an object, and not a class",
    "node.host.partition":   "the actor takes only messages of this partition",
    "node.host.local_only":  "whether other nodes are not told of the actor",
    "node.host.supervision": "`restart`, `stop` or `escalate` when the actor fails; otherwise its class says which",
    "node.hub.new":          "whether the hub is yours alone, to be closed by you",
    "node.hub.local_only":   "whether other nodes are not told of the hub; such a hub is a new one",
    "node.knows.payload":    "the payload class that somebody is to handle",
    "node.knows.partition":  "in which partition",
    "node.knows.timeout":    "seconds until the call ends with `NoRoute`",
    "node.drain.timeout":    "seconds until the call ends with `False`",
    "node.stop.timeout":     "seconds for actors to end, and for what waits to leave",
    "Tls.certificate":       "the file with the certificate of the node",
    "Tls.key":               "the file with the key of the certificate",
    "Tls.authority":         "the file with the certificate of the authority of the network",
    "Tls.allowed":           "a file of nodes and certificates that alone are let in",
    "Tls.revoked":           "a file of nodes and certificates that are refused",
    "Tls.any_identity":      "whether certificates are let in that name no node",
    "testing.run.story":     "an async function that takes a `Network`",
    "testing.run.seed":      "decides all chance: the same seed, the same run",
    "testing.run.seconds":   "of the story's own clock, until it ends with `StoryStuck`",
    "testing.Network.seed":  "as in `run`",
    "network.node.settings": "the options of `Node`, without `listen` and `transport`",
    "network.cut.one":       "a node",
    "network.cut.other":     "another node",
    "node":                  "a node of this network",
}
# fmt: on


def calls() -> str:
    """Give the page of all calls and options."""
    used: set[str] = set()
    parts = ["# Calls and options\n", INTRODUCTION]
    for name, call in CALLS.items():
        rows = _fields(name, call, used) if is_dataclass(call) else _parameters(name, call, used)
        parts += [f"## {name}\n", f"{_sentence(call)}\n"]
        parts += ["| option | default | what it says |", "|---|---|---|", *rows, ""] if rows else []
    if unused := WORDS.keys() - used:
        raise SystemExit(f"docs/option_tables.py: no call has {', '.join(sorted(unused))}")
    return "\n".join(parts)


RUN_INTRODUCTION = """\
What `hopwire node`, `hopwire rendezvous` and `hopwire.run` can be told. An option has the same name as an argument
(`--drain-seconds 5`, or `--set inbox_messages=100` where there is no argument of that name), in the environment
(`HOPWIRE_DRAIN_SECONDS=5`), in the file of `--config` (`drain_seconds = 5`) and in `hopwire.run(drain_seconds=5)`. The
first of these places that has a value counts. `hopwire config show` lists every value and where it comes from. What
each is for is in [Deployment](deployment.md).
"""


def run_options() -> str:
    """Give the page of all options of a node that is run."""
    beside = dict(re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(NodeSettings), re.MULTILINE))
    lines = [
        "# Settings of a node\n",
        RUN_INTRODUCTION,
        "| option | expects | default | what it says |",
        "|---|---|---|---|",
    ]
    for option in OPTIONS.values():
        words = beside.get(option.name, option.meaning)
        lines.append(f"| `{option.name}` | {option.kind.expected} | {_run_default(option)} | {words} |")
    return "\n".join(lines) + "\n"


def _run_default(option: RunOption) -> str:
    value = option.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "" if value in ("", ()) else f"`{value:g}`" if isinstance(value, float) else _default(value).replace("'", "")


def _sentence(call: Callable[..., Any]) -> str:
    text = " ".join((inspect.getdoc(call) or "").split("\n\n")[0].split())
    if not text:
        raise SystemExit(f"docs/option_tables.py: {call.__qualname__} has no docstring")
    return text


def _parameters(name: str, call: Callable[..., Any], used: set[str]) -> list[str]:
    rows = []
    for each in inspect.signature(call).parameters.values():
        if each.name == "self":
            continue
        is_given = each.default is inspect.Parameter.empty
        rows.append(
            f"| `{each.name}` | {'' if is_given else _default(each.default)} | {_words(name, each.name, used)} |"
        )
    return rows


def _words(call: str, option: str, used: set[str]) -> str:
    for key in (f"{call}.{option}", option):
        if key in WORDS:
            used.add(key)
            return WORDS[key]
    raise SystemExit(f"docs/option_tables.py: {call} has an option {option} without words")


def _fields(name: str, kind: Any, used: set[str]) -> list[str]:
    """Give the fields of a class of settings; what stands beside a field as a comment is its line."""
    beside = dict(re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(kind), re.MULTILINE))
    rows = []
    for each in fields(kind):
        words = beside.get(each.name) or _words(name, each.name, used)
        made = each.default_factory() if each.default_factory is not MISSING else each.default
        rows.append(f"| `{each.name}` | {'' if made is MISSING else _default(made)} | {words} |")
    return rows


def _default(value: object) -> str:
    """Give a default in few words: a number, a text, or the class whose own defaults count."""
    if is_dataclass(value) or type(value).__name__ == "Domains":
        return f"`{type(value).__name__}()`"
    if type(value) is int and value >= 10_000:
        return f"`{value:,}`"
    return f"`{str(value)!r}`" if isinstance(value, str) else f"`{value!r}`"

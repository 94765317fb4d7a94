"""What can be set of a node that is run, where each value comes from, and what becomes of the values.

Every option has one name in four places. The first place that has a value counts; values are never merged:

| place | the option `drain_seconds` | a list |
|---|---|---|
| arguments | `--drain-seconds 5`, `run(drain_seconds=5)` | `--peer A --peer B`, `run(peers=["A", "B"])` |
| environment | `HOPWIRE_DRAIN_SECONDS=5` | `HOPWIRE_PEERS=A,B` |
| file, in TOML | `drain_seconds = 5` | `peers = ["A", "B"]` |
| default | 20 | nothing |

A relative path in a file counts from the file. An unknown name in a file or an argument is refused. An unknown variable
of the environment is refused only if its name is nearly that of an option: others may have variables that begin with
HOPWIRE_ too, such as the variables that Kubernetes makes for a service called `hopwire`, and secrets.

No option holds a secret. Secrets are named by the file of domains, and are read by `domains_file.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from hopwire.cluster.events import Pace
from hopwire.disk import read_named_text
from hopwire.domains_file import domains_from_file
from hopwire.errors import SettingsError
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings, Tls
from hopwire.report.words import nearest
from hopwire.security.domains import OPEN, Domains

__all__ = [
    "OPTIONS",
    "PREFIX",
    "RunOption",
    "RunSettings",
    "SettingValue",
    "read_settings",
    "text_arguments",
]

PREFIX = "HOPWIRE_"
CONFIG = "config"  # the file itself is named by an argument or by the environment
OTHERS = ("CONFIG", "TRACEBACK", "JAVA", "SPARK_LOG")  # variables that mean something else
DEFAULT = "default"


# -- kinds of values: what is right, and how it is read from text


class ValueKind(NamedTuple):
    """A kind of value."""

    expected: str
    is_right: Callable[[Any], bool]
    from_text: Callable[[str], Any]


SWITCHES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
TEXT = ValueKind("text", lambda value: isinstance(value, str), str)
PATH = ValueKind("a path", lambda value: isinstance(value, str | Path), str)
LIST = ValueKind(
    "a list of text",
    lambda value: isinstance(value, list | tuple) and all(isinstance(each, str) for each in value),
    lambda text: [each.strip() for each in text.split(",") if each.strip()],
)
NUMBER = ValueKind("a number from 1", lambda value: type(value) is int and value >= 1, int)
SECONDS = ValueKind(
    "a number of seconds",
    lambda value: type(value) in (int, float) and 0 <= value < NS_PER_SECOND,
    float,
)
SWITCH = ValueKind("true or false", lambda value: isinstance(value, bool), lambda text: SWITCHES[text.lower()])


def _word(*words: str) -> ValueKind:
    return ValueKind(f"one of {', '.join(words)}", lambda value: value in words, str.lower)


@dataclass(frozen=True, slots=True)
class RunOption:
    """One option: its name, what it may be, its default and what it means."""

    name: str
    kind: ValueKind
    default: Any
    meaning: str


LEVEL, LOG_FORMAT = _word("debug", "info", "warning", "error"), _word("text", "json")
PACE, NS = Pace(), NS_PER_SECOND
# fmt: off
OWN = (
    #         name               kind        default                meaning
    RunOption("actors",          LIST,       (),                    "actors, each as MODULE:NAME"),
    RunOption("name",            TEXT,       "",                    "what people call the node"),
    RunOption("identity",        TEXT,       "",                    "what nodes know it by; else made up or kept"),
    RunOption("listen",          TEXT,       "tcp://127.0.0.1:0",   "where others reach the node"),
    RunOption("advertise",       TEXT,       "",                    "what others are told, where that differs"),
    RunOption("peers",           LIST,       (),                    "nodes that are greeted first"),
    RunOption("join",            LIST,       (),                    "members of the network to join by"),
    RunOption("capture",         PATH,       "",                    "directory for everything that is said"),
    RunOption("capture_local",   SWITCH,     False,                 "capture what stays within the node too"),
    RunOption("ship",            TEXT,       "",                    "where sealed segments of the capture go: s3://..."),
    RunOption("keep_shipped",    SWITCH,     True,                  "keep segments here that were shipped"),
    RunOption("domains",         PATH,       "",                    "TOML file of domains, which names their keys"),
    RunOption("partners",        PATH,       "",                    "TOML file of partner networks"),
    RunOption("tls_certificate", PATH,       "",                    "certificate of the node, in PEM"),
    RunOption("tls_key",         PATH,       "",                    "its key"),
    RunOption("tls_authority",   PATH,       "",                    "authority of all certificates"),
    RunOption("tls_allowed",     PATH,       "",                    "list of the nodes that alone get in"),
    RunOption("tls_revoked",     PATH,       "",                    "list of the nodes that are refused"),
    RunOption("insecure",        SWITCH,     False,                 "listen to other machines without keys"),
    RunOption("http",            TEXT,       "",                    "health and metrics: HOST:PORT, or a port"),
    RunOption("grace_seconds",   SECONDS,    10.0,                  "until a node is ready though peers are missing"),
    RunOption("drain_seconds",   SECONDS,    20.0,                  "for work that is left when a node shall end"),
    RunOption("stop_seconds",    SECONDS,    1.0,                   "for goodbyes after that"),
    RunOption("log_level",       LEVEL,      "info",                "the least that is logged"),
    RunOption("log_format",      LOG_FORMAT, "text",                "how it is logged"),
    RunOption("status",          SWITCH,     True,                  "answer questions for members and routes"),
    RunOption("beat_seconds",    SECONDS,    PACE.beat_ns / NS,     "between two signs of life"),
    RunOption("silence_seconds", SECONDS,    PACE.silence_ns / NS,  "until a silent peer is gone"),
    RunOption("gone_seconds",    SECONDS,    PACE.gone_ns / NS,     "until a peer is gone whose connection died"),
)
# fmt: on
PACES = ("beat_seconds", "silence_seconds", "gone_seconds")
PATHS = tuple(option.name for option in OWN if option.kind is PATH)
TLS = ("tls_certificate", "tls_key", "tls_authority")


def _of_node() -> Iterable[RunOption]:
    """Give the fields of NodeSettings that one value can say; a new field there is an option here."""
    plain = NodeSettings(latencies=True)  # who runs a node wants to see how it does
    kinds = {bool: SWITCH, int: NUMBER, float: SECONDS}
    for field in fields(NodeSettings):
        default = getattr(plain, field.name)
        kind = _word(*type(default)) if isinstance(default, StrEnum) else kinds.get(type(default))
        if kind is not None:
            yield RunOption(field.name, kind, default, "as in NodeSettings")


OPTIONS = {option.name: option for option in (*OWN, *_of_node())}


# -- where values come from


class SettingValue(NamedTuple):
    """A value, and the place that it comes from."""

    value: Any
    origin: str


def read_settings(
    arguments: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    config: str | Path | None = None,
    origins: Mapping[str, str] | None = None,
    defaults: Mapping[str, SettingValue] | None = None,
) -> RunSettings:
    """Read all settings; `arguments` has those that were given, `origins` what each is called where it was given.

    `defaults` are those of a command that has others.
    """
    arguments, environ, origins = arguments or {}, environ or {}, origins or {}
    values = {name: SettingValue(option.default, DEFAULT) for name, option in OPTIONS.items()} | dict(defaults or {})
    path = config if config is not None else environ.get(f"{PREFIX}CONFIG") or None
    if path is not None:
        values |= _from_file(Path(path))
    values |= _from_environment(environ)
    for name, value in arguments.items():
        origin = origins.get(name, name)
        if name not in OPTIONS:
            raise SettingsError(f"{origin}: unknown setting{_hint(name, OPTIONS)}")
        values[name] = SettingValue(_checked(OPTIONS[name], value, origin), origin)
    return RunSettings(values)


def _from_file(path: Path) -> dict[str, SettingValue]:
    try:
        table = tomllib.loads(read_named_text(path))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: is not TOML that can be read: it is nested too deep") from None
    found: dict[str, SettingValue] = {}
    for name, value in table.items():
        option = OPTIONS.get(name)
        if option is None:
            raise SettingsError(f"{path}: unknown setting {name!r:.80}{_hint(name, OPTIONS)}")
        value = _checked(option, value, f"{path}: {name}")
        if name in PATHS and value:
            value = str(path.parent / value)
        found[name] = SettingValue(value, str(path))
    return found


def _from_environment(environ: Mapping[str, str]) -> dict[str, SettingValue]:
    found: dict[str, SettingValue] = {}
    known = {f"{PREFIX}{name.upper()}": option for name, option in OPTIONS.items()}
    for variable, text in environ.items():
        option = known.get(variable)
        if option is not None:
            found[option.name] = SettingValue(_read(option, text, variable), variable)
        elif variable.startswith(PREFIX) and variable.removeprefix(PREFIX) not in OTHERS:
            near = nearest(variable.removeprefix(PREFIX), [name.upper() for name in OPTIONS])
            if near:
                raise SettingsError(f"{variable}: unknown variable; did you mean {PREFIX}{near}?")
    return found


def text_arguments(texts: Iterable[str]) -> dict[str, Any]:
    """Read arguments of the form NAME=VALUE."""
    found: dict[str, Any] = {}
    for text in texts:
        name, is_given, value = text.partition("=")
        if not is_given:
            raise SettingsError(f"--set: found {text!r:.80}, expected NAME=VALUE")
        if name not in OPTIONS:
            raise SettingsError(f"--set: unknown setting {name!r:.80}{_hint(name, OPTIONS)}")
        found[name] = _read(OPTIONS[name], value, f"--set {name}")
    return found


def _read(option: RunOption, text: str, where: str) -> Any:
    try:
        value = option.kind.from_text(text.strip())
    except (ValueError, KeyError):
        raise SettingsError(f"{where}: found {text!r:.80}, expected {option.kind.expected}") from None
    return _checked(option, value, where)


def _checked(option: RunOption, value: Any, where: str) -> Any:
    if not option.kind.is_right(value):
        raise SettingsError(f"{where}: found {_shown(value)}, expected {option.kind.expected}")
    return tuple(value) if option.kind is LIST else str(value) if option.kind is PATH else value


def _shown(value: Any) -> str:
    """What was found; tables are not shown: they may be those of a file of domains, with its secrets."""
    has_tables = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value))
    return "a table" if has_tables else f"{value!r:.80}"


def _hint(name: str, known: Iterable[str]) -> str:
    near = next(iter(get_close_matches(name, list(known), 1, 0.5)), "")
    return f"; did you mean {near!r}?" if near else "; `hopwire config show` lists them all"


# -- what becomes of them


@dataclass(frozen=True, slots=True)
class RunSettings:
    """All settings of a node that is run, each with the place that it comes from."""

    values: Mapping[str, SettingValue]

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    def node(self) -> Node:
        """Make the node; it is not started."""
        plain = {field.name for field in fields(NodeSettings)} & OPTIONS.keys()
        pace = Pace(**{name.replace("_seconds", "_ns"): round(self[name] * NS_PER_SECOND) for name in PACES})
        settings = NodeSettings(**{name: self[name] for name in plain}, pace=pace)
        return Node(
            self["listen"],
            advertise=self["advertise"],
            peers=self["peers"],
            identity=self["identity"].encode() or None,
            name=self["name"],
            capture=self["capture"] or None,
            capture_local=self["capture_local"],
            ship=self["ship"] or None,
            keep_shipped=self["keep_shipped"],
            domains=self["domains"] or OPEN,  # by its path, so that it is read again when it changes
            tls=self.tls(),
            insecure=self["insecure"],
            partners=self["partners"] or (),
            settings=settings,
            **self._join(),
        )

    def _join(self) -> dict[str, Any]:
        """Give the doors of the network; a list that was given empty is said too: others will find this node."""
        if self.values["join"].origin == DEFAULT:
            return {}
        return {"join": self["join"]}

    def domains(self) -> Domains:
        """Read the file of domains and the keys that it names; without a file nothing is signed."""
        path = self["domains"]
        return domains_from_file(path) if path else OPEN

    def tls(self) -> Tls | None:
        """Give the certificate, its key and the authority, if they are set."""
        missing = [name for name in TLS if not self[name]]
        lists = self["tls_allowed"] or None, self["tls_revoked"] or None
        if len(missing) == len(TLS) and not any(lists):
            return None
        if missing:
            raise SettingsError(f"TLS needs {', '.join(TLS)}; {', '.join(missing)} is not given")
        return Tls(self["tls_certificate"], self["tls_key"], self["tls_authority"], *lists)

"""Where settings come from, which of them counts, and what is wrong with a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopwire.cluster.events import Pace
from hopwire.errors import SettingsError
from hopwire.node import NodeSettings, Tls
from hopwire.runner.settings import OPTIONS, read_settings, text_arguments


def test_arguments_count_before_the_environment_before_the_file_before_defaults(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('name = "file"\ndrain_seconds = 1\npeers = ["tcp://f:1"]\n', "utf-8")
    environ = {"HOPWIRE_NAME": "environment", "HOPWIRE_PEERS": "tcp://a:1, tcp://b:2", "PATH": "x"}
    found = read_settings({"name": "argument"}, environ, file, {"name": "--name"})
    assert found.values["name"] == ("argument", "--name")
    assert found.values["peers"] == (("tcp://a:1", "tcp://b:2"), "HOPWIRE_PEERS")
    assert found.values["drain_seconds"] == (1, str(file))
    assert found.values["grace_seconds"] == (10.0, "default")


def test_the_environment_names_the_file_and_paths_in_it_count_from_it(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('capture = "here"\ndomains = "/abs/domains.toml"\n', "utf-8")
    found = read_settings({}, {"HOPWIRE_CONFIG": str(file)})
    assert (found["capture"], found["domains"]) == (str(tmp_path / "here"), "/abs/domains.toml")


def test_every_kind_is_read_from_text() -> None:
    texts = ["insecure=yes", "inbox_messages=5", "drain_seconds=0.5", "overflow=REFUSE", "peers=a,b"]
    assert text_arguments(texts) == {
        "insecure": True,
        "inbox_messages": 5,
        "drain_seconds": 0.5,
        "overflow": "refuse",
        "peers": ("a", "b"),
    }


# fmt: off
ENVIRONMENTS = (
    ({"HOPWIRE_PERS": "x"},            "HOPWIRE_PERS: unknown variable; did you mean HOPWIRE_PEERS?"),
    ({"HOPWIRE_DRAIN_SECONDS": "x"},   "HOPWIRE_DRAIN_SECONDS: found 'x', expected a number of seconds"),
    ({"HOPWIRE_DRAIN_SECONDS": "-1"},  "HOPWIRE_DRAIN_SECONDS: found -1.0, expected a number of seconds"),
    ({"HOPWIRE_DRAIN_SECONDS": "nan"}, "HOPWIRE_DRAIN_SECONDS: found nan, expected a number of seconds"),
    ({"HOPWIRE_INSECURE": "maybe"},    "HOPWIRE_INSECURE: found 'maybe', expected true or false"),
    ({"HOPWIRE_LOG_FORMAT": "xml"},    "HOPWIRE_LOG_FORMAT: found 'xml', expected one of text, json"),
    ({"HOPWIRE_CONFIG": "/no/such"},   "/no/such: No such file or directory"),
)
FILES = (
    ("name = \n",                      "{file}: is not TOML: Invalid value (at line 1, column 8)"),
    ('nam = "x"\n',                    "{file}: unknown setting 'nam'; did you mean 'name'?"),
    ("zzzzzzzz = 1\n",                 "{file}: unknown setting 'zzzzzzzz'; `hopwire config show` lists them all"),
    ('peers = "tcp://a:1"\n',          "{file}: peers: found 'tcp://a:1', expected a list of text"),
    ("insecure = 1\n",                 "{file}: insecure: found 1, expected true or false"),
    ('[domains.d]\nsecret = "s"\n',    "{file}: domains: found a table, expected a path"),
    ('[[peers]]\nsecret = "s"\n',      "{file}: peers: found a table, expected a list of text"),
    ("name = " + "[" * 5000,           "{file}: is not TOML that can be read: it is nested too deep"),
    ("inbox_messages = true\n",        "{file}: inbox_messages: found True, expected a number from 1"),
)
NODES = (
    ({"listen": "nonsense"},           "the address of this node is like tcp://host:port, found 'nonsense'"),
    ({"domains": "/no/such.toml"},     "cannot read the domains /no/such.toml: No such file or directory"),
    ({"tls_key": "x"},                 "TLS needs tls_certificate, tls_key, tls_authority; tls_certificate, "
                                       "tls_authority is not given"),
    ({"silence_seconds": 0.5},         "a pace needs 0 < beat < silence"),
)
# fmt: on


@pytest.mark.parametrize(("environ", "line"), ENVIRONMENTS)
def test_a_bad_variable_is_one_line(environ: dict[str, str], line: str) -> None:
    with pytest.raises(SettingsError) as found:
        read_settings({}, environ)
    assert str(found.value) == line


@pytest.mark.parametrize(("text", "line"), FILES)
def test_a_bad_file_is_one_line(text: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as found:
        read_settings({}, {}, file)
    assert str(found.value) == line.format(file=file)


@pytest.mark.parametrize(("arguments", "line"), NODES)
def test_settings_that_make_no_node_are_one_line(arguments: dict[str, object], line: str) -> None:
    with pytest.raises(SettingsError) as found:
        read_settings(arguments).node()
    assert str(found.value).startswith(line)


def test_an_unknown_argument_is_one_line() -> None:
    with pytest.raises(SettingsError, match=r"^peer: unknown setting; did you mean 'peers'\?$"):
        read_settings({"peer": ["tcp://a:1"]})


def test_variables_of_others_are_left_alone() -> None:
    environ = {"HOPWIRE_SERVICE_HOST": "10.0.0.1", "HOPWIRE_PORT": "tcp://10.0.0.1:7400", "HOPWIRE_SHOP_KEY": "secret"}
    found = read_settings({}, environ)
    assert {each.origin for each in found.values.values()} == {"default"}


def test_defaults_are_those_of_a_node() -> None:
    node = read_settings().node()
    assert node.settings == NodeSettings(latencies=True, pace=Pace())
    assert {"inbox_messages", "overflow", "replay_seconds"} <= OPTIONS.keys()


def test_join_is_given_to_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    class Joining:
        def __init__(self, listen: str, *, join: tuple[str, ...] | None = None, **options: object) -> None:
            given["join"] = join

    monkeypatch.setattr("hopwire.runner.settings.Node", Joining)
    read_settings({"join": ["tcp://a:1"]}).node()
    assert given == {"join": ("tcp://a:1",)}
    read_settings({}, {"HOPWIRE_JOIN": ""}).node()
    assert given == {"join": ()}
    given.clear()
    read_settings().node()
    assert given == {"join": None}


def test_file_of_partners_makes_a_gateway(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('partners = "partners.toml"\n')
    (tmp_path / "partners.toml").write_text('[acme]\nexport = ["orders.*"]\n')
    settings = read_settings(config=tmp_path / "node.toml")
    assert settings["partners"] == str(tmp_path / "partners.toml")
    node = settings.node()
    assert [partner.name for partner in node.partners()] == ["acme"]
    assert read_settings().node().partners() == []


def test_file_of_domains_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "domains.toml"
    (tmp_path / "network.key").write_text("a secret of the network")
    text = (
        '[domains.network]\nidentities = ["hopwire.*"]\n[[domains.network.keys]]\nid = "1"\nsecret_name = "file:%s"\n'
    )
    file.write_text(text % "network.key")
    node = read_settings({"domains": str(file)}).node()
    node.reload()
    file.write_text(text % "gone.key")
    with pytest.raises(SettingsError, match=r"gone\.key"):
        node.reload()


def test_lists_of_who_gets_in_are_those_of_the_certificate(tmp_path: Path) -> None:
    names = ("certificate", "key", "authority", "allowed", "revoked")
    (tmp_path / "node.toml").write_text("".join(f'tls_{name} = "{name}.pem"\n' for name in names))
    tls = read_settings(config=tmp_path / "node.toml").tls()
    certificate, key, authority, allowed, revoked = (str(tmp_path / f"{name}.pem") for name in names)
    assert tls == Tls(certificate, key, authority, allowed, revoked)
    with pytest.raises(SettingsError, match="TLS needs tls_certificate"):
        read_settings({"tls_revoked": "revoked.txt"}).tls()

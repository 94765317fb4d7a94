"""Domains from a file: secrets from the environment or from files, every mistake in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hopwire.domains_file import DomainsFile, domains_from_file
from hopwire.errors import SettingsError


def domains_file(folder: Path, secret: str) -> str:
    file = folder / "domains.toml"
    file.write_text(
        f'[domains.d]\nidentities = ["*"]\nscheme = "legacy"\n[[domains.d.keys]]\nid = "k"\n{secret}\n', "utf-8"
    )
    return str(file)


def secret_of(path: str) -> bytes:
    domain = domains_from_file(path).get("d")
    assert domain is not None
    return domain.keys[0].secret


@pytest.mark.parametrize("name", ["THE_KEY", "env:THE_KEY"])
def test_a_secret_comes_from_the_environment(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "s:ecret")
    assert secret_of(domains_file(tmp_path, f'secret_name = "{name}"')) == b"s:ecret"


def test_a_secret_comes_from_a_file_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "the.key").write_bytes(b"\xff\n\r\n")
    assert secret_of(domains_file(tmp_path, 'secret_name = "file:the.key"')) == b"\xff\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NO_SUCH_KEY", "the environment variable NO_SUCH_KEY is not set"),
        ("env:NO_SUCH_KEY", "the environment variable NO_SUCH_KEY is not set"),
        ("file:no/such.key", "there is no file no/such.key beside domains.toml"),
        ("file:.", "secret_name was not found; expected where the secret is, not the secret"),
    ],
)
def test_a_secret_that_is_nowhere_is_told_by_its_place(name: str, words: str, tmp_path: Path) -> None:
    path = domains_file(tmp_path, f'secret_name = "{name}"')
    with pytest.raises(SettingsError) as caught:
        domains_from_file(path)
    assert str(caught.value) == f"{path}: domain 'd', key 1: {words}"


@pytest.mark.parametrize(
    "pasted", ["hunter2", "JBSWY3DPEHPK3PXP", "c2VjcmV0X3NlY3JldA==", "Zm9v_YmFy-K", "file:0123456789abcdef", "A B"]
)
def test_a_secret_that_was_pasted_in_place_of_its_name_is_not_repeated(pasted: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        domains_from_file(domains_file(tmp_path, f'secret_name = "{pasted}"'))
    assert pasted.removeprefix("file:") not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the domains nope\.toml: No such file or directory"):
        domains_from_file("nope.toml")
    with pytest.raises(SettingsError, match="is a directory, expected a regular file"):
        domains_from_file(tmp_path)


@pytest.mark.parametrize("content", [b"[domains", b"\xff", b"a = 1\na = 2", b"a = " + b"[" * 5000])
def test_a_file_that_is_not_toml_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "domains.toml"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match="is not TOML"):
        domains_from_file(str(file))


def test_the_file_in_the_guide_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[1] / "docs" / "network.md").read_text("utf-8")
    file = tmp_path / "domains.toml"
    file.write_text(re.findall(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)[0], "utf-8")
    monkeypatch.setenv("GREETING_KEY", "sixteen bytes or more")
    monkeypatch.setenv("NETWORK_KEY", "others, sixteen or more")
    domains = domains_from_file(file)
    assert domains.domain_of(b"hopwire.hello").name == "network"
    assert domains.domain_of(b"greeter.greet").keys[0].secret == b"sixteen bytes or more"


# -- a file that changes


def test_a_change_of_the_file_or_of_a_secret_is_seen_and_a_mistake_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "the.key").write_bytes(b"first")
    file = Path(domains_file(tmp_path, 'secret_name = "file:the.key"'))
    followed = DomainsFile(file)
    assert not followed.look()
    (tmp_path / "the.key").write_bytes(b"the second")
    assert followed.look()
    assert followed.domains.domains[0].keys[0].secret == b"the second"
    text = file.read_text()
    file.write_text("[domains")
    with pytest.raises(SettingsError, match="is not TOML"):
        followed.look()
    assert followed.domains.domains[0].keys[0].secret == b"the second"
    file.write_text(text + "\n# the same again\n")
    assert followed.look()
    assert not followed.look()


def test_a_file_of_domains_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the domains"):
        DomainsFile(tmp_path / "none.toml")

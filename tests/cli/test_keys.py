"""`hopwire keys`: files that only their owner reads, no secret on the screen, every mistake in one line."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from hopwire.domains_file import domains_from_file
from hopwire.runner import read_settings
from tests.cli.running import Outcome, hopwire
from tests.node.networks import needs_openssl

pytestmark = needs_openssl


def keys(folder: Path, *arguments: str) -> Outcome:
    return hopwire("keys", *arguments, "--dir", str(folder))


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A folder of keys that a test may change."""
    return shutil.copytree(made, tmp_path / "keys")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The steps of the guide."""
    place = tmp_path_factory.mktemp("made") / "keys"
    for arguments in (
        ("new", "authority", "shop"),
        ("new", "domain", "network", "--identity", "hopwire.*"),
        ("new", "domain", "orders", "--identity", "orders.*"),
        ("new", "domain", "mail", "--identity", "mail.*"),
        ("new", "node", "payment-1"),
        ("sign", "payment-1", "--hosts", "orders"),
    ):
        assert keys(place, *arguments).code == 0
    return place


def text_of(certificate: Path) -> str:
    command = ["openssl", "x509", "-in", str(certificate), "-noout", "-text"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def secrets_of(folder: Path) -> list[str]:
    return [file.read_text().strip() for file in folder.rglob("*.key")]


@pytest.mark.slow
def test_secrets_are_for_their_owner_and_on_no_screen(folder: Path) -> None:
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.rglob("*") if file.is_file()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {name for name in modes if name.endswith(".key")}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    shown = keys(folder, "list").out + keys(folder, "list", "--json").out + keys(folder, "show", "orders").out
    shown += keys(folder, "show", "payment-1").out + keys(folder, "show", "authority-1").out
    assert not [secret for secret in secrets_of(folder) if secret in shown or secret.splitlines()[-2:][0] in shown]
    asked = keys(folder, "show", "orders-1", "--secret").out
    assert (folder / "orders-1.key").read_text().strip() in asked


@pytest.mark.slow
def test_a_node_gets_its_certificate_and_the_keys_of_its_domains_alone(folder: Path) -> None:
    place = folder / "nodes" / "payment-1"
    assert sorted(file.name for file in place.iterdir()) == [
        "authority.pem",
        "domains.toml",
        "network-1.key",
        "node.key",
        "node.pem",
        "node.toml",
        "orders-1.key",
        "revoked.txt",
    ]
    assert [domain.name for domain in domains_from_file(place / "domains.toml").domains] == ["network", "orders"]
    assert [domain.name for domain in domains_from_file(folder / "domains.toml").domains] == [
        "network",
        "orders",
        "mail",
    ]
    names = subprocess.run(
        ["openssl", "x509", "-in", place / "node.pem", "-noout", "-ext", "subjectAltName"],
        capture_output=True,
        text=True,
    ).stdout
    assert "URI:hopwire:node:payment-1, URI:hopwire:domain:orders" in names


@pytest.mark.slow
def test_the_settings_of_a_node_find_its_keys_and_are_never_written_over(folder: Path) -> None:
    settings = folder / "nodes" / "payment-1" / "node.toml"
    found = read_settings(config=settings)
    assert found["domains"] == str(settings.with_name("domains.toml"))
    assert found.tls() is not None
    settings.write_text(settings.read_text() + 'listen = "tcp://127.0.0.1:7400"\n')
    said = keys(folder, "sign", "payment-1", "--hosts", "orders").out
    assert f"hopwire node -c {settings}" in said
    assert "7400" in settings.read_text()


@pytest.mark.slow
def test_what_is_revoked_is_on_the_list_and_in_the_folders_of_others(folder: Path) -> None:
    keys(folder, "new", "node", "other")
    keys(folder, "sign", "other")
    keys(folder, "sign", "payment-1", "--hosts", "orders")
    assert "1 certificate revoked" in keys(folder, "revoke", "payment-1", "--old").out
    rows = [json.loads(line) for line in keys(folder, "list", "--json").out.splitlines()]
    nodes = [(row["name"], row["state"]) for row in rows if row["what"] == "node"]
    assert nodes == [("payment-1", "revoked"), ("other", "valid"), ("payment-1", "valid")]
    assert (folder / "nodes/other/revoked.txt").read_bytes() == (folder / "revoked.txt").read_bytes()
    assert rows[1]["fingerprint"] in (folder / "revoked.txt").read_text()
    last = rows[3]["fingerprint"]
    assert "it still knows keys of orders" in keys(folder, "revoke", last).out
    assert last in (folder / "nodes/other/revoked.txt").read_text()


@pytest.mark.slow
def test_keys_of_domains_and_authorities_are_replaced_in_steps(folder: Path) -> None:
    def states() -> dict[str, str]:
        rows = [json.loads(line) for line in keys(folder, "list", "--json").out.splitlines()]
        return {row["name"]: row["state"] for row in rows if row["what"] != "node"}

    assert "does not sign yet" in keys(folder, "new", "domain", "orders").out
    assert (states()["orders-1"], states()["orders-2"]) == ("signs", "reads")
    keys(folder, "use", "orders-2")
    assert (states()["orders-1"], states()["orders-2"]) == ("reads", "signs")
    keys(folder, "revoke", "orders-1")
    assert "orders-1" not in states()
    assert not (folder / "nodes/payment-1/orders-1.key").exists()
    assert "the last key" in keys(folder, "revoke", "orders-2").err
    keys(folder, "new", "authority", "shop")
    assert keys(folder, "revoke", "authority-1").code == 0
    assert (states()["authority-1"], states()["authority-2"]) == ("trusted no more", "trusted")
    assert "the last authority" in keys(folder, "revoke", "authority-2").err


@pytest.mark.slow
def test_a_request_of_another_machine_is_signed_without_its_key(folder: Path, tmp_path: Path) -> None:
    request = tmp_path / "asked.csr"
    made = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(tmp_path / "k"))
    subprocess.run(["openssl", *made, "-subj", "/CN=liar", "-out", str(request)], check=True, capture_output=True)
    assert keys(folder, "sign", "far-1", "--asks", "orders", "--request", str(request)).code == 0
    place = folder / "nodes" / "far-1"
    assert not (place / "node.key").exists()
    shown = subprocess.run(
        ["openssl", "x509", "-in", place / "node.pem", "-noout", "-text"], capture_output=True, text=True
    )
    assert "URI:hopwire:node:far-1" in shown.stdout
    assert "hopwire:domain" not in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sign", "nobody"), "there is no authority"),
        (("sign", "nobody", "--hosts", "none"), "there is no domain 'none'"),
        (("new", "node", "../up"), "letters, digits"),
        (("new", "domain", "orders"), "say what it owns"),
        (("new", "domain", "orders", "--identity", "a*b"), "a star may only stand at the end"),
        (("list",), "has no keys"),
        (("revoke", "nobody"), "knows no node"),
        (("show", "nobody"), "knows no node"),
        (("use", "nobody"), "has no domain with a key"),
    ],
)
def test_every_mistake_is_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    outcome = keys(tmp_path / "keys", *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
def test_a_key_is_not_written_over_and_foreign_domains_are_not_changed(tmp_path: Path) -> None:
    place = tmp_path / "keys"
    assert keys(place, "new", "node", "a").code == 0
    assert "is not written over" in keys(place, "new", "node", "a").err
    (place / "domains.toml").write_text("[domains]\n")
    assert "was not made by hopwire keys" in keys(place, "new", "domain", "d", "--identity", "d.*").err
    assert (place / "domains.toml").read_text() == "[domains]\n"


def test_without_openssl_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "the program openssl was not found" in keys(tmp_path / "keys", "new", "node", "a").err

"""A folder of keys: the authorities of a network, the certificates of its nodes, and the keys of its domains.

    authority-1.key, authority-1.pem    an authority; authority.pem has all that are trusted
    domains.toml, orders-1.key          the domains, and their keys
    nodes/payment-1/                    all that one node needs, and nothing else: copy it to the machine of the node
    revoked.txt                         certificates that do not count any more
    issued.jsonl                        all certificates that were signed, one line each

Secrets have the mode 0600 and go nowhere but into their files. Keys and certificates are made by the program `openssl`
(decision 0052): P-256, which every TLS 1.3 has. What a command changes is changed in the folders of all nodes.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import ssl
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from hopwire.disk import OWNER_ONLY, create_file, make_directory, read_regular, replace_file
from hopwire.errors import SettingsError
from hopwire.node.certificate import names_of
from hopwire.security.domain_settings import domains_from_table
from hopwire.security.patterns import patterns_from

__all__ = ["NODE_SETTINGS", "Issued", "KeyFolder"]

PUBLIC = 0o644
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")  # also the name of a file
NODE_SETTINGS = "node.toml"
SETTINGS_TEXT = """\
# How `hopwire node -c` and other commands find the keys beside this file. It is written once: add what you like.
domains = "domains.toml"
tls_certificate = "node.pem"
tls_key = "node.key"
tls_authority = "authority.pem"
tls_revoked = "revoked.txt"
"""
HEADER = "# Made by `hopwire keys`, which writes all of it anew. Secrets are in the files that it names.\n"
KEY_BYTES = 32
SERIAL_BYTES = 16
MAX_FILE_BYTES = 64 * 1024 * 1024
OPENSSL_SECONDS = 60
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
AUTHORITY_EXTENSIONS = """\
basicConstraints=critical,CA:TRUE
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash
"""
NODE_EXTENSIONS = """\
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
authorityKeyIdentifier=keyid
subjectAltName="""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that was signed."""

    node: str
    hosts: tuple[str, ...]  # domains, of which the certificate tells
    asks: tuple[str, ...]  # domains whose keys the node has, and that it may not host
    authority: str
    fingerprint: str
    not_after: str  # as ISO 8601 writes it


class KeyFolder:
    """The files of one network."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # -- authorities

    def new_authority(self, name: str, days: int) -> str:
        """Make an authority that is trusted from now on; the newest one signs."""
        _check_word(name, "the name of an authority")
        make_directory(self.path)
        number = max([0, *[int(each.stem.partition("-")[2]) for each in self._authorities()]]) + 1
        own = f"authority-{number}"
        key = self._new_key(self.path / f"{own}.key")
        subject = f"{name[:40]} {number} {secrets.token_hex(4)}"  # no two authorities have one name
        config = f"[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN={subject}\n[ext]\n"
        with _Temporary(config + AUTHORITY_EXTENSIONS) as file:
            serial = f"0x{secrets.token_hex(SERIAL_BYTES - 1)}"
            options = ("-key", str(key), "-config", str(file), "-days", str(days), "-set_serial", serial)
            pem = _openssl("req", "-x509", "-new", "-sha256", *options)
        _write(self.path / f"{own}.pem", pem, PUBLIC)
        self._write_trusted([*self.trusted(), pem.decode()])
        if not (self.path / "revoked.txt").exists():
            _write(self.path / "revoked.txt", b"# certificates that do not count any more\n", PUBLIC)
        self.distribute()
        return own

    def authorities(self) -> dict[str, bool]:
        """Give the authorities by name, and whether each is trusted."""
        trusted = {_fingerprint(each) for each in self.trusted()}
        return {each.stem: _fingerprint(each.read_text("ascii")) in trusted for each in self._authorities()}

    def trusted(self) -> list[str]:
        """Give the certificates of the authorities that are trusted."""
        file = self.path / "authority.pem"
        return PEM.findall(file.read_text("ascii")) if file.exists() else []

    def drop_authority(self, name: str) -> None:
        """Trust an authority no more."""
        gone, trusted = _fingerprint((self.path / f"{name}.pem").read_text("ascii")), self.trusted()
        left = [each for each in trusted if _fingerprint(each) != gone]
        if not left:
            raise SettingsError(f"{name} is the last authority that is trusted: make another one first")
        self._write_trusted(left)
        self.distribute()

    def _authorities(self) -> list[Path]:
        found = [each for each in self.path.glob("authority-*.pem") if each.stem.partition("-")[2].isdigit()]
        return sorted(found, key=lambda each: int(each.stem.partition("-")[2]))

    def _write_trusted(self, pems: Iterable[str]) -> None:
        _write(self.path / "authority.pem", "".join(pems).encode(), PUBLIC)

    # -- nodes

    def new_node(self, name: str) -> Path:
        """Make the key of a node."""
        _check_word(name, "the name of a node")
        folder = self._node_folder(name)
        make_directory(folder)
        return self._new_key(folder / "node.key")

    def sign(
        self,
        name: str,
        hosts: Iterable[str],
        asks: Iterable[str],
        days: int,
        authority: str = "",
        request: Path | None = None,
    ) -> Issued:
        """Sign the certificate of a node, by its key here or by a request that was made elsewhere."""
        _check_word(name, "the name of a node")
        hosts, asks = tuple(dict.fromkeys(hosts)), tuple(dict.fromkeys(asks))
        known = self._domains()
        for domain in (*hosts, *asks):
            if domain not in known and domain != "*":
                raise SettingsError(f"there is no domain {domain!r}; hopwire keys new domain {domain} makes it")
        trusted = [each for each, is_trusted in self.authorities().items() if is_trusted]
        authority = authority or (trusted[-1] if trusted else "")
        if not authority or not (self.path / f"{authority}.key").exists():
            raise SettingsError(
                f"there is no authority {authority or 'yet'}; hopwire keys new authority NAME makes one"
            )
        folder = self._node_folder(name)
        make_directory(folder)
        csr = self._request(name) if request is None else read_regular(request, MAX_FILE_BYTES)
        with (
            _Temporary(csr.decode("ascii", "replace")) as asked,
            _Temporary(NODE_EXTENSIONS + names_of(name.encode(), hosts) + "\n") as extensions,
        ):
            signer = ("-CA", str(self.path / f"{authority}.pem"), "-CAkey", str(self.path / f"{authority}.key"))
            serial = f"0x{secrets.token_hex(SERIAL_BYTES - 1)}"
            options = ("-days", str(days), "-set_serial", serial, "-extfile", str(extensions))
            pem = _openssl("x509", "-req", "-sha256", "-in", str(asked), *signer, *options)
        not_after = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
        issued = Issued(name, hosts, asks, authority, _fingerprint(pem.decode()), not_after)
        line = json.dumps(asdict(issued)) + "\n"
        _write(self.path / "issued.jsonl", (self._read("issued.jsonl") + line).encode(), PUBLIC)
        _write(folder / "node.pem", pem, PUBLIC)
        self.distribute()
        return issued

    def issued(self, name: str = "") -> list[Issued]:
        """Give the certificates that were signed, the oldest first: all, or those of a node."""
        found = [json.loads(line) for line in self._read("issued.jsonl").splitlines()]
        rows = [Issued(**{**each, "hosts": tuple(each["hosts"]), "asks": tuple(each["asks"])}) for each in found]
        return [row for row in rows if not name or row.node == name]

    def revoked(self) -> frozenset[str]:
        """Give the fingerprints of certificates that do not count any more."""
        words = (line.partition("#")[0].strip() for line in self._read("revoked.txt").splitlines())
        return frozenset(word.removeprefix("sha256:") for word in words if word)

    def revoke(self, rows: Iterable[Issued]) -> list[Issued]:
        """Let certificates count no more; gives those that did."""
        known, today = self.revoked(), datetime.now(UTC).date().isoformat()
        new = [row for row in rows if row.fingerprint not in known]
        lines = "".join(f"sha256:{row.fingerprint}  # {row.node}, {today}\n" for row in new)
        _write(self.path / "revoked.txt", (self._read("revoked.txt") + lines).encode(), PUBLIC)
        self.distribute()
        return new

    def _request(self, name: str) -> bytes:
        key = self._node_folder(name) / "node.key"
        if not key.exists():
            raise SettingsError(f"node {name} has no key here: hopwire keys new node {name}, or --request FILE")
        with _Temporary(f"[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN={name[:60]}\n") as config:
            return _openssl("req", "-new", "-sha256", "-key", str(key), "-config", str(config))

    def _node_folder(self, name: str) -> Path:
        return self.path / "nodes" / name

    # -- domains

    def new_domain(self, name: str, identities: list[str], scheme: str) -> str:
        """Make a domain with its first key; or, if there is such a domain, one more key, which does not sign yet."""
        _check_word(name, "the name of a domain")
        make_directory(self.path)
        domains = self._domains()
        if name not in domains and not identities:
            raise SettingsError(f"domain {name!r} is new: say what it owns, such as --identity '{name}.*'")
        patterns_from(identities, f"domain {name!r}: identities")
        domain = domains.setdefault(name, {"identities": [], "scheme": scheme, "keys": []})
        domain["identities"] += [each for each in identities if each not in domain["identities"]]
        numbers = [key["id"].rpartition("-")[2] for key in domain["keys"]]
        number = max([0, *[int(each) for each in numbers if each.isdigit()]]) + 1
        key_id, file = f"{name}-{number}", self.path / f"{name}-{number}.key"
        domain["keys"].append({"id": key_id, "secret_name": f"file:{file.name}"})
        domains_from_table({"domains": domains}, lambda _: bytes(KEY_BYTES))  # or say what is wrong with them
        _write_new(file, secrets.token_hex(KEY_BYTES).encode() + b"\n")
        self._write_domains(domains)
        return key_id

    def use_key(self, name: str, key_id: str) -> None:
        """Sign with a key of a domain from now on."""
        domains = self._domains()
        keys = self._keys_of(domains, name, key_id)
        keys.sort(key=lambda key: key["id"] != key_id)
        self._write_domains(domains)

    def drop_key(self, name: str, key_id: str) -> None:
        """Take a key of a domain away."""
        domains = self._domains()
        keys = self._keys_of(domains, name, key_id)
        if len(keys) == 1:
            raise SettingsError(f"{key_id} is the last key of domain {name!r}: make another one first")
        keys[:] = [key for key in keys if key["id"] != key_id]
        self._write_domains(domains)

    def domains(self) -> dict[str, Any]:
        """Give the domains, as the file has them: secrets are named and not shown."""
        return self._domains()

    def secret(self, key_id: str) -> str:
        """Give the secret of a domain's key."""
        return read_regular(self.path / f"{key_id}.key", MAX_FILE_BYTES).decode("ascii").strip()

    @staticmethod
    def _keys_of(domains: dict[str, Any], name: str, key_id: str) -> list[dict[str, str]]:
        keys: list[dict[str, str]] = domains.get(name, {}).get("keys", [])
        if all(key["id"] != key_id for key in keys):
            found = ", ".join(key["id"] for key in keys) or "none"
            raise SettingsError(f"domain {name!r} has no key {key_id!r}; its keys are: {found}")
        return keys

    def _domains(self) -> dict[str, Any]:
        text = self._read("domains.toml")
        if text and not text.startswith(HEADER):
            raise SettingsError(f"{self.path / 'domains.toml'} was not made by hopwire keys, and is not changed by it")
        found: dict[str, Any] = tomllib.loads(text).get("domains", {})
        return found

    def _write_domains(self, domains: dict[str, Any]) -> None:
        _write(self.path / "domains.toml", _toml(domains).encode(), PUBLIC)
        self.distribute()

    # -- what nodes get

    def distribute(self) -> None:
        """Bring the folder of each node up to date: authorities, the revoked, and the domains whose keys it has."""
        revoked, domains = self.revoked(), self._domains()
        latest = {row.node: row for row in self.issued() if row.fingerprint not in revoked}
        for name, row in latest.items():
            folder = self._node_folder(name)
            make_directory(folder)
            for shared in ("authority.pem", "revoked.txt"):
                _write(folder / shared, self._read(shared).encode(), PUBLIC)
            wanted = {*row.hosts, *row.asks}
            own = {each: domain for each, domain in domains.items() if wanted & {"*", each} or _is_own(domain)}
            files = {key["secret_name"].removeprefix("file:") for domain in own.values() for key in domain["keys"]}
            for file in sorted(files):
                _write(folder / file, read_regular(self.path / file, MAX_FILE_BYTES), OWNER_ONLY)
            _write(folder / "domains.toml", _toml(own).encode(), PUBLIC)
            if not (folder / NODE_SETTINGS).exists():
                _write(folder / NODE_SETTINGS, SETTINGS_TEXT.encode(), PUBLIC)
            for old in folder.glob("*-*.key"):
                if old.name not in files:
                    old.unlink()

    def _read(self, name: str) -> str:
        try:
            return read_regular(self.path / name, MAX_FILE_BYTES).decode("utf-8")
        except FileNotFoundError:
            return ""

    @staticmethod
    def _new_key(file: Path) -> Path:
        _write_new(file, _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"))
        return file


def _is_own(domain: dict[str, Any]) -> bool:
    """Tell whether a domain is that of the nodes themselves, which all of them need."""
    return "hopwire.*" in domain["identities"]


def _toml(domains: dict[str, Any]) -> str:
    lines = [HEADER]
    for name, domain in domains.items():
        lines.append(f"\n[domains.{json.dumps(name)}]\n")
        lines += [f"{key} = {json.dumps(value)}\n" for key, value in domain.items() if key != "keys"]
        for key in domain["keys"]:
            lines.append(f"\n[[domains.{json.dumps(name)}.keys]]\n")
            lines += [f"{each} = {json.dumps(value)}\n" for each, value in key.items()]
    return "".join(lines)


def _check_word(name: str, what: str) -> None:
    if not WORD.fullmatch(name):
        raise SettingsError(f"{what} has up to 100 letters, digits, dots, dashes and underscores, found {name!r:.80}")


def _fingerprint(pem: str) -> str:
    try:
        return sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest()
    except ValueError:
        raise SettingsError("a file that was to be a certificate is none") from None


def _write(file: Path, content: bytes, mode: int) -> None:
    if not file.exists() or file.read_bytes() != content:
        replace_file(file, content, mode)


def _write_new(file: Path, content: bytes) -> None:
    """Write a secret, and never over another."""
    try:
        handle = create_file(file, OWNER_ONLY)
    except FileExistsError:
        raise SettingsError(f"{file} is there already; a key is not written over") from None
    with open(handle, "wb") as opened:
        opened.write(content)


class _Temporary:
    """A file for a moment, which nobody else can read."""

    def __init__(self, content: str) -> None:
        self._content = content

    def __enter__(self) -> Path:
        self._folder = tempfile.mkdtemp(prefix="hopwire-")
        file = Path(self._folder) / "file"
        file.write_text(self._content, "ascii", "replace")
        return file

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _openssl(*arguments: str) -> bytes:
    """Run OpenSSL and give what it writes; what it complains of is one line."""
    program = shutil.which("openssl")
    if program is None:
        raise SettingsError("the program openssl was not found; install it where keys are made (nodes do not need it)")
    try:
        done = subprocess.run([program, *arguments], capture_output=True, timeout=OPENSSL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SettingsError(f"openssl {arguments[0]} did not end within {OPENSSL_SECONDS} s") from None
    if done.returncode:
        words = next(_complaints(done.stderr.decode(errors="replace")), "no reason was given")
        raise SettingsError(f"openssl {arguments[0]} failed: {words}")
    return done.stdout


def _complaints(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip() and not line.startswith("Certificate request self-signature"):
            yield line.strip()

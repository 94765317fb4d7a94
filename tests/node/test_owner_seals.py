"""Records and accusations that are signed: by certificates of each kind of key, and by keys that nodes make."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hopwire.cluster.announce import Hello
from hopwire.cluster.gossip import Accusation, MemberRecord, Rumours
from hopwire.cluster.seals import CLAIMED, FORGED, GENUINE, UNKNOWN
from hopwire.node import Node
from hopwire.node.owner_seals import CertifiedSeals, OwnSeals
from tests.node.loopback import told
from tests.node.networks import key_folder, member, needs_openssl, node_in, tls_in
from tests.node.stories import Greet, Greeter, Greeting, until
from tests.node.test_joining import stop

RECORD = MemberRecord(b"payment-1", 7, 1, "tcp://10.0.0.1:7400")
ACCUSED = Accusation(b"other", 7, 1, b"payment-1")


def test_a_name_belongs_to_the_key_that_it_came_with() -> None:
    first, second = OwnSeals(), OwnSeals()
    record = first.sign(RECORD)
    assert second.judge(record, None) == GENUINE
    assert second.judge(first.sign(replace(RECORD, sequence=2)), record) == GENUINE
    assert second.judge(OwnSeals().sign(replace(RECORD, sequence=2)), record) == CLAIMED


@pytest.mark.parametrize("field", sorted({*MemberRecord.__struct_fields__} - {"node"}))
def test_a_record_that_was_changed_is_forged(field: str) -> None:
    others: dict[str, Any] = {
        "uri": "tcp://m:1",
        "formats": (3,),
        "capabilities": ("x",),
        "proofs": (("x", b"y"),),
        "routes_hash": b"x",
        "key": b"k" * 32,
        "signature": b"s" * 64,
    }
    changed = replace(OwnSeals().sign(RECORD), **{field: others.get(field, 99)})
    assert OwnSeals().judge(changed, None) == FORGED


@pytest.mark.parametrize("key", [b"", b"short", b"k" * 33, b"\xff" * 32])
def test_what_is_no_key_signs_nothing(key: bytes) -> None:
    assert OwnSeals().judge(replace(OwnSeals().sign(RECORD), key=key), None) == FORGED


def test_an_accusation_is_judged_by_the_record_of_its_accuser() -> None:
    accuser, other = OwnSeals(), OwnSeals()
    said = accuser.accuse(ACCUSED)
    assert other.is_accused(said, accuser.sign(RECORD))
    assert not other.is_accused(said, other.sign(RECORD))
    assert not other.is_accused(replace(said, is_gone=True), accuser.sign(RECORD))
    assert not other.is_accused(said, None)


def test_a_hello_is_sealed_for_one_process() -> None:
    seals, key = OwnSeals(), OwnSeals()
    said = key.seal(Hello(b"A", 7, "tcp://a:1", heard=9), b"B")
    public = key.sign(RECORD).key
    assert seals.is_sealed(said, public, b"B")
    assert not seals.is_sealed(said, public, b"C")
    assert not seals.is_sealed(replace(said, heard=10), public, b"B")
    assert not seals.is_sealed(replace(said, uri="tcp://m:1"), public, b"B")
    assert not seals.is_sealed(replace(said, seal=b""), public, b"B")


@needs_openssl
class TestCertificates:
    """What certificates prove."""

    def test_a_record_is_that_of_the_node_which_the_certificate_names(self, tmp_path: Path) -> None:
        folder = key_folder(tmp_path)
        ours, theirs = member(folder, "payment-1", ("greeting",)), member(folder, "other")
        mine, others = CertifiedSeals(tls_in(ours), b"payment-1"), CertifiedSeals(tls_in(theirs), b"other")
        record = mine.sign(RECORD)
        assert others.judge(record, None) == others.judge(record, others.sign(RECORD)) == GENUINE
        hosts = others.hosts_of(record)
        assert hosts is not None
        assert ("greeting" in hosts, "network" in hosts) == (True, False)
        assert others.judge(replace(record, sequence=2), None) == FORGED
        assert others.judge(others.sign(RECORD), None) == FORGED  # by a certificate of another node
        assert others.judge(replace(record, key=b"no certificate"), None) == UNKNOWN
        assert others.judge(OwnSeals().sign(RECORD), None) == UNKNOWN
        assert others.is_accused(mine.accuse(ACCUSED), record)
        assert not others.is_accused(others.accuse(ACCUSED), record)

    @pytest.mark.slow
    def test_a_certificate_of_another_authority_or_of_a_node_does_not_count(self, tmp_path: Path) -> None:
        folder = key_folder(tmp_path / "ours")
        listener = CertifiedSeals(tls_in(member(folder, "listener")), b"listener")
        issuer = member(folder, "issuer")
        place = tmp_path / "forged"
        place.mkdir()
        _certify(place, "P-256", issuer / "node.pem", issuer / "node.key")
        assert listener.judge(_seals(place).sign(RECORD), None) == UNKNOWN
        other = tmp_path / "theirs"
        other.mkdir()
        _authority(other)
        _certify(other, "P-256", other / "authority.pem", other / "authority.key")
        assert listener.judge(_seals(other).sign(RECORD), None) == UNKNOWN

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["P-256", "ED25519", "RSA"])
    def test_every_usual_kind_of_key_signs(self, tmp_path: Path, kind: str) -> None:
        _authority(tmp_path)
        _certify(tmp_path, kind, tmp_path / "authority.pem", tmp_path / "authority.key")
        seals = _seals(tmp_path)
        record = seals.sign(RECORD)
        assert seals.judge(record, None) == GENUINE
        assert seals.judge(replace(record, sequence=2), None) == FORGED
        assert len(record.signature) <= 512

    def test_whatever_bytes_stand_for_a_certificate_nothing_breaks(self, tmp_path: Path) -> None:
        folder, chance = key_folder(tmp_path), random.Random(1)
        seals = CertifiedSeals(tls_in(member(folder, "payment-1", ("greeting",))), b"payment-1")
        record = seals.sign(RECORD)
        for _ in range(3000):
            key = bytearray(record.key)
            for _ in range(chance.randrange(1, 4)):
                key[chance.randrange(len(key))] = chance.randrange(256)
            forged = replace(record, key=bytes(key[: chance.choice((len(key), chance.randrange(len(key))))]))
            if forged != record:
                assert seals.judge(forged, None) in (UNKNOWN, FORGED)
            assert not seals.is_accused(replace(ACCUSED, signature=bytes(key[:70])), forged)

    def test_a_key_that_is_not_that_of_the_certificate_signs_nothing(self, tmp_path: Path) -> None:
        folder = key_folder(tmp_path)
        place, other = member(folder, "payment-1"), member(folder, "other")
        seals = CertifiedSeals(tls_in(place), b"payment-1")
        record = seals.sign(RECORD)
        shutil.copy(other / "node.key", place / "node.key")  # the certificate follows later
        seals._look_at = 0.0
        assert not seals.look()
        assert seals.judge(seals.sign(RECORD), None) == GENUINE
        assert seals.sign(RECORD).key == record.key

    def test_who_is_revoked_writes_no_record_from_then_on(self, tmp_path: Path) -> None:
        folder = key_folder(tmp_path)
        record = CertifiedSeals(tls_in(member(folder, "payment-1")), b"payment-1").sign(RECORD)
        place = member(folder, "listener")
        listener = CertifiedSeals(tls_in(place), b"listener")
        assert listener.judge(record, None) == GENUINE
        (place / "revoked.new").write_text("payment-1\n")
        os.replace(place / "revoked.new", place / "revoked.txt")
        listener._look_at = 0.0
        assert not listener.look()  # its own key is the same
        assert listener.judge(record, None) == UNKNOWN

    @pytest.mark.slow
    def test_certificates_are_changed_while_members_talk(self, tmp_path: Path) -> None:
        folder = key_folder(tmp_path)
        places = [member(folder, name, ("greeting",)) for name in ("door", "host", "asker")]

        async def story() -> None:
            door = node_in(places[0], join=[])
            await door.start()
            host, asker = [node_in(place, join=[door.uri]) for place in places[1:]]
            for node in (host, asker):
                await node.start()
            host.host(Greeter())
            await asker.knows(Greet)
            before = _record(host, at=asker)
            folder.sign("host", ("greeting",), (), 10)
            await until(lambda: _record(host, at=asker).key != before.key, 10)
            assert (await asker.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
            folder.sign("host", (), ("greeting",), 10)  # it may ask from now on, and host no more
            await until(lambda: not _has_route(asker, host), 10)
            folder.sign("host", ("greeting",), (), 10)
            await until(lambda: _has_route(asker, host), 10)
            assert (await asker.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
            assert not asker.dead_letters.counts["bad_signature"]
            await stop(host, asker, door)

        told(story)

    @pytest.mark.slow
    def test_a_member_that_is_revoked_is_none_any_more(self, tmp_path: Path) -> None:
        folder = key_folder(tmp_path)
        places = [member(folder, name, ("greeting",)) for name in ("door", "asker", "third", "revoked")]

        async def story() -> None:
            nodes = [node_in(places[0], join=[])]
            await nodes[0].start()
            for place in places[1:]:
                nodes.append(node_in(place, join=[nodes[0].uri]))
                await nodes[-1].start()
            *honest, gone = nodes
            gone.host(Greeter("stolen"))
            await asyncio.gather(*(node.knows(Greet) for node in honest))
            record = _record(gone, at=nodes[0])
            folder.revoke(row for row in folder.issued() if row.node == "revoked")
            await until(lambda: not any(gone.identity in node.peers for node in honest), 10)
            assert not any(_has_route(node, gone) for node in honest)
            honest[2].host(Greeter())
            await honest[1].knows(Greet)
            for _ in range(10):
                assert (await honest[1].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
            signed = gone._membership.joining.seals.sign(replace(record, sequence=record.sequence + 9))  # type: ignore[union-attr]
            said = Rumours(honest[2].identity, honest[2]._incarnation, (signed,))
            honest[1]._membership.joining.take(said)  # type: ignore[union-attr]
            assert gone.identity not in honest[1].peers
            assert honest[1].dead_letters.counts["bad_signature"] == 1
            await stop(*nodes)

        told(story)


def _record(owner: Node, at: Node) -> MemberRecord:
    assert at._membership.joining is not None
    found = at._membership.joining.members.find(owner.identity)
    assert found is not None
    return found


def _has_route(node: Node, owner: Node) -> bool:
    return any(route.receiver.startswith(b"\1") for route in node._tables.remote.routes_of(owner.identity))


def _run(*words: str | Path) -> None:
    openssl = shutil.which("openssl")
    assert openssl is not None
    subprocess.run([openssl, *map(str, words)], check=True, capture_output=True)


def _new_key(kind: str, path: Path) -> None:
    options = {
        "P-256": ("EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
        "RSA": ("RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
        "ED25519": ("ED25519",),
    }
    _run("genpkey", "-algorithm", *options[kind], "-out", path)


def _authority(place: Path) -> None:
    _new_key("P-256", place / "authority.key")
    name = ("-subj", "/CN=tests", "-days", "9")
    _run("req", "-x509", "-new", "-key", place / "authority.key", *name, "-out", place / "authority.pem")


def _certify(place: Path, kind: str, issuer: Path, issuer_key: Path) -> None:
    """Make a certificate of payment-1, signed by whoever it is."""
    _new_key(kind, place / "node.key")
    (place / "names").write_text("subjectAltName=URI:hopwire:node:payment-1\n")
    _run("req", "-new", "-key", place / "node.key", "-subj", "/CN=payment-1", "-out", place / "node.csr")
    signer = ("-CA", issuer, "-CAkey", issuer_key, "-CAcreateserial", "-CAserial", place / "serial", "-days", "9")
    _run("x509", "-req", "-in", place / "node.csr", *signer, "-extfile", place / "names", "-out", place / "node.pem")
    if not (place / "authority.pem").exists():
        shutil.copy(issuer, place / "authority.pem")
    (place / "revoked.txt").touch()


def _seals(place: Path) -> CertifiedSeals:
    return CertifiedSeals(tls_in(place), b"payment-1")

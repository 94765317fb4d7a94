"""Who may be connected, by certificates and lists that change while nodes run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hopwire.errors import NoRoute, SettingsError, Unreachable
from hopwire.model import contract_of
from hopwire.node import Address, Node, Tls
from hopwire.node.admission import LOOK_SECONDS, named_in
from hopwire.node.streams import GONE_SECONDS, Streams
from hopwire.security import OPEN, Domain, Domains, Key
from hopwire.testing import Network, run
from tests.node.certificates import HERE, OURS, tls_of
from tests.node.loopback import ANSWER_SECONDS, told, until
from tests.node.networks import key_folder, member, needs_openssl, node_in, tls_in
from tests.node.stories import Greet, Greeter, Greeting

pytestmark = needs_openssl


def connection(node: Node, peer: Node) -> object:
    """The connection between two nodes, as one of them has it."""
    streams = node._transport
    assert isinstance(streams, Streams)
    names = node._membership._trust.callers.of(peer.identity)
    open_ones = {**streams._names, **{name: each for name, (each, _) in streams._dialled.items()}}
    return [open_ones[name] for name in names if name in open_ones]


@asynccontextmanager
async def asking(asker: Node) -> AsyncIterator[list[str]]:
    """Ask all the time; every question has to be answered."""
    answers: list[str] = []

    async def ask() -> None:
        while True:
            answers.append((await asker.hub().ask(Greet("x"), Greeting, timeout=5)).text)
            await asyncio.sleep(0)

    task = asyncio.ensure_future(ask())
    try:
        yield answers
        await more(answers)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def more(answers: list[str]) -> None:
    """Wait until some more questions were answered."""
    count = len(answers)
    await until(lambda: len(answers) >= count + 5)


# -- names


def test_a_node_has_the_identity_of_its_certificate(tmp_path: Path) -> None:
    place = member(key_folder(tmp_path), "payment-1", ("greeting",))
    assert Node(tls=tls_in(place)).identity == b"payment-1"
    with pytest.raises(SettingsError, match=r"is that of 'payment-1'.*and not that of this node"):
        Node(tls=tls_in(place), identity=b"payment-2")


def test_a_certificate_that_names_nobody_is_let_in_only_where_that_was_said(tmp_path: Path) -> None:
    strict = Tls(OURS.certificate, OURS.key, OURS.authority)

    async def story() -> None:
        async with Node(tls=strict) as there, Node(tls=OURS, peers=[there.uri]) as here:
            await until(lambda: there._transport.closed["nameless"])  # type: ignore[attr-defined]
            assert there.peers == here.peers == ()

    told(story)


def test_a_certificate_that_its_authority_does_not_vouch_for_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Node(tls=tls_of("theirs", "ours")):
            pass

    told(story)
    assert [record.hopwire_event for record in caplog.records] == ["not_vouched"]  # type: ignore[attr-defined]


# -- lists


@pytest.mark.slow
def test_a_revoked_certificate_is_closed_within_a_second_and_refused_from_then_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = key_folder(tmp_path)
    here, there, bad = (member(folder, name, ("greeting",)) for name in ("here", "there", "bad"))

    async def story() -> None:
        async with node_in(here) as asker, node_in(there, asker) as honest, node_in(bad, asker, honest) as revoked:
            honest.host(Greeter())
            await asker.knows(Greet)
            await until(lambda: b"bad" in asker.peers and b"bad" in honest.peers)
            await until(lambda: len(revoked.peers) == 2)
            async with asking(asker) as answers:
                before = connection(asker, honest)
                folder.revoke(folder.issued("bad"))
                await until(lambda: b"bad" not in asker.peers and b"bad" not in honest.peers)
                assert connection(asker, honest) == before
                await more(answers)
                refusals = asker._transport.closed["revoked"]  # type: ignore[attr-defined]
                await until(lambda: asker._transport.closed["revoked"] > refusals)  # type: ignore[attr-defined]
                assert b"bad" not in asker.peers

    told(story)
    assert LOOK_SECONDS + GONE_SECONDS < 1
    assert any("its certificate is revoked" in record.getMessage() for record in caplog.records)


@pytest.mark.slow
def test_a_list_of_those_who_are_allowed_is_seen_to_change(tmp_path: Path) -> None:
    folder = key_folder(tmp_path)
    here, there = (member(folder, name, ("greeting",)) for name in ("here", "there"))
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("somebody-else\n")

    async def story() -> None:
        async with node_in(here, tls=tls_in(here, allowed=allowed)) as asker, node_in(there, asker) as other:
            await until(lambda: asker._transport.closed["not_allowed"])  # type: ignore[attr-defined]
            assert asker.peers == ()
            (issued,) = folder.issued("there")
            allowed.write_text(f"sha256:{issued.fingerprint}  # there\n")
            await until(lambda: other.identity in asker.peers)
            allowed.write_text("somebody-else-again\n")
            await until(lambda: asker.peers == ())
            allowed.unlink()  # a list that is gone lets nobody in
            asker.reload()
            refusals = asker._transport.closed["not_allowed"]  # type: ignore[attr-defined]
            await until(lambda: asker._transport.closed["not_allowed"] > refusals)  # type: ignore[attr-defined]
            assert asker.peers == ()

    told(story)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sha256:1234\n", "line 1: a fingerprint has 64 hexadecimal digits"),
        ("\nnode one\n", "line 2: expected one identity"),
        ("\xff", "is not UTF-8"),
    ],
)
def test_a_mistake_in_a_list_is_told_by_its_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=re.escape(words)) as found:
        named_in(file)
    assert "\n" not in str(found.value)
    with pytest.raises(SettingsError, match=re.escape(words)):
        Node(tls=Tls(OURS.certificate, OURS.key, OURS.authority, revoked=file))


def test_a_list_has_identities_and_fingerprints(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    pairs = ":".join(["AB"] * 32)
    file.write_text(f"# who is out\nnode-1\n a%20b # with a space\nsha256:{pairs}\n")
    assert named_in(file) == {b"node-1", b"a b", "ab" * 32}
    with pytest.raises(SettingsError, match="cannot read the list"):
        named_in(HERE / "none.txt")


# -- rotation, while questions are answered


@pytest.mark.slow
def test_a_new_certificate_is_shown_and_open_connections_stay(tmp_path: Path) -> None:
    folder = key_folder(tmp_path)
    here, there, third = (member(folder, name, ("greeting",)) for name in ("here", "there", "third"))

    async def story() -> None:
        async with node_in(here) as asker, node_in(there, asker) as honest:
            honest.host(Greeter())
            await asker.knows(Greet)
            async with asking(asker) as answers:
                before = connection(asker, honest)
                folder.sign("there", ("greeting",), (), 10)
                old, new = folder.issued("there")
                asker.reload()
                honest.reload()
                await more(answers)
                assert connection(asker, honest) == before
                async with node_in(third, honest) as later:
                    await until(lambda: b"there" in later.peers)
                    shown = later._transport.certificate_of(later._membership._trust.callers.of(b"there")[0])
                    assert shown is not None
                    assert shown.fingerprint == new.fingerprint
            folder.revoke([old])  # the last of the steps: a moment without a connection, and then the new certificate
            await until(lambda: connection(asker, honest) not in ([], before))
            assert await asker.hub().ask(Greet("x"), Greeting, timeout=5, at_least_once=True)

    told(story)


@pytest.mark.slow
def test_the_authority_changes_in_three_steps(tmp_path: Path) -> None:
    folder = key_folder(tmp_path)
    here, there = (member(folder, name, ("greeting",)) for name in ("here", "there"))

    async def story() -> None:
        async with node_in(here) as asker, node_in(there, asker) as honest:
            honest.host(Greeter())
            await asker.knows(Greet)
            async with asking(asker) as answers:
                before = connection(asker, honest)
                assert folder.new_authority("tests", 10) == "authority-2"  # 1: both are trusted everywhere
                for node in (asker, honest):
                    node.reload()
                for name in ("here", "there"):  # 2: certificates by the new one
                    assert folder.sign(name, ("greeting",), (), 10).authority == "authority-2"
                for node in (asker, honest):
                    node.reload()
                await more(answers)
                assert connection(asker, honest) == before
            folder.drop_authority("authority-1")  # 3: the old one is trusted no more
            await until(lambda: connection(asker, honest) not in ([], before))
            assert await asker.hub().ask(Greet("x"), Greeting, timeout=5, at_least_once=True)

    told(story)


@pytest.mark.slow
def test_keys_of_a_domain_change_without_a_question_lost(tmp_path: Path) -> None:
    folder = key_folder(tmp_path)
    here, there = (member(folder, name, ("greeting",)) for name in ("here", "there"))

    async def story() -> None:
        async with node_in(here) as asker, node_in(there, asker) as honest:
            honest.host(Greeter())
            await asker.knows(Greet)
            async with asking(asker) as answers:
                for change in (
                    lambda: folder.new_domain("greeting", [], "hopwire-2"),
                    lambda: folder.use_key("greeting", "greeting-2"),
                    lambda: folder.drop_key("greeting", "greeting-1"),
                ):
                    change()
                    honest.reload()  # one after the other, as it is with machines
                    await more(answers)
                    asker.reload()
                    await more(answers)
            assert asker.dead_letters.counts["bad_signature"] == honest.dead_letters.counts["bad_signature"] == 0
            domain = asker._domains.get("greeting")
            assert domain is not None
            assert [key.id for key in domain.keys] == ["greeting-2"]

    told(story)


@pytest.mark.slow
def test_a_file_of_domains_is_seen_to_change_and_a_mistake_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = key_folder(tmp_path)
    here, there = member(folder, "here", (), ()), member(folder, "there", ("greeting",))

    async def story() -> None:
        async with node_in(here) as asker, node_in(there, asker) as honest:
            honest.host(Greeter())
            await until(lambda: b"there" in asker.peers)
            file = here / "domains.toml"
            before = file.read_text()
            file.write_text("[domains")
            await until(
                lambda: any("the settings of before still count" in each.getMessage() for each in caplog.records)
            )
            with pytest.raises(SettingsError, match="is not TOML"):
                asker.reload()
            file.write_text(before)
            folder.sign("here", (), ("greeting",), 10)  # the key of the domain comes with it
            await asker.knows(Greet)
            assert await asker.hub().ask(Greet("x"), Greeting, timeout=5) == Greeting("hello x")

    told(story)


def test_a_node_takes_other_domains_and_keeps_to_signing() -> None:
    first, second = (Domain("all", [Key(each, each.encode() * 16)], ["*"]) for each in ("a", "b"))

    async def story(network: Network) -> None:
        async with (
            network.node(domains=Domains([first])) as one,
            network.node(domains=Domains([first]), peers=[one.uri]) as other,
        ):
            one.host(Greeter())
            await other.knows(Greet)
            for keys in ((first, second), (second, first), (second,)):
                domain = Domain("all", [key for each in keys for key in each.keys], ["*"])
                for node in (one, other):
                    node.reload(Domains([domain]))
                    assert await other.hub().ask(Greet("x"), Greeting) == Greeting("hello x")
            for wrong, words in (
                (OPEN, "cannot change"),
                (Domains([Domain("x", second.keys, ["x"])]), "no domain owns"),
            ):
                with pytest.raises(SettingsError, match=words):
                    one.reload(wrong)
            assert await other.hub().ask(Greet("x"), Greeting) == Greeting("hello x")

    run(story)


@pytest.mark.slow
def test_a_member_that_is_revoked_here_and_not_yet_elsewhere_gets_no_question(tmp_path: Path) -> None:
    folder = key_folder(tmp_path)
    places = {name: member(folder, name, ("greeting",)) for name in ("here", "there", "bad")}

    async def story() -> None:
        async with (
            node_in(places["here"], join=[]) as here,
            node_in(places["there"], join=[here.uri]) as there,
            node_in(places["bad"], join=[here.uri]) as bad,
        ):
            there.host(Greeter())
            bad.host(Greeter())
            await until(lambda: len(here._membership.owners_of(contract_of(Greet))) == 2)
            (places["here"] / "revoked.txt").write_text("bad\n")
            await until(lambda: here._membership.owners_of(contract_of(Greet)) == [b"there"])
            for _ in range(10):
                assert (await here.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS)).text == "hello x"
            with pytest.raises(Unreachable):
                await here.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS, to=Address(b"bad"))
            assert b"bad" in there.peers, "its list is as it was"
            (places["here"] / "revoked.txt").write_text("# nobody\n")
            await until(lambda: len(here._membership.owners_of(contract_of(Greet))) == 2)

    told(story)


def test_who_is_cut_off_is_told_where_and_may_guess_why(tmp_path: Path) -> None:
    folder = key_folder(tmp_path)
    places = {name: member(folder, name, ("greeting",)) for name in ("here", "bad")}
    (places["here"] / "revoked.txt").write_text("bad\n")

    async def story() -> None:
        async with node_in(places["here"]) as here, node_in(places["bad"], here) as bad:
            await until(lambda: "cut off" in bad._transport.why_silent(here.uri))
            words = f"no answer yet from {here.uri} (connected, and cut off: does it refuse this node?)"
            with pytest.raises(NoRoute, match=re.escape(words)):
                await bad.hub().ask(Greet("x"), Greeting)

    told(story)

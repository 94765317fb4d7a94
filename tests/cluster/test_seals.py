"""What becomes of records and accusations that are genuine, forged or claimed; the keys are names here."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.cluster_simulation import KeptSeals
from hopwire.cluster.announce import Hello
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import LEFT, Accusation, MemberRecord, Rumours
from hopwire.cluster.member_events import Admit, Dismiss, LinkOpened, MemberCommand, Refuse, SealChanged
from hopwire.cluster.members import Members
from hopwire.cluster.seals import CLAIMED, UNSEALED, signed_accusation, signed_hello, signed_record
from tests.cluster.test_members import START, Script, record_of, told


def signed(name: str, key: str = "", **changes: int) -> MemberRecord:
    return KeptSeals((key or f"key of {name}").encode()).sign(replace(record_of(name), **changes))


def among_signers(*names: str) -> Script:
    script = Script(Members(record_of("me"), (), seals=KeptSeals(b"key of me")))
    script.wait(0.1)
    for name in names:
        script.hear(Rumours(names[0].encode(), START, (signed(name),)))
    script.wait(1)
    for name in names:
        script.hand(LinkOpened(name.encode()))
    return script


def accused(target: str, accuser: str, sequence: int = 1, since: int = START, key: str = "") -> Rumours:
    said = Accusation(target.encode(), START, sequence, accuser.encode(), True, since)
    said = KeptSeals((key or f"key of {accuser}").encode()).accuse(said)
    return Rumours(accuser.encode(), START, (), (said,))


def dismissed(commands: list[MemberCommand]) -> list[tuple[bytes, str]]:
    return [(each.node, each.reason) for each in commands if isinstance(each, Dismiss)]


def test_what_is_forged_is_refused_and_the_rest_of_the_message_is_not_read() -> None:
    script = among_signers("b", "c")
    forged = replace(signed("c", sequence=2), signature=b"other")
    said = Rumours(b"b", START, (signed("d"), forged, signed("e")))
    commands = script.hear(said)
    assert Refuse(b"c", b"b", "forged") in commands
    assert script.living() == {"me", "b", "c", "d"}


def test_a_record_that_is_not_newer_is_not_even_judged() -> None:
    script = among_signers("b", "c")
    assert script.hear(Rumours(b"b", START, (replace(signed("c"), signature=b"other"),))) == []


def test_a_forged_record_of_oneself_is_refused_and_not_answered() -> None:
    script = among_signers("b", "c")
    before = script.members.me
    forged = replace(before, sequence=9, status=LEFT)
    commands = script.hear(Rumours(b"b", START, (replace(forged, signature=b"other"),)))
    assert commands == [Refuse(b"me", b"b", "forged")]
    assert script.members.me == before


def test_another_process_with_the_own_identity_does_not_silence_the_first() -> None:
    script = among_signers("b", "c")
    other = replace(signed("me", "another key", incarnation=START + 1), uri="tcp://other:1")
    commands = script.hear(Rumours(b"b", START, (other,)))
    assert [each.what for each in commands if isinstance(each, Warn)] == ["duplicate"]
    assert not script.members.is_doubled


def test_a_claim_waits_until_the_process_is_gone() -> None:
    script = among_signers("b", "c", "d", "e", "f", "g", "h")
    again = signed("c", "new key", incarnation=START + 1)
    assert script.hear(Rumours(b"stranger", START, (again,))) == [Refuse(b"c", b"stranger", CLAIMED)]
    assert script.hear(Rumours(b"stranger", START, (again,))) == []  # it was counted
    assert not dismissed(script.wait(2))
    script.hear(accused("c", "b"))
    commands = [*script.hear(accused("c", "d")), *script.wait(0.3)]
    if not dismissed(commands):  # two of these are its monitors
        for accuser in ("e", "f", "g", "h"):
            commands += script.hear(accused("c", accuser))
        commands += script.wait(0.3)
    assert dismissed(commands) == [(b"c", "dead")]
    assert Admit(again) in commands
    assert script.members.find(b"c") == again


def test_a_claim_that_two_monitors_believe_is_believed() -> None:
    script = among_signers("b", "c", "d", "e")
    again = signed("c", "new key", incarnation=START + 1)
    commands = script.hear(Rumours(b"b", START, (again,)))
    told_first = [payload for node, payload in told(commands, Rumours) if node == b"c"]
    assert told_first  # if the process lives after all
    assert not dismissed(script.wait(2))
    commands = [*script.hear(Rumours(b"d", START, (again,))), *script.wait(0.3)]
    assert dismissed(commands) == [(b"c", "dead")]
    assert script.members.find(b"c") == again


def test_a_claim_is_void_when_the_first_process_says_that_it_lives() -> None:
    script = among_signers("b", "c", "d", "e")
    again = signed("c", "new key", incarnation=START + 1)
    script.hear(Rumours(b"b", START, (again,)))
    script.hear(Rumours(b"c", START, (signed("c", sequence=2),)))
    script.hear(Rumours(b"d", START, (again,)))
    assert not dismissed(script.wait(2))


def test_a_member_that_is_itself_another_process_is_accused() -> None:
    script = among_signers("b", "c", "d", "e")
    commands = script.hear(Rumours(b"c", START + 1, (signed("c", "new key", incarnation=START + 1),)))
    commands += script.wait(0.1)
    spread = [each for _, said in told(commands, Rumours) for each in said.accused]  # type: ignore[attr-defined]
    assert any((each.target, each.incarnation, each.is_gone) == (b"c", START, True) for each in spread)


def test_who_left_leaves_its_name_to_the_one_that_claims_it() -> None:
    script = among_signers("b", "c", "d")
    again = signed("c", "new key", incarnation=START + 1)
    script.hear(Rumours(b"b", START, (again,)))
    script.hear(Rumours(b"c", START, (KeptSeals(b"key of c").sign(replace(record_of("c", sequence=2), status=LEFT)),)))
    assert script.members.find(b"c") == again
    assert "c" in script.living()


def test_an_accusation_of_a_process_that_is_not_known_is_left_out() -> None:
    script = among_signers("b", "c", "d", "e")
    for said in (accused("c", "b", since=START - 1, key="old key"), accused("c", "stranger")):
        assert script.hear(said) == []
    assert not script.members.suspects


def test_a_forged_accusation_is_refused() -> None:
    script = among_signers("b", "c", "d", "e")
    assert script.hear(accused("c", "b", key="key of d")) == [Refuse(b"b", b"b", "forged")]
    before = script.members.me
    forged = replace(accused("me", "b", key="key of d"), node=b"d")
    assert script.hear(forged) == [Refuse(b"b", b"d", "forged")]
    assert script.members.me == before


def test_another_key_is_told_with_the_next_sequence() -> None:
    script = among_signers("b", "c")
    before = script.members.me
    script.hand(SealChanged())
    assert script.members.me.sequence == before.sequence + 1


def test_what_is_signed_leaves_out_the_signature_alone() -> None:
    record, said = signed("c"), Accusation(b"c", START, 1, b"b")
    assert signed_record(record) == signed_record(replace(record, signature=b"x"))
    assert signed_record(record) != signed_record(replace(record, key=b"x"))
    assert signed_accusation(said) == signed_accusation(replace(said, signature=b"x"))
    hello = Hello(b"A", 1, "tcp://a:1", heard=2)
    assert signed_hello(hello, b"B") != signed_hello(hello, b"C")


def test_without_security_everything_counts() -> None:
    assert UNSEALED.judge(record_of("c"), None) == "genuine"
    assert UNSEALED.sign(record_of("c")) == record_of("c")
    assert UNSEALED.hosts_of(record_of("c")) is None

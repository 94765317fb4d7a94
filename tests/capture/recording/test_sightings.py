"""Whole recordings: conversations between two sockets, and everything that can happen to them."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import zmq

from hopwire.capture import Direction, Fault, FaultKind
from hopwire.capture.recording.packets import tcp_piece
from hopwire.model.limits import Limits
from hopwire.node.streams import Streams
from hopwire.wire import V5, V6, WireFormat, decode, encode
from hopwire.wire.samples import sample_message
from hopwire.wire.train import is_train, pack_train, unpack_train
from tests.capture.recording.recordings import (
    ACK,
    CLIENT,
    ETHERNET,
    FIN,
    RAW,
    RST,
    SERVER,
    START_NS,
    STEP_NS,
    Recording,
    Timed,
    arrived,
    command,
    ethernet,
    greeting,
    heard,
    ip,
    message,
    pcap,
    pcapng,
    ready,
    tcp,
)

HELLO = [b"", b"hello"]


def opened(
    types: tuple[bytes, bytes] = (b"ROUTER", b"ROUTER"), names: tuple[bytes, bytes] = (b"node-a", b"node-b")
) -> Recording:
    recording = Recording()
    recording.open()
    recording.greet(types=types, names=names)
    return recording


def details(faults: list[Fault]) -> list[str]:
    return [fault.detail.rpartition(" (")[0] for fault in faults]


# -- what a message becomes


def test_message_is_seen_by_its_sender_and_by_its_receiver(tmp_path: Path) -> None:
    recording = opened()
    recording.say(message(HELLO)[:3])
    recording.say(message(HELLO)[3:])
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert faults == []
    left, came = rows
    last_ns = recording.packets[-1][0]
    assert (left.node, left.direction, left.peer, left.seen_at_ns) == (b"node-a", "out", b"node-b", last_ns - STEP_NS)
    assert (came.node, came.direction, came.peer, came.seen_at_ns) == (b"node-b", "in", b"node-a", last_ns)
    assert (list(left.frames), list(came.frames)) == ([b"node-b", *HELLO], [b"node-a", *HELLO])
    assert {(row.incarnation, row.sequence) for row in rows} == {(START_NS, 0)}


def test_socket_without_identity_is_called_by_its_address(tmp_path: Path) -> None:
    recording = opened(names=(b"", b""))
    recording.say(message(HELLO))
    rows, _ = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert [(row.node, row.peer) for row in rows] == [
        (b"tcp://10.0.0.1:40000", b"tcp://10.0.0.2:7400"),
        (b"tcp://10.0.0.2:7400", b"tcp://10.0.0.1:40000"),
    ]


def test_address_of_ipv6_is_written_as_zeromq_does(tmp_path: Path) -> None:
    client, server = ("fe80::1", 40_000), ("::1", 7400)
    recording = Recording()
    recording.open(client, server)
    recording.greet(client, server, names=(b"", b""))
    recording.say(message(HELLO), client, server)
    rows, _ = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert (rows[0].node, rows[0].peer) == (b"tcp://[fe80::1]:40000", b"tcp://[::1]:7400")


# fmt: off
TYPES = (
    ((b"ROUTER", b"ROUTER"), True),
    ((b"DEALER", b"ROUTER"), True),
    ((b"ROUTER", b"DEALER"), True),
    ((b"DEALER", b"DEALER"), False),
    ((b"PUSH",   b"PULL"),   False),
)
# fmt: on


@pytest.mark.parametrize(("types", "is_put_back"), TYPES)
def test_first_frame_that_a_router_keeps_is_put_back(
    tmp_path: Path, types: tuple[bytes, bytes], is_put_back: bool
) -> None:
    recording = opened(types=types)
    recording.say(message(HELLO))
    rows, _ = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert list(rows[1].frames) == ([b"node-a", *HELLO] if is_put_back else HELLO)


@pytest.mark.parametrize("fmt", [V5, V6])
def test_messages_of_the_network_decode(tmp_path: Path, fmt: WireFormat) -> None:
    sent = sample_message(fmt, random.Random(1))
    recording = opened()
    recording.say(message(encode(sent, fmt)[1:]))
    rows, _ = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert decode(list(rows[1].frames)) == sent.replace(socket_identity=b"node-a")


def test_train_is_taken_apart(tmp_path: Path) -> None:
    recording = opened()
    recording.say(message([pack_train([[b"", b"", b"one"], [b"", b"", b"two"]])]))
    found = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert arrived(found) == [[b"", b"one"], [b"", b"two"]]
    assert [row.sequence for row in found[0] if row.direction == Direction.IN] == [0, 1]


def test_damaged_train_is_kept_as_it_is(tmp_path: Path) -> None:
    recording = opened()
    damaged = pack_train([[b"", b"", b"one"]])[:-1]
    recording.say(message([damaged]))
    assert arrived(heard(tmp_path / "x.pcap", pcap(recording.packets))) == [[damaged]]


def test_commands_and_subscriptions_are_no_messages(tmp_path: Path) -> None:
    recording = opened(types=(b"SUB", b"PUB"))
    recording.say(command(b"PING", b"\0\0ctx") + command(b"SUBSCRIBE", b"a"))
    recording.say(message([b"\1topic"]))
    assert heard(tmp_path / "x.pcap", pcap(recording.packets)) == ([], [])


def test_answers_go_the_other_way(tmp_path: Path) -> None:
    recording = opened()
    recording.say(message(HELLO))
    recording.say(message([b"", b"answer"]), SERVER, CLIENT)
    recording.close()
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert faults == []
    assert [(row.node, row.sequence, row.direction, row.frames[-1]) for row in rows] == [
        (b"node-a", 0, "out", b"hello"),
        (b"node-b", 0, "in", b"hello"),
        (b"node-b", 1, "out", b"answer"),
        (b"node-a", 1, "in", b"answer"),
    ]


def test_message_waits_until_both_ends_are_known(tmp_path: Path) -> None:
    recording = Recording()
    recording.open()
    recording.say(greeting() + ready(b"DEALER", b"node-a") + message(HELLO))
    recording.say(greeting() + ready(b"ROUTER", b"node-b"), SERVER, CLIENT)
    rows, _ = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert [row.node for row in rows] == [b"node-a", b"node-b"]


def test_one_direction_alone_is_read(tmp_path: Path) -> None:
    recording = Recording()
    recording.open()
    recording.say(greeting() + ready(b"DEALER", b"node-a") + message(HELLO))
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert [row.node for row in rows] == [b"node-a", b"tcp://10.0.0.2:7400"]
    assert faults == []


# -- what the network does to it


def test_bytes_may_come_one_by_one(tmp_path: Path) -> None:
    recording = Recording()
    recording.open()
    for byte in greeting() + ready(b"DEALER", b"node-a") + message([b"", bytes(300), b"x"]) + message(HELLO):
        recording.say(bytes([byte]))
    recording.say(greeting() + ready(), SERVER, CLIENT)
    assert arrived(heard(tmp_path / "x.pcap", pcap(recording.packets))) == [[b"", bytes(300), b"x"], HELLO]


def test_order_repetition_and_overlap_do_not_matter(tmp_path: Path) -> None:
    chance = random.Random(3)
    texts = [[b"", b"%d" % number, chance.randbytes(chance.randrange(0, 700))] for number in range(50)]
    stream = b"".join(map(message, texts))
    for first in (1000, 2**32 - 5, 2**32 - 4000):  # the numbers wrap
        recording = Recording()
        recording.open(first=first)
        recording.greet()
        begin = recording.sequences[CLIENT, SERVER]
        pieces = [(at, stream[at : at + 200]) for at in range(0, len(stream), 130)]
        pieces += chance.choices(pieces, k=30)
        chance.shuffle(pieces)
        for at, data in pieces:
            recording.put(CLIENT, SERVER, begin + at, data)
        recording.sequences[CLIENT, SERVER] = begin + len(stream)
        recording.close()
        assert arrived(heard(tmp_path / "x.pcap", pcap(recording.packets))) == texts


def test_message_arrives_when_its_hole_is_filled(tmp_path: Path) -> None:
    recording = opened()
    begin = recording.sequences[CLIENT, SERVER]
    data = message(HELLO)
    recording.put(CLIENT, SERVER, begin + 4, data[4:])
    recording.put(CLIENT, SERVER, begin, data[:4])
    rows, _ = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert rows[1].seen_at_ns == recording.packets[-1][0]


def test_hole_within_a_frame_costs_one_message(tmp_path: Path) -> None:
    recording = opened()
    large = message([b"", bytes(5000)])
    recording.say(large[:1000])
    recording.miss(large[1000:3000])
    recording.say(large[3000:])
    recording.say(message(HELLO))
    recording.close()
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert [list(row.frames)[1:] for row in rows] == [HELLO, HELLO]
    assert {fault.kind for fault in faults} == {FaultKind.GAP}
    assert details(faults) == [
        "1 connection not read in full: packets are missing",
        "1 message not read in full: a part is missing, or it is too large",
    ]


def test_hole_between_frames_ends_one_direction(tmp_path: Path) -> None:
    recording = opened()
    recording.miss(message(HELLO))
    recording.say(message(HELLO))
    recording.say(message([b"", b"answer"]), SERVER, CLIENT)
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert [row.frames[-1] for row in rows] == [b"answer", b"answer"]
    assert "packets are missing, and so where the next message begins" in details(faults)[0]


def test_packets_that_the_recording_cut_off_leave_a_hole(tmp_path: Path) -> None:
    recording = opened()
    recording.say(message([b"", bytes(1000)]))
    recording.say(message(HELLO))
    time_ns, data = recording.packets[-2]
    recording.packets[-2] = time_ns, data[:100]
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert [row.frames[-1] for row in rows] == [b"hello", b"hello"]
    assert len(faults) == 2


def test_recording_that_ends_within_a_message_says_so(tmp_path: Path) -> None:
    recording = opened()
    recording.say(message(HELLO)[:-1])
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert (rows, details(faults)) == ([], ["1 message not read in full: the recording ends before it does"])


def test_connection_may_begin_without_its_first_packets(tmp_path: Path) -> None:
    recording = Recording()
    recording.greet()
    recording.say(message(HELLO))
    assert arrived(heard(tmp_path / "x.pcap", pcap(recording.packets))) == [HELLO]


def test_addresses_can_be_used_again(tmp_path: Path) -> None:
    recording = opened()
    recording.say(message(HELLO))
    recording.put(CLIENT, SERVER, recording.sequences[CLIENT, SERVER], flags=RST)
    recording.open(first=77_777)
    recording.greet()
    recording.say(message([b"", b"again"]))
    recording.open(first=99_999)  # nobody closed the second one
    recording.greet()
    recording.say(message([b"", b"third"]))
    found = arrived(heard(tmp_path / "x.pcap", pcap(recording.packets)))
    assert found == [HELLO, [b"", b"again"], [b"", b"third"]]


def test_late_packets_of_a_closed_connection_are_ignored(tmp_path: Path) -> None:
    recording = opened()
    recording.say(message(HELLO))
    last = recording.packets[-1][1]
    recording.close()
    recording.packets += [(recording.now_ns, last), (recording.now_ns, recording.packets[-1][1])]
    assert arrived(heard(tmp_path / "x.pcap", pcap(recording.packets))) == [HELLO]


# -- what cannot be read


# fmt: off
UNREADABLE = (
    (greeting(b"CURVE"),         "encrypted (CURVE)"),
    (greeting(b"PLAIN"),         "authenticated (PLAIN)"),
    (greeting(b"GSSAPI"),        "protected (GSSAPI)"),
    (greeting(b"ODD"),           "an unknown security mechanism"),
    (greeting(major=1),          "ZMTP 2 or older"),
    (b"GET / HTTP/1.1\r\n\r\n",  "not ZeroMQ"),
    (greeting() + command(b"ERROR", b"\2no"),    "refused by its other end"),
    (greeting() + message(HELLO),                "breaks the rules of ZMTP"),
    (greeting() + b"\x4c\0",                     "breaks the rules of ZMTP"),
    (greeting() + command(b"READY", b"\xff"),    "breaks the rules of ZMTP"),
)
# fmt: on


@pytest.mark.parametrize(("first_bytes", "words"), UNREADABLE)
def test_connection_that_cannot_be_read_is_reported(tmp_path: Path, first_bytes: bytes, words: str) -> None:
    recording = Recording()
    for port in (40_000, 40_001):
        client = ("10.0.0.1", port)
        recording.open(client, SERVER)
        recording.say(first_bytes, client, SERVER)
        recording.say(greeting(), SERVER, client)
        recording.say(bytes(100), client, SERVER)
    rows, [fault] = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert rows == []
    assert fault.kind == FaultKind.UNREADABLE
    first = "first tcp://10.0.0.1:40000 and tcp://10.0.0.2:7400"
    assert fault.detail == f"2 connections not read: {words} ({first})"
    assert fault.size_bytes >= 2 * len(first_bytes)


def test_connection_that_began_earlier_is_reported(tmp_path: Path) -> None:
    recording = Recording()
    for _ in range(200):
        recording.say(message(HELLO))
    recording.say(message(HELLO), SERVER, CLIENT)
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert rows == []
    assert details(faults) == ["1 connection not read: began before the recording"]


def test_fragments_and_unknown_networks_are_counted(tmp_path: Path) -> None:
    packet = ethernet(ip(CLIENT, SERVER, tcp(CLIENT, SERVER, 1, b"x"), fragment=0x2000))
    _, faults = heard(tmp_path / "x.pcap", pcap([(1, packet), (2, packet)]))
    assert details(faults) == ["2 packets not read: a fragment of IP, which are not put together"]
    _, faults = heard(tmp_path / "x.pcap", pcap([(1, packet)], link=147))
    assert details(faults) == ["1 packet not read: of a kind of network that is not known"]


def test_many_silent_connections_do_not_push_out_a_busy_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.capture.recording.connections.MAX_CONNECTIONS", 3)
    recording = opened()
    for port in range(6):
        recording.open(("10.0.0.9", 1000 + port), SERVER)
        recording.say(message(HELLO))
    rows, faults = heard(tmp_path / "x.pcap", pcap(recording.packets))
    assert len(rows) == 12
    assert "4 connections not read: given up" in faults[0].detail


# -- damage


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(0, len(changed))
        match chance.randrange(0, 4):
            case 0:
                changed[at] = chance.randrange(0, 256)
            case 1:
                del changed[at : at + chance.randrange(1, 40)]
            case 2:
                changed[at:at] = chance.randbytes(chance.randrange(1, 40))
            case _:
                changed[at : at + 4] = chance.choice((b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"))
        changed = changed or bytearray(b"\0")
    return bytes(changed)


def long_recording() -> Recording:
    recording = opened()
    chance = random.Random(5)
    for number in range(20):
        recording.say(message([b"", b"%d" % number, chance.randbytes(chance.randrange(0, 600))]))
        recording.say(message([pack_train([[b"", b"a"], [b"", b"b"]])]), SERVER, CLIENT)
    recording.close()
    return recording


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.parametrize("write", [pcap, pcapng])
def test_no_bytes_raise(tmp_path: Path, write: Callable[[list[Timed]], bytes], fuzz_cases: int) -> None:
    chance = random.Random(7)
    good = write(long_recording().packets)
    for _ in range(fuzz_cases // 200):
        rows, faults = heard(tmp_path / "x", mutated(good, chance))
        assert len(rows) <= 200
        assert all("\n" not in str(fault) for fault in faults)


@pytest.mark.fuzz
@pytest.mark.slow
def test_no_packets_raise(tmp_path: Path, fuzz_cases: int) -> None:
    chance = random.Random(8)
    good = long_recording().packets
    for _ in range(fuzz_cases // 200):
        packets = [(time_ns, mutated(data, chance) if chance.random() < 0.1 else data) for time_ns, data in good]
        heard(tmp_path / "x", pcap(packets, chance.choice((ETHERNET, RAW, 0, 113, 276))))


@pytest.mark.parametrize("link", [0, 1, 12, 101, 108, 113, 228, 229, 276, 999])
def test_noise_is_no_packet(link: int) -> None:
    chance = random.Random(9)
    for _ in range(500):
        tcp_piece(link, chance.randbytes(chance.randrange(0, 80)))


# -- real traffic


class Relay:
    """A TCP relay that keeps what goes through, as a recording."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.recording = Recording(link=RAW)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._start(self._accept)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, client = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._sockets += [near, far]
            with self._lock:
                self.recording.open(client, self._target)
            self._start(self._pump, near, far, client, self._target)
            self._start(self._pump, far, near, self._target, client)

    def _pump(
        self, source: socket.socket, target: socket.socket, source_name: tuple[str, int], target_name: tuple[str, int]
    ) -> None:
        while data := _receive(source):
            with self._lock:
                self.recording.say(data, source_name, target_name)
            target.sendall(data)
        with self._lock:
            sequence = self.recording.sequences[source_name, target_name]
            self.recording.put(source_name, target_name, sequence, flags=ACK | FIN)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)
        for each in self._sockets:
            each.close()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(1400)
    except OSError:
        return b""


@contextmanager
def relayed(target: str) -> Iterator[Relay]:
    host, port = target.removeprefix("tcp://").split(":")
    relay = Relay((host, int(port)))
    try:
        yield relay
    finally:
        relay.close()


@pytest.mark.slow
def test_real_sockets_are_overheard(tmp_path: Path) -> None:
    chance = random.Random(11)
    sent = [encode(sample_message(V5 if number % 2 else V6, chance))[1:] for number in range(100)]
    sent.append([b"", chance.randbytes(300_000)])
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router, context.socket(zmq.DEALER) as dealer:
        router.set(zmq.ROUTING_ID, b"receiver")
        router.bind("tcp://127.0.0.1:0")
        dealer.set(zmq.ROUTING_ID, b"sender")
        dealer.set(zmq.HEARTBEAT_IVL, 10)
        dealer.set(zmq.HEARTBEAT_TIMEOUT, 60_000)
        for each in (router, dealer):
            each.set(zmq.RCVTIMEO, 20_000)
            each.set(zmq.LINGER, 0)
        with relayed(str(router.get_string(zmq.LAST_ENDPOINT)).rstrip("\0")) as relay:
            dealer.connect("tcp://{}:{}".format(*relay.address))
            received = []
            for frames in sent:
                dealer.send_multipart(frames)
                received.append(router.recv_multipart())
                router.send_multipart([b"sender", b"", b"thanks"])
                dealer.recv_multipart()
            dealer.close()
            router.close()
    rows, faults = heard(tmp_path / "real.pcap", pcap(relay.recording.packets, RAW))
    assert faults == []
    assert [list(row.frames) for row in rows if row.node == b"receiver" and row.direction == "in"] == received
    assert [row.frames[-1] for row in rows if row.node == b"sender" and row.direction == "in"] == [b"thanks"] * 101


@pytest.mark.slow
def test_trains_between_real_nodes_are_overheard(tmp_path: Path) -> None:
    chance = random.Random(12)
    sent = [encode(sample_message(V6, chance), V6) for _ in range(300)]
    packets, trains = asyncio.run(_sent_by_train(sent))
    rows, faults = heard(tmp_path / "real.pcap", pcap(packets, RAW))
    assert trains
    assert faults == []
    came = [row for row in rows if row.direction == "in"]
    assert {(row.node, row.peer) for row in came} == {(b"node-b", b"node-a")}
    assert [list(row.frames)[1:] for row in came] == [frames[1:] for frames in sent]
    assert [row.sequence for row in came] == list(range(300))


async def _sent_by_train(sent: list[list[bytes]]) -> tuple[list[Timed], int]:
    """Send messages from one transport to another through a relay; give the packets, and how many trains there were."""
    done, trains, count = asyncio.Event(), 0, 0

    def arrive(frames: list[bytes]) -> int:
        nonlocal trains, count
        trains += is_train(frames)
        messages = len(unpack_train(frames, Limits())) if is_train(frames) else 1
        count += messages
        if count == len(sent):
            done.set()
        return messages

    def refuse(uri: str, _: list[bytes], reason: str) -> None:
        pytest.fail(f"{uri}: {reason}")

    one, other = Streams(b"node-a", "tcp://127.0.0.1:0"), Streams(b"node-b", "tcp://127.0.0.1:0")
    one.start(arrive, refuse)
    with relayed(other.start(arrive, refuse)) as relay:
        uri = "tcp://{}:{}".format(*relay.address)
        one.connect(uri)
        one.allow_trains(uri)
        assert not any(one.send(uri, frames, sum(map(len, frames))) for frames in sent)
        await asyncio.wait_for(done.wait(), 30)
        await one.close(1)
        await other.close(1)
    return relay.recording.packets, trains

"""Asks a node for a greeting, with nothing but pyzmq: `asks.py tcp://127.0.0.1:7400 V5 Ada [secret]`.

A DEALER is enough: the answer comes back over the connection that the question went over.
"""

from __future__ import annotations

import json
import sys
import uuid

import zmq
from plain_formats import Plain, mac, read, signed, write


def main(uri: str, fmt: str, name: str, secret: str = "") -> None:
    me = b"\0" + str(uuid.uuid4()).encode()  # who waits for the answer
    question = Plain(
        identity=b"plain.greet",
        body=json.dumps({"name": name}).encode(),
        correlation_id=str(uuid.uuid4()).encode(),
        callback_receiver=me,
        callback_node=b"asks.py" if fmt in ("V5", "V6") else b"",
        callback_key=7 if fmt in ("V5", "V6") else 0,
        points=((b"plain.greeting", 1, b""), (b"KINO.EXCEPTION", 1, b"")),
        ttl_ticks=50_000_000,  # 5 s
    )
    question = signed(fmt, question, b"plain", secret.encode())
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.RCVTIMEO, 5000)
        dealer.connect(uri)
        dealer.send_multipart(write(fmt, question))
        found, answer = read(dealer.recv_multipart())
    assert found == fmt, f"asked in {fmt}, answered in {found}"
    assert answer.receiver == me
    assert answer.callback_key == question.callback_key
    assert answer.correlation_id == question.correlation_id
    assert not answer.signature or answer.signature == mac(fmt, answer, secret.encode()), "a signature that is wrong"
    if answer.identity == b"plain.greeting":
        print(json.loads(answer.body)["text"])
    else:
        print(f"{answer.identity.decode()}: {answer.body!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Answers a node's question for a greeting, with nothing but pyzmq: `answers.py legacy-1 [secret]`.

It listens as a ROUTER, prints where, and answers in the format of each question by the rules of the documents, until
its input ends.
"""

from __future__ import annotations

import json
import sys

import zmq
from plain_formats import answer_to, mac, read, signed, write


def main(identity: str, secret: str = "") -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.IDENTITY, identity.encode())
        port = router.bind_to_random_port("tcp://127.0.0.1")
        print(f"tcp://127.0.0.1:{port}", flush=True)
        poller = zmq.Poller()
        poller.register(router, zmq.POLLIN)
        poller.register(sys.stdin, zmq.POLLIN)
        while router in dict(poller.poll()):  # else the input has ended
            node, *frames = router.recv_multipart()
            fmt, question = read(frames)
            if question.signature != (mac(fmt, question, secret.encode()) if question.domain else b""):
                print("a signature that is wrong", flush=True)
                continue
            name = json.loads(question.body)["name"]
            if name:
                answer = answer_to(question, b"plain.greeting", json.dumps({"text": f"hello {name}"}).encode())
            else:
                answer = answer_to(
                    question, b"KINO.EXCEPTION", bson(Message="a name is needed", ExceptionType="NoName")
                )
            answer = signed(fmt, answer, question.domain, secret.encode())
            router.send_multipart([node, *write(fmt, answer)])


def bson(**texts: str) -> bytes:
    """Write a document of texts, as the original says what was raised."""
    elements = b"".join(
        b"\2" + name.encode() + b"\0" + (len(text.encode()) + 1).to_bytes(4, "little") + text.encode() + b"\0"
        for name, text in texts.items()
    )
    return (len(elements) + 5).to_bytes(4, "little") + elements + b"\0"


if __name__ == "__main__":
    main(*sys.argv[1:])

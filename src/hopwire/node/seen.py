"""What has arrived already, and what was answered: as much as memory is given for; the oldest is forgotten first.

A message that must arrive may come again: the receipt or the answer got lost, or was late. The message is not handled a
second time. If its answer is remembered, the answer is sent again.
"""

from __future__ import annotations

from hashlib import sha256

from hopwire.model import Message

__all__ = ["SeenMessages"]

ID_BYTES = 32  # of an id that is remembered as it is; ours have 16
ANSWER_BYTES = 16 * 1024 * 1024  # of all answers together
HEADER_BYTES = 500  # what an answer takes beside its body


class SeenMessages:
    """Remembers message ids, and answers."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ids: dict[bytes, None] = {}
        self._answers: dict[bytes, Message] = {}
        self._answer_bytes = 0

    def __len__(self) -> int:
        return len(self._ids)

    def forget(self, message_id: bytes) -> None:
        """Let an id be new again: its message was not taken."""
        self._ids.pop(_key(message_id), None)

    def is_new(self, message_id: bytes) -> bool:
        """Tell whether an id has not been seen, and remember it."""
        message_id = _key(message_id)
        if message_id in self._ids:
            return False
        self._ids[message_id] = None
        if len(self._ids) > self._capacity:
            oldest = next(iter(self._ids))
            del self._ids[oldest]
            self._drop(oldest)
        return True

    def answered(self, message_id: bytes, answer: Message) -> None:
        """Remember the first answer to a message, unless the answer alone takes all there is for answers."""
        size, message_id = _size(answer), _key(message_id)
        if message_id in self._answers or size > ANSWER_BYTES:
            return
        self._answers[message_id] = answer
        self._answer_bytes += size
        while self._answer_bytes > ANSWER_BYTES:
            self._drop(next(iter(self._answers)))

    def answer_to(self, message_id: bytes) -> Message | None:
        """Give the answer to a message, if it is remembered."""
        return self._answers.get(_key(message_id))

    def _drop(self, message_id: bytes) -> None:
        answer = self._answers.pop(message_id, None)
        if answer is not None:
            self._answer_bytes -= _size(answer)


def _size(answer: Message) -> int:
    return HEADER_BYTES + sum(map(len, answer.body_frames)) + answer.beside_bytes


def _key(message_id: bytes) -> bytes:
    """Give what is remembered of an id: a sender may choose one of some thousand bytes."""
    return message_id if len(message_id) <= ID_BYTES else sha256(message_id).digest()

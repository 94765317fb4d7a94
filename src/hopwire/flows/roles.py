"""What part a message plays in its flow: request, answer, outcome, or none of them.

- A *reply* names a receiver, and either that is its callback receiver and its contract is one of the callback points,
  or it is an outcome, an exception or a receipt.
- The *home* of a message is where an answer to it goes: receiver and node. A reply has it as its receiver, all others
  as their callback data. Formats V3 and V4 carry no node and no callback key.
- What a message *awaits*: an answer, if any callback point is neither a receipt nor the exception that the original
  always adds; else a receipt, if that is a point; else nothing. The node that takes a message removes the receipt.
- The *flow* of a message is its correlation id. The original gives its one-way and service messages an id of zeros,
  which is none: these belong to the flow of their callback key, or else each message key is a flow of its own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, binary_from_rows, bools, ints, one_array
from hopwire.flows.arrays import codes, equal_text
from hopwire.model.names import KINO_EXCEPTION, KINO_RECEIPT, NO_CORRELATION, RECEIPT

__all__ = ["Roles", "roles_of"]

RECEIPTS = pa.array([RECEIPT, KINO_RECEIPT], pa.binary())
NOT_ANSWERS = pa.array([RECEIPT, KINO_RECEIPT, KINO_EXCEPTION], pa.binary())
NO_FLOW = pa.array(NO_CORRELATION, pa.binary())
EMPTY = pa.scalar(b"", pa.binary())


class Roles:
    """The parts that messages play, row by row."""

    def __init__(self, messages: pa.Table) -> None:
        self._messages = messages
        is_point, wants_answer, wants_receipt = _points(messages)
        self.outcome_kind = _outcome_kind(messages)
        self.is_reply = self._is_reply(is_point)
        self.awaits = np.where(wants_answer, 2, np.where(wants_receipt, 1, 0))  # of AWAITS
        rows = pa.array(np.where(self.is_reply, 0, len(messages)) + np.arange(len(messages)))
        self.home_node = _chained(messages, "receiver_node_identity", "callback_receiver_node_identity").take(rows)
        self.home_receiver = _chained(messages, "receiver_identity", "callback_receiver_identity").take(rows)
        self.flow_id = self._flow_id()

    def _is_reply(self, is_point: Bools) -> Bools:
        messages = self._messages
        (to, home), values = codes(messages["receiver_identity"], messages["callback_receiver_identity"])
        is_addressed = bools(pc.greater(pc.binary_length(values), 0))[to]
        is_reply: Bools = is_addressed & (((to == home) & is_point) | ~equal_text(self.outcome_kind, ""))
        return is_reply

    def _flow_id(self) -> pa.Array:
        messages = self._messages
        flow = one_array(messages["correlation_id"])
        has_none = pc.is_in(flow, NO_FLOW)
        if not pc.any(has_none).as_py():
            return flow
        key = ints(messages["callback_key"]).astype(">i8")
        of_key = pc.binary_join_element_wise(self.home_receiver, binary_from_rows(key), EMPTY)
        has_key = pc.and_(pa.array(key != 0), pc.greater(pc.binary_length(self.home_receiver), 0))
        return pc.if_else(has_none, pc.if_else(has_key, of_key, one_array(messages["message_key"])), flow)


def roles_of(messages: pa.Table) -> Roles:
    """Tell what part each message plays."""
    return Roles(messages)


def _chained(messages: pa.Table, *names: str) -> pa.Array:
    return pa.concat_arrays([one_array(messages[name]) for name in names])


def _outcome_kind(messages: pa.Table) -> pa.Array:
    kind = pc.fill_null(one_array(messages["outcome_kind"]), "")
    is_receipt = pc.equal(one_array(messages["identity"]), KINO_RECEIPT)
    return pc.if_else(is_receipt, "received", kind)


def _points(messages: pa.Table) -> tuple[Bools, Bools, Bools]:
    """Tell whether a message is one of its callback points, whether it wants an answer, and whether a receipt."""
    lists = one_array(messages["callback_points"])
    points = lists.flatten()
    rows = np.repeat(np.arange(len(messages)), ints(pc.list_value_length(lists)))
    parts = dict(zip((field.name for field in points.type), points.flatten(), strict=True))
    is_same = np.ones(len(points), dtype=np.bool_)
    for name in ("identity", "version_raw", "partition"):
        (of_message, of_point), _ = codes(messages[name], parts[name])
        is_same &= of_message[rows] == of_point
    is_same &= ints(messages["version"], -1)[rows] == ints(parts["version"], -1)
    is_receipt = bools(pc.is_in(parts["identity"], RECEIPTS))
    is_answer = ~bools(pc.is_in(parts["identity"], NOT_ANSWERS))
    return tuple(_any(len(messages), rows[mask]) for mask in (is_same, is_answer, is_receipt))  # type: ignore[return-value]


def _any(size: int, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Bools:
    found = np.zeros(size, dtype=np.bool_)
    found[rows] = True
    return found

"""Hops as arrays: every judge of hops reads a column here, and each column is turned into numbers once.

A name (a flow, a message, a node) becomes a code: equal names have equal numbers. A time that was not seen is
`NO_TIME`, which is less than every time.

| hop | `left` | `came` | `begun` | `reached` |
|---|---|---|---|---|
| A leaves at 10.000 s, B sees 10.002 s | 10.000 | 10.002 | 10.000 | 10.002 |
| A leaves at 10.000 s, lost | 10.000 | - | 10.000 | - |
| A leaves at 10.000 s, B does not capture (`unwitnessed`) | 10.000 | - | 10.000 | 10.000 |
| A does not capture, B sees 10.002 s (`unsent`) | - | 10.002 | 10.002 | 10.002 |
| A hands the message over within itself at 10.000 s (`local`) | 10.000 | 10.000 | 10.000 | 10.000 |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.groups import NO_TIME, codes, equal_text, has_bytes, number_codes, pack
from hopwire.flows.schemas import FATE, FATE_NAMES

__all__ = ["HopColumns"]

EXPIRED = "expired"
HARMLESS = pa.array([EXPIRED, "nobody_waits", "duplicate", "unexpected_answer"])  # dead letters that lose nothing


@dataclass(frozen=True)
class HopColumns:
    """The hops of a table, a row for each hop; a column is read when somebody first asks for it."""

    table: pa.Table

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> pa.Array:
        return one_array(self.table[name])

    # -- names

    @cached_property
    def _flow_codes(self) -> tuple[Ints, pa.Array]:
        (flow,), flows = codes(self["flow_id"])
        return flow, flows

    @cached_property
    def _node_codes(self) -> tuple[list[Ints], pa.Array]:
        return codes(self["from_node"], self["to_node"], self["home_node"])

    @cached_property
    def _key_codes(self) -> tuple[Ints, pa.Array]:
        (key,), keys = codes(self["message_key"])
        return key, keys

    @property
    def flow(self) -> Ints:
        """The flow of each hop."""
        return self._flow_codes[0]

    @property
    def flows(self) -> pa.Array:
        """The ids of the flows, by their codes."""
        return self._flow_codes[1]

    @property
    def key(self) -> Ints:
        """The message of each hop."""
        return self._key_codes[0]

    @property
    def becomes(self) -> Ints:
        """The message that each message goes on as behind a border; for all others the message itself."""
        becomes, (key, keys) = self["becomes"], self._key_codes
        is_other = bools(pc.fill_null(pc.greater(pc.binary_length(becomes), 0), False))
        if not is_other.any():
            return key
        return np.where(is_other, ints(pc.index_in(becomes, keys), len(keys)), key)

    @property
    def source(self) -> Ints:
        """The node that the message left."""
        return self._node_codes[0][0]

    @property
    def target(self) -> Ints:
        """The node that the message went to."""
        return self._node_codes[0][1]

    @property
    def home(self) -> Ints:
        """The node that an answer goes to, as the message says; the empty name in V3 and V4."""
        return self._node_codes[0][2]

    @property
    def nodes(self) -> pa.Array:
        """The names of the nodes, by their codes."""
        return self._node_codes[1]

    @cached_property
    def request(self) -> Ints:
        """The request of each hop: all hops with the same flow, home and callback key have the same number."""
        (receiver,), _ = codes(self["home_receiver"])
        return pack(self.flow, receiver, self.home, number_codes(ints(self["callback_key"])))

    @cached_property
    def has_home(self) -> Bools:
        """Whether an answer goes anywhere: a hop without a home belongs to no request."""
        return has_bytes(self["home_receiver"])

    # -- times

    @cached_property
    def left(self) -> Ints:
        """When the message left, or NO_TIME."""
        return ints(self["left_at_ns"], NO_TIME)

    @cached_property
    def came(self) -> Ints:
        """When the message arrived, or NO_TIME."""
        return ints(self["arrived_at_ns"], NO_TIME)

    @cached_property
    def has_come(self) -> Bools:
        """Whether the message was seen to arrive."""
        return np.asarray(self.came != NO_TIME)

    @cached_property
    def begun(self) -> Ints:
        """When the message left; when it arrived, where leaving was not seen."""
        return np.where(self.left != NO_TIME, self.left, self.came)

    @cached_property
    def begun_sequence(self) -> Ints:
        """The number of the sighting that `begun` is the time of."""
        return np.where(self.left != NO_TIME, ints(self["left_sequence"]), ints(self["arrived_sequence"]))

    @cached_property
    def reached(self) -> Ints:
        """When the message arrived; when it left, where nobody could see it arrive."""
        return np.where(self.has_fate("unwitnessed"), self.left, self.came)

    @cached_property
    def reached_sequence(self) -> Ints:
        """The number of the sighting that `reached` is the time of."""
        left, came = ints(self["left_sequence"]), ints(self["arrived_sequence"])
        return np.where(self.has_fate("unwitnessed", "local"), left, came)  # of a local hop there is one sighting

    # -- what became of the hop

    @cached_property
    def _fate(self) -> Ints:
        return ints(pc.index_in(self["fate"], FATE_NAMES))

    def has_fate(self, *names: str) -> Bools:
        """Tell which hops have one of these fates."""
        is_one_of = np.zeros(len(FATE), dtype=np.bool_)
        is_one_of[[FATE[name] for name in names]] = True
        found: Bools = is_one_of[self._fate]
        return found

    @cached_property
    def is_dead(self) -> Bools:
        """Whether the message ended at the node as a dead letter."""
        return self.has_fate("dead")

    @cached_property
    def is_lost(self) -> Bools:
        """Whether the message was lost: on its way, or as a dead letter that is not harmless."""
        return self.has_fate("lost") | (self.is_dead & ~bools(pc.is_in(self["dead_reason"], HARMLESS)))

    @cached_property
    def is_expired(self) -> Bools:
        """Whether the message ended as a dead letter because its time was over."""
        return self.is_dead & equal_text(self["dead_reason"], EXPIRED)

    @cached_property
    def is_told(self) -> Bools:
        """Whether the hop says how a promise ended, and is no message."""
        return self.has_fate("told")

    @cached_property
    def is_of_others(self) -> Bools:
        """Whether the message came from the network or from a stranger, and not from the node that it names."""
        return self.has_fate("foreign", "duplicate")

    @cached_property
    def is_again(self) -> Bools:
        """Whether the arrival is none of its own: a duplicate, a replay, or a message from a stranger."""
        return self.is_of_others | ~equal_text(self["repeat"], "")

    @cached_property
    def is_reply(self) -> Bools:
        """Whether the message is an answer, an outcome, an exception or a receipt."""
        return bools(self["is_reply"])

"""Every way in which a message finds nobody: a short stable code and what it means.

The codes are part of the public interface: they stand in decisions and in dead letters. They may be added to, never
renamed.
"""

from __future__ import annotations

__all__ = ["REASONS"]

# fmt: off
REASONS = {
    # code                        what was found
    "no_route":                   "no actor that may be asked handles the contract",
    "unknown_node":               "the receiver node is not among the known nodes",
    "unknown_receiver":           "the receiver is registered neither here nor on a known node",
    "receiver_does_not_handle":   "the receiver is here, and handles nothing of this version",
    "broadcast_with_receiver":    "a broadcast that names a receiver or a receiver node",
    "unknown_distribution":       "a distribution that is neither unicast nor broadcast",
    "hop_limit":                  "the message would have to leave, and was sent away too often already",
    "excluded":                   "all who could take the message were excluded by the caller",
}
# fmt: on

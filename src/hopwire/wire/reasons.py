"""Every way in which bytes can be wrong: a short stable code and what it means.

The codes are part of the public interface: they stand in errors, in the quarantine table and in dead letters. They may
be added to, never renamed.
"""

from __future__ import annotations

__all__ = ["ENCODE_REASONS", "REASONS"]

# fmt: off
DECODE_REASONS = {
    # code               what was found
    "not_frames":        "the input is not a sequence of byte strings",
    "too_few_frames":    "fewer frames than the format needs",
    "too_many_frames":   "more frames than the limit allows",
    "too_many_bytes":    "the frames together are larger than the limit allows",
    "unknown_version":   "no format's number stands where its number belongs",
    "retired_version":   "the number of a format that is older than any document: V1 or V2",
    "retired_layout":    "the number 4 on one of the short-lived layouts whose tail is not the documented one",
    "ambiguous_version": "two formats fit whole",
    "bad_width":         "a frame with a fixed width has another one",
    "bad_offset":        "an offset that points into another block, into the tail or beyond the frames",
    "bad_count":         "a count that is negative, or for which there is no room",
    "bad_stride":        "fewer frames per entry than an entry has",
    "too_many_entries":  "more entries than the limit allows",
    "truncated":         "the meta frame, or an entry in it, ends within a number",
    "negative_length":   "a length or size below zero",
    "bad_length":        "a length or size beyond the end of what holds it",
    "trailing_bytes":    "the meta frame goes on after its last field",
    "invalid_utf8":      "text that is not UTF-8",
    "bad_train":         "several messages in one frame, whose lengths are not what is there",
    "bad_extension":     "an extension frame of hopwire's own that cannot be read",
}

ENCODE_REASONS = {
    # code               what was asked for
    "overflow":          "a number that does not fit into its field",
    "cannot_carry":      "a field is set that the format has no place for",
    "bad_value":         "a value of another type than the field has",
    "invalid_utf8":      "text that cannot be written as UTF-8",
}
# fmt: on

REASONS = {**ENCODE_REASONS, **DECODE_REASONS}

"""What is in a segment, in short: added up batch by batch, and asked before a file is opened."""

from __future__ import annotations

import pytest

from hopwire.capture import Sighting, Summary, batch_from_sightings


def seen(node: bytes, at: int, skipped: int = 0) -> Sighting:
    return Sighting(node, node.decode().upper(), 1, 0, at, "in", b"", [], skipped=skipped)


SUMMARY = (
    Summary()
    .plus(batch_from_sightings([seen(b"b", 20), seen(b"a", 10, 3)]))
    .plus(batch_from_sightings([]))
    .plus(batch_from_sightings([seen(b"b", 15, 4)]))
)


def test_batches_add_up() -> None:
    assert Summary(3, 7, 10, 20, {"62": "B", "61": "A"}) == SUMMARY
    assert Summary().plus(batch_from_sightings([])) == Summary()


# fmt: off
TIMES = [
    # since  until  may have rows
    (None,   None,  True),
    (20,     None,  True),
    (21,     None,  False),
    (None,   11,    True),
    (None,   10,    False),
    (12,     14,    True),
]
# fmt: on


@pytest.mark.parametrize(("since", "until", "expected"), TIMES)
def test_times_tell_whether_to_open_the_file(since: int | None, until: int | None, expected: bool) -> None:
    assert SUMMARY.overlaps(since, until) is expected


def test_nodes_tell_whether_to_open_the_file() -> None:
    assert SUMMARY.has_any(None)
    assert SUMMARY.has_any(frozenset([b"x", b"a"]))
    assert not SUMMARY.has_any(frozenset([b"x"]))
    assert not SUMMARY.has_any(frozenset())

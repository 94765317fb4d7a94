"""Sealed segments go elsewhere, once each, whatever happens to the place or to the process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hopwire.capture import CaptureWriter, Direction, SegmentShipper, read_capture
from hopwire.capture.segment import SegmentFile, is_left_behind
from hopwire.capture.sources import list_sources
from hopwire.errors import CaptureError, SettingsError
from hopwire.node.metric_families import families_of
from hopwire.node.node import Node
from hopwire.places import list_files, place_of
from tests.s3_server import S3Server

NOW = 1_767_225_600_000_000_000


def capture(directory: Path, node: bytes, count: int = 5) -> None:
    with CaptureWriter(directory, node, incarnation=1) as writer:
        for number in range(count):
            writer.append(NOW + number, Direction.OUT, b"peer", [b"", b"frame"])


def names(place: Path | str) -> list[str]:
    return [file.name for file in list_files(place_of(place)) if not file.name.startswith(".")]


def rows_in(place: Path | str) -> int:
    return sum(batch.num_rows for batch in read_capture(place_of(place)))


def test_sealed_segments_and_their_indexes_are_shipped_once(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    capture(here, b"anna")
    shipper = SegmentShipper(here, there)
    assert shipper.step()
    assert names(there) == names(here)
    assert (shipper.status.shipped, shipper.status.waiting, shipper.status.failed) == (1, 0, 0)
    capture(here, b"bert")
    assert shipper.step()
    assert shipper.step()
    assert shipper.status.shipped == 2
    assert rows_in(there) == rows_in(here) == 10


def test_next_start_ships_what_was_not_shipped_and_nothing_else(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    capture(here, b"anna")
    SegmentShipper(here, there).step()
    for file in there.iterdir():
        file.unlink()  # whoever has read them may remove them
    capture(here, b"bert")
    again = SegmentShipper(here, there)
    assert again.step()
    assert again.status.shipped == 1
    assert [name.partition("Z-")[2] for name in names(there)] == ["bert-000001.arrows", "bert-000001.json"]
    other = SegmentShipper(here, tmp_path / "another place")
    assert other.step()
    assert other.status.shipped == 2, "notes are about one place"


def test_notes_that_are_lost_cost_a_look_and_no_upload(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    capture(here, b"anna")
    SegmentShipper(here, there).step()
    (here / ".shipped").unlink()
    before = {file.name: file.stat().st_mtime_ns for file in there.iterdir()}
    SegmentShipper(here, there).step()
    assert {file.name: file.stat().st_mtime_ns for file in there.iterdir()} == before


def test_segments_go_from_the_disk_only_if_that_is_asked_for(tmp_path: Path) -> None:
    here = tmp_path / "here"
    capture(here, b"anna")
    SegmentShipper(here, tmp_path / "there").step()
    assert len(names(here)) == 2
    gone = SegmentShipper(here, tmp_path / "there", keep_shipped=False)
    capture(here, b"bert")
    gone.step()
    assert [name.partition("Z-")[2] for name in names(here)] == ["anna-000001.arrows", "anna-000001.json"]


def test_segment_that_a_dead_process_left_open_is_shipped_as_it_is(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    segment = SegmentFile(here, "20260101T000000.000000000Z-anna-000001", NOW)
    os.utime(segment.path, (0, 0))
    shipper = SegmentShipper(here, there)
    assert not is_left_behind(segment.path)
    shipper.step()
    assert names(there) == [], "its writer is at work"
    os.close(segment._fd)  # as the system does at the end of a process
    shipper.step()
    assert names(there) == [segment.path.name]
    assert list_sources(there)[0].is_open


def test_place_that_refuses_is_told_once_and_tried_again(bucket: str, s3_server: S3Server, tmp_path: Path) -> None:
    lines: list[str] = []
    capture(tmp_path / "here", b"anna")
    shipper = SegmentShipper(tmp_path / "here", f"{bucket}/captures", tell=lines.append, monotonic=lambda: 1.0)
    s3_server.refuse("AccessDenied")
    assert [shipper.step() for _ in range(3)] == [False] * 3
    assert (shipper.status.failed, shipper.status.waiting, shipper.status.shipped) == (3, 1, 0)
    assert len(lines) == 1
    assert "1 segments wait to be shipped, and are tried again" in lines[0]
    assert "never-seen-anywhere" not in lines[0]
    s3_server.refuse()
    assert shipper.step()
    assert lines[1:] == [f"segments are shipped to {bucket}/captures again"]
    assert shipper.status.trouble == ""
    assert rows_in(f"{bucket}/captures") == 5


def test_thread_ships_what_waits_when_it_is_stopped(tmp_path: Path) -> None:
    capture(tmp_path / "here", b"anna")
    shipper = SegmentShipper(tmp_path / "here", tmp_path / "there")
    shipper.start()
    assert shipper.stop().shipped == 1
    assert rows_in(tmp_path / "there") == 5


def test_directory_is_not_shipped_to_itself(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="segments are shipped to another place; name one"):
        SegmentShipper(tmp_path, tmp_path)


# -- of a node


async def live(**options: object) -> tuple[Node, dict[str, float]]:
    node = Node(name="anna", **options)  # type: ignore[arg-type]
    async with node:
        pass
    values = {each.name: float(str(each.series[0].value)) for each in families_of(node) if "ship" in each.name}
    return node, values


def test_node_ships_its_last_segment_when_it_stops(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    capture(here, b"before")  # what a life before has left
    node, metrics = asyncio.run(live(capture=here, ship=str(there)))
    assert node.ship_status is not None
    assert node.ship_status.shipped == len(list_sources(here)) == len(list_sources(there))
    assert metrics["hopwire_ship_shipped"] == node.ship_status.shipped
    assert (metrics["hopwire_ship_waiting"], metrics["hopwire_ship_failed"]) == (0, 0)


def test_node_whose_place_is_not_there_goes_on_and_says_so(
    bucket: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    capture(tmp_path, b"before")

    async def story() -> None:
        node = Node(name="anna", capture=tmp_path, ship="s3://no-such-bucket/captures")
        await node.start()
        assert node._tap is not None
        assert node._tap._shipper is not None
        node._tap._shipper._until = 0.0  # the first refusal is enough
        await node.stop()

    asyncio.run(story())
    told = [record.getMessage() for record in caplog.records if "segments" in record.getMessage()]
    assert "there is no such bucket" in told[0]


def test_ship_needs_a_capture_and_a_place() -> None:
    with pytest.raises(SettingsError, match="ship needs a capture: name its directory with capture="):
        Node(ship="s3://bucket/captures")


def test_ship_to_what_is_no_place_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has credentials in it"):
        Node(name="anna", capture=tmp_path, ship="s3://key:secret@bucket/captures")


@pytest.mark.timeout(10)
def test_fifo_in_the_place_of_the_notes_keeps_nobody_waiting(tmp_path: Path) -> None:
    capture(tmp_path / "here", b"anna")
    os.mkfifo(tmp_path / "here" / ".shipped")
    shipper = SegmentShipper(tmp_path / "here", tmp_path / "there")
    shipper.step()
    assert shipper.status.shipped == 1

"""Small files that would fill the memory: refused, or read piece by piece."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hopwire.wire.train import MAGIC
from tests.attacks.bombs import MB, ZEROS, compressed_arrow, cost_of, lying, parquet, recording
from tests.capture.recording.recordings import frame

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bombs")]  # one process makes the large files once

COUNT = 250_000  # of messages, with two bytes each on the wire
MOST_MB = 120  # what a reader may take beside the modules that it has loaded


def test_compressed_arrow_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = compressed_arrow(tmp_path / "x.arrows", 320)
    assert path.stat().st_size < 100_000
    cost = cost_of(path)
    assert cost.grown_mb < MOST_MB
    assert cost.rows == 0
    [(kind, detail)] = cost.faults
    assert kind == "unsuitable"
    assert "has compressed batches" in detail


def test_parquet_with_a_dictionary_is_laid_out_in_pieces_and_not_without_end(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", [[ZEROS]] * 300)
    assert path.stat().st_size < 20_000
    cost = cost_of(path)
    assert cost.grown_mb < MOST_MB
    [(kind, detail)] = cost.faults
    assert kind == "unsuitable"
    assert "would become" in detail


def test_one_row_of_parquet_is_no_larger_than_a_message(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", [[ZEROS] * 300])
    cost = cost_of(path)
    assert cost.grown_mb < MOST_MB
    assert (cost.rows, [kind for kind, _ in cost.faults]) == (0, ["unsuitable"])
    assert "row 0 has 314,5" in cost.faults[0][1]


def test_one_row_of_parquet_that_grows_too_much_is_refused_before_it_is_laid_out(tmp_path: Path) -> None:
    path = parquet(tmp_path / "x.parquet", [[ZEROS] * 160])
    cost = cost_of(path)
    assert cost.grown_mb < MOST_MB
    assert (cost.rows, [kind for kind, _ in cost.faults]) == (0, ["unsuitable"])
    assert "would become 167,7" in cost.faults[0][1]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 MB of zeros as compressed pages."""
    return parquet(tmp_path_factory.mktemp("packed") / "x.parquet", [[ZEROS * 100]] * 3, use_dictionary=False)


def test_parquet_of_compressed_pages_is_refused_before_they_are_unpacked(packed: Path) -> None:
    assert packed.stat().st_size < 300_000
    cost = cost_of(packed)
    assert cost.grown_mb < MOST_MB
    assert (cost.rows, [kind for kind, _ in cost.faults]) == (0, ["unsuitable"])
    assert "row group 0 has" in cost.faults[0][1]


def test_footer_that_lies_about_the_size_is_not_believed(packed: Path, tmp_path: Path) -> None:
    path = lying(Path(shutil.copy(packed, tmp_path)), 1000)
    assert pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 1000
    cost = cost_of(path)
    assert cost.grown_mb < MOST_MB
    assert [kind for kind, _ in cost.faults] == ["unsuitable"]


def test_encoding_whose_values_repeat_one_another_is_refused(tmp_path: Path) -> None:
    encoding = {"frames.list.element": "DELTA_BYTE_ARRAY"}
    path = parquet(tmp_path / "x.parquet", [[ZEROS]] * 300, use_dictionary=False, column_encoding=encoding)
    cost = cost_of(path)
    assert cost.grown_mb < MOST_MB
    assert (cost.rows, [kind for kind, _ in cost.faults]) == (0, ["unsuitable"])
    assert "DELTA_BYTE_ARRAY" in cost.faults[0][1]


@pytest.mark.parametrize("is_greeted", [True, False], ids=["greeted", "waiting"])
def test_recording_of_empty_messages_costs_what_is_waiting_and_no_more(tmp_path: Path, is_greeted: bool) -> None:
    path = recording(tmp_path / "x.pcap", frame(b"") * COUNT, is_greeted=is_greeted)
    assert path.stat().st_size < MB
    cost = cost_of(path)
    assert cost.rows == 2 * COUNT
    assert cost.grown_mb < MOST_MB


def test_messages_of_many_empty_frames_fill_a_batch_by_what_they_cost(tmp_path: Path) -> None:
    path = recording(tmp_path / "x.pcap", (frame(b"", 1) * 9_999 + frame(b"")) * 100)
    cost = cost_of(path)
    assert cost.rows == 200
    assert cost.grown_mb < MOST_MB


def test_train_of_messages_without_frames_costs_little(tmp_path: Path) -> None:
    train = MAGIC + b"\0\0" * COUNT
    path = recording(tmp_path / "x.pcap", b"\2" + len(train).to_bytes(8, "big") + train)
    cost = cost_of(path)
    assert cost.rows >= 2
    assert cost.grown_mb < MOST_MB

"""The notebook runs from its first cell to its last, and draws three plots; the tutorial tells what its lake says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.cli.running import ROOT
from tests.transcripts import assert_shown


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore")  # of matplotlib, without a screen
@pytest.mark.usefixtures("spark")
def test_notebook_leads_from_captures_to_three_plots(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    import matplotlib.pyplot as plt

    cells = json.loads((ROOT / "examples" / "lake.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    titles = [plt.figure(number).axes[0].get_title() for number in plt.get_fignums()]
    plt.close("all")
    assert len(titles) == 3
    assert names["outcomes"]["requests"].sum() == names["built"].manifest.tables["gold.requests"].row_count
    assert len(names["links"]) > 0
    assert {"lost", "arrived"} <= set(names["hops"]["fate"])
    assert str(names["hops"]["left_at"].dt.tz) == "UTC"
    monkeypatch.chdir(names["place"])  # the network and the lake of the tutorial are the same
    assert assert_shown("docs/tutorials/lost-message.md", out_only=True) > 5

"""Keys reach the workers, and nothing else: no plan, no log, no table, no setting has one."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from tests.lake.captures import SECRET, make_capture

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]  # a Spark of its own

DOMAINS = """
[domains.orders]
identities = ["orders.*"]
keys = [{id = "2024", secret_name = "HOPWIRE_TEST_SECRET"}]

[domains.stock]
identities = ["stock.*"]
scheme = "legacy"
algorithm = "md5"
keys = [{id = "2024", secret_name = "HOPWIRE_TEST_SECRET"}]
"""

# a whole build with everything that Spark can write down about it
BUILD = """
import sys
from pathlib import Path
from pyspark.sql.classic.dataframe import DataFrame
from hopwire.domains_file import domains_from_file
from hopwire.lake.build import build
from hopwire.lake.session import session

place = Path(sys.argv[1])
plans = []
collect = DataFrame.collect
def told(self):
    plans.append(self._jdf.queryExecution().toString())
    self.explain("formatted")
    return collect(self)
DataFrame.collect = told

(place / "events").mkdir()
spark = session("secrets", **{
    "spark.master": "local[1]",
    "spark.eventLog.enabled": True,
    "spark.eventLog.dir": (place / "events").as_uri(),
    "spark.local.dir": str(place / "local"),
    "spark.python.worker.reuse": True,
})
spark.sparkContext.setLogLevel("DEBUG")
domains = domains_from_file(place / "d.toml")
build(spark, place / "captures", place / "lake", ["silver.messages", "gold.contracts"], domains=domains)
from hopwire.lake.store import read_arrow
print(read_arrow(place / "lake", "silver.messages", ["verdict"]).column(0).value_counts().to_pylist())
assert any("MapInArrow" in plan for plan in plans)
print(*plans)
print(spark.sparkContext.getConf().toDebugString())
spark.stop()
"""


def forms_of(secret: bytes) -> list[bytes]:
    """Give all that would betray it; in base64 the middle, which does not depend on what stands around it."""
    shifted = [b64encode(bytes(shift) + secret)[4:-4] for shift in range(3)]
    return [secret, secret.hex().encode(), secret.hex().upper().encode(), repr(list(secret))[1:-1].encode(), *shifted]


def test_secret_is_nowhere_but_in_the_workers(tmp_path: Path) -> None:
    make_capture(tmp_path / "captures")
    (tmp_path / "d.toml").write_text(DOMAINS)
    environ = {**os.environ, "HOPWIRE_TEST_SECRET": SECRET.decode()}
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    ended = subprocess.run(command, env=environ, capture_output=True, timeout=350, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert b"valid" in ended.stdout
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(path.is_relative_to(tmp_path / "events") for path in written)
    assert any(path.is_relative_to(tmp_path / "lake") for path in written)
    for form in forms_of(SECRET):
        assert form not in ended.stdout
        assert form not in ended.stderr
        assert [path for path, content in written.items() if form in content] == []

"""A page of a real lake: the one that the demonstration has built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from hopwire.web.page_server import page_app


@pytest.fixture(scope="session")
def page(demo_run: tuple[dict[str, Any], Path]) -> TestClient:
    return TestClient(page_app(demo_run[1] / "lake", ("testserver",)))

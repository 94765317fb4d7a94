"""The site of the documentation: every page is in it, links lead somewhere, and nothing is asked of other hosts."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
ASKS = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_site", ROOT / "docs" / "make_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_site"] = module
    spec.loader.exec_module(module)
    return module


class _Seen:
    """What a page asks for, where its links lead, and the places in it that links can lead to."""

    def __init__(self, text: str) -> None:
        found = re.findall(r"<(\w+)\b[^>]*?\s(href|src)=\"([^\"]+)\"", text)
        self.asked = [value for tag, name, value in found if (tag, name) in ASKS]
        self.links = [value for tag, name, value in found if (tag, name) == ("a", "href")]
        self.places = set(re.findall(r"\sid=\"([^\"]+)\"", text))


@pytest.mark.slow
def test_site_is_made_and_every_link_in_it_leads_somewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert _maker().make_site(tmp_path / "stage", site) == ""
    pages = {path.relative_to(site): _Seen(path.read_text("utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 100
    assert sum(len(seen.asked) + len(seen.links) for seen in pages.values()) > 1000
    for path, seen in pages.items():
        if path.name == "404.html":
            continue
        assert [url for url in seen.asked if re.match(r"(https?:)?//", url)] == []
        for link in (*seen.links, *seen.asked):
            way, _, place = link.partition("#")
            if re.match(r"[a-z]+:", link) or link in (".", "#"):
                continue
            target = (site / path.parent / way).resolve() if way else site / path
            assert target.exists(), f"{path}: {link}"
            if place and (found := target.relative_to(site)) in pages:
                assert place in pages[found].places, f"{path}: {link}"


def test_every_page_of_the_repository_has_its_place_in_the_menu_or_is_linked_from_one_that_has() -> None:
    menu = set(re.findall(r'"([\w/.-]+\.md)"', (ROOT / "docs" / "zensical.toml").read_text("utf-8")))
    maker = _maker()
    places = {maker.place_of(path) for path in maker.sources()} | {"index.md"}
    assert menu <= places
    linked = ("decisions/", "examples/")  # each has a page that lists them
    assert {place for place in places - menu if place.endswith(".md") and not place.startswith(linked)} <= {
        "contributing.md",
        "origin.md",
    }

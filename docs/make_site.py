"""Makes the site from the pages: `make docs`. The result is build/site, static, and asks no other host for anything.

The pages are Markdown that can be read in the repository as it is. Here they are only brought together: pages of docs/
become the root of the site, pages beside docs/ and the examples become pages below it, and links follow them. A link
to a file that is not part of the site loses its link and keeps its words. zensical does the rest, and refuses a link
that leads nowhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

# pages that are not in docs/, and their places in the site
PLACES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks/about.md",
    "benchmarks/RESULTS.md": "benchmarks/results.md",
    "benchmarks/CHAOS.md": "benchmarks/chaos.md",
    "benchmarks/CHAOS-CLUSTER.md": "benchmarks/chaos-cluster.md",
    "examples/README.md": "examples/index.md",
}
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".service": "ini", "": "docker", ".c": "c"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)#\s]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Make the site in build/site."""
    place = ROOT / "build" / "site"
    if wrong := make_site(ROOT / "build" / "docs", place):
        print(wrong, file=sys.stderr)
        return 1
    here = os.path.relpath(place)
    print(f"the documentation is in {here}/index.html; with search: python3 -m http.server -d {here}")
    return 0


def make_site(stage: Path, site: Path) -> str:
    """Bring the pages together in one place, let them be rendered into another, and give what is wrong with them."""
    shutil.rmtree(stage, ignore_errors=True)
    for place, text in staged():
        path = stage / "pages" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, Path):
            shutil.copyfile(text, path)
        else:
            path.write_text(text, encoding="utf-8")
    shutil.copyfile(ROOT / "docs" / "zensical.toml", stage / "zensical.toml")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    environ = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=stage, env=environ, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        return done.stdout[-6000:] + done.stderr[-500:]
    shutil.rmtree(site, ignore_errors=True)
    (stage / "site").rename(site)
    return ""


def staged() -> Iterator[tuple[str, str | Path]]:
    """Give every file of the site: its place, and its text or the file that it is a copy of."""
    for source in sources():
        place = place_of(source)
        assert place is not None
        if source.suffix == ".md":
            yield place, with_links(source, source.read_text(encoding="utf-8"))
        elif source.suffix == ".ipynb":
            yield place, notebook(source)
        elif place.endswith(".md"):
            yield place, code_page(source)
        else:
            yield place, source


def sources() -> list[Path]:
    """Give every file of the repository that the site has."""
    docs = [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".txt", ".svg", ".png")]
    others = [ROOT / name for name in PLACES if name != "README.md"]
    pictures = list((ROOT / "benchmarks").glob("*.svg"))
    examples = [
        path for path in (ROOT / "examples").rglob("*") if path.is_file() and path.suffix not in (".md", ".pyc")
    ]
    return sorted([*docs, *others, *pictures, *examples])


def place_of(source: Path) -> str | None:
    """Give the place of a file in the site, or None if it has none."""
    if source.is_dir():
        source /= "README.md"
    name = source.relative_to(ROOT).as_posix()
    if name in PLACES:
        return PLACES[name]
    if name.startswith("docs/") and source.suffix in (".md", ".txt", ".svg", ".png"):
        return re.sub(r"README\.md$", "index.md", name.removeprefix("docs/"))
    if name.startswith("benchmarks/") and source.suffix == ".svg":
        return name
    if name.startswith("examples/") and source.is_file():
        return f"{name}.md"
    return None


def with_links(source: Path, text: str) -> str:
    """Give the text of a page with links that lead to the same pages in the site."""
    here = place_of(source)
    assert here is not None

    def moved(found: re.Match[str]) -> str:
        mark, words, target, anchor = found.groups()
        place = place_of((source.parent / target).resolve())
        if place is None:
            return str(words)
        way = os.path.relpath(place, Path(here).parent.as_posix())
        return f"{mark}[{words}]({way}{anchor or ''})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def code_page(source: Path) -> str:
    """Give a page that shows a file of the examples."""
    name = source.relative_to(ROOT).as_posix()
    return f"# {source.name}\n\n`{name}`\n\n```{LANGUAGES.get(source.suffix, '')}\n{source.read_text('utf-8')}```\n"


def notebook(source: Path) -> str:
    """Give the cells of a notebook as a page."""
    cells = json.loads(source.read_text(encoding="utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
    return "\n\n".join(f"```python\n{text}\n```" if is_code else text for text, is_code in texts) + "\n"


if __name__ == "__main__":
    sys.exit(main())

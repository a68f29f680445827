"""The documentation site: built strictly, whole, searchable, and with nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import make_site

import crosswind

ROOT = Path(__file__).resolve().parents[2]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from a source of its own."""
    folder = tmp_path_factory.mktemp("site")
    make_site.lay_out(folder / "source")
    built = build(folder)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    return folder / "site"


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    text = text.replace("docs_dir: build/site-source", f"docs_dir: {folder / 'source'}")
    text = text.replace("site_dir: build/site", f"site_dir: {folder / 'site'}")
    text = text.replace("paths: [src]", f"paths: [{ROOT / 'src'}]")
    (folder / "mkdocs.yml").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(folder / "mkdocs.yml"),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_every_page_is_there_and_is_found_by_search(site: Path) -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert len(pages) > 60
    for path in pages:
        name = path.relative_to(ROOT).with_suffix(".html").as_posix()
        assert (site / name.replace("README.html", "index.html")).is_file(), name
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["title"] for entry in index["docs"]}
    assert {"Installing", "Extending Crosswind", "An estimator", "Security"} <= titles
    assert any("cluster" in entry["location"] for entry in index["docs"])


@pytest.mark.slow
def test_the_reference_shows_what_is_exported_and_what_plug_ins_are_written_against(
    site: Path,
) -> None:
    page = (site / "api" / "python.html").read_text(encoding="utf-8")
    for name, module in crosswind._HOMES.items():
        assert f'id="{module}.{name}"' in page, name
    methods = (site / "api" / "methods.html").read_text(encoding="utf-8")
    for name in ("Method.loss", "Method.stage", "Batch", "RunContext.descend"):
        assert f'id="crosswind.methods.base.{name}"' in methods, name
    checks = (site / "api" / "testing.html").read_text(encoding="utf-8")
    for kind in ("method", "estimator", "source", "model"):
        assert f'id="crosswind.testing.{kind}s.check_{kind}"' in checks
    assert "crosswind.testing.methods._MethodUnderTest" not in checks


@pytest.mark.slow
def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    pattern = re.compile(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+"')
    for path in site.rglob("*.html"):
        fetched = [
            tag
            for tag in pattern.findall(path.read_text(encoding="utf-8"))
            if "canonical" not in tag
        ]
        assert not fetched, (path.name, fetched[:2])


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_long_table_is_searched_in_place(site: Path, width: int, scheme: Any) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.goto((site / "docs" / "guides" / "choosing-a-method.html").as_uri())
        field = page.get_by_label("Rows with all of these words").last
        body = page.locator("table", has_text="gain in the worst group").locator("tbody tr")
        before = body.count()
        field.fill("tied groupdro")
        shown = [row for row in body.all() if row.is_visible()]
        assert before > 50 and len(shown) == 1
        assert "tied" in shown[0].inner_text() and "groupdro" in shown[0].inner_text()
        assert page.get_by_role("status").last.inner_text().strip() == f"1 of {before} rows"
        # The page does not scroll to the side, whatever its widest table.
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        chromium.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("[gone](docs/guides/no-such-page.md)", "no-such-page.md"),
        ("[gone](docs/guides/install.md#no-such-title)", "no-such-title"),
    ],
)
def test_a_dead_link_ends_the_build(words: str, complaint: str, tmp_path: Path) -> None:
    make_site.lay_out(tmp_path / "source")
    with (tmp_path / "source" / "README.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{words}\n")
    built = build(tmp_path)
    assert built.returncode != 0 and complaint in built.stderr


def test_every_guide_has_its_place_in_the_menu() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    menu = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    named = {
        page
        for entry in menu
        for pages in (entry.values() if isinstance(entry, dict) else [[entry]])
        for page in pages
    }
    guides = {
        path.relative_to(ROOT).as_posix()
        for room in ("guides", "papers", "reference")
        for path in (ROOT / "docs" / room).glob("*.md")
    }
    assert guides <= named, guides - named
    assert {f"api/{page}.md" for page in make_site.REFERENCE} <= named

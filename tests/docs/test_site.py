"""The documentation site: built strictly, whole, searchable, and with nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import griffe
import pytest
import yaml
from tools import make_site

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
def test_the_reference_has_an_entry_for_every_public_name(site: Path) -> None:
    pages = {
        page: (site / "api" / f"{page}.html").read_text(encoding="utf-8")
        for page in make_site.REFERENCE
    }
    entries = [name for name, _ in public_objects()]
    assert len(entries) > 650
    anchors = set(re.findall(r'id="(crosswind[\w.]*)"', "".join(pages.values())))
    assert not set(entries) - anchors, sorted(set(entries) - anchors)
    assert not {anchor for anchor in anchors if re.search(r"\._(?!_)", anchor)}


def public_objects() -> list[tuple[str, griffe.Object]]:
    """What the reference shows, by its full name: objects, and the members of classes and
    modules."""
    package = griffe.load("crosswind", search_paths=[ROOT / "src"])
    shown = [name for _, names in make_site.REFERENCE.values() for name in names]
    shown += [
        f"{module}.{name}"
        for page in make_site.ABOUT
        for name, module in make_site.exported(page).items()
    ]
    objects: dict[str, griffe.Object] = {}
    waiting = [package[name.removeprefix("crosswind.")] for name in shown]
    while waiting:
        entry = waiting.pop()
        objects[entry.path] = entry
        if entry.is_module or entry.is_class:
            members = entry.members.items()
            waiting += [
                member
                for name, member in members
                if not name.startswith("_") and not member.is_alias
            ]
    return list(objects.items())


def is_documented(entry: griffe.Object) -> bool:
    """Whether it has a docstring; a field may be named in that of its class or of a base, or be a
    knob with a phrase of its own."""
    if entry.docstring:
        return True
    parent = entry.parent
    if not entry.is_attribute or parent is None or not parent.is_class:
        return False
    if "knob(" in str(entry.value):
        return re.search(r"""\bdoc=\(?['"]""", str(entry.value)) is not None
    return any(
        described.docstring
        and re.search(rf"`[^`]*\b{entry.name}\b[^`]*`", described.docstring.value)
        or entry.name in described.members
        and described.members[entry.name].docstring
        for described in [parent, *parent.mro()]
    )


@pytest.mark.slow
def test_every_public_name_says_what_it_is() -> None:
    objects = public_objects()
    kinds = Counter(entry.kind.value for _, entry in objects)
    assert kinds["class"] > 70 and kinds["function"] > 200 and kinds["attribute"] > 350, kinds
    silent = [name for name, entry in objects if not is_documented(entry)]
    assert not silent, silent


def test_what_is_promised_to_stay_is_what_the_reference_shows() -> None:
    page = (ROOT / "docs" / "reference" / "stability.md").read_text(encoding="utf-8")
    promised = page[page.index("* what a plug-in is written against") : page.index("* stores:")]
    names = {f"crosswind.{name}" for name in re.findall(r"`([a-z_]+\.[\w.]+)`", promised)}
    shown = {name for _, names in make_site.REFERENCE.values() for name in names}
    assert len(shown) == 23
    assert names - {"crosswind.crosswind.testing"} == shown


def test_a_plug_in_of_the_guide_needs_only_what_is_promised_to_stay() -> None:
    texts = [(ROOT / "docs" / "guides" / "extending.md").read_text(encoding="utf-8")]
    starts = [*(ROOT / "src" / "crosswind" / "cli" / "starts").glob("*.py.txt")]
    examples = [*(ROOT / "examples").glob("own_*.py")]
    assert (len(starts), len(examples)) == (7, 5)
    texts += [path.read_text(encoding="utf-8") for path in starts + examples]
    imports = {
        (module, name.strip())
        for text in texts
        for module, names in re.findall(r"^from (crosswind\.[\w.]+) import (.+)$", text, flags=re.M)
        for name in names.split(",")
    }
    assert len(imports) > 35
    shown = {name for _, names in make_site.REFERENCE.values() for name in names}
    beyond = {
        (module, name)
        for module, name in imports
        if not {module, f"{module}.{name}"} & shown and module != "crosswind.testing"
    }
    assert not beyond, beyond


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
def test_dead_links_end_the_build(tmp_path: Path) -> None:
    """A page and a title that are not there: each is a warning, and any warning ends it."""
    make_site.lay_out(tmp_path / "source")
    with (tmp_path / "source" / "README.md").open("a", encoding="utf-8") as page:
        for target in ("no-such-page.md", "install.md#no-such-title"):
            page.write(f"\n[gone](docs/guides/{target})\n")
    built = build(tmp_path)
    assert built.returncode != 0
    assert "Aborted with 2 warnings in strict mode" in built.stdout + built.stderr
    warnings = [line for line in built.stderr.splitlines() if line.startswith("WARNING")]
    for complaint in ("no-such-page.md", "no-such-title"):
        assert sum(complaint in line for line in warnings) == 1, warnings


def test_every_page_has_its_place_in_the_menu() -> None:
    """Those of single methods follow from their table, those of decisions from one another."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    menu = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    named = {
        page
        for entry in menu
        for pages in (entry.values() if isinstance(entry, dict) else [[entry]])
        for page in pages
    }
    linked = {
        path.relative_to(ROOT)
        for path in make_site.linked_files()
        if path.suffix == ".md" and path.parent != ROOT / "decisions"
    }
    methods = {path for path in linked if path.parent == Path("docs/methods")}
    asked = {path.as_posix() for path in linked - methods | {Path("docs/methods/README.md")}}
    assert len(asked) > 35 and asked <= named, asked - named
    assert {f"api/{page}.md" for page in make_site.REFERENCE} <= named

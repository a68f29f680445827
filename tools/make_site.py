"""Lay out what the documentation site is built from, and build it.

    python -m tools.make_site               lay out build/site-source and build build/site
    python -m tools.make_site --only-lay    lay out alone
    python -m tools.make_site --not-run     without the outputs of examples and the pages of the gallery

The source is the part of the repository that its pages link to, at the same paths, so that every
relative link means the same here as in a checkout: README.md is the first page. Files that are no
page, such as studies, are served as they are. The pages of `api` are made here, one for each row of
`REFERENCE`: what `crosswind` itself exports, what plug-ins are written against, and the checks. The
examples are run as notebooks (`tools/notebooks.py`), and a gallery of reports is made
(`tools/gallery.py`), in two minutes together. MkDocs builds strictly: a link that leads nowhere, an
anchor that is not there and a page that is in no menu end it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools import gallery, notebooks

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"
SCRIPT = ROOT / "tools" / "site" / "filter.js"
FIRST = ("README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")

REFERENCE: dict[str, tuple[str, tuple[str, ...]]] = {
    "python": ("crosswind", ()),  # its exported names, see `exported`
    "methods": ("Writing a method", ("crosswind.methods.base", "crosswind.core.exhibits")),
    "estimators": (
        "Writing an estimator",
        ("crosswind.estimators.base", "crosswind.evaluation.metrics.metric"),
    ),
    "sources": (
        "Writing a source",
        (
            "crosswind.data.sources.base",
            "crosswind.data.dataset",
            "crosswind.data.attributes",
            "crosswind.core.cards",
            "crosswind.data.archives.arrays.Expected",
            "crosswind.data.archives.arrays.npz_rows",
            "crosswind.data.archives.arrays.read_arrays",
            "crosswind.data.sources.packed_trees.PackedTrees",
        ),
    ),
    "models": ("Writing a model", ("crosswind.models.build",)),
    "shifts": ("Writing a shift", ("crosswind.shifts.base",)),
    "transforms": (
        "Writing a transform",
        ("crosswind.transforms.base", "crosswind.transforms.draws"),
    ),
    "declarations": (
        "What a class declares",
        (
            "crosswind.core.registry.register",
            "crosswind.core.knobs",
            "crosswind.core.actions.Action",
            "crosswind.core.types",
            "crosswind.core.seeds",
        ),
    ),
    "testing": ("Checking a class", ()),  # its exported names
    "errors": ("Errors and the log", ("crosswind.core.errors", "crosswind.core.log")),
}
"""Page -> its title, and the modules or single objects that it shows.

A module is shown with all of its public names. `docs/reference/stability.md` names the same."""
ABOUT = {
    "python": "What `import crosswind as cw` offers; every name is `cw.NAME`.",
    "testing": "What `crosswind.testing` offers. Nothing in it needs pytest.",
}
"""Page -> the sentence below its title."""


def links(text: str) -> list[str]:
    """The relative paths that a page links to, without anchors."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    paths = (target.partition("#")[0] for target in targets if ":" not in target)
    return [path for path in paths if path]


def linked_files() -> Iterator[Path]:
    """The pages of the site and every file that they link to, however many links away."""
    waiting = [ROOT / name for name in FIRST] + sorted((ROOT / "docs").rglob("*.md"))
    reached: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        yield path
        if path.suffix == ".md":
            for link in links(path.read_text(encoding="utf-8")):
                target = (path.parent / link).resolve()
                if target.is_file() and target.is_relative_to(ROOT):
                    waiting.append(target)


def exported(page: str) -> dict[str, str]:
    """The exported names of `crosswind` or `crosswind.testing`, each with the module that defines
    it."""
    import crosswind
    import crosswind.testing as checks

    if page == "python":
        return dict(sorted(crosswind._HOMES.items()))
    return {name: getattr(checks, name).__module__ for name in checks.__all__}


def reference_page(page: str) -> str:
    """The text of a page of the reference."""
    title, shown = REFERENCE[page]
    begin = f"# {title}\n\n"
    if page in ABOUT:
        objects = [f"::: {module}.{name}\n" for name, module in exported(page).items()]
        return f"{begin}{ABOUT[page]}\n\n" + "\n".join(objects)
    options = "    options:\n      show_root_heading: true\n      show_root_full_path: true\n"
    return begin + "\n".join(f"::: {name}\n{options}" for name in shown)


def lay_out(source: Path = SOURCE, run: bool = False) -> None:
    """Write the source of the site anew. `run`: with what examples print, and the gallery's
    pages."""
    if source.exists():
        shutil.rmtree(source)
    for path in linked_files():
        target = source / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    shutil.copyfile(SCRIPT, source / SCRIPT.name)
    for page in REFERENCE:
        target = source / "api" / f"{page}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(reference_page(page), encoding="utf-8")
    notebooks.write_notebooks(source / "notebooks", run)
    if run:
        gallery.make_pages(source / "gallery")
    (source / "gallery").mkdir(exist_ok=True)
    index = gallery.index_of(source / "gallery")
    (source / "gallery" / "README.md").write_text(index, encoding="utf-8")


def main() -> int:
    """Lay out, and build unless that is all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only-lay", action="store_true")
    parser.add_argument("--not-run", action="store_true")
    options = parser.parse_args()
    lay_out(run=not options.not_run)
    if options.only_lay:
        return 0
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

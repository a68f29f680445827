"""The gallery of the site: report pages of small studies, made anew where the site is built.

Everything is made by the command line, in seconds each: the numbers are those of a few short runs
and show what a page looks like, not what methods do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.release_check import write_inputs

ROOT = Path(__file__).resolve().parents[1]
PAGES: dict[str, tuple[str, tuple[tuple[str, ...], ...], str]] = {
    "demo": (
        "Handwritten digits whose ink goes with the digit in training: the demo, at its tiny scale",
        (("run", "demo", "--scale", "tiny", "--out", "demo"),),
        "demo/report.html",
    ),
    "table": (
        "A table of fruits whose season goes with ripeness: the study that `crosswind init` writes",
        (
            ("init", "fruit.csv", "--label", "ripeness"),
            ("run", "fruit.yaml", "--out", "fruit", "--set", "split_seeds=5"),
        ),
        "fruit/report.html",
    ),
    "estimate": (
        "The accuracy of a model on rows without labels, from its scores alone",
        (
            ("estimate", "--predictions", "new.csv", "--source", "known.csv", "--label", "truth")
            + ("--out", "estimate.html"),
        ),
        "estimate.html",
    ),
}
"""Page -> what it is of, the commands that make it, and the file that they write."""


def make_pages(folder: Path) -> None:
    """Write every page of `PAGES` into `folder`; raises CalledProcessError where a command fails."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        write_inputs(Path(work))
        for name, (_, commands, file) in PAGES.items():
            for words in commands:
                subprocess.run(
                    [sys.executable, "-m", "crosswind", *words],
                    cwd=work,
                    env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=True,
                )
            shutil.copyfile(Path(work) / file, folder / f"{name}.html")


def index_of(folder: Path) -> str:
    """The first page of the gallery, in Markdown: a link for each page that is in `folder`."""
    about = (
        "# Report pages\n\nPages as Crosswind writes them, each one file without anything from"
        " elsewhere, made together with this site from a few short runs: look at their form, not at"
        " their numbers.\n"
    )
    for name, (title, commands, _) in PAGES.items():
        heading = f"[{title}]({name}.html)" if (folder / f"{name}.html").is_file() else title
        lines = "\n".join(f"    crosswind {' '.join(words)}" for words in commands)
        about += f"\n{heading}:\n\n{lines}\n"
    return about

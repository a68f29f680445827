"""The examples as notebooks and the gallery of reports: whole, run, and shown on the site."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.docs.test_site import build
from tools import gallery, make_site, notebooks
from tools.release_check import SMOKE

from crosswind.cli.main import _status

ROOT = Path(__file__).resolve().parents[2]


def test_every_short_example_is_a_notebook_in_the_menu() -> None:
    programs = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert programs - {*notebooks.EXAMPLES} == {"tiny_foundation_models"}  # it writes models alone
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    menu = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    (entries,) = (entry["Examples"] for entry in menu if "Examples" in entry)
    assert entries == [f"notebooks/{name}.md" for name in notebooks.EXAMPLES] + [
        "gallery/README.md"
    ]


@pytest.mark.parametrize("name", notebooks.EXAMPLES)
def test_a_notebook_holds_its_whole_example(name: str) -> None:
    notebook = notebooks.notebook_of(name)
    title, *code = (cell.source for cell in notebook.cells)
    program = ast.parse((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"))
    docstring, *statements, last = program.body
    assert isinstance(last, ast.If) and isinstance(docstring, ast.Expr)
    assert [ast.unparse(statement) for statement in ast.parse("\n".join(code)).body] == [
        *map(ast.unparse, statements),
        "main()",
    ]
    assert title.startswith("# ") and "python examples/" not in title and "Takes about" in title
    page = notebooks.page_of(name, notebook)
    assert page.count("```python\n") == len(code) and f"({name}.ipynb)" in page
    assert "output" not in page.replace("outputs", "")


def test_what_a_cell_gave_is_shown_once() -> None:
    def cell(*cell_outputs: dict[str, object]) -> str:
        fields = {"outputs": [notebooks.NotebookNode(fields) for fields in cell_outputs]}
        return notebooks.shown_output(notebooks.NotebookNode(fields))

    printed = {"output_type": "stream", "name": "stdout", "text": "a < b\n\nc\n"}
    warned = {"output_type": "stream", "name": "stderr", "text": "beware"}
    value = {"output_type": "execute_result", "data": {"text/plain": "{1: 2}"}}
    rich = {"output_type": "execute_result", "data": {"text/html": "<b>x</b>\n\n<i>y</i>"}}
    assert cell() == cell(warned) == ""
    assert cell(value) == '<pre class="output">{1: 2}</pre>'
    assert cell(printed, warned, value) == '<pre class="output">a &lt; b\n&#8203;\nc</pre>'
    assert cell(printed, rich) == '<div class="output">\n<b>x</b>\n<i>y</i>\n</div>'


@pytest.mark.slow
def test_a_cell_that_fails_ends_the_build() -> None:
    from nbclient.exceptions import CellExecutionError

    notebook = notebooks.notebook_of("own_shift")
    notebook.cells[-1].source = "no_such_name()"
    with pytest.raises(CellExecutionError, match="NameError"):
        notebooks.run_notebook(notebook)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_site_shows_what_the_examples_gave_and_the_gallery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a few training steps: their full lengths are in the tests of the examples. The commands of
    the gallery are done here."""
    run_notebook = notebooks.run_notebook

    def run_shortened(notebook: notebooks.NotebookNode) -> None:
        for cell in notebook.cells:
            cell.source = re.sub(r"\bsteps(\"?: |: int = )\d+", r"steps\g<1>10", cell.source)
        run_notebook(notebook)

    def run_here(words: list[str], cwd: Path, **settings: Any) -> None:
        with monkeypatch.context() as context:
            context.chdir(cwd)
            assert words[1:3] == ["-m", "crosswind"] and _status(words[3:]) == 0

    monkeypatch.setattr(notebooks, "run_notebook", run_shortened)
    programs = SimpleNamespace(run=run_here, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(gallery, "subprocess", programs)
    about, (init, _), file = gallery.PAGES["table"]
    short_run = SMOKE["study of the table"][0][1:]
    monkeypatch.setitem(gallery.PAGES, "table", (about, (init, short_run), file))
    make_site.lay_out(tmp_path / "source", run=True)
    built = build(tmp_path)
    assert built.returncode == 0, built.stderr[-3000:]
    words = {
        "from_python": "240 training rows, 360 test rows, 30 groups",
        "own_data": "Findings of birds (2 seeds",
        "own_method": "top-loss",
        "own_last_layer": "dfr",
        "own_estimator": "atc-margin",
        "own_shift": "large digits unseen: 280 training rows",
    }
    assert [*words] == [*notebooks.EXAMPLES]
    for name, shown in words.items():
        page = (tmp_path / "site" / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        assert shown in page.partition('class="output"')[2], name
        assert (tmp_path / "site" / "notebooks" / f"{name}.ipynb").is_file()
    index = (tmp_path / "site" / "gallery" / "index.html").read_text(encoding="utf-8")
    assert len(gallery.PAGES) == 3
    for name in gallery.PAGES:
        assert f'href="{name}.html"' in index
        page = (tmp_path / "site" / "gallery" / f"{name}.html").read_text(encoding="utf-8")
        assert page.lower().startswith("<!doctype html>")

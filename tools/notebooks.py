"""The examples as notebooks, and as the pages of the site that show them with what they printed.

A program of `examples` becomes a notebook: its docstring is a cell of text, its imports are one cell
of code, every definition is a further one, and the last one calls `main`. Notebooks are run in an
empty folder, so that nothing that they write is left.
"""

from __future__ import annotations

import ast
import html
import re
import tempfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ("from_python", "own_data", "own_method", "own_last_layer", "own_estimator", "own_shift")
"""The programs of `examples` that are shown, in the order of the menu."""
_COMMAND = re.compile(r"\n\n    python examples/\S+.*$", flags=re.M)


def notebook_of(name: str) -> NotebookNode:
    """The notebook of an example, not run yet."""
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    body = ast.parse(text).body
    title, _, about = _COMMAND.sub("", _docstring(body)).partition("\n")
    cells = [new_markdown_cell(f"# {title.rstrip('.:')}\n{about}".strip())]
    lines = text.splitlines()
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    cells.append(new_code_cell("\n".join(_lines_of(node, lines) for node in imports)))
    rest = [node for node in body[1:-1] if not isinstance(node, ast.Import | ast.ImportFrom)]
    cells += [new_code_cell(_lines_of(node, lines)) for node in rest]
    cells.append(new_code_cell("main()"))
    for number, cell in enumerate(cells):
        cell["id"] = f"{name.replace('_', '-')}-{number}"  # the same in every build
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _docstring(body: list[ast.stmt]) -> str:
    first = body[0]
    assert isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return str(first.value.value)


def _lines_of(node: ast.stmt, lines: list[str]) -> str:
    """The text of a statement with its decorators, and the comment above it."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return "\n".join(lines[first : node.end_lineno])


def run_notebook(notebook: NotebookNode) -> None:
    """Run a notebook in an empty folder; raises nbclient's CellExecutionError where a cell fails."""
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, startup_timeout=300, resources=resources).execute()


def page_of(name: str, notebook: NotebookNode) -> str:
    """The page of a notebook in Markdown: its cells, and below each what it gave."""
    blocks = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            blocks.append(cell.source)
            blocks.append(f"This page is a notebook: [{name}.ipynb]({name}.ipynb).")
        else:
            blocks.append(f"```python\n{cell.source}\n```")
            blocks.append(shown_output(cell))
    return "\n\n".join(block for block in blocks if block) + "\n"


def shown_output(cell: NotebookNode) -> str:
    """What a cell gave, as HTML: a value that has a form for notebooks, else what was printed, else
    the value as text; empty where there is nothing."""
    printed, values = "", list[str]()
    for output in cell.get("outputs", ()):
        if output.output_type == "stream":
            printed += output.text if output.name == "stdout" else ""
        elif "text/html" in (rich := output.get("data", {})):
            # Without empty lines, at which Markdown would end the block.
            lines = [line for line in rich["text/html"].splitlines() if line.strip()]
            return "\n".join(['<div class="output">', *lines, "</div>"])
        elif "text/plain" in rich:
            values.append(rich["text/plain"])
    text = html.escape(printed or "\n".join(values), quote=False).rstrip()
    filled = "\n".join(line or "&#8203;" for line in text.splitlines())
    return f'<pre class="output">{filled}</pre>' if text else ""


def write_notebooks(folder: Path, run: bool) -> None:
    """Write the notebook and the page of every example into `folder`; `run` them first, or leave
    their outputs out."""
    folder.mkdir(parents=True)
    for name in EXAMPLES:
        notebook = notebook_of(name)
        if run:
            run_notebook(notebook)
        nbformat.write(notebook, folder / f"{name}.ipynb")
        (folder / f"{name}.md").write_text(page_of(name, notebook), encoding="utf-8")

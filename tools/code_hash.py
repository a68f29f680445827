"""A hash of what a Python file does: neither its layout, comments and docstrings nor the names that
only it can see are in it.

Records of effects and of costs hold the hash of the files that they are of. An edit of words or a
renamed variable gives the same figures, and must not ask for hours of runs.
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def code_hash(path: Path) -> str:
    """The SHA-256 of the syntax tree of a Python file without its docstrings, in hexadecimal.

    Names bound in a function count by their order of appearance, and so do names with one leading
    underscore. Parameters of functions without an underscore are named by callers and count as they
    are. Raises `OSError` and `SyntaxError`.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    _drop_docstrings(tree)
    _drop_places(tree)
    _number(tree, _outermost(tree))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _drop_docstrings(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            code = [item for item in body if not _is_text(item)]
            node.body = code or [ast.Pass()]  # type: ignore[attr-defined]


def _drop_places(tree: ast.Module) -> None:
    """Forget which modules of the package names come from: a module that moves does the same."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crosswind"):
            node.module = "crosswind"


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _outermost(tree: ast.AST) -> list[ast.AST]:
    """Functions that stand in no other function."""
    outermost: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            (outermost if isinstance(child, FUNCTIONS) else waiting).append(child)
    return sorted(outermost, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]


def _number(tree: ast.Module, functions: list[ast.AST]) -> None:
    for function in functions:
        _rename(function, _local_names(function))
    hidden = {name for node in ast.walk(tree) for name in _names(node) if _is_hidden(name)}
    _rename(tree, hidden)


def _is_hidden(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _local_names(function: ast.AST) -> set[str]:
    """Names that a function and those inside it bind, but for what callers may name and for
    globals."""
    bound: set[str] = set()
    outside: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg | ast.ExceptHandler):
            bound.add((node.arg if isinstance(node, ast.arg) else node.name) or "")
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outside.update(node.names if isinstance(node, ast.Global) else ())
        elif (
            isinstance(node, FUNCTIONS)
            and node is not function
            and not isinstance(node, ast.Lambda)
        ):
            bound.add(node.name)
        elif isinstance(node, ast.MatchAs | ast.MatchStar):
            bound.add(node.name or "")
    if not isinstance(function, ast.Lambda) and not _is_hidden(function.name):  # type: ignore[attr-defined]
        arguments = function.args  # type: ignore[attr-defined]
        every = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        outside.update(item.arg for item in every if item is not None)
    return bound - outside - {""}


# The fields of nodes that hold a name, not the name of a keyword or of a module.
_FIELDS = ("id", "attr", "name")


def _names(node: ast.AST) -> list[str]:
    fields = ("arg",) if isinstance(node, ast.arg) else _FIELDS
    return [value for field in fields if isinstance(value := getattr(node, field, None), str)]


def _rename(tree: ast.AST, names: set[str]) -> None:
    """Replace names by numbers, in the order in which they appear; attributes only where the name
    is hidden."""
    numbers: dict[str, str] = {}
    for node in ast.walk(tree):
        fields = ("arg",) if isinstance(node, ast.arg) else _FIELDS
        for field in fields:
            name = getattr(node, field, None)
            if (
                isinstance(name, str)
                and name in names
                and (field != "attr" or _is_hidden(name))
                and not isinstance(node, ast.alias)
            ):
                setattr(node, field, numbers.setdefault(name, f"{len(numbers)}"))
        if isinstance(node, ast.Nonlocal):
            node.names = [
                numbers.setdefault(name, f"{len(numbers)}") if name in names else name
                for name in node.names
            ]

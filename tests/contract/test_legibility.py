"""What a reader's eye counts: names that say nothing, packed statements, long decisions, class names
that stand for two things. The budgets only fall."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Words that do not say what a value is: participles, places, pronouns, quantities.
EMPTY = frozenset(
    [
        "found",
        "place",
        "places",
        "part",
        "parts",
        "told",
        "said",
        "own",
        "given",
        "made",
        "kept",
        "held",
        "here",
        "there",
        "one",
        "other",
        "others",
        "many",
        "some",
        "item",
        "items",
        "thing",
        "things",
        "known",
        "asked",
        "rest",
        "at",
        "of",
        "near",
        "seen",
        "wanted",
        "what",
        "which",
        "whole",
        "both",
        "more",
        "most",
        "result",
        "results",
        "output",
        "outputs",
        "stuff",
        "obj",
        "tmp",
        "temp",
        "res",
        "ret",
        "val",
        "elem",
        "element",
        "foo",
        "bar",
    ]
)
FOLDERS = {"src": ROOT / "src" / "crosswind", "tests": ROOT / "tests"}
# Folder -> at most so many of 1,000 names may be empty.
EMPTY_OF_1000 = {"src": 8, "tests": 20}
# Syntax nodes of a simple statement, functions of more than 15 decisions, and class names that stand
# for two things, in the package.
NODES, COMPLEX, TWICE = 15.5, 24, 0
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.Raise, ast.Assert)
BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.IfExp,
    ast.ExceptHandler,
    ast.comprehension,
    ast.Assert,
    ast.match_case,
)


# Docstrings of the package whose first word is "What": it does not say what the thing is.
RIDDLES = 0


@cache
def nodes_of(folder: Path) -> list[ast.AST]:
    """Every node of a folder's files, read once for all tests."""
    paths = sorted(folder.rglob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    return [node for tree in trees for node in ast.walk(tree)]


def bound_names(folder: Path) -> Iterator[str]:
    """Names of variables and parameters, without the underscores of private ones."""
    for node in nodes_of(folder):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.strip("_")
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_")


def complexity(function: ast.AST) -> int:
    """Cyclomatic complexity of a function with all that is nested in it."""
    inside = list(ast.walk(function))
    branches = sum(isinstance(node, BRANCHES) for node in inside)
    choices = sum(len(node.values) - 1 for node in inside if isinstance(node, ast.BoolOp))
    return 1 + branches + choices


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_say_what_their_values_are(folder: str) -> None:
    counts = Counter(bound_names(FOLDERS[folder]))
    assert counts.total() > 10_000
    empty = {name: counts[name] for name in EMPTY if counts[name]}
    share = 1000 * sum(empty.values()) / counts.total()
    assert share <= EMPTY_OF_1000[folder], f"{share:.1f} of 1,000 names in {folder}: {empty}"


def test_statements_are_not_packed() -> None:
    sizes = [
        sum(1 for _ in ast.walk(node))
        for node in nodes_of(FOLDERS["src"])
        if isinstance(node, SIMPLE)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    assert len(sizes) > 10_000 and sum(sizes) / len(sizes) <= NODES


def test_few_functions_decide_much() -> None:
    functions = [
        complexity(node)
        for node in nodes_of(FOLDERS["src"])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 3_000 and sum(number > 15 for number in functions) <= COMPLEX


def test_few_class_names_stand_for_two_things() -> None:
    counts = Counter(
        node.name.strip("_") for node in nodes_of(FOLDERS["src"]) if isinstance(node, ast.ClassDef)
    )
    twice = sorted(name for name, number in counts.items() if number > 1)
    assert counts.total() > 500 and len(twice) <= TWICE, twice


def test_docstrings_begin_with_what_the_thing_is() -> None:
    docstrings = [
        ast.get_docstring(node) or ""
        for node in nodes_of(FOLDERS["src"])
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    riddles = [text for text in docstrings if text.startswith("What ")]
    assert len(docstrings) > 4_000 and len(riddles) <= RIDDLES, riddles

"""Is each deliberate break of breaks.yaml caught by the test that is named for it.

    python -m tools.breaks [--only NUMBER ...]    apply one break after the other and run its test alone
    python -m tools.breaks --find [--only ...]    look among the tests of `within` for the first that fails, and name it

A break is `what` (a sentence), `file` (below src/crosswind), `old` (text that stands there once),
`new`, and `test` (one test). Of a Python file the text is that of `ast.unparse`, so that layout and
comments do not matter. It is applied to a copy of the sources, never to the tree. Where code
was written anew, `what` and `test` stay, and `file`, `old` and `new` are put into its words. Exit
status 1 where a break is not caught, or its text is no longer found.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, settings

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".yaml")
FORK = multiprocessing.get_context("fork")
SECONDS = 600.0
LOADED = (
    "torch",
    "torchvision",
    "sklearn.cluster",
    "scipy.stats",
    "polars",
    "sqlalchemy",
    "pydantic",
    "typer",
    "jinja2",
    "safetensors.torch",
)
CAUGHT, MISSED, GONE, NO_TEST = (
    "caught",
    "NOT caught",
    "text not found once",
    "its test cannot be run",
)


def broken(source: str, item: dict[str, Any]) -> str | None:
    """The text of the file with the break in it; None where `old` does not stand there exactly
    once."""
    text = ast.unparse(ast.parse(source)) + "\n" if item["file"].endswith(".py") else source
    return text.replace(item["old"], item["new"]) if text.count(item["old"]) == 1 else None


def run(item: dict[str, Any], copy: Path, tests: list[str]) -> tuple[str, str]:
    """What became of a break under some tests, and the first test that failed. `copy` is a folder
    with src in it."""
    path = copy / "src" / "crosswind" / item["file"]
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    changed = broken(text, item)
    if changed is None:
        return GONE, ""
    path.write_text(changed, encoding="utf-8")
    ours, theirs = FORK.Pipe()
    child = FORK.Process(target=_tested, args=(copy, tests, theirs))
    child.start()
    theirs.close()
    try:
        if not ours.poll(SECONDS):
            return CAUGHT, "(did not end)"
        status, failed = ours.recv()
    except EOFError:
        return NO_TEST, "(its process ended)"
    finally:
        child.kill()
        child.join()
        path.write_text(text, encoding="utf-8")
    return (
        (CAUGHT, failed)
        if status == 1
        else (MISSED, "")
        if status == 0
        else (NO_TEST, f"pytest's exit status is {status}")
    )


def _tested(copy: Path, tests: list[str], answer: Connection) -> None:
    """Run tests on the sources in `copy`, in a process that has loaded everything but Crosswind
    already."""
    os.setsid()
    log = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.update(PYTHONPATH=str(copy / "src"), OMP_NUM_THREADS="1")
    sys.path.insert(0, str(copy / "src"))
    os.chdir(ROOT)
    failed: list[str] = []

    class First:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    # Failing examples of Hypothesis are not made smaller: that would take most of the time.
    options = [
        "-x",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "--hypothesis-profile=breaks",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    status = int(pytest.main([*options, *tests], plugins=[First()]))
    answer.send((status if not failed else 1, failed[0] if failed else ""))
    answer.close()
    os._exit(0)


def save(items: list[dict[str, Any]]) -> None:
    """Write the list back, the test of each included."""

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar(
            "tag:yaml.org,2002:str", value, style="|" if "\n" in value else None
        )

    Dumper.add_representer(str, text)
    LIST.write_text(
        yaml.dump(items, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10_000),
        encoding="utf-8",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--only", type=int, nargs="+", metavar="NUMBER", help="these breaks, counted from 1"
    )
    parser.add_argument(
        "--find", action="store_true", help="name the first test of `within` that catches a break"
    )
    options = parser.parse_args()
    items: list[dict[str, Any]] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in LOADED:  # once, and not for every break
        import_module(name)
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile(
        "breaks", derandomize=True, deadline=None, database=None, phases=phases
    )
    lines, bad = [], 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            ROOT / "src", Path(folder, "src"), ignore=shutil.ignore_patterns("__pycache__")
        )
        for number, item in enumerate(items, 1):
            if (options.only and number not in options.only) or (options.find and item["test"]):
                continue
            began = time.perf_counter()
            found, first = run(
                item, Path(folder), item["within"].split() if options.find else [item["test"]]
            )
            if options.find and found == CAUGHT and "::" in first:
                item["test"] = first
                save(items)
            bad += found != CAUGHT
            line = (
                f"{number:3} {found:20} {time.perf_counter() - began:4.0f} s  {item['room']}:"
                f" {item['what']}"
            )
            lines.append(line)
            print(line, flush=True)
            if found != CAUGHT:
                print(f"    {first or item['test']}", flush=True)
    rooms = sorted({item["room"] for item in items})
    print(f"{len(lines) - bad} of {len(lines)} breaks in {len(rooms)} rooms are caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

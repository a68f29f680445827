"""How far a reader goes through the package to follow a study: the files that a run passes through.

    python -m tools.ways
    PYTHONPATH=CHECKOUT/src python tools/ways.py      the same of another checkout

A small study is run in this process, and its report and page are written, while every function of
the package is noted when it is called for the first time. Of these, in the order of their calls:

    functions   how many there are
    stays       stretches of functions in one file: how often a reader turns to a file
    files       how many different files that are
    back        stays in a file that was left before
    rooms       stretches of functions in one room, a folder of the package
    if_moved    stays, if each function that one other file alone calls stood in that file
    unshared    stays, if the functions that three files or more call were not looked at

The study has four runs of a perceptron on digits, with an estimator. `estimate` is the way of the
first job of that kind alone. `splits` counts how often a split was computed inside it, and in all.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import crosswind
from crosswind.cli.main import _status

PACKAGE = str(Path(crosswind.__file__).resolve().parent)
IS_FUNCTION = 2
"""The flag CO_OPTIMIZED of code objects, which bodies of modules and classes lack."""
ESTIMATE = ("execution/jobs.py", "estimate")
SPLIT = "make_split"
STUDY = """\
name: ways
about: Four runs, to follow them.
data:
  digits:
    source: digits
    options: {size: 8, one_size: true}
    label: half
    attributes: [ink, background]
    roles: {test: 25, validation: 0.15}
shifts:
  none: []
  SC: {type: spurious-correlation, attribute: ink, counterexamples: 0.15}
groups: [ink]
models: {mlp: {layers: 2}}
methods: [erm]
estimators: [average-confidence]
training: {steps: 4, batch: 16, lr: 0.001, validate_every: 2, patience: null}
seeds: 2
"""


class Way:
    """The functions of the package in the order of their first calls, as (file, name)."""

    def __init__(self) -> None:
        self.functions: list[tuple[str, str]] = []
        self.splits = 0
        self._seen: set[CodeType] = set()
        self._callers: dict[tuple[str, str], set[str]] = {}

    def enter(self, code: CodeType, caller_file: str) -> None:
        """Note a call from a file of the package, "" where none has called."""
        function = (file_of(code), code.co_qualname)
        self._callers.setdefault(function, set()).add(caller_file)
        if code.co_qualname == SPLIT:
            self.splits += 1
        if code in self._seen:
            return
        self._seen.add(code)
        if code.co_flags & IS_FUNCTION and not code.co_name.startswith("<"):
            self.functions.append(function)

    def counts(self) -> dict[str, int]:
        """The figures that the module's docstring names."""
        files = [file for file, _ in self.functions]
        stays = [file for file, _ in groupby(files)]
        rooms = [room for room, _ in groupby(file.split("/")[0] for file in files)]
        return {
            "functions": len(files),
            "stays": len(stays),
            "files": len(set(files)),
            "back": len(stays) - len(set(stays)),
            "rooms": len(rooms),
            "if_moved": len(list(groupby(self._home(function) for function in self.functions))),
            "unshared": len(
                list(groupby(file for file, name in self.functions if not self._shared(file, name)))
            ),
            "splits": self.splits,
        }

    def _home(self, function: tuple[str, str]) -> str:
        """The file of a function, that of its callers where they are of one file."""
        callers = self._callers[function]
        return next(iter(callers)) if len(callers) == 1 and "" not in callers else function[0]

    def _shared(self, file: str, name: str) -> bool:
        return len(self._callers[file, name]) >= 3


def file_of(code: CodeType) -> str:
    """The file of a function of the package, from the package's folder."""
    return code.co_filename[len(PACKAGE) + 1 :]


def file_that_calls(frame: FrameType) -> str:
    """The file of the package that a call came from, through libraries or not; "" from outside."""
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
        caller = caller.f_back
    return file_of(caller.f_code) if caller is not None else ""


def followed() -> dict[str, Way]:
    """The ways of a study from YAML to its page, and of its first estimate."""
    study_way, estimate_way = Way(), Way()
    depth = 0
    is_over = False

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth, is_over
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        is_estimate = (file_of(code), code.co_qualname) == ESTIMATE
        if event == "return":
            is_over = is_over or is_estimate
            return
        caller_file = file_that_calls(frame)
        study_way.enter(code, caller_file)
        depth += is_estimate
        if depth and not is_over:
            estimate_way.enter(code, caller_file)

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        study = Path(folder) / "ways.yaml"
        study.write_text(STUDY, encoding="utf-8")
        store = f"{folder}/store"
        sys.setprofile(profile)
        try:
            crosswind.run_study(study, out=store, workers=0)
            status = _status(["report", store])
        finally:
            sys.setprofile(None)
    assert status == 0
    return {"a study from YAML to its page": study_way, "an estimate": estimate_way}


def main() -> None:
    for name, way in followed().items():
        print(f"{name}: " + ", ".join(f"{count} {what}" for what, count in way.counts().items()))


if __name__ == "__main__":
    main()

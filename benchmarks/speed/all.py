"""Every figure of speed that has a goal, by one command, as one table: each program of this folder
is run by itself and what it prints is read.

    python benchmarks/speed/all.py [--only step,loop] [--rounds 3] [--beside CHECKOUT]

A program alternates both sides of its figure in one process. With `--beside` the same program of an
older checkout, run with the package of that checkout, takes turns with this one: old, new, new, old.
The table then has the older figure, and the newer over the older one. What was measured at this
commit is kept in `benchmarks/results/speed.json` and not measured again; `--only` at another commit
measures these programs anew and says so below the table's head; `--table` writes the table from the
record into `benchmarks/speed/README.md` and measures nothing. A program that fails, or whose output
has no figure, has a row that says so.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "benchmarks/results/speed.json"
README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- begin: speed -->", "<!-- end: speed -->"
REACHED = 0.85
"""The share of a goal that counts as reached, see `benchmarks/README.md`."""
AS_BEFORE = 0.9
"""The share of the older figure that counts as no worse: rounds on a shared machine differ by so
much."""
POINTS = 1.0
"""The same of a percentage."""
FAILED = "failed: "


@dataclass(frozen=True)
class Pattern:
    """How a program prints one kind of figure: a value with its range, of something named.

    `regex` has the groups `value`, `low`, `high` where the range is printed, and what `name` is
    filled from. `goals`: name -> goal. `smaller`: a smaller value is the better one. `exact`: the whole goal is asked
    for, not `REACHED` of it.
    """

    regex: str
    name: str
    unit: str
    goals: dict[str, float] = field(default_factory=dict)
    goal: float | None = None
    smaller: bool = False
    exact: bool = False

    def figures(self, printed: str) -> Iterator[tuple[str, list[float]]]:
        """Names with [value, low, high]."""
        for match in re.finditer(self.regex, printed, re.MULTILINE):
            groups = match.groupdict()
            numbers = [groups["value"], groups.get("low"), groups.get("high")]
            value, low, high = (
                float(text.replace(",", "")) if text else float("nan") for text in numbers
            )
            named = {key: text.strip() for key, text in groups.items() if text}
            yield self.name.format(**named), [value, low, high]


@dataclass(frozen=True)
class Program:
    """A program of this folder: the options of a short run, the peer it has beside it, and its
    figures.

    `asks_older`: the option by which the program itself asks an older checkout in turns, on the same
    data; its figures are printed beside ours, under "old" in place of "new".
    """

    name: str
    peer: str
    patterns: tuple[Pattern, ...]
    options: tuple[str, ...] = ()
    rounds: bool = True
    file: str = ""
    asks_older: str = ""

    def command(self, checkout: Path, rounds: int) -> list[str]:
        """The command in a checkout, which may be of before the folder `speed` was there."""
        file = f"{self.file or self.name}.py"
        paths = [checkout / "benchmarks/speed" / file, checkout / "benchmarks" / file]
        path = next(filter(Path.exists, paths), paths[0])
        counted = ["--rounds", str(rounds)] if self.rounds else []
        return [sys.executable, str(path), *self.options, *counted]


RANGE = r"\((?P<low>[\d.,]+)%?(?:-| to )(?P<high>[\d.,]+)%?\)"
VALUE = r"(?P<value>[\d.,]+)"
EVALUATION_GOALS = {"small-cnn": (3.4, 4.5), "resnet-w16": (2.8, 2.1), "resnet18": (2.05, 8)}
PICTURE_GOALS = {
    "crop + flip": 2.0,
    "crop + flip + jitter (exact hue)": 2.2,
    "randaugment": 2.3,
    "augmix": 2.7,
    "trivialaugment": 3.4,
}
CORRUPTION_GOALS = {
    **dict.fromkeys(("gaussian-noise", "gaussian-blur"), 4.0),
    **dict.fromkeys(("shot-noise", "impulse-noise", "speckle-noise", "defocus-blur"), 0.7),
    **dict.fromkeys(("frost", "spatter", "pixelate", "jpeg"), 0.7),
    **dict.fromkeys(("motion-blur", "zoom-blur", "snow", "fog", "contrast", "elastic"), 5.0),
    **dict.fromkeys(("brightness", "saturate"), 20.0),
}


def _over_passes(kind: str, goals: dict[str, float], goal: float | None = None) -> Pattern:
    """The time of an estimate over the passes of the model; `kind`: with a pool, or without."""
    regex = rf"^(?P<m>[\d,]+ rows, [\d,]+ classes), .*ratio {VALUE} {RANGE}"
    return Pattern(regex, f"{{m}}, {kind}", "x the time", goals, goal, smaller=True, exact=True)


PROGRAMS = (
    Program(
        "step",
        "a plain eager float32 step",
        (
            Pattern(
                rf"^(?P<m>[\w-]+)\s+\d+\s+[\d.]+\s+[\d.]+\s+{VALUE} (?P<low>[\d.]+)-(?P<high>[\d.]+)",
                "{m}, float32",
                "x as fast",
                {
                    "mlp, float32": 1.4,
                    "small-cnn, float32": 1.35,
                    "resnet-w16, float32": 1.5,
                    "resnet18, float32": 1.2,
                },
            ),
            Pattern(
                rf"^(?P<m>[\w-]+)\s+\d+\s+[\d.]+\s+[\d.]+\s+[\d.]+ \S+\s+[\d.]+\s+{VALUE}"
                r" (?P<low>[\d.]+)-(?P<high>[\d.]+)",
                "{m}, bfloat16",
                "x as fast",
                {
                    "mlp, bfloat16": 3.4,
                    "small-cnn, bfloat16": 2.3,
                    "resnet-w16, bfloat16": 3.9,
                    "resnet18, bfloat16": 1.7,
                },
            ),
        ),
        ("--steps", "5"),
    ),
    Program(
        "loop",
        "forward, backward and optimiser alone",
        (
            Pattern(
                r"^(?P<m>[\w-]+)\s+\d+ px.*overhead of the loop (?P<value>-?[\d.]+)%"
                r" \((?P<low>-?[\d.]+)% to (?P<high>-?[\d.]+)%\)",
                "{m}, overhead of the loop",
                "% of the step",
                {"small-cnn, overhead of the loop": 10, "resnet18, overhead of the loop": 3},
                smaller=True,
            ),
            Pattern(
                r"^(?P<m>[\w-]+)\s+\d+ px.*RandAugment's share (?P<value>-?[\d.]+)%"
                r" \((?P<low>-?[\d.]+)% to (?P<high>-?[\d.]+)%\)",
                "{m}, share of RandAugment",
                "% of the step",
                {"small-cnn, share of RandAugment": 18, "resnet18, share of RandAugment": 3},
                smaller=True,
            ),
            Pattern(
                rf"^batches at (?P<m>\d+) px: .*?images/s, {VALUE} {RANGE} x a DataLoader",
                "batches of {m} px over a DataLoader's",
                "x as fast",
                goal=10,
            ),
        ),
        ("--steps", "5"),
    ),
    Program(
        "augmentations",
        "torchvision, a picture at a time",
        (
            Pattern(
                rf"^photographs\s+(?P<m>\S.*?)\s+[\d.]+ \|.*?\| last\s+[\d.]+\s+{VALUE}x {RANGE}",
                "{m}, 64 px",
                "x as fast",
                {f"{name}, 64 px": goal for name, goal in PICTURE_GOALS.items()},
            ),
        ),
        ("--no-kornia", "--pictures", "photographs", "--batch", "64"),
    ),
    Program(
        "augmentations at 224 px",
        "torchvision, a picture at a time",
        (
            Pattern(
                rf"^photographs\s+(?P<m>\S.*?)\s+[\d.]+ \|.*?\| last\s+[\d.]+\s+{VALUE}x {RANGE}",
                "{m}, 224 px",
                "x as fast",
                exact=True,
                goal=1.5,
            ),
        ),
        (
            *("--no-kornia", "--pictures", "photographs", "--batch", "8", "--size", "224"),
            *("--only", "randaugment,trivialaugment"),
        ),
        file="augmentations",
    ),
    Program(
        "corruptions",
        "imagecorruptions",
        (
            Pattern(
                rf"^(?P<m>[a-z-]+)\s+[\d.]+\s+[\d.]+\s+{VALUE} {RANGE}",
                "{m}, 64 px",
                "x as fast",
                {f"{name}, 64 px": goal for name, goal in CORRUPTION_GOALS.items()},
            ),
        ),
        ("--no-kornia", "--batch", "32"),
    ),
    Program(
        "corruptions at 224 px",
        "imagecorruptions",
        (
            Pattern(
                rf"^(?P<m>[a-z-]+)\s+[\d.]+\s+[\d.]+\s+{VALUE} {RANGE}",
                "{m}, 224 px",
                "x as fast",
                exact=True,
                goal=1.5,
            ),
        ),
        ("--no-kornia", "--batch", "8", "--side", "224"),
        file="corruptions",
    ),
    Program(
        "image_changes",
        "albumentations, other formulas",
        (
            Pattern(
                rf"^(?P<m>[a-z-]+)\s+[\d.]+ ms\s+[\d.]+ ms\s+ratio {VALUE} {RANGE}",
                "{m}, 224 px, severity 3",
                "x its time",
                exact=True,
                goal=1.2,
                smaller=True,
            ),
        ),
    ),
    Program(
        "preparing",
        "decoding alone",
        (
            Pattern(
                rf"^preparing beside (?P<m>[^:]+): {VALUE} {RANGE}",
                "JPEG files of 224 px beside {m}",
                "x as fast",
                exact=True,
                goal=0.9,
            ),
        ),
    ),
    Program(
        "evaluation",
        "plain inference; neighbours in batches of one",
        (
            Pattern(
                rf"^(?P<m>[\w-]+)\s+\d+\s+[\d.]+/s\s+[\d.]+ \S+\s+{VALUE} {RANGE}",
                "{m}, inference in bfloat16",
                "x as fast",
                {
                    f"{name}, inference in bfloat16": goals[0]
                    for name, goals in EVALUATION_GOALS.items()
                },
            ),
            Pattern(
                rf"^(?P<m>[\w-]+)\s+\d+\s+[\d.]+ us\s+{VALUE} {RANGE}",
                "{m}, labels of neighbours",
                "x as fast",
                {
                    f"{name}, labels of neighbours": goals[1]
                    for name, goals in EVALUATION_GOALS.items()
                },
            ),
            Pattern(
                rf"^(?P<m>[\w-]+)\s+\d+\s+[\d.]+ us(?:\s+(?:[\d.]+ \([^)]*\)|-)){{4}}\s+{VALUE} {RANGE}",
                "{m}, three models over their passes",
                "x the time",
                goal=1.15,
                smaller=True,
            ),
        ),
        ("--models", "small-cnn,resnet-w16,resnet18"),
    ),
    Program(
        "together",
        "the same networks one after the other",
        (
            Pattern(
                rf"^(?P<m>points: .*?N = \d+)\s+[\d.]+\s+[\d.]+\s+{VALUE} {RANGE}",
                "{m}",
                "x as fast",
                {"points: 16-16-2, N = 50": 10, "points: 16-16-2, N = 200": 10},
            ),
        ),
        ("--only", "points"),
    ),
    Program(
        "split",
        "pandas",
        (
            Pattern(
                rf"^  (?P<m>index of cells)\s+{VALUE} ms {RANGE}",
                "{m} of 737,280 rows",
                "ms",
                goal=10,
                smaller=True,
            ),
            Pattern(
                rf"^  (?P<m>[\w-]+)\s+\d+ rows\s+{VALUE} ms {RANGE}\s+goal",
                "a draw, {m}",
                "ms",
                goal=2,
                smaller=True,
            ),
        ),
    ),
    Program(
        "start_up",
        "`import torch`",
        (
            Pattern(
                rf"^planning (?P<m>[\d,]+) runs: {VALUE} s {RANGE}",
                "planning {m} runs",
                "s",
                goal=2,
                smaller=True,
            ),
            Pattern(
                rf"^start-up of a run, (?P<m>.*?): .*others {VALUE} ms {RANGE}",
                "start of a run, {m}",
                "ms",
                goal=50,
                smaller=True,
            ),
            Pattern(
                rf"^  (?P<m>\S.*?)\s+{VALUE} x import torch {RANGE}",
                "{m}",
                "x the time",
                {"--help": 0.333, "list methods": 0.333, "list": 0.333, "status": 0.5}
                | {"plan demo": 0.3},
                smaller=True,
            ),
        ),
    ),
    Program(
        "memory",
        "the bytes of the training set",
        (
            Pattern(
                rf"^\s*\d+\s+(?P<m>\d+)\s+\d+\s+\d+\s+{VALUE} (?P<low>[\d.]+)-(?P<high>[\d.]+)",
                "one worker, {m} px",
                "x the set",
                goal=1.2,
                smaller=True,
            ),
        ),
        ("--sides", "32"),
    ),
    Program(
        "prepared",
        "ImageFolder and a DataLoader",
        (
            Pattern(
                rf"^(?P<m>from memory, a core)\s+{VALUE} {RANGE} thousand",
                "prepared batches {m}",
                "thousand pictures a s",
                goal=200,
            ),
        ),
        ("--files", "5200"),
    ),
    Program(
        "decoded_files",
        "reading with nothing kept",
        (
            Pattern(
                rf"^(?P<m>first reading|again)\s+[\d,]+ pictures/s\s+ratio {VALUE} {RANGE}",
                "a table of pictures where they lie, {m}",
                "x the time",
                {"a table of pictures where they lie, again": 0.1},
                smaller=True,
            ),
        ),
    ),
    Program(
        "estimate with a pool",
        "the passes that it needs",
        (
            _over_passes(
                "a pool",
                {
                    "2,000 rows, 10 classes, a pool": 1.5,
                    "2,000 rows, 100 classes, a pool": 1.5,
                    "2,000 rows, 1,000 classes, a pool": 2,
                },
            ),
            Pattern(
                rf"^(?P<m>[\d,]+ rows, [\d,]+ classes), .*beside the passes {VALUE} {RANGE}",
                "{m}, changed copies and all but the passes",
                "x the passes",
                {"2,000 rows, 10 classes, changed copies and all but the passes": 0.5},
                exact=True,
                smaller=True,
            ),
        ),
        file="estimate",
    ),
    Program(
        "estimate without a pool",
        "the passes that it needs",
        (_over_passes("no pool", {}, 3),),
        ("--pool", "0", "--classes", "10,100"),
        file="estimate",
    ),
    Program(
        "estimate of 20000 rows",
        "the passes that it needs",
        (
            _over_passes(
                "a pool",
                {"20,000 rows, 10 classes, a pool": 1.5, "20,000 rows, 1,000 classes, a pool": 2},
            ),
        ),
        ("--rows", "20000", "--classes", "10,1000", "--rounds", "1"),
        rounds=False,
        file="estimate",
    ),
    Program(
        "estimate of 1000 classes without a pool",
        "the passes that it needs",
        (_over_passes("no pool", {}, 3),),
        ("--pool", "0", "--classes", "1000"),
        file="estimate",
    ),
    Program(
        "transport",
        "none",
        (
            Pattern(
                rf"^(?P<m>cott?, [\d,]+ rows, [\d,]+ classes): {VALUE} s",
                "{m}",
                "s",
                exact=True,
                goals={
                    **{f"{name}, 20,000 rows, 10 classes": 1 for name in ("cot", "cott")},
                    **{f"{name}, 20,000 rows, 1,000 classes": 3 for name in ("cot", "cott")},
                },
                smaller=True,
            ),
        ),
        ("--transport", "--rows", "20000", "--classes", "10,1000"),
        rounds=False,
        file="estimate",
    ),
    Program(
        "drawing",
        "every picture cast anew",
        (
            Pattern(
                rf"^Shapes3D, (?P<m>kept views)\s+{VALUE} images/s {RANGE}",
                "Shapes3D, {m}",
                "pictures a s",
                goal=2000,
            ),
        ),
    ),
    Program(
        "texts",
        "a plain loop over prepared tensors",
        (
            Pattern(
                rf"^  loop / (?P<m>plain): {VALUE} {RANGE}",
                "text-cnn, the loop over the {m} one",
                "x as fast",
                goal=0.95,
            ),
        ),
        ("--models", "text-cnn", "--data", str(ROOT.parent / "shared/data")),
    ),
    Program(
        "short_runs",
        "the whole time of two workers",
        (
            Pattern(
                r"^checkpoint every 30 s: .*steps (?P<value>[\d.]+) of the time \(blocks"
                r" (?P<low>[\d.]+) to (?P<high>[\d.]+)\)",
                "steps of short runs",
                "of the time",
                goal=0.75,
            ),
        ),
        ("--runs", "20", "--block", "5"),
        rounds=False,
    ),
    Program(
        "ray_engine",
        "the pool of processes",
        (
            Pattern(
                r'^\{"ratio": (?P<value>[\d.]+), "low": (?P<low>[\d.]+), "high": (?P<high>[\d.]+)\}',
                "Ray, runs of 5 s",
                "x the time",
                goal=1.05,
                smaller=True,
            ),
        ),
        rounds=False,
    ),
    Program(
        "method_cost of PnD",
        "its arithmetic; without the views",
        (
            Pattern(
                rf"^(?P<m>[\w-]+)\s+pnd\s.*time / arithmetic {VALUE} {RANGE}",
                "pnd, a step of {m}",
                "x the time",
                exact=True,
                goal=1.15,
                smaller=True,
            ),
        ),
        ("--methods", "pnd", "--no-record"),
        rounds=False,
        file="method_cost",
    ),
    Program(
        "default_tests",
        "none",
        (
            Pattern(
                rf"^(?P<m>the default tests): {VALUE} min {RANGE}",
                "{m}",
                "min of a processor",
                exact=True,
                goal=8,
                smaller=True,
            ),
        ),
        rounds=False,
    ),
    Program(
        "many_runs",
        "none",
        tuple(
            Pattern(
                rf'^\{{"runs": 100000, "command": "{command}",.*?"new": \{{"seconds": {VALUE}',
                f"100,000 runs, {command}",
                "s",
                goal=goal,
                smaller=True,
            )
            for command, goal in (
                ("plan", 5),
                ("status", 1),
                ("run, nothing to do", 3),
                ("report", 20),
            )
        ),
        ("--runs", "100000"),
        rounds=False,
        asks_older="--old",
    ),
)
ELSEWHERE = (
    ("study", "70 minutes", "results/study.json, tables of benchmarks/README.md"),
    ("method_cost", "20 minutes", "docs/methods"),
    ("corrupted_evaluation", "with CIFAR-10", "results/corrupted-evaluation-*.json"),
    ("report_page", "with a browser", "benchmarks/README.md"),
    ("contents", "5 minutes", "benchmarks/README.md"),
    ("growth", "exponents over three decades", "its own lines"),
    ("million", "with files of a megapixel", "benchmarks/README.md"),
)
"""Programs with a goal that this command does not run: why, and where their figures are."""
WITHOUT_FIGURE = (
    (
        "bfloat16 on a processor without its instructions",
        "refused or warned of",
        "tests/studies/test_slow.py",
    ),
)
"""Goals that are behaviour: what is asked for, and the test of it."""


def printed_by(
    program: Program, checkout: Path, rounds: int, more_options: Sequence[str] = ()
) -> str:
    """What the program prints, with the package of its checkout, on one thread. The last line is that
    of its error, if it fails."""
    environment = os.environ | {
        "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [*program.command(checkout, rounds), *more_options]
    done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return f"{done.stdout}\n{FAILED}{lines[-1] if lines else f'status {done.returncode}'}"
    return done.stdout


def figures_of(program: Program, printed: str) -> dict[str, list[float]]:
    """What was printed, by name: [value, low, high]."""
    return {
        name: numbers for pattern in program.patterns for name, numbers in pattern.figures(printed)
    }


def measured(program: Program, rounds: int, beside: Path | None) -> dict[str, Any]:
    """The figures of a program here, and those of an older checkout that takes turns with it."""
    turns = [("now", ROOT)]
    in_one = beside is not None and bool(program.asks_older)
    if beside is not None and not in_one and Path(program.command(beside, rounds)[1]).exists():
        turns = [("before", beside), ("now", ROOT), ("now", ROOT), ("before", beside)]
    values: dict[str, dict[str, list[list[float]]]] = {"now": {}, "before": {}}
    failures: dict[str, str] = {}
    for side, checkout in turns:
        more_options = (program.asks_older, str(beside)) if in_one else ()
        printed = printed_by(program, checkout, rounds, more_options)
        last_line = printed.splitlines()[-1] if printed else ""
        if last_line.startswith(FAILED):
            # Without the folders of the machine that it ran on.
            failures[side] = re.sub(r"\(?/\S+", "...", last_line)
        for name, numbers in figures_of(program, printed).items():
            values[side].setdefault(name, []).append(numbers)
        older = printed.replace('"old": {', '"new": {') if in_one else ""
        for name, numbers in figures_of(program, older).items():
            values["before"].setdefault(name, []).append(numbers)
    return {"failures": failures, **{side: _merged(found) for side, found in values.items()}}


def _merged(readings: dict[str, list[list[float]]]) -> dict[str, list[float]]:
    """Several readings as one: the median of values, the least low and the greatest high."""
    return {
        name: [
            statistics.median(numbers[0] for numbers in several),
            min(numbers[1] for numbers in several),
            max(numbers[2] for numbers in several),
        ]
        for name, several in readings.items()
    }


# -- the table -------------------------------------------------------------------------------------


def table(record: dict[str, Any]) -> str:
    """The table in Markdown: a row a figure, and the goals that were not measured."""
    about = record["about"]
    lines = [
        f"Measured by `python benchmarks/speed/all.py` at {about['commit']}, {about['date']}, on"
        f' {about["processor"]}; {about["rounds"]} rounds a program. "Before" is the figure of'
        f' {about["beside"] or "no older checkout"} in the same run; "no worse" is a figure of at'
        f" least {AS_BEFORE:.0%} of that one. {REACHED:.0%} of a goal counts as reached.",
        *_later(record),
        "",
        "| program | figure | beside | measured | goal | reached | before | no worse |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for program in PROGRAMS:
        entry = record["programs"].get(program.name)
        if entry is None:
            lines.append(f"| {program.name} | | {program.peer} | not measured | | | | |")
            continue
        lines += _rows(program, entry)
    for name, why, where in ELSEWHERE:
        lines.append(f"| {name} | by itself, {why} | | see {where} | | | | |")
    for name, goal, test in WITHOUT_FIGURE:
        lines.append(f"| none | {name} | | a test: {test} | {goal} | | | |")
    return "\n".join(lines)


def _later(record: dict[str, Any]) -> list[str]:
    """A line for each program that was measured after the rest, or on another machine."""
    return [
        f"`{name}` was measured at {about['commit']}, {about['date']}, on {about['processor']};"
        f" {about['rounds']} rounds."
        for name, entry in record["programs"].items()
        if (about := entry.get("about"))
    ]


def _rows(program: Program, entry: dict[str, Any]) -> list[str]:
    rows = []
    for pattern in program.patterns:
        names = [name for name in entry["now"] if _pattern_of(program, name) is pattern]
        for name in names:
            now, before = entry["now"][name], entry["before"].get(name)
            goal = pattern.goals.get(name, pattern.goal)
            cells = (
                program.name,
                name,
                program.peer,
                f"{_spread(now)} {pattern.unit}",
                "" if goal is None else f"{goal:g}",
                "" if goal is None else _yes(_reaches(pattern, now[0], goal)),
                "" if before is None else _spread(before),
                "" if before is None else _yes(_as_good(pattern, now[0], before[0])),
            )
            rows.append(f"| {' | '.join(cells)} |")
        for name in sorted(pattern.goals.keys() - entry["now"].keys()):
            goal_text = f"{pattern.goals[name]:g}"
            rows.append(f"| {program.name} | {name} | | not printed | {goal_text} | | | |")
    for side, problem in entry["failures"].items():
        rows.append(f"| {program.name} | {side} | | {problem.replace('|', '/')} | | | | |")
    return rows or [f"| {program.name} | | {program.peer} | printed no figure | | | | |"]


def _pattern_of(program: Program, name: str) -> Pattern:
    """The pattern that a figure is of: the first whose name it can be."""
    for pattern in program.patterns:
        words = re.escape(pattern.name).replace(r"\{m\}", "(.+)")
        if re.fullmatch(words, name):
            return pattern
    raise ValueError(f"{program.name} prints no {name!r}")


def _reaches(pattern: Pattern, value: float, goal: float) -> bool:
    return _share(value, goal, pattern.smaller) >= (1 if pattern.exact else REACHED)


def _as_good(pattern: Pattern, value: float, before: float) -> bool:
    """No worse: by a ratio, or, of percentages that are near 0, by points."""
    if pattern.unit.startswith("%"):
        return value <= before + POINTS
    return _share(value, before, pattern.smaller) >= AS_BEFORE


def _share(value: float, other: float, smaller: bool) -> float:
    """How far a value reaches another one; above 1 it is better."""
    if smaller:
        return other / value if value > 0 else float("inf")
    return value / other


def _spread(numbers: Sequence[float]) -> str:
    value, low, high = numbers
    return f"{value:.3g}" if low != low else f"{value:.3g} ({low:.3g} to {high:.3g})"


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"


def write_table(record: dict[str, Any], path: Path = README) -> None:
    """The table between its marks."""
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(f"{head}{BEGIN}\n{table(record)}\n{END}{tail}", encoding="utf-8")


def about(rounds: int, beside: Path | None) -> dict[str, Any]:
    """Where and when."""
    import torch

    commits = [
        subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        for checkout in (ROOT, beside)
        if checkout is not None
    ]
    processor = (
        f"{_processor()}, {platform.machine()} with {torch.backends.cpu.get_cpu_capability()}"
    )
    return {
        "commit": commits[0],
        "beside": commits[1] if beside is not None else "",
        "date": datetime.date.today().isoformat(),
        "processor": f"{processor}, {os.cpu_count()} cores, torch {torch.__version__}",
        "rounds": rounds,
    }


def _processor() -> str:
    """The model that the system names, or "a processor"."""
    facts = Path("/proc/cpuinfo")
    text = facts.read_text(encoding="utf-8") if facts.exists() else ""
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return model[1] if model else "a processor"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--only", default="", help="names of programs, separated by commas, measured anew"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="an older checkout")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true", help="write the table, measure nothing")
    options = parser.parse_args(arguments)
    names = [program.name for program in PROGRAMS]
    chosen = options.only.split(",") if options.only else names
    if unknown := set(chosen) - set(names):
        parser.error(f"no program {sorted(unknown)[0]!r} (valid: {', '.join(names)})")
    record: dict[str, Any] = {"about": {}, "programs": {}}
    if options.record.exists():
        record = json.loads(options.record.read_text(encoding="utf-8"))
    elif options.table:
        parser.error(f"there is no record {options.record}; measure first")
    if not options.table:
        beside = options.beside.resolve() if options.beside else None
        here = about(options.rounds, beside)
        is_same = {**record["about"], "date": ""} == {**here, "date": ""}
        if not record["about"] or not (is_same or options.only):
            record, is_same = {"about": here, "programs": {}}, True
        for program in PROGRAMS:
            if program.name not in chosen or (is_same and program.name in record["programs"]):
                continue
            entry = measured(program, options.rounds, beside)
            if not is_same:
                entry["about"] = here
            record["programs"][program.name] = entry
            options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            print("\n".join(_rows(program, entry)), flush=True)
    if options.record == RECORD:
        write_table(record)


if __name__ == "__main__":
    main()

"""The table of all speed figures reads what programs print, and leaves none with a goal out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.speed import all as speed
from benchmarks.speed.augmentations import photographs

SPEED = Path(speed.__file__).parent
PRINTED = {
    "step": (
        "model         side  plain ms  fp32 ms   ratio range           bf16 ms   ratio range\n"
        "mlp             28       2.1      1.4    1.50 1.40-1.60           0.6    3.50 3.10-3.90\n",
        {"mlp, float32": [1.5, 1.4, 1.6], "mlp, bfloat16": [3.5, 3.1, 3.9]},
    ),
    "loop": (
        "small-cnn  64 px  bare step 30.1 ms  overhead of the loop 2.5% (-0.5% to 4.0%) goal 10%"
        "  RandAugment's share 15.0% (14.0% to 16.5%) goal 18%\n"
        "batches at 32 px: 235,000 images/s, 11.8 (11.0 to 12.4) x a DataLoader's, goal 10\n",
        {
            "small-cnn, overhead of the loop": [2.5, -0.5, 4.0],
            "small-cnn, share of RandAugment": [15.0, 14.0, 16.5],
            "batches of 32 px over a DataLoader's": [11.8, 11.0, 12.4],
        },
    ),
    "augmentations": (
        "photographs  randaugment                             180 | planes     80  2.25x (2.20-2.30)"
        " | last     70  2.57x (2.50-2.60) | goal 2.3\n",
        {"randaugment, 64 px": [2.57, 2.5, 2.6]},
    ),
    "corruptions": (
        "jpeg                   0.940    0.500   0.5 (0.5-0.6)           0.4  0.7   \n",
        {"jpeg, 64 px": [0.5, 0.5, 0.6]},
    ),
    "evaluation": (
        "resnet18       64       622/s    1.60 (1.50-1.70)         2.10 (2.00-2.20)       1.2e-06\n"
        "resnet18       64     1500 us    8.20 (8.00-8.40)         9.90 (9.00-10.00)"
        "        4.10 (4.00-4.20)         5.00 (4.90-5.10)         0.70 (0.60-0.80)"
        "         1.10 (1.05-1.12)   \n",
        {
            "resnet18, inference in bfloat16": [2.1, 2.0, 2.2],
            "resnet18, labels of neighbours": [8.2, 8.0, 8.4],
            "resnet18, three models over their passes": [0.7, 0.6, 0.8],
        },
    ),
    "split": (
        "  index of cells          1.38 ms (1.35-1.40)  goal 10 ms\n"
        "  SC            3000 rows     1.45 ms (1.12-1.77)  goal 2 ms    pandas   64.00 ms\n",
        {"index of cells of 737,280 rows": [1.38, 1.35, 1.4], "a draw, SC": [1.45, 1.12, 1.77]},
    ),
    "start_up": (
        "  plan demo            0.52 x import torch (0.50-0.55)  goal 0.50\n"
        "planning 10,000 runs: 1.20 s (1.10-1.30), goal 2 s\n"
        "start-up of a run, digits, mlp: first of a seed 40 ms (30-50), others 12 ms (9-20), goal"
        " 50 ms\n",
        {
            "plan demo": [0.52, 0.5, 0.55],
            "planning 10,000 runs": [1.2, 1.1, 1.3],
            "start of a run, digits, mlp": [12, 9, 20],
        },
    ),
    "estimate with a pool": (
        "2,000 rows, 10 classes, a pool of 200: 107,248 inputs, passes 1.0 s, all 2.8 s, ratio 2.80"
        " (2.70-2.90), beside the passes 1.80 (1.70-1.90)\n",
        {
            "2,000 rows, 10 classes, a pool": [2.8, 2.7, 2.9],
            "2,000 rows, 10 classes, changed copies and all but the passes": [1.8, 1.7, 1.9],
        },
    ),
    "estimate of 20000 rows": (
        "20,000 rows, 1,000 classes, a pool of 200: 307,248 inputs, passes 9.0 s, all 18.0 s, ratio"
        " 2.00 (2.00-2.00), beside the passes 1.00 (1.00-1.00)\n",
        {"20,000 rows, 1,000 classes, a pool": [2, 2, 2]},
    ),
    "estimate of 1000 classes without a pool": (
        "2,000 rows, 1,000 classes, no pool: 10,000 inputs, passes 1.0 s, all 5.0 s, ratio 5.00"
        " (5.00-5.00), beside the passes 4.00 (4.00-4.00)\n",
        {"2,000 rows, 1,000 classes, no pool": [5, 5, 5]},
    ),
    "image_changes": (
        "gaussian-blur       2.064 ms    0.650 ms  ratio 3.18 (3.10-3.24)\n",
        {"gaussian-blur, 224 px, severity 3": [3.18, 3.1, 3.24]},
    ),
    "preparing": (
        "OpenCV       0.43 ms a file (0.43-0.43)\n"
        "preparing beside the fastest reader, OpenCV: 0.44 (0.42-0.46) x as fast\n"
        "preparing beside PIL, resized: 0.90 (0.88-0.92) x as fast\n",
        {
            "JPEG files of 224 px beside the fastest reader, OpenCV": [0.44, 0.42, 0.46],
            "JPEG files of 224 px beside PIL, resized": [0.9, 0.88, 0.92],
        },
    ),
    "method_cost of PnD": (
        "mlp         pnd            time 5.300 (5.10-5.50)  arithmetic 5.000  views 0.00  time /"
        " arithmetic 1.060 (1.020-1.100)  memory 2.00  ERM 1.2 ms\n",
        {"pnd, a step of mlp": [1.06, 1.02, 1.1]},
    ),
    "default_tests": (
        "the default tests: 12.50 min (12.50-12.50) of a processor\n",
        {"the default tests": [12.5, 12.5, 12.5]},
    ),
    "ray_engine": (
        '{"ratio": 1.02, "low": 0.99, "high": 1.04}\n',
        {"Ray, runs of 5 s": [1.02, 0.99, 1.04]},
    ),
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_figure_is_read_as_it_was_printed(name: str) -> None:
    printed, figures = PRINTED[name]
    program = next(program for program in speed.PROGRAMS if program.name == name)
    assert speed.figures_of(program, printed) == figures


def test_a_program_that_asks_the_older_code_itself_has_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = next(program for program in speed.PROGRAMS if program.name == "many_runs")
    asked = []

    def printed_by(_: object, checkout: Path, rounds: int, more: tuple[str, ...]) -> str:
        asked.append((checkout, more))
        old = '"old": {"seconds": 5.6, "MiB": 149}, ' if more else ""
        return (
            f'{{"runs": 100000, "command": "status", {old}"new": {{"seconds": 0.9, "MiB": 150}}}}\n'
        )

    monkeypatch.setattr(speed, "printed_by", printed_by)
    with_older = speed.measured(program, 2, Path("older"))
    assert asked == [(speed.ROOT, ("--old", "older"))]
    name = "100,000 runs, status"
    assert (with_older["now"][name][0], with_older["before"][name][0]) == (0.9, 5.6)
    alone = speed.measured(program, 2, None)
    assert alone["now"][name][0] == 0.9 and not alone["before"]


def test_each_program_can_be_named_by_only() -> None:
    names = [program.name for program in speed.PROGRAMS]
    assert len(names) > 25 and len(set(names)) == len(names)
    assert not [name for name in names if "," in name]


def test_each_program_with_a_goal_stands_in_the_table() -> None:
    files = {program.file or program.name for program in speed.PROGRAMS}
    files |= {name for name, _, _ in speed.ELSEWHERE}
    rows = re.findall(
        r"^\| \[`(\w+)\.py`\]\(speed/\w+\.py\) \|[^|]*\| ([^|]*)",
        (SPEED.parent / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    with_goal = {name for name, goal in rows if not goal.startswith(("none", "flat"))} - {"all"}
    assert len(rows) > 20 and len(with_goal) > 15
    assert with_goal <= files, with_goal - files
    assert all((SPEED / f"{name}.py").exists() for name in files)
    assert all((speed.ROOT / test).exists() for _, _, test in speed.WITHOUT_FIGURE)


def test_the_table_says_what_is_reached_and_what_is_worse() -> None:
    nan = float("nan")
    program = speed.PROGRAMS[0]
    record = {
        "about": dict.fromkeys(("commit", "date", "processor", "beside"), "x") | {"rounds": 3},
        "programs": {
            program.name: {
                "now": {"mlp, float32": [1.2, 1.1, 1.3], "small-cnn, float32": [1.0, nan, nan]},
                "before": {"mlp, float32": [1.4, 1.3, 1.5]},
                "failures": {"before": "failed: ImportError: a | b"},
            },
            "split": {"now": {}, "before": {}, "failures": {}},
        },
    }
    rows = [row.split(" | ") for row in speed.table(record).splitlines() if row.startswith("| ")]
    by_name = {row[1]: row for row in rows}
    assert by_name["mlp, float32"][3:] == [
        *("1.2 (1.1 to 1.3) x as fast", "1.4", "yes", "1.4 (1.3 to 1.5)", "**no** |")
    ]
    assert by_name["small-cnn, float32"][3:] == ["1 x as fast", "1.35", "**no**", "", " |"]
    assert "failed: ImportError: a / b" in speed.table(record)
    assert sum("not measured" in row for row in map(" | ".join, rows)) == (len(speed.PROGRAMS) - 2)
    assert sum("printed no figure" in row for row in map(" | ".join, rows)) == 1


def test_programs_measured_later_say_so_and_drop_no_older_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = {"now": {}, "before": {}, "failures": {}}
    record = tmp_path / "speed.json"

    def measured_at(commit: str, only: str) -> dict[str, Any]:
        here = dict.fromkeys(("commit", "date", "processor", "beside"), commit) | {"rounds": 2}
        monkeypatch.setattr(speed, "about", lambda *_: here)
        monkeypatch.setattr(speed, "measured", lambda *_: dict(figures))
        speed.main([*(["--only", only] if only else []), "--record", str(record)])
        values: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        return values

    first = measured_at("aaaa", "")
    assert len(first["programs"]) == len(speed.PROGRAMS) and first["about"]["commit"] == "aaaa"
    later = measured_at("bbbb", "step")
    assert later["about"] == first["about"] and later["programs"].keys() == first["programs"].keys()
    assert later["programs"]["step"].pop("about")["commit"] == "bbbb"
    assert later["programs"] == first["programs"]
    later = measured_at("bbbb", "step")
    assert "`step` was measured at bbbb, bbbb, on bbbb; 2 rounds." in speed.table(later)
    assert measured_at("cccc", "")["about"]["commit"] == "cccc"


@pytest.mark.parametrize("name", PRINTED)
def test_each_figure_has_the_unit_of_its_pattern(name: str) -> None:
    """A pattern whose name is any words claimed the figures of the others."""
    program = next(program for program in speed.PROGRAMS if program.name == name)
    printed, figures = PRINTED[name]
    entry = {"now": figures, "before": {}, "failures": {}}
    printed_rows = [row for row in speed._rows(program, entry) if "not printed" not in row]
    units = {row.split(" | ")[1]: row.split(" | ")[3] for row in printed_rows}
    assert units.keys() == figures.keys()
    for pattern in program.patterns:
        for figure, _ in pattern.figures(printed):
            assert units[figure].endswith(pattern.unit)


def test_a_percentage_near_zero_is_compared_by_points() -> None:
    overhead = next(p for p in speed.PROGRAMS if p.name == "loop").patterns[0]
    assert speed._as_good(overhead, 0.3, -0.5) and not speed._as_good(overhead, 3.0, 1.0)


def test_a_program_that_fails_is_told_of(tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks/speed"
    folder.mkdir(parents=True)
    (folder / "step.py").write_text(
        "print('one row')\nraise SystemExit('no rows')", encoding="utf-8"
    )
    printed = speed.printed_by(speed.PROGRAMS[0], tmp_path, 1)
    assert printed.startswith("one row")
    assert printed.splitlines()[-1] == "failed: no rows"


@pytest.mark.parametrize("size", [32, 64, 213, 214, 224, 427, 600])
def test_photographs_of_every_size_that_is_measured(size: int) -> None:
    """scikit-learn's photographs are 427 pixels high, less than twice 224."""
    crops = photographs(4, size)
    assert [crop.size for crop in crops] == [(size, size)] * 4
    colours = [len(crop.getcolors(maxcolors=size * size) or []) for crop in crops]
    assert min(colours) > 50

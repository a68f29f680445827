"""The studies of figure 3 of Jeon et al. 2025: what they plan, and that a killed run that is
resumed gives the same tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from crosswind.cli.main import _status
from crosswind.reports.gather import StudyRecord, gather
from crosswind.reports.scores.families import families
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.reading import shipped_studies
from crosswind.studies.spec import load_study

ROWS = 21
SHIFTS = ["uniform", "SC", "LDD", "UDS", "SC+LDD", "SC+UDS", "LDD+UDS", "SC+LDD+UDS"]
# Training rows of tables 6 and 10, by shift, and the lists of runs of each data set: 3 assignments
# of one shift, 6 of several.
TABLE_6 = {
    "dsprites": [1091, 1091, 1080, 1080, 1091, 1091, 1080, 1091],
    "shapes3d": [65, 65, 624, 192, 158, 49, 468, 119],
    "smallnorb": [127, 127, 1600, 500, 324, 101, 1280, 259],
    "celeba": [227, 227, 224, 224, 227, 227, 224, 227],
    "deepfashion": [97, 97, 112, 96, 99, 101, 98, 92],
}
TEST = {"dsprites": 810, "shapes3d": 1280, "smallnorb": 3125, "celeba": 800, "deepfashion": 80}
# of the sets that have to be prepared, without pictures; one value more of each attribute than is
# kept
GRIDS = {
    "smallnorb": (
        "{grid: {category: [animal, human, airplane, truck, car], azimuth: [0, 20, 80, 160, 240,"
        " 320], lighting: 6, elevation: [30, 40, 50, 60, 65, 70]}, split: {train: 5, test: 5}}"
    ),
    "celeba": (
        "{grid: {Male: [female, male], Black_Hair: [no, yes], Smiling: [no, yes], Straight_Hair:"
        " [no, yes]}, copies: 300}"
    ),
    "deepfashion": (
        "{grid: {length: [maxi_length, mini_length, no_dress, other], texture: [floral, graphic,"
        " solid], fabric: [denim, chiffon, cotton], sleeve: [long_sleeve, short_sleeve,"
        " sleeveless]}, copies: 120}"
    ),
}
STAND_INS = [
    setting
    for name, grid in GRIDS.items()
    for end in ("", "-2", "-3", "-4", "-5", "-6")
    for setting in (f"data.{name}{end}.source=factors", f"data.{name}{end}.options={grid}")
]


@pytest.fixture(scope="module")
def paper() -> Plan:
    """The plan of the whole figure, on tables without pictures where a data set has to be
    prepared."""
    return make_plan(load_study("jeon2025/controlled", "paper", STAND_INS))


@pytest.mark.parametrize("scale,points", [("figure", 10), (None, 9)])
def test_every_method_meets_every_shift_once_a_point(scale: str | None, points: int) -> None:
    plan = make_plan(load_study("jeon2025/controlled", scale))
    rows = {(run.labels["method"], run.labels["model"]) for run in plan.runs}
    assert len(rows) == ROWS and len(plan.runs) == ROWS * len(SHIFTS) * points
    assert [draw.train_rows for draw in plan.draws] == TABLE_6["dsprites"]


@pytest.mark.slow
def test_paper_has_three_assignments_of_one_shift_and_six_of_several(paper: Plan) -> None:
    """All five data sets, to the row of tables 6 and 10; every method meets every case at three
    rates and seeds."""
    study, plan = load_study("jeon2025/controlled", "paper", STAND_INS), paper
    counts_of: dict[tuple[str, str], list[int]] = {}
    for draw in plan.draws:
        counts_of.setdefault((draw.source.partition("-")[0], draw.shift), []).append(
            draw.train_rows
        )
    assert len(counts_of) == 5 * 8
    for (data, shift), rows in counts_of.items():
        times = 1 if shift == "uniform" else 6 if "+" in shift else 3
        assert rows == [TABLE_6[data][SHIFTS.index(shift)]] * times, (data, shift)
    assert {(draw.source.partition("-")[0], draw.test_rows) for draw in plan.draws} == set(
        TEST.items()
    )
    # Matched as table 2 lists the values: black hair goes with men, and not smiling is what LDD and
    # UDS make rare.
    matching = next(
        draw.matching for draw in plan.draws if (draw.source, draw.shift) == ("celeba", "SC")
    )
    assert matching == {"Black_Hair": {"male": ["yes"], "female": ["no"]}}
    assert len(plan.runs) == ROWS * (1 + 9 + 24) * 5 * 9
    # Every data set has each attribute in each place twice.
    for name in GRIDS:
        slots = [
            tuple(study.data[f"{name}{end}"].attributes.values())
            for end in ("", "-2", "-3", "-4", "-5", "-6")
        ]
        assert len(set(slots)) == 6 and all(sorted(slot) == sorted(slots[0]) for slot in slots)
    methods_of = {
        name: {run.labels["method"] for run in plan.runs if run.labels["data"].startswith(name)}
        for name in ("celeba", "shapes3d")
    }
    assert methods_of["celeba"] - methods_of["shapes3d"] == {
        "autoaugment-imagenet",
        "irm",
        "causirl-mmd-faces-and-clothes",
        "causirl-coral-faces-and-clothes",
    }
    assert methods_of["shapes3d"] - methods_of["celeba"] == {
        "autoaugment",
        "irm-squared",
        "causirl-mmd-shapes3d",
        "causirl-coral-shapes3d",
    }


def test_equal_sizes_are_equal_and_the_papers_are_not() -> None:
    plan = make_plan(load_study("jeon2025/equal-sizes"))
    rows = {
        size: [draw.train_rows for draw in plan.draws if draw.size == size]
        for size in ("table6", "equal")
    }
    assert rows == {"table6": TABLE_6["shapes3d"], "equal": [192] * 8}
    assert sum("role" not in run.labels for run in plan.runs) == ROWS * 8 * 2 * 3


def run_words(out: Path) -> list[str]:
    return ["run", "jeon2025/controlled", "--scale", "tiny", "--workers", "2", "--out", str(out)]


def record_of(out: Path) -> StudyRecord:
    with Store.open(out) as store:
        return gather(store, "jeon2025/controlled", draws=False)


@pytest.mark.verify  # twice 42 runs of 8 steps and a report
@pytest.mark.usefixtures("in_this_process")
def test_a_run_that_was_killed_and_resumed_gives_the_tables_of_one_that_was_not(
    tmp_path: Path,
) -> None:
    """Of all methods, bpa, ubnet, pnd, ada, me-ada and l2d with their stages among them."""
    uninterrupted, killed = tmp_path / "whole", tmp_path / "killed"
    assert _status(run_words(uninterrupted)) == 0
    program = [sys.executable, "-c", "from crosswind.cli.main import main; main()"]
    driver = subprocess.Popen(
        [*program, *run_words(killed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until, done = time.monotonic() + 1200, 0
    while done < 12 and driver.poll() is None and time.monotonic() < until:
        time.sleep(0.5)
        done = _finished(killed)
    os.kill(driver.pid, signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL and 12 <= _finished(killed) < 42
    assert _status(run_words(killed)) == 0
    records = [record_of(out) for out in (uninterrupted, killed)]
    assert all(
        {status for status, _ in record.found.runs.values()} == {"finished"} for record in records
    )
    tables = [[table.to_csv() for table in record.number_tables(every=True)] for record in records]
    assert tables[0] == tables[1] and len(tables[0][0].splitlines()) == 1 + 42 * 2
    (view,) = families(records[1].places, records[1].resolved)
    assert len(view.family) == ROWS and view.baseline == "resnet-8"


def _finished(out: Path) -> int:
    if not (out / "store.sqlite").exists():
        return 0
    with Store.open(out) as store:
        is_known = "jeon2025/controlled" in store.study_names()
        return (
            sum(run["status"] == "finished" for run in store.runs("jeon2025/controlled"))
            if is_known
            else 0
        )


def plain(value: str) -> str:
    """A value of CelebA as its own file calls it."""
    return {"black": "yes", "smiling": "yes", "straight": "yes", "other": "no"}.get(value, value)


def matched(plan: Plan, name: str) -> dict[str, list[str]]:
    """Class -> the values of the first attribute that a spurious correlation shows with it."""
    matching = next(
        draw.matching for draw in plan.draws if (draw.source, draw.shift) == (name, "SC")
    )
    ((_, values),) = matching.items()
    return {label: [plain(value) for value in shown] for label, shown in values.items()}


def test_every_study_of_jeon_et_al_matches_classes_and_values_alike(paper: Plan) -> None:
    """Table 2 lists both in one order: the i-th class goes with the i-th value. Codes of azimuth
    are tens of degrees."""
    sizes = make_plan(load_study("jeon2025/sizes"))
    stand_ins = [setting for setting in STAND_INS if setting.split(".")[1] in GRIDS]
    prompts = make_plan(
        load_study(
            "jeon2025/prompts",
            None,
            [*stand_ins, "models={resnet18: {}}", "prompts=null", "claims=[]"],
        )
    )
    names = list(TABLE_6)
    assert [matched(paper, name) for name in names] == [matched(prompts, name) for name in names]
    by_code = matched(sizes, "smallnorb")
    angles = {label: [str(10 * int(code)) for code in codes] for label, codes in by_code.items()}
    assert angles == {
        "animal": ["0"],
        "human": ["80"],
        "car": ["160"],
        "truck": ["240"],
        "airplane": ["320"],
    }
    assert list(angles) == ["animal", "human", "car", "truck", "airplane"]
    assert [matched(paper, name) for name in names] == [
        angles if name == "smallnorb" else matched(sizes, name) for name in names
    ]
    assert matched(paper, "celeba") == {"male": ["yes"], "female": ["no"]}


def test_attributes_that_corruptions_make_have_the_sizes_of_celeba() -> None:
    people = "data.celeba.options={grid: {Male: [male, female]}, copies: 300}"
    plan = make_plan(
        load_study("jeon2025/corruption-attributes", None, ["data.celeba.source=factors", people])
    )
    assert [draw.shift for draw in plan.draws] == SHIFTS[1:]
    assert [draw.train_rows for draw in plan.draws] == TABLE_6["celeba"][1:]
    assert {draw.test_rows for draw in plan.draws} == {TEST["celeba"]}
    assert all("elastic=off" in cell for cell in plan.draws[-1].cells)
    networks = {run.labels["model"] for run in plan.runs}
    methods = {run.labels["method"] for run in plan.runs}
    assert len(networks) + len(methods) - 1 == ROWS
    assert len(plan.runs) == 7 * ROWS * 3 * 3  # shifts, rows, learning rates, seeds


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("controlled", "pretrained"),
        ("corruption-attributes", "pretrained"),
        ("real-world", "pretrained"),
    ],
)
def test_pretrained_studies_are_those_from_scratch_without_the_perceptron(
    name: str, scale: str
) -> None:
    scratch = load_study(f"jeon2025/{name}", "paper" if name == "controlled" else None)
    pretrained = load_study(f"jeon2025/{name}", scale)
    assert set(scratch.models) - set(pretrained.models) == {"mlp"}
    published = {"weights": "IMAGENET1K_V1", "inputs": "centred"}
    assert all(settings == published for settings in pretrained.models.values())
    for field in ("data", "shifts", "sizes", "sets", "methods", "training", "seeds"):
        assert getattr(pretrained, field) == getattr(scratch, field), field


def test_networks_from_imagenet_s_weights_see_inputs_as_those_from_scratch_do() -> None:
    """Table 7 has pixels in (-1, 1) for all; published weights would have ImageNet's means and
    deviations by themselves."""
    models: list[dict[str, Any]] = []
    for name, path in shipped_studies().items():
        fields = yaml.safe_load(path.read_text(encoding="utf-8")) if "jeon2025/" in name else {}
        for overlay in (fields, fields.get("scales", {}).get("pretrained", {})):
            if isinstance(overlay.get("models"), dict):
                models += [settings or {} for settings in overlay["models"].values()]
    inputs = [
        settings.get("inputs") for settings in models if settings.get("weights") == "IMAGENET1K_V1"
    ]
    assert inputs == ["centred"] * (1 + 4 * 5 + 1)


def test_sizes_of_training_sets_are_those_of_table_10() -> None:
    """Rows with counterexamples under each shift, of Shapes3D with one and three rows a cell."""
    plan = make_plan(load_study("jeon2025/data-size"))
    rows = {(draw.size, draw.shift): draw.train_rows for draw in plan.draws}
    shifts = ["SC", "LDD", "UDS", "SC+LDD", "SC+UDS", "LDD+UDS", "SC+LDD+UDS"]
    assert [rows["small", shift] for shift in shifts] == [65, 624, 192, 158, 49, 468, 119]
    assert [rows["big", shift] for shift in shifts] == [194, 1872, 576, 473, 146, 1404, 355]


def test_real_sets_have_the_settings_that_table_9_prints_for_them() -> None:
    """Other crops, AugMix, RandAugment and weights than controlled sets; one of BPA's and one of
    OccamNets' is of a single set."""
    table_9 = {
        "imagenet": {"scale": 0.3},
        "augmix": {"severity": 7, "width": 5},
        "randaugment": {"count": 2, "magnitude": 9},
        "causirl-mmd": {"weight": 1.0},
        "causirl-coral": {"weight": 1.0},
    }
    real, cost = (load_study(f"jeon2025/{name}").methods for name in ("real-world", "cost"))
    of_one_set = {
        "bpa": {"k": 8, "data": ["fmow", "camelyon17"]},
        "bpa-iwildcam": {"k": 12, "data": ["iwildcam"]},
        "occamnets": {"threshold": 0.5, "data": ["iwildcam", "camelyon17"]},
        "occamnets-fmow": {"threshold": 0.2, "data": ["fmow"]},
    }
    defaults = {"k": 8, "threshold": 0.5}
    for methods, printed in (
        (real, table_9 | of_one_set),
        (cost, table_9 | {"bpa": {"k": 12}, "occamnets": {"threshold": 0.5}}),
    ):
        assert isinstance(methods, dict)
        for label, values in printed.items():
            settings = defaults | dict(methods[label] or {})
            assert {name: settings.get(name) for name in values} == values, label


# Each trains the methods of the paper for a few steps, on digits in the place of what is not here.
@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("controlled", 42),
        ("corruption-attributes", 40),
        ("cost", 17),
        ("data-size", 72),
        ("real-world", 54),
        ("sensitivity", 24),
    ],
)
def test_the_tiny_scale_runs_on_a_bare_machine(
    name: str, runs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    command = ["run", f"jeon2025/{name}", "--scale", "tiny", "--workers", "2", "--out", out]
    assert _status(command) == 0
    assert f"{runs} of {runs} runs done, 0 running, 0 failed" in capsys.readouterr().err

"""The studies of Wiles et al. 2022: rows and runs of every scale against numbers worked by hand,
and the tiny ones run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.data import wild_files as wild
from tests.data.picture_files import written
from tests.studies.plans import of_kind

from crosswind.cli.main import _status
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan, plan_of
from crosswind.studies.spec import load_study

STUDIES = Path(__file__).resolve().parents[2] / "studies" / "wiles2022"
AZIMUTHS = list(range(0, 360, 20))
STAND_INS = [  # the grids of the two sets that have to be fetched, without pictures
    "data.mpi3d.source=factors",
    (
        "data.mpi3d.options={grid: {object_shape: [cone, cube, cylinder, hexagonal, pyramid,"
        " sphere], object_color: [white, green, red, blue, brown, olive]}, copies: 28800}"
    ),
    "data.smallnorb.source=factors",
    (
        f"data.smallnorb.options={{grid: {{category: 5, azimuth: {AZIMUTHS}}}, split: {{train: 270,"
        " test: 270}}"
    ),
]
NS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10000)
# 90% of each class's rows are not for testing, 90% of those train: 245,760 x 0.81 = 199,066 of
# dSprites' diagonal (3 of 9 cells, a third of 737,280). MPI3D: 172,800 x 0.81 = 139,968. Shapes3D:
# 4 of 40 cells, 48,000 x 0.81 = 38,880. SmallNORB: 5 cells of 270, 4 toys of 5: 1,080. Frequent
# values: 2 of 3 colours, 2 of 6, 2 of 10, 4 of 18.
MATCHED = {"dsprites": 199_066, "mpi3d": 139_968, "shapes3d": 38_880, "smallnorb": 1_080}
FREQUENT = {"dsprites": 398_131, "mpi3d": 279_936, "shapes3d": 77_760, "smallnorb": 4_320}
POINTS = (
    3 * 12 + 16 * 3
)  # irm, deepcoral and dann: 4 weights x 3 learning rates; the other 16 rows of the table: 3


def rows_of(
    name: str, scale: str | None, settings: list[str]
) -> tuple[dict[tuple[str, str, str], int], int]:
    plan = make_plan(load_study(f"wiles2022/{name}", scale, settings))
    found = {(draw.source, draw.shift, draw.size): draw.train_rows for draw in plan.draws}
    assert len(found) == len(plan.draws)
    return found, sum("role" not in run.labels for run in plan.runs)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [None, "paper"])
@pytest.mark.parametrize(
    ("name", "expected", "runs"),
    [
        (
            "spurious",
            {(d, f"SC-{n}", "all"): rows + n for d, rows in MATCHED.items() for n in NS},
            36 * (POINTS + 3) * 5,
        ),
        (
            "lowdata",
            {(d, f"LDD-{n}", "all"): rows + n for d, rows in FREQUENT.items() for n in NS},
            36 * (POINTS + 3) * 5,
        ),
        ("unseen", {(d, f"UDS-{d}", "all"): rows for d, rows in FREQUENT.items()}, 4 * POINTS * 5),
        (
            "label-noise",
            {
                (d, "LDD", f"all, noise={p}"): rows + 100
                for d, rows in FREQUENT.items()
                for p in (0.0, 0.1, 0.2, 0.3)
            },
            16 * (POINTS + 3) * 5,
        ),
        (
            "dataset-size",
            {
                (d, f"LDD-{t // 1000}", f"T{t}"): t
                for d, most in {"dsprites": 5, "mpi3d": 5, "shapes3d": 4, "smallnorb": 3}.items()
                for t in (10**k for k in range(3, most + 1))
            },
            9 * (POINTS + 3) * 5,
        ),
        (
            "randaugment-parts",
            {(d, f"UDS-{d}", "all"): rows for d, rows in FREQUENT.items()},
            4 * 15 * 3 * 5,
        ),
    ],
)
def test_the_papers_scale(
    name: str, scale: str | None, expected: dict[tuple[str, str, str], int], runs: int
) -> None:
    """The plan has these draws and no other, to within the row that a class's share is rounded
    by."""
    found, planned = rows_of(name, scale, STAND_INS)
    assert found.keys() == expected.keys() and planned == runs
    off = {
        key: rows - expected[key] for key, rows in found.items() if abs(rows - expected[key]) > 1
    }
    assert not off


def test_the_head_of_dataset_size_says_how_many_frequent_rows_there_are() -> None:
    head = (STUDIES / "dataset-size.yaml").read_text(encoding="utf-8").partition("\nname:")[0]
    assert all(f"has ({FREQUENT[name]:,})" in head for name in ("shapes3d", "smallnorb"))


# 15 ways of the one network (with erm-plain), and 4 other architectures, on dSprites and Shapes3D.
SMALLER = [
    ("spurious", "tiny", {150}, 2 * 19),
    ("lowdata", "tiny", {150}, 2 * 19),
    ("unseen", "tiny", {90, 80}, 2 * 18),
    ("label-noise", "tiny", {120}, 2 * 2 * 19),
    ("dataset-size", "tiny", {120, 240}, 3 * 19),
    ("label-is-color", "tiny", {90}, 2 * 18 + 1),
    ("randaugment-parts", "tiny", {90, 80}, 2 * 15),
    ("joint", None, {900}, 3),
]


@pytest.mark.parametrize(
    ("name", "scale", "rows", "runs"),
    [
        *SMALLER,
        ("spurious", "small", {1000}, 2 * 2 * 19 * 5),
        ("unseen", "small", {1000}, 2 * 18 * 2 * 5),
        ("lowdata", "small", {1000}, 2 * 2 * 19 * 5),
        ("label-noise", "small", {1000}, 2 * 4 * 19 * 5),
        ("dataset-size", "small", {1000, 2000}, 2 * 2 * 19 * 5),
        ("label-is-color", "small", {1000}, (2 * 18 + 1) * 2 * 5),
        ("label-is-color", None, {398_130}, (2 * POINTS + 3) * 5),
    ],
)
def test_smaller_scales(name: str, scale: str | None, rows: set[int], runs: int) -> None:
    found, planned = rows_of(name, scale, [])
    assert set(found.values()) == rows and planned == runs


# Every method trains in the other studies; what is new in these is how rows are drawn and labels
# changed, which a few methods of each kind show.
FEW = ("erm", "erm-plain", "vit", "irm", "jtt", "bn-adapt")
OF_FEW = {"lowdata": 2 * len(FEW), "label-noise": 2 * 2 * len(FEW), "dataset-size": 3 * len(FEW)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scale", "runs"),
    [(name, scale, OF_FEW.get(name, runs)) for name, scale, _, runs in SMALLER],
)
@pytest.mark.usefixtures("in_this_process")
def test_the_tiny_studies_run(
    name: str, scale: str | None, runs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--scale", scale] if scale else []
    if name in OF_FEW:
        study = yaml.safe_load((STUDIES / f"{name}.yaml").read_text(encoding="utf-8"))
        for method in sorted(set(study["methods"]) - set(FEW)):
            options += ["--set", f"methods.{method}=null"]
        # They compare families that are not among these few; that they can be planned is another test.
        options += ["--set", "claims=null"]
    assert (
        _status(["run", f"wiles2022/{name}", *options, "--workers", "1", "--out", str(tmp_path)])
        == 0
    )
    with Store.open(tmp_path) as store:
        states = [run["status"] for run in store.runs(f"wiles2022/{name}")]
    assert states == ["finished"] * runs
    assert (tmp_path / "report.html").is_file()


# Camelyon17 without pictures: of each label and hospital 25,000 rows, of which 20,250 train.
# Hospitals 0 and 1 are matched, 1 and 2 are rare.
CAMELYON = [
    "data.camelyon17.source=factors",
    "data.camelyon17.options={grid: {tumor: [no, yes], hospital: 5}, copies: 25000}",
]


@pytest.mark.parametrize(
    ("scale", "expected", "runs"),
    [
        (
            None,
            {
                ("camelyon17", f"{s}-{n}", "all"): rows + n
                for s, rows in (("SC", 40_500), ("LDD", 121_500))
                for n in NS
            },
            18,
        ),
        (
            "label-noise",
            {("camelyon17", "LDD-100", f"all, noise={p}"): 121_600 for p in (0.0, 0.1, 0.2, 0.3)},
            4,
        ),
        (
            "dataset-size",
            {("camelyon17", f"LDD-{t // 1000}", f"T{t}"): t for t in (1_000, 10_000, 100_000)},
            3,
        ),
    ],
)
def test_camelyon17_under_shifts_that_are_made(
    scale: str | None, expected: dict[tuple[str, str, str], int], runs: int
) -> None:
    found, planned = rows_of("camelyon17", scale, CAMELYON)
    assert found == expected and planned == runs * (POINTS + 3) * 5


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with copies of both sets of WILDS, made by the command line from files in their
    layouts."""
    root = tmp_path / "root"
    monkeypatch.setenv("CROSSWIND_DATA", str(root))
    for name, files in (("camelyon17", wild.camelyon17(10)), ("iwildcam", wild.iwildcam())):
        folder = written(tmp_path / name, files)
        for side in ({"camelyon17": "96", "iwildcam": "224"}[name], "16"):
            words = ["prepare", name, "--from", str(folder), "--set", f"size={side}"]
            assert _status(words) == 2  # of a hundred rows, not of 455,954
            assert (
                _status([*words, "--accept-totals"]) == 0
                and _status(["prepare", name, "--set", f"size={side}", "--check"]) == 0
            )
    return root


def test_unseen_hospitals_and_cameras_train_choose_and_test_on_the_parts_of_wilds(
    prepared: Path,
) -> None:
    """Camelyon17: 20 rows of each hospital, 59 of which train, and those of hospital 2 test.
    iWildCam: four train and one tests."""
    study = load_study("wiles2022/wilds-unseen")
    plan = make_plan(study)
    assert {(draw.source, draw.train_rows, draw.test_rows) for draw in plan.draws} == {
        ("camelyon17", 59, 20),
        ("iwildcam", 4, 1),
    }
    assert sum(
        "role" not in run.labels for run in plan.runs
    ) == 2 * POINTS * 5 and study.selection == ["best-ood", "best-id"]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    "name", ["wilds-unseen", pytest.param("camelyon17", marks=pytest.mark.slow)]
)
def test_prepared_sets_of_wilds_are_trained_on(
    name: str, prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tiny scale with two of its methods; the archives are files of a few rows."""
    study = load_study(f"wiles2022/{name}", "tiny")
    left_out = [
        word
        for method in study.methods
        if method not in ("erm", "dann")
        for word in ("--set", f"methods.{method}=null")
    ]
    out = tmp_path / "out"
    assert (
        _status(
            [
                "run",
                f"wiles2022/{name}",
                "--scale",
                "tiny",
                *left_out,
                "--workers",
                "1",
                "--out",
                str(out),
            ]
        )
        == 0
    ), capsys.readouterr()
    with Store.open(out) as store:
        assert [run["status"] for run in store.runs(f"wiles2022/{name}")] == ["finished"] * 4


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_selection_in_distribution_trains_nothing_again(scale: str) -> None:
    """The runs are those of wiles2022/unseen, key by key; only the rule differs."""
    unseen, again = (
        plan_of(f"wiles2022/{name}", scale) for name in ("unseen", "in-distribution-selection")
    )
    keys = [{job.key for job in of_kind(plan, "fit")} for plan in (unseen, again)]
    assert keys[0] == keys[1]
    assert len(keys[0]) >= len(again.runs) > 30, "jtt's first networks are beside the runs"
    assert list(again.study.selection) == ["best-id"]

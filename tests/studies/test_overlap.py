"""No study here trains or validates on a picture that it tests on; what a study file may say of it,
and what its run keys tell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.digit_files import write_mnist
from tests.data.picture_files import pacs_files, written
from tests.studies.plans import whole_specs

from crosswind.core.errors import InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import PreparedSource
from crosswind.data.sources.image_trees import Pacs
from crosswind.data.sources.mnist import FashionMnist, Mnist
from crosswind.shifts.split import make_split
from crosswind.studies.build import build_dataset, build_split_plan
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import Study, json_schema, load_study, study_from

HOUSE = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    "cifar10": {"start"},
    "jeon2025": {"clusters", "cost", "features", "finetuned", "prompts", "real-world"},
    "ng2022": {
        "ablations",
        "across-domains",
        "cifar",
        "cinic10",
        "entropy",
        "extreme",
        "imagenet",
        "nli",
        "numbers",
        "sentiment",
        "transforms",
    },
    "omran2022": {
        "aligned-subsets",
        "alignment",
        "class-splits",
        "corruptions",
        "learning-rate",
        "renditions",
        "rotations",
    },
    "wiles2022": {
        "camelyon17",
        "dataset-size",
        "in-distribution-selection",
        "label-noise",
        "lowdata",
        "randaugment-parts",
        "spurious",
        "unseen",
        "wilds-unseen",
    },
}
"""Studies on originals that are not written here, by folder: `test_pools_of_networks.py`,
`test_text_pools.py`, `test_omran2022.py`, `test_wiles2022.py` and `test_start.py` plan them, and
plans refuse overlaps."""

FILES = sorted(
    [*(HOUSE / "studies").rglob("*.yaml"), *(HOUSE / "benchmarks" / "effects").glob("*.yaml")]
)
FILES = [path for path in FILES if path.stem not in ELSEWHERE.get(path.parent.name, ())]
PREPARED = {"mnist", "colored-mnist", "fashion-mnist", "pacs"}
MOST = 25_000
"""Data sets of at most so many rows are compared by their pixels too."""


STAND_INS = {
    "corruption-attributes": [
        "data.celeba.source=digits",
        "data.celeba.options={}",
        "data.celeba.label=half",
        "data.celeba.roles={test: 20, validation: 0.1}",
        "sizes={all: {total: 200}}",
        "models=[mlp]",
        "methods=[erm]",
    ],
    "irm": ["data.digits.roles.test=100", "sets.validation.draw=all", "sets.seen.draw=all"],
    "lora": ["models=[mlp]"],
    "wise-ft": ["models=[mlp]"],
    "pretraining": ["models=[mlp]", "methods={erm: {}}", "claims=[]"],
}
"""What is set where a study needs more rows than the files written here have, or weights that are
not in the repository."""


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in the layouts of MNIST, Fashion-MNIST and PACS, with pictures of noise."""
    folder = tmp_path_factory.mktemp("originals")
    draw = np.random.default_rng(0)
    for name, rows in (("mnist", (12_000, 2_000)), ("fashion-mnist", (14_000, 10_000))):
        parts_drawn = [
            (draw.integers(0, 256, (n, 28, 28), dtype=np.uint8), np.arange(n) % 10) for n in rows
        ]
        write_mnist(folder / name, parts_drawn, packed=False)
    written(
        folder / "pacs",
        {name: data for name, data in pacs_files(12).items() if not name.endswith(".txt")},
    )
    return folder


@pytest.fixture(scope="module")
def root(originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of prepared data, which studies find without naming it."""
    root_folder = tmp_path_factory.mktemp("root")
    sources: list[PreparedSource] = [
        FashionMnist(root=str(root_folder), size=16),
        Mnist(root=str(root_folder), size=14),
        Mnist(root=str(root_folder)),
        Pacs(root=str(root_folder), size=64, lists=False),
    ]
    for source in sources:
        name = str(type(source).registered_name)
        prepare(source, originals=str(originals / name), accept_totals=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSWIND_DATA", str(root_folder))
        yield root_folder


def rows_by_role(
    spec: dict[str, Any],
) -> tuple[dict[str, AttributedDataset], list[tuple[str, str, np.ndarray]]]:
    """The data sets of a run, and role, data set and base rows of each of its sets."""
    datasets = {name: build_dataset(values) for name, values in spec["data"].items()}
    split = make_split(datasets, spec["main"], build_split_plan(spec["split"]), spec["seed"])
    sets = [("train", split.train), *(("held", rows) for rows in split.validation.values())]
    sets = [("train", rows) for _, rows in sets] + [
        ("test", rows) for rows in split.evaluation.values()
    ]
    role_rows = []
    for role, rows in sets:
        values = 1 if rows.visit_law is not None else datasets[rows.source].n_derived
        role_rows.append((role, rows.source, np.unique(rows.rows // values)))
    return datasets, role_rows


def shared(spec: dict[str, Any], digits: dict[str, np.ndarray]) -> tuple[int, int]:
    """Pictures in training or validation and in a test set: by origin, and by pixels before an
    attribute is derived."""
    datasets, role_rows = rows_by_role(spec)
    names: dict[str, dict[str, set[Any]]] = {
        kind: {"train": set(), "test": set()} for kind in ("origin", "pixels")
    }
    for role, source, rows in role_rows:
        data = datasets[source]
        keys = data.ids if data.originals is None else data.originals
        names["origin"][role] |= {(data.origin, key) for key in keys[rows].tolist()}
        # A square of dSprites turned by a quarter has the same pixels; there a picture is what its
        # factors are.
        if data.read is not None and data.n_base <= MOST and data.origin != "dsprites":
            if data.fingerprint not in digits:
                pixels = data.inputs(np.arange(data.n_base)).reshape(data.n_base, -1)
                digits[data.fingerprint] = np.array([hash(picture.tobytes()) for picture in pixels])
            names["pixels"][role] |= set(digits[data.fingerprint][rows].tolist())
    origin, pixels = (len(name_pair["train"] & name_pair["test"]) for name_pair in names.values())
    return origin, pixels


def swept(needs_files: bool) -> tuple[int, int, int]:
    """Studies, points and points of several data sets that were looked at: of each study file up to
    six points."""
    pixels: dict[str, np.ndarray] = {}
    studies, points, several = 0, 0, 0
    for path in FILES:
        study = load_study(str(path), None, STAND_INS.get(path.stem, ()))
        if any(data.source in PREPARED for data in study.data.values()) != needs_files:
            continue
        studies += 1
        pairs_seen: set[tuple[str, str]] = set()
        plan = make_plan(study, path.parent)
        for run, spec in zip(plan.runs, whole_specs(plan), strict=True):
            point = (run.labels["data"], run.labels["shift"])
            if point in pairs_seen or len(pairs_seen) == 6:
                continue
            pairs_seen.add(point)
            several += len(spec["data"]) > 1
            assert shared(spec, pixels) == (0, 0), f"{path}, {point}"
        points += len(pairs_seen)
    return studies, points, several


@pytest.mark.slow
def test_no_study_of_drawn_data_tests_on_pictures_that_train() -> None:
    studies, points, several = swept(needs_files=False)
    assert studies >= 12 and points >= 25 and several >= 1


@pytest.mark.slow  # writes and prepares 40,000 pictures
def test_no_study_of_prepared_data_tests_on_pictures_that_train(root: Path) -> None:
    studies, points, several = swept(needs_files=True)
    assert studies >= 10 and points >= 10 and several >= 5
    assert studies + swept(needs_files=False)[0] == len(FILES) >= 23


RENDITIONS: dict[str, Any] = {
    "data": {
        "clean": {
            "source": "digits",
            "options": {"size": 8},
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 5},
        },
        "dark": {
            "source": "digits",
            "options": {"size": 8, "seed": 1},
            "label": "digit",
            "attributes": ["ink"],
        },
    },
    "shifts": {"none": []},
    "sizes": {"all": {"clean": "all"}},
    "sets": {
        "validation": {"role": "validation"},
        "test": {"role": "test"},
        "dark": {"role": "test", "source": "dark"},
    },
    "models": ["mlp"],
    "seeds": 1,
}


def test_a_plan_says_what_is_left_out_and_its_key_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 cells of 5 test rows; the 1,797 - 150 other digits of the second drawing train or validate
    in the first."""
    plan = make_plan(study_from(RENDITIONS))
    left = (
        "clean, none, all: dark: 1,647 rows are left out, as their pictures have another role"
        " elsewhere"
    )
    assert left in plan.warnings and plan.draws[0].test_rows == 150
    allowed = make_plan(study_from({**RENDITIONS, "overlap": "allowed"}))
    sentence = (
        "clean, none, all: dark: 1,647 test rows show pictures that train or validate (overlap:"
        " allowed)"
    )
    assert sentence in allowed.warnings
    assert allowed.runs[0].key != plan.runs[0].key
    datasets, role_rows = rows_by_role(next(whole_specs(allowed)))
    assert [len(rows) for role, source, rows in role_rows if source == "dark"] == [1797]
    sentence = plan.runs[0].key
    monkeypatch.setattr(
        sys.modules[make_split.__module__]._SplitStudy, "pictures", lambda study: None
    )
    assert make_plan(study_from(RENDITIONS)).runs[0].key != sentence


def test_keys_of_studies_of_one_source_do_not_know_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {
        **RENDITIONS,
        "data": {"clean": RENDITIONS["data"]["clean"]},
        "sets": {"test": {"role": "test"}},
        "selection": ["last"],
    }
    (run,) = make_plan(study_from(alone)).runs
    assert all("overlap" not in spec["split"] for spec in whole_specs(make_plan(study_from(alone))))
    monkeypatch.setattr(
        sys.modules[make_split.__module__]._SplitStudy, "pictures", lambda study: None
    )
    assert make_plan(study_from(alone)).runs[0].key == run.key


def test_the_field_is_checked() -> None:
    with pytest.raises(
        InputError, match=r"^study: overlap: 'alowed' is not valid, did you mean 'allowed'\?"
    ):
        study_from({**RENDITIONS, "overlap": "alowed"})
    assert json_schema()["properties"]["overlap"]["enum"] == ["refused", "allowed"]
    assert Study.model_fields["overlap"].default == "refused"

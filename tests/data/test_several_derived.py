"""Several derived attributes of one data set: each on top of those before, and in every cell."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.core.registry import load
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import evaluation_inputs, evaluation_keys, materialised
from crosswind.data.sources.digits import Digits
from crosswind.execution.jobs import split_of
from crosswind.studies.build import build_dataset, data_values
from crosswind.studies.job_specs import FitSpec, PredictSpec
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import DataSpec, study_from

CORRUPTIONS = {"noise": "impulse-noise", "snow": "snow", "elastic": "elastic"}
DERIVE = [
    {"name": name, "transform": transform, "values": {"off": None, "on": {"severity": 2}}}
    for name, transform in CORRUPTIONS.items()
]
DATA: dict[str, Any] = {
    "source": "digits",
    "label": "half",
    "attributes": list(CORRUPTIONS),
    "derive": DERIVE,
    "roles": {"test": 20, "validation": 0.2},
}
STUDY: dict[str, Any] = {
    "name": "corrupted",
    "data": {"digits": DATA},
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "noise", "counterexamples": 0.05},
        "LDD": {"type": "low-data-drift", "attribute": "snow", "low": ["on"], "ratio": 0.1},
        "UDS": {"type": "unseen-data", "attribute": "elastic", "unseen": ["on"]},
        "all": ["SC", "LDD", "UDS"],
    },
    "sizes": {"equal": {"total": 400}},
    "models": {"mlp": {"hidden": 16, "layers": 1}},
    "methods": ["erm"],
    "training": {"steps": 6, "batch": 32, "validate_every": 3},
    "seeds": 1,
}


def dataset(**changes: Any) -> AttributedDataset:
    spec = DataSpec.model_validate({**DATA, **changes})
    return build_dataset(data_values(spec, "data.digits", None), "data.digits")


def test_every_row_stands_under_every_combination_and_looks_like_the_chain() -> None:
    several, plain = dataset(), Digits().load()
    assert [attribute.name for attribute in several.schema][-3:] == list(CORRUPTIONS)
    assert several.n_rows == 8 * plain.n_rows and several.n_base == 4 * plain.n_rows
    base_row = 17
    rows = np.arange(8 * base_row, 8 * base_row + 8)
    pictures = evaluation_inputs(several, rows)
    on_off = list(product((0, 1), repeat=3))
    noise = several.table.column("noise")[rows // 2]
    snow = several.table.column("snow")[rows // 2]
    assert list(zip(noise, snow, rows % 2, strict=True)) == on_off
    ids = plain.ids[[base_row]]
    picture = torch.from_numpy(plain.inputs(np.array([base_row]))).permute(0, 3, 1, 2)
    for row, values in enumerate(on_off):
        expected, chain_ids = picture, ids
        for value, transform in zip(values, CORRUPTIONS.values(), strict=True):
            if value:
                keys = evaluation_keys(chain_ids, np.array([1]))
                expected = load("transforms", transform)(severity=2)(expected, keys)
            chain_ids = chain_ids * 2 + value
        assert np.array_equal(pictures[row], expected.permute(0, 2, 3, 1).numpy()[0]), values
    assert len({pictures[row].tobytes() for row in range(8)}) == 8


def test_the_rows_of_one_picture_have_one_role_and_ids_of_their_own() -> None:
    plan = make_plan(study_from(STUDY))
    fit = next(job for job in plan.jobs if job.kind == "fit" and job.labels["shift"] == "none")
    prediction = next(
        job for job in plan.jobs if job.kind == "predict" and job.labels["shift"] == "none"
    )
    rows_spec = FitSpec.of(fit.spec).rows.with_set(PredictSpec.of(prediction.spec))
    split, datasets = split_of(rows_spec)
    several = datasets["digits"]
    pictures = {
        name: set(several.row_units(rows.rows).tolist())
        for name, rows in {"train": split.train, **split.validation, **split.evaluation}.items()
    }
    assert set(pictures) == {"train", "validation", "test"}
    for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not pictures[first] & pictures[second]
    assert len(np.unique(several.row_ids(np.arange(several.n_rows)))) == several.n_rows


def test_shifts_act_on_each_of_them() -> None:
    draws = {draw.shift: draw for draw in make_plan(study_from(STUDY)).draws}
    correlated = draws["SC"].cells
    matched = sum(
        rows
        for cell, rows in correlated.items()
        if ("0-4" in cell and "noise=off" in cell) or ("5-9" in cell and "noise=on" in cell)
    )
    assert matched > 0.9 * sum(correlated.values())
    assert all("elastic=off" in cell for cell in draws["all"].cells)
    rare = sum(rows for cell, rows in draws["LDD"].cells.items() if "snow=on" in cell)
    assert 0 < rare < 0.2 * sum(draws["LDD"].cells.values())
    assert len(draws["none"].cells) == 16


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_study_of_them_runs_and_is_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(STUDY, sort_keys=False), encoding="utf-8")
    assert _status(["run", str(file), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert "5 of 5 runs done" in capsys.readouterr().err


def test_a_single_one_is_what_it_was_and_a_list_of_one_is_it() -> None:
    single, listed = dataset(derive=DERIVE[0]), dataset(derive=DERIVE[:1])
    assert single.fingerprint == listed.fingerprint and single.derived == listed.derived
    assert materialised(Digits().load()).fingerprint == Digits().load().fingerprint


@pytest.mark.parametrize(
    ("derive", "words"),
    [
        (
            [{**DERIVE[0], "mode": "per-visit"}, DERIVE[1]],
            "data.digits.derive.0.mode: must be fixed for all but the last derived attribute",
        ),
        ([DERIVE[0], DERIVE[0]], "data.digits.derive.1.name: data set 'digits' already has an"),
        (
            [DERIVE[0], {**DERIVE[1], "transform": "snowy"}],
            "data.digits.derive.1.transform: unknown transform 'snowy', did you mean 'snow'",
        ),
        (
            [DERIVE[0], {**DERIVE[1], "values": {"off": None, "on": {"severity": 9}}}],
            "data.digits.derive.1.values.on.severity: ",
        ),
    ],
)
def test_a_wrong_one_is_named_by_its_place(derive: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError) as refused:
        dataset(derive=derive)
    assert words in str(refused.value)


def test_the_last_may_be_drawn_at_every_visit() -> None:
    several = dataset(derive=[DERIVE[0], {**DERIVE[1], "mode": "per-visit"}])
    assert several.derived is not None and several.derived.mode == "per-visit"
    assert "noise" in several.table.names

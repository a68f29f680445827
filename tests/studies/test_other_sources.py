"""A study of two sources: a model trained on one is tested on the other, class by class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.digit_files import drawn_digits, write_mnist, write_usps
from tests.studies.plans import whole_specs

import crosswind
from crosswind.data.prepared import prepare
from crosswind.data.sources.mnist import Mnist, Usps
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

OFFICIAL = {"official": {"column": "split", "train": ["train"], "test": ["test"]}}


def study(root: Path) -> dict[str, Any]:
    def entry(source: str, **options: Any) -> dict[str, Any]:
        source_options = {"root": str(root), **options}
        return {
            "source": source,
            "options": source_options,
            "label": "digit",
            "attributes": [],
            "roles": OFFICIAL,
        }

    return {
        "name": "digits-elsewhere",
        "data": {"mnist": entry("mnist", size=16), "usps": entry("usps")},
        "shifts": {"none": []},
        "sizes": {"all": {"mnist": "all"}},
        "sets": {
            "validation": {"role": "validation", "law": "train"},
            "test": {"role": "test"},
            "usps": {"role": "test", "source": "usps"},
        },
        "models": ["mlp"],
        "training": {"steps": 120, "batch": 64, "validate_every": 40},
        "seeds": 1,
    }


@pytest.mark.slow
def test_mnist_to_usps(tmp_path: Path) -> None:
    """Classes are brightnesses in both, so a network that has learned them on one knows the
    other's, unless names do not meet."""
    write_mnist(tmp_path / "originals" / "mnist", [drawn_digits(600, 0), drawn_digits(60, 1)])
    pictures, digits = drawn_digits(80, 2, 16)
    draw = np.random.default_rng(0).permutation(80)
    write_usps(
        tmp_path / "originals" / "usps", [drawn_digits(50, 3, 16), (pictures[draw], digits[draw])]
    )
    for source in (Mnist(root=str(tmp_path), size=16), Usps(root=str(tmp_path))):
        prepare(source, accept_totals=True)
    (spec,) = whole_specs(make_plan(study_from(study(tmp_path))))
    assert set(spec["data"]) == {"mnist", "usps"}
    study_results = crosswind.run_study(study(tmp_path), tmp_path / "out")
    assert [row["reason"] for row in study_results.rows if row["status"] != "finished"] == []
    accuracy_by_set = {
        row["set"]: row["metrics"]["accuracy"]
        for row in study_results.rows
        if row["rule"] == "best-id"
    }
    assert set(accuracy_by_set) == {"validation", "test", "usps"}
    assert accuracy_by_set["test"] > 0.6 and accuracy_by_set["usps"] > 0.6

"""XGBoost and LightGBM are trained under a shift as they train themselves on the same rows.

They are in the dependency group `boosting`, which the core and the usual tests do without.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models.test_sklearn_estimator import inputs_of, patients, split_of

import crosswind as cw

LIBRARIES: dict[str, dict[str, Any]] = {
    "xgboost.XGBClassifier": {"n_estimators": 20},
    "lightgbm.LGBMClassifier": {"n_estimators": 20, "verbose": -1},
}


@pytest.mark.parametrize("sampler", ["uniform", "balanced"])
@pytest.mark.parametrize("estimator", LIBRARIES)
def test_it_answers_as_the_library_does_on_the_same_rows(
    estimator: str, sampler: str, tmp_path: Path
) -> None:
    package, _, name = estimator.partition(".")
    pytest.importorskip(package)
    settings = LIBRARIES[estimator]
    dataset = patients(missing=0.1)  # both read rows without a number as they stand
    split = split_of(dataset, sampler=sampler)
    model = {"name": "sklearn", "estimator": estimator, "scale": False, "settings": settings}
    trained = cw.train("erm", split, dataset, model=model)
    train, test = (inputs_of(dataset, rows) for rows in (split.train, split.evaluation["test"]))
    assert np.isnan(train).any()
    weights = np.asarray(split.train.weight, dtype=np.float64)
    assert (weights.std() > 1e-9) == (sampler == "balanced")
    weights = None if sampler == "uniform" else weights / weights.mean()
    theirs = getattr(importlib.import_module(package), name)(**settings)
    theirs.fit(train, split.train.label, sample_weight=weights)
    ours = trained.predict_proba(test)
    np.testing.assert_allclose(ours, theirs.predict_proba(test), atol=1e-5)
    assert len(np.unique(ours)) > 20
    trained.save(tmp_path / "model.safetensors")
    again = cw.load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(test), ours)

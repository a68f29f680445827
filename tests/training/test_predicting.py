"""What evaluation costs: nothing is predicted twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.training.world import run

from crosswind.methods.erm import ERM
from crosswind.training import run as running
from crosswind.training.predicting import predict


def test_validation_sets_are_predicted_once_a_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 steps have 3 validations of 2 sets; the test set is predicted once for each of the steps
    that some rule takes."""
    calls: list[int] = []

    def counted(method: Any, modules: Any, state: Any, rows: Any, settings: Any) -> Any:
        calls.append(len(rows.rows.rows))
        return predict(method, modules, state, rows, settings)

    monkeypatch.setattr(running, "predict", counted)
    trajectory = run(ERM(), model="small-cnn", lr=0.1, seed=1)
    steps = {selection.step for selection in trajectory.selections.values()}
    assert len(steps) > 1 and calls == [30, 30] * 3 + [45] * len(steps)


def test_a_run_that_is_gone_on_with_says_the_same_bits(tmp_path: Any) -> None:
    uninterrupted = run(ERM(), model="small-cnn", lr=0.1, seed=1)
    run(ERM(), model="small-cnn", lr=0.1, seed=1, checkpoint=tmp_path / "run")
    again = run(
        ERM(), model="small-cnn", lr=0.1, seed=1, checkpoint=tmp_path / "run"
    )  # nothing left to do but to predict
    for rule, sets in uninterrupted.predictions.items():
        for name, set_predictions in sets.items():
            assert np.array_equal(set_predictions.logits, again.predictions[rule][name].logits), (
                rule,
                name,
            )  # type: ignore[arg-type]

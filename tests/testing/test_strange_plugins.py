"""Classes of one's own that give something else than they should: one sentence that names what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.estimators.made import drawn
from torch import nn

import crosswind as cw
from crosswind.core.errors import DataError, InputError, RunError
from crosswind.core.registry import load
from crosswind.core.types import InputSpec
from crosswind.data.dataset import AttributedDataset
from crosswind.estimators.base import Answers, Estimator, Labelled
from crosswind.estimators.estimating import estimated
from crosswind.methods.base import Loss
from crosswind.models import build
from crosswind.models.build import Model, build_model
from crosswind.shifts.base import NormalForm
from crosswind.training.run_context import _check_loss


def pictures() -> AttributedDataset:
    return cw.from_frame(
        {"kind": ["a", "b"] * 12, "place": ["x", "x", "y", "y"] * 6},
        np.random.default_rng(0).integers(0, 256, (24, 8, 8, 3), dtype=np.uint8),
    )


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (torch.zeros((), requires_grad=True), "must return a Loss, and returned Tensor"),
        (None, "must return a Loss, and returned NoneType"),
        (Loss(1.0), "total of the method's loss is float and no tensor"),  # type: ignore[arg-type]
        (Loss(torch.zeros(3, requires_grad=True)), r"is a tensor \[3\], and must be one number"),
        (Loss(torch.zeros(())), "has no gradient: it depends on no network"),
    ],
)
def test_a_method_that_gives_no_loss(returned: Any, sentence: str) -> None:
    with pytest.raises(RunError, match=sentence):
        _check_loss(returned)
    _check_loss(Loss(torch.zeros((), requires_grad=True)))


def _parts(outputs: int = 2, **settings: Any) -> Model:
    parts = {"flat": nn.Flatten(), "head": nn.Linear(192, outputs)}
    by_name = {"stages": {"all": ("flat",)}, "pool": (), "head": "head", **settings}
    return Model(parts, width=192, **by_name)


@pytest.mark.parametrize(
    ("made", "error", "sentence"),
    [
        (lambda: _parts(3), RunError, "'mlp' has 3 outputs, and there are 2 classes"),
        (lambda: _parts(head="fc"), InputError, "names 'fc', which is none of its parts.*head"),
        (lambda: _parts(stages={"all": ("flt",)}), InputError, "names 'flt', which is none of its"),
        (lambda: _parts(pool=("avg",)), InputError, "names 'avg', which is none of its parts"),
    ],
)
def test_a_model_that_is_not_put_together(
    made: Callable[[], Model], error: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a third output an answer without a class was told of only where it was the largest."""
    monkeypatch.setattr(build, "_built", {})
    monkeypatch.setattr(load("models", "mlp"), "build", lambda *_: made())
    with pytest.raises(error, match=sentence):
        build_model("mlp", {}, InputSpec.image(8, 8, 3), ("a", "b"), 0)


@pytest.mark.parametrize("model", ["callable", "predictions", "onnx", "skops"])
def test_a_model_that_answers_as_it_is_cannot_be_trained(model: str) -> None:
    """It was an AttributeError on its encoder."""
    setting = {"callable": {"function": "rule:answer"}}.get(model, {"path": "file"})
    data = pictures()
    split = cw.split(data, "kind", ["place"], test=0.25)
    with pytest.raises(InputError, match=f"model: {model} answers as it is.*valid: .*small-cnn"):
        cw.train("erm", split, data, model={"name": model, **setting}, steps=1)


@pytest.mark.parametrize(
    ("factor", "sentence"),
    [
        (np.array([[-1.0, 1.0]]), "shift: gives a cell of the training set a weight below 0"),
        (np.ones((1, 3)), r"shift: has weights \[1, 3\], which are none of the \[2, 2\] cells"),
        (np.ones((1, 2, 2)), r"shift: has weights \[1, 2, 2\], which are none of"),
    ],
)
def test_a_shift_without_weights_on_cells(
    factor: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weighed(self: Any, cells: Any, field: str = "") -> NormalForm:
        return NormalForm(cells.shape, (factor,))

    monkeypatch.setattr(cw.UnseenData, "normal_form", weighed)
    with pytest.raises(InputError, match=sentence):
        cw.split(pictures(), "kind", ["place"], cw.UnseenData("place"), test=0.25)


@dataclass(frozen=True)
class Saying(Estimator):
    """Says what it is told to."""

    said: Any = 0.5

    def fit(self, source: Labelled) -> None:
        return None

    def estimate(self, fitted: None, target: Answers) -> Any:
        return self.said


def test_an_estimator_that_gives_no_accuracy() -> None:
    """NaN passed every check, and printing the estimates crashed on it."""
    source = drawn(0, 60)
    target = drawn(1, 60).answers
    assert estimated(Saying(float("nan")), source, target) == "its estimate is no number"
    with pytest.raises(DataError, match="must give an accuracy.* and one gave null"):
        estimated(Saying(None), source, target)
    assert estimated(replace(Saying(), said=np.float32(0.5)), source, target).accuracy == 0.5

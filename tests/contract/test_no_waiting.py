"""No step of any method asks the device for a number: on an accelerator the host would stand still
until all is done.

Steps are taken on torch's `meta` device, whose tensors have shapes and no values: what reads a
value, or makes a shape depend on one, cannot work there.
"""

from __future__ import annotations

import pytest
from tests.contract.test_methods import NAMES, SETTINGS, made
from tests.training.world import dataset, split

from crosswind.methods.base import Batch, Loss, Method, Stage
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed
from crosswind.training.identity import info_of
from crosswind.training.loader import EvaluationRows, TrainingRows
from crosswind.training.run_context import ContextRows, LoopContext
from crosswind.training.settings import ModelSpec, TrainingSettings


def steps(name: str, method: Method) -> int:
    """Take three steps of the method's on the meta device; how many were taken."""
    knob_values = SETTINGS.get(name, {})
    # A fused optimiser knows no meta device; which one steps is none of the method's business.
    settings = TrainingSettings(batch=16, steps=12, device="meta", optimiser="sgd", patience=None)
    sets, data = split(), dataset()
    images = {sets.train.source: data}
    first = build_model(knob_values.get("model", "mlp"), {}, data.input, unnamed(2), 0).state_dict()
    base = {f"model.{key}": value for key, value in first.items()} if method.needs.base else None
    info = info_of(sets, images, settings)
    rows = TrainingRows(
        sets.train, data, settings, 0, method.needs.sampler, method.views(), method.partners(info)
    )
    context = LoopContext(
        method,
        info,
        ModelSpec(knob_values.get("model", "mlp")),
        settings,
        0,
        ContextRows(rows, EvaluationRows(sets.train, data, settings, resident=False)),
        base,
    )
    context.begin(Stage(), fresh=False)  # what a method does between stages may wait

    context.train()
    for step in range(3):
        context.batch = rows.batch(step, 12)
        assert context.batch.x.is_meta
        loss = method.update(context, context.batch)
        assert loss.total.is_meta and all(term.is_meta for term in loss.terms.values())
    return 3


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_step_waits_for_the_device(name: str) -> None:
    assert steps(name, made(name)) == 3


class WaitingERM(ERM):
    """ERM that reads its loss at every step."""

    def loss(self, modules: dict, batch: Batch, state: dict) -> Loss:
        loss_terms = super().loss(modules, batch, state)
        if float(loss_terms.total) > 100:
            raise ValueError("the loss is too large")
        return loss_terms


class Choosing(ERM):
    """ERM on rows that a condition picks: how many there are is known to the device only."""

    def loss(self, modules: dict, batch: Batch, state: dict) -> Loss:
        is_first = batch.y == 0
        return Loss(modules["model"](batch.x[is_first]).square().mean())


@pytest.mark.parametrize("method", [WaitingERM(), Choosing()])
def test_a_step_that_waits_is_found(method: Method) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        steps("erm", method)

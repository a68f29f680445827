from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny_clip import clip_folder
from tests.training.world import DATA, run, split

from crosswind.core.knobs import Form
from crosswind.core.registry import facts
from crosswind.methods.erm import ERM
from crosswind.methods.wise_ft import WiseFT
from crosswind.training.loop import fit
from crosswind.training.settings import ModelSpec, TrainingSettings


def logits_of(found: Any) -> Any:
    """What the last weights say of the test rows."""
    return found.predictions["last"]["test"].logits


@pytest.mark.parametrize("model", ["mlp", "small-cnn"])  # the second with running statistics
def test_weights_are_a_mean_of_those_at_the_start_and_those_of_erm(model: str) -> None:
    found, tuned, start = (run(method, model=model, steps=6) for method in (WiseFT(alpha=0.25), ERM(), WiseFT(alpha=0.0)))
    weights, theirs, first = (item.weights("last") for item in (found, tuned, start))
    names = [key for key in theirs if key.startswith("model.") and theirs[key].is_floating_point()]
    assert len(names) >= 4 and any((theirs[key] - first[key]).abs().max() > 1e-4 for key in names)
    for key in names:
        assert torch.allclose(weights[key], 0.75 * first[key] + 0.25 * theirs[key], atol=1e-6), key
        assert torch.equal(weights[key.replace("model.", "tuned.", 1)], theirs[key])


def test_alpha_0_answers_as_the_model_began() -> None:
    """For CLIP as its prompts do."""
    model = ModelSpec("clip", {"path": clip_folder(), "tuned": True})
    sets: Any = split()

    def trained(method: Any, steps: int) -> Any:
        settings = TrainingSettings.of({"steps": steps, "batch": 16, "validate_every": 3})
        return fit(method, sets, {"tiny": DATA}, model, settings, 0)

    found, untrained = trained(WiseFT(alpha=0.0), 3), trained(ERM(), 0)
    tuned = trained(WiseFT(alpha=1.0), 3).predictions["last"]["test"].logits
    assert np.abs(tuned - untrained.predictions["last"]["test"].logits).max() > 1e-3
    assert not any("random" in text for text in found.warnings)
    one, two = (item.predictions["last"]["test"].logits for item in (found, untrained))
    assert np.array_equal(one, two)


def test_what_is_validated_is_what_is_kept() -> None:
    """The selected step is that of the best interpolated weights, and predictions are theirs."""
    half, whole = run(WiseFT(), steps=8, validate_every=2), run(ERM(), steps=8, validate_every=2)
    assert [item["step"] for item in half.history] == [item["step"] for item in whole.history]
    one, two = (logits_of(item) for item in (half, whole))
    assert np.abs(one - two).max() > 1e-5


def test_random_initial_weights_are_warned_of() -> None:
    assert any("those of 'mlp' are random" in text for text in run(WiseFT(), steps=4).warnings)
    form = Form(folders={"path": "clip"})
    assert form.is_given({"path": "x"}) and not Form().is_given({}) and not Form().is_given({"weights": None})
    probe = facts("models", "linear-probe").built
    assert probe is not None and not probe.is_given({"of": "clip", "weights": None})

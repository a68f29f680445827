from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny_clip import clip_folder
from tests.models.tiny_vision import write_llava
from tests.training.world import DATA, run, split

from crosswind.core.knobs import Form
from crosswind.core.registry import facts
from crosswind.core.types import InputSpec
from crosswind.methods.base import Info
from crosswind.methods.erm import ERM
from crosswind.methods.wise_ft import WiseFT
from crosswind.models.build import build_model
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.training.loop import fit
from crosswind.training.settings import ModelSpec, TrainingSettings


@pytest.mark.parametrize("model", ["mlp", "small-cnn"])  # the second with running statistics
def test_weights_are_a_mean_of_those_at_the_start_and_those_of_erm(model: str) -> None:
    found, tuned, start = (
        run(method, model=model, steps=6)
        for method in (WiseFT(alpha=0.25), ERM(), WiseFT(alpha=0.0))
    )
    weights, theirs, first = found.weights("last"), tuned.weights("best-id"), start.weights("last")
    names = [key for key in theirs if key.startswith("model.") and theirs[key].is_floating_point()]
    assert len(names) >= 4 and any((theirs[key] - first[key]).abs().max() > 1e-4 for key in names)
    assert weights.keys() == theirs.keys()
    for key in names:
        assert torch.allclose(weights[key], 0.75 * first[key] + 0.25 * theirs[key], atol=1e-6), key


@pytest.mark.slow
def test_alpha_1_is_what_validation_chose_of_erm_and_alpha_0_the_model_as_it_began() -> None:
    """For CLIP as its prompts answer."""
    model = ModelSpec("clip", {"path": clip_folder(), "tuned": True})
    sets: Any = split()

    def trained(method: Any, steps: int) -> Any:
        settings = TrainingSettings.of({"steps": steps, "batch": 16, "validate_every": 3})
        return fit(method, sets, {"tiny": DATA}, model, settings, 0)

    found, untrained, whole, erm = (
        trained(WiseFT(alpha=0.0), 6),
        trained(ERM(), 0),
        trained(WiseFT(alpha=1.0), 6),
        trained(ERM(), 6),
    )
    assert not any("random" in text or "no step" in text for text in found.warnings)
    one, two, three, four = (
        item.predictions["best-id"]["test"].logits for item in (found, untrained, whole, erm)
    )
    assert (
        np.array_equal(one, two) and np.abs(three - four).max() < 1e-6 < np.abs(three - one).max()
    )


def test_weights_that_a_network_has_twice_are_moved_once(tmp_path: Path) -> None:
    """Embeddings that tell tokens too."""
    folder = write_llava(tmp_path / "tied", tie_word_embeddings=True)
    knobs = {"path": str(folder), "tuned": True, "by": "score", "prompt": "Is it"}

    def make(*, base: bool = False, **_: Any) -> Any:
        model: Any = build_model(
            "vision-language", knobs, InputSpec.image(16, 16, 3), ("zero", "one"), 0
        )
        if base:
            model.network.lm_head.weight.data.add_(1.0)
        return model

    plain, mixed = (
        make(),
        WiseFT(alpha=0.5).modules(Info(InputSpec.image(16, 16, 3), 2, 9), make)["model"],
    )
    apart = mixed.network.lm_head.weight - plain.network.lm_head.weight  # type: ignore[union-attr,operator]
    assert torch.allclose(apart, torch.full_like(apart, 0.5), atol=1e-6)  # type: ignore[arg-type]


def test_a_curve_of_alphas_is_one_training_which_is_that_of_erm() -> None:
    study: dict[str, Any] = {
        "name": "curve",
        "data": {
            "digits": {
                "source": "digits",
                "label": "digit",
                "attributes": ["ink"],
                "roles": {"test": 2, "validation": 0.1},
            }
        },
        "shifts": {"none": []},
        "sizes": {"small": {"total": 40}},
        "models": {"clip": {"path": clip_folder(), "tuned": True}},
        "methods": {"erm": {}, "wise-ft": {"alpha": [0.0, 0.25, 0.5, 0.75, 1.0]}},
        "training": {"steps": 4, "batch": 8, "validate_every": 2, "lr": [0.001, 0.0001]},
        "keep": "selected",
        "seeds": 1,
    }
    fits = [job for job in make_plan(study_from(study)).jobs if job.kind == "fit"]
    trained = {job.key for job in fits if not job.needs}
    assert len(trained) == 2 and sum(bool(job.needs) for job in fits) == 10
    assert {need for job in fits for need in job.needs} == trained


def test_random_initial_weights_are_warned_of() -> None:
    assert any("those of 'mlp' are random" in text for text in run(WiseFT(), steps=4).warnings)
    form = Form(folders={"path": "clip"})
    assert (
        form.is_given({"path": "x"})
        and not Form().is_given({})
        and not Form().is_given({"weights": None})
    )
    probe = facts("models", "linear-probe").built
    assert probe is not None and not probe.is_given({"of": "clip", "weights": None})

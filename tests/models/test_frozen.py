"""Batch norms that keep the statistics of given weights: in training too, through copies, and never
those of random weights."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.training.world import DATA, split
from torch import nn

from crosswind.core.errors import InputError
from crosswind.core.types import InputSpec
from crosswind.methods.erm import ERM
from crosswind.methods.groupdro import GroupDRO
from crosswind.methods.sagnet import SagNet
from crosswind.models.build import Model, build_model, unnamed
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.training.loop import fit
from crosswind.training.settings import ModelSpec, TrainingSettings

SHAPE = InputSpec.image(32, 32, 3)


@pytest.fixture
def weights(tmp_path: Path) -> str:
    """A trained network's, as it were: no mean is 0, no variance 1."""
    state = build_model("resnet18", {}, SHAPE, unnamed(5), 9).state_dict()
    draw = torch.Generator().manual_seed(0)
    middles = {"running_mean": -0.5, "running_var": 0.5}
    worn = {key: middles.get(key.split(".")[-1]) for key in state}
    worn = {
        k: state[k].clone() if m is None else m + torch.rand(state[k].shape, generator=draw)
        for k, m in worn.items()
    }
    save_file(worn, str(tmp_path / "w.safetensors"))
    return str(tmp_path / "w.safetensors")


def stepped(model: Model) -> dict[str, torch.Tensor]:
    """What a model holds after a step in training mode."""
    model.train()
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    model(x).square().sum().backward()
    optimiser.step()
    return model.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [True, False])
def test_statistics_stay_where_they_are_frozen_and_move_where_not(
    weights: str, frozen: bool
) -> None:
    model = build_model(
        "resnet18", {"weights": weights, "freeze_batch_norm": frozen}, SHAPE, unnamed(3), 0
    )
    before = {key: value.clone() for key, value in model.state_dict().items()}
    after = stepped(copy.deepcopy(model))  # a copy too: methods and the loop take some
    for key in (key for key in before if "running" in key or "num_batches" in key):
        assert torch.equal(before[key], after[key]) == frozen, key
    # Scales, shifts and all other weights learn either way.
    assert not any(
        torch.equal(before[key], after[key])
        for key in ("bn1.weight", "bn1.bias", "conv1.weight", "fc.weight")
    )


@pytest.mark.slow
def test_training_then_normalises_as_evaluation_does(weights: str) -> None:
    model = build_model(
        "resnet18", {"weights": weights, "freeze_batch_norm": True}, SHAPE, unnamed(3), 0
    )
    x = torch.rand(4, 3, 32, 32)
    with torch.no_grad():
        trained = model.train()(x)
        assert model.training and not model.bn1.training and torch.equal(trained, model.eval()(x))
        loose = build_model("resnet18", {"weights": weights}, SHAPE, unnamed(3), 0)
        assert not torch.allclose(loose.train()(x), trained)
        # As a part of another network, which is how some methods hold it.
        assert not nn.Sequential(model).train()[0].bn1.training


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [ERM(), SagNet(), GroupDRO()], ids=lambda method: method.registered_name
)
def test_the_loop_trains_around_frozen_statistics(weights: str, method: Any) -> None:
    """What a run keeps has the statistics of the file in every network that began from it, and
    other weights."""
    spec = ModelSpec("resnet18", {"weights": weights, "stem": "small", "freeze_batch_norm": True})
    theirs = load_file(weights)
    theirs["conv1.weight"] = torch.zeros(64, 3, 3, 3)
    save_file(theirs, weights)
    settings = TrainingSettings(steps=2, batch=16, validate_every=1, evaluation_batch=32)
    trained_weights = fit(method, split(), {"tiny": DATA}, spec, settings, 0).weights("last")  # type: ignore[arg-type]
    statistics = [key for key in trained_weights if key.startswith("model.") and "running" in key]
    assert len(statistics) == 40 and all(
        torch.equal(trained_weights[key], theirs[key.removeprefix("model.")]) for key in statistics
    )
    assert not torch.equal(trained_weights["model.bn1.bias"], theirs["bn1.bias"])


def test_random_weights_are_never_frozen(weights: str) -> None:
    with pytest.raises(
        InputError,
        match=(
            r"^model\.freeze_batch_norm: keeps the statistics .* and these are random; name weights"
        ),
    ):
        build_model("resnet18", {"freeze_batch_norm": True}, SHAPE, unnamed(3), 0)
    with pytest.raises(InputError, match=r"^model\.freeze_batch_norm: the model has no batch norm"):
        build_model("mlp", {}, SHAPE, unnamed(3), 0).keep_statistics()
    with pytest.raises(
        InputError, match=r"^m\.freeze_batch_norm: unknown setting of model 'vit-b-16'"
    ):
        build_model(
            "vit-b-16",
            {"weights": weights, "freeze_batch_norm": True},
            SHAPE,
            unnamed(3),
            0,
            field="m",
        )


def test_a_study_refuses_it_before_any_run() -> None:
    content: dict[str, Any] = {
        "data": {
            "digits": {
                "source": "digits",
                "label": "digit",
                "attributes": ["ink"],
                "roles": {"test": 2},
            }
        },
        "shifts": {"none": []},
        "models": {"start": {"model": "resnet18", "freeze_batch_norm": True}},
    }
    with pytest.raises(
        InputError, match=r"^models\.start\.freeze_batch_norm: keeps the statistics"
    ):
        make_plan(study_from(content, name="frozen"))

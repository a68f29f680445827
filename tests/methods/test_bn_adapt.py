from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.digits import finished
from tests.training.world import DATA, run, same_weights
from torch import Tensor, nn

from crosswind.core.errors import InputError, NeedsError
from crosswind.core.registry import facts
from crosswind.core.types import InputSpec
from crosswind.methods.base import Unlabelled
from crosswind.methods.bn_adapt import BNAdapt
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed

WILES: dict[str, float] = {"source_size": 100.0, "test_size": 10.0}


def handed(x: Tensor, batch: int = 1000) -> Unlabelled:
    def batches() -> Iterator[Tensor]:
        yield from x.split(batch)

    return Unlabelled(len(x), batches)


def adapted(method: BNAdapt, model: nn.Module, x: Tensor, batch: int = 1000) -> nn.Module:
    with torch.inference_mode():
        return method.adapt({"model": copy.deepcopy(model).eval()}, {}, handed(x, batch))[0][
            "model"
        ]


@pytest.mark.parametrize("batch", [4, 3, 1])
@pytest.mark.parametrize(
    ("knobs", "mean", "variance"),
    [
        (WILES, 340 / 110, (400 + 560 / 3) / 110),
        ({"source_size": 12.0}, (12 * 2 + 4 * 14) / 16, (12 * 4 + 4 * 56 / 3) / 16),
        ({}, (16 * 2 + 4 * 14) / 20, (16 * 4 + 4 * 56 / 3) / 20),
        ({"source_size": 0.0}, 14.0, 56 / 3),
        ({"test_size": 0.0}, 2.0, 4.0),
        ({"source_size": 0.0, "test_size": 0.0}, 2.0, 4.0),
    ],
    ids=["wiles2022", "n by the rows of the lot", "default", "N 0", "n 0", "both 0"],
)
def test_statistics_by_hand(
    knobs: dict[str, Any], mean: float, variance: float, batch: int
) -> None:
    """Source mean 2, variance 4. Test values 10, 12, 14, 20: mean 14, squared distances 16 + 4 + 0
    + 36 = 56, variance 56/3.

    N = 100, n = 10: mean (100 x 2 + 10 x 14) / 110 = 340/110; variance (100 x 4 + 10 x 56/3) / 110
    = (400 + 560/3) / 110. With n left out it is 4, the rows of the lot; with N = 0 the test's
    statistics stand alone; with both 0 nothing is adapted. However the rows come in batches.
    """
    norm = nn.BatchNorm1d(1, dtype=torch.float64)
    norm.running_mean.fill_(2.0)  # type: ignore[union-attr]
    norm.running_var.fill_(4.0)  # type: ignore[union-attr]
    adapted_model = adapted(
        BNAdapt(**knobs),
        nn.Sequential(norm),
        torch.tensor([[10.0], [12.0], [14.0], [20.0]], dtype=torch.float64),
        batch,
    )[0]
    assert float(adapted_model.running_mean) == pytest.approx(mean)
    assert float(adapted_model.running_var) == pytest.approx(variance)
    assert float(norm.running_mean) == 2.0  # type: ignore[arg-type]


@pytest.mark.slow
def test_one_pass_is_layer_after_layer() -> None:
    """Against one pass a layer, first to last: its inputs by adapted layers, their mean and
    variance by NumPy, its statistics."""
    model = build_model("resnet-w16", {}, InputSpec.image(16, 16, 3), unnamed(2), 0).double()
    x = (
        torch.rand(20, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        * 2
        - 1
    )
    model.train()
    for _ in range(3):
        model(x[:10])  # source statistics
    reference = copy.deepcopy(model).eval()
    norms = [
        submodule for submodule in reference.modules() if isinstance(submodule, nn.BatchNorm2d)
    ]
    assert len(norms) == 20
    # The order in which they run is that of their definition but for the shortcut of a block, which
    # reads the block's input.
    for norm in norms:
        taken: list[Tensor] = []
        handle = norm.register_forward_pre_hook(
            lambda submodule, inputs, taken=taken: taken.append(inputs[0].clone())
        )
        with torch.no_grad():
            reference(x)
        handle.remove()
        values = taken[0].numpy()
        mean, var = values.mean((0, 2, 3)), values.var((0, 2, 3), ddof=1)
        norm.running_mean.copy_(
            torch.from_numpy(100 / 110 * norm.running_mean.numpy() + 10 / 110 * mean)
        )  # type: ignore[union-attr]
        norm.running_var.copy_(
            torch.from_numpy(100 / 110 * norm.running_var.numpy() + 10 / 110 * var)
        )  # type: ignore[union-attr]
    adapted_model = adapted(BNAdapt(**WILES), model, x)
    with torch.inference_mode():
        assert torch.allclose(adapted_model(x), reference(x), atol=1e-12)
        assert not torch.allclose(adapted_model(x), model.eval()(x), atol=1e-3)
        for batch in (10, 7):  # pooled over batches it is near that
            apart = (adapted(BNAdapt(**WILES), model, x, batch)(x) - reference(x)).abs().max()
            assert 0 < apart < 0.1 * (reference(x) - model(x)).abs().max()


@pytest.mark.slow
def test_it_trains_as_erm_and_predicts_otherwise() -> None:
    """The authors' release adapted nothing: here the predictions of test rows change, and those of
    validation rows do not."""
    plain, adapted_run = run(ERM(), model="small-cnn"), run(BNAdapt(), model="small-cnn")
    assert same_weights(plain, adapted_run) and same_weights(plain, adapted_run, "best-id")
    for rule in ("best-id", "last"):
        left, right = (trajectory.predictions[rule] for trajectory in (plain, adapted_run))
        apart = np.abs(left["test"].logits - right["test"].logits).max(axis=1)  # type: ignore[operator]
        assert (apart > 1e-3).all()
        assert np.array_equal(left["validation"].logits, right["validation"].logits)  # type: ignore[arg-type]
    none = run(BNAdapt(test_size=0.0), model="small-cnn").predictions["last"]["test"]
    assert np.array_equal(none.logits, plain.predictions["last"]["test"].logits)  # type: ignore[arg-type]
    nearly = run(BNAdapt(source_size=1e9), model="small-cnn").predictions["last"]["test"]
    assert np.allclose(nearly.logits, none.logits, atol=1e-4)  # type: ignore[arg-type]


def test_each_value_of_the_attribute_has_its_own_statistics() -> None:
    """Rows of one tint are predicted by the statistics of that tint's rows alone, in the order of
    the rows."""
    trajectory = run(BNAdapt(attribute="tint", test_size=50.0), model="small-cnn", precision="fp64")
    model = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0).double()
    model.load_state_dict(
        {key.removeprefix("model."): value for key, value in trajectory.weights("last").items()}
    )
    rows = np.arange(150, 195)
    x = torch.from_numpy(DATA.inputs(rows)).permute(0, 3, 1, 2).double() / 127.5 - 1
    tint = DATA.table.column("tint")[rows]
    predictions = trajectory.predictions["last"]["test"]
    assert predictions.ids.tolist() == rows.tolist() and set(tint) == {0, 1}
    for value in (0, 1):
        of_value = torch.from_numpy(tint == value)
        alone = adapted(BNAdapt(test_size=50.0), model, x[of_value], 32)
        with torch.inference_mode():
            assert np.allclose(
                predictions.logits[tint == value], alone(x[of_value]).numpy(), atol=1e-5
            )  # type: ignore[index]
    all_at_once = run(BNAdapt(test_size=50.0), model="small-cnn").predictions["last"]["test"]
    assert not np.allclose(predictions.logits, all_at_once.logits, atol=1e-3)  # type: ignore[arg-type]


def test_adapting_leaves_the_model_in_evaluation_mode_without_hooks() -> None:
    model = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0)
    adapted_model = adapted(BNAdapt(), model, torch.rand(8, 3, 8, 8))
    assert not adapted_model.training and not any(
        submodule._forward_pre_hooks for submodule in adapted_model.modules()
    )
    assert all(
        int(value) == 0
        for key, value in adapted_model.state_dict().items()
        if key.endswith("num_batches_tracked")
    )
    assert facts("methods", "bn-adapt").needs.adapts == "attribute"  # type: ignore[union-attr]  # marked transductive


def test_a_model_without_batch_norm_is_refused() -> None:
    with pytest.raises(
        NeedsError, match="method 'bn-adapt' needs a model with batch norm"
    ) as caught:
        run(BNAdapt(), model="mlp")
    assert "\n" not in str(caught.value)


def test_an_attribute_that_is_not_there_is_refused_before_training() -> None:
    with pytest.raises(
        InputError, match="method.attribute: unknown attribute of tiny 'tynt', did you mean 'tint'"
    ):
        run(
            BNAdapt(attribute="tynt"),
            model="small-cnn",
            progress=lambda event: pytest.fail("trained"),
        )


@pytest.mark.slow
def test_end_to_end_on_digits(tmp_path: Path) -> None:
    rows = finished(tmp_path, {"bn-adapt": {"attribute": "ink"}})
    metrics = {
        (row["method"], row["set"]): row["metrics"]["nll"] for row in rows if row["rule"] == "last"
    }
    assert metrics["erm", "test"] != metrics["bn-adapt", "test"]
    assert metrics["erm", "validation"] == metrics["bn-adapt", "validation"]

"""ImageNet augmentation as a method: what is trained on. The transform itself is tested with the
transforms."""

from __future__ import annotations

import colorsys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.methods.digits import finished
from tests.training.world import DATA, Sets, dataset, run, split

from crosswind.core.errors import NeedsError
from crosswind.core.registry import facts
from crosswind.core.types import InputSpec
from crosswind.data.derive import training_keys
from crosswind.methods.erm import ERM
from crosswind.methods.imagenet import ImageNetAugmentation
from crosswind.training.loader import TrainingRows
from crosswind.training.settings import TrainingSettings
from crosswind.transforms import cropping

KEYS = training_keys(np.arange(40), 0, 0)


def pictures(n: int = 40, side: int = 16) -> torch.Tensor:
    return torch.randint(
        0, 256, (n, 3, side, side), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )


def test_what_is_trained_on_is_the_transform_with_the_methods_knobs() -> None:
    (view,) = ImageNetAugmentation(scale=0.3, flip=0.25, jitter=0.1).views()
    assert view == cropping.ImageNet(scale=0.3, flip=0.25, jitter=0.1)
    assert not torch.equal(view(pictures(), KEYS), pictures())


def test_each_part_can_be_alone() -> None:
    x = pictures()
    for flip, expected in ((0.0, x), (1.0, x.flip(3))):
        (view,) = ImageNetAugmentation(scale=1.0, jitter=0.0, flip=flip).views()
        assert view is not None and torch.equal(view(x, KEYS), expected)
    for scale, jitter in ((1.0, 0.4), (0.08, 0.0)):
        (view,) = ImageNetAugmentation(scale=scale, jitter=jitter, flip=0.0).views()
        assert view is not None and float((view(x, KEYS).float() - x.float()).abs().mean()) > 3


def test_hue_is_left_as_it_is_where_colours_are_changed() -> None:
    """Hue is an attribute here, and not jittered. Even pictures of 40 hues of middle brightness, so
    that no level is cut."""
    colours = [colorsys.hsv_to_rgb(number / 40, 0.4, 0.5) for number in range(40)]
    x = (
        (torch.tensor(colours) * 255)
        .round()
        .to(torch.uint8)[:, :, None, None]
        .expand(40, 3, 16, 16)
    )
    (view,) = ImageNetAugmentation().views()
    assert view is not None
    changed_colours = view(x.contiguous(), KEYS)[:, :, 8, 8].double() / 255
    hsv = [colorsys.rgb_to_hsv(*colour) for colour in changed_colours.tolist()]
    apart = [(hue - number / 40 + 0.5) % 1 - 0.5 for number, (hue, _, _) in enumerate(hsv)]
    assert max(map(abs, apart)) < 0.03  # levels are whole numbers
    for number, value in ((1, 0.4), (2, 0.5)):
        assert np.std([colour[number] - value for colour in hsv]) > 0.03  # what is jittered


def test_every_row_is_changed_anew_at_every_visit() -> None:
    settings = TrainingSettings(batch=len(split().train.rows))
    rows = TrainingRows(split().train, DATA, settings, 0, "epoch", ImageNetAugmentation().views())  # type: ignore[arg-type]
    first, second = rows.batch(0, 9), rows.batch(1, 9)
    assert sorted(first.ids.tolist()) == sorted(second.ids.tolist())
    first_x, two = first.x[first.ids.argsort()], second.x[second.ids.argsort()]
    same = (first_x == two).flatten(1).all(1)
    assert len(same) > 40 and float(same.double().mean()) < 0.1


def test_only_training_batches_are_augmented(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 steps, 12 calls with a training batch; what validation and test sets are predicted with is
    the model alone."""
    calls: list[int] = []
    plain = cropping.ImageNet.apply

    def counted(self: cropping.ImageNet, x: torch.Tensor, keys: NDArray[np.uint64]) -> torch.Tensor:
        calls.append(len(x))
        return plain(self, x, keys)

    monkeypatch.setattr(cropping.ImageNet, "apply", counted)
    # After a run its augmentation is tried on noise, which is no batch.
    monkeypatch.setattr("crosswind.training.requirements.changes_nothing", lambda *given: False)
    trajectory = run(ImageNetAugmentation(), model="small-cnn", steps=12)
    assert calls == [16] * 12 + [60], (
        "and once all 60 training pictures, to tell how far they were moved"
    )
    still = run(ERM(), model="small-cnn", steps=0).predictions["last"]
    untouched = run(ImageNetAugmentation(), model="small-cnn", steps=0).predictions["last"]
    for name in ("validation", "test"):
        assert np.array_equal(still[name].logits, untouched[name].logits)  # type: ignore[arg-type]
    weights = {
        key.removeprefix("model."): value for key, value in trajectory.weights("last").items()
    }
    from crosswind.models.build import build_model, unnamed

    model = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0)
    model.load_state_dict(weights)
    x = torch.from_numpy(DATA.inputs(np.arange(90, 120))).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.inference_mode():
        expected = model.eval()(x).numpy()
    assert np.allclose(trajectory.predictions["last"]["validation"].logits, expected, atol=1e-5)  # type: ignore[arg-type]


def test_inputs_that_are_no_pictures_are_refused() -> None:
    data = dataset()
    four = replace(
        data,
        read=lambda rows: np.concatenate([data.inputs(rows), data.inputs(rows)[..., :1]], axis=3),
        input=InputSpec.image(8, 8, 4),
    )
    sets: Sets = split()
    with pytest.raises(
        NeedsError,
        match=(
            r"method 'imagenet' needs images of 1 or 3 channels, and is given images of 8 x 8 x 4"
        ),
    ):
        run(ImageNetAugmentation(), sets, data=four)
    (view,) = ImageNetAugmentation().views()
    assert view is not None and view(pictures()[:, :1], KEYS).shape == (40, 1, 16, 16)


def test_it_is_listed_as_an_augmentation() -> None:
    assert facts("methods", "imagenet").kind == "augmentation"


@pytest.mark.slow
def test_end_to_end_on_digits(tmp_path: Path) -> None:
    rows = finished(tmp_path, {"imagenet": {"scale": 0.3, "flip": 0.0}})
    metrics = {
        row["method"]: row["metrics"]["nll"]
        for row in rows
        if (row["rule"], row["set"]) == ("last", "test")
    }
    assert set(metrics) == {"erm", "imagenet"} and metrics["erm"] != metrics["imagenet"]

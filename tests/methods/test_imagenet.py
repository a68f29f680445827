from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.digits import finished
from tests.training.world import DATA, Sets, dataset, run, split
from torch import nn
from torchvision.transforms import functional as theirs

from crosswind.core.errors import NeedsError
from crosswind.core.registry import facts
from crosswind.methods import imagenet
from crosswind.methods.base import Batch, Info
from crosswind.methods.erm import ERM
from crosswind.methods.imagenet import ImageNet
from crosswind.transforms.geometry import crop_boxes
from crosswind.transforms.photometry import ADJUSTMENTS, jitter_parameters


def pictures(n: int = 12, side: int = 16) -> torch.Tensor:
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1


def augmented(method: ImageNet, x: torch.Tensor, ids: torch.Tensor, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return method.augmented(x, ids)


def test_the_recipe_is_torchvisions_image_by_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crop, mirror, then the three adjustments by torchvision's functions with the parameters that were drawn; within 1e-12."""
    told: dict[str, Any] = {}

    def boxes(*given: Any) -> Any:
        told["boxes"] = crop_boxes(*given)
        told["scale"], told["ratio"] = given[2:]
        return told["boxes"]

    def factors(*given: Any) -> Any:
        told["strength"], told["jitter"] = given[1], jitter_parameters(*given)
        return told["jitter"]

    def cropped(x: torch.Tensor, given: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
        told["flip"] = flip
        return whole(x, given, flip)

    whole = imagenet.resized_crop
    monkeypatch.setattr(imagenet, "crop_boxes", boxes)
    monkeypatch.setattr(imagenet, "jitter_parameters", factors)
    monkeypatch.setattr(imagenet, "resized_crop", cropped)
    x = pictures(64)
    found = augmented(ImageNet(), x, torch.arange(64))
    assert told["scale"] == (0.08, 1.0) and told["ratio"] == (3 / 4, 4 / 3) and told["strength"] == (0.4, 0.4, 0.4)
    assert 16 < int(told["flip"].sum()) < 48
    for i in range(64):
        top, left, h, w = told["boxes"][i].tolist()
        expected = theirs.resized_crop((x[i] + 1) / 2, top, left, h, w, [16, 16], antialias=False)
        expected = theirs.hflip(expected) if told["flip"][i] else expected
        for place in told["jitter"][1][i].tolist():
            expected = getattr(theirs, f"adjust_{ADJUSTMENTS[place]}")(expected, float(told["jitter"][0][i, place]))
        assert float((found[i] - (expected * 2 - 1)).abs().max()) < 1e-12


def test_every_row_has_its_own_transform_at_every_step() -> None:
    method, ids = ImageNet(), torch.arange(12)
    same = pictures(1).repeat(12, 1, 1, 1)
    found = augmented(method, same, ids)
    assert len({row.numpy().tobytes() for row in found}) == 12
    assert torch.equal(found, augmented(method, same, ids))
    other = augmented(method, same, ids, seed=1)
    assert not any(torch.equal(left, right) for left, right in zip(found, other, strict=True))
    assert torch.equal(augmented(method, same, ids.flip(0)), found.flip(0))  # by row, not by place in the batch
    twice = augmented(method, same[:4], torch.tensor([7, 3, 7, 7]))
    assert len({row.numpy().tobytes() for row in twice}) == 4  # a row that is drawn thrice is seen in three ways
    assert torch.allclose(twice[0], found[7], atol=1e-12)


def test_each_part_can_be_alone() -> None:
    x, ids = pictures(40), torch.arange(40)
    plain = augmented(ImageNet(scale=1.0, flip=0.0, jitter=0.0), x, ids)
    assert torch.allclose(plain, x, atol=1e-15)
    mirrored = augmented(ImageNet(scale=1.0, flip=1.0, jitter=0.0), x, ids)
    assert torch.allclose(mirrored, x.flip(3), atol=1e-15)
    jittered = augmented(ImageNet(scale=1.0, flip=0.0), x, ids)
    assert jittered.min() >= -1 and jittered.max() <= 1 and float((jittered - x).abs().mean()) > 0.02
    cropped = augmented(ImageNet(flip=0.0, jitter=0.0), x, ids)
    assert float((cropped - x).abs().mean()) > 0.1


def test_loss_is_that_of_the_augmented_batch_with_the_labels_as_they_are() -> None:
    x, y, ids = pictures(8), torch.tensor([0, 1] * 4), torch.arange(8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 2)).double()
    torch.manual_seed(3)
    found = ImageNet().loss({"model": model}, Batch(x, y, ids, y), {})
    expected = nn.functional.cross_entropy(model(augmented(ImageNet(), x, ids, seed=3)), y)
    assert found.total.item() == pytest.approx(expected.item())
    assert found.total.item() != pytest.approx(nn.functional.cross_entropy(model(x), y).item())


def test_only_training_batches_are_augmented(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 steps, 12 calls with a training batch; what validation and test sets are predicted with is the model alone."""
    calls: list[int] = []
    plain = ImageNet.augmented

    def counted(self: ImageNet, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        return plain(self, x, ids)

    monkeypatch.setattr(ImageNet, "augmented", counted)
    found = run(ImageNet(), model="small-cnn", steps=12)
    assert calls == [16] * 12
    still = run(ERM(), model="small-cnn", steps=0).predictions["last"]
    untouched = run(ImageNet(), model="small-cnn", steps=0).predictions["last"]
    for name in ("validation", "test"):
        assert np.array_equal(still[name].logits, untouched[name].logits)  # type: ignore[arg-type]
    weights = {key.removeprefix("model."): value for key, value in found.weights("last").items()}
    from crosswind.models.build import build_model

    model = build_model("small-cnn", {}, (3, 8, 8), 2, 0)
    model.load_state_dict(weights)
    x = torch.from_numpy(DATA.pixels(np.arange(90, 120))).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.inference_mode():
        expected = model.eval()(x).numpy()
    assert np.allclose(found.predictions["last"]["validation"].logits, expected, atol=1e-5)  # type: ignore[arg-type]


def test_inputs_that_are_no_pictures_are_refused() -> None:
    data = dataset()
    four = replace(
        data, images=lambda rows: np.concatenate([data.pixels(rows), data.pixels(rows)[..., :1]], axis=3), image_shape=(8, 8, 4)
    )
    sets: Sets = split()
    with pytest.raises(NeedsError, match=r"method 'imagenet' needs images of 1 or 3 channels, not inputs of shape \(4, 8, 8\)"):
        run(ImageNet(), sets, data=four)
    info = Info((1, 8, 8), 2, 4)
    made = ImageNet().modules(info, lambda **changes: nn.Identity())  # type: ignore[arg-type]
    assert list(made) == ["model"]
    grey = augmented(ImageNet(), pictures()[:, :1], torch.arange(12))
    assert grey.shape == (12, 1, 16, 16) and torch.isfinite(grey).all()


def test_it_is_listed_as_an_augmentation() -> None:
    assert facts("methods", "imagenet").kind == "augmentation"


def test_end_to_end_on_digits(tmp_path: Path) -> None:
    rows = finished(tmp_path, {"imagenet": {"scale": 0.3, "flip": 0.0}})
    metrics = {row["method"]: row["metrics"]["nll"] for row in rows if (row["rule"], row["set"]) == ("last", "test")}
    assert set(metrics) == {"erm", "imagenet"} and metrics["erm"] != metrics["imagenet"]

from __future__ import annotations

import pytest
import torch

from crosswind.core.errors import InputError
from crosswind.core.registry import listing
from crosswind.models.build import build_model

SHAPES = {"resnet18": (3, 64, 64), "resnet-w16": (3, 32, 32), "small-cnn": (3, 32, 32), "mlp": (3, 32, 32)}
NAMES = [item.name for item in listing("models")]


def test_every_registered_model_is_tested() -> None:
    assert set(NAMES) == set(SHAPES) and len(NAMES) == 4


@pytest.mark.parametrize("name", NAMES)
def test_parts_agree_with_the_whole(name: str) -> None:
    model = build_model(name, {}, SHAPES[name], 5, 0).eval()
    x = torch.rand(2, *SHAPES[name]) * 2 - 1
    with torch.no_grad():
        logits, features = model(x), model.features(x)
        taps = model.taps(x, model.stages)
        assert logits.shape == (2, 5) and features.shape == (2, model.width)
        assert torch.equal(model.head(features), logits)
        assert torch.equal(taps["logits"], logits) and torch.equal(taps["features"], features)
        assert list(taps) == [*model.stages, "features", "logits"]
        for stage in model.stages:
            assert torch.equal(model.until(x, stage), taps[stage])
            assert torch.equal(model.after(taps[stage], stage), features)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_the_seeds(name: str) -> None:
    torch.manual_seed(1)
    before = torch.default_generator.get_state()
    models = [
        build_model(name, {}, SHAPES[name], 3, seed, copy=copy).state_dict() for seed, copy in [(0, 0), (0, 0), (1, 0), (0, 1)]
    ]
    assert torch.equal(before, torch.default_generator.get_state())
    assert all(torch.equal(value, models[1][key]) for key, value in models[0].items())
    for other in models[2:]:
        assert not torch.equal(models[0]["fc.weight"], other["fc.weight"])


@pytest.mark.parametrize("name", NAMES)
def test_memory_layout_does_not_change_what_is_computed(name: str) -> None:
    model = build_model(name, {}, SHAPES[name], 3, 0).double().eval()
    x = torch.rand(2, *SHAPES[name], dtype=torch.float64)
    plain = model(x)
    assert torch.allclose(
        model.to(memory_format=torch.channels_last)(x.contiguous(memory_format=torch.channels_last)), plain, atol=1e-10
    )


def test_resnet18_is_torchvisions() -> None:
    from torchvision.models import resnet18

    theirs = resnet18(num_classes=7).eval()
    ours = build_model("resnet18", {}, (3, 64, 64), 7, 0).eval()
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    ours.load_state_dict(theirs.state_dict())
    x = torch.rand(2, 3, 64, 64)
    assert torch.equal(ours(x), theirs(x))


def test_small_stem_keeps_the_resolution() -> None:
    x = torch.rand(1, 3, 32, 32)
    small = build_model("resnet18", {"stem": "small"}, (3, 32, 32), 2, 0)
    assert small.until(x, "stem").shape == (1, 64, 32, 32)
    assert build_model("resnet18", {}, (3, 32, 32), 2, 0).until(x, "stem").shape == (1, 64, 8, 8)
    assert build_model("resnet18", {}, (1, 32, 32), 2, 0).eval()(x[:, :1]).shape == (1, 2)


@pytest.mark.parametrize("stride", [1, 2])
def test_narrow_resnet_has_its_widths_and_torchvisions_names(stride: int) -> None:
    from torchvision.models import resnet18

    model = build_model("resnet-w16", {"stride": stride}, (3, 32, 32), 1000, 0)
    taps = model.taps(torch.rand(1, 3, 32, 32), model.stages)
    sides = [side // stride for side in (32, 32, 16, 8, 4)]
    shapes = [(width, side, side) for width, side in zip((16, 16, 32, 64, 128), sides, strict=True)]
    assert [tuple(taps[stage].shape[1:]) for stage in model.stages] == shapes
    assert model.state_dict().keys() == resnet18().state_dict().keys()


def test_perceptron_is_four_times_256() -> None:
    shapes = [tuple(p.shape) for p in build_model("mlp", {}, (3, 8, 8), 2, 0).parameters() if p.ndim == 2]
    assert shapes == [(256, 192), (256, 256), (256, 256), (256, 256), (2, 256)]


def test_bad_input_is_one_sentence() -> None:
    for name, knobs, shape, message in [
        ("resnet19", {}, (3, 8, 8), "model: unknown model 'resnet19', did you mean 'resnet18'"),
        ("resnet18", {"stems": "small"}, (3, 8, 8), "model.stems: unknown setting of model 'resnet18'"),
        ("resnet18", {"stem": "tiny"}, (3, 8, 8), "model.stem: unknown value 'tiny'"),
        ("mlp", {"layers": 0}, (3, 8, 8), r"model.layers: must be in \[1, inf\), not 0"),
        ("small-cnn", {}, (3, 4, 4), "at least 8 pixels a side, these have 4 x 4"),
        ("small-cnn", {}, (5,), "takes images"),
    ]:
        with pytest.raises(InputError, match=message):
            build_model(name, knobs, shape, 2, 0)
    with pytest.raises(InputError, match="no stage 'layer9'"):
        build_model("mlp", {}, (3, 8, 8), 2, 0).taps(torch.rand(1, 3, 8, 8), ["layer9"])

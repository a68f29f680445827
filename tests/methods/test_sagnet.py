from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.digits import STUDY
from tests.training.world import DATA, Sets, rows_of, run, same_weights, sets_of, split
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from crosswind.core.errors import NeedsError
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.methods import sagnet
from crosswind.methods.base import Batch, Info, Loss, Modules, State
from crosswind.methods.erm import ERM
from crosswind.methods.sagnet import EPS, SagNet, StyleNetwork, restyled, styles
from crosswind.models.build import build_model, unnamed
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.training.own_action import OwnAction

INFO = Info(InputSpec.image(8, 8, 3), 2, 60, batch=16)


def maker(name: str = "small-cnn", **knobs: Any) -> Any:
    """Gives another model of the name at each call, in float64."""
    calls: list[int] = []

    def make_model(**changes: Any) -> Any:
        calls.append(0)
        return build_model(
            name, knobs, INFO.input, unnamed(INFO.n_classes), 0, copy=len(calls) - 1
        ).double()

    return make_model


def batch(n: int = 7) -> Batch:
    """Rows in the order of their ids reversed, with gaps between them, and labels that no order
    explains."""
    x = (
        torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2
        - 1
    )
    y = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1])[:n]
    return Batch(x, y, torch.arange(n).flip(0) * 3, torch.zeros_like(y))


@dataclass
class GradientSpy:
    """A run context that takes no step and keeps what was to be descended, with its gradients."""

    modules: Modules
    method: SagNet
    state: State = field(default_factory=dict)
    gradients: dict[str, tuple[Loss, list[Tensor]]] = field(default_factory=dict)

    def descend(self, name: str, loss: Any) -> Loss:
        step_loss = loss()
        moved_parameters = list(self.method.optimisers(INFO, self.modules, "main")[name].parameters)
        slopes = torch.autograd.grad(step_loss.total, moved_parameters)
        self.gradients[name] = (step_loss, list(slopes))
        return step_loss


# -- styles by hand --------------------------------------------------------------------------------


def test_restyling_by_hand() -> None:
    """A channel of (1, 3) has mean 2 and variance ((1 - 2)^2 + (3 - 2)^2) / 2 = 1. With mean 10 and
    deviation 4 it is
    10 + 4 (1 - 2), 10 + 4 (3 - 2) = (6, 14). A constant channel (5, 5) becomes the new mean."""
    x = torch.tensor([1.0, 3.0, 5.0, 5.0], dtype=torch.float64).view(1, 2, 1, 2)
    contents, mean, sd = styles(x)
    assert mean.flatten().tolist() == [2.0, 5.0] and contents.flatten().tolist() == [
        -1.0,
        1.0,
        0.0,
        0.0,
    ]
    assert sd.flatten().tolist() == pytest.approx([math.sqrt(1 + EPS), math.sqrt(EPS)])
    new = (
        torch.tensor([10.0, 7.0]).double().view(1, 2, 1, 1),
        torch.tensor([4.0, 4.0]).double().view(1, 2, 1, 1),
    )
    assert restyled(contents, sd, *new).flatten().tolist() == pytest.approx(
        [6.0, 14.0, 7.0, 7.0], abs=1e-4
    )
    assert torch.allclose(restyled(contents, sd, mean, sd), x, atol=1e-12)


def test_gradients_of_styles_are_those_of_their_definition() -> None:
    """Which are written by hand: of contents, means and deviations together, and of any one
    alone."""
    x = torch.rand(
        2,
        3,
        2,
        3,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(4),
        requires_grad=True,
    )
    assert torch.autograd.gradcheck(styles, (x,))
    for output_number in range(3):
        assert torch.autograd.gradcheck(
            lambda maps, output_number=output_number: styles(maps)[output_number], (x,)
        )


def test_styles_of_half_precision_are_measured_in_single() -> None:
    x = (
        (1000 + torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
        .to(torch.bfloat16)
        .requires_grad_()
    )
    contents, mean, sd = styles(x)
    assert contents.dtype == mean.dtype == sd.dtype == torch.float32
    assert torch.allclose(mean, x.double().mean((2, 3), keepdim=True).float(), atol=1e-3)
    (slope,) = torch.autograd.grad(restyled(contents, sd, mean, sd).sum(), x)
    assert slope.dtype == torch.bfloat16


# -- the three losses by plain loops ---------------------------------------------------------------


def style_of(maps: Tensor) -> tuple[float, float]:
    """Mean and deviation of one channel, number by number."""
    values = [float(value) for value in maps.flatten()]
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / len(values) + EPS)


def put(maps: Tensor, old_style: tuple[float, float], new_style: tuple[float, float]) -> Tensor:
    out = torch.empty_like(maps)
    for row in range(maps.shape[0]):
        for column in range(maps.shape[1]):
            out[row, column] = (
                new_style[1] * (float(maps[row, column]) - old_style[0]) / old_style[1]
                + new_style[0]
            )
    return out


def log_probabilities(logits: Tensor) -> list[float]:
    normaliser = sum(math.exp(float(value)) for value in logits)
    return [float(value) - math.log(normaliser) for value in logits]


def slow(modules: Modules, rows: Batch, mixing: float, seed: int) -> tuple[float, float, float]:
    """Loss of the classifier, of the style network, and of the adversary, row by row and channel by
    channel."""
    model: Any = modules["model"]
    net: Any = modules["style"].net
    with torch.no_grad():
        hidden = model.until(rows.x, "block2")
        n, channels = hidden.shape[:2]
        torch.manual_seed(seed)
        drawn = torch.rand(3, n)
        by_id = sorted(
            range(n), key=lambda row: int(rows.ids[row])
        )  # the row with the k-th smallest id
        partner, owner = (
            [by_id[k] for k in sorted(range(n), key=lambda k: float(keys[k]))] for keys in drawn[1:]
        )
        mixed, pure, drawn_labels = (
            torch.empty_like(hidden),
            torch.empty_like(hidden),
            torch.empty_like(rows.y),
        )
        for k, row in enumerate(by_id):
            share = mixing * float(drawn[0, k])
            drawn_labels[row] = rows.y[owner[k]]
            for c in range(channels):
                row_style, partner_style = style_of(hidden[row, c]), style_of(hidden[partner[k], c])
                new = tuple(
                    (1 - share) * mine + share * theirs
                    for mine, theirs in zip(row_style, partner_style, strict=True)
                )
                mixed[row, c] = put(hidden[row, c], row_style, new)  # type: ignore[arg-type]
                pure[row, c] = put(hidden[row, c], row_style, style_of(hidden[owner[k], c]))
        classed = [log_probabilities(row) for row in model.head(model.after(mixed, "block2"))]
        style_answers = [log_probabilities(row) for row in net.head(net.after(pure, "block2"))]
    return (
        -sum(row[int(y)] for row, y in zip(classed, rows.y, strict=True)) / n,
        -sum(row[int(y)] for row, y in zip(style_answers, drawn_labels, strict=True)) / n,
        -sum(sum(row) / len(row) for row in style_answers) / n,
    )


@pytest.mark.slow
@pytest.mark.parametrize("mixing", [1.0, 0.3, 0.0])
def test_losses_are_those_of_plain_loops(mixing: float) -> None:
    method = SagNet(mixing=mixing)
    modules = method.modules(INFO, maker())
    for seed in range(3):
        expected = slow(modules, batch(), mixing, seed)
        torch.manual_seed(seed)
        spy = GradientSpy(modules, method)
        step_loss = method.update(spy, batch())  # type: ignore[arg-type]
        terms = {name: float(value) for name, value in step_loss.terms.items()}
        assert terms == pytest.approx(
            dict(zip(("classification", "style", "even"), expected, strict=True)), rel=1e-9
        )
        assert step_loss.total.item() == pytest.approx(expected[0]) and spy.gradients["style"][
            0
        ].total.item() == pytest.approx(expected[1])
        torch.manual_seed(seed)
        assert method.loss(modules, batch(), {}).total.item() == pytest.approx(expected[0])


def test_even_answers_by_hand() -> None:
    """Logits (ln 3, 0) are probabilities 3/4 and 1/4: -(ln 3/4 + ln 1/4) / 2 = ln 4 - ln 3 / 2,
    least (ln 2) where both are 1/2."""
    method = SagNet()
    modules = method.modules(INFO, maker())
    head: Any = modules["style"].net.head  # type: ignore[union-attr]
    for logit, expected in ((math.log(3), math.log(4) - math.log(3) / 2), (0.0, math.log(2))):
        with torch.no_grad():
            head.weight.zero_()
            head.bias.copy_(torch.tensor([logit, 0.0]))
        step_loss = method.update(GradientSpy(modules, method), batch())  # type: ignore[arg-type]
        assert float(step_loss.terms["even"]) == pytest.approx(expected)


# -- who moves what --------------------------------------------------------------------------------


def anew(modules: Modules, rows: Batch, weight: float, seed: int) -> dict[str, list[Tensor]]:
    """The gradients of each loss from a pass of its own, straight from its definition; ids are 0,
    1, 2 and so on."""
    model: Any = modules["model"]
    style: Any = modules["style"]
    affine = [
        model.get_parameter(f"block{i}.1.{key}") for i in (1, 2) for key in ("weight", "bias")
    ]
    late = [p for name, p in style.net.named_parameters() if name.startswith(("block3", "fc"))]
    torch.manual_seed(seed)
    share, partner_keys, owner_keys = torch.rand(3, len(rows.y))
    a, partner, owner = (
        share[:, None, None, None].double(),
        partner_keys.argsort(),
        owner_keys.argsort(),
    )

    def passed() -> tuple[Tensor, Tensor, Tensor]:
        hidden = model.until(rows.x, "block2")
        mean, sd = (
            hidden.mean((2, 3), keepdim=True),
            (hidden.var((2, 3), correction=0, keepdim=True) + EPS).sqrt(),
        )
        return (hidden - mean) / sd, mean, sd

    bare, mean, sd = passed()
    mixed = bare * ((1 - a) * sd + a * sd[partner]) + (1 - a) * mean + a * mean[partner]
    gradients = {
        "main": list(
            torch.autograd.grad(
                cross_entropy(model.head(model.after(mixed, "block2")), rows.y),
                list(model.parameters()),
            )
        )
    }
    bare, mean, sd = passed()
    pure = bare.detach() * sd[owner] + mean[owner]
    gradients["style"] = list(
        torch.autograd.grad(cross_entropy(style(pure.detach()), rows.y[owner]), late)
    )
    gradients["adversary"] = list(
        torch.autograd.grad(-weight * style(pure).log_softmax(1).mean(), affine)
    )
    return gradients


def test_each_optimiser_gets_the_gradients_of_its_own_loss() -> None:
    """Of the definition, though the method makes one pass and each descent moves parameters before
    the next."""
    method = SagNet(weight=0.7)
    modules = method.modules(INFO, maker())
    ordered_batch = replace(batch(), ids=torch.arange(7))
    torch.manual_seed(3)
    spy = GradientSpy(modules, method)
    method.update(spy, ordered_batch)  # type: ignore[arg-type]
    assert list(spy.gradients) == ["main", "style", "adversary"]
    for name, slopes in anew(modules, ordered_batch, 0.7, 3).items():
        spied_slopes = spy.gradients[name][1]
        assert (
            len(spied_slopes) == len(slopes) > 0
            and sum(float(slope.abs().sum()) for slope in spied_slopes) > 0
        )
        assert all(
            torch.allclose(spied, expected, atol=1e-10)
            for spied, expected in zip(spied_slopes, slopes, strict=True)
        ), name


def moved(method: SagNet, **settings: Any) -> dict[str, Tensor]:
    """How far one step of SGD moves every parameter and buffer of a run."""
    chosen = {"model": "small-cnn", "precision": "fp64", "optimiser": "sgd", **settings}
    unmoved, stepped = (run(method, steps=steps, **chosen).weights("last") for steps in (0, 1))
    return {name: stepped[name].double() - unmoved[name].double() for name in unmoved}


AFFINE = {f"model.block{i}.1.{key}" for i in (1, 2) for key in ("weight", "bias")}


def test_adversary_moves_the_affine_parameters_up_to_the_stage_and_no_others() -> None:
    """At a rate of 1e-30 the others stand still."""
    distances = moved(SagNet(weight=1e3, adversary_lr=1.0), lr=1e-30)
    assert {
        name
        for name, value in distances.items()
        if value.abs().max() > 1e-20 and "running" not in name and "num" not in name
    } == AFFINE
    deeper = moved(SagNet(weight=1e3, adversary_lr=1.0, after="block1"), lr=1e-30)
    assert {
        name
        for name, value in deeper.items()
        if value.abs().max() > 1e-20 and "block" in name and "running" not in name
    } == {
        *(name for name in AFFINE if "block1" in name),
        *(name for name in deeper if name.endswith("num_batches_tracked") and deeper[name] > 0),
    }


@pytest.mark.parametrize("clip", [1e-3, 0.1])
def test_adversarys_gradient_is_cut(clip: float) -> None:
    """With a weight of 1000 its norm is above either, so that a step of rate 2 is 2 clip long."""
    distances = moved(SagNet(weight=1e3, adversary_lr=2.0, clip=clip), lr=1e-30)
    length = math.sqrt(sum(float(distances[name].square().sum()) for name in AFFINE))
    assert length == pytest.approx(2 * clip, rel=1e-4)
    free = moved(SagNet(weight=1e3, adversary_lr=2.0, clip=None), lr=1e-30)
    assert math.sqrt(sum(float(free[name].square().sum()) for name in AFFINE)) > 10 * clip


def test_adversary_has_no_weight_decay_of_its_own() -> None:
    distances = moved(SagNet(weight=0.0, adversary_lr=1.0), lr=1e-30, weight_decay=0.1)
    assert all(float(distances[name].abs().max()) < 1e-20 for name in AFFINE)


@pytest.mark.slow
def test_weight_is_a_strength_under_sgd_and_next_to_none_under_adam() -> None:
    """As the knobs say: Adam divides the gradient by its own size."""
    for optimiser, alike in (("sgd", False), ("adam", True)):
        small, large = (
            moved(
                SagNet(weight=weight, clip=None, adversary_lr=1e-3), lr=1e-30, optimiser=optimiser
            )
            for weight in (0.1, 1.0)
        )
        lengths = [
            math.sqrt(sum(float(distances[name].square().sum()) for name in AFFINE))
            for distances in (small, large)
        ]
        assert lengths[1] / lengths[0] == pytest.approx(1.0 if alike else 10.0, rel=0.02)


def test_a_step_adds_up_what_was_found_before_anything_moved() -> None:
    """What the adversary adds to a step is the same whether the model moves in it by much or by
    nothing."""
    together, alone, still = (
        moved(SagNet(weight=weight, adversary_lr=1.0), lr=lr)
        for weight, lr in ((1e3, 0.5), (0.0, 0.5), (1e3, 1e-30))
    )
    for name in AFFINE:
        assert float(alone[name].abs().max()) > 1e-4 and float(still[name].abs().max()) > 1e-4
        assert torch.allclose(together[name], alone[name] + still[name], atol=1e-12)
    for name, value in together.items():
        assert name in AFFINE or torch.allclose(value, alone[name], atol=1e-12), name


def test_batch_statistics_move_once_a_step() -> None:
    weights = run(SagNet(), model="small-cnn", steps=5).weights("last")
    tracked = {
        name: int(value) for name, value in weights.items() if name.endswith("num_batches_tracked")
    }
    unused = {name for name in tracked if name.startswith(("style.net.block1", "style.net.block2"))}
    assert len(tracked) == 6 and len(unused) == 2
    assert all(value == (0 if name in unused else 5) for name, value in tracked.items())


def test_style_network_begins_and_stays_another_one() -> None:
    unmoved = run(SagNet(), model="small-cnn", steps=0).weights("last")
    assert not torch.equal(unmoved["model.block3.0.weight"], unmoved["style.net.block3.0.weight"])
    ended = run(SagNet(), model="small-cnn", steps=3).weights("last")
    assert not torch.equal(unmoved["style.net.block3.0.weight"], ended["style.net.block3.0.weight"])
    assert torch.equal(
        unmoved["style.net.block1.0.weight"], ended["style.net.block1.0.weight"]
    )  # never used


# -- evaluation ------------------------------------------------------------------------------------


def test_styles_are_exchanged_in_training_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 steps restyle twice each, and looks at their gradients as often with and without the term;
    what validation and test sets are predicted with is the model alone, a row at a time as well."""
    calls: list[int] = []
    plain = restyled

    def counted(contents: Tensor, *styles: Tensor) -> Tensor:
        calls.append(len(contents))
        return plain(contents, *styles)

    monkeypatch.setattr(sagnet, "restyled", counted)
    first_run = run(SagNet(), model="small-cnn", steps=4)
    assert first_run.action["looks"] == 2 and calls == [16] * 2 * (4 + 2 * 2)
    calls.clear()
    monkeypatch.setattr(OwnAction, "due", lambda self, step: False)
    assert same_weights(run(SagNet(), model="small-cnn", steps=4), first_run)
    assert calls == [16] * 2 * 4
    model = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0)
    trained_weights = first_run.weights("last").items()
    model.load_state_dict(
        {
            key.removeprefix("model."): value
            for key, value in trained_weights
            if key.startswith("model.")
        }
    )
    x = torch.from_numpy(DATA.inputs(np.arange(150, 195))).permute(0, 3, 1, 2).float() / 127.5 - 1
    with torch.inference_mode():
        together, apart = model.eval()(x), torch.cat([model(x[i : i + 1]) for i in range(len(x))])
    logits = first_run.predictions["last"]["test"].logits
    assert (
        logits is not None
        and np.allclose(logits, together, atol=1e-5)
        and np.allclose(logits, apart, atol=1e-5)
    )


SIDE = 16


def halves() -> tuple[AttributedDataset, Sets]:
    """The class is which half of a picture is lighter; in 95 % of the training rows it is the
    brightness of the whole as well."""
    draw, n, n_train = np.random.default_rng(3), 600, 300
    label = np.arange(n) % 2
    light = np.where(
        (np.arange(n) < n_train) & (draw.random(n) < 0.95), label, draw.integers(0, 2, n)
    )
    sides = (
        np.where(np.arange(SIDE) < SIDE // 2, 12, -12)[None, None, :, None]
        * (2 * label - 1)[:, None, None, None]
    )
    pixels = (
        110
        + draw.normal(0, 40, (n, SIDE, SIDE, 3))
        + sides
        + 15 * (2 * light - 1)[:, None, None, None]
    )
    stored_pixels = pixels.clip(0, 255).astype(np.uint8)
    table = AttributeTable(
        (Attribute("light", ("left", "right")), Attribute("tint", ("dark", "bright"))),
        np.stack([label, light]).astype(np.uint8),
    )
    data = AttributedDataset(
        "tiny", table, lambda rows: stored_pixels[rows], InputSpec.image(SIDE, SIDE, 3)
    )
    return data, sets_of(
        rows_of(data, np.arange(n_train)),
        {"validation": rows_of(data, np.arange(n_train, 400))},
        {"test": rows_of(data, np.arange(400, n))},
    )


@pytest.mark.slow
def test_it_does_not_follow_a_brightness_that_goes_with_the_class() -> None:
    data, sets = halves()
    ended: dict[str, list[float]] = {}
    for method in (ERM(), SagNet()):
        for seed in range(2):
            trained = run(
                method,
                sets,
                model="small-cnn",
                data=data,
                seed=seed,
                steps=40,
                batch=32,
                validate_every=40,
            )
            test_predictions = trained.predictions["last"]["test"]
            assert test_predictions.logits is not None
            ended.setdefault(type(method).__name__, []).append(
                float((test_predictions.logits.argmax(1) == test_predictions.label).mean())
            )
    assert max(ended["ERM"]) < 0.9 and min(ended["SagNet"]) > 0.95, ended


# -- who is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "method", "sides", "words"),
    [
        ("mlp", SagNet(), {}, "needs a model with batch norm, and 'mlp' has none"),
        (
            "small-cnn",
            SagNet(after="block3"),
            {},
            "needs maps of more than one place after stage 'block3', .* is 128x1x1",
        ),
        (
            "small-cnn",
            SagNet(after="layer2"),
            {},
            "reads the stage 'layer2', the model has block1, block2, block3",
        ),
        (
            "small-cnn",
            SagNet(),
            {"batch": 1},
            "needs batches of at least 2 rows, and training.batch is 1",
        ),
    ],
)
def test_models_and_batches_that_it_would_do_nothing_to_are_refused(
    model: str, method: SagNet, sides: dict[str, Any], words: str
) -> None:
    with pytest.raises(NeedsError, match=f"^method 'sagnet' {words}"):
        run(method, split(), model=model, **sides)


def test_a_model_of_tokens_is_refused() -> None:
    with pytest.raises(
        NeedsError,
        match="needs maps of more than one place after stage 'block1', .* output there is 5x192",
    ):
        SagNet().modules(INFO, maker("vit-tiny", depth=1))


def test_a_model_without_batch_norm_there_is_refused() -> None:
    def bare(**changes: Any) -> Any:
        model = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0)
        for name in ("block1", "block2"):
            model.get_submodule(name)[1] = nn.Identity()  # type: ignore[operator]
        return model

    with pytest.raises(
        NeedsError,
        match=(
            "needs a model with batch norm up to stage 'block2', whose weights its adversary moves"
        ),
    ):
        SagNet().modules(INFO, bare)
    with pytest.raises(
        NeedsError, match="up to stage 'block2'"
    ):  # held still, there is nothing to move
        SagNet().modules(
            INFO,
            lambda **changes: build_model(
                "small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0
            ).requires_grad_(False),
        )


def test_inputs_without_maps_are_refused() -> None:
    with pytest.raises(
        NeedsError,
        match=r"'sagnet' needs images, whose maps have styles, not inputs of shape \(12,\)",
    ):
        SagNet().modules(replace(INFO, input=InputSpec.features(12)), maker())


def test_a_plan_with_a_model_of_another_norm_is_refused() -> None:
    study = {**STUDY, "models": ["mlp", "small-cnn"]}
    with pytest.raises(
        NeedsError,
        match=r"methods.sagnet \(digits, .*: needs a model with batch norm, and 'mlp' has none",
    ):
        make_plan(study_from({**study, "methods": {"erm": {}, "sagnet": {}}}, name="digits"))
    make_plan(
        study_from(
            {**study, "methods": {"erm": {}, "sagnet": {"models": ["small-cnn"]}}}, name="digits"
        )
    )


@pytest.mark.parametrize(
    ("model", "shape", "stage"),
    [("small-cnn", (3, 8, 8), "block2"), ("resnet18", (3, 32, 32), "layer2")],
)
def test_stage_is_the_second_past_the_stem(
    model: str, shape: tuple[int, int, int], stage: str
) -> None:
    input_spec = InputSpec.image(*shape[1:], shape[0])
    modules = SagNet().modules(
        replace(INFO, input=input_spec),
        lambda **changes: build_model(model, {}, input_spec, unnamed(2), 0),
    )
    style: Any = modules["style"]
    assert isinstance(style, StyleNetwork) and style.tap == stage
    assert (
        modules["model"].training
        and int(
            modules["model"].state_dict()[
                f"{style.affine[0].rsplit('.', 1)[0]}.num_batches_tracked"
            ]
        )
        == 0
    )
    if model == "resnet18":  # the stem's, four of layer1, four of layer2 and that of its shortcut
        assert len(style.affine) == 2 * 10 and style.affine[:2] == ("bn1.weight", "bn1.bias")

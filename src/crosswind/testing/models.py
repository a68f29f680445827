"""The checks of models that methods train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError
from crosswind.core.knobs import Form, knobs_of, resolve
from crosswind.core.types import InputSpec
from crosswind.models.build import Backbone, Model, build_model, unnamed
from crosswind.testing.checks import Check, declaration_checks, require, run_checks

__all__ = ["check_model", "model_checks"]

N_ROWS, N_CLASSES, TOKENS, WORDS = 6, 3, 4, 9
CLOSE = 1e-4
"""How far the logits of a row may lie apart alone and among others, by rounding."""
_NORMS: dict[str, type[nn.Module]] = {"batch": nn.BatchNorm2d, "layer": nn.LayerNorm}


def model_checks(
    cls: type[Backbone],
    *,
    knobs: Mapping[str, Any] | None = None,
    input: InputSpec | None = None,
) -> list[Check]:
    """The checks of a model that methods train, each to be called, as by `pytest.mark.parametrize`.

    `knobs`: the settings that it cannot do without, and smaller ones. `input`: what a row is;
    default: the smallest that `built` declares.
    """
    subject = _ModelUnderTest(cls, dict(knobs or {}), input)
    looks: dict[str, Callable[[], None]] = {
        "gives-a-logit-for-each-class": subject.gives_logits,
        "reads-its-input": subject.reads_input,
        "answers-each-row-by-itself": subject.answers_rows_alone,
        "evaluation-changes-nothing": subject.evaluation_changes_nothing,
        "stages-features-and-head-make-the-model": subject.stages_make_model,
        "every-parameter-learns": subject.every_parameter_learns,
        "learns-a-few-rows": subject.learns_rows,
        "weights-come-from-the-seed": subject.weights_come_from_seed,
        "weights-can-be-saved": subject.weights_can_be_saved,
        "is-made-of-what-it-declares": subject.is_as_declared,
        "smaller-images-are-refused": subject.smaller_images_are_refused,
    }
    return [
        *declaration_checks(cls, ("model",), Backbone),
        *(Check(name, subject.name, look) for name, look in looks.items()),
    ]


def check_model(
    cls: type[Backbone], *, skip: Mapping[str, str] | None = None, **options: Any
) -> None:
    """Check that a model holds the contract of `crosswind.models.build`; seconds.

    `skip`: check -> why it cannot hold. `options`: those of `model_checks`. Raises `CheckFailed`
    with a line for each check that does not hold.
    """
    run_checks(model_checks(cls, **options), skip)


@dataclass(frozen=True)
class _ModelUnderTest:
    cls: type[Backbone]
    knobs: dict[str, Any]
    declared_input: InputSpec | None

    @property
    def name(self) -> str:
        return getattr(self.cls, "__name__", str(self.cls))

    @cached_property
    def settings(self) -> dict[str, Any]:
        return resolve(knobs_of(self.cls), self.knobs, self.name, f"model {self.name}")

    @property
    def form(self) -> Form:
        return self.cls.built

    @cached_property
    def input(self) -> InputSpec:
        if self.declared_input is not None:
            return self.declared_input
        if "image" in self.form.takes and "features" not in self.form.takes[:1]:
            patch = int(self.settings[self.form.patch]) if self.form.patch else 1
            side = max(self.form.least, patch)
            return InputSpec.image(side, side, 3)
        if "tokens" in self.form.takes:
            return InputSpec.tokens(TOKENS, WORDS)
        return InputSpec.features(5)

    @cached_property
    def rows(self) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        if self.input.kind == "tokens":
            size = (N_ROWS, *self.input.shape)
            return torch.randint(1, self.input.vocabulary, size, generator=generator)
        return torch.rand((N_ROWS, *self.input.tensor_shape), generator=generator) * 2 - 1

    def built(self, seed: int = 0, input: InputSpec | None = None) -> Model:
        name = str(getattr(self.cls, "registered_name", ""))
        spec = self.input if input is None else input
        return build_model(name, self.knobs, spec, unnamed(N_CLASSES), seed)

    def logits(self, model: Model, x: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            logits: Tensor = model.eval()(self.rows if x is None else x)
        return logits

    # -- the checks --------------------------------------------------------------------------------

    def gives_logits(self) -> None:
        model = self.built()
        require(
            isinstance(model, Model),
            f"its build gives {type(model).__name__}",
            "give a crosswind.models.build.Model of named stages and a head",
        )
        logits = self.logits(model)
        require(
            logits.shape == (N_ROWS, N_CLASSES),
            f"it gives {tuple(logits.shape)} for {N_ROWS} rows and {N_CLASSES} classes",
            "let its head give len(class_names) numbers a row",
        )
        require(
            logits.is_floating_point() and torch.isfinite(logits).all(),
            "its logits are not finite",
            "look at how its weights begin",
        )

    def reads_input(self) -> None:
        """By its features: the weights of a head may begin as zeros."""
        model = self.built().double().eval()
        x = self.rows.double() if self.rows.is_floating_point() else self.rows
        with torch.no_grad():
            features = model.features(x)
        require(
            bool((features != features[:1]).any()),
            "it gives all rows the same features",
            "compute them from what its stages are handed",
        )

    def answers_rows_alone(self) -> None:
        model = self.built()
        among, alone = self.logits(model)[2:3], self.logits(model, self.rows[2:3])
        require(
            float((among - alone).abs().max()) <= CLOSE * max(1.0, float(among.abs().max())),
            "in evaluation mode it gives a row other logits alone than among other rows",
            "compute nothing over the rows outside of batch norm",
        )

    def evaluation_changes_nothing(self) -> None:
        model = self.built()
        before = {key: value.clone() for key, value in model.state_dict().items()}
        first, second = self.logits(model), self.logits(model)
        changed = [
            key for key, value in model.state_dict().items() if not torch.equal(value, before[key])
        ]
        require(not changed, f"evaluation changes its {changed[:1]}", "change it in training only")
        require(
            torch.equal(first, second),
            "it gives other logits the second time",
            "draw at random in training only, as nn.Dropout does",
        )

    def stages_make_model(self) -> None:
        model, x = self.built().eval(), self.rows
        with torch.no_grad():
            features = model.features(x)
            require(
                features.shape == (N_ROWS, model.width),
                f"its features are {tuple(features.shape)}, and its width is {model.width}",
                "let `pool` end in [rows, width]",
            )
            logits = model(x)
            require(
                torch.allclose(model.head(features), logits, atol=CLOSE),
                "its head on its features does not give its logits",
                "leave forward as Model has it",
            )
            for stage in model.stages:
                after = model.after(model.until(x, stage), stage)
                require(
                    torch.allclose(after, features, atol=CLOSE),
                    f"what follows its stage {stage!r} does not give its features",
                    "name every part in one stage, in the order in which it runs",
                )

    def every_parameter_learns(self) -> None:
        if not self.form.gradient:
            return
        model = self.built().train()
        logits = model(self.rows)
        weights = torch.linspace(-1, 1, logits.numel()).view_as(logits)
        (weights * logits).sum().backward()
        without = [
            key
            for key, parameter in model.named_parameters()
            if parameter.requires_grad and parameter.grad is None
        ]
        require(
            not without,
            f"no gradient reaches its {without[:1]}",
            "use it in a stage, or set requires_grad to False",
        )

    def learns_rows(self) -> None:
        """A few steps of Adam on six rows, of three classes, without dropout."""
        if not self.form.gradient:
            return
        model = self.built().train()
        for module in model.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd):
                module.eval()
        parameters = [p for p in model.parameters() if p.requires_grad]
        optimiser = torch.optim.Adam(parameters, lr=1e-3)
        y = torch.arange(N_ROWS) % N_CLASSES
        losses = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for _ in range(12):
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(model(self.rows), y)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(loss.item())
        require(
            min(losses[6:]) < losses[0],
            f"its loss on six rows goes from {losses[0]:.3g} to {losses[-1]:.3g} in twelve steps",
            "look at how its weights begin and at what its stages cut off",
        )

    def weights_come_from_seed(self) -> None:
        first, second, third = (dict(self.built(seed).state_dict()) for seed in (0, 0, 1))
        require(
            all(torch.equal(tensor, second[key]) for key, tensor in first.items()),
            "two models of one seed begin with different weights",
            "draw them from torch's global generator",
        )
        require(
            self.form.is_given(self.settings)
            or not self.form.gradient
            or any(not torch.equal(tensor, third[key]) for key, tensor in first.items()),
            "models of two seeds begin with the same weights",
            "draw them from torch's global generator, without a seed of your own",
        )

    def weights_can_be_saved(self) -> None:
        first, second = self.built(0), self.built(1)
        second.load_state_dict(first.state_dict())
        require(
            torch.equal(self.logits(first), self.logits(second)),
            "with the weights of another one it gives other logits",
            "register every tensor that it reads as a parameter or a buffer",
        )

    def is_as_declared(self) -> None:
        model, norm = self.built(), self.form.norm_of(self.settings)
        submodules = list(model.modules())
        norms = [
            word
            for word, kind in _NORMS.items()
            if any(isinstance(module, kind) for module in submodules)
        ]
        require(
            not norm or norms == ([] if norm == "none" else [norm]),
            f"it declares norm={norm!r} and is normalised by {' and '.join(norms) or 'nothing'}",
            "mend `built`: methods that need batch norm look there",
        )
        linear = sum(isinstance(module, nn.Linear) for module in submodules)
        require(
            self.form.linear is not False or linear <= 1,
            f"it declares no linear layers beside its head and has {linear - 1}",
            "mend `built`",
        )

    def smaller_images_are_refused(self) -> None:
        """By the declaration, before anything is built."""
        if self.form.least <= 1 or self.input.kind != "image":
            return
        try:
            self.built(input=InputSpec.image(self.form.least - 1, 99, 3))
        except InputError:
            return
        require(False, f"it takes images below {self.form.least} pixels", "mend `built`")

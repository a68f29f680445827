"""What every registered model must hold: what its file declares of it is so, and what it says it
cannot take is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models.given import given as settings
from torch import nn

from crosswind.core.errors import InputError
from crosswind.core.knobs import Form
from crosswind.core.registry import listing, load
from crosswind.core.types import InputSpec
from crosswind.models.build import build_model, unnamed
from crosswind.models.form import check_form
from crosswind.models.networks.vits import Resize
from crosswind.testing import Check, model_checks

FACTS = [
    item
    for item in listing("models")
    if item.module.startswith("crosswind.")
    and (item.built is None or (item.built.trained and item.built.gradient))
]
NAMES = [fact.name for fact in FACTS]
LONG = ("vit-b-16", "resnet101", "resnet50", "timm")  # seconds each
CASES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in NAMES]
NORMS = {"batch": nn.BatchNorm2d, "layer": nn.LayerNorm}


def form_of(name: str) -> Form:
    form = next(fact for fact in FACTS if fact.name == name).built
    assert form is not None, "declare how it is built"
    return form


def defaults(name: str, **changes: Any) -> dict[str, Any]:
    return {
        **{
            known.name: known.default
            for known in next(fact for fact in FACTS if fact.name == name).knobs
        },
        **changes,
    }


def norm_of(name: str) -> str:
    return form_of(name).norm_of(defaults(name))


def test_the_sweep_finds_the_models() -> None:
    assert len(NAMES) >= 15 and {norm_of(name) for name in NAMES} == {"batch", "layer", "none", ""}
    assert [name for name in NAMES if not form_of(name).norm] == ["timm"]  # it is its network's


LARGER = {"vit-b-16": "vit-tiny", "resnet101": "resnet50"}
"""Networks with the code of a smaller one, which learns here in their place: minutes each."""
SKIP = {
    # The last layers of the vision tower are not read.
    "vision-language": ("every-parameter-learns",),
    **dict.fromkeys(
        LARGER,
        (
            "learns-a-few-rows",
            "every-parameter-learns",
            "stages-features-and-head-make-the-model",  # its parts are tried by test_backbones.py
            "evaluation-changes-nothing",
            "weights-can-be-saved",
        ),
    ),
}
"""Checks that a model cannot hold, or that a smaller one holds for it."""
CHECKED = [
    pytest.param(
        check, marks=[pytest.mark.slow] * (name in LONG or name == "resnet18"), id=f"{name}-{check}"
    )
    for name in NAMES
    for check in model_checks(load("models", name), knobs=settings(name, tokens=4))
    if check.name not in SKIP.get(name, ())
]


@pytest.mark.slow
@pytest.mark.parametrize("larger", LARGER)
def test_a_larger_network_has_the_code_of_the_smaller_one(larger: str) -> None:
    networks = []
    for name in (larger, LARGER[larger]):
        model = build_model(name, settings(name), InputSpec.image(32, 32, 3), unnamed(3), 0)
        networks.append({type(module) for module in model.modules()} - {Resize})
    assert networks[0] == networks[1] and len(networks[0]) > 8


@pytest.mark.parametrize("check", CHECKED)
def test_the_contract_holds(check: Check) -> None:
    check()


@pytest.mark.parametrize("name", CASES)
def test_it_learns_from_the_smallest_inputs_and_is_normalised_as_declared(name: str) -> None:
    form = form_of(name)
    side = max(form.least, int(defaults(name)[form.patch]) if form.patch else 1)
    if form.takes == ("text", "tokens"):
        input_spec, x = InputSpec.tokens(4, 9), torch.randint(0, 9, (2, 4))
    elif form.takes == ("features",):
        input_spec, x = InputSpec.features(5), torch.rand(2, 5)
    else:
        input_spec, x = InputSpec.image(side, side, 3), torch.rand(2, 3, side, side) * 2 - 1
    model = build_model(name, settings(name, tokens=4), input_spec, unnamed(3), 0).train()
    model(x).sum().backward()
    norm_words = [
        word
        for word, kind in NORMS.items()
        if any(isinstance(submodule, kind) for submodule in model.modules())
    ]
    # What is declared of linear layers beside the head is so; undeclared they may be there.
    linear = sum(isinstance(submodule, nn.Linear) for submodule in model.modules())
    assert linear == 1 if form.linear is False else linear > 1 or name == "timm"
    assert not form.norm or norm_words == ([] if norm_of(name) == "none" else [norm_of(name)])


@pytest.mark.parametrize("name", [name for name in NAMES if form_of(name).least > 1])
def test_smaller_images_are_refused(name: str) -> None:
    least = form_of(name).least
    with pytest.raises(
        InputError,
        match=(
            f"^model: {name} needs images of at least {least} pixels a side, these have {least - 1}"
        ),
    ):
        build_model(name, {}, InputSpec.image(least - 1, 99, 3), unnamed(3), 0)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("timm", "transformer")])
def test_published_weights_are_torchvisions_for_images_of_224(name: str) -> None:
    from torchvision.models import get_model_weights, list_models

    theirs = name.replace("-", "_")
    published = get_model_weights(theirs) if theirs in list_models() else []
    # The others are for larger images, whose positions a transformer here does not have.
    fitting = {known.name for known in published if known.transforms.keywords["crop_size"] == 224}
    assert set(form_of(name).weights) == fitting


@pytest.mark.parametrize("name", [name for name in NAMES if "inputs" in defaults(name)])
def test_what_published_weights_do_not_go_with_is_refused(name: str) -> None:
    form = form_of(name)
    with pytest.raises(
        InputError,
        match=rf"^m.weights: unknown weights of model '{name}': 'V9'.*FILE\.safetensors\)",
    ):
        check_form(form, defaults(name, weights="V9"), None, "m", name)
    check_form(
        form, defaults(name, weights="any.safetensors"), InputSpec.image(64, 64, 1), "m", name
    )
    with pytest.raises(
        InputError, match=r"^m\.inputs: ImageNet's means are of 3 channels, and these images have 1"
    ):
        check_form(form, defaults(name, inputs="imagenet"), InputSpec.image(64, 64, 1), "m", name)
    if "freeze_batch_norm" in defaults(name):
        check_form(
            form, defaults(name, weights="any.safetensors", freeze_batch_norm=True), None, "m", name
        )
        with pytest.raises(
            InputError,
            match=r"^m\.freeze_batch_norm: keeps the statistics that come with given weights",
        ):
            check_form(form, defaults(name, freeze_batch_norm=True), None, "m", name)
    for weights in form.weights:
        check_form(form, defaults(name, weights=weights), InputSpec.image(64, 64, 3), "m", name)
        with pytest.raises(
            InputError,
            match=r"^m\.weights: published weights are of images of 3 channels, and these have 1",
        ):
            check_form(form, defaults(name, weights=weights), InputSpec.image(64, 64, 1), "m", name)
        for knob in form.weights_with:
            with pytest.raises(
                InputError, match=rf"^m\.{knob}: the published weights are of a {name} with {knob} "
            ):
                check_form(
                    form,
                    defaults(name, weights=weights, **{knob: "small"}),
                    InputSpec.image(64, 64, 3),
                    "m",
                    name,
                )


def test_a_norm_may_be_a_knob_and_a_model_without_a_form_is_not_looked_at() -> None:
    assert (
        Form(norm="kind").norm_of({"kind": "layer"}) == "layer"
        and Form(norm="batch").norm_of({}) == "batch"
    )
    check_form(None, {"weights": "anything"}, InputSpec.image(1, 1, 1), "m", "theirs")


def test_patches_divide_the_sides() -> None:
    form = form_of("vit-tiny")
    for patch, height, width in ((5, 32, 32), (4, 32, 36), (64, 32, 32)):
        with pytest.raises(
            InputError,
            match=(
                rf"^m\.patch: vit-tiny needs square .* of {patch} pixels .* have {height} x {width}"
            ),
        ):
            check_form(
                form,
                defaults("vit-tiny", patch=patch),
                InputSpec.image(height, width, 3),
                "m",
                "vit-tiny",
            )

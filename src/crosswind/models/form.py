"""Whether a model takes the inputs and settings it is to be built with, told from what its class
declares, without building it.

Planning asks before any work and `build_model` asks again, so that both refuse the same with the
same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from crosswind.core.errors import InputError, unknown
from crosswind.core.knobs import Form, resolve
from crosswind.core.registry import Facts, facts, listing
from crosswind.core.types import InputSpec
from crosswind.models.estimator_class import check_estimator, check_texts
from crosswind.models.folders import (
    check_clip,
    check_encoder,
    check_tokenizer,
    check_vision_language,
)

_PACKAGES = {"chat": "openai", "features": "umap", "onnx": "onnxruntime", "transport": "ot"}
"""Packages of extras that have another name."""

FOLDERS = {
    "clip": check_clip,
    "encoder": check_encoder,
    "program": check_estimator,
    "vision-language": check_vision_language,
}
"""From what a folder of a model is to the function that looks at it."""

_TOKEN_MODELS = ("bag-of-words", "text-cnn", "transformer")
"""Models that take texts as numbers of tokens."""
_PLURAL = {"image": "images", "text": "texts", "image-and-text": "images with texts"}

__all__ = ["check_extra", "check_form", "extra_missing", "wants_imagenet"]


def extra_missing(extra: str | None) -> bool:
    """Whether the package of an extra is not installed."""
    return extra is not None and find_spec(_PACKAGES.get(extra, extra)) is None


def check_extra(extra: str | None, field: str, name: str) -> None:
    """Refuse, by an `InputError` on `field`, the model or estimator `name` where the package of its
    extra is not installed."""
    if extra_missing(extra):
        room_word = next(
            (room[:-1] for room in ("estimators", "methods") if field.startswith(room)), "model"
        )
        raise InputError(
            field, f"{room_word} {name!r} needs the extra: pip install 'crosswind[{extra}]'"
        )


def check_form(
    form: Form | None,
    knobs: Mapping[str, Any],
    input: InputSpec | None,
    field: str,
    name: str,
    *,
    encoded: bool = False,
) -> None:
    """Refuse what the model `name` cannot be built with, by an `InputError` on `field` or on one of
    its knobs.

    `input`: what a row of data is, or with `encoded` what the model's encoder made of it; None
    where it is not known. A class that declares no form is not looked at.
    """
    if form is None:
        return
    if form.of and knobs[form.of] is not None:
        inner, settings = inner_model(knobs, field)
        _check_folders(inner.built, settings, f"{field}.settings", inner.name)
        check_form(inner.built, settings, None if encoded else input, field, inner.name)
        return
    _check_folders(form, knobs, field, name)
    _check_weights(form, knobs, field, name)
    if input is None:
        return
    if input.kind not in form.takes:
        kinds = " or ".join(_PLURAL.get(kind, kind) for kind in form.takes)
        problem = f"{name} takes {kinds}, and these are {input}"
        raise InputError(field, problem, _trained_models_for(input.kind))
    if not form.gradient and input.kind in ("text", "tokens") and not encoded:
        _check_words(knobs, input, field, name)
    if input.kind == "image":
        _check_image_size(form, knobs, input, field, name)
        _check_channels(knobs, input.shape[2], field)


def _check_words(knobs: Mapping[str, Any], input: InputSpec, field: str, name: str) -> None:
    """Refuse texts of which only numbers are there, and an estimator that reads no words."""
    if input.kind == "tokens":
        raise InputError(field, f"{name} reads words, and these are {input}", _TOKEN_MODELS)
    check_texts(knobs, field)


def _check_weights(form: Form, knobs: Mapping[str, Any], field: str, name: str) -> None:
    """Refuse weights of no model, statistics that no weights come with, and published weights of
    other settings."""
    if form.of and knobs["weights"] is not None:
        problem = f"are those of the model that {form.of!r} names, and it names none"
        raise InputError(f"{field}.weights", problem)
    if knobs.get("weights") is None and knobs.get("freeze_batch_norm"):
        problem = (
            "keeps the statistics that come with given weights, and these are random; name weights,"
            " or leave it out"
        )
        raise InputError(f"{field}.freeze_batch_norm", problem)
    if _are_published(knobs.get("weights")):
        _check_published(form, knobs, field, name)


def _trained_models_for(kind: str) -> list[str]:
    """The names of the models that are trained on inputs of a kind."""
    names = []
    for model_facts in listing("models"):
        built = model_facts.built
        if built is not None and built.trained and kind in built.takes:
            names.append(model_facts.name)
    return names


def _check_image_size(
    form: Form, knobs: Mapping[str, Any], input: InputSpec, field: str, name: str
) -> None:
    """Refuse images that are too small, or not cut into whole patches."""
    height, width, _ = input.shape
    if min(height, width) < form.least:
        problem = (
            f"{name} needs images of at least {form.least} pixels a side, these have {height} x"
            f" {width}"
        )
        raise InputError(field, problem)
    if form.patch:
        side = int(knobs[form.patch])
        if height != width or height % side:
            problem = (
                f"{name} needs square images of a multiple of {side} pixels a side, these have"
                f" {height} x {width}"
            )
            raise InputError(f"{field}.{form.patch}", problem)


def _check_channels(knobs: Mapping[str, Any], channels: int, field: str) -> None:
    """Refuse weights and means of three channels for images of another number."""
    if channels == 3:
        return
    if _are_published(knobs.get("weights")):
        problem = f"published weights are of images of 3 channels, and these have {channels}"
        raise InputError(f"{field}.weights", problem)
    if wants_imagenet(knobs):
        problem = f"ImageNet's means are of 3 channels, and these images have {channels}"
        raise InputError(f"{field}.inputs", problem, ["centred"])


def _are_published(weights: object) -> bool:
    """Whether weights are named, and not those of a file."""
    return weights is not None and not _is_file(weights)


def _check_folders(form: Form | None, knobs: Mapping[str, Any], field: str, name: str) -> None:
    for knob, folder_kind in ({} if form is None else form.folders).items():
        if folder_kind in FOLDERS:
            FOLDERS[folder_kind](knobs, field)
        elif knobs[knob] is not None:
            check_extra("transformers", f"{field}.{knob}", name)
            check_tokenizer(knobs[knob], f"{field}.{knob}")


def _check_published(form: Form, knobs: Mapping[str, Any], field: str, name: str) -> None:
    if knobs["weights"] not in form.weights:
        choices = [*form.weights, "FILE.safetensors"]
        raise unknown(f"{field}.weights", f"weights of model {name!r}", knobs["weights"], choices)
    for knob, value in form.weights_with.items():
        if knobs[knob] != value:
            problem = (
                f"the published weights are of a {name} with {knob} {value!r}, not {knobs[knob]!r}"
            )
            raise InputError(f"{field}.{knob}", problem, [value])


def wants_imagenet(knobs: Mapping[str, Any]) -> bool:
    """Whether inputs are to be normalised by ImageNet's channels: `inputs` says so, or is `auto`
    and the weights are by name."""
    inputs = knobs.get("inputs")
    weights = knobs.get("weights")
    return inputs == "imagenet" or (inputs == "auto" and _are_published(weights))


def inner_model(knobs: Mapping[str, Any], field: str) -> tuple[Facts, dict[str, Any]]:
    """The model that a probe's knobs `of`, `settings` and `weights` describe, and its own knobs.
    Raises `InputError`."""
    inner = facts("models", knobs["of"], f"{field}.of")
    in_words = any(
        inner_knob.name == "prompt" for inner_knob in inner.knobs
    )  # what it tells of an image depends on the labels
    if inner.built is not None and (inner.built.of or not inner.built.trained or in_words):
        raise InputError(f"{field}.of", f"{inner.name} is no network with features")
    settings = dict(knobs["settings"] or {})
    weights = knobs["weights"]
    if any(inner_knob.name == "weights" for inner_knob in inner.knobs):
        settings |= {"weights": weights, "weights_sha256": knobs["weights_sha256"]}
    elif weights is not None and not _is_file(weights):
        raise unknown(
            f"{field}.weights", f"weights of model {inner.name!r}", weights, ["FILE.safetensors"]
        )
    owner = f"model {inner.name!r}"
    return inner, resolve(inner.knobs, settings, f"{field}.settings", owner)


def _is_file(weights: object) -> bool:
    return str(weights).endswith(".safetensors")

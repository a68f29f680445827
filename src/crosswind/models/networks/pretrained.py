"""Weights made elsewhere: torchvision's by name, or a safetensors file; checked name by name before
they are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError, one_line, unknown
from crosswind.core.files import library_path
from crosswind.core.knobs import knob
from crosswind.core.types import file_hash
from crosswind.models.build import Backbone, Model, names_of_any_shape
from crosswind.models.form import wants_imagenet

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_SD",
    "FromFile",
    "Normalise",
    "Pretrained",
    "load_weights",
    "read_weights",
    "take_weights",
    "torchvision_weights",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_SD = (0.229, 0.224, 0.225)
FIELD = "model.weights"


class Normalise(nn.Module):
    """Images in (-1, 1) -> (value in (0, 1) - mean) / sd of the three channels, ImageNet's unless
    others are given."""

    mean: Tensor
    sd: Tensor

    def __init__(
        self, mean: Sequence[float] = IMAGENET_MEAN, sd: Sequence[float] = IMAGENET_SD
    ) -> None:
        super().__init__()
        # Not persistent: they are no weights, and a published file has none of these names.
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("sd", torch.tensor(sd).view(1, 3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return ((x + 1) / 2 - self.mean) / self.sd


@dataclass(frozen=True)
class FromFile(Backbone):
    """A kind of model without published weights, which can start from those that a run kept."""

    weights: str | None = knob(
        None,
        doc="path of a safetensors file, such as one that a run of this kept; null: random",
        younger=True,
    )
    weights_sha256: str | None = knob(
        None, doc="what the file of weights must hash to", younger=True
    )

    def start(self, model: Model) -> Model:
        """`model` with the weights of the file that the knobs name."""
        if self.weights is not None:
            load_weights(model, self.weights, {}, self.weights_sha256)
        return model


@dataclass(frozen=True)
class Pretrained(Backbone):
    """A kind of model that can start from weights made elsewhere."""

    weights: str | None = knob(
        None, doc="published weights by name, or the path of a safetensors file; null: random"
    )
    weights_sha256: str | None = knob(None, doc="what the file of weights must hash to")
    inputs: str = knob(
        "auto",
        domain="{auto, centred, imagenet}",
        doc=(
            "scale of the inputs: centred (-1, 1), or by ImageNet's means and sds, which auto takes"
            " for published weights"
        ),
    )

    def normalise(self) -> dict[str, nn.Module]:
        """The part that inputs pass first, by name; none where they stay as they are."""
        if wants_imagenet(vars(self)):
            return {"normalise": Normalise()}
        return {}

    def start(self, model: Model, urls: Mapping[str, str]) -> Model:
        """`model` with the weights that the knobs name; `urls` of published ones by name."""
        if self.weights is not None:
            load_weights(model, self.weights, urls, self.weights_sha256)
        return self.frozen(model)

    def frozen(self, model: Model) -> Model:
        """`model`, whose batch norms keep the statistics of the given weights where the knob
        `freeze_batch_norm` says so."""
        if getattr(self, "freeze_batch_norm", False):
            model.keep_statistics()
        return model


def load_weights(
    model: Model, weights: str, urls: Mapping[str, str], digest: str | None = None
) -> None:
    """Put published weights into `model`: all but a head that has another number of classes, which
    stays as it was made.

    `weights`: one of torchvision's names, the keys of `urls`, or the path of a safetensors file,
    whose sha256 must be `digest` if that is given. Raises `InputError` naming the first name or
    shape that differs.
    """
    if weights in urls:
        tensors = torchvision_weights(weights, urls[weights])
    elif weights.endswith(".safetensors"):
        tensors = read_weights(Path(weights), digest)
    else:
        raise unknown(FIELD, "weights", weights, [*urls, "FILE.safetensors"])
    take_weights(model, tensors, weights)


def torchvision_weights(name: str, url: str) -> dict[str, Tensor]:
    """The weights at `url` from torch's cache or the network, read without unpickling code, checked
    by the hash in their name."""
    file = url.rsplit("/", 1)[-1]
    path = Path(torch.hub.get_dir()) / "checkpoints" / file
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(
                url, str(path), hash_prefix=_prefix(file), progress=False
            )
        except (
            Exception
        ) as error:  # what urllib, sockets and torch raise without a network, or for a wrong hash
            problem = (
                f"{name} cannot be downloaded ({one_line(str(error), 200)}); put {file} into"
                f" {path.parent}, or name a safetensors file"
            )
            raise InputError(FIELD, problem) from None
    if not file_hash(path).startswith(_prefix(file)):
        raise InputError(
            FIELD, f"{path} is damaged: its sha256 does not begin with {_prefix(file)}; remove it"
        )
    tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return tensors


def _prefix(file: str) -> str:
    return file.rsplit("-", 1)[-1].partition(".")[0]


def read_weights(path: Path, digest: str | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file, whose sha256 must be `digest` if that is given; those of
    the model in what a run keeps.

    Raises `InputError`.
    """
    from safetensors import SafetensorError

    if not path.is_file():
        raise InputError(FIELD, f"there is no file {str(path)!r}")
    if digest is not None and file_hash(path) != digest:
        raise InputError(
            FIELD, f"{str(path)!r} has changed: its sha256 is no longer {digest[:12]}..."
        )
    try:
        tensors = tensors_in(path)
    except (SafetensorError, OSError) as error:
        problem = f"{str(path)!r} cannot be read as safetensors ({one_line(str(error), 200)})"
        raise InputError(FIELD, problem) from None
    # What a run keeps holds every network of its method, and its state.
    model_tensors = {}
    for key, value in tensors.items():
        if key.startswith("model."):
            model_tensors[key.removeprefix("model.")] = value
    return model_tensors or tensors


def tensors_in(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises what the library does: `SafetensorError`,
    `OSError`."""
    from safetensors.torch import load, load_file

    file = library_path(path)
    if isinstance(file, Path):
        return load_file(file)
    return load(file.getvalue())


def take_weights(
    model: Model, tensors: Mapping[str, Tensor], source: str, *, within: str = ""
) -> None:
    """Put `tensors`, which errors call `source`, into `model`, all but a head that has another
    number
    of classes.

    `within`: what the model's names begin with and those of the file may lack. Raises `InputError`
    naming the first difference.
    """
    if within and all(key.startswith(within) for key in tensors):
        tensors = _without_prefix(tensors, within)
    model_tensors = _without_prefix(model.state_dict(), within)
    any_shape = {key.removeprefix(within) for key in names_of_any_shape(model)}
    head = {key.removeprefix(within) for key in _head_names(model)} - any_shape
    other_classes = any(
        key not in tensors or _rows(tensors[key]) != _rows(model_tensors[key]) for key in head
    )
    kept_head = head if other_classes else set()
    taken: dict[str, Any] = {}
    for key, value in model_tensors.items():
        if key in kept_head:
            if key in tensors and tensors[key].shape[1:] != value.shape[1:]:
                raise _differs(source, key, tensors[key], value)
            taken[key] = value
        elif key not in tensors:
            _refuse_missing(key, source)
            taken[key] = value
        elif tensors[key].shape != value.shape and key not in any_shape:
            raise _differs(source, key, tensors[key], value)
        else:
            taken[key] = tensors[key]
    extra = next((key for key in tensors if key not in model_tensors), None)
    if extra is not None:
        raise InputError(FIELD, f"{source!r} does not fit the model, which has no {extra!r}")
    model.load_state_dict({within + key: value for key, value in taken.items()})


def _without_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items()}


def _refuse_missing(key: str, source: str) -> None:
    """Refuse a file without a tensor of the model; files older than its counter of batches lack
    that."""
    if not key.endswith("num_batches_tracked"):
        problem = f"{source!r} does not fit the model: it has no {key!r}, the first that is missing"
        raise InputError(FIELD, problem)


def _head_names(model: Model) -> set[str]:
    (prefix,) = (name for name, submodule in model.named_modules() if submodule is model.head)
    return {f"{prefix}.{key}" for key in model.head.state_dict()}


def _rows(value: Tensor) -> int:
    return value.shape[0] if value.ndim else 0


def _differs(source: str, key: str, tensor: Tensor, model_tensor: Tensor) -> InputError:
    problem = (
        f"{source!r} does not fit the model: {key!r} is {tuple(tensor.shape)} there and"
        f" {tuple(model_tensor.shape)} here"
    )
    return InputError(FIELD, problem)

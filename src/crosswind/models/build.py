"""A model is stages, features and a head, and is built from a registered name. Knows nothing of
training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crosswind.core.errors import InputError, RunError
from crosswind.core.knobs import Form, knobs_of, resolve
from crosswind.core.registry import facts, listing, load
from crosswind.core.seeds import torch_seed
from crosswind.core.types import InputSpec, canonical
from crosswind.models.form import check_extra, check_form
from crosswind.models.networks.convolution import with_small_map_convolutions

__all__ = [
    "WHOLE",
    "Backbone",
    "Encoder",
    "Model",
    "build_model",
    "make_backbone",
    "normalised",
    "unnamed",
]

KEPT, KEPT_BYTES = 2, 2**27
WHOLE = "network"
"""The part that is a whole network of a library. What is written for that library names weights as
if it stood alone."""
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_built: dict[tuple[type, str], Model] = {}


class Model(nn.Module):
    """A classifier in named stages: x -> stages -> pool -> features [n, d] -> head -> logits [n,
    k].

    `children` are the parts under the names that their weights have in files. `stages` maps each
    stage's name to the parts that it runs, in order. `pool` are the parts between the last stage
    and the features. `head` is the name of the last part. `width` is d. Inputs are float, images
    [n, c, h, w] in (-1, 1) or features [n, width], or tokens int64 [n, length].
    """

    def __init__(
        self,
        children: Mapping[str, nn.Module],
        *,
        stages: Mapping[str, Sequence[str]],
        pool: Sequence[str],
        head: str,
        width: int,
    ) -> None:
        super().__init__()
        for name, submodule in children.items():
            self.add_module(name, submodule)
        submodule_names = [head]
        if type(self)._run is Model._run:  # another may have words of its own for what it runs
            submodule_names += [*chain.from_iterable(stages.values()), *pool]
        for name in submodule_names:
            if name.partition(".")[0] not in children:
                raise InputError("model", f"names {name!r}, which is none of its parts", children)
        self.width = width
        self._stages = {name: tuple(child_names) for name, child_names in stages.items()}
        self._pool = tuple(pool)
        self._head = head
        self._frozen = False

    def keep_statistics(self) -> None:
        """From now on training too normalises by the running statistics of its batch norms, and
        leaves them as they are.

        Their scales and shifts still learn. Raises `InputError` where there is no batch norm.
        """
        if not any(isinstance(submodule, _NORMS) for submodule in self.modules()):
            raise InputError(
                "model.freeze_batch_norm",
                "the model has no batch norm whose statistics it could keep",
            )
        self._frozen = True
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """As in torch, but that kept statistics stay as they are."""
        super().train(mode)
        if self._frozen:
            for submodule in self.modules():
                if isinstance(submodule, _NORMS):
                    submodule.training = False
        return self

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages, from the input on."""
        return tuple(self._stages)

    @property
    def head(self) -> nn.Module:
        """The last part: features [n, d] -> logits [n, k]."""
        module: nn.Module = self
        for name in self._head.split("."):  # not by attribute: a part may itself be named "head"
            module = module._modules[name]  # type: ignore[assignment]
        return module

    def until(self, x: Tensor, stage: str) -> Tensor:
        """The output of `stage`, all before it included."""
        for name in self.stages[: self._place(stage) + 1]:
            x = self._run(self._stages[name], x)
        return x

    def after(self, hidden: Tensor, stage: str) -> Tensor:
        """Features [n, d] from the output of `stage`."""
        for name in self.stages[self._place(stage) + 1 :]:
            hidden = self._run(self._stages[name], hidden)
        return self._run(self._pool, hidden)

    def features(self, x: Tensor) -> Tensor:
        """The features that the head reads, [n, d]."""
        for child_names in self._stages.values():
            x = self._run(child_names, x)
        return self._run(self._pool, x)

    def taps(self, x: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        """Outputs of stages by name in one pass, with `"features"` [n, d] and `"logits"` [n, k]
        always among them."""
        for name in names:
            self._place(name)
        out = {}
        for name, child_names in self._stages.items():
            x = self._run(child_names, x)
            if name in names:
                out[name] = x
        out["features"] = self._run(self._pool, x)
        out["logits"] = self.head(out["features"])
        return out

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, k]."""
        return self.head(self.features(x))

    def _run(self, child_names: tuple[str, ...], x: Tensor) -> Tensor:
        for child_name in child_names:
            x = self._modules[child_name](x)  # type: ignore[misc]
        return x

    def _place(self, stage: str) -> int:
        if stage not in self._stages:
            raise InputError("stage", f"the model has no stage {stage!r}", self.stages)
        return self.stages.index(stage)


def names_of_any_shape(network: nn.Module) -> set[str]:
    """The weights whose shapes training decides, as their modules' `any_shape` names them."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, submodule in network.named_modules()
        for name in getattr(submodule, "any_shape", ())
    }


class Backbone(ABC):
    """A registered kind of model; subclasses are frozen dataclasses whose fields are knobs.

    `built`: what it is made of and takes, known without building it. `version`: raised when the same
    seed gives other weights or outputs.
    """

    built: ClassVar[Form] = Form()
    version: ClassVar[int] = 1

    @abstractmethod
    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """A model with random weights, drawn from torch's global generator: one logit a class.

        `input`: what a row is, after `encoder`. Names are those of the classes, or `unnamed` where
        outputs stand for none.
        """

    def encoder_draws(self) -> bool:
        """Whether `encoder` depends on the seed."""
        return False

    def encoder(self, input: InputSpec, seed: int, device: str = "cpu") -> Encoder | None:
        """The encoder of each row, applied once before any training: texts to tokens, images to
        features; None: it stays as it is."""
        return None

    def frozen_features(self, input: InputSpec, device: str) -> Encoder | None:
        """The features of images as the model begins, where it has a way of its own to keep them;
        None: `build` and run it."""
        return None


class Encoder(NamedTuple):
    """`apply` makes rows of `input`, float32 or int64, of an array of rows that a data set gives;
    each row by itself alone."""

    input: InputSpec
    apply: Callable[[NDArray[Any]], NDArray[Any]]


def unnamed(n_outputs: int) -> tuple[str, ...]:
    """Names for outputs that stand for no classes: their numbers."""
    return tuple(str(number) for number in range(n_outputs))


def normalised(x: Tensor, dtype: torch.dtype, channels_last: bool) -> Tensor:
    """The input of a model: images uint8 [n, c, h, w] as `dtype` in (-1, 1), float inputs as
    `dtype`, anything else untouched."""
    if x.dtype == torch.uint8:
        x = x.to(dtype).mul_(2.0 / 255.0).sub_(1.0)
    elif x.is_floating_point():
        x = x.to(dtype)
    if x.ndim != 4:
        return x
    return x.contiguous(
        memory_format=torch.channels_last if channels_last else torch.contiguous_format
    )


def make_backbone(
    name: str,
    knobs: Mapping[str, Any],
    input: InputSpec,
    field: str = "model",
    *,
    encoded: bool = False,
) -> Backbone:
    """The registered kind of model at its settings. Raises `InputError` on `field`, see
    `check_form`."""
    model_facts = facts("models", name, field)
    if model_facts.built is not None and not model_facts.built.trained:
        raise InputError(
            field,
            f"{name} answers as it is and cannot be trained: cw.evaluate scores an answering object"
            " of a program, `models` of a study takes it beside trained ones; or name one that is"
            " trained",
            [each.name for each in listing("models") if each.built is None or each.built.trained],
        )
    check_extra(model_facts.extra, field, name)
    values = resolve(model_facts.knobs, knobs, field, f"model {name!r}")
    cls = load("models", name, field)
    check_form(model_facts.built, values, input, field, name, encoded=encoded)
    backbone: Backbone = cls(**{knob.name: values[knob.name] for knob in knobs_of(cls)})
    return backbone


def _check_head(model: nn.Module, name: str, n_classes: int) -> None:
    """Refuse a model whose outputs are not the classes. Raises `RunError`."""
    n_outputs = n_classes
    if isinstance(model, Model):
        n_outputs = getattr(model.head, "out_features", n_classes)
    if n_outputs != n_classes:
        raise RunError(
            f"model {name!r} has {n_outputs:,} outputs, and there are {n_classes:,} classes: its"
            " head must have len(class_names)"
        )


def build_model(
    name: str,
    knobs: Mapping[str, Any],
    input: InputSpec,
    class_names: Sequence[str],
    seed: int,
    *,
    copy: int = 0,
    field: str = "model",
    channels_last: bool = False,
) -> Model:
    """The model `name` with the initial weights of `seed`: the same for every method of a seed.

    `copy` > 0 gives further, different weights. `channels_last`: the memory layout of its
    convolutions. Torch's global generator is left as it was. The runs of a seed follow each other
    and begin alike: the last few models are kept, and given as copies. Raises `InputError` on
    `field`.
    """
    if not class_names:
        raise InputError(field, "needs at least one class, and there is none")
    backbone = make_backbone(name, knobs, input, field, encoded=True)
    values = {knob.name: getattr(backbone, knob.name) for knob in knobs_of(type(backbone))}
    key = (
        type(backbone),
        canonical([values, vars(input), list(class_names), seed, copy, channels_last]),
    )
    if key in _built:
        return deepcopy(_built[key])
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(torch_seed(seed, "weights", *((copy,) if copy else ())))
        model = with_small_map_convolutions(backbone.build(input, class_names))
    _check_head(model, name, len(class_names))
    if channels_last:
        model.to(memory_format=torch.channels_last)
    # Weights from a file are read each time: the file may have changed.
    if (
        values.get("weights") is None
        and sum(value.nbytes for value in model.state_dict().values()) <= KEPT_BYTES
    ):
        while len(_built) >= KEPT:
            del _built[next(iter(_built))]
        _built[key] = deepcopy(model)
    return model

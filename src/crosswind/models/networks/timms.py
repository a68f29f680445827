"""Any classifier of the library timm, taken apart into stages, features and head. Needs the extra
`timm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError, one_line, unknown
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Model
from crosswind.models.networks.pretrained import (
    FIELD,
    Normalise,
    Pretrained,
    read_weights,
    take_weights,
)
from crosswind.models.networks.vits import Resize

__all__ = ["Timm", "TimmNetwork"]

NET = "net."
SHARED = "model.safetensors"
"""The file in which timm's authors share the weights of a network."""


@register("timm", kind="model")
@dataclass(frozen=True)
class Timm(Pretrained):
    """Any image classifier of the library timm under its name there, from scratch, a file, or
    timm's published weights.

    Stages: stem, then stage1, stage2, ... for the maps that timm names as features, each a quarter
    of the picture or smaller. A network that is more than its parts one after the other (most
    transformers) has one stage, body. Features are what its last layer reads. Weights of a file and
    published ones are safetensors under timm's names. Published ones come from the hub or its
    cache, are kept as timm's authors shared them, and may be pinned by `weights_sha256`. A network
    made for one size of picture has inputs resized to it. The default, EfficientNet-Lite0, has 3.4
    million parameters beside its head and features of 1280; its input scale, (-1, 1), is the one
    that pictures come in. Tan and Le 2019, "EfficientNet"; Wightman 2019, "PyTorch Image Models".
    """

    name: str = knob(
        "tf_efficientnet_lite0",
        doc="one of timm's names, with the tag of its weights where there are several",
    )
    inputs: str = knob(
        "auto",
        domain="{auto, centred, imagenet, published}",
        doc=(
            "scale of the inputs: (-1, 1), by ImageNet's channels, or the network's own, which auto"
            " takes for published weights"
        ),
    )
    side: int | None = knob(
        None,
        domain="[1, inf)",
        doc="pixels a side that inputs are resized to; null: the network's, or none",
    )
    freeze_batch_norm: bool = knob(
        False,
        source="Gulrajani and Lopez-Paz 2021",
        doc=(
            "batch norms keep the statistics of the given weights in training; their scales and"
            " shifts still learn"
        ),
    )

    built = Form(weights=("published",))
    extra = "timm"

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        shape = input.tensor_shape
        config = _config(self.name)
        before = self._before(config, shape[0])
        try:
            net = self._made(config, shape[0], len(class_names))
            model = TimmNetwork(net, before, torch.zeros(1, *shape))
        except InputError:
            raise
        except (
            Exception
        ) as error:  # whatever a network of others makes of a size that it was not written for
            shape_words = " x ".join(str(size) for size in shape)
            problem = (
                f"timm's {self.name!r} cannot be run on inputs of {shape_words}"
                f" ({one_line(str(error), 200)})"
            )
            raise InputError("model.name", problem) from None
        if self.weights is not None:
            if self.weights == "published":
                path = _shared(self.name, config)
            else:
                path = Path(self.weights)
            tensors = read_weights(path, self.weights_sha256)
            take_weights(model, tensors, self.weights, within=NET)
        return self.frozen(model)

    def _made(self, config: Any, channels: int, n_classes: int) -> nn.Module:
        import timm

        sized: dict[str, Any]
        if config.fixed_input_size and self.side not in (None, config.input_size[-1]):
            sized = {"img_size": self.side}
        else:
            sized = {}
        network: nn.Module = timm.create_model(
            self.name, num_classes=n_classes, in_chans=channels, **sized
        )
        return network

    def _before(self, config: Any, channels: int) -> dict[str, nn.Module]:
        """The parts that inputs pass first."""
        if self.side is not None or not config.fixed_input_size:
            side = self.side
        else:
            side = config.input_size[-1]
        layers_before: dict[str, nn.Module]
        if side is None:
            layers_before = {}
        else:
            layers_before = {"resize": Resize(side)}
        if self.inputs == "published" or (self.inputs == "auto" and self.weights == "published"):
            if channels != 3:
                raise InputError(
                    "model.inputs",
                    f"the network's means are of 3 channels, and these images have {channels}",
                )
            layers_before["normalise"] = Normalise(config.mean, config.std)
        elif self.inputs == "imagenet":
            layers_before["normalise"] = Normalise()
        return layers_before


class TimmNetwork(Model):
    """timm's `net` in stages; `before` are parts that images pass first, `like` [1, c, h, w] is
    such an image.

    All names of timm's begin with `net.` here. Raises `InputError` for a network that cannot be
    taken apart.
    """

    def __init__(self, net: nn.Module, before: Mapping[str, nn.Module], like: Tensor) -> None:
        net.eval()
        with torch.no_grad():
            for layer_before in before.values():
                like = layer_before(like)
            like = like + torch.linspace(-1, 1, like.numel()).view_as(
                like
            )  # a constant could hide a wrong order
            stages: dict[str, tuple[str, ...]] = _stages(net, like) or {"body": ("body",)}
            features = net.forward_head(net.forward_features(like), pre_logits=True)  # type: ignore[operator]
        if not isinstance(features, Tensor) or features.ndim != 2:
            raise InputError(
                "model.name", "the network has no single vector of features before its last layer"
            )
        names = list(stages)
        stages[names[0]] = (*before, *stages[names[0]])
        super().__init__(
            {**before, "net": net},
            stages=stages,
            pool=("pool",),
            head=NET + _head(net),
            width=int(features.shape[1]),
        )
        with torch.no_grad():
            features_found = features
            if names != ["body"]:
                features_found = self._run(("pool",), self._through(like, len(before)))
            if not torch.equal(features_found, features) or not torch.equal(
                self.head(features_found), net(like)
            ):
                raise InputError(
                    "model.name",
                    "the network is not what its stages and its last layer make one after the"
                    " other",
                )
        self.train()

    def _through(self, x: Tensor, skipped: int) -> Tensor:
        for stage_number, stage_parts in enumerate(self._stages.values()):
            x = self._run(stage_parts[skipped:] if stage_number == 0 else stage_parts, x)
        return x

    def _run(self, stage_parts: tuple[str, ...], x: Tensor) -> Tensor:
        for stage_part in stage_parts:
            if stage_part == "body":
                x = self.net.forward_features(x)  # type: ignore[operator,union-attr]
            elif stage_part == "pool":
                x = self.net.forward_head(x, pre_logits=True)  # type: ignore[operator,union-attr]
            else:
                x = self.get_submodule(stage_part)(x)
        return x


def _config(name: str) -> Any:
    """The configuration that timm has of a network. Raises `InputError` for a name that it does not
    have."""
    import timm

    # Names that begin with where to look, as "hf-hub:", would read files of any kind from there.
    kind = name.partition(".")[0]
    if not timm.is_model(kind):
        model_names = timm.list_models()
        raise unknown(
            "model.name",
            "network of timm",
            name,
            get_close_matches(kind, model_names, 10, 0.4) or model_names,
        )
    tags = timm.list_models(f"{kind}.*", pretrained=True)
    if name != kind and name not in tags:
        raise unknown("model.name", "network of timm", name, [kind, *tags])
    return timm.get_pretrained_cfg(name)


def _shared(name: str, config: Any) -> Path:
    """Where the file of a network's published weights lies, fetched from the hub when it is not in
    its cache."""
    from huggingface_hub import hf_hub_download

    if not config.hf_hub_id:
        raise InputError(
            FIELD, f"timm has no published weights for {name!r}; name a safetensors file"
        )
    try:
        return Path(hf_hub_download(config.hf_hub_id, SHARED))
    except Exception as error:  # what the hub's client and all below it raise without a network
        problem = (
            f"the published weights of {name!r} cannot be downloaded ({one_line(str(error), 200)});"
            f" put {SHARED} of {config.hf_hub_id} into the hub's cache, or name a safetensors file"
        )
        raise InputError(FIELD, problem) from None


def _head(net: nn.Module) -> str:
    """The name of the last layer."""
    last = net.get_classifier()  # type: ignore[operator]
    for name, submodule in net.named_modules():
        if submodule is last and list(last.parameters()):
            return name
    raise InputError(
        "model.name", "the network has no single last layer that reads features and gives logits"
    )


# -- stages ----------------------------------------------------------------------------------------


def _stages(net: nn.Module, x: Tensor) -> dict[str, tuple[str, ...]]:
    """The names of the parts of each stage; none where the network is more than its parts one after
    the other."""
    marks = {}
    for info in _infos(net):
        if "module" in info and "reduction" in info:
            marks[str(info["module"])] = int(info["reduction"])
    chain = _chain(net, x, list(marks))
    scales = []
    for name in chain:
        scales.append(
            max(
                (scale for mark, scale in marks.items() if f"{mark}.".startswith(f"{name}.")),
                default=0,
            )
        )
    ends = [scale_number for scale_number, scale in enumerate(scales) if scale >= 4]
    if not ends:
        return {}
    # Up to the last map of half the size, or all before the first that timm names.
    begin = max(
        (scale_number + 1 for scale_number, scale in enumerate(scales) if 0 < scale < 4),
        default=ends[0],
    )
    out = {"stem": chain[:begin]} if begin else {}
    for number, end in enumerate(ends, start=1):
        if number == len(ends):
            last = len(chain)
        else:
            last = end + 1
        out[f"stage{number}"], begin = chain[begin:last], last
    return {stage: tuple(NET + name for name in names) for stage, names in out.items()}


def _infos(net: nn.Module) -> list[dict[str, Any]]:
    infos = getattr(net, "feature_info", [])
    return list(infos if isinstance(infos, list) else infos.get_dicts())


def _chain(net: nn.Module, x: Tensor, marks: Sequence[str]) -> list[str]:
    """The parts that make the last maps of `x`, each from what the one before has made; none where
    others act in between."""
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = []

    def note(
        submodule: nn.Module,
        inputs: tuple[Any, ...],
        named: dict[str, Any],
        output_made: Any,
        *,
        name: str,
    ) -> None:
        calls.append((name, inputs, named, output_made))

    hooks = [
        net.get_submodule(name).register_forward_hook(partial(note, name=name), with_kwargs=True)
        for name in _parts(net, marks)
    ]
    try:
        last = net.forward_features(x)  # type: ignore[operator]
    finally:
        for hook in hooks:
            hook.remove()
    for _, part_inputs, named, part_output in calls:
        if (
            named
            or len(part_inputs) != 1
            or part_inputs[0] is not x
            or not isinstance(part_output, Tensor)
        ):
            return []
        x = part_output
    names = [name for name, *_ in calls]
    if last is x and len(set(names)) == len(names):
        return names
    return []


def _parts(net: nn.Module, marks: Sequence[str], within: str = "") -> list[str]:
    """The names of the parts of a network; sequences that hold several maps that timm names are
    taken apart."""
    out = []
    for name, child in net.named_children():
        path = within + name
        if type(child) is nn.Sequential and any(mark.startswith(f"{path}.") for mark in marks):
            out += _parts(child, marks, f"{path}.")
        else:
            out.append(path)
    return out

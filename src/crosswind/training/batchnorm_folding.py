"""Models for inference: batch norms folded into the convolutions before them, and bfloat16 weights
kept.

A batch norm in evaluation mode is a product and a sum for each channel, which the convolution
before it can carry in its own weights. A symbolic trace of the forward pass shows which convolution
is read by its norm alone. Whatever is not understood stays as it is and is only slower. The
originals are never touched: copies share all tensors with them but those of folded layers.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.fx
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from crosswind.models.build import Model
from crosswind.models.networks.convolution import PaddedConv2d, SmallMapConv2d

_WAYS_IN = ("forward", "features", "taps", "until", "after")

T = TypeVar("T")


def evaluated(
    modules: Mapping[str, nn.Module], precision: str, run: Callable[[dict[str, nn.Module]], T]
) -> T:
    """The value of `run` for modules in evaluation mode, computed with folded copies of the models
    among them.

    Of a `Model`, `run` may call it, `features`, `taps`, `until`, `after` and `head`. Where it reads
    other parts of one, it is run once more, with the originals. `precision` as in the settings;
    under `bf16` autocast is on. Same sums in another order: float32 outputs differ by rounding.
    Call in evaluation mode, with gradients off.
    """
    try:
        return run({name: _folded(module, precision == "bf16") for name, module in modules.items()})
    except _ReadsParts:
        for module in modules.values():
            _PLANS[module] = _shape(module), ([], [])
        return run(dict(modules))


def folded(modules: Mapping[str, nn.Module]) -> list[tuple[str, str]]:
    """Names of the layers and of the norms that `evaluated` folds into them, as `MODULE.PATH`;
    modules in evaluation mode."""
    return [
        (f"{name}.{layer}", f"{name}.{norm}")
        for name, module in modules.items()
        for layer, norm in _plan(module)[0]
    ]


class _ReadsParts(Exception):
    """The originals must be asked."""


class _Folded(Model):
    """A model that shows its ways in and its head; who reads other parts must read the
    originals'."""

    def __init__(self, model: Model) -> None:
        self.__dict__.update(model.__dict__, _model=model)

    def forward(self, x: Tensor) -> Tensor:
        return self._model(x)

    @property
    def head(self) -> nn.Module:
        return self._model.head

    def _run(self, stages: tuple[str, ...], x: Tensor) -> Tensor:
        return self._model._run(stages, x)

    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        raise _ReadsParts

    def __getattr__(self, name: str) -> Any:
        raise _ReadsParts

    children = named_children = state_dict = parameters = named_parameters = buffers = (
        named_buffers
    ) = named_modules
    modules = get_submodule = named_modules


def _folded(module: nn.Module, low: bool) -> nn.Module:
    """A folded copy, under `low` with weights in bfloat16; the module itself where there is nothing
    to change."""
    pairs, called = _plan(module)
    if not isinstance(module, Model) or not called:
        return module
    modules = dict(module.named_modules(remove_duplicate=False))
    # A deep copy that shares every tensor, with other parts in the place of some.
    memo: dict[int, Any] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        memo[id(tensor)] = tensor
    memo[id(module.head)] = module.head
    n_kept = len(memo)
    for layer, norm in pairs:
        conv = modules[layer]
        after = modules[norm]
        statistics = (after.running_mean, after.running_var, after.eps, after.weight, after.bias)
        weights = fuse_conv_bn_weights(conv.weight, conv.bias, *statistics)
        memo[id(conv)] = _with_weights(conv, weights, low)
        memo[id(after)] = nn.Identity().eval()
    for submodule in [modules[path] for path in called] if low else []:
        if id(submodule) not in memo and "weight" in submodule._parameters:
            memo[id(submodule)] = _with_weights(submodule, (submodule.weight, submodule.bias), low)
    if len(memo) == n_kept:
        return module
    return _Folded(_deep_copy(module, memo))


_ATOMS = (bool, int, float, str, type(None))
_COPIED_AS_USUAL = ("__new__", "__setstate__", "__getstate__", "__reduce__", "__reduce_ex__")


def _deep_copy(module: Model, memo: dict[int, Any]) -> Model:
    """`copy.deepcopy`, several times as fast: it would take every module to pieces, with its dozen
    empty containers for hooks. Modules that say how they are copied are left to it."""
    twins = []
    for submodule in module.modules():
        kind = type(submodule)
        if id(submodule) in memo or hasattr(kind, "__deepcopy__"):
            continue
        if all(
            getattr(kind, name, None) is getattr(nn.Module, name, None) for name in _COPIED_AS_USUAL
        ):
            memo[id(submodule)] = twin = object.__new__(kind)
            twins.append((submodule, twin))
    for submodule, twin in twins:
        for name, value in vars(submodule).items():
            if type(value) in (dict, set, OrderedDict) and not value:
                value = memo.setdefault(id(value), type(value)())
            elif type(value) not in _ATOMS:
                value = copy.deepcopy(value, memo)
            twin.__dict__[name] = value
    return copy.deepcopy(module, memo)


def _with_weights(layer: nn.Module, weights: tuple[Any, Any], low: bool) -> nn.Module:
    layer_copy = copy.copy(layer)
    layer_copy._parameters = {"weight": None, "bias": None}
    for name, value in zip(layer_copy._parameters, weights, strict=True):
        if value is not None:
            weights_kept = value.detach().to(torch.bfloat16 if low else value.dtype)
            layer_copy._parameters[name] = nn.Parameter(weights_kept, requires_grad=False)
    if low:
        layer_copy._forward_pre_hooks = type(layer._forward_pre_hooks)()
        layer_copy.register_forward_pre_hook(_under_autocast)
    return layer_copy


def _under_autocast(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    # Where a forward pass switches autocast off it wants the full weights.
    kind = inputs[0].device.type
    if not torch.is_autocast_enabled(kind) or torch.get_autocast_dtype(kind) != torch.bfloat16:
        raise _ReadsParts


_Plan: TypeAlias = tuple[list[tuple[str, str]], list[str]]
_PLANS: WeakKeyDictionary[nn.Module, tuple[Any, _Plan]] = WeakKeyDictionary()


def _plan(module: nn.Module) -> _Plan:
    """Paths of the convolutions and of the norms to be folded into them, and of all layers with
    weights that are only called."""
    modules = dict(module.named_modules(remove_duplicate=False))
    if not isinstance(module, Model) or any(
        getattr(type(module), name) is not getattr(Model, name) for name in _WAYS_IN
    ):
        return [], []
    if any(
        submodule._forward_hooks or submodule._forward_pre_hooks for submodule in modules.values()
    ):
        return [], []
    if module not in _PLANS or _PLANS[module][0] != _shape(module):
        _PLANS[module] = _shape(module), _traced(module)
    pairs, called = _PLANS[module][1]
    return [(layer, norm) for layer, norm in pairs if _fits(modules[layer], modules[norm])], called


def _shape(module: nn.Module) -> list[tuple[str, type]]:
    return [
        (name, type(submodule)) for name, submodule in module.named_modules(remove_duplicate=False)
    ]


def _fits(layer: nn.Module, norm: nn.Module) -> bool:
    mean = norm.running_mean
    weight = layer._parameters.get("weight")
    if norm.training or not isinstance(mean, Tensor) or not isinstance(weight, Tensor):
        return False
    return (
        mean.dtype == weight.dtype and "forward" not in vars(layer) and "forward" not in vars(norm)
    )


def _traced(module: Model) -> _Plan:
    """A pair's norm is the only reader of what its convolution gives; each layer stands and is
    called at one place."""
    # Nothing is folded across the border of a stage, since every stage's output is an output of the
    # taps. It is a copy that is traced, since a forward pass may write into its module.
    model = _deep_copy(module, {id(value): value for value in module.parameters()})
    taps = _Taps(model)
    try:
        nodes = list(_Tracer().trace(taps).nodes)
    except Exception:  # whatever a forward pass makes of a placeholder: it is not understood then
        return [], []
    trace = _Trace(nodes, dict(taps.named_modules(remove_duplicate=False)))
    layers = [
        node
        for node in nodes
        if trace.once(node, nn.Conv2d, PaddedConv2d, SmallMapConv2d, nn.Linear)
    ]
    pairs = []
    for layer in layers:
        if trace.is_before_its_norm(layer):
            pairs.append((_path(layer), _path(next(iter(layer.users)))))
    return pairs, [_path(node) for node in layers]


class _Trace:
    """The calls and reads of a forward pass, by the nodes of its graph and the modules by path."""

    def __init__(self, nodes: Sequence[torch.fx.Node], modules: Mapping[str, nn.Module]) -> None:
        self.modules = modules
        self.standing = list(modules.values())
        self.calls = [modules[str(node.target)] for node in nodes if node.op == "call_module"]
        # The modules of which a parameter or buffer is read beside a call.
        self.read = {str(node.target).rpartition(".")[0] for node in nodes if node.op == "get_attr"}

    def once(self, node: torch.fx.Node, *kinds: type) -> bool:
        """Whether a node calls a module of these kinds that stands, and is called, at one place
        and read nowhere else."""
        if node.op != "call_module" or node.target in self.read:
            return False
        submodule = self.modules[str(node.target)]
        if type(submodule) not in kinds:
            return False
        return self.calls.count(submodule) == self.standing.count(submodule) == 1

    def is_before_its_norm(self, layer: torch.fx.Node) -> bool:
        """Whether a layer is a convolution that a batch norm alone reads."""
        if not isinstance(self.modules[str(layer.target)], nn.Conv2d) or len(layer.users) != 1:
            return False
        norm = next(iter(layer.users))
        reads_it_alone = norm.args == (layer,) and not norm.kwargs
        return reads_it_alone and self.once(norm, nn.BatchNorm2d)


def _path(node: torch.fx.Node) -> str:
    return str(node.target).removeprefix("model.")


class _Taps(nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model.taps(x, self.model.stages)


class _Tracer(torch.fx.Tracer):
    """Looks into modules that hold a norm, and into sequences."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if type(m) is nn.Sequential or isinstance(m, Model):
            return False
        return isinstance(m, nn.BatchNorm2d) or not any(
            isinstance(submodule, nn.BatchNorm2d) for submodule in m.modules()
        )

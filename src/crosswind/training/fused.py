"""Networks for inference: batch norms folded into the convolutions and linear layers before them, and bfloat16 weights kept.

A batch norm in evaluation mode is a product and a sum for each channel, which the layer before it can carry in its own weights.
Which layers belong together is read from a symbolic trace of the forward pass, so only a norm that is the one reader of its
convolution is folded; whatever is not understood stays as it is and is only slower. The originals are never touched: the copies
share every parameter and buffer with them but those of folded layers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
import torch.fx
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from crosswind.models.build import Model
from crosswind.models.convolution import SmallMapConv2d

__all__ = ["evaluated", "folded"]

_RANKS: dict[type[nn.Module], int] = {nn.Linear: 2, nn.Conv1d: 3, nn.Conv2d: 4, SmallMapConv2d: 4, nn.Conv3d: 5}
"""The layers that can carry a norm, and how many dimensions their output must have for the norm to be one of channels."""
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_ENTRIES = ("forward", "features", "taps", "until", "after")

T = TypeVar("T")


def evaluated(modules: Mapping[str, nn.Module], precision: str, run: Callable[[dict[str, nn.Module]], T]) -> T:
    """What `run` gives for modules in evaluation mode, computed with folded copies of them where that is sure to be the same.

    `run` calls the modules it is given (of a `Model` also `features`, `taps`, `until`, `after` and `head`); where it reads their
    folded parts otherwise it is run once more, with the originals. `precision` as in the settings; under `bf16` autocast is on.
    Same sums in another order: float32 outputs differ by rounding. Call in evaluation mode, with gradients off.
    """
    try:
        made, pairs = _copies(modules, precision == "bf16")
        found = run(made)
        if any(pair.waiting for pair in pairs):
            raise _Unfused
        return found
    except _Unfused:
        for module in modules.values():
            _PLANS[module] = _Plan(_shape_of(module))
        return run(dict(modules))


def folded(modules: Mapping[str, nn.Module]) -> list[tuple[str, str]]:
    """Names of the layers and of the norms that `evaluated` folds into them, as `MODULE.PATH`; modules in evaluation mode."""
    return [(f"{name}.{layer}", f"{name}.{norm}") for name, plan in _plans(modules).items() for layer, norm in plan.pairs]


class _Unfused(Exception):
    """No error: the signal that the originals must be asked."""


# -- which layers ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """`pairs` of a layer and its norm; `called`: other layers that are only called; `shape` of the module it was made for."""

    shape: tuple[tuple[str, type], ...]
    pairs: tuple[tuple[str, str], ...] = ()
    called: tuple[str, ...] = ()


_PLANS: WeakKeyDictionary[nn.Module, _Plan] = WeakKeyDictionary()


def _shape_of(module: nn.Module) -> tuple[tuple[str, type], ...]:
    return tuple((name, type(part)) for name, part in module.named_modules(remove_duplicate=False))


def _plans(modules: Mapping[str, nn.Module]) -> dict[str, _Plan]:
    """The plan of each module, without parts that stand in several places or have changed since it was made."""
    places: dict[int, int] = {}
    for module in modules.values():
        for _, part in module.named_modules(remove_duplicate=False):
            places[id(part)] = places.get(id(part), 0) + 1
    out = {}
    for name, module in modules.items():
        shape, plan = _shape_of(module), _PLANS.get(module)
        if plan is None or plan.shape != shape:
            plan = _PLANS[module] = _planned(module, shape)
        parts = dict(module.named_modules(remove_duplicate=False))
        if any(part._forward_hooks or part._forward_pre_hooks for part in parts.values()):
            out[name] = _Plan(shape)
            continue

        def single(path: str, parts: dict[str, nn.Module] = parts) -> bool:
            return places[id(parts[path])] == 1

        pairs = tuple(
            (layer, norm) for layer, norm in plan.pairs if single(layer) and single(norm) and _fits(parts[layer], parts[norm])
        )
        out[name] = _Plan(shape, pairs, tuple(path for path in plan.called if single(path) and _is_layer(parts[path])))
    return out


def _is_layer(part: nn.Module) -> bool:
    """One of torch's layers with weights of its own, whose forward pass nobody has replaced."""
    return type(part) in _RANKS and isinstance(part._parameters.get("weight"), nn.Parameter) and "forward" not in vars(part)


def _fits(layer: nn.Module, norm: nn.Module) -> bool:
    if not _is_layer(layer) or type(norm) not in _NORMS or norm.training or "forward" in vars(norm):
        return False
    mean, variance, weight = norm.running_mean, norm.running_var, layer.weight
    if not isinstance(mean, Tensor) or not isinstance(variance, Tensor) or not isinstance(weight, Tensor):
        return False
    return len(mean) == len(weight) and mean.dtype == weight.dtype and mean.device == weight.device


def _planned(module: nn.Module, shape: tuple[tuple[str, type], ...]) -> _Plan:
    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        return _Plan(shape)  # a hook would be shown what the tracing passes, and may keep it
    whole = _all_entries(type(module))
    tracer = _Tracer()
    try:
        copy = _twin(module, {}, {}, whole=True)  # as a forward pass may write into its module
        graph = tracer.trace(_Taps(copy) if whole else copy)
    except Exception:  # whatever a forward pass makes of a placeholder: it is not understood then
        return _Plan(shape)
    prefix = "model." if whole else ""
    parts = dict(copy.named_modules(remove_duplicate=False))
    nodes: dict[str, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            nodes.setdefault(str(node.target).removeprefix(prefix), []).append(node)

    def once(path: str) -> bool:
        """Called at one place, as a module, and not read otherwise."""
        own = [*parts[path].parameters(), *parts[path].buffers()]
        return len(nodes[path]) == 1 and not any(id(tensor) in tracer.read for tensor in own)

    pairs, called = [], []
    for path, (node, *_) in nodes.items():
        if type(parts[path]) not in _RANKS or not once(path):
            continue
        after = [str(user.target).removeprefix(prefix) for user in node.users if user.op == "call_module"]
        if len(node.users) == len(after) == 1 and isinstance(parts[after[0]], _NORMS) and once(after[0]):
            (user,) = node.users
            if user.args == (node,) and not user.kwargs:
                pairs.append((path, after[0]))
                continue
        called.append(path)
    head = f"{module._head}." if isinstance(module, Model) else None  # methods call it and may read it; it is small
    return _Plan(shape, tuple(pairs), tuple(path for path in called if head is None or not f"{path}.".startswith(head)))


def _all_entries(kind: type[nn.Module]) -> bool:
    """Whether every way into it is a `Model`'s own, which tracing its taps shows."""
    return issubclass(kind, Model) and all(getattr(kind, name) is getattr(Model, name) for name in _ENTRIES)


class _Taps(nn.Module):
    """Every stage's output is an output, so that nothing is folded across the border of a stage."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        assert isinstance(self.model, Model)
        return self.model.taps(x, self.model.stages)


class _Tracer(torch.fx.Tracer):
    """Looks into modules that hold a norm, a sequence of layers, or are the root; `read`: parameters seen outside their module."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if type(m) is nn.Sequential or isinstance(m, _Taps | Model):
            return False
        return isinstance(m, _NORMS) or not any(isinstance(part, _NORMS) for part in m.modules())

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if isinstance(attr_val, Tensor):
            self.read.add(id(attr_val))
        return super().getattr(attr, attr_val, parameter_proxy_cache)


# -- copies ------------------------------------------------------------------------------------------------------------------


class _Pair:
    """Watches that a norm is given what its layer has just made, and nobody else."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._made: ReferenceType[Tensor] | None = None

    @property
    def waiting(self) -> bool:
        """Whether a layer was called without its norm."""
        return self._made is not None

    def made(self, layer: nn.Module, inputs: Any, output: Tensor) -> None:
        """After the layer."""
        if self._made is not None or output.ndim != self._rank:
            raise _Unfused
        self._made = ref(output)

    def taken(self, x: Tensor) -> None:
        """In place of the norm."""
        if self._made is None or self._made() is not x:
            raise _Unfused
        self._made = None


class _Passed(nn.Module):
    """Where the norm was."""

    def __init__(self, pair: _Pair) -> None:
        super().__init__()
        self._pair = pair

    def forward(self, x: Tensor) -> Tensor:
        self._pair.taken(x)
        return x


class _Gate:
    """Open while a traced way into the module is run; otherwise its changed parts are shown to nobody."""

    def __init__(self, changed: set[int]) -> None:
        self.changed = changed
        self.depth = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def _copies(modules: Mapping[str, nn.Module], low: bool) -> tuple[dict[str, nn.Module], list[_Pair]]:
    """The modules with norms folded, and under `low` with weights in bfloat16; those without either are the originals."""
    out: dict[str, nn.Module] = {}
    watched: list[_Pair] = []
    for name, plan in _plans(modules).items():
        module = modules[name]
        replaced: dict[int, nn.Module] = {}
        parts = dict(module.named_modules())
        for layer, norm in plan.pairs:
            pair = _Pair(_RANKS[type(parts[layer])])
            watched.append(pair)
            replaced[id(parts[layer])] = _carrying(parts[layer], parts[norm], pair, low)
            replaced[id(parts[norm])] = _Passed(pair).eval()
        for path in plan.called if low else ():
            replaced[id(parts[path])] = _with_weights(parts[path], (parts[path].weight, parts[path].bias), low)
        copy = _twin(module, replaced, {}, whole=False)
        if replaced and id(module) not in replaced:
            copy.__dict__["_gate"] = _Gate({id(part) for part in copy.modules()} - {id(part) for part in module.modules()})
            copy.__class__ = _guarded(type(module))  # type: ignore[arg-type]
        out[name] = module if id(module) in replaced else copy
    return out, watched


def _carrying(layer: nn.Module, norm: nn.Module, pair: _Pair, low: bool) -> nn.Module:
    fuse: Any = fuse_linear_bn_weights if isinstance(layer, nn.Linear) else fuse_conv_bn_weights
    own, statistics = (layer.weight, layer.bias), (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    made = _with_weights(layer, fuse(*own, *statistics), low)
    made.register_forward_hook(pair.made)
    return made


def _with_weights(layer: nn.Module, weights: tuple[Any, Any], low: bool) -> nn.Module:
    made = _bare(layer)
    made._forward_hooks, made._forward_pre_hooks, made._parameters = OrderedDict(), OrderedDict(), {}
    for name, value in zip(("weight", "bias"), weights, strict=True):
        kept = None if value is None else value.detach().to(torch.bfloat16 if low else value.dtype)
        made._parameters[name] = None if kept is None else nn.Parameter(kept, requires_grad=False)
    if low:
        made.register_forward_pre_hook(_under_autocast)
    return made


def _under_autocast(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    # Where a forward pass switches autocast off it wants the full weights.
    kind = inputs[0].device.type
    if not torch.is_autocast_enabled(kind) or torch.get_autocast_dtype(kind) != torch.bfloat16:
        raise _Unfused


def _twin(module: nn.Module, replaced: Mapping[int, nn.Module], memo: dict[int, nn.Module], *, whole: bool) -> nn.Module:
    """A copy that shares tensors with `module`, some parts replaced; what holds none of them is shared itself, unless `whole`."""
    if id(module) in replaced:
        return replaced[id(module)]
    if id(module) not in memo:
        memo[id(module)] = module  # until its parts are known: a part may hold what holds it
        parts = {name: None if part is None else _twin(part, replaced, memo, whole=whole) for name, part in module._modules.items()}
        if whole or any(parts[name] is not part for name, part in module._modules.items()):
            made = _bare(module)
            made._modules = parts
            made._parameters = dict(module._parameters)
            made._buffers = {
                name: value.clone() if whole and value is not None else value for name, value in module._buffers.items()
            }
            memo[id(module)] = made
    return memo[id(module)]


def _bare(module: nn.Module) -> nn.Module:
    made: nn.Module = type(module).__new__(type(module))
    made.__dict__ = dict(module.__dict__)
    return made


@cache
def _guarded(kind: type[nn.Module]) -> type[nn.Module]:
    """The class `kind` whose changed parts are out of reach unless one of its traced ways in is being run."""

    class Guarded(kind):  # type: ignore[valid-type,misc]
        @property
        def _modules(self) -> Any:
            if self.__dict__["_gate"].depth == 0:
                raise _Unfused
            return self.__dict__["_modules"]

        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            gate = self.__dict__["_gate"]
            if gate.depth == 0 and id(found) in gate.changed:
                raise _Unfused
            return found

    for name in _ENTRIES if _all_entries(kind) else ("forward",):
        setattr(Guarded, name, _entry(getattr(kind, name)))
    Guarded.__name__, Guarded.__qualname__, Guarded.__doc__ = kind.__name__, kind.__qualname__, kind.__doc__
    return Guarded


def _entry(run: Callable[..., Any]) -> Callable[..., Any]:
    def entered(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with self.__dict__["_gate"].open():
            return run(self, *args, **kwargs)

    return entered

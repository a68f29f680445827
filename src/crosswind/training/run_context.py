"""The loop's side of a method's contract: networks, declared optimisers and state, built, stepped
and flattened into tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from crosswind.core.errors import NeedsError, RunError
from crosswind.core.seeds import torch_seed
from crosswind.methods.base import (
    Batch,
    HeldOut,
    Info,
    Loss,
    Method,
    Modules,
    OptimiserSpec,
    Output,
    Stage,
    State,
)
from crosswind.models.build import Model, build_model, unnamed
from crosswind.models.networks.convolution import without_overruns
from crosswind.training.batchnorm_folding import evaluated
from crosswind.training.loader import DTYPES, EvaluationRows, TrainingRows
from crosswind.training.predicting import autocast, evaluation_mode, outputs
from crosswind.training.settings import ModelSpec, TrainingSettings, rate_factor


class Optimiser:
    """One declared optimiser at work: torch's own arithmetic, fused where it can be, with its clip
    and schedule.

    By torch's functions and not by its classes, whose steps import the compiler: two seconds of
    every process.
    """

    def __init__(
        self, spec: OptimiserSpec, settings: TrainingSettings, alone: bool, length: int = 1
    ) -> None:
        """`length`: steps of the stage, at most; read by schedules alone."""
        self._spec = spec
        self._settings = settings
        self._length = length
        self.parameters = list(spec.parameters)
        # With other parameters about, gradients must be made for these only, or the others would
        # gather them.
        self._inputs = None if alone else self.parameters
        self._lr = settings.lr if spec.lr is None else spec.lr
        self._kind = settings.optimiser if spec.kind is None else spec.kind
        self._decay = settings.weight_decay if spec.weight_decay is None else spec.weight_decay
        self._momentum = settings.momentum if spec.momentum is None else spec.momentum
        self._betas = (settings.beta1, settings.beta2) if spec.betas is None else spec.betas
        self._eps = settings.eps if spec.eps is None else spec.eps
        of_study = spec.schedule is None and spec.lr is None
        self._follows_study = of_study and (settings.schedule, settings.warmup) != ("constant", 0)
        if self._kind not in ("adam", "adamw", "sgd"):
            raise RunError(f"the optimiser kind {self._kind!r} is none of adam, adamw, sgd")
        self.reset()

    def reset(self) -> None:
        """Begin anew: nothing gathered."""
        self._gathered: list[dict[str, Tensor]] = [{} for _ in self.parameters]

    def step(self, total: Tensor, batch: Batch) -> None:
        """One step down `total`."""
        for parameter in self.parameters:
            parameter.grad = None
        total.backward(inputs=self._inputs)  # type: ignore[no-untyped-call]
        if self._spec.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self._spec.clip)
        lr = self._lr
        if self._spec.schedule is not None:
            lr *= self._spec.schedule(batch.step, batch.epoch)
        elif self._follows_study:
            lr *= rate_factor(self._settings, batch.step, self._length)
        moved = []
        for p, moments in zip(self.parameters, self._gathered, strict=True):
            if p.grad is not None:
                moved.append((p, p.grad, moments))
        if moved:
            with torch.no_grad():
                self._move(moved, lr)

    def _move(self, moved: Sequence[tuple[Tensor, Tensor, dict[str, Tensor]]], lr: float) -> None:
        parameters = [parameter for parameter, _, _ in moved]
        gradients = [gradient for _, gradient, _ in moved]
        gathered = [moments for _, _, moments in moved]
        shared: dict[str, Any] = {"lr": lr, "weight_decay": self._decay, "maximize": False}
        if self._kind == "sgd":
            buffers = [moments.get("momentum_buffer") for moments in gathered]
            sgd(
                parameters,
                gradients,
                buffers,
                momentum=self._momentum,
                dampening=0.0,
                nesterov=False,
                **shared,
            )
            for moments, buffer in zip(gathered, buffers, strict=True):
                moments.update({} if buffer is None else {"momentum_buffer": buffer})
            return
        for parameter, moments in zip(parameters, gathered, strict=True):
            if not moments:
                moments["step"] = torch.zeros((), device=parameter.device)
                moments["exp_avg"], moments["exp_avg_sq"] = (
                    torch.zeros_like(parameter),
                    torch.zeros_like(parameter),
                )
        first, second, steps = (
            [moments[name] for moments in gathered] for name in ("exp_avg", "exp_avg_sq", "step")
        )
        shared |= {
            "beta1": self._betas[0],
            "beta2": self._betas[1],
            "eps": self._eps,
        }
        update = adamw if self._kind == "adamw" else adam
        update(
            parameters,
            gradients,
            first,
            second,
            [],
            steps,
            fused=True,
            amsgrad=False,
            **shared,
        )

    def save(self) -> dict[str, Tensor]:
        """The moments that it has gathered, as `INDEX/KEY` of each parameter in order."""
        return {
            f"{index}/{key}": value
            for index, moments in enumerate(self._gathered)
            for key, value in moments.items()
        }

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from what `save` gave."""
        self.reset()
        for name, value in saved.items():
            index, key = name.split("/")
            parameter = self.parameters[int(index)]
            # The fused kernels walk the memory of parameter and moments side by side: layouts must
            # be the same.
            alike = value.shape == parameter.shape and value.ndim
            if alike:
                restored = torch.empty_like(parameter)
            else:
                restored = torch.empty_like(value, device=parameter.device)
            self._gathered[int(index)][key] = restored.copy_(value)


class ContextRows(NamedTuple):
    """The rows that a method reaches: those of training as batches and for evaluation, and those
    that were held out for it, if it asks for any."""

    batches: TrainingRows
    training: EvaluationRows
    holdout: EvaluationRows | None = None


class LoopContext:
    """The implementation of `methods.base.RunContext` for one run."""

    def __init__(
        self,
        method: Method,
        info: Info,
        model: ModelSpec,
        settings: TrainingSettings,
        seed: int,
        sets: ContextRows,
        base: Mapping[str, Tensor] | None,
    ) -> None:
        rows, images, holdout = sets
        self.info = info
        self.seed = seed
        self.y = rows.y
        self.group = rows.group
        self.environment = rows.environment
        self.holdout: HeldOut | None = None
        if holdout is not None:
            self.holdout = _HeldOutRows(self, holdout)
        self.modules: Modules = {}
        self.state: State = {}
        self.batch: Batch | None = None
        self.last: Stage | None = None
        self._method = method
        self._model = model
        self._settings = settings
        self._images = images
        self._base = base
        self._optimisers: dict[str, Optimiser] = {}
        self._copies = 0
        self._frozen: set[str] = set()
        self.build()

    # -- what methods call
    # ----------------------------------------------------------------------------------------------

    def descend(self, name: str, loss: Callable[[], Loss]) -> Loss:
        """See `RunContext.descend`."""
        if name not in self._optimisers:
            raise RunError(
                f"the method declares no optimiser {name!r} (declared:"
                f" {', '.join(self._optimisers)})"
            )
        assert self.batch is not None
        with autocast(self._settings):
            loss_terms = loss()
        _check_loss(loss_terms)
        self._optimisers[name].step(loss_terms.total, self.batch)
        self.state.update({key: value.detach() for key, value in loss_terms.state.items()})
        return loss_terms

    def reset(self, name: str) -> None:
        """See `RunContext.reset`."""
        self._optimisers[name].reset()

    def inputs(self, rows: Tensor | None = None) -> Tensor:
        """See `RunContext.inputs`."""
        return _inputs_of(self._images, rows)

    def predict(self, rows: Tensor | None = None, *, base: bool = False) -> Output:
        """See `RunContext.predict`."""
        if base:
            logits = self._passed(rows, self._base_model(), lambda model, x: model(x))
            return Output(logits=logits)
        with evaluation_mode(self.modules.values()), autocast(self._settings):
            positions, back = _in_order(self._images, rows)
            model_outputs = outputs(
                self._method, self.modules, self.state, self._images, self._settings, positions
            )
        fields_of_outputs = []
        for model_output in model_outputs:
            fields_of_outputs.append((model_output.logits, model_output.label, model_output.parsed))
        return Output(
            *(
                None if field_tensors[0] is None else _plain(torch.cat(field_tensors).cpu()[back])
                for field_tensors in zip(*fields_of_outputs, strict=True)
            )
        )

    def features(self, rows: Tensor | None = None, *, base: bool = False) -> Tensor:
        """See `RunContext.features`."""
        return self.features_of(self._images, rows, base=base)

    def features_of(self, images: EvaluationRows, rows: Tensor | None, *, base: bool) -> Tensor:
        """`features` of other rows than those that train."""
        model = self._base_model() if base else self.modules["model"]
        return self._passed(rows, model, lambda model, x: model.features(x), images)

    def _passed(
        self,
        rows: Tensor | None,
        model: nn.Module,
        run: Callable[[Any, Tensor], Tensor],
        images: EvaluationRows | None = None,
    ) -> Tensor:
        images = self._images if images is None else images

        def passed(built_modules: Modules) -> list[Tensor]:
            return [
                run(built_modules["model"], x)[:n].cpu()
                for x, n in images.batches(positions, padded=True)
            ]

        positions, back = _in_order(images, rows)
        with evaluation_mode([model]), autocast(self._settings):
            outputs = torch.cat(evaluated({"model": model}, self._settings.precision, passed))
            return _plain(outputs[back])

    def _base_model(self) -> Model:
        model: Model = self._placed(self._make_model(base=True))
        return model

    # -- what the loop calls
    # ----------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Networks and state as every run of the seed begins."""
        self._copies = 0
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(torch_seed(self.seed, "modules"))
            built_modules = self._method.modules(self.info, self._make_model)
        self.modules = {name: self._placed(module) for name, module in built_modules.items()}
        self.state = {
            key: value.to(self._settings.device)
            for key, value in self._method.state(self.info).items()
        }
        self._frozen = {
            f"module/{name}/{key}"
            for name, module in self.modules.items()
            for key, parameter in module.named_parameters(remove_duplicate=False)
            if not parameter.requires_grad
        }

    def begin(self, stage: Stage, *, fresh: bool) -> None:
        """A stage begins: optimisers that have gathered nothing, and networks as at the run's
        beginning if `fresh`."""
        if fresh:
            state = self.state
            self.build()
            self.state = state  # what `Method.stage` put there is for this stage
        wanting = {
            id(p)
            for module in self.modules.values()
            for p in module.parameters()
            if p.requires_grad
        }
        length = self.info.steps if stage.steps is None else stage.steps
        self._optimisers = {
            name: Optimiser(
                spec, self._settings, wanting <= {id(p) for p in spec.parameters}, length
            )
            for name, spec in self._method.optimisers(self.info, self.modules, stage.name).items()
        }

    @property
    def descends(self) -> bool:
        """Whether the model is trained by steps, and not all at once by a rule of its own."""
        model = self.modules.get("model")
        return not (isinstance(model, Model) and hasattr(model.head, "fit_rows_once"))

    def fit_at_once(self, weights: NDArray[np.float64] | None) -> None:
        """Have the model's own rule fit its head to the training rows, with weights [n] of mean 1;
        None: all alike."""
        model: Any = self.modules["model"]
        with torch.inference_mode():
            features = model.features(self.inputs())
        model.head.fit_rows_once(features, self.y, weights)

    def has_optimiser(self, name: str) -> bool:
        """Whether the stage has an optimiser of this name."""
        return name in self._optimisers

    def parameters(self, name: str) -> list[nn.Parameter]:
        """The parameters that the optimiser `name` of the stage updates."""
        return self._optimisers[name].parameters

    def train(self, mode: bool = True) -> None:
        """Every network in training mode, or in evaluation mode."""
        for module in self.modules.values():
            module.train(mode)

    def weights(self) -> dict[str, Tensor]:
        """The tensors that training changes, flat: `module/NAME/...` and `state/...`; not
        copies."""
        return {key: value for key, value in self._all().items() if key not in self._frozen}

    def frozen(self) -> dict[str, Tensor]:
        """The parameters that never wanted a gradient, such as a published network beside a few
        trained ones."""
        return {key: value for key, value in self._all().items() if key in self._frozen}

    def load_weights(self, tensors: Mapping[str, Tensor]) -> None:
        """Take networks and state from what `weights` gave."""
        all_tensors = {**self.frozen(), **tensors}
        for name, module in self.modules.items():
            module.load_state_dict(_below(all_tensors, f"module/{name}/"))
        self.state = {
            key: value.clone().to(self._settings.device)
            for key, value in _below(tensors, "state/").items()
        }

    def _all(self) -> dict[str, Tensor]:
        out = {}
        for name, module in self.modules.items():
            for key, value in module.state_dict().items():
                out[f"module/{name}/{key}"] = value
        return out | {f"state/{key}": value for key, value in self.state.items()}

    def gathered(self) -> dict[str, Tensor]:
        """The moments of the optimisers: `optimiser/NAME/...`."""
        optimisers = self._optimisers.items()
        return {
            f"optimiser/{name}/{key}": value
            for name, optimiser in optimisers
            for key, value in optimiser.save().items()
        }

    def load_gathered(self, tensors: Mapping[str, Tensor]) -> None:
        """Take it back."""
        for name, optimiser in self._optimisers.items():
            optimiser.restore(_below(tensors, f"optimiser/{name}/"))

    def _make_model(
        self, *, n_classes: int | None = None, base: bool = False, **knobs: Any
    ) -> Model:
        class_names = self.info.class_names or unnamed(self.info.n_classes)
        names_of_classes = class_names if n_classes is None else unnamed(n_classes)
        own_knobs = {**self._model.knobs, **knobs}
        model = build_model(
            self._model.name,
            own_knobs,
            self.info.input,
            names_of_classes,
            self.seed,
            copy=0 if base else self._copies,  # of a base all weights are replaced
            channels_last=self._settings.channels_last,
        )
        if not base:
            self._copies += 1
            self._fit_to_rows(model)
            return model
        if self._base is None:
            raise NeedsError("the method asks for a base run's weights but declares no base run")
        model.load_state_dict(_below(self._base, "model."))
        return model

    def _fit_to_rows(self, model: Model) -> None:
        """Have every part of a new model that scales its inputs by the training rows do so."""
        parts: list[Any] = [part for part in model.modules() if hasattr(part, "fit_rows")]
        if parts:
            rows = self.inputs()
            for part in parts:
                part.fit_rows(rows)

    def _placed(self, module: Any) -> Any:
        module.to(device=self._settings.device)
        if DTYPES[self._settings.precision] == torch.float64:
            module.double()
        if self._settings.channels_last:
            module.to(memory_format=torch.channels_last)
        return without_overruns(module)


class _HeldOutRows:
    """The implementation of `methods.base.HeldOut` for one run."""

    def __init__(self, context: LoopContext, images: EvaluationRows) -> None:
        device = context.y.device
        self.y = torch.from_numpy(images.rows.label).to(device)
        self.group = torch.from_numpy(images.rows.group).to(device)
        self.group_names = tuple(images.rows.group_names)
        self._context = context
        self._images = images

    def inputs(self, rows: Tensor | None = None) -> Tensor:
        """See `HeldOut.inputs`."""
        return _inputs_of(self._images, rows)

    def features(self, rows: Tensor | None = None, *, base: bool = False) -> Tensor:
        """See `HeldOut.features`."""
        return self._context.features_of(self._images, rows, base=base)


def _inputs_of(images: EvaluationRows, rows: Tensor | None) -> Tensor:
    positions = None if rows is None else _places(rows)
    return torch.cat([x for x, _ in images.batches(positions, padded=False)])


def _in_order(images: EvaluationRows, rows: Tensor | None) -> tuple[NDArray[np.int64], Tensor]:
    """The places of rows in the order in which they are asked, and for each row where its answer
    then stands."""
    positions = np.arange(len(images.rows.rows)) if rows is None else _places(rows)
    order = images.by_length(positions)
    return positions[order], torch.from_numpy(np.argsort(order))


def _check_loss(loss_terms: object) -> None:
    """Refuse what a method gives in place of a loss that can be descended. Raises `RunError`."""
    if not isinstance(loss_terms, Loss):
        raise RunError(
            f"the method's loss must return a Loss, and returned {type(loss_terms).__name__}:"
            " return Loss(total), whose total is one number"
        )
    total = loss_terms.total
    if not isinstance(total, Tensor):
        problem = f"is {type(total).__name__} and no tensor"
    elif total.dim():
        problem = f"is a tensor {list(total.shape)}, and must be one number, such as its mean"
    elif not total.requires_grad:
        problem = "has no gradient: it depends on no network"
    else:
        return
    raise RunError(f"the total of the method's loss {problem}")


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)
    }


def _places(rows: Tensor) -> NDArray[np.int64]:
    return rows.cpu().numpy().astype(np.int64)


def _plain(tensor: Tensor) -> Tensor:
    # Out of inference mode: a method may use it in a graph later.
    with torch.inference_mode(False):
        return tensor.clone()

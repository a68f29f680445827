"""The checks of methods: what every method must hold, whoever wrote it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crosswind.core.errors import CrosswindError
from crosswind.core.knobs import knobs_of
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, Output, Pair, State
from crosswind.models.build import build_model, unnamed
from crosswind.testing.checks import Check, declaration_checks, require, run_checks
from crosswind.testing.references import reference_of
from crosswind.testing.world import GROUPS, SIDE, run, same_weights, split, with_train
from crosswind.training.trajectory import Trajectory

__all__ = ["check_method", "method_checks"]

KINDS = ("method", "augmentation", "architecture")
INPUT = InputSpec.image(SIDE, SIDE, 3)
N_ROWS, N_CLASSES, STEPS = 16, 2, 12
APART, EQUAL, ROUNDING = 1e-6, 1e-10, 1e-12
"""In the weights or the loss: differs; is the same after some steps; is the same of one batch."""


def method_checks(
    cls: type[Method],
    *,
    model: str = "mlp",
    knobs: Mapping[str, Any] | None = None,
    batch: int = N_ROWS,
) -> list[Check]:
    """The checks of a method, each to be called, as by `pytest.mark.parametrize`.

    `model`: the registered model that it is tried on, with batch norm or maps where it needs them
    (`small-cnn`). `knobs`: settings in place of its defaults, such as smaller networks of its own.
    `batch`: rows of a batch of the training sets, which are 60 pictures of 8 x 8 in two classes and
    two environments.
    """
    subject = _MethodUnderTest(cls, model, dict(knobs or {}), batch)
    looks: dict[str, Callable[[], None]] = {
        "no-knob-takes-the-place-of-a-hook": subject.no_knob_is_a_hook,
        "loss-is-a-finite-number-with-a-gradient": subject.loss_is_finite_with_gradient,
        "loss-depends-on-the-inputs": lambda: subject.loss_depends_on("x"),
        "loss-depends-on-the-labels": lambda: subject.loss_depends_on("y"),
        "loss-does-not-depend-on-the-order-of-rows": subject.order_of_rows_does_not_matter,
        "loss-leaves-its-batch-as-it-was": subject.loss_leaves_its_batch,
        "reads-only-what-it-declares": subject.reads_only_what_it_declares,
        "unmet-needs-are-refused": subject.unmet_needs_are_refused,
        "predict-gives-an-answer-for-each-row": subject.predict_gives_answers,
        "predict-changes-nothing": subject.predict_changes_nothing,
        "predict-answers-each-row-by-itself": subject.predict_answers_rows_alone,
        "same-seed-same-bits": subject.same_seed_same_bits,
        "stopped-and-continued-gives-the-same-bits": subject.continued_gives_same_bits,
        "both-ends-of-every-search-run": subject.ends_of_searches_run,
        "runs-in-bfloat16": subject.runs_in_bfloat16,
        "equals-what-it-names-at-its-limit": subject.equals_at_limit,
    }
    return [
        *declaration_checks(cls, KINDS, Method),
        *(Check(name, subject.name, look) for name, look in looks.items()),
    ]


def check_method(
    cls: type[Method], *, skip: Mapping[str, str] | None = None, **options: Any
) -> None:
    """Check that a method holds the contract of `crosswind.methods.base`; seconds.

    `skip`: check -> why it cannot hold. `options`: those of `method_checks`. Raises `CheckFailed`
    with a line for each check that does not hold.
    """
    run_checks(method_checks(cls, **options), skip)


class _Stopped(Exception):
    """A run that was stopped at a validation, as by a kill."""


@dataclass(frozen=True)
class _MethodUnderTest:
    cls: type[Method]
    model: str
    knobs: dict[str, Any]
    batch: int

    @property
    def name(self) -> str:
        return getattr(self.cls, "__name__", str(self.cls))

    @property
    def info(self) -> Info:
        return Info(
            INPUT,
            N_CLASSES,
            60,
            group_names=GROUPS,
            group_counts=(15, 15, 15, 15),
            environment_names=("red", "blue"),
            environment_counts=(30, 30),
            class_names=("dark", "bright"),
            class_counts=(30, 30),
            steps=STEPS,
            batch=N_ROWS,
        )

    def made(self, **knobs: Any) -> Method:
        """The method at its defaults, but for switches, which come at step 2 so that a short run
        passes them."""
        switches = dict.fromkeys(self.cls.needs.switches, 2)
        return self.cls(**{**self.knobs, **switches, **knobs})

    def trained(self, method: Method | None = None, **changes: Any) -> Trajectory:
        settings = {"model": self.model, "batch": self.batch, **changes}
        return run(self.made() if method is None else method, **settings)

    def networks(self, method: Method) -> Modules:
        """Its networks as they begin, in double precision."""

        def make_model(**changes: Any) -> Any:
            n_classes = changes.get("n_classes") or N_CLASSES
            return build_model(self.model, {}, INPUT, unnamed(n_classes), 0).double()

        torch.manual_seed(0)
        modules = method.modules(self.info, make_model)
        return {key: module.double() for key, module in modules.items()}

    def loss_of(self, batch: Batch) -> tuple[Loss, Modules]:
        """The loss of a batch by networks as they begin, with the same random numbers each time."""
        method = self.made()
        modules = self.networks(method)
        torch.manual_seed(0)
        return method.loss(modules, batch, method.state(self.info)), modules

    @cached_property
    def batch_rows(self) -> Batch:
        """Each row's partner is the row of its class in the other environment."""
        generator = torch.Generator().manual_seed(0)
        group = torch.arange(N_ROWS) % 4
        shape = (N_ROWS, *INPUT.tensor_shape)
        x = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
        partner = torch.arange(N_ROWS) ^ 1
        pair = Pair(x[partner], partner, group[partner] % 2)
        return Batch(x, group // 2, torch.arange(N_ROWS), group, group % 2, pair)

    def _permuted(self, order: torch.Tensor) -> Batch:
        batch = self.batch_rows
        assert batch.pair is not None
        columns = {key: getattr(batch, key)[order] for key in ("x", "y", "ids", "group")}
        pair = Pair(*(value[order] for value in vars(batch.pair).values()))
        assert batch.environment is not None
        return replace(batch, **columns, environment=batch.environment[order], pair=pair)

    # -- the checks --------------------------------------------------------------------------------

    def no_knob_is_a_hook(self) -> None:
        hooks = {key for key in vars(Method) if not key.startswith("_")}
        clashes = sorted(hooks & {knob.name for knob in knobs_of(self.cls)})
        require(not clashes, f"its knob {clashes} has the name of a hook", "name it otherwise")

    def loss_is_finite_with_gradient(self) -> None:
        loss, modules = self.loss_of(self.batch_rows)
        require(
            isinstance(loss, Loss) and loss.total.ndim == 0,
            "its loss gives no Loss with a scalar total",
            "return Loss(total) with the mean over the rows of the batch",
        )
        require(
            torch.isfinite(loss.total),
            f"its loss is {loss.total.item()} for an ordinary batch",
            "look for logarithms of 0, divisions by 0 and means of no rows",
        )
        if not self.cls.needs.gradient:
            return
        require(
            loss.total.requires_grad,
            "its loss has no gradient",
            "compute it from modules['model'](batch.x), without detach, item or no_grad",
        )
        loss.total.backward()  # type: ignore[no-untyped-call]
        gradients = [
            parameter.grad
            for module in modules.values()
            for parameter in module.parameters()
            if parameter.grad is not None
        ]
        total = sum(float(gradient.abs().sum()) for gradient in gradients)
        require(
            np.isfinite(total),
            "a gradient of its loss is not finite",
            "look for roots and norms at 0",
        )
        require(total > 0, "every gradient of its loss is 0", "read the batch in its loss")

    def loss_depends_on(self, part: str) -> None:
        batch = self.batch_rows
        words = {"x": "other inputs", "y": "other labels"}[part]
        if part == "x":
            assert batch.pair is not None
            moved = replace(batch, x=batch.x.flip(-1), pair=replace(batch.pair, x=-batch.pair.x))
        else:
            # Half of the labels: a loss that is the same for both classes changes too.
            flips = (torch.arange(N_ROWS) % 3 == 0).long()
            moved = replace(batch, y=(batch.y + flips) % N_CLASSES)
        before, after = (self.loss_of(rows)[0].total.item() for rows in (batch, moved))
        require(
            abs(before - after) > APART,
            f"its loss is {before:.6g} for {words} of the batch too",
            f"read batch.{part} in its loss",
        )

    def order_of_rows_does_not_matter(self) -> None:
        order = torch.arange(N_ROWS).flip(0)
        before, after = (
            self.loss_of(rows)[0].total.item() for rows in (self.batch_rows, self._permuted(order))
        )
        require(
            abs(before - after) <= ROUNDING * max(1.0, abs(before)),
            f"its loss is {before!r} for a batch and {after!r} for the same rows in another order",
            "let no row's place in the batch matter",
        )

    def loss_leaves_its_batch(self) -> None:
        batch = self._permuted(torch.arange(N_ROWS))
        before = {
            key: value.clone() for key, value in vars(batch).items() if torch.is_tensor(value)
        }
        self.loss_of(batch)
        changed = [key for key, value in before.items() if not torch.equal(value, vars(batch)[key])]
        require(not changed, f"its loss writes into batch.{changed}", "work on a copy")

    def reads_only_what_it_declares(self) -> None:
        needs, batch = self.cls.needs, self.batch_rows
        is_free = not needs.environments and needs.sampler != "per-environment"
        if is_free and not needs.pairs:
            batch = replace(batch, environment=None)
        batch = batch if needs.pairs else replace(batch, pair=None)
        try:
            loss, _ = self.loss_of(batch)
        except (AttributeError, TypeError, AssertionError) as error:
            require(
                False,
                f"its loss fails on a batch without what it does not declare ({error})",
                "declare needs = Needs(environments=True) or Needs(pairs=...), or do without",
            )
        require(
            torch.isfinite(loss.total),
            "its loss is not finite on a batch without what it does not declare",
            "declare its needs",
        )

    def unmet_needs_are_refused(self) -> None:
        """The framework refuses by the declaration; a method that overrides more than hooks may
        lose that."""
        needs, sets = self.cls.needs, split()
        zeros = np.zeros(len(sets.train.rows), dtype=np.int64)
        cases = []
        if needs.groups:
            cases.append(with_train(sets, group=zeros))
            cases.append(with_train(sets, group=zeros, group_names=("all",)))
        if needs.environments:
            cases.append(with_train(sets, environment=zeros))
            cases.append(with_train(sets, environment=None))
        for case in cases:
            try:
                self.trained(sets=case)
            except CrosswindError:
                continue
            require(False, "it trains without what it needs", "declare needs in the class body")

    def predict_gives_answers(self) -> None:
        output, _, _ = self._predicted(self.batch_rows.x)
        require(
            isinstance(output, Output) and not (output.logits is None and output.label is None),
            "its predict gives no Output with logits or labels",
            "return Output(logits=...)",
        )
        shapes = {
            "logits": (output.logits, (N_ROWS, N_CLASSES)),
            "label": (output.label, (N_ROWS,)),
        }
        for part, (tensor, shape) in shapes.items():
            require(
                tensor is None or tensor.shape == shape,
                f"its predict gives {part} of shape {tuple(getattr(tensor, 'shape', ()))} for"
                f" {N_ROWS} rows of {N_CLASSES} classes",
                f"give {part} of shape {shape}",
            )

    def _predicted(self, x: torch.Tensor) -> tuple[Output, Modules, State]:
        method = self.made()
        modules, state = self.networks(method), method.state(self.info)
        for module in modules.values():
            module.eval()
        with torch.inference_mode():
            return method.predict(modules, x, state), modules, state

    def predict_changes_nothing(self) -> None:
        method = self.made()
        modules, state = self.networks(method), method.state(self.info)
        for module in modules.values():
            module.eval()
        before = {
            (key, name): value.clone()
            for key, module in modules.items()
            for name, value in module.state_dict().items()
        }
        state_before = {key: value.clone() for key, value in state.items()}
        with torch.inference_mode():
            first, second = (method.predict(modules, self.batch_rows.x, state) for _ in range(2))
        changed = [
            f"{key}.{name}"
            for (key, name), value in before.items()
            if not torch.equal(value, modules[key].state_dict()[name])
        ]
        changed += [
            key for key, value in state_before.items() if not torch.equal(value, state[key])
        ]
        require(not changed, f"its predict changes {changed[:1]}", "let it write nothing")
        require(
            first.logits is None
            or second.logits is not None
            and torch.equal(first.logits, second.logits),
            "its predict gives other logits the second time",
            "let it draw nothing at random",
        )

    def predict_answers_rows_alone(self) -> None:
        x = self.batch_rows.x
        together, alone = (self._predicted(rows)[0] for rows in (x, x[3:4]))
        for part in ("logits", "label"):
            among, single = getattr(together, part), getattr(alone, part)
            if among is None or single is None:
                continue
            require(
                bool((among[3:4] - single).abs().max() <= APART),
                f"its predict gives a row other {part} alone than among other rows",
                "compute nothing over the rows of x; a method that adapts declares needs.adapts",
            )

    def same_seed_same_bits(self) -> None:
        first, second = self.trained(steps=4), self.trained(steps=4)
        require(
            same_weights(first, second),
            "two runs of one seed end with different weights",
            "draw with torch's global generator, which the loop seeds, or with torch_seed",
        )
        require(
            not same_weights(first, self.trained(steps=4, seed=1)),
            "runs of two seeds end with the same weights",
            "take the networks from make_model and train them",
        )

    def continued_gives_same_bits(self) -> None:
        def stop(event: dict[str, Any]) -> None:
            raise _Stopped

        validations: list[Any] = []  # the base run's too, where there is one
        uninterrupted = self.trained(progress=validations.append)
        with tempfile.TemporaryDirectory() as folder:
            for _ in validations:
                try:
                    self.trained(checkpoint=Path(folder) / "run", progress=stop)
                except _Stopped:
                    continue
            resumed = self.trained(checkpoint=Path(folder) / "run", progress=stop)
        logits = [
            trajectory.predictions["last"]["test"].logits for trajectory in (uninterrupted, resumed)
        ]
        require(
            same_weights(uninterrupted, resumed)
            and same_weights(uninterrupted, resumed, "best-id")
            and np.array_equal(logits[0], logits[1]),  # type: ignore[arg-type]
            "a run that was stopped and continued ends with other weights",
            "keep what outlives a step in `state` or in modules, never in the method or globally",
        )

    def ends_of_searches_run(self) -> None:
        for knob in knobs_of(self.cls):
            for value in knob.search.ends() if knob.search else ():
                trajectory = self.trained(self.made(**{knob.name: value}), steps=4)
                weights = trajectory.weights("last").items()
                are_finite = all(
                    bool(torch.isfinite(tensor).all())
                    for key, tensor in weights
                    if not key.startswith("state/")
                )
                require(
                    trajectory.status == "finished" and are_finite,
                    f"a run with {knob.name} = {value!r} diverges",
                    "narrow the search of the knob, or mend the loss there",
                )

    def runs_in_bfloat16(self) -> None:
        require(
            self.trained(steps=4, precision="bf16").status == "finished",
            "a run in bfloat16 diverges",
            "sum and take logarithms in float32",
        )

    def equals_at_limit(self) -> None:
        limit = self.cls.limit
        if not limit.equals:
            require(
                limit.reason,
                "it declares no limit",
                "add limit = Limit({knob: value}), where it becomes erm, or Limit.none(why)",
            )
            return
        changes: dict[str, Any] = {"precision": "fp64", "steps": STEPS}
        at_limit = self.trained(self.made(**limit.knobs), **changes)
        reference = self.trained(reference_of(self.made()), **changes)
        apart = self._apart(at_limit, reference)
        require(
            apart < EQUAL,
            f"at its limit {dict(limit.knobs)} its weights end {apart:.1g} away from those of"
            f" {limit.equals}",
            "mend the limit or the loss",
        )
        apart = self._apart(self.trained(**changes), reference)
        require(
            apart > APART,
            f"at its defaults it trains what {limit.equals} trains",
            "check that its knobs reach the loss",
        )

    def _apart(self, trajectory: Trajectory, reference: Trajectory) -> float:
        """The largest difference of a weight of the model; of a method that adapts, also of a
        logit."""
        weights, expected = trajectory.weights("last"), reference.weights("last")
        differences = [
            float((weights[key] - tensor).abs().max())
            for key, tensor in expected.items()
            if key.startswith("model.")
        ]
        if self.cls.needs.adapts:  # done for each test set, and thrown away
            left, right = (
                run.predictions["last"]["test"].logits for run in (trajectory, reference)
            )
            differences.append(float(np.abs(left - right).max()))  # type: ignore[operator]
        return max(differences)

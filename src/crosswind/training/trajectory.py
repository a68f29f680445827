"""The trajectory of one training, and how its tensors are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from crosswind.core.errors import RunError
from crosswind.core.exhibits import Exhibit
from crosswind.core.types import Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.training.selection import Selection

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet

Answer = Callable[
    [Mapping[str, "RowSet"], Mapping[str, AttributedDataset]],
    tuple[dict[str, dict[str, Predictions]], list[str]],
]
"""From evaluation sets, and the data sets of their rows, to predictions by selection rule and set,
and doubts in sentences."""


def _says_nothing(*_: object) -> Any:
    raise RunError(
        "these networks were trained together, and answer for the sets of their split only"
    )


@dataclass(frozen=True)
class Trajectory:
    """The trajectory of one training.

    `status`: `finished`, or `diverged` where a loss was not finite at a validation; then training
    ended there and is scored as it is. `history`: one entry a validation with stage, step (counted
    over all stages), mean training loss and terms since the last, and seconds since the start. It
    has accuracy and loss of every validation set, and `fitted` where `fit_at` or `loss_at` is set.
    `selections[rule]` and `predictions[rule][set]`: every rule and every validation and evaluation
    set; evaluation sets are adapted to where the method does so, validation sets are as the rule
    saw them. `cost`: see `Meter.cost`, and `steps`. `doubts[rule]`: what the reader of its numbers
    must be told, a sentence each; `warnings`: those of all rules. `answer` predicts further sets,
    see `Answer`. `exhibits`: what the method shows. `action`: what the method did beside plain
    training, in numbers by name: `share_of_loss` and `share_of_gradient`, the largest at `looks`
    steps; and what the method itself measures, such as `moved_grey_levels`.
    """

    status: str
    history: list[dict[str, Any]]
    selections: dict[str, Selection]
    predictions: dict[str, dict[str, Predictions]]
    cost: dict[str, float]
    doubts: dict[str, list[str]]
    snapshots: Mapping[int, Mapping[str, Tensor]] = field(repr=False)
    frozen: Mapping[str, Tensor] = field(repr=False)
    answer: Answer = field(default=_says_nothing, repr=False)
    exhibits: Mapping[str, Exhibit] = field(default_factory=dict, repr=False)
    action: Mapping[str, float] = field(default_factory=dict)

    @property
    def warnings(self) -> list[str]:
        """Every doubt once."""
        return list(
            dict.fromkeys(text for rule_doubts in self.doubts.values() for text in rule_doubts)
        )

    @property
    def fitted(self) -> bool | None:
        """Whether the run stopped since `fit_at` of its training rows were right or their loss was
        at most `loss_at`; None where neither was asked for."""
        fitted_entries = [entry["fitted"] for entry in self.history if "fitted" in entry]
        return any(fitted_entries) if fitted_entries else None

    def weights(self, rule: str = "best-id") -> dict[str, Tensor]:
        """The selected weights, on the CPU: `MODULE.PARAMETER`, and `state/NAME` for the method's
        state tensors."""
        tensors = {**self.frozen, **self.snapshots[self.selections[rule].step]}
        return {public_name(name): value for name, value in tensors.items()}


def public_name(name: str) -> str:
    """A tensor of the loop as `Trajectory.weights` names it."""
    if not name.startswith("module/"):
        return name
    _, module, parameter = name.split("/", 2)
    return f"{module}.{parameter}"


def inner_name(name: str) -> str:
    """The other way."""
    if name.startswith("state/"):
        return name
    module, _, parameter = name.partition(".")
    return f"module/{module}/{parameter}"

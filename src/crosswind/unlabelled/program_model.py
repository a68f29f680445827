"""A model that a program holds, such as an estimator of scikit-learn or a function, as one that is
not trained here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crosswind.data.dataset import AttributedDataset
from crosswind.execution.function_answers import BATCH
from crosswind.models.given.answering import answering_function
from crosswind.models.given.outside import Answers, Outside, asked

if TYPE_CHECKING:
    from crosswind.core.types import InputSpec
    from crosswind.shifts.split import RowSet


@dataclass(frozen=True, eq=False)
class ProgramModel(Outside):
    """A model of a program as one that is not trained here: it answers by `predict_proba`, by
    `predict`, or when it is called."""

    model: Any
    classes: list[Any] | None = None

    @property
    def title(self) -> str:
        """The name of it in errors."""
        return str(getattr(self.model, "__name__", type(self.model).__name__))

    def fits(self, input: InputSpec, class_names: Sequence[str]) -> None:
        """See `Outside.fits`."""

    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """See `Outside.answer`."""
        function = answering_function(self.model, class_names, dataset.input_columns)
        takes_lists = dataset.check_inputs().dtype == object
        answering = (lambda x: function(x.tolist())) if takes_lists else function
        return asked(answering, rows, dataset, class_names, BATCH, self.title)

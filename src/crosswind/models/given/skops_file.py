"""A fitted estimator in a file of skops, which holds no code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.data.dataset import AttributedDataset
from crosswind.models.estimator_class import loaded_estimator
from crosswind.models.given.answering import answering_function, check_columns
from crosswind.models.given.companions import stamp
from crosswind.models.given.outside import Answers, Outside, asked

if TYPE_CHECKING:
    from crosswind.core.types import InputSpec
    from crosswind.shifts.split import RowSet


@register("skops", kind="model")
@dataclass(frozen=True)
class SkopsFile(Outside):
    """A fitted classifier of scikit-learn, XGBoost, LightGBM or CatBoost that `skops.io.dump` wrote.

    It answers by its `predict_proba`, else its `predict`, in the order of its `classes_`, which are
    those of the data. It is given numbers as the table has them, float32 [n, width]; texts as a
    list of n strings; images as their flattened bytes, [n, h * w * c]. A pickled file is not read:
    it runs whatever code it holds.
    """

    path: str = knob(doc="the file, which skops.io.dump(classifier, 'classifier.skops') writes")
    batch: int = knob(256, domain="[1, inf)", doc="inputs that it is given at once")
    trusted: list[str] | None = knob(
        None, doc="types or packages beside those above that the file may hold"
    )

    version = 2
    built = Form(trained=False, files=("path",), apart=("batch",))
    extra = "skops"

    def fits(self, input: InputSpec, class_names: Sequence[str]) -> None:
        """See `Outside.fits`: the file can be read, and its classes and its number of columns are
        those of the data. `reads` checks one that was fitted on a frame, by the names of columns."""
        estimator = self.estimator()
        answering_function(estimator, class_names)
        if not hasattr(estimator, "feature_names_in_"):
            self._check_width(estimator, input)

    def reads(self, dataset: AttributedDataset) -> None:
        """Refuse a data set that lacks columns which the classifier was fitted on. Raises
        `InputError`."""
        estimator = self.estimator()
        if dataset.input_columns:
            check_columns(estimator, dataset.input_columns)
        else:
            self._check_width(estimator, dataset.check_inputs())

    def _check_width(self, estimator: Any, input: InputSpec) -> None:
        width = getattr(estimator, "n_features_in_", None)
        if input.kind == "features" and width not in (None, input.shape[0]):
            problem = (
                f"{Path(self.path).name} was fitted on {width} columns, and these rows have"
                f" {input.shape[0]}"
            )
            raise InputError("model.path", problem)

    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """See `Outside.answer`."""
        spec = dataset.check_inputs()
        function = answering_function(self.estimator(), class_names, dataset.input_columns)

        def run(x: NDArray[Any]) -> Any:
            return function(x.tolist() if spec.dtype == object else x.reshape(len(x), -1))

        return asked(run, rows, dataset, class_names, self.batch, Path(self.path).name)

    def estimator(self) -> Any:
        """The classifier of the file. Raises `InputError`, `DataError`."""
        try:
            return _read(self.path, stamp(Path(self.path), False), tuple(self.trusted or ()))
        except OSError as error:
            name = Path(self.path).name
            problem = f"{name} cannot be read ({error.strerror or error})"
            raise DataError(problem) from None


@lru_cache(maxsize=2)
def _read(path: str, files: tuple[tuple[str, int, int], ...], trusted: tuple[str, ...]) -> Any:
    """The estimator of a file: once for all sets that it is asked about. `files`: its `stamp`."""
    document = Path(path).read_bytes()
    if document[:1] == b"\x80":
        raise InputError(
            "model.path",
            f"{Path(path).name} is a pickle, which runs whatever code it holds; write the classifier"
            " by skops.io.dump, or name it in a file of yours: callable, function: FILE.py:name",
        )
    return loaded_estimator(document, trusted, "model", Path(path).name)

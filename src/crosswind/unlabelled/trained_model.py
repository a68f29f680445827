"""The trained model that `cw.train` returns: a training's trajectory, and what a program does with
a model, predict, evaluate, save, load."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core import html
from crosswind.core.errors import InputError, counted
from crosswind.core.files import permit_as_folder, write_atomically
from crosswind.core.registry import load
from crosswind.core.types import InputSpec, Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.data.frames import frame_of
from crosswind.data.in_memory import of_inputs
from crosswind.evaluation.metrics import scores
from crosswind.methods.base import Method
from crosswind.shifts.split.pictures import rows_that_trained
from crosswind.training.settings import ModelSpec
from crosswind.training.trajectory import Answer, Trajectory
from crosswind.unlabelled.model_columns import ModelColumns, column_card
from crosswind.unlabelled.model_under_test import asked_model, columns_read
from crosswind.unlabelled.number_tables import has_column_names, number_table
from crosswind.unlabelled.target_rows import plain_rows

if TYPE_CHECKING:
    from crosswind.shifts.split import Split

_COLUMNS = ("set", "rows", "accuracy", "worst group", "of")


class Predictor:
    """A model with classes that predicts data sets and arrays.

    `class_names`: in the order of its outputs; `input`: what it takes.
    """

    class_names: tuple[str, ...]
    input: InputSpec

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The classes in the order of its outputs, text [k], under the name that scikit-learn's
        classifiers have for them."""
        return np.array(self.class_names)

    def predict_proba(self, inputs: Any, rule: str | None = None) -> NDArray[np.float64]:
        """The probability of each class, float64 [n, k] in the order of `class_names`.

        `inputs`: a data set, or what a data set gives for n rows (images uint8 [n, h, w, c],
        features float32 [n, width], a list of n texts); of a model that was trained on columns of a
        table also a frame that has them, with a warning where a category has a value that training
        had not. `rule`: the selection rule whose step
        answers, where the model has several. Raises `InputError` for inputs of another kind, and
        for a model that gives labels alone.
        """
        logits = self._predictions(inputs, rule).logits
        if logits is None:
            raise InputError("inputs", "this model gives labels and no probabilities; call predict")
        shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, inputs: Any, rule: str | None = None) -> NDArray[np.str_]:
        """The class of each row by name, text [n]; see `predict_proba`."""
        return np.array(self.class_names)[self._predictions(inputs, rule).answer]

    def _predictions(self, inputs: Any, rule: str | None) -> Predictions:
        columns = self._columns()
        if isinstance(inputs, AttributedDataset):
            dataset = self._in_its_columns(inputs, "inputs")
        elif columns.names is not None and has_column_names(inputs):
            frame = frame_of(inputs, "inputs")
            if not frame.height:
                raise InputError("inputs", "have no rows")
            table = number_table(frame, "the frame of inputs", "inputs", None, columns)
            for note in table.notes:
                warnings.warn(note, stacklevel=3)
            dataset = table.dataset
        else:
            dataset = of_inputs(inputs, self.input)
        if dataset.check_inputs() != self.input:
            raise InputError("inputs", f"are {dataset.input}, and the model takes {self.input}")
        label = np.zeros(dataset.n_rows, dtype=np.int64)
        rows = plain_rows(dataset.name, label)
        by_rule, _ = self._answer()({"rows": rows}, {dataset.name: dataset})
        name = rule if rule is not None else next(iter(by_rule))
        if name not in by_rule:
            raise InputError("rule", f"this model has no selection {name!r}", by_rule)
        predictions = by_rule[name]["rows"]
        _refuse_no_numbers(predictions)
        return predictions

    def in_its_columns(self, split: Split) -> Split:
        """A split on the same rows with the inputs of a table in the order in which the model reads
        them. Raises `InputError` for columns that are missing."""
        planned_sets = {
            name: replace(planned, dataset=self._in_its_columns(planned.dataset, "split"))
            for name, planned in split.parts.items()
        }
        return replace(split, parts=planned_sets)

    def _in_its_columns(self, dataset: AttributedDataset, field: str) -> AttributedDataset:
        aligned, notes = self._columns().aligned(dataset, field)
        for note in notes:
            warnings.warn(note, stacklevel=4)
        return aligned

    def _answer(self) -> Answer:
        raise NotImplementedError

    @property
    def read_columns(self) -> ModelColumns:
        """The columns of a table that it reads."""
        return self._columns()

    def _columns(self) -> ModelColumns:
        raise NotImplementedError


def _refuse_no_numbers(predictions: Predictions) -> None:
    """Refuse scores that are no finite numbers, whose largest would be the first class whatever the
    row. Raises `InputError`."""
    if predictions.logits is None:
        return
    rows = np.flatnonzero(~np.isfinite(predictions.logits).all(axis=1))
    if rows.size:
        more_words = f" ({counted(rows.size - 1, 'more such row')})" if rows.size > 1 else ""
        raise InputError(
            "inputs",
            f"have no answer in row {rows[0] + 1}{more_words}: the scores there are no finite numbers;"
            " the row holds NaN or infinity, or the training diverged",
        )


@dataclass(frozen=True, repr=False)
class TrainedModel(Trajectory, Predictor):
    """A trajectory and its model. `print` it, or let a notebook show it: what was trained, and the
    scores of every set.

    `method` and `model`: what was trained, by name and settings; `split`: what it was trained on.
    `weights`, `history`, `selections` and `predictions` are those of a `Trajectory`.
    """

    method: str = ""
    method_knobs: Mapping[str, Any] = field(default_factory=dict)
    model: ModelSpec = ModelSpec("", {})
    input: InputSpec = InputSpec("")
    class_names: tuple[str, ...] = ()
    split: Any = None

    def evaluate(
        self, split: Split | None = None, rule: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Scores of every set under a selection rule, as `cw.evaluate` gives them; `split`: by
        default the one that it was trained on, and of another one a warning tells of rows that
        trained the model."""
        name = rule if rule is not None else self._rule
        if name not in self.predictions:
            raise InputError("rule", f"this trajectory has no selection {name!r}", self.predictions)
        of_split = self.split if split is None else split
        if not hasattr(of_split, "evaluation"):
            problem = (
                "must be what cw.split returns; `predict` takes a frame, an array or a data set"
            )
            raise InputError("split", problem)
        sets = {**of_split.validation, **of_split.evaluation}
        if split is None or split is self.split:
            by_set = self.predictions[name]
        else:
            if of_split.class_names != self.class_names:
                raise InputError(
                    "split",
                    f"has the classes {', '.join(of_split.class_names[:20])}, and the model"
                    f" {', '.join(self.class_names[:20])}",
                )
            datasets = {}
            for planned_set in self.in_its_columns(of_split).parts.values():
                datasets[planned_set.source] = planned_set.dataset
            by_set = self.answer(sets, datasets)[0][name]
            self._warn_of_training_rows(of_split)
        return {
            set_name: scores(by_set[set_name], rows.group_names, of_split.class_names)
            for set_name, rows in sets.items()
        }

    def n_trained_on(self, dataset: AttributedDataset, base_rows: NDArray[np.int64]) -> int:
        """How many base rows of a data set show what the model was trained on."""
        trained = self.split.parts["train"].dataset
        train_rows = self.split.train.base_rows(trained)
        return rows_that_trained(dataset, base_rows, trained, train_rows)

    def _warn_of_training_rows(self, split: Split) -> None:
        """Warn of sets of another split that hold rows that the model was trained on."""
        for name, rows in {**split.validation, **split.evaluation}.items():
            dataset = split.parts[name].dataset
            n_trained = self.n_trained_on(dataset, rows.base_rows(dataset))
            if n_trained:
                warnings.warn(
                    f"set {name!r}: the model was trained on {n_trained:,} of its {len(rows):,}"
                    " rows, so that its scores there say little of new ones; test sets of splits"
                    " with the same label, attributes, test and split_seed are the same rows",
                    stacklevel=3,
                )

    def save(self, path: str | Path, rule: str | None = None) -> Path:
        """Write the model to FILE.safetensors, and the card that names its settings and classes
        beside it as FILE.yaml; `load` and `crosswind estimate --model FILE.safetensors` read both.

        Raises `InputError` for another ending, and for a method whose networks answer in a way of
        their own.
        """
        import yaml
        from safetensors.torch import save_file

        file = Path(path)
        if file.suffix != ".safetensors":
            raise InputError("path", f"{str(path)!r} must end in .safetensors")
        method: Any = load("methods", self.method)
        own_answers = method.predict is not Method.predict or method.exports is not Method.exports
        if own_answers or method.needs.adapts:
            raise InputError(
                "path",
                f"a model of {self.method!r} answers in a way of its own, which no file of weights"
                " holds; keep it in a study (keep: selected) and name its run",
            )
        tensors = {}
        for name, tensor in self.weights(rule or self._rule).items():
            if name.startswith("model."):
                tensors[name.removeprefix("model.")] = tensor.contiguous()
        settings = dict(self.model.knobs)
        card: dict[str, Any] = {"model": self.model.name, "settings": settings}
        card["classes"] = list(self.class_names)
        if self.input.kind == "image":
            height, _, channels = self.input.shape
            card |= {"size": height, "channels": channels}
        elif self.input.kind == "features":
            card |= {"width": self.input.shape[0]}
            if columns := self._dataset().input_columns:
                card |= {"columns": column_card(columns)}
        else:
            card |= {"texts": True}
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, file)
        permit_as_folder(file)
        text = yaml.safe_dump(card, allow_unicode=True, sort_keys=False)
        write_atomically(file.with_suffix(".yaml"), text.encode())
        return file

    @staticmethod
    def load(path: str | Path, input: InputSpec | None = None) -> LoadedModel:
        """The model that `save` wrote, see `cw.load_model`."""
        return load_model(path, input)

    def _answer(self) -> Answer:
        return self.answer

    def _columns(self) -> ModelColumns:
        return columns_read("the model", self._dataset())

    def _dataset(self) -> AttributedDataset:
        """The data set that it was trained on."""
        dataset: AttributedDataset = next(iter(self.split.parts.values())).dataset
        return dataset

    @property
    def _rule(self) -> str:
        if "best-id" in self.predictions:
            return "best-id"
        return next(iter(self.predictions))

    def _title(self) -> str:
        steps = int(self.cost.get("steps", 0))
        n_classes = len(self.class_names)
        classes = ", ".join(self.class_names[:6]) + (", ..." if n_classes > 6 else "")
        trained = f"{self.method} on {self.model.name}"
        selected = f"{self._rule} is step {self.selections[self._rule].step:,}"
        return (
            f"{trained} ({self.input}; {n_classes} classes: {classes}): {self.status} after"
            f" {steps:,} steps; {selected}"
        )

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        rows = []
        for name, of_set in self.evaluate().items():
            worst = ""
            if of_set["worst_group"] is not None:
                worst = f"{of_set['worst_group']:.1%}"
            worst_name = ""
            if of_set["worst_group"] is not None:
                n_worst = of_set["worst_group_n"]
                row_words = counted(n_worst, "row")
                worst_name = f"{of_set['worst_group_name']} ({row_words})"
            n_rows = f"{of_set['n']:,}"
            rows.append((name, n_rows, f"{of_set['accuracy']:.1%}", worst, worst_name))
        return rows

    def __repr__(self) -> str:
        table = [_COLUMNS, *self._rows()]
        widths = [max(len(row[i]) for row in table) for i in range(len(_COLUMNS))]
        lines = []
        for row in table:
            padded = []
            for i, cell in enumerate(row):
                padded.append(f"{cell:{'>' if i in (1, 2, 3) else '<'}{widths[i]}}")
            lines.append("  " + "  ".join(padded).rstrip())
        return "\n".join([self._title(), *lines, *(f"  {text}" for text in self.warnings)])

    def _repr_html_(self) -> str:
        return html.table(self._title(), _COLUMNS, self._rows()) + html.points(
            "Doubts", self.warnings
        )


class LoadedModel(Predictor):
    """A model of a file of weights, which predicts and is evaluated; see `cw.load_model`."""

    def __init__(
        self,
        name: str,
        answer: Answer,
        input: InputSpec,
        classes: tuple[str, ...],
        columns: ModelColumns,
    ) -> None:
        self.name = name
        self.columns = columns
        self.input = input
        self.class_names = classes
        self._answers = answer

    def _answer(self) -> Answer:
        return self._answers

    def _columns(self) -> ModelColumns:
        return self.columns

    def evaluate(self, split: Split) -> dict[str, dict[str, Any]]:
        """Scores of every set of a split, as `cw.evaluate` gives them."""
        from crosswind.execution.function_answers import USUAL_RULE, scores_by_set

        return scores_by_set(self, split, USUAL_RULE)

    def __repr__(self) -> str:
        return f"model of {self.name} ({self.input}; {len(self.class_names)} classes)"


def load_model(path: str | Path, input: InputSpec | None = None) -> LoadedModel:
    """The model of a file of weights with its card beside it, as `TrainedModel.save` writes them:
    an object with `predict`, `predict_proba` and `evaluate`.

    `input`: what a row is, where the card does not say the size of pictures. Raises `InputError`.
    """
    kept_model = asked_model(str(path), {})
    takes = kept_model.input if input is None else input
    if kept_model.classes is None or takes is None:
        raise InputError(
            "input",
            "is needed: the card says no size of pictures; give the input of a data set",
        )
    answer = kept_model.answers(kept_model.classes)
    return LoadedModel(kept_model.name, answer, takes, kept_model.classes, kept_model.columns)

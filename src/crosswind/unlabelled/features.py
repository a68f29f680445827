"""Features of rows as a file that other tools read: of a run of a store, of a file of weights, or
of a model as it begins."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown, unknown
from crosswind.core.files import write_atomically
from crosswind.core.knobs import resolve
from crosswind.core.printing import utf8
from crosswind.core.registry import facts
from crosswind.data.dataset import AttributedDataset
from crosswind.execution.changed_copies import Features
from crosswind.models.given.outside import inputs
from crosswind.studies.job_specs import FitSpec, OutsidePredictSpec, PredictSpec, SplitSpec
from crosswind.unlabelled.model_under_test import asked_model
from crosswind.unlabelled.target_rows import plain_rows, read_rows

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet

ALL = "all"
"""In the place of a set: every row of the data set, in its order, as `clusters` of a study wants
them."""
FEATURES, ROWS = "features.npy", "rows.csv"
_AT_ONCE = 256
_MOST_VALUES, _MOST_SHOWN = 12, 6


@dataclass(frozen=True)
class FeatureTable:
    """The features that a model makes of rows. `features`: float32 [n, d]; `ids`: int64 [n];
    `columns`: attribute -> its value in every row.

    `by`: the attributes that a picture is coloured by: of a run its label and what its shifts act
    on. `warning`: a sentence where the weights are random; empty otherwise.
    """

    name: str
    features: NDArray[np.float32]
    ids: NDArray[np.int64]
    columns: Mapping[str, list[str]]
    by: tuple[str, ...]
    warning: str = ""

    def write(self, folder: Path) -> list[Path]:
        """Write `features.npy` and `rows.csv`: id and attributes, row by row in the same order.
        Raises `OSError`."""
        array = io.BytesIO()
        text = io.StringIO()
        np.save(array, self.features, allow_pickle=False)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id", *self.columns])
        writer.writerows(zip(self.ids.tolist(), *self.columns.values(), strict=True))
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FEATURES, array.getvalue())
        write_atomically(folder / ROWS, utf8(text.getvalue()))
        return [folder / FEATURES, folder / ROWS]


def features_of(
    model: str, data: Any = None, rows: str = "test", settings: Mapping[str, Any] | None = None
) -> FeatureTable:
    """The features that `model` has for rows: what its last layer reads, in evaluation mode.

    `model`: a run whose weights were kept, or of a model that is only asked (`STORE#KEY`). A file
    of weights with its card. Or the name of a model, as it begins with `settings`. `data`: as
    `crosswind estimate` takes it; of a run its own. `rows`: a set of the run's study, or `all`.
    Raises `InputError`, `DataError`, `StoreError`.
    """
    if "#" in model:
        if data is not None or settings:
            field = "data" if data is not None else "settings"
            problem = f"{shown(model)} has its own; leave it out"
            raise InputError(field, problem)
        return _of_run(model, rows)
    from crosswind.storage.store import FILE_NAME

    if Path(model).joinpath(FILE_NAME).is_file():
        problem = f"is a store; name a run of it, {model}#KEY, by a key of its page's table of runs"
        raise InputError("model", f"{model} {problem}")
    if data is None:
        raise InputError("data", "is needed: a folder of pictures, a table or a source")
    if model.endswith(".safetensors"):
        model_asked = asked_model(model, settings or {})
        if model_asked.features is None:
            raise InputError("model", f"{model} has no features")
        columns = model_asked.columns
        read = read_rows(data, "data", model_asked.input, None, None, None, columns=columns)
        run = model_asked.features
    else:
        read = read_rows(data, "data", None, None, None, None)
        run = _beginning(model, settings or {})
    table = _table(Path(model).name, run, _every(read.dataset, "data"), read.dataset, ())
    if model.endswith(".safetensors"):
        return table
    return replace(table, warning=_random_weights(model, settings or {}))


def _random_weights(name: str, settings: Mapping[str, Any]) -> str:
    """A sentence where a model begins with random weights; empty where it has others."""
    model_facts = facts("models", name, "model")
    knobs = resolve(model_facts.knobs, settings, "settings", f"model {name!r}")
    if model_facts.built is None or model_facts.built.is_given(knobs):
        return ""
    remedy = "take a run of a store or a file of weights"
    if "weights" in knobs:
        remedy += ", or name them by weights="
    return f"{name} has the random weights of seed 0, so that its features are untrained; {remedy}"


def _beginning(name: str, settings: Mapping[str, Any]) -> Features:
    """A model's features as it begins: with the weights that its settings name, else those of seed
    0."""
    facts("models", name, "model")

    def run(rows: RowSet, dataset: AttributedDataset) -> NDArray[np.float32]:
        from crosswind.models.build import make_backbone

        spec = dataset.check_inputs()
        # What a linear probe reads is made so that a row's features do not depend on the others.
        knobs = {"of": name, "settings": dict(settings)}
        encoder = make_backbone("linear-probe", knobs, spec).encoder(spec, 0)
        assert encoder is not None
        feature_parts = [encoder.apply(x) for x in inputs(rows, dataset, _AT_ONCE)]
        return np.concatenate(feature_parts)

    return run


def _of_run(word: str, set_name: str) -> FeatureTable:
    from crosswind.core.registry import load
    from crosswind.execution.jobs import row_set, split_of
    from crosswind.models.build import Backbone
    from crosswind.storage.store import Store, split_name
    from crosswind.studies.build import build_dataset

    store_path, prefix = split_name(word)
    with Store.open(store_path) as store:
        record = store.run(prefix)
        records = [record, *(store.run(key) for key in record["needs"])]
        folders = [
            run_record["artifacts"] for run_record in records if run_record["artifacts"] is not None
        ]
    abouts = [json.loads((folder / "job.json").read_text(encoding="utf-8")) for folder in folders]
    fits = [FitSpec.of(about["spec"]) for about in abouts if about["kind"] == "fit"]
    predictions = [about["spec"] for about in abouts if about["kind"] == "predict"]
    rows_by_set: dict[str, SplitSpec] = {}
    if fits:
        run = asked_model(word, {}).features
        if run is None:
            raise InputError(
                "model",
                f"{word!r} answers by more than the last layer of its model, so it has no features",
            )
        rows_of_run = fits[0].rows
        for prediction in map(PredictSpec.of, predictions):
            rows_by_set[prediction.set_name] = rows_of_run.with_set(prediction)
        for name, set_values in rows_of_run.sets.items():
            if set_values["role"] == "validation":
                rows_by_set.setdefault(name, rows_of_run)
    elif predictions:
        specs = [OutsidePredictSpec.of(values) for values in predictions]
        model = specs[0].model
        if not issubclass(load("models", model.name), Backbone):
            raise InputError(
                "model",
                f"{word!r} is of the model {model.name!r}, which answers and shows no features",
            )
        run = _beginning(model.name, model.knobs)
        rows_of_run = specs[0].rows
        rows_by_set = {spec.set_name: spec.rows for spec in specs}
    else:
        raise InputError("model", f"{word!r} is not done")
    by = (str(rows_of_run.split["label"]), *map(str, rows_of_run.split["attributes"]))
    if set_name == ALL:
        main = rows_of_run.main
        dataset = build_dataset(rows_of_run.data[main])
        return _table(word, run, _every(dataset, main), dataset, by)
    if set_name not in rows_by_set:
        raise unknown("rows", "set of its study", set_name, [*rows_by_set, ALL])
    split, datasets = split_of(rows_by_set[set_name])
    chosen_rows = row_set(split, set_name)
    return _table(word, run, chosen_rows, datasets[chosen_rows.source], by)


def _every(dataset: AttributedDataset, name: str) -> RowSet:
    label = np.full(dataset.n_rows, -1, dtype=np.int64)
    return plain_rows(name, label)


def _table(
    name: str, run: Features, rows: RowSet, dataset: AttributedDataset, by: tuple[str, ...]
) -> FeatureTable:
    base, derived = np.divmod(rows.rows, dataset.n_derived)
    columns = {}
    for attribute in dataset.schema:
        is_derived = (
            dataset.derived is not None and attribute.name == dataset.derived.attribute.name
        )
        if is_derived:
            codes = derived
        else:
            codes = dataset.table.column(attribute.name)[base]
        columns[attribute.name] = [str(attribute.values[code]) for code in codes.tolist()]
    few = [attribute.name for attribute in dataset.schema if len(attribute.values) <= _MOST_VALUES][
        :_MOST_SHOWN
    ]
    chosen = tuple(name for name in by if name in columns) or tuple(few)
    ids = dataset.row_ids(rows.rows)
    return FeatureTable(name, run(rows, dataset), ids, columns, chosen)

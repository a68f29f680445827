"""A model whose accuracy is asked for: a run of a store, a file of weights with its card, an ONNX
file, or a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, load
from crosswind.core.types import InputSpec, Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.execution.changed_copies import Features, external_answers
from crosswind.models.form import check_extra
from crosswind.models.given.onnx_values import (
    column_names,
    layout_of,
    text_columns,
    usual_settings,
)
from crosswind.models.given.outside import asked, in_order, inputs
from crosswind.shifts.split import RowSet
from crosswind.unlabelled.model_columns import (
    ModelColumns,
    columns_of_card,
    fitted_columns,
)
from crosswind.unlabelled.refused_models import advice_on_model

if TYPE_CHECKING:
    from torch import nn

    from crosswind.methods.base import Method
    from crosswind.models.build import Model
    from crosswind.training.trajectory import Answer

KINDS = (
    "STORE#KEY of a run",
    "FILE.safetensors with its card",
    "FILE.onnx",
    "FILE.skops of a fitted estimator",
    "module:function",
    "FILE.py:function",
)
CARD = ("model", "settings", "classes", "size", "channels", "width", "columns", "texts")
"""Fields of the card of a file of weights: `size` and `channels` of pictures, `width` the number of
features, `columns` those of a table that are the features, `texts` true where it reads those."""
_BATCH = 256

Sets: TypeAlias = Mapping[str, AttributedDataset]


@dataclass(frozen=True)
class AskedModel:
    """A model as it is asked. `answers`: from the classes to a function from sets and data sets to
    predictions by rule and set.

    `classes`: None where the model does not say. `input`: what it takes, None for anything.
    `steady`: whether a row's answer cannot depend on the rows beside it. `source`: the labelled
    rows that it was validated on, where they are known. `features`: see `varying.Features`; None
    where they are out of reach. `trained_here`: whether its outputs stand in our order for certain.
    `columns`: what it reads of a table of numbers.
    """

    name: str
    answers: Callable[[Sequence[str]], Answer]
    classes: tuple[str, ...] | None = None
    input: InputSpec | None = None
    steady: bool = False
    rule: str = "given"
    source: tuple[RowSet, Sets] | None = field(default=None, repr=False)
    features: Features | None = None
    trained_here: bool = False
    columns: ModelColumns = ModelColumns("the model")


def asked_model(word: Any, settings: Mapping[str, Any]) -> AskedModel:
    """The model that `word` names, or a model of a program. `settings`: those of the models `onnx`
    and `callable`. Raises `InputError`, `StoreError`."""
    if not isinstance(word, str):
        from crosswind.unlabelled.program_model import ProgramModel

        program_model = ProgramModel(word)
        return AskedModel(
            program_model.title,
            lambda classes: external_answers(program_model, classes, "given"),
            getattr(word, "class_names", None),
            columns=getattr(word, "read_columns", None)
            or fitted_columns(word, program_model.title),
        )
    ending = Path(word).suffix.lower()
    if "#" in word or ending == ".safetensors":
        if settings:
            raise InputError(
                "settings", f"are of an ONNX file or a function; {shown(word)} has its own"
            )
        if "#" in word:
            return _run(word)
        return _weights(Path(word))
    if "://" in word:
        raise _refused(word)
    if ending == ".onnx":
        return _onnx(Path(word), settings)
    if ending == ".skops":
        return _skops(Path(word), settings)
    if ":" in word:
        model = _given(word, "callable", {**settings, "function": word})
        return replace(model, columns=fitted_columns(estimator_of_word(word, settings), word))
    raise _refused(word)


def _refused(word: str) -> InputError:
    """The error for a word that names no model, with the way to one."""
    problem = f"{shown(word)} is none of what can be asked{advice_on_model(word)}"
    return InputError("model", problem, KINDS)


def check_file(path: Path) -> None:
    """Refuse a model's file that is not there. Raises `InputError`."""
    if not path.is_file():
        raise InputError("model", f"there is no file {str(path)!r}")


# -- models made elsewhere -------------------------------------------------------------------------


def _onnx(file: Path, settings: Mapping[str, Any]) -> AskedModel:
    from crosswind.models.given.onnx import ready_session

    check_file(file)
    check_extra(facts("models", "onnx").extra, "model", "onnx")
    graph_inputs = ready_session(str(file)).session.get_inputs()
    takes, columns = _onnx_input(file.name, graph_inputs, settings)
    usual = usual_settings(graph_inputs[0])
    model = _given(file.name, "onnx", {**usual, **settings, "path": str(file)})
    return replace(model, input=takes, columns=columns)


def _skops(file: Path, settings: Mapping[str, Any]) -> AskedModel:
    model = _given(file.name, "skops", {**settings, "path": str(file)})
    return replace(model, columns=fitted_columns(_skops_estimator(file, settings), file.name))


def _skops_estimator(file: Path, settings: Mapping[str, Any]) -> Any:
    from crosswind.models.given.skops_file import SkopsFile

    check_file(file)
    check_extra(facts("models", "skops").extra, "model", "skops")
    return SkopsFile(**{**settings, "path": str(file)}).estimator()


def estimator_of_word(word: str, settings: Mapping[str, Any]) -> Any:
    """The fitted estimator of `FILE.skops`, or what `module:object` names; None for another word.
    Raises `InputError`, `DataError`."""
    from crosswind.models.given.function import load_function

    if "#" in word or "://" in word:
        return None
    if Path(word).suffix.lower() == ".skops":
        return _skops_estimator(Path(word), settings)
    return load_function(word) if ":" in word else None


def _given(name: str, kind: str, knobs: Mapping[str, Any]) -> AskedModel:
    if "classes" in knobs:
        raise InputError(
            "settings.classes", "is no setting here: the order of the outputs is given by classes"
        )
    model_facts = facts("models", kind)
    check_extra(model_facts.extra, "model", kind)
    external_model = load("models", kind)(
        **resolve(model_facts.knobs, knobs, "settings", f"model {kind!r}")
    )
    return AskedModel(
        name,
        lambda classes: external_answers(external_model, classes, "given"),
    )


def reordered(
    answers: Callable[[Sequence[str]], Answer], order: Sequence[str]
) -> Callable[[Sequence[str]], Answer]:
    """The answers of a model whose outputs stand in `order`, by the numbers of whatever classes are
    asked for."""

    def in_this_order(classes: Sequence[str]) -> Answer:
        answer = answers(order)

        def said(sets: Mapping[str, RowSet], datasets: Sets) -> Any:
            by_rule, doubts = answer(sets, datasets)
            in_order: dict[str, dict[str, Predictions]] = {}
            for rule, by_set in by_rule.items():
                in_order[rule] = {}
                for name, predictions in by_set.items():
                    in_order[rule][name] = _in_order(predictions, order, classes)
            return in_order, doubts

        return said

    return in_this_order


def _in_order(
    predictions: Predictions, order: Sequence[str], classes: Sequence[str]
) -> Predictions:
    answer, logits = in_order((predictions.answer, predictions.logits), order, classes)[:2]
    return replace(predictions, answer=answer, logits=logits)


def _onnx_input(
    name: str, graph_inputs: Sequence[Any], settings: Mapping[str, Any]
) -> tuple[InputSpec | None, ModelColumns]:
    """The images or numbers that a network takes, where it says so, and its columns of a table."""
    columns = ModelColumns(name)
    shape = graph_inputs[0].shape
    if (names := column_names(graph_inputs)) is not None:
        columns = replace(columns, count=len(names), names=names, texts=text_columns(graph_inputs))
        return InputSpec.features(len(names)), columns
    if not all(isinstance(side, int) for side in shape[1:]) or len(graph_inputs) > 1:
        return None, columns
    if len(shape) == 2 and graph_inputs[0].type != "tensor(string)":
        return InputSpec.features(shape[1]), replace(columns, count=shape[1])
    if len(shape) != 4:
        return None, columns
    is_nhwc = settings.get("layout", layout_of(shape)) == "nhwc"
    height, width, channels = shape[1:] if is_nhwc else (*shape[2:], shape[1])
    if channels in (1, 3):
        return InputSpec.image(height, width, channels), columns
    return None, columns


# -- a file of weights with its card ---------------------------------------------------------------


def _weights(path: Path) -> AskedModel:
    check_file(path)
    card = _card(path)
    model = card.get("model")
    classes = card.get("classes")
    settings = card.get("settings") or {}
    if (
        not isinstance(model, str)
        or not isinstance(classes, list)
        or not isinstance(settings, dict)
    ):
        raise InputError(
            "model",
            f"the card of {path.name} must name the model, its settings, and its classes as a list",
        )
    size = card.get("size")
    channels = card.get("channels", 3)
    if size is not None and (not isinstance(size, int) or not 1 <= size <= 4096):
        raise InputError(
            "model",
            f"the card of {path.name} has the size {shown(size)}, which is no number of pixels from"
            " 1 to 4096",
        )
    if channels not in (1, 3):
        problem = f"the card of {path.name} has {shown(channels)} channels"
        raise InputError("model", problem, ["1", "3"])
    takes = _taken(card, path)
    names = tuple(str(name) for name in classes)
    network = _KeptNetwork(path, model, settings, names)
    columns = columns_of_card(card, path.name)
    return AskedModel(
        path.name, network.answers, names, takes, True, features=network.features, columns=columns
    )


def _taken(card: Mapping[str, Any], path: Path) -> InputSpec | None:
    """The input specification of a row by a card that was checked; None where it does not say.
    Raises `InputError`."""
    size = card.get("size")
    width = card.get("width")
    if width is not None:
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            problem = f"the card of {path.name} has the width {shown(width)}, which is no number of features"
            raise InputError("model", problem)
        return InputSpec.features(width)
    if card.get("texts") is True:
        return InputSpec.text()
    if size is None:
        return None
    return InputSpec.image(size, size, card.get("channels", 3))


def _card(path: Path) -> Mapping[str, Any]:
    """The card beside a file of weights: `FILE.yaml` or `FILE.json`."""
    from crosswind.studies.reading import parse

    for card_file in (path.with_suffix(ending) for ending in (".yaml", ".yml", ".json")):
        if card_file.is_file():
            text = card_file.read_text(encoding="utf-8", errors="replace")
            card = parse(text, str(card_file)) if text.strip() else {}
            if strange := [name for name in card if name not in CARD]:
                raise InputError(
                    "model", f"the card {card_file.name} has {shown(strange[0])}", CARD
                )
            return card
    names = f"{path.with_suffix('.yaml').name} or {path.with_suffix('.json').name}"
    problem = f"{path.name} needs a card beside it, {names}, with {', '.join(CARD)}"
    raise InputError("model", problem)


class _KeptNetwork:
    """A network built by its settings with the weights of a file, which are read when it is first
    asked for.

    `method`: one that changes the network, and keeps of its weights those alone that it trained;
    the others are as they were built.
    """

    def __init__(
        self,
        path: Path,
        model: str,
        settings: Mapping[str, Any],
        classes: Sequence[str],
        method: Method | None = None,
    ) -> None:
        self.path = path
        self.model = model
        self.settings = settings
        self.classes = classes
        self.method = method
        self._built: dict[InputSpec, Any] = {}

    def answers(self, classes: Sequence[str]) -> Answer:
        """Predictions under the rule "given"."""

        def said(sets: Mapping[str, RowSet], datasets: Sets) -> Any:
            out = {}
            for name, rows in sets.items():
                dataset = datasets[rows.source]
                answers_of_set = asked(
                    self._runner(dataset, "forward"), rows, dataset, classes, _BATCH, self.path.name
                )
                ids = dataset.row_ids(rows.rows)
                out[name] = Predictions(ids, rows.label, rows.group, *answers_of_set)
            return {"given": out}, []

        return said

    def features(self, rows: RowSet, dataset: AttributedDataset) -> NDArray[np.float32]:
        """The features that the head reads for every row, float32 [n, d]."""
        run = self._runner(dataset, "features")
        logits = [np.asarray(run(x), dtype=np.float32) for x in inputs(rows, dataset, _BATCH)]
        return np.concatenate(logits)

    def _runner(self, dataset: AttributedDataset, way: str) -> Callable[[NDArray[Any]], Any]:
        import torch

        from crosswind.models.build import normalised
        from crosswind.models.networks.tokens import trimmed

        spec = dataset.check_inputs()
        if spec not in self._built:
            self._built[spec] = self._build(spec)
        encode, network = self._built[spec]

        def run(x: NDArray[Any]) -> Any:
            encoded_rows = trimmed(torch.from_numpy(x if encode is None else encode(x)))
            with torch.inference_mode():
                network_input = normalised(
                    encoded_rows.permute(0, 3, 1, 2) if encoded_rows.ndim == 4 else encoded_rows,
                    torch.float32,
                    False,
                )
                return getattr(network, way)(network_input).numpy()

        return run

    def _build(self, spec: InputSpec) -> tuple[Any, nn.Module]:
        from crosswind.models.build import build_model, make_backbone, names_of_any_shape
        from crosswind.models.networks.pretrained import read_weights, take_weights

        encoder = make_backbone(self.model, self.settings, spec).encoder(spec, 0)
        network = build_model(
            self.model, self.settings, spec if encoder is None else encoder.input, self.classes, 0
        )
        weights = read_weights(self.path)
        if self.method is not None:
            from crosswind.methods.base import Info

            n_classes = len(self.classes)
            built, info = network, Info(spec, n_classes, 0)
            network = cast("Model", self.method.modules(info, lambda **_: built)["model"])
            weights = {**network.state_dict(), **weights}
        network_tensors = network.state_dict()
        for name in (weights.keys() & network_tensors.keys()) - names_of_any_shape(network):
            if (
                weights[name].shape != network_tensors[name].shape
            ):  # `take_weights` would leave a head as it was made
                shapes = f"{tuple(weights[name].shape)} there and {tuple(network_tensors[name].shape)} by the card"
                problem = f"{self.path.name} does not fit its card: {name!r} is {shapes}"
                raise InputError("model", problem)
        take_weights(network, weights, str(self.path))
        return None if encoder is None else encoder.apply, network.eval()


# -- a run of a store ------------------------------------------------------------------------------


def _run(word: str) -> AskedModel:
    from crosswind.execution.jobs import WEIGHTS, fitted_split, kept_answers
    from crosswind.methods.base import Method
    from crosswind.storage.artifacts import artifact_folder
    from crosswind.storage.store import Store, split_name
    from crosswind.studies.build import build_dataset
    from crosswind.studies.job_specs import FitSpec

    store_place, prefix = split_name(word)
    with Store.open(store_place) as store:
        record = store.run(prefix)
        if record["kind"] == "score":
            fits = [store.run(key) for key in record["needs"]]
        else:
            fits = [record]
        fit = next((job for job in fits if job["kind"] == "fit"), None)
        if fit is None or fit["artifacts"] is None:
            raise InputError(
                "model",
                f"{word!r} was not trained here, or is not done; name what it stands for itself",
            )
        folders = [artifact_folder(store.out, key) for key in [fit["key"], *fit["needs"]]]
    if not any(fit["artifacts"].glob(WEIGHTS.format("*"))):
        raise InputError(
            "model", f"the weights of {word!r} were not kept; run its study with keep: selected"
        )
    about = json.loads((fit["artifacts"] / "job.json").read_text(encoding="utf-8"))
    spec = FitSpec.of(about["spec"])
    answers = kept_answers(spec, folders)
    split, datasets = fitted_split(spec)
    rows = split.validation.get("validation") or next(iter(split.validation.values()), None)
    main = build_dataset(spec.rows.data[spec.rows.main])
    rule = "best-id"
    if "best-id" not in about["rules"]:
        rule = next(iter(about["rules"]))
    classes = tuple(next(iter(about["sets"].values()))["classes"])
    source = None if rows is None else (rows, datasets)
    features = None
    method: Any = load("methods", spec.method.name)
    if method.predict is Method.predict:  # else what it reads is not what its model's head reads
        network_method = None
        if method.exports is not Method.exports:
            network_method = method(**spec.method.knobs)
        file = fit["artifacts"] / WEIGHTS.format(rule)
        network = _KeptNetwork(file, spec.model.name, spec.model.knobs, classes, network_method)
        features = network.features
    return AskedModel(
        word,
        lambda _: answers,
        classes,
        main.input,
        True,
        rule,
        source,
        features,
        trained_here=True,
        columns=columns_read(word, main),
    )


def columns_read(model: str, dataset: AttributedDataset) -> ModelColumns:
    """The columns of a table that a model reads which was trained on a data set. `model`: what
    errors call it."""
    if dataset.input_columns:
        return ModelColumns.trained(model, dataset.input_columns)
    takes = dataset.input
    count = takes.shape[0] if takes is not None and takes.kind == "features" else None
    return ModelColumns(model, count)

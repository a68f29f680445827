"""The rows behind a study's numbers: what was trained and tested on, what was answered wrongly, and
how training went.

Read from the files of jobs, and the inputs from the data sets themselves, which must still be what
they were. What cannot be read is left out, and `Behind.left_out` says why.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import CrosswindError, DataError, one_line
from crosswind.core.exhibits import Picture
from crosswind.data.dataset import AttributedDataset
from crosswind.reports.rows.learning import Curve, curves_of
from crosswind.reports.rows.pairs import Apart, apart, by_pair
from crosswind.reports.runs.job_files import JobFiles
from crosswind.reports.scores.results import Entry, Place, PlaceResults
from crosswind.studies.job_specs import PredictSpec, SplitSpec, predict_spec

if TYPE_CHECKING:
    from crosswind.core.types import Predictions
    from crosswind.shifts.split import RowSet, Split
    from crosswind.storage.store import Store

MAX_STRIPS = 12
"""Shifts whose training and test rows are shown."""
MAX_ANSWERS = 24
"""Pairs of a shift and a method whose answers are read."""
MAX_SEEDS = 10
"""Seeds of such a pair that are read, the first of them."""
MAX_HISTORIES = 240
"""Runs whose learning curves are read."""
CLASSES, PER_CLASS = 10, 8
"""Classes of a strip, and rows of each class."""
GROUPS, PER_GROUP = 6, 4
"""Groups whose rows are shown, those of the lowest accuracy, and rows of each."""
PAIRS = 3
"""Pairs of attributes by which accuracy is shown."""
SIDE = 48
"""Pixels of the longer side of a picture."""
LETTERS = 160
"""Letters of a text."""

_TROUBLE = (
    *(CrosswindError, OSError, EOFError, zipfile.BadZipFile),
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)
Ints = NDArray[np.int64]
Values = Mapping[str, tuple[Ints, tuple[str, ...]]]
"""The codes of rows, and the names of the values, by attribute."""


class Example(NamedTuple):
    """One row: a PNG file or the beginning of a text (the other is empty), what is said of it, and
    what of that is printed."""

    png: bytes
    text: str
    words: str
    short: str = ""


class Strip(NamedTuple):
    """Rows of one shift as the run of `seed` had them: by class, of the training set and of the set
    called `test`."""

    data: str
    size: str
    shift: str
    seed: int
    test: str
    classes: Sequence[tuple[str, Sequence[Example], Sequence[Example]]]


class Wrong(NamedTuple):
    """The rows of a group that were answered wrongly most often, and the accuracy of the group in
    percent."""

    group: str
    accuracy: float
    examples: Sequence[Example]


class MethodAnswers(NamedTuple):
    """The answers of a method under a shift, over `seeds`.

    `confusion`: of the rows of a class, the share that was given each answer. `cells`: by two
    attributes and their values the accuracy and the number of rows. `pairs`: of a systematic shift,
    what training showed.
    """

    place: Place
    shift: str
    method: str
    seeds: int
    confusion: Mapping[tuple[str, str], float]
    cells: Mapping[tuple[str, str], Mapping[tuple[str, str], tuple[float, int]]]
    wrong: Sequence[Wrong]
    pairs: Apart | None = None

    @property
    def apart(self) -> Apart | None:
        """`pairs`, where training kept some classes from an environment."""
        return self.pairs if self.pairs is not None and self.pairs.measures else None


@dataclass
class Behind:
    """The contents behind a study's numbers; `left_out` names what is not there, a sentence
    each."""

    strips: list[Strip] = field(default_factory=list)
    answers: list[MethodAnswers] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def rows_behind(
    store: Store,
    study: str,
    shown_results: Sequence[PlaceResults],
    runs: Sequence[Mapping[str, Any]],
) -> Behind:
    """The rows behind the numbers of `shown_results`, of the first selection rule and set of each
    data set, size and model."""
    behind = Behind()
    with _left_out(behind, "Examples and learning curves"):
        reader = _Reader(store, study, runs)
        first: dict[tuple[str, str, str], PlaceResults] = {}
        for setting_results in reversed(shown_results):
            setting = setting_results.place
            first[setting.data, setting.size, setting.model] = setting_results
        for setting_results in reversed(list(first.values())):
            for shift, method, entry in setting_results.grid():
                if entry is not None and entry.metrics:
                    _behind(behind, reader, setting_results, shift, method, entry)
    return behind


def _behind(
    behind: Behind,
    reader: _Reader,
    setting_results: PlaceResults,
    shift: str,
    method: str,
    entry: Entry,
) -> None:
    setting = setting_results.place
    is_known = any(
        (strip.data, strip.size, strip.shift) == (setting.data, setting.size, shift)
        for strip in behind.strips
    )
    followed = len({curve[:3] for curve in behind.curves}) * MAX_SEEDS < MAX_HISTORIES
    shown = not is_known and len(behind.strips) < MAX_STRIPS
    if not followed and not shown and len(behind.answers) >= MAX_ANSWERS:
        return
    seeds = list(entry.metrics)[:MAX_SEEDS]
    keys_of_seeds = [reader.key_of(setting, shift, method, seed, entry) for seed in seeds]
    keys = [key for key in keys_of_seeds if key]
    if not keys:
        return
    if followed:
        with _left_out(behind, "Learning curves"):
            behind.curves.extend(curves_of(reader, setting, shift, method, keys))
    if not shown and len(behind.answers) >= MAX_ANSWERS:
        return
    with _left_out(behind, f"Rows of {setting.data}"):
        drawn = reader.draw(keys[0], setting.set)
        if shown:
            behind.strips.append(_strip(setting, shift, reader.seeds[keys[0]], drawn))
        if len(behind.answers) < MAX_ANSWERS:
            behind.answers.append(_answers(setting, shift, method, drawn, reader, keys))


@contextmanager
def _left_out(behind: Behind, subject: str) -> Iterator[None]:
    """Nothing that is only looked at may keep the numbers from being shown."""
    try:
        yield
    except _TROUBLE as error:
        reason = str(error)
        if not isinstance(error, CrosswindError):
            reason = f"{type(error).__name__}: {error}"
        line = f"{subject} are not shown: {one_line(reason, 200)}."
        if line not in behind.left_out:
            behind.left_out.append(line)


# -- files of jobs ---------------------------------------------------------------------------------


class _DrawnSplit(NamedTuple):
    """A run's split with the data sets of its rows, and the rows of one test set."""

    split: Split
    datasets: Mapping[str, AttributedDataset]
    name: str
    label: str
    attributes: Sequence[str]
    environment: str = ""

    @property
    def test(self) -> RowSet:
        return self.split.evaluation[self.name]


class _Reader(JobFiles):
    """The files of a study's runs, found by what names a run."""

    def __init__(self, store: Store, study: str, runs: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(store, study)
        self.keys: dict[tuple[Any, ...], str] = {}
        self.seeds: dict[str, int] = {}
        for run in runs:
            run_labels, key = run["labels"], str(run["key"])
            axes = ("data", "size", "model", "shift", "method", "point")
            names = tuple(str(run_labels[axis]) for axis in axes)
            seed, split_seed = int(run_labels["seed"]), int(run_labels.get("split_seed", 0))
            self.keys[(*names, seed, split_seed)] = key
            self.keys.setdefault((*names, seed), key)
            self.seeds[key] = seed
        self.split_of = cache(self._split_of)  # methods share the split of a shift

    def key_of(
        self, setting: Place, shift: str, method: str, seed: Any, entry: Entry
    ) -> str | None:
        """The run of a seed. Of several split seeds those of the first: rows of two splits are not
        of one set."""
        point = entry.chosen[seed]
        run_names = (setting.data, setting.size, setting.model, shift, method, point)
        first = next(iter(entry.metrics))
        if isinstance(seed, int) or isinstance(first, int):
            return self.keys.get((*run_names, seed))
        if seed.split != first.split:
            return None
        return self.keys.get((*run_names, seed.seed, seed.split))

    def draw(self, key: str, name: str) -> _DrawnSplit:
        """The split of a run, with its set called `name`."""
        jobs = self.jobs(key)
        fits = [job["spec"] for _, job in jobs if job["kind"] == "fit"]
        rows = SplitSpec.of(fits[0] if fits else self.json(key, "job.json")["spec"])
        predictions = (predict_spec(job["spec"]) for _, job in jobs if job["kind"] == "predict")
        prediction = next(spec for spec in predictions if spec.set_name == name)
        # The split of a model that is not trained here has the sets of all its predictions.
        if isinstance(prediction, PredictSpec):
            rows = rows.with_set(prediction)
        else:
            rows = replace(rows, data={**rows.data, **prediction.rows.data})
        report = self.json(key, "split.json")
        split_text = json.dumps([asdict(rows), report["sets"]["train"]["cells"]])
        return self.split_of(split_text, name)

    def _split_of(self, split_text: str, name: str) -> _DrawnSplit:
        from crosswind.shifts.split import make_split
        from crosswind.studies.build import build_dataset, build_split_plan

        values, cells = json.loads(split_text)
        spec = SplitSpec(**values)
        datasets = {label: build_dataset(options) for label, options in spec.data.items()}
        split = make_split(datasets, spec.main, build_split_plan(spec.split), spec.seed)
        if split.report["sets"]["train"]["cells"] != cells:
            raise DataError(
                f"the data set {spec.main} has other rows now than when it was trained on"
            )
        kept_apart = (
            component["environment"]
            for component in spec.split["shift"]
            if component["type"] == "systematic"
        )
        label, attributes = spec.split["label"], spec.split["attributes"]
        return _DrawnSplit(split, datasets, name, label, attributes, next(kept_apart, ""))


# -- examples --------------------------------------------------------------------------------------


def _virtual(dataset: AttributedDataset, rows: RowSet) -> Ints:
    """The rows with a value of the derived attribute each: where it changes at every visit, the
    value of the first."""
    if rows.visit_law is None:
        return rows.rows
    from crosswind.data.derive import visit_values

    return rows.rows * dataset.n_derived + visit_values(
        rows.visit_law, dataset.ids[rows.rows], 0, 0
    )


def _examples(dataset: AttributedDataset, rows: Ints, words: Sequence[str]) -> list[Example]:
    """The rows as they are shown; `DataError` for inputs that cannot be."""
    from crosswind.data.derive import evaluation_inputs

    kind = dataset.check_inputs().kind
    if kind not in ("image", "text", "image-and-text"):
        raise DataError(f"its inputs are {kind}, which cannot be drawn")
    if not len(rows):
        return []
    shown_inputs = evaluation_inputs(dataset, rows)
    texts = [""] * len(rows)
    if kind == "image-and-text":
        texts = [str(text) for _, text in shown_inputs]
        shown_inputs = np.stack([image for image, _ in shown_inputs])
    elif kind == "text":
        lines = [one_line(str(text), LETTERS) for text in shown_inputs]
        return [Example(b"", *fields) for fields in zip(lines, words, strict=True)]
    if max(shown_inputs.shape[1:3]) > SIDE:
        from crosswind.data.resizing import resized

        shown_inputs = resized(shown_inputs, SIDE)
    pictures: list[bytes] = []
    for image in shown_inputs:
        pixels = image[..., 0] if image.shape[-1] == 1 else image
        pictures.append(Picture.of(np.ascontiguousarray(pixels)).png)
    lines = [one_line(text, LETTERS) for text in texts]
    return [Example(*fields) for fields in zip(pictures, lines, words, strict=True)]


def _values(dataset: AttributedDataset, rows: Ints, names: Sequence[str]) -> Values:
    """The codes of (virtual) rows by attribute, with the names of the values; only of attributes
    that the data set has."""
    from crosswind.data.derive import split_rows

    base, derived = split_rows(dataset, rows)
    values_by_name, known_attributes = (
        {},
        {attribute.name: attribute for attribute in dataset.schema},
    )
    for name in dict.fromkeys(names):
        if name in known_attributes:
            is_derived = dataset.derived is not None and dataset.derived.name == name
            values_by_name[name] = (
                derived if is_derived else dataset.table.column(name)[base].astype(np.int64),
                known_attributes[name].values,
            )
    return values_by_name


def _described(values: Values, position: int) -> str:
    return ", ".join(f"{name} {names[codes[position]]}" for name, (codes, names) in values.items())


def _strip(setting: Place, shift: str, seed: int, drawn: _DrawnSplit) -> Strip:
    """Some rows of each class, of those for training and of those for testing."""
    split, sets = drawn.split, []
    n_shown = PER_CLASS if len(split.class_names) <= 4 else PER_CLASS // 2
    for rows in (split.train, drawn.test):
        dataset = drawn.datasets[rows.source]
        virtual_rows, choose = _virtual(dataset, rows), np.random.default_rng(0)
        listed = []
        for code in range(min(CLASSES, len(split.class_names))):
            class_rows = np.flatnonzero(rows.label == code)
            drawn_positions = choose.permutation(len(class_rows))[:n_shown]
            shown_rows = virtual_rows[class_rows[np.sort(drawn_positions)]]
            values = _values(dataset, shown_rows, [drawn.label, *drawn.attributes])
            words = [_described(values, i) for i in range(len(shown_rows))]
            listed.append(_examples(dataset, shown_rows, words))
        sets.append(listed)
    return Strip(
        setting.data,
        setting.size,
        shift,
        seed,
        drawn.name,
        list(zip(split.class_names, *sets, strict=False)),
    )


# -- answers ---------------------------------------------------------------------------------------


def _answers(
    setting: Place,
    shift: str,
    method: str,
    drawn: _DrawnSplit,
    reader: _Reader,
    keys: Sequence[str],
) -> MethodAnswers:
    """The answers of a method on the test rows under one shift. Raises `DataError` where the rows
    are others now."""
    read_predictions = [_said(reader, key, setting) for key in keys]
    predictions = [of_seed for of_seed in read_predictions if of_seed is not None]
    dataset, rows, names = drawn.datasets[drawn.test.source], drawn.test, drawn.split.class_names
    ids = dataset.row_ids(_virtual(dataset, rows))
    order = np.argsort(ids, kind="stable")
    virtual_rows, label = _virtual(dataset, rows)[order], rows.label[order]
    if not predictions or not all(_is_of(of_seed, ids[order], label) for of_seed in predictions):
        raise DataError(f"the set {drawn.name} has other rows now than when they were predicted")
    answers = np.stack(
        [of_seed.answer[np.argsort(of_seed.ids, kind="stable")] for of_seed in predictions]
    )
    right = answers == label
    confusion = _confusion(answers, label, names)
    values = _values(dataset, virtual_rows, [drawn.label, *drawn.attributes])
    cells = {
        (first_name, second_name): by_pair(values[first_name], values[second_name], right)
        for first_name, second_name in list(combinations(values, 2))[:PAIRS]
    }
    pair = (drawn.label, drawn.environment)
    pairs = None
    if drawn.environment in values:
        pairs = apart(pair, values, right, rows, order, drawn.split)
    wrong = _wrong(dataset, virtual_rows, rows, order, answers, values, names)
    return MethodAnswers(setting, shift, method, len(predictions), confusion, cells, wrong, pairs)


def _is_of(predictions: Predictions, ids: NDArray[Any], label: Ints) -> bool:
    """Whether predictions are of the rows with these sorted ids and these labels."""
    same_rows = np.array_equal(np.sort(predictions.ids), ids)
    return same_rows and np.array_equal(predictions.label[np.argsort(predictions.ids)], label)


def _confusion(answers: Ints, label: Ints, names: Sequence[str]) -> dict[tuple[str, str], float]:
    """The share of the rows of a class that was given each answer; of "no answer" where there is
    any."""
    shares: dict[tuple[str, str], float] = {}
    for code in np.unique(label):
        of_class = answers[:, label == code]
        for answer, answer_name in enumerate(names):
            shares[names[code], answer_name] = float((of_class == answer).mean())
        unread = float((of_class == -1).mean())
        if unread > 0:
            shares[names[code], "no answer"] = unread
    return shares


def _said(reader: _Reader, key: str, setting: Place) -> Predictions | None:
    from crosswind.execution.jobs import GIVEN
    from crosswind.storage.predictions_file import read_predictions

    for need, about in reader.jobs(key):
        if about["kind"] == "predict" and about["spec"]["set"] == setting.set:
            by_rule = reader.read(need, "predictions.npz", read_predictions) or {}
            return by_rule.get(setting.rule, by_rule.get(GIVEN, {})).get(setting.set)
    return None


def _wrong(
    dataset: AttributedDataset,
    virtual_rows: Ints,
    rows: RowSet,
    order: Ints,
    answers: Ints,
    values: Values,
    names: Sequence[str],
) -> list[Wrong]:
    """The rows of the worst groups that were wrong most often; of equally many the first."""
    group, right, wrong_rows = rows.group[order], answers == rows.label[order], []
    codes = [int(code) for code in np.unique(group) if code >= 0]
    for code in sorted(codes, key=lambda code: float(right[:, group == code].mean()))[:GROUPS]:
        inside = np.flatnonzero(group == code)
        times = (~right[:, inside]).sum(axis=0)
        most_often = inside[np.argsort(-times, kind="stable")][:PER_GROUP]
        worst = [int(i) for i in most_often if (~right[:, i]).any()]
        words: list[str] = []
        short_words: list[str] = []
        for i in worst:
            wrong_answers = answers[~right[:, i], i]
            counts = Counter(
                names[answer] if answer >= 0 else "no answer" for answer in wrong_answers
            )
            of_seeds = f"{len(wrong_answers)} of {len(answers)} seeds"
            words.append(
                f"{_described(values, i)}: answered {_answer_words(counts)}; wrong in {of_seeds}"
            )
            commonest, _ = counts.most_common(1)[0]
            short_words.append(f"{commonest} {len(wrong_answers)}/{len(answers)}")
        examples = [
            example._replace(short=short)
            for example, short in zip(
                _examples(dataset, virtual_rows[worst], words), short_words, strict=True
            )
        ]
        accuracy = 100 * float(right[:, inside].mean())
        wrong_rows.append(Wrong(rows.group_names[code], accuracy, examples))
    return wrong_rows


def _answer_words(counts: Counter[str]) -> str:
    """The commonest wrong answers, counted where there are several."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} ({n})" for name, n in counts.most_common(3))

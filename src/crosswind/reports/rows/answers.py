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
from dataclasses import dataclass, field
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

if TYPE_CHECKING:
    from crosswind.core.types import Predictions
    from crosswind.shifts.split import RowSet, Split
    from crosswind.studies.store import Store

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


class Answers(NamedTuple):
    """What a method answered under a shift, over `seeds`.

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
    """What was found; `left_out` names what was not, a sentence each."""

    strips: list[Strip] = field(default_factory=list)
    answers: list[Answers] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def rows_behind(
    store: Store, study: str, places: Sequence[PlaceResults], runs: Sequence[Mapping[str, Any]]
) -> Behind:
    """What stands behind the numbers of `places`, of the first selection rule and set of each data
    set, size and model."""
    found = Behind()
    with _left_out(found, "Examples and learning curves"):
        reader = _Reader(store, study, runs)
        first = {(at.place.data, at.place.size, at.place.model): at for at in reversed(places)}
        for at in reversed(list(first.values())):
            for shift, method, entry in at.grid():
                if entry is not None and entry.metrics:
                    _behind(found, reader, at, shift, method, entry)
    return found


def _behind(
    found: Behind, reader: _Reader, at: PlaceResults, shift: str, method: str, entry: Entry
) -> None:
    place = at.place
    known = any(
        (strip.data, strip.size, strip.shift) == (place.data, place.size, shift)
        for strip in found.strips
    )
    followed = len({item[:3] for item in found.curves}) * MAX_SEEDS < MAX_HISTORIES
    shown = not known and len(found.strips) < MAX_STRIPS
    if not followed and not shown and len(found.answers) >= MAX_ANSWERS:
        return
    keys = [
        key
        for seed in list(entry.metrics)[:MAX_SEEDS]
        if (key := reader.key_of(place, shift, method, seed, entry))
    ]
    if not keys:
        return
    if followed:
        with _left_out(found, "Learning curves"):
            found.curves.extend(curves_of(reader, place, shift, method, keys))
    if not shown and len(found.answers) >= MAX_ANSWERS:
        return
    with _left_out(found, f"Rows of {place.data}"):
        drawn = reader.draw(keys[0], place.set)
        if shown:
            found.strips.append(_strip(place, shift, reader.seeds[keys[0]], drawn))
        if len(found.answers) < MAX_ANSWERS:
            found.answers.append(_answers(place, shift, method, drawn, reader, keys))


@contextmanager
def _left_out(found: Behind, what: str) -> Iterator[None]:
    """Nothing that is only looked at may keep the numbers from being shown."""
    try:
        yield
    except _TROUBLE as error:
        told = (
            str(error) if isinstance(error, CrosswindError) else f"{type(error).__name__}: {error}"
        )
        line = f"{what} are not shown: {one_line(told, 200)}."
        found.left_out += [] if line in found.left_out else [line]


# -- files of jobs
# --------------------------------------------------------------------------------------------------


class _Drawn(NamedTuple):
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
            told, key = run["labels"], str(run["key"])
            names = tuple(
                str(told[name]) for name in ("data", "size", "model", "shift", "method", "point")
            )
            seed, split_seed = int(told["seed"]), int(told.get("split_seed", 0))
            self.keys[(*names, seed, split_seed)] = key
            self.keys.setdefault((*names, seed), key)
            self.seeds[key] = seed
        self.split_of = cache(self._split_of)  # methods share the split of a shift

    def key_of(self, place: Place, shift: str, method: str, seed: Any, entry: Entry) -> str | None:
        """The run of a seed. Of several split seeds those of the first: rows of two splits are not
        of one set."""
        asked, first = (
            (place.data, place.size, place.model, shift, method, entry.chosen[seed]),
            next(iter(entry.metrics)),
        )
        if isinstance(seed, int) or isinstance(first, int):
            return self.keys.get((*asked, seed))
        return self.keys.get((*asked, seed.seed, seed.split)) if seed.split == first.split else None

    def draw(self, key: str, name: str) -> _Drawn:
        """The split of a run, with its set called `name`."""
        jobs = self.jobs(key)
        fits = (about["spec"] for _, about in jobs if about["kind"] == "fit")
        spec = next(fits, None) or self.json(key, "job.json")["spec"]
        predicted = next(
            about["spec"]
            for _, about in jobs
            if about["kind"] == "predict" and about["spec"]["set"] == name
        )
        sets = {
            **spec["split"]["sets"],
            **({name: predicted["item"]} if "item" in predicted else {}),
        }
        whole = {
            "data": {**spec["data"], **predicted["data"]},
            "main": spec["main"],
            "split": {**spec["split"], "sets": sets},
            "seed": spec["seed"],
        }
        report = self.json(key, "split.json")
        return self.split_of(json.dumps([whole, report["sets"]["train"]["cells"]]), name)

    def _split_of(self, told: str, name: str) -> _Drawn:
        from crosswind.shifts.split import make_split
        from crosswind.studies.build import build_dataset, build_split_plan

        spec, cells = json.loads(told)
        datasets = {label: build_dataset(values) for label, values in spec["data"].items()}
        split = make_split(datasets, spec["main"], build_split_plan(spec["split"]), spec["seed"])
        if split.report["sets"]["train"]["cells"] != cells:
            raise DataError(
                f"the data set {spec['main']} has other rows now than when it was trained on"
            )
        kept_apart = (
            part["environment"] for part in spec["split"]["shift"] if part["type"] == "systematic"
        )
        return _Drawn(
            split,
            datasets,
            name,
            spec["split"]["label"],
            spec["split"]["attributes"],
            next(kept_apart, ""),
        )


# -- examples
# --------------------------------------------------------------------------------------------------


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
    given = evaluation_inputs(dataset, rows)
    texts = [""] * len(rows)
    if kind == "image-and-text":
        texts, given = [str(text) for _, text in given], np.stack([image for image, _ in given])
    elif kind == "text":
        return [
            Example(b"", one_line(str(text), LETTERS), said)
            for text, said in zip(given, words, strict=True)
        ]
    if max(given.shape[1:3]) > SIDE:
        from crosswind.data.resizing import resized

        given = resized(given, SIDE)
    pictures = [
        Picture.of(np.ascontiguousarray(image[..., 0] if image.shape[-1] == 1 else image)).png
        for image in given
    ]
    return [
        Example(*parts)
        for parts in zip(pictures, (one_line(text, LETTERS) for text in texts), words, strict=True)
    ]


def _values(dataset: AttributedDataset, rows: Ints, names: Sequence[str]) -> Values:
    """The codes of (virtual) rows by attribute, with the names of the values; only of attributes
    that the data set has."""
    from crosswind.data.derive import split_rows

    base, derived = split_rows(dataset, rows)
    found, known = {}, {attribute.name: attribute for attribute in dataset.schema}
    for name in dict.fromkeys(names):
        if name in known:
            own = dataset.derived is not None and dataset.derived.name == name
            found[name] = (
                derived if own else dataset.table.column(name)[base].astype(np.int64),
                known[name].values,
            )
    return found


def _described(values: Values, position: int) -> str:
    return ", ".join(f"{name} {names[codes[position]]}" for name, (codes, names) in values.items())


def _strip(place: Place, shift: str, seed: int, drawn: _Drawn) -> Strip:
    split, sets = drawn.split, []
    for rows in (split.train, drawn.test):
        dataset = drawn.datasets[rows.source]
        seen, choose = _virtual(dataset, rows), np.random.default_rng(0)
        listed = []
        for code in range(min(CLASSES, len(split.class_names))):
            at = np.flatnonzero(rows.label == code)
            at = at[
                np.sort(
                    choose.permutation(len(at))[
                        : PER_CLASS if len(split.class_names) <= 4 else PER_CLASS // 2
                    ]
                )
            ]
            values = _values(dataset, seen[at], [drawn.label, *drawn.attributes])
            listed.append(
                _examples(dataset, seen[at], [_described(values, i) for i in range(len(at))])
            )
        sets.append(listed)
    return Strip(
        place.data,
        place.size,
        shift,
        seed,
        drawn.name,
        list(zip(split.class_names, *sets, strict=False)),
    )


# -- answers
# --------------------------------------------------------------------------------------------------


def _answers(
    place: Place, shift: str, method: str, drawn: _Drawn, reader: _Reader, keys: Sequence[str]
) -> Answers:
    said = [found for key in keys if (found := _said(reader, key, place)) is not None]
    dataset, rows, names = drawn.datasets[drawn.test.source], drawn.test, drawn.split.class_names
    ids = dataset.row_ids(_virtual(dataset, rows))
    order = np.argsort(ids, kind="stable")
    if not said or any(
        not np.array_equal(np.sort(item.ids), ids[order])
        or not np.array_equal(item.label[np.argsort(item.ids)], rows.label[order])
        for item in said
    ):
        raise DataError(f"the set {drawn.name} has other rows now than when they were predicted")
    answers = np.stack([item.answer[np.argsort(item.ids, kind="stable")] for item in said])
    at, label = _virtual(dataset, rows)[order], rows.label[order]
    right = answers == label
    given = [*names, "no answer"]
    shares = {
        (names[code], given[answer]): float(
            (answers[:, label == code] == (answer if answer < len(names) else -1)).mean()
        )
        for code in np.unique(label)
        for answer in range(len(given))
    }
    confusion = {
        pair: share for pair, share in shares.items() if pair[1] != "no answer" or share > 0
    }
    values = _values(dataset, at, [drawn.label, *drawn.attributes])
    cells = {
        (one, other): by_pair(values[one], values[other], right)
        for one, other in list(combinations(values, 2))[:PAIRS]
    }
    pair = (drawn.label, drawn.environment)
    kept = (
        apart(pair, values, right, rows, order, drawn.split)
        if drawn.environment in values
        else None
    )
    wrong = _wrong(dataset, at, rows, order, answers, values, names)
    return Answers(place, shift, method, len(said), confusion, cells, wrong, kept)


def _said(reader: _Reader, key: str, place: Place) -> Predictions | None:
    from crosswind.studies.jobs import GIVEN
    from crosswind.studies.predictions_file import read_predictions

    for need, about in reader.jobs(key):
        if about["kind"] == "predict" and about["spec"]["set"] == place.set:
            by_rule = reader.read(need, "predictions.npz", read_predictions) or {}
            return by_rule.get(place.rule, by_rule.get(GIVEN, {})).get(place.set)
    return None


def _wrong(
    dataset: AttributedDataset,
    at: Ints,
    rows: RowSet,
    order: Ints,
    answers: Ints,
    values: Values,
    names: Sequence[str],
) -> list[Wrong]:
    """The rows of the worst groups that were wrong most often; of equally many the first."""
    group, right, found = rows.group[order], answers == rows.label[order], []
    codes = [int(code) for code in np.unique(group) if code >= 0]
    for code in sorted(codes, key=lambda code: float(right[:, group == code].mean()))[:GROUPS]:
        inside = np.flatnonzero(group == code)
        times = (~right[:, inside]).sum(axis=0)
        worst = [
            int(i)
            for i in inside[np.argsort(-times, kind="stable")][:PER_GROUP]
            if (~right[:, i]).any()
        ]
        words, short = [], []
        for i in worst:
            told = Counter(
                names[answer] if answer >= 0 else "no answer" for answer in answers[~right[:, i], i]
            )
            answered = ", ".join(
                f"{name} ({n})" if len(told) > 1 else name for name, n in told.most_common(3)
            )
            words.append(
                f"{_described(values, i)}: answered {answered}; wrong in {(~right[:, i]).sum()} of"
                f" {len(answers)} seeds"
            )
            short.append(f"{told.most_common(1)[0][0]} {(~right[:, i]).sum()}/{len(answers)}")
        examples = [
            item._replace(short=told)
            for item, told in zip(_examples(dataset, at[worst], words), short, strict=True)
        ]
        found.append(Wrong(rows.group_names[code], 100 * float(right[:, inside].mean()), examples))
    return found

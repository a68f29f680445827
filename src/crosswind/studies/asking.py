"""One trained model, data without labels: every estimate that applies, which to believe, and what speaks against it.

The model answers for the target, for the labelled source, for neighbours of both, and for the source under every change of the
pool. A label of the target is never read, not even where the data have one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import Access
from crosswind.core.registry import Facts, listing, load
from crosswind.core.types import InputSpec, Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.estimators.base import Answers, Estimate, Labelled
from crosswind.estimators.diagnosis import diagnosed
from crosswind.estimators.estimating import Prepared
from crosswind.shifts.split import RowSet
from crosswind.studies.asked import Doubtful, Estimates, Row
from crosswind.studies.asked_data import Rows, read_rows, scored_table
from crosswind.studies.varying import Answer, answers_of, answers_of_given, pool_of, said_of_copies
from crosswind.transforms.neighbourhood import NEIGHBOURS, POOL

NEAR_ROWS, POOL_ROWS = 300, 200
"""Rows whose neighbours are asked for, and rows of the source in the pool, unless told otherwise."""
_SHOWN = 24
"""Rows of which the neighbours disagree most that are kept to be looked at."""

Told: TypeAlias = Callable[[str], object]


@dataclass(frozen=True)
class AskedModel:
    """A model as it is asked. `answers`: from sets and data sets to predictions by rule. `input`: what it takes, None for anything.

    `source`: the labelled rows that it was validated on, where they are known.
    """

    name: str
    answers: Answer
    classes: tuple[str, ...]
    input: InputSpec | None = None
    source: tuple[RowSet, Mapping[str, AttributedDataset]] | None = None
    rule: str = "given"


def ask(
    model: str,
    data: Any,
    source: Any = None,
    *,
    label: str | None = None,
    images: str | None = None,
    classes: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    estimators: Sequence[str] | None = None,
    size: int | None = None,
    pool_rows: int = POOL_ROWS,
    near_rows: int = NEAR_ROWS,
    tell: Told = lambda text: None,
) -> Estimates:
    """See `crosswind.estimate`."""
    wanted = _wanted(estimators)
    asked = _model(model, data, source, label, images, classes, settings or {}, size)
    if len(asked.classes) < 2:
        raise InputError("classes", "the model has one class, so that every answer is right")
    target = read_rows(data, "data", asked.input, size, None, images)
    known = None if source is None else read_rows(source, "source", asked.input, size, label or "", images)
    first = _said(asked, _row_set("target", _codes(target, asked.classes, None)), {"target": target.dataset})
    labelled, rows, sets = _labelled(asked, known)
    _check("data", first)
    if labelled is not None:
        _check("source", labelled.answers)
    near = [item.access.neighbourhood for item in wanted if item.access is not None and item.access.neighbourhood]
    kind = target.dataset.check_inputs().kind
    changeable, targets, sources = kind == "image", {"": first}, {"": labelled}
    pools: dict[str, list[Labelled]] = {}
    if changeable and labelled is not None and rows is not None and pool_rows:
        pools[""] = _pool(asked, rows, sets, "", pool_rows, tell)
    for name in dict.fromkeys(near) if changeable and near_rows else ():
        if labelled is None or rows is None or not pool_rows:
            continue  # a measure says nothing without a pool
        some = _some(len(first), near_rows)
        tell(f"asking for the neighbours ({name}) of {len(some):,} rows")
        rows_of = _row_set("target", np.full(len(target.rows), -1))
        targets[name] = _near(asked, rows_of, {"target": target.dataset}, name, some, first)
        here = _some(len(labelled.answers), near_rows)
        beside = _near(asked, rows, sets, name, here, labelled.answers)
        sources[name] = replace(labelled, answers=beside, label=labelled.label[here])
        pools[name] = _pool(asked, rows, sets, name, max(1, pool_rows // 2), tell)
    found, left_out = _estimates(wanted, targets, sources, pools, kind)
    shown = next((targets[name] for name in near if name in targets), None)
    best = found[0].estimate.accuracy if found else None
    empty = Labelled(Answers(np.empty(0, np.int64), classes=len(asked.classes)), np.empty(0, np.int64))
    seen = next((sources[name] for name in near if sources.get(name)), labelled) or empty
    findings = diagnosed(seen, shown or first, best)
    return Estimates(
        asked.name,
        target.name,
        len(first),
        "" if labelled is None else labelled.name,
        None if labelled is None else labelled.accuracy,
        0 if labelled is None else len(labelled.answers),
        tuple(found),
        tuple(left_out),
        tuple(findings),
        _doubtful(target, shown, asked.classes, near, _some(len(first), near_rows)),
    )


# -- what is asked ------------------------------------------------------------------------------------------------------------


def _model(
    word: str,
    data: Any,
    source: Any,
    label: str | None,
    images: str | None,
    classes: Sequence[str] | None,
    settings: Mapping[str, Any],
    size: int | None,
) -> AskedModel:
    if "#" in word:
        return _run(word)
    name = "onnx" if word.lower().endswith(".onnx") else "callable" if ":" in word else ""
    if not name:
        valid = ["STORE#KEY of a run", "FILE.onnx", "module:function", "FILE.py:function"]
        raise InputError("model", f"{word!r} is none of what can be asked", valid)
    if name == "onnx" and not Path(word).is_file():
        raise InputError("model", f"there is no file {word!r}")
    from crosswind.core.knobs import resolve
    from crosswind.core.registry import facts
    from crosswind.models.form import check_extra

    known = facts("models", name)
    check_extra(known.extra, "model", name)
    file = "path" if name == "onnx" else "function"
    given = load("models", name)(**resolve(known.knobs, {**settings, file: word}, "settings", f"model {name!r}"))
    names = list(classes) if classes else _classes_of(source, label, images, size)
    takes = _onnx_input(word) if name == "onnx" else None
    shown = Path(word).name if name == "onnx" else word
    return AskedModel(shown, _with_logits(answers_of_given(given, names, "given")), tuple(names), takes)


def _with_logits(answers: Answer) -> Answer:
    """The answers with logarithms in the place of probabilities, where a model gives those: so that their softmax is themselves.

    Rows of numbers in [0, 1] that all sum to 1 are taken for probabilities.
    """

    def said(sets: Mapping[str, RowSet], datasets: Mapping[str, AttributedDataset]) -> Any:
        found, doubts = answers(sets, datasets)
        return {rule: {name: _as_logits(item) for name, item in own.items()} for rule, own in found.items()}, doubts

    return said


def _as_logits(said: Predictions) -> Predictions:
    z = said.logits
    if z is None or not len(z) or not ((z >= 0) & (z <= 1)).all() or (np.abs(z.sum(axis=1) - 1) > 1e-3).any():
        return said
    with np.errstate(divide="ignore"):
        return replace(said, logits=np.log(z))


def _classes_of(source: Any, label: str | None, images: str | None, size: int | None) -> list[str]:
    if source is None:
        raise InputError("classes", "are needed, in the order of the model's outputs, where no labelled source names them")
    rows = read_rows(source, "source", None, size, label or "", images)
    return list(rows.values)


def _onnx_input(path: str) -> InputSpec | None:
    """The images that the file takes, where it says so."""
    import onnxruntime

    try:
        shape = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()[0].shape
    except Exception:  # said in full where the model is asked
        return None
    if len(shape) != 4 or not all(isinstance(side, int) for side in shape[1:]):
        return None
    c, h, w = shape[1:] if shape[1] in (1, 3) else (shape[3], *shape[1:3])
    return InputSpec.image(h, w, c)


def _run(word: str) -> AskedModel:
    from crosswind.studies.artifacts import artifact_folder
    from crosswind.studies.build import build_dataset
    from crosswind.studies.jobs import WEIGHTS, _from_weights, _split_of
    from crosswind.studies.store import Store, split_name

    place, prefix = split_name(word)
    with Store.open(place) as store:
        record = store.run(prefix)
        fits = [store.run(key) for key in record["needs"]] if record["kind"] == "score" else [record]
        fit = next((item for item in fits if item["kind"] == "fit"), None)
        if fit is None or fit["artifacts"] is None:
            raise InputError("model", f"{word!r} was not trained here, or is not done; name what it stands for itself")
        folders = {key: artifact_folder(store.out, key) for key in [fit["key"], *fit["needs"]]}
    if not any(fit["artifacts"].glob(WEIGHTS.format("*"))):
        raise InputError("model", f"the weights of {word!r} were not kept; run its study with keep: selected")
    about = json.loads((fit["artifacts"] / "job.json").read_text(encoding="utf-8"))
    spec = about["spec"]
    classes = next(iter(about["sets"].values()))["classes"]
    answers = _from_weights(spec, SimpleNamespace(needs=(fit["key"], *fit["needs"]), needed=folders))  # type: ignore[arg-type]
    split, datasets = _split_of(spec)
    rows = split.validation.get("validation") or next(iter(split.validation.values()), None)
    main = build_dataset(spec["data"][spec["main"]])
    rule = "best-id" if "best-id" in about["rules"] else next(iter(about["rules"]))
    return AskedModel(word, answers, tuple(classes), main.input, None if rows is None else (rows, datasets), rule)


def _row_set(source: str, label: NDArray[np.int64]) -> RowSet:
    n = len(label)
    none = np.zeros(n, dtype=np.int64)
    weight = np.full(n, 1 / max(n, 1))
    return RowSet(source, np.arange(n), label, label, none, None, weight, none.astype(np.int8), ("all",), ())


def _codes(rows: Rows, classes: Sequence[str], label: Sequence[str] | None) -> NDArray[np.int64]:
    """The class of every row's label, -1 for all where there are none."""
    if label is None:
        return np.full(len(rows.rows), -1, dtype=np.int64)
    known = {name: code for code, name in enumerate(classes)}
    strange = [name for name in dict.fromkeys(label) if name not in known]
    if strange:
        raise DataError(f"{rows.name} has the label {strange[0]!r}, which is no class of the model ({', '.join(classes[:20])})")
    return np.array([known[name] for name in label], dtype=np.int64)


def _said(asked: AskedModel, rows: RowSet, sets: Mapping[str, AttributedDataset]) -> Answers:
    found, _ = asked.answers({"rows": rows}, sets)
    said: Predictions = found[asked.rule]["rows"]
    return Answers(said.answer, said.logits, classes=len(asked.classes))


def _labelled(asked: AskedModel, known: Rows | None) -> tuple[Labelled | None, RowSet | None, Mapping[str, AttributedDataset]]:
    if known is not None:
        rows: RowSet = _row_set("source", _codes(known, asked.classes, known.labels))
        sets: Mapping[str, AttributedDataset] = {"source": known.dataset}
        return Labelled(_said(asked, rows, sets), rows.label, known.name), rows, sets
    if asked.source is None:
        return None, None, {}
    rows, sets = asked.source
    return Labelled(_said(asked, rows, sets), rows.label, "the run's validation set"), rows, sets


def _check(field: str, said: Answers) -> None:
    if not len(said):
        raise DataError(f"{field} has no rows")
    bad_rows = np.zeros(len(said), bool) if said.logits is None else ~np.isfinite(said.logits.max(axis=1))
    if said.logits is not None:
        bad_rows |= np.isnan(said.logits).any(axis=1)
    if bad_rows.any():
        bad = int(bad_rows.argmax())
        raise DataError(f"the model gave logits that are not finite for the rows of {field}, such as row {bad}")


def _some(n: int, most: int) -> NDArray[np.int64]:
    """At most so many of n rows, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def _near(
    asked: AskedModel, rows: RowSet, sets: Mapping[str, AttributedDataset], name: str, some: NDArray[np.int64], said: Answers
) -> Answers:
    keys = ("rows", "label", "true_label", "group", "weight", "origin")
    part: dict[str, Any] = {key: getattr(rows, key)[some] for key in keys}
    part["visit_law"] = None if rows.visit_law is None else rows.visit_law[some]
    copied = said_of_copies(asked.answers, replace(rows, environment=None, **part), sets, name, NEIGHBOURS, 0)[asked.rule]
    own = said.take(some)
    plain = Predictions(some, part["label"], part["group"], own.answer, own.logits)
    return replace(answers_of(plain, name, copied), classes=own.classes)


def _pool(asked: AskedModel, rows: RowSet, sets: Mapping[str, AttributedDataset], near: str, n: int, tell: Told) -> list[Labelled]:
    n = min(n, len(rows.rows))
    copies = len(POOL) * n * (NEIGHBOURS + 1 if near else 1)
    tell(f"asking for {copies:,} changed copies of {n:,} labelled rows{f' ({near})' if near else ''}")
    plain = said_of_copies(asked.answers, rows, sets, "", NEIGHBOURS, n)[asked.rule]
    beside = said_of_copies(asked.answers, rows, sets, near, NEIGHBOURS, n)[asked.rule] if near else None
    pool = pool_of(plain, near, beside)
    return [replace(item, answers=replace(item.answers, classes=len(asked.classes))) for item in pool]


# -- what is found ------------------------------------------------------------------------------------------------------------


def _wanted(names: Sequence[str] | None) -> list[Facts]:
    known = {item.name: item for item in listing("estimators")}
    if names is None:  # of the neighbourhoods the paper's best: each takes ten passes more
        heavy = {"ni-translate", "ni-erase", "ni-flipcrop"}
        return [item for name, item in known.items() if name not in heavy]
    from crosswind.core.registry import facts

    return [facts("estimators", name, "estimators") for name in names]


def _estimates(
    wanted: Sequence[Facts],
    targets: Mapping[str, Answers],
    sources: Mapping[str, Labelled | None],
    pools: Mapping[str, list[Labelled]],
    kind: str,
) -> tuple[list[Row], list[tuple[str, str]]]:
    found, left_out = [], []
    for item in wanted:
        access = item.access or Access()
        near, labelled = access.neighbourhood, sources[""]
        why = ""
        if access.models > 1:
            why = f"it compares {access.models} models or more, and one was given"
        elif access.source and labelled is None:
            why = "no labelled rows of the source were given"
        elif access.features or access.weights:
            why = f"it reads {'weights' if access.weights else 'features'}, which are not asked for"
        elif access.pool and not pools:
            why = "it learns from changed copies of labelled rows" + (f", and {kind}s are not changed" if kind != "image" else "")
        if not why:
            nothing = Labelled(Answers(np.empty(0, np.int64), classes=targets[""].classes), np.empty(0, np.int64))
            estimator = load("estimators", item.name)()
            prepared = Prepared(estimator, sources.get(near) or labelled or nothing, pools.get(near, []))
            said = prepared(targets.get(near, targets[""]))
            if isinstance(said, Estimate):
                found.append(Row(item.name, said, prepared.pool_error()))
                continue
            why = said
        left_out.append((item.name, why))
    return sorted(found, key=lambda row: (row.pool_error is None, row.pool_error or 0.0)), left_out


def _doubtful(
    target: Rows, said: Answers | None, classes: Sequence[str], near: Sequence[str], some: NDArray[np.int64]
) -> tuple[Doubtful, ...]:
    if said is None:
        return ()
    votes = said.neighbours[next(name for name in near if name in said.neighbours)]
    shares = np.stack([(votes == code).mean(axis=1) for code in range(len(classes))], axis=1)
    order = np.argsort(shares.max(axis=1), kind="stable")[:_SHOWN]
    pictures = target.dataset.inputs(some[order])
    out = []
    for place, picture in zip(order.tolist(), pictures, strict=True):
        given = sorted(((float(shares[place, code]), -code) for code in np.flatnonzero(shares[place])), reverse=True)
        told = tuple((classes[-int(code)], share) for share, code in given)
        answer = classes[int(said.answer[place])] if said.answer[place] >= 0 else "no answer"
        out.append(Doubtful(target.names(int(some[place])), answer, told, picture))
    return tuple(out)


def ask_table(predictions: str, source: str | None, label: str | None, estimators: Sequence[str] | None) -> Estimates:
    """The same of tables of scores alone, without the model: what needs the model is left out by name."""
    classes, target, _ = scored_table(predictions, "predictions", None, None)
    labelled = None
    if source is not None:
        _, said, codes = scored_table(source, "source", classes, label or "label")
        assert codes is not None
        labelled = Labelled(said, codes, Path(source).name)
    found, left_out = _estimates(_wanted(estimators), {"": target}, {"": labelled}, {}, "table")
    left_out = [(name, why.replace(", and tables are not changed", ", and a table holds none")) for name, why in left_out]
    empty = Labelled(Answers(np.empty(0, np.int64), classes=len(classes)), np.empty(0, np.int64))
    best = found[0].estimate.accuracy if found else None
    findings = diagnosed(labelled or empty, target, best)
    name = Path(predictions).name
    told, right, many = ("", None, 0) if labelled is None else (labelled.name, labelled.accuracy, len(labelled.answers))
    lists = tuple(found), tuple(left_out), tuple(findings)
    return Estimates("a table of scores", name, len(target), told, right, many, *lists, ())

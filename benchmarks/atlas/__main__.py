"""Builds and judges the evidence of `crosswind advise`.

    python -m benchmarks.atlas run --study pictures --out atlas-out [--data digits,mnist]
        [--shifts tie-98,unseen] [--seeds 1] [--rates 1] [--texts FILE] [--workers 2]
    python -m benchmarks.atlas tables FOLDER --out atlas-tables [--split-seeds 5]
        [--attributes 1] [--workers 2]
    python -m benchmarks.atlas add STORE [STORE ...]
    python -m benchmarks.atlas earlier
    python -m benchmarks.atlas judge
    python -m benchmarks.atlas page
    python -m benchmarks.atlas beside FOLDER

`run` trains a study of this folder, resumable as every study is, and adds what it holds to
evidence.parquet; data sets that are not prepared are left out and named. `--data`, `--shifts`,
`--seeds` and `--rates` (the first seeds and learning rates) train a part; without them the same
command trains the rest. `tables` does the same with the real tables of
benchmarks/results/own-tables.json that FOLDER holds. `add` adds finished studies
of other stores. `earlier` adds the tables of benchmarks/results, whose stores are not kept: their
training rows are counted by planning their studies again. `judge` leaves every data set out in turn
and writes validation.json: coverage of the intervals, what they are multiplied by, and what the first
choice gains over plain training and over groupdro. `page` writes what docs/guides/choosing-a-method.md
says from the evidence. `beside` compares advice on real tables with whole studies of them.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars
import yaml
from benchmarks.atlas import own_advice, page
from benchmarks.atlas.tables import LABELS, table_study
from scipy import stats

from crosswind.advice.evidence import (
    COLUMNS,
    METRICS,
    data_name,
    empty_evidence,
    evidence_of,
    is_pretrained,
    method_of_label,
    problems_of_plan,
)
from crosswind.advice.gains import LEVEL, GainModel, Observed, observed_gains
from crosswind.core.errors import CrosswindError, unknown
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.reading import find_study
from crosswind.studies.spec import Study, load_study

HERE = Path(__file__).resolve().parent
EVIDENCE = HERE / "evidence.parquet"
VALIDATION = HERE / "validation.json"
RESULTS = HERE.parent / "results"
EARLIER: dict[str, tuple[str, str | None]] = {
    "concurrent-shifts/numbers.csv": ("jeon2025/controlled", "figure"),
    "concurrent-shifts/equal-numbers.csv": ("jeon2025/equal-sizes", None),
    "wiles2022-unseen/numbers.csv": ("wiles2022/unseen", "small"),
    "wiles2022-label-is-color/numbers.csv": ("wiles2022/label-is-color", "small"),
    "pacs-leave-one-out/numbers.csv": ("pacs/leave-one-out", "small"),
    "jeon2025-transfer/numbers.csv": ("jeon2025/controlled", "transfer"),
    "jeon2025-data-size/numbers.csv": ("jeon2025/data-size", None),
    "jeon2025-sensitivity/numbers.csv": ("jeon2025/sensitivity", None),
}
"""Tables of benchmarks/results and the study and scale that made them. wiles2022/spurious is not among
them: its plain training draws rows by weights of the test distribution, which is a method here."""
SAME_ROWS = {("jeon2025/controlled", "transfer"): "figure"}
"""Scales whose plan needs files of weights, and the one with the same rows that needs none."""
KEYS = ("study", "data", "shift", "size", "model", "method")


def add(added: list[polars.DataFrame]) -> None:
    """Put rows into evidence.parquet in the place of those of the same problem and method."""
    known = polars.read_parquet(EVIDENCE) if EVIDENCE.is_file() else empty_evidence()
    together = polars.concat([known, *(table.select(list(COLUMNS)) for table in added)])
    together = together.unique(KEYS, keep="last", maintain_order=True).sort(KEYS)
    together.write_parquet(EVIDENCE, compression="zstd")
    problems = together.select("study", "data", "shift", "size", "model").n_unique()
    print(
        f"{EVIDENCE.name}: {together.height} rows, {problems} problems of"
        f" {together['data'].n_unique()} data sets, {together['runs'].sum()} runs"
    )


@dataclass(frozen=True)
class Part:
    """The part of a study that is trained: `data`, `shifts`: names, all where empty; `seeds`, `rates`:
    the number of the first seeds and learning rates, all where None."""

    data: Sequence[str] = ()
    shifts: Sequence[str] = ()
    seeds: int | None = None
    rates: int | None = None

    def settings(self, study: Study) -> list[str]:
        """The part as `--set` settings, data sets left aside. Raises `InputError` for a name that the
        study lacks."""
        settings = [] if self.seeds is None else [f"seeds={self.seeds}"]
        for names, valid, option in (
            (self.data, study.data, "--data"),
            (self.shifts, study.shifts, "--shifts"),
        ):
            for name in names:
                if name not in valid:
                    raise unknown(option, "name of the study", name, list(valid))
        if self.rates is not None:
            rates = study.model_dump()["training"]["lr"]
            settings.append(f"training.lr={json.dumps(rates[: self.rates])}")
        if not self.shifts:
            return settings
        settings += [f"shifts.{name}=null" for name in study.shifts if name not in self.shifts]
        for method, entry in study.methods.items():
            if "shifts" in (entry or {}):
                left = [name for name in entry["shifts"] if name in self.shifts]
                word = f".shifts={json.dumps(left)}" if left else "=null"
                settings.append(f"methods.{method}{word}")
        return settings


def run(study: str, out: str, part: Part, texts: str | None, workers: int) -> None:
    """Train a study of this folder, or a part of it, on the data sets that are here, and add what it
    holds."""
    path = HERE / f"{study}.yaml"
    loaded = load_study(str(path), None, [])
    settings = part.settings(loaded)
    for name, spec in loaded.data.items():
        changed = []
        if "path" in spec.options and texts is not None:
            changed = [f"data.{name}.options.path={Path(texts).resolve()}"]
        try:
            if part.data and name not in part.data:
                raise CrosswindError("not asked for")
            others = [f"data.{other}=null" for other in loaded.data if other != name]
            make_plan(load_study(str(path), None, [*changed, *others]), path.parent)
            settings += changed
        except CrosswindError as error:
            print(f"left out: {name}: {error}")
            settings.append(f"data.{name}=null")
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "crosswind", "run", str(path), "--out", out]
    subprocess.run([*command, "--workers", str(workers), *words], check=True)
    with Store.open(out) as store:
        add([evidence_of(store, name) for name in store.study_names()])


def tables(folder: Path, out: Path, split_seeds: int, attributes: int | None, workers: int) -> None:
    """Train the atlas' methods on the real tables that a folder holds, and add what they show."""
    added = []
    out.mkdir(parents=True, exist_ok=True)
    for name in LABELS:
        if not (folder / name).is_file():
            print(f"left out: {name}: {folder} has no such file")
            continue
        study = out / f"{Path(name).stem}.yaml"
        try:
            fields = table_study(folder / name, split_seeds, attributes)
        except CrosswindError as error:
            print(f"left out: {name}: {error}")
            continue
        study.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
        store = str(study.with_suffix(""))
        command = [sys.executable, "-m", "crosswind", "run", str(study), "--out", store]
        if subprocess.run([*command, "--workers", str(workers)], check=False).returncode:
            print(f"left out: {name}: its study did not end well, see above")
            continue
        with Store.open(store) as opened:
            added += [evidence_of(opened, study_name) for study_name in opened.study_names()]
    if added:
        add(added)


def earlier() -> None:
    """Add the tables of earlier studies."""
    tables = []
    for name, (word, scale) in EARLIER.items():
        study = load_study(word, scale, [])
        try:
            folder = find_study(word)[1].parent
            planned = load_study(word, SAME_ROWS.get((word, scale), scale), [])
            problems = problems_of_plan(make_plan(planned, folder), folder)
        except CrosswindError as error:
            print(f"left out: {name}: {error}")
            continue
        rows = polars.read_csv(RESULTS / name, infer_schema_length=None)
        methods = study.model_dump()
        table = list(_earlier_rows(rows.to_dicts(), problems, methods))
        tables.append(polars.DataFrame(table, schema=empty_evidence().schema))
        print(f"{name}: {len(table)} rows")
    add(tables)


def _earlier_rows(
    rows: list[dict[str, Any]], problems: Mapping[Any, Any], study: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    rule = str(study["selection"][0])
    kept = [row for row in rows if row["set"] in ("test", "target") and row["rule"] == rule]
    plain = {}
    for row in kept:
        if method_of_label(row["method"], study) == "erm":
            plain[row["data"], row["shift"], row["size"], row["model"]] = row
    for row in kept:
        place = (row["data"], row["shift"], row["size"])
        name = method_of_label(row["method"], study)
        own_plain = plain.get((*place, row["model"]))
        if name in (None, "erm") or own_plain is None or place not in problems:
            continue
        if int(row["points"]) > int(own_plain["points"]):
            continue
        if row["diff_n"] not in (None, "", 0):
            n = int(row["diff_n"])
            plain_mean = float(row["mean"]) - float(row["diff"])
        elif row["n"] == own_plain["n"]:
            # The plain training of this network is not the reference of the study.
            n, plain_mean = int(row["n"]), float(own_plain["mean"])
        else:
            continue
        is_paired = n > 1 and row["diff_low"] not in (None, "")
        reach = (float(row["diff_high"]) - float(row["diff_low"])) / 2 if is_paired else None
        worst, plain_worst = row["worst_group"], own_plain["worst_group"]
        yield {
            "study": row["study"],
            "data": data_name(study["data"][row["data"]], row["data"]),
            "shift": row["shift"],
            "size": row["size"],
            "model": row["model"],
            "rule": rule,
            **vars(problems[place]),
            "pretrained": is_pretrained(study["models"], row["model"]),
            "method": name,
            "points": int(row["points"]),
            "runs": n,
            "plain_accuracy": plain_mean,
            "accuracy": float(row["mean"]),
            "accuracy_error": None if reach is None else reach / stats.t.ppf(0.975, n - 1),
            "plain_worst_group": None if plain_worst is None else float(plain_worst),
            "worst_group": None if worst is None else float(worst),
            # Its interval is not of the difference.
            "worst_group_error": None,
            "time": None,
        }


def write_page() -> None:
    """Write what docs/guides/choosing-a-method.md says from the evidence, and its picture."""
    evidence = polars.read_parquet(EVIDENCE).select(list(COLUMNS))
    page.PICTURE.write_text(page.picture(page.summary(evidence)), encoding="utf-8")
    text = page.with_section(page.PAGE.read_text(encoding="utf-8"), page.section(evidence))
    page.PAGE.write_text(text, encoding="utf-8")


def beside(folder: Path) -> None:
    """Write advice on the real tables of a folder beside what whole studies of them found."""
    evidence = polars.read_parquet(EVIDENCE).select(list(COLUMNS))
    with tempfile.TemporaryDirectory() as work:
        rows = list(own_advice.beside_studies(folder, evidence, Path(work)))
    record = {"command": "python -m benchmarks.atlas beside FOLDER", "tables": rows}
    own_advice.ADVISED.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(own_advice.in_markdown(rows))


def judge() -> None:
    """Leave every data set out in turn, and write what the model of the gain was worth on it."""
    evidence = polars.read_parquet(EVIDENCE).select(list(COLUMNS))
    record: dict[str, Any] = {"coverage": {}, "widening": {}, "parameters": {}}
    for metric in METRICS:
        observed = observed_gains(evidence, metric)
        parameters = GainModel(observed).parameters
        errors, choices = _left_out(observed, parameters)
        before = float(np.mean([_share_within(rows, 1.0) for rows in errors.values()]))
        # What a data set's intervals are widened by is learnt from the others alone.
        within = [
            _share_within(rows, widening_of([errors[other] for other in errors if other != name]))
            for name, rows in errors.items()
        ]
        record["coverage"][metric] = float(np.mean(within))
        record["widening"][metric] = round(widening_of(list(errors.values())), 3)
        record["parameters"][metric] = parameters
        if metric == "accuracy":
            record["data"] = len(choices)
            record["over_plain"] = _interval([plain for plain, _ in choices.values()])
            record["over_groupdro"] = _interval(
                [gain for _, gain in choices.values() if gain is not None]
            )
            record["by_data"] = {name: list(pair) for name, pair in choices.items()}
        print(
            f"{metric}: {before:.1%} inside before widening by {record['widening'][metric]},"
            f" {record['coverage'][metric]:.1%} after"
        )
    VALIDATION.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: record[name] for name in ("data", "over_plain", "over_groupdro")}))


def widening_of(errors: Sequence[np.ndarray]) -> float:
    """The factor on intervals of `LEVEL` at which they hold that share of the gains; below 1 where they
    held more. `errors`: standardised, float64 [rows] of each data set; data sets weigh alike."""
    values = np.concatenate([np.abs(rows) for rows in errors])
    weights = np.concatenate([np.full(len(rows), 1 / len(rows)) for rows in errors])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    quantile = float(values[order][min(np.searchsorted(reached, LEVEL), len(values) - 1)])
    return quantile / float(stats.norm.ppf(0.5 + LEVEL / 2))


def _share_within(errors: np.ndarray, widening: float) -> float:
    return float((np.abs(errors) <= widening * stats.norm.ppf(0.5 + LEVEL / 2)).mean())


def _left_out(
    observed: Observed, start: Sequence[float]
) -> tuple[dict[str, np.ndarray], dict[str, tuple[float, float | None]]]:
    """By data set left out, the standardised errors of its predictions, float64 [rows]; and what the
    first choice gained over plain training and over groupdro (None where it was not tried), means
    over problems, in points. `start`: parameters that the search of each model's own begins with."""
    errors: dict[str, np.ndarray] = {}
    choices = {}
    data = np.array(observed.data)
    contexts = np.array(observed.contexts)
    for name in dict.fromkeys(observed.data):
        model = GainModel(observed.rows(data != name), start=start)
        own_errors, over_plain, over_groupdro = [], [], []
        for context in dict.fromkeys(contexts[data == name]):
            rows = np.flatnonzero(contexts == context)
            methods = [observed.methods[i] for i in rows]
            gains = model.predict(observed.problems[rows[0]], methods)
            for i, method in zip(rows, methods, strict=True):
                gain = gains[method]
                deviation = (gain.high - gain.mean) / stats.norm.ppf(0.5 + LEVEL / 2)
                # A gain that was seen has noise of its seeds beside what the interval is of.
                spread = math.hypot(deviation, observed.spread[i])
                own_errors.append((observed.points[i] - gain.mean) / spread)
            seen = dict(zip(methods, observed.points[rows], strict=True))
            best = max(gains, key=lambda method: gains[method].mean)
            chosen = seen[best] if gains[best].mean > 0 else 0.0
            over_plain.append(float(chosen))
            if "groupdro" in seen:
                over_groupdro.append(float(chosen - seen["groupdro"]))
        errors[name] = np.array(own_errors)
        mean_over_groupdro = float(np.mean(over_groupdro)) if over_groupdro else None
        choices[name] = (float(np.mean(over_plain)), mean_over_groupdro)
        print(
            f"  {name}: {choices[name]}, {_share_within(errors[name], 1.0):.0%} inside", flush=True
        )
    return errors, choices


def _interval(values: list[float]) -> list[float]:
    """Mean and interval of 95% over data sets, by Student's t."""
    if len(values) < 3:
        return []
    mean = float(np.mean(values))
    reach = float(
        stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    )
    return [round(mean, 2), round(mean - reach, 2), round(mean + reach, 2)]


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    run_verb = verbs.add_parser("run")
    run_verb.add_argument("--study", required=True, choices=("pictures", "texts"))
    run_verb.add_argument("--out", required=True)
    run_verb.add_argument("--data", default="")
    run_verb.add_argument("--shifts", default="")
    run_verb.add_argument("--seeds", type=int)
    run_verb.add_argument("--rates", type=int)
    run_verb.add_argument("--texts")
    run_verb.add_argument("--workers", type=int, default=1)
    tables_verb = verbs.add_parser("tables")
    tables_verb.add_argument("folder", type=Path)
    tables_verb.add_argument("--out", type=Path, required=True)
    tables_verb.add_argument("--split-seeds", type=int, default=5)
    tables_verb.add_argument("--attributes", type=int)
    tables_verb.add_argument("--workers", type=int, default=1)
    add_verb = verbs.add_parser("add")
    add_verb.add_argument("stores", nargs="+")
    verbs.add_parser("earlier")
    verbs.add_parser("judge")
    verbs.add_parser("page")
    beside_verb = verbs.add_parser("beside")
    beside_verb.add_argument("folder", type=Path)
    args = parser.parse_args()
    if args.verb == "run":
        part = Part(_names(args.data), _names(args.shifts), args.seeds, args.rates)
        run(args.study, args.out, part, args.texts, args.workers)
    elif args.verb == "tables":
        tables(args.folder, args.out, args.split_seeds, args.attributes, args.workers)
    elif args.verb == "add":
        added = []
        for place in args.stores:
            with Store.open(place) as store:
                added += [evidence_of(store, name) for name in store.study_names()]
        add(added)
    elif args.verb == "earlier":
        earlier()
    elif args.verb == "page":
        write_page()
    elif args.verb == "beside":
        beside(args.folder)
    else:
        judge()


if __name__ == "__main__":
    main()

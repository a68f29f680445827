"""Tables that nobody here wrote, from the first command to the conclusion, beside scikit-learn.

    python -m benchmarks.papers.own_tables FOLDER [--tables A,B=LABEL,...] [--out FILE]
    python -m benchmarks.papers.own_tables FOLDER --planted 20 [--out FILE]
    python -m benchmarks.papers.own_tables FOLDER --screen --tables A=LABEL,... [--out FILE]

Each CSV of FOLDER goes through `crosswind init` and `crosswind run`, as a stranger would run them,
without an edit. What the tie of each attribute costs is then computed again by other code: an own
sampler draws rows with the tie and without it, as many of each, and scikit-learn's logistic
regression (texts) or gradient boosting (numbers and pictures) is trained on simple features and
tested on rows in which the attribute tells nothing, 20 times. Where the interval of that cost
excludes 0, the sign of ours is compared with it.

With `--planted` a mark of known strength is put into each table instead, and must be found, named
and ranked first where scikit-learn's own models lean on it (where another column tells the label as
well, no model does, and there is nothing to find); with `--invisible` it is tied to nothing and cannot be seen, and nothing may be
told of it.

With `--screen` nothing of Crosswind's is run: the visible marks are put in, and scikit-learn alone
says which tables lean on them. A round of planted marks takes its tables from there, so that what
counts is fixed before the first proposal is written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
import yaml
from numpy.typing import NDArray
from scipy import stats

import crosswind as cw

REPEATS = 20


def crosswind(folder: Path, *words: str) -> tuple[float, str]:
    """The seconds and the messages of a command, run in a folder. Raises `RuntimeError`."""
    start = time.perf_counter()
    program = "import sys; from crosswind.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    return time.perf_counter() - start, done.stderr


def studied(table: Path, label: str | None, out: Path) -> dict[str, Any]:
    """What init and run say of a table: the study, its costs by attribute, the answer, seconds."""
    study = out.with_suffix(".yaml")
    named = ["--label", label] if label else []
    seconds, _ = crosswind(table.parent, "init", table.name, *named, "--out", str(study), "--force")
    run_seconds, _ = crosswind(table.parent, "run", str(study), "--out", str(out))
    findings = cw.report(out).findings
    assert findings is not None
    values = yaml.safe_load(study.read_text())
    costs: dict[str, Any] = {}
    told = []
    for comparison in findings.to_json()["comparisons"]:
        if comparison["metric"] == "accuracy" and comparison["told"]:
            names = ("data", "model", "shift", "method")
            told.append({name: comparison[name] for name in names if name in comparison})
        if (
            comparison["kind"] == "cost"
            and comparison["metric"] == "accuracy"
            and comparison["shift"] == "SC"
        ):
            # Of several models, the one that is told to lose most.
            known = costs.get(comparison["data"])
            if known is None or _sureness(comparison) > _sureness(known):
                costs[comparison["data"]] = comparison
    answers = next((lines for heading, lines in findings.parts if "tying" in heading), [])
    return {
        "study": values,
        "costs": costs,
        "told": told,
        "answers": list(answers),
        "seconds": [round(seconds), round(run_seconds)],
    }


def _sureness(comparison: Mapping[str, Any]) -> tuple[bool, float]:
    """What costs of one attribute are ordered by: told ones first, then the largest."""
    return bool(comparison["told"]), -float(comparison["difference"])


# -- the same by other code ------------------------------------------------------------------------


def features(table: Path, options: Mapping[str, Any], rows: polars.DataFrame) -> Any:
    """Simple features of every row: words of texts, small grey pictures, columns as they stand."""
    if options.get("text"):
        from sklearn.feature_extraction.text import TfidfVectorizer

        names = options["text"] if isinstance(options["text"], list) else [options["text"]]
        joined = [" ".join(str(cell) for cell in row) for row in rows.select(names).iter_rows()]
        return TfidfVectorizer(min_df=3, max_features=20_000).fit_transform(joined)
    if options.get("images"):
        return _small_pictures(table, options, rows)
    columns = [
        rows[name].cast(polars.Float64, strict=False).to_numpy()
        for name in options.get("numbers", [])
    ]
    for name in options.get("categories", []):
        columns.append(
            rows[name].cast(polars.String).fill_null("").rank("dense").to_numpy().astype(float)
        )
    return np.stack(columns, axis=1)


def _small_pictures(
    table: Path, options: Mapping[str, Any], rows: polars.DataFrame
) -> NDArray[np.float64]:
    from PIL import Image

    # A study in the folder above the table's names pictures from there.
    tops = [folder / options["images"] for folder in (table.parent, table.parent.parent)]
    top = next(top for top in tops if top.is_dir())
    files = {file.stem: file for file in top.rglob("*.png")}
    pictures = []
    for name in rows[options["path_column"]].cast(polars.String):
        file = top / name
        with Image.open(file if file.is_file() else files[Path(name).stem]) as opened:
            small = opened.convert("RGB").resize((8, 8))
            pictures.append(np.asarray(small, dtype=np.float64).ravel())
    return np.stack(pictures)


def own_cost(
    table: Path, options: Mapping[str, Any], entry: Mapping[str, Any], strength: float
) -> dict[str, float]:
    """What the tie of an attribute costs scikit-learn: mean and 95% interval over `REPEATS`."""
    attribute = _attribute(entry)
    rows = polars.read_csv(table, infer_schema_length=None)
    rows = rows.rename({"": "column1"} if "" in rows.columns else {})
    label, values = _classes(rows, entry["label"], options), _classes(rows, attribute, options)
    kept = entry.get("keep", {})
    fine = _known(label, kept.get(entry["label"])) & _known(values, kept.get(attribute))
    x = features(table, options, rows)
    classes, label_codes = np.unique(label[fine], return_inverse=True)
    names, value_codes = np.unique(values[fine], return_inverse=True)
    counts = np.zeros((len(classes), len(names)))
    np.add.at(counts, (label_codes, value_codes), 1)
    share = counts / counts.sum(axis=1, keepdims=True)
    matched = (share - share.mean(axis=0)).argmax(axis=0)  # the class that shows a value most
    law = np.full(counts.shape, (1 - strength) / len(names))
    for value_code, class_code in enumerate(matched):
        law[class_code, value_code] += strength / max((matched == class_code).sum(), 1)
    laws = {"tied": law / law.sum(), "even": np.full(counts.shape, 1 / counts.size)}
    draw, costs = np.random.default_rng(7), []
    positions = np.flatnonzero(fine)
    for _ in range(REPEATS):
        accuracy = _accuracies(x, positions, label_codes, value_codes, counts, laws, draw)
        costs.append(accuracy["tied"] - accuracy["even"])
    mean, half = float(np.mean(costs)), float(stats.t.ppf(0.975, REPEATS - 1) * stats.sem(costs))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _attribute(entry: Mapping[str, Any]) -> str:
    """The attribute of an entry of a study's data."""
    attributes = entry["attributes"]
    return str(next(iter(attributes.values())) if isinstance(attributes, dict) else attributes[0])


def _classes(rows: polars.DataFrame, name: str, options: Mapping[str, Any]) -> NDArray[Any]:
    """The values of a column, numbers put into the study's classes; "" for none."""
    cuts = options.get("bins", {}).get(name)
    if cuts:
        numbers = rows[name].cast(polars.Float64).to_numpy()
        return np.where(
            np.isnan(numbers), "", np.searchsorted(cuts, numbers, side="right").astype(str)
        )
    return rows[name].cast(polars.String).fill_null("").to_numpy().astype(str)


def _known(values: NDArray[Any], kept: Sequence[str] | None) -> NDArray[np.bool_]:
    known = values != ""
    return known if kept is None else known & np.isin(values, [str(value) for value in kept])


def _accuracies(
    x: Any,
    positions: NDArray[np.int64],
    label: NDArray[np.int64],
    value: NDArray[np.int64],
    counts: NDArray[np.float64],
    laws: Mapping[str, NDArray[np.float64]],
    draw: np.random.Generator,
) -> dict[str, float]:
    """The accuracy on rows that are even over the cells after training on as many rows of each
    law."""
    cell = label * counts.shape[1] + value
    order = draw.permutation(len(cell))
    n_test = max(1, min(50, int(counts.min()) // 3))
    rank = np.empty(len(cell), dtype=int)
    for code in range(counts.size):
        of_cell = order[cell[order] == code]
        rank[of_cell] = np.arange(len(of_cell))
    test, left = np.flatnonzero(rank < n_test), counts.ravel() - n_test
    total = min(np.floor(min(left / np.maximum(law.ravel(), 1e-9))) for law in laws.values())
    accuracies = {}
    for name, law in laws.items():
        take = np.round(law.ravel() * total).astype(int)
        train = np.flatnonzero((rank >= n_test) & (rank < n_test + take[cell]))
        model = _model(x).fit(x[positions[train]], label[train])
        accuracies[name] = float((model.predict(x[positions[test]]) == label[test]).mean())
    return accuracies


def _model(x: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    if not isinstance(x, np.ndarray):
        return LogisticRegression(max_iter=1000)
    return HistGradientBoostingClassifier(max_iter=60, early_stopping=False)


def compared(table: Path, label: str | None, out: Path) -> Iterator[dict[str, Any]]:
    """A row for each attribute of a table: our cost, scikit-learn's, and whether their signs
    agree."""
    result = studied(table, label, out)
    for name, cost in result["costs"].items():
        entry = result["study"]["data"][name]
        strength = result["study"]["shifts"]["SC"]["strength"]
        strength = strength[_attribute(entry)] if isinstance(strength, dict) else strength
        own = own_cost(table, entry["options"], entry, strength)
        sure = own["low"] > 0 or own["high"] < 0
        ours = cost["difference"]
        yield {
            "table": table.name,
            "label": entry["label"],
            "attribute": name,
            "rows": polars.read_csv(table, infer_schema=False).height,
            "cost": round(ours, 4),
            "told": cost["told"],
            "scikit-learn": {key: round(value, 4) for key, value in own.items()},
            "sure": sure,
            "agrees": not sure or bool(np.sign(own["mean"]) == np.sign(ours)),
            "seconds": result["seconds"],
            "answer": next((line for line in result["answers"] if f"With {name} tied" in line), ""),
        }


# -- planted marks ---------------------------------------------------------------------------------


def marked(
    table: Path, label: str, number: int, visible: bool, out: Path
) -> tuple[Path, str, polars.DataFrame]:
    """Write a table with a mark; its path, kind ("columns", "texts" or "pictures") and rows.

    A visible mark goes with the label in 95% of the rows, and a model can see it: as a column of a
    table without pictures and texts, as a header of each text, as a patch of each picture. An
    invisible one is a column that is tied to nothing and that no model reads; of a table without
    pictures and texts, where a model reads every column, the labels are dealt anew by chance.
    """
    draw = np.random.default_rng(number)
    names = dict.fromkeys(("id", "file"), polars.String)  # 00012 is a name and no number
    rows = polars.read_csv(table, infer_schema_length=None, schema_overrides=names)
    rows = rows.filter(rows[label].is_not_null())
    # An id names a picture where a folder of pictures lies beside the table.
    pictures = table.with_suffix("").is_dir() and {"id", "file"} & {*rows.columns}
    kind = "pictures" if pictures else "columns"
    kind = "texts" if "text" in rows.columns else kind
    if kind != "columns":
        rows = rows.sample(min(rows.height, 4000 if kind == "pictures" else 3000), seed=number)
    classes = rows[label].cast(polars.String).to_numpy()
    first = np.isin(classes, np.unique(classes)[: max(1, len(np.unique(classes)) // 2)])
    follows = draw.random(rows.height) < (0.95 if visible else 0.5)
    mark = np.where(follows, first, ~first)
    scanner = polars.Series("scanner", np.where(mark, "A", "B"))
    if not visible and kind == "columns":
        rows = rows.with_columns(rows[label].shuffle(seed=number))
    elif not visible:
        named = [name for name in ("id", "file", "text") if name in rows.columns]
        rows = rows.select(*named, label)
    rows = rows.with_columns(scanner)
    folder = out.parent / f"{table.stem}-{number}-{'mark' if visible else 'none'}-table"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.csv"
    if kind == "texts" and visible:
        # A header of ten words: one word alone among hundreds tells a small network nothing.
        words = np.where(mark, "read by scannera " * 3, "seen on scannerb " * 3)
        rows = rows.with_columns((polars.Series(words) + rows["text"]).alias("text"))
    if kind == "pictures":
        rows = _with_patches(rows, table.parent, folder, mark if visible else None)
    rows.write_csv(path)
    return path, kind, rows


def screened(table: Path, label: str, number: int, out: Path) -> dict[str, Any]:
    """What the visible mark of a table costs scikit-learn, and whether its models lean on it."""
    path, kind, rows = marked(table, label, number, True, out)
    others = [name for name in rows.columns if name not in ("", label)]
    options: dict[str, Any] = {"categories": others}
    if kind == "columns":
        numbers = [name for name in others if rows[name].dtype.is_numeric()]
        options = {
            "numbers": numbers,
            "categories": [name for name in others if name not in numbers],
        }
    elif kind == "texts":
        options = {"text": "text"}
    else:
        options = {"images": ".", "path_column": "id" if "id" in rows.columns else "file"}
    entry = {"label": label, "attributes": ["scanner"]}
    cost = {"mean": 0.0, "low": 0.0, "high": 0.0}
    if _smallest_cell(rows, label) >= 6:  # else no training set of this strength has a row
        cost = own_cost(path, options, entry, strength=0.9)
    return {
        "table": table.name,
        "label": label,
        "kind": kind,
        "number": number,
        "planted": True,
        "rows": rows.height,
        "scikit-learn": {key: round(value, 4) for key, value in cost.items()},
        "leaned upon": cost["high"] < 0,
    }


def _smallest_cell(rows: polars.DataFrame, label: str) -> int:
    """Rows of the smallest cell of the label and the mark; 0 where one is empty."""
    counts = rows.filter(rows[label].is_not_null()).group_by(label, "scanner").len()["len"]
    n_cells = rows[label].drop_nulls().n_unique() * 2
    return int(counts.min()) if len(counts) == n_cells else 0  # type: ignore[arg-type]


def planted(table: Path, label: str, number: int, visible: bool, out: Path) -> dict[str, Any]:
    """What the three commands say of a table with a mark, see `marked`."""
    path, kind, _ = marked(table, label, number, visible, out)
    result = studied(path, label, out)
    costs = {name: cost["difference"] for name, cost in result["costs"].items()}
    told = {name: cost["told"] for name, cost in result["costs"].items()}
    first_named = min(costs, key=lambda name: (not told[name], costs[name])) if costs else ""
    entry = result["study"]["data"].get("scanner")
    independent = {"mean": 0.0, "low": 0.0, "high": 0.0}
    if entry is not None:
        strength = result["study"]["shifts"]["SC"]["strength"]
        strength = strength["scanner"] if isinstance(strength, dict) else strength
        independent = own_cost(path, entry["options"], entry, strength)
    return {
        "table": table.name,
        "kind": kind,
        "number": number,
        "planted": visible,
        "cost": round(costs.get("scanner", 0.0), 4),
        "told": told.get("scanner", False),
        "first": first_named,
        "scikit-learn": {key: round(value, 4) for key, value in independent.items()},
        "leaned upon": independent["high"] < 0,
        "accuracies told": result["told"],
        "answer": next(iter(result["answers"]), ""),
        "seconds": result["seconds"],
    }


def _with_patches(
    rows: polars.DataFrame, source: Path, folder: Path, mark: NDArray[np.bool_] | None
) -> polars.DataFrame:
    """The rows with pictures of their own, a patch in a corner of each that says its mark."""
    from PIL import Image

    column = "id" if "id" in rows.columns else "file"
    files = {file.stem: file for file in source.rglob("*.png")}
    names = []
    for position, name in enumerate(rows[column].cast(polars.String)):
        file = next(
            (source / top / name for top in ("", "digits") if (source / top / name).is_file()), None
        )
        with Image.open(file if file is not None else files[Path(name).stem]) as opened:
            picture = opened.convert("RGB")
        if mark is not None:
            side = max(4, picture.width // 5)
            picture.paste((255, 0, 0) if mark[position] else (0, 0, 255), (0, 0, side, side))
        picture.save(folder / f"{position}.png")
        names.append(f"{position}.png")
    return rows.with_columns(polars.Series(column, names))


def main() -> None:
    """Read the arguments, run all tables, print a line each and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", default="")
    parser.add_argument("--planted", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first planted table")
    parser.add_argument("--invisible", action="store_true")
    parser.add_argument(
        "--screen", action="store_true", help="scikit-learn alone, of marked tables"
    )
    parser.add_argument("--work", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    work = (chosen.work or folder / "own-tables").resolve()
    work.mkdir(parents=True, exist_ok=True)
    named = [word.partition("=") for word in chosen.tables.split(",") if word]
    tables = named or [(path.stem, "", "") for path in sorted(folder.glob("*.csv"))]
    done = _done(chosen.out)
    if chosen.screen:
        for number, (stem, _, label) in enumerate(tables):
            if f"{stem}.csv" not in {row["table"] for row in done}:
                out = work / f"{stem}-{number}-mark"
                _add(done, [screened(folder / f"{stem}.csv", label, number, out)], chosen.out)
    elif chosen.planted:
        visible = not chosen.invisible
        for number in range(chosen.first, chosen.planted):
            stem, _, label = tables[number % len(tables)]
            if (f"{stem}.csv", number, visible) in {_case(row) for row in done}:
                continue
            out = work / f"{stem}-{number}-{'mark' if visible else 'none'}"
            _add(done, [_tried(folder / f"{stem}.csv", label, number, visible, out)], chosen.out)
    else:
        for stem, _, label in tables:
            if f"{stem}.csv" not in {row["table"] for row in done}:
                rows = list(compared(folder / f"{stem}.csv", label or None, work / stem))
                _add(done, rows, chosen.out)


def _done(out: Path | None) -> list[dict[str, Any]]:
    """The results that a file has already: a stopped command goes on behind them."""
    if out is None or not out.is_file():
        return []
    rows: list[dict[str, Any]] = json.loads(out.read_text())
    return rows


def _case(row: Mapping[str, Any]) -> tuple[str, int, bool]:
    return row["table"], row["number"], row["planted"]


def _tried(table: Path, label: str, number: int, visible: bool, out: Path) -> dict[str, Any]:
    """See `planted`; a table that is refused is a result too."""
    try:
        return planted(table, label, number, visible, out)
    except RuntimeError as error:
        case = {"table": table.name, "number": number, "planted": visible}
        return {**case, "refused": str(error)}


def _add(done: list[dict[str, Any]], rows: list[dict[str, Any]], out: Path | None) -> None:
    """Print results and write them behind those that are there."""
    done += rows
    for row in rows:
        print(json.dumps(row), flush=True)
    if out is not None:
        out.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

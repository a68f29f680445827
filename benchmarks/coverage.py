"""How often 90% intervals of estimated accuracies hold the accuracy, and how wide they are, on shifts that they did not learn from.

    python benchmarks/coverage.py --pools DIR [--networks explore|confirm] [--rows N] [--json FILE]

`benchmarks/pools.py` writes the pools. Every network is on its own and has its own draw of rows: its estimator learns from its
labelled source, and its interval from that source under the changes of `POOL`, without the family of the target. Targets are other
rows, clean and under 19 corruptions at severities 1, 3 and 5, and natural shifts: MNIST to USPS and to scikit-learn's digits; the
rows of CIFAR-10 of which people doubt; two renditions of PACS to the two others. `explore` are the networks 0, 3, 6, ... and those
that others trained (`given`): they chose how intervals are made. `confirm` are numbers above 44 that are no multiples of 3; they
decided one thing: that `average-confidence` shows none. Intervals are measured of estimators that do not show theirs, too. Strength
is that of synthetic shifts, by the accuracy that they cost: weak below 0.05, strong from 0.2.

Shares are given with intervals clustered by network (`crosswind.evaluation.pools`). Goal: 85 to 97%, three direct estimators with a
median width of at most 0.25. An estimator below 85% under strong or natural shifts says so in `no_pool_interval`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from crosswind.core.registry import listing, load
from crosswind.estimators import estimating
from crosswind.estimators.base import Answers, Labelled

NEAR = "ni-randaugment"
Asked: TypeAlias = "tuple[str, float, Labelled, Labelled]"


def networks(folder: Path, which: str) -> Iterator[tuple[int, dict[str, Any], list[Asked]]]:
    """Number, what is told of it, and all sets of every network that is for exploring or for confirming and was not discarded."""
    for path in sorted(folder.glob("[0-9][0-9][0-9].npz")):
        number = int(path.stem)
        if folder.name != "given" and which != ("explore" if number % 3 == 0 else "confirm" if number > 44 else ""):
            continue
        with np.load(path, allow_pickle=False) as said:
            said = {key: said[key] for key in said.files}
        about = json.loads(str(said["about"]))
        if not about["discarded"]:
            yield number, about, list(sets_of(said, about["neighbourhood"]))


def sets_of(said: dict[str, np.ndarray], neighbourhood: str) -> Iterator[Asked]:
    """Role, severity, the set, and its first rows with their neighbours."""
    logits, n_near = said["logits"].astype(np.float32), 10
    place = first = 0
    for role, family, severity, near, n in zip(*(said[key] for key in ("role", "family", "severity", "near", "rows")), strict=True):
        label = said["label"][first : first + n]
        own = logits[place : place + n]
        around = logits[place + n : place + n + near * n_near].argmax(1).reshape(near, n_near)
        answers = Answers(own.argmax(1), own)
        votes = {neighbourhood: np.concatenate([answers.answer[:near, None], around], axis=1)} if near else {}
        name = f"{family} {severity:g}"
        whole = Labelled(answers, label, name, str(family))
        part = Labelled(Answers(answers.answer[:near], own[:near], neighbours=votes), label[:near], name, str(family))
        yield str(role), float(severity), whole, part
        place, first = place + n + near * n_near, first + n


def measured(folder: Path, which: str, rows: int = 0) -> Iterator[dict[str, Any]]:
    """A row an estimator, network and target. `rows`: of a target, 0 for all that there are."""
    setattr(estimating, "label_shift", lambda source, target: ())  # noqa: B010 - a warning, which takes most of the time and is not read here
    made = {}
    for known in listing("estimators"):
        access = known.access
        if access is not None and access.models == 1 and not access.features and not access.weights:
            made[known.name] = load("estimators", known.name)()
            type(made[known.name]).no_pool_interval = ""
    for number, about, sets in networks(folder, which):
        for name, estimator in made.items():
            near = estimator.access.neighbourhood
            if near and near != about["neighbourhood"]:
                continue
            chosen = [(role, severity, part if near else whole) for role, severity, whole, part in sets]
            source = next(item for role, _, item in chosen if role == "source")
            prepared = estimating.Prepared(estimator, source, [item for role, _, item in chosen if role == "pool"])
            for role, severity, item in chosen:
                if role not in ("test", "natural"):
                    continue
                if rows:
                    item = item.take(np.arange(min(rows, len(item.label))))
                found = prepared(item.answers, without=item.family)
                row = {"pool": folder.name, "network": f"{folder.name} {number}", "architecture": about["model"], "estimator": name}
                row |= {"role": role, "family": item.family, "severity": severity, "accuracy": item.accuracy}
                row |= {"source": source.accuracy, "n": len(item.label)}
                if isinstance(found, str):
                    yield {**row, "refused": found}
                else:
                    yield {**row, "estimate": found.accuracy, "low": found.low, "high": found.high}


def _listed(folder: Path, which: str, rows: int) -> list[dict[str, Any]]:
    return list(measured(folder, which, rows))


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per estimator and kind of target: pairs, mean absolute error, share covered with its interval, median width."""
    from polars import DataFrame, col

    frame = DataFrame(rows, infer_schema_length=None)
    frame = frame.with_columns(
        (col("estimate") - col("accuracy")).abs().alias("error"),
        (col("estimate") - col("accuracy")).alias("bias"),
        ((col("low") <= col("accuracy")) & (col("accuracy") <= col("high"))).cast(float).alias("covered"),
        (col("high") - col("low")).alias("width"),
    )
    drop = col("source") - col("accuracy")
    strength = {"weak": drop < 0.05, "middle": (drop >= 0.05) & (drop < 0.2), "strong": drop >= 0.2}
    kinds = {"all": col("role") != "", "synthetic": (col("role") == "test") & (col("family") != "clean")}
    strength = {name: chosen & (col("role") == "test") for name, chosen in strength.items()}
    kinds |= {
        "natural": col("role") == "natural",
        **{f"{pool}, natural": (col("role") == "natural") & (col("pool") == pool) for pool in sorted(set(frame["pool"]))},
        **strength,
    }
    random, out = np.random.default_rng(0), []
    for name in frame["estimator"].unique(maintain_order=True):
        for kind, chosen in kinds.items():
            part = frame.filter((col("estimator") == name) & chosen & col("low").is_not_null())
            if not len(part):
                continue
            by = part.group_by("network").agg(col("covered").sum(), col("n").len().alias("pairs"))
            held, pairs = by["covered"].to_numpy(), by["pairs"].to_numpy()
            draws = random.integers(len(by), size=(1000, len(by)))
            low, high = np.quantile(held[draws].sum(1) / pairs[draws].sum(1), [0.05, 0.95])
            told = {"estimator": name, "targets": kind, "networks": len(by), "pairs": len(part)}
            told |= {"mae": part["error"].mean(), "bias": part["bias"].mean(), "covered": part["covered"].mean()}
            out.append({**told, "covered_low": float(low), "covered_high": float(high), "width": part["width"].median()})
    return out


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--networks", choices=("explore", "confirm"), default="confirm")
    parser.add_argument("--rows", type=int, default=0, help="of a target, 0 for all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="folders of DIR, all by default")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pools = options.only or sorted(item.name for item in options.pools.iterdir())
    pools = [name for name in pools if not (name == "given" and options.networks == "confirm")]
    with ProcessPoolExecutor(options.workers) as workers:
        asked = [workers.submit(_listed, options.pools / pool, options.networks, options.rows) for pool in pools]
        rows = [row for item in asked for row in item.result()]
    refused = [row for row in rows if "refused" in row]
    found = table([row for row in rows if "refused" not in row])
    for row in found:
        ends, counts = (
            f"({row['covered_low']:.3f}-{row['covered_high']:.3f})",
            f"{row['networks']:3} networks {row['pairs']:5} pairs",
        )
        errors = f"error {row['mae']:.3f} ({row['bias']:+.3f})"
        covered = f"covered {row['covered']:.3f} {ends}  width {row['width']:.3f}"
        print(f"{row['estimator']:26} {row['targets']:15} {counts}  {errors}  {covered}")
    for name in dict.fromkeys(row["estimator"] for row in refused):
        own = [row["refused"] for row in refused if row["estimator"] == name]
        print(f"{name}: {len(own)} refused, such as: {own[0]}")
    if options.json:
        options.json.write_text(json.dumps({"networks": options.networks, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

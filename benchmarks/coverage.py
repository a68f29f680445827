"""How often 90% intervals of estimated accuracies hold the accuracy, and how wide they are, on shifts that they did not learn from.

    python benchmarks/coverage.py --pools DIR [--networks explore|confirm] [--json FILE]

`benchmarks/pools.py` writes the pools. Every network is on its own: its estimator learns from its labelled source, and its interval
from that source under the changes of
`POOL`, without the family of the target. Targets are other rows, clean and under 19 corruptions at severities 1, 3 and 5, and
natural shifts: MNIST to USPS and to scikit-learn's digits; the rows of CIFAR-10 of which people doubt; and both of MNIST's for
networks that others trained (`given`). Networks 0, 3, 6, ... are for exploring, the others for confirming. The recorded ones are
those of `given`, and of either other pool the numbers 31 to 44 that are no multiples of 3, without neighbours; of CIFAR-10's
residual networks none, which take long. Intervals are measured of estimators that do not show theirs, too. Strength is that of
synthetic shifts, by the accuracy that they cost: weak below 0.05, strong from 0.2.

Shares are given with intervals clustered by network (`crosswind.evaluation.pools`). Goal: 85 to 97%, three direct estimators with a
median width of at most 0.25. An estimator below 85% under strong or natural shifts says so in `no_pool_interval`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from crosswind.core.registry import listing, load
from crosswind.estimators.base import Answers, Labelled
from crosswind.estimators.estimating import Prepared

NEAR = "ni-randaugment"


def sets_of(logits: np.ndarray, index: Any) -> Iterator[tuple[str, float, Labelled, Labelled]]:
    """Role, severity, the set, and its first rows with their neighbours."""
    n_near = 10
    place = first = 0
    for role, family, severity, near, n in zip(
        *(index[key] for key in ("role", "family", "severity", "near", "rows")), strict=True
    ):
        label = index["label"][first : first + n]
        own = logits[place : place + n]
        around = logits[place + n : place + n + near * n_near].argmax(1).reshape(near, n_near)
        said = Answers(own.argmax(1), own)
        votes = {NEAR: np.concatenate([said.answer[:near, None], around], axis=1)}
        name = f"{family} {severity:g}"
        whole = Labelled(said, label, name, str(family))
        part = Labelled(Answers(said.answer[:near], own[:near], neighbours=votes), label[:near], name, str(family))
        yield str(role), float(severity), whole, part
        place, first = place + n + near * n_near, first + n


def measured(folder: Path, which: str) -> Iterator[dict[str, Any]]:
    """A row an estimator, network and target."""
    with np.load(folder / "index.npz", allow_pickle=False) as index:
        index = {key: index[key] for key in index.files}
    made = {}
    for known in listing("estimators"):
        access = known.access
        if access is not None and access.models == 1 and not access.features and not access.weights:
            if not access.neighbourhood or access.neighbourhood == NEAR and index["near"].any():
                made[known.name] = load("estimators", known.name)()
                type(made[known.name]).no_pool_interval = ""
    for path in sorted(folder.glob("[0-9][0-9][0-9].npz")):
        number = int(path.stem)
        if folder.name != "given" and (number % 3 == 0) != (which == "explore"):
            continue
        with np.load(path, allow_pickle=False) as said:
            logits, about = said["logits"].astype(np.float32), json.loads(str(said["about"]))
        if about["discarded"]:
            continue
        sets = list(sets_of(logits, index))
        for name, estimator in made.items():
            near = bool(estimator.access.neighbourhood)
            chosen = [(role, severity, part if near else whole) for role, severity, whole, part in sets]
            source = next(item for role, _, item in chosen if role == "source")
            prepared = Prepared(estimator, source, [item for role, _, item in chosen if role == "pool"])
            for role, severity, item in chosen:
                if role not in ("test", "natural"):
                    continue
                found = prepared(item.answers, without=item.family)
                row = {"pool": folder.name, "network": f"{folder.name} {number}", "architecture": about["model"], "estimator": name}
                row |= {"role": role, "family": item.family, "severity": severity, "accuracy": item.accuracy}
                row |= {"source": source.accuracy, "n": len(item.label)}
                if isinstance(found, str):
                    yield {**row, "refused": found}
                else:
                    yield {**row, "estimate": found.accuracy, "low": found.low, "high": found.high}


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
        "given, natural": (col("role") == "natural") & (col("pool") == "given"),
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
    parser.add_argument("--only", nargs="*", default=["mnist", "cifar", "given"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pools = [name for name in options.only if not (name == "given" and options.networks == "explore")]
    rows = [row for pool in pools for row in measured(options.pools / pool, options.networks)]
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

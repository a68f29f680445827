"""How often 90% intervals of estimated accuracies hold the accuracy, and how wide they are, on
shifts that they did not learn from.

    python -m benchmarks.papers.interval_coverage --pools DIR [--networks explore|confirm] [--json FILE]

`benchmarks/papers/pools.py` writes the pools. Every network is on its own and has its own draw of rows:
its estimator learns from its labelled source, and its interval from that source under the changes
of `POOL`, without the family of the target. Targets are other rows under `CHANGES` of 19
corruptions at severities 1, 3 and 5, and natural shifts: MNIST to USPS and to scikit-learn's
digits; the rows of CIFAR-10 of which people doubt; two renditions of PACS to the two others.
*labels* are clean rows whose labels have shifted, by .1 to .7 of them, drawn by Dirichlet shares,
with a class left out or with one raised; *both*, corrupted rows whose labels have. *believed* is
the estimator that `crosswind estimate` would name for that target: of those that show their
interval, the one that erred least on the pool.

`explore` are the networks 0, 3, 6, ... and the even ones by others (`given`): they chose how
intervals are made, how a pool shows shifts of labels and when there is a doubt. `confirm` are
numbers above 89 that are no multiples of 3, and the odd ones by others, whose answers to
corruptions alone chose FLOOR and BANDWIDTH of `intervals.py` earlier. Of `pools.py` those in
`results/` are mnist 91, 92, 94, 95, 98 and 101, cifar 92, 94, 97 and 100, number 94 of every pair
of renditions, and `given`. Intervals are measured of estimators that do not show theirs, too.
Strength is that of synthetic shifts without a shift of labels, by the accuracy that they cost: weak
below 0.05, strong from 0.2.

Shares are given with intervals clustered by network (`crosswind.evaluation.pools`). `wrong`: pairs
in which the estimate errs by more than 10 points; `warned`: of these, those with a doubt (`DOUBT`)
or the finding of a shift of labels; `false`: of the others. Goal: 85 to 97%; believed under a shift
of labels within 4 points; 60% of the strong shifts that are wrong warned of. An estimator below 85%
under strong or natural shifts says so in `no_pool_interval`.
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
from crosswind.estimators.base import Answers, Estimate, Labelled
from crosswind.estimators.estimating import PreparedEstimate
from crosswind.estimators.intervals import DOUBT
from crosswind.estimators.label_shift import fitted_shares

NEAR = "ni-randaugment"
CHANGES, LABELS, BOTH = 24, 14, 14
"""Targets of a network, of each kind; natural ones are all that there are."""
DRAWN = 500
"""Rows whose labels have shifted."""
Asked: TypeAlias = "tuple[str, float, Labelled, Labelled]"


def networks(folder: Path, which: str) -> Iterator[tuple[int, dict[str, Any], list[Asked]]]:
    """Number, what is told of it, and all sets of every network that is for exploring or for
    confirming and was not discarded."""
    for path in sorted(folder.glob("[0-9][0-9][0-9].npz")):
        number = int(path.stem)
        if folder.name != "given" and which != (
            "explore" if number % 3 == 0 else "confirm" if number > 44 else ""
        ):
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
    for role, family, severity, near, n in zip(
        *(said[key] for key in ("role", "family", "severity", "near", "rows")), strict=True
    ):
        label = said["label"][first : first + n]
        own = logits[place : place + n]
        around = logits[place + n : place + n + near * n_near].argmax(1).reshape(near, n_near)
        answers = Answers(own.argmax(1), own)
        votes = (
            {neighbourhood: np.concatenate([answers.answer[:near, None], around], axis=1)}
            if near
            else {}
        )
        name = f"{family} {severity:g}"
        whole = Labelled(answers, label, name, str(family))
        part = Labelled(
            Answers(answers.answer[:near], own[:near], neighbours=votes),
            label[:near],
            name,
            str(family),
        )
        yield str(role), float(severity), whole, part
        place, first = place + n + near * n_near, first + n


def other_labels(item: Labelled, share: float, kind: int, random: np.random.Generator) -> Labelled:
    """Rows drawn so that about this share of the labels lies in other classes than before."""
    k = item.answers.classes
    before = np.bincount(item.label, minlength=k) / len(item.label)
    for _ in range(200):
        if kind == 0:
            other = random.dirichlet(np.ones(k) * random.choice([0.3, 1, 3])) * (before > 0)
        else:
            other = before.copy()
            other[random.integers(k)] += 1 if kind == 1 else -before.min()
            for code in (
                random.permutation(k)[: int(random.integers(1, max(2, k // 2)))]
                if kind == 2
                else ()
            ):
                other[code] = 0
        other = other / other.sum() if other.sum() > 0 else before
        far = 0.5 * np.abs(other - before).sum()
        if far >= share:
            before = before + share / far * (other - before)
            break
    counts = random.multinomial(
        min(DRAWN, len(item.label)), np.maximum(before, 0) / np.maximum(before, 0).sum()
    )
    rows = [
        random.choice(np.flatnonzero(item.label == code), size=n)
        for code, n in enumerate(counts)
        if n
    ]
    return item.take(np.concatenate(rows))


def targets_of(
    sets: list[Asked], random: np.random.Generator
) -> Iterator[tuple[str, float, Labelled]]:
    """Role, severity and rows of every target of a network."""
    clean = next(whole for role, _, whole, _ in sets if role == "test" and whole.family == "clean")
    changed = [
        (severity, whole)
        for role, severity, whole, _ in sets
        if role == "test" and whole.family != "clean"
    ]
    yield "test", 0, clean
    for place in random.permutation(len(changed))[:CHANGES]:
        yield "test", *changed[place]
    for role, severity, whole, _ in sets:
        if role == "natural":
            yield role, severity, whole
    shares = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    for place in range(LABELS):
        yield "labels", 0, other_labels(clean, shares[place % 7], place % 3, random)
    for place, which in enumerate(random.permutation(len(changed))[:BOTH]):
        yield (
            "both",
            changed[which][0],
            other_labels(changed[which][1], shares[place % 7], place % 3, random),
        )


def measured(folder: Path, which: str) -> Iterator[dict[str, Any]]:
    """A row an estimator, network and target, and one for the estimator that is believed there."""
    made, shows = {}, {}
    for known in listing("estimators"):
        access = known.access
        if (
            access is not None
            and access.models == 1
            and not access.features
            and not access.weights
            and not access.neighbourhood
        ):
            made[known.name] = load("estimators", known.name)()
            shows[known.name] = not type(made[known.name]).no_pool_interval
            type(made[known.name]).no_pool_interval = ""
    for number, about, sets in networks(folder, which):
        if not _asked(folder.name, number, which):
            continue
        source = next(whole for role, _, whole, _ in sets if role == "source")
        pool = [whole for role, _, whole, _ in sets if role == "pool"]
        learned = {
            name: PreparedEstimate(estimator, source, pool) for name, estimator in made.items()
        }
        for role, severity, item in targets_of(
            sets, np.random.default_rng([number, *folder.name.encode()])
        ):
            row = {
                "pool": folder.name,
                "network": f"{folder.name} {number}",
                "architecture": about["model"],
                "role": role,
            }
            row |= {
                "family": item.family,
                "severity": severity,
                "accuracy": item.accuracy,
                "source": source.accuracy,
            }
            shift = fitted_shares(source, item.answers)
            row |= {"n": len(item.label), "told": shift is not None and shift.told}
            best: tuple[float, dict[str, Any]] | None = None
            for name, prepared in learned.items():
                found = prepared(item.answers, without=item.family)
                own = {**row, "estimator": name, **_told(found)}
                yield own
                error = (
                    prepared.pool_error(item.answers, without=item.family)
                    if isinstance(found, Estimate)
                    else None
                )
                if shows[name] and error is not None and (best is None or error < best[0]):
                    best = error, own
            if best is not None:
                yield {**best[1], "estimator": "believed", "which": best[1]["estimator"]}


def _asked(pool: str, number: int, which: str) -> bool:
    """Whether a network that `networks` names has had no part in a choice, or is one that has, as
    is asked for."""
    if pool == "given":
        return number % 2 == (which == "confirm")
    pictures = pool in ("mnist", "cifar") or pool.startswith("pacs-")
    return which == "explore" or not pictures or number >= 90


def _told(found: Estimate | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"refused": found}
    doubt = any(text.startswith(DOUBT) for text in found.warnings)
    return {"estimate": found.accuracy, "low": found.low, "high": found.high, "doubt": doubt}


def _listed(folder: Path, which: str) -> list[dict[str, Any]]:
    return list(measured(folder, which))


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per estimator and kind of target: pairs, mean absolute error, share covered with its
    interval, median width."""
    from polars import DataFrame, col

    frame = DataFrame(rows, infer_schema_length=None)
    frame = frame.with_columns(
        (col("estimate") - col("accuracy")).abs().alias("error"),
        (col("estimate") - col("accuracy")).alias("bias"),
        ((col("low") <= col("accuracy")) & (col("accuracy") <= col("high")))
        .cast(float)
        .alias("covered"),
        (col("high") - col("low")).alias("width"),
    )
    drop = col("source") - col("accuracy")
    strength = {"weak": drop < 0.05, "middle": (drop >= 0.05) & (drop < 0.2), "strong": drop >= 0.2}
    kinds = {
        "all": col("role").is_in(["test", "natural"]),
        "synthetic": (col("role") == "test") & (col("family") != "clean"),
    }
    strength = {name: chosen & (col("role") == "test") for name, chosen in strength.items()}
    strength |= {
        f"{pool}, {name}": strength[name] & (col("pool") == pool)
        for pool in sorted(set(frame["pool"]))
        for name in ("middle", "strong")
    }
    kinds |= {"labels": col("role") == "labels", "both": col("role") == "both"}
    kinds |= {
        f"{pool}, labels": (col("role") == "labels") & (col("pool") == pool)
        for pool in sorted(set(frame["pool"]))
    }
    kinds |= {
        "labels, told": (col("role") == "labels") & col("told"),
        "strong or natural": strength["strong"] | (col("role") == "natural"),
    }
    kinds |= {
        "natural": col("role") == "natural",
        **{
            f"{pool}, natural": (col("role") == "natural") & (col("pool") == pool)
            for pool in sorted(set(frame["pool"]))
        },
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
            told |= {
                "mae": part["error"].mean(),
                "bias": part["bias"].mean(),
                "covered": part["covered"].mean(),
            }
            wrong, warned = part["error"] > 0.1, part["doubt"] | part["told"]
            told |= {
                "wrong": int(wrong.sum()),
                "warned": warned.filter(wrong).mean(),
                "false": warned.filter(~wrong).mean(),
            }
            told |= {
                "doubted": part["doubt"].filter(wrong).mean(),
                "doubted_false": part["doubt"].filter(~wrong).mean(),
            }
            out.append(
                {
                    **told,
                    "covered_low": float(low),
                    "covered_high": float(high),
                    "width": part["width"].median(),
                }
            )
    return out


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--networks", choices=("explore", "confirm"), default="confirm")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="folders of DIR, all by default")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pools = options.only or sorted(item.name for item in options.pools.iterdir())
    with ProcessPoolExecutor(options.workers) as workers:
        asked = [workers.submit(_listed, options.pools / pool, options.networks) for pool in pools]
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
        warned = (
            "" if row["warned"] is None else f"  warned {row['warned']:.2f} of {row['wrong']} wrong"
        )
        false = (
            ""
            if row["false"] is None
            else f", {row['false']:.2f} of the others (doubts {row['doubted_false']:.2f})"
        )
        print(
            f"{row['estimator']:26} {row['targets']:18} {counts}  {errors} "
            f" {covered}{warned}{false}"
        )
    for name in dict.fromkeys(row["estimator"] for row in refused):
        own = [row["refused"] for row in refused if row["estimator"] == name]
        print(f"{name}: {len(own)} refused, such as: {own[0]}")
    if options.json:
        kept = [
            row
            for row in found
            if "," not in row["targets"]
            or "told" in row["targets"]
            or row["estimator"] == "believed"
        ]
        kept = [
            {
                key: round(value, 4) if isinstance(value, float) else value
                for key, value in row.items()
            }
            for row in kept
        ]
        lines = ",\n".join(json.dumps(row) for row in kept)
        options.json.write_text(f'{{"networks": "{options.networks}", "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()

"""Tables 2b and 8 of Ng et al. 2022 on the pools of `pools.py`: how each measure and estimator
ranks networks and tells accuracies.

    python -m benchmarks.papers.judge_pools --pools DIR [--json FILE]

Networks for exploring are left out, as in `interval_coverage.py`. Every pool has one training domain, so
there is no micro tau. Lines are fitted on the other test sets; "in sample" on the set itself, which
takes its labels. The claim that neighbourhood invariance ranks networks better than ATC is judged
by the difference of macro tau, by drawing networks anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.papers.interval_coverage import NEAR, networks

from crosswind.core.registry import load
from crosswind.estimators.base import Answers
from crosswind.evaluation.points import Point
from crosswind.evaluation.pools import comparisons, judge

DIRECT = (
    "atc-mc",
    "atc-ne",
    "average-confidence",
    "difference-of-confidences",
    "cot",
    "cott",
    "cbpe",
)
MEASURES = ("nuclear-norm", "mutual-information", "mano", "energy")


def points(folder: Path) -> dict[str, list[Point]]:
    """By measure or estimator, a point a network and set; the clean test rows are the training
    domain."""
    found: dict[str, list[Point]] = {}
    for number, _, sets in networks(folder, "confirm"):
        source = next(whole for role, _, whole, _ in sets if role == "source")
        fitted = {name: (made := load("estimators", name)(), made.fit(source)) for name in DIRECT}
        for role, severity, whole, part in sets:
            if role not in ("test", "natural"):
                continue
            name = folder.name if whole.family == "clean" else whole.name
            about_it: dict[str, Any] = {
                "architecture": "all",
                "source": source.accuracy,
                "synthetic": role == "test",
            }
            if role == "test" and severity:
                about_it["severity"] = severity
            for label, value in values(fitted, whole.answers, part.answers):
                accuracy = whole.accuracy
                found.setdefault(label, []).append(
                    Point(f"{number:03}", folder.name, name, value, accuracy, **about_it)
                )
    return found


def values(fitted: dict[str, Any], answers: Answers, near: Answers) -> Iterator[tuple[str, float]]:
    """Every direct estimate and measure of a set."""
    for name, (made, kept) in fitted.items():
        said = made.estimate(kept, answers)
        yield name, float(np.clip(getattr(said, "accuracy", said), 0, 1))
    for name in MEASURES:
        yield name, load("estimators", name)().measure(answers)
    for form in ("largest", "entropy", "agreement"):
        yield f"{NEAR}, {form}", load("estimators", NEAR)(form=form).measure(near)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    out: dict[str, Any] = {}
    for pool in ("mnist", "cifar", "given"):
        found = points(options.pools / pool)
        own: dict[str, Any] = {}
        for name, items in found.items():
            judged = judge(items, estimates=name in DIRECT)
            fit, inside = judged.fits.get("test"), judged.fits.get("in-sample")
            own[name] = {
                "networks": judged.networks,
                "id_tau": _told(judged.id_tau),
                "macro_tau": _told(judged.macro_tau),
            }
            own[name] |= {
                "across_tau": _told(judged.across_tau),
                "r2": _told(fit.r2 if fit else None),
            }
            own[name] |= {
                "mae": _told(fit.mae if fit else None),
                "mae_in_sample": _told(inside.mae if inside else None),
            }
            if "estimate" in judged.fits:
                own[name]["mae_of_estimate"] = _told(judged.fits["estimate"].mae)
        reference = found["atc-mc"]
        others = {
            name: items
            for name, items in found.items()
            if name.startswith(NEAR) or name in ("nuclear-norm", "cott")
        }
        told = {}
        for name, item in comparisons(reference, others, held="test").items():
            tau = item.macro_tau
            told[name] = (
                None
                if tau is None
                else {
                    "macro_tau": [tau.mean, tau.low, tau.high],
                    "level": item.tau_level,
                    "p": tau.p,
                    "holm": item.macro_tau_holm,
                }
            )
        out[pool] = {"numbers": own, "less_atc_mc": told}
        print(f"\n{pool}")
        for name, row in own.items():
            print(f"{name:28} " + "  ".join(f"{key} {_text(value)}" for key, value in row.items()))
        for name, difference in told.items():
            print(f"{name} less atc-mc: {difference}")
    if options.json:
        options.json.write_text(json.dumps(out, indent=1) + "\n")


def _told(number: Any) -> list[float | None] | None:
    return (
        None if number is None or number.value is None else [number.value, number.low, number.high]
    )


def _text(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    ends = "" if value[1] is None else f" [{value[1]:.2f}, {value[2]:.2f}]"
    return f"{value[0]:.2f}{ends}"


if __name__ == "__main__":
    main()

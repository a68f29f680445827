"""Claim 4 of Ng et al. 2022 on the networks of a store of `ng2022/ablations`: neighbours, test rows
and the size of a change.

    python -m benchmarks.papers.text_ablations STORE --json FILE

Figure 4: micro tau of neighbourhood invariance by how many neighbours are drawn, on how many rows,
and how much of a text is changed; figure 5: against the rise of entropy. Tests, with Holm's
correction for all of them: most less fewest neighbours, which should differ by less than `MARGIN`
(two one-sided tests); most less fewest rows, which should be above 0; the smallest less the largest
change, which should be above 0. Intervals are of 90%, by drawing networks anew.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from scipy.special import stdtr

import crosswind as cw
from crosswind.evaluation.compare import Difference, holm
from crosswind.evaluation.points import Point
from crosswind.evaluation.pools import by_domain, micro_difference
from crosswind.reports.pools.networks import ModelPool

MARGIN = 0.1
"""By how much a micro tau may differ for "only a small difference" (section 5.4); ours, set before
any network was trained."""


def tests(
    pool: ModelPool, settings: dict[str, dict[str, Any]], rows: dict[str, int]
) -> list[dict[str, Any]]:
    """Every test. `settings`: of each estimator; `rows`: of each test set."""
    most = max(rows, key=rows.__getitem__)

    def on(label: str, place: str) -> list[Point]:
        return [point for point in pool.values[label] if point.test == place]

    found = []
    for name in dict.fromkeys(pool.names[label] for label in pool.neighbourhoods):
        mine = [label for label in pool.neighbourhoods if pool.names[label] == name]
        plain = next(label for label in mine if not settings[label].keys() & {"neighbours", "rate"})
        ends: dict[str, tuple[list[Point], list[Point]]] = {
            "rows": (on(plain, min(rows, key=rows.__getitem__)), on(plain, most))
        }
        for knob in ("neighbours", "rate"):
            varied = sorted(
                (settings[label][knob], label) for label in mine if knob in settings[label]
            )
            if len(varied) > 1:
                pair = on(varied[0][1], most), on(varied[-1][1], most)
                ends[knob] = pair if knob == "neighbours" else pair[::-1]
        for what, pair in ends.items():
            told = micro_difference(*pair, by_architecture=pool.apart)
            found.append(
                {"neighbourhood": name, "of": what, **_numbers(told, what == "neighbours")}
            )
    adjusted = holm(
        {place: item["p"] if item["p"] is not None else 1.0 for place, item in enumerate(found)}
    )
    return [{**item, "holm": adjusted[place]} for place, item in enumerate(found)]


def _numbers(told: Difference | None, equal: bool) -> dict[str, Any]:
    if told is None or told.low is None or told.sd is None:
        return {"difference": None if told is None else told.mean, "interval": None, "p": None}
    p = told.p
    if equal:
        error = told.sd / told.n**0.5
        p = (
            float(stdtr(told.n - 1, (abs(told.mean) - MARGIN) / error))
            if error > 0
            else float(abs(told.mean) >= MARGIN)
        )
    return {"difference": told.mean, "interval": [told.low, told.high], "p": p}


def _taus(points: list[Point], rows: dict[str, int]) -> dict[str, list[float | None]]:
    return {
        name: [on.micro.value, on.micro.low, on.micro.high]
        for name, on in by_domain(points).items()
        if name in rows
    }


def _accuracy_on(most: str, points: list[Point]) -> list[Point]:
    """Measures on few rows beside accuracies on most: what few rows do to the measure alone."""
    accuracy = {point.network: point.accuracy for point in points if point.test == most}
    return [replace(point, accuracy=accuracy[point.network]) for point in points]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("store")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    study = cw.report(options.store, study="ng2022/ablations")
    pool = study.pools[0].pool
    settings = {label: {**(given or {})} for label, given in study.resolved["estimators"].items()}
    sets = {
        name: item
        for name, item in study.resolved["sets"].items()
        if item["role"] == "test" and "total" in (item["draw"] or {})
    }
    rows = {name: item["draw"]["total"] for name, item in sets.items()}
    curves = {
        label: {
            "settings": {
                key: value for key, value in settings[label].items() if key != "estimator"
            },
            "entropy_rise": pool.rises.get(label),
            "micro_tau": _taus(points, rows),
            "micro_tau_with_accuracy_on_most_rows": _taus(
                _accuracy_on(max(rows, key=rows.__getitem__), points), rows
            ),
        }
        for label, points in pool.values.items()
    }
    out = {
        "networks": len(pool.methods),
        "missed": len(pool.missed),
        "rows": rows,
        "margin": MARGIN,
        "curves": curves,
        "tests": tests(pool, settings, rows),
    }
    print(json.dumps(out, indent=1))
    if options.json:
        options.json.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

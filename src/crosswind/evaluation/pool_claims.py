"""The claims of Ng et al. 2022 on neighbourhood invariance, put to the test on a pool of networks.

Each claim is a difference with a sign, its interval and p-value by drawing whole networks anew, see
`crosswind.evaluation.pools`. All p-values of a pool are adjusted together by Holm's method, and
intervals have the level that this comes to, so that they exclude 0 where a claim is decided. A
difference that cannot be had counts as p = 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from crosswind.evaluation.compare import Difference
from crosswind.evaluation.multiplicity import ALPHA, at_level, judged_together
from crosswind.evaluation.points import (
    LEVEL,
    RESAMPLES,
    Floats,
    Point,
    cell_tau,
    mean_of,
    pairs,
    read,
)
from crosswind.evaluation.pools import comparison, difference

HOLDS, OPPOSITE, CANNOT_TELL = "holds", "the opposite holds", "cannot tell"
RISE = 0.1
"""Nats of entropy above which the paper says that a neighbourhood fails (section 5.4)."""

CLAIMS: Mapping[int, str] = {
    1: (
        "neighbourhood invariance goes with accuracy under shift more closely than ATC (section"
        " 5.2)"
    ),
    2: "the farther a domain, the less neighbourhood invariance goes with accuracy (section 5.1)",
    3: (
        "neighbourhood invariance still goes with accuracy where ATC fails, on the most extreme"
        " domain (sections 5.2 and 5.3)"
    ),
    4: (
        "neighbourhood invariance fails for changes that raise the entropy of outputs by more than"
        f" {RISE:g} nats (section 5.4)"
    ),
}
"""By number; the second is about macro tau by domain, the others about differences of macro tau."""


@final
@dataclass(frozen=True)
class Decision:
    """One test of a claim. `what` is compared; `found` is above 0 where the claim holds, None with
    the reason in `why`.

    `adjusted`: the p-value among all tests of the pool, 1 where there is none. `level`: of the
    interval of `found`.
    """

    claim: int
    what: str
    found: Difference | None
    why: str = ""
    adjusted: float = 1.0
    level: float = LEVEL

    @property
    def verdict(self) -> str:
        """`HOLDS`, `OPPOSITE`, or `CANNOT_TELL`."""
        if self.found is None or self.adjusted >= ALPHA:
            return CANNOT_TELL
        if self.found.mean > 0:
            return HOLDS
        return OPPOSITE


def decide(
    invariances: Mapping[str, Sequence[Point]],
    baselines: Mapping[str, Sequence[Point]],
    rises: Mapping[str, float],
    *,
    by_architecture: bool = True,
) -> list[Decision]:
    """Every test that the measures of a pool allow, by claim.

    `invariances`: points by neighbourhood; `baselines`: those of ATC, whose networks and domains
    are the same; `rises`: by neighbourhood the rise of entropy in nats.
    """
    decisions: list[Decision] = []
    for name, points in invariances.items():
        for baseline, theirs in baselines.items():
            decisions.append(
                _difference(
                    1,
                    f"macro tau of {name} less that of {baseline}",
                    theirs,
                    points,
                    by_architecture,
                )
            )
    for name, points in invariances.items():
        decisions.append(falls(name, points, by_architecture=by_architecture))
    for name, points in invariances.items():
        last = farthest(points)
        for baseline, theirs in baselines.items() if last else ():
            first, second = (
                [decision for decision in side if decision.test == last]
                for side in (theirs, points)
            )
            decisions.append(
                _difference(
                    3,
                    f"on {last}, tau of {name} less that of {baseline}",
                    first,
                    second,
                    by_architecture,
                )
            )
    if len(invariances) > 1:
        decisions.append(_by_rise(invariances, rises, by_architecture))
    p_values = {}
    for i, decision in enumerate(decisions):
        p_values[i] = (
            1.0 if decision.found is None or decision.found.p is None else decision.found.p
        )
    family = judged_together(p_values, "holm")
    return [
        replace(
            decision,
            found=at_level(decision.found, family.level),
            adjusted=family.adjusted[i],
            level=family.level,
        )
        for i, decision in enumerate(decisions)
    ]


def lost(points: Sequence[Point]) -> dict[str, float]:
    """By shifted test domain, the mean accuracy of the networks in domain less that on it: how far
    it is."""
    in_domain = [point.accuracy for point in points if point.test == point.training]
    shifted = dict.fromkeys(point.test for point in points if point.test != point.training)
    base = float(np.mean(in_domain)) if in_domain else 0.0
    return {
        name: base - float(np.mean([p.accuracy for p in points if p.test == name != p.training]))
        for name in shifted
    }


def farthest(points: Sequence[Point]) -> str:
    """The test domain that costs most accuracy; "" without a shifted one."""
    far = lost(points)
    return max(far, key=far.__getitem__, default="")


def falls(name: str, points: Sequence[Point], *, by_architecture: bool = True) -> Decision:
    """Claim 2: how much macro tau falls for ten points more of accuracy lost, by least squares over
    test domains, ID among them."""
    far = lost(points)
    taus = _taus(points, by_architecture)
    if any(point.test == point.training for point in points):
        far[""] = 0.0
    domains = [key for key in far if isinstance(taus.get(key), np.ndarray)]
    compared = (
        f"fall of the macro tau of {name} for ten points of accuracy lost, over {len(domains)}"
        " domains"
    )
    x = np.array([10 * far[key] for key in domains])
    if len(domains) < 3 or np.ptp(x) < 1e-9:
        return Decision(2, compared, None, "fewer than 3 domains with a tau")
    x -= x.mean()
    stacked = np.stack([taus[key] for key in domains])
    return Decision(2, compared, difference(-(x @ stacked) / (x @ x), _networks(points)))


def _by_rise(
    invariances: Mapping[str, Sequence[Point]], rises: Mapping[str, float], by_architecture: bool
) -> Decision:
    """Claim 4: the mean macro tau of the neighbourhoods that raise entropy by `RISE` at most, less
    that of the others."""
    sides: list[Floats] = []
    low, high = (
        [name for name in invariances if name in rises and (rises[name] > RISE) == over]
        for over in (False, True)
    )
    compared = (
        f"mean macro tau of {', '.join(low) or 'none'}, which stay below, less that of"
        f" {', '.join(high) or 'none'}"
    )
    for side in (low, high):
        draws = []
        for name in side:
            taus = _taus(invariances[name], by_architecture)
            shifted = [taus[key] for key in taus if key]
            cells = [(0, tau) for tau in shifted]
            mean_tau, _ = mean_of(cells)
            draws += [] if mean_tau is None else [mean_tau]
        if not draws:
            why = f"no neighbourhood {'above' if side is high else 'below'} {RISE:g} nats has a tau"
            return Decision(4, compared, None, why)
        sides.append(np.asarray(np.mean(draws, axis=0)))
    return Decision(
        4, compared, difference(sides[0] - sides[1], _networks(next(iter(invariances.values()))))
    )


def _taus(points: Sequence[Point], by_architecture: bool) -> dict[str, Floats | str]:
    """Macro tau by test domain for each draw, "" in domain, or why there is none."""
    columns = read(points, RESAMPLES, by_architecture)
    names = sorted({p.training for p in points} | {p.test for p in points})
    cells: dict[str, list[tuple[int, Floats | str]]] = {}
    for pool, training in pairs(columns.pool, columns.training, np.ones(len(points), dtype=bool)):
        for test in np.unique(columns.test):
            rows = np.flatnonzero(
                (columns.pool == pool) & (columns.training == training) & (columns.test == test)
            )
            if len(rows):
                cells.setdefault("" if test == training else names[test], []).append(
                    (pool, cell_tau(columns, rows))
                )
    taus = {name: mean_of(cells_of_domain) for name, cells_of_domain in cells.items()}
    return {name: why if draws is None else draws for name, (draws, why) in taus.items()}


def _difference(
    claim: int,
    compared: str,
    first: Sequence[Point],
    second: Sequence[Point],
    by_architecture: bool,
) -> Decision:
    try:
        judged = comparison(first, second, held="in-sample", by_architecture=by_architecture)
    except ValueError as error:  # the tables differ, as where one of the two refused a network
        return Decision(claim, compared, None, str(error))
    return Decision(
        claim,
        compared,
        judged.macro_tau,
        "; ".join(why for why in judged.why if why.startswith("macro tau")),
    )


def _networks(points: Sequence[Point]) -> int:
    return len({point.network for point in points})

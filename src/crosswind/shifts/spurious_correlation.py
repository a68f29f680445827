"""Spurious correlation: in training an attribute tells the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, share_hint, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.shifts.base import Cells, NormalForm, Shift, Supplement, code_of, codes_of, exact
from crosswind.shifts.ties import observed_matching

if TYPE_CHECKING:
    from crosswind.data.dataset import AttributedDataset


USUAL_SHARE = Fraction(1, 100)
"""Counterexamples, as a share of the matched rows, where a study says nothing of them."""


@register("spurious-correlation", kind="shift")
@final
@dataclass(frozen=True)
class SpuriousCorrelation(Shift):
    """Each class keeps to its matched values of an attribute, but for a few counterexamples.

    Matching "observed": the values that go with each class in the rows, where label and attribute
    are tied (`crosswind.shifts.ties`). Rows without a tie, and cells without rows, are matched by
    "auto". "auto": as many classes as values, i-th with i-th; more classes, class i with value i
    mod V; more values, value j with class j mod C. "index": i-th with i-th, what is left over is
    never matched (the code of Wiles et al. 2022). Or a map from class to its value or values.

    Classes weigh alike where the matching is observed, or `class_shares` is "equal".

    At strength 1 matched cells weigh 1 and the others 0. Counterexamples are then drawn on top,
    uniformly over rows: from the unmatched cells (Jeon et al. 2025), or from all cells, matched
    ones too (Wiles et al. 2022). A whole number from 1 is a number of rows, any other a share of
    the matched rows, rounded up. At strength r below 1 the attribute is matched with probability r
    and uniform otherwise, P(a|y) = r [matched] / m + (1 - r) / V for m matched of V values, and
    there are no counterexamples.
    """

    attribute: str = knob(doc="the attribute that tells the class")
    counterexamples: float | int | str = knob(
        0.01, domain="[0, inf)", doc="a share of the matched rows, or a number of rows"
    )
    counterexamples_from: str = knob(
        "unmatched", domain="{unmatched, uniform}", doc="the cells they are drawn from"
    )
    matching: Any = knob(
        "observed", doc='"observed", "auto", "index", or a map from class to value or values'
    )
    strength: float = knob(
        1.0,
        domain="[0, 1]",
        doc="how strongly the attribute follows the class; in studies also attribute -> strength",
    )
    class_shares: str = knob(
        "matched",
        domain="{matched, equal}",
        doc=(
            '"equal": every class weighs alike; "matched": as much as its matched values, which is'
            " more for a class with more of them"
        ),
    )
    version = 1
    numbers = ("counterexamples", "strength")

    def matched(self, cells: Cells, field: str = "shift") -> NDArray[np.bool_]:
        """Which values go with which class: bool [classes, values]."""
        axis = self._axis(cells, field)
        classes = cells.shape[0]
        values = cells.shape[axis]
        out = np.zeros((classes, values), dtype=bool)
        if isinstance(self.matching, Mapping):
            for name, values_of_class in self.matching.items():
                row = code_of(cells.label, name, f"{field}.matching")
                out[
                    row, codes_of(cells.axes[axis], values_of_class, f"{field}.matching.{name}")
                ] = True
            missing = [
                name for name, row in zip(cells.label.values, out, strict=True) if not row.any()
            ]
            if missing:
                problem = f"gives no value of {self.attribute!r} for {', '.join(missing)}"
                raise InputError(f"{field}.matching", problem)
        elif self.matching in ("observed", "auto"):
            longest = np.arange(max(classes, values))
            out[longest % classes, longest % values] = True
        elif self.matching == "index":
            shortest = np.arange(min(classes, values))
            out[shortest, shortest] = True
        else:
            raise InputError(
                f"{field}.matching",
                f"must be a map from class to value, or a rule, not {shown(self.matching)}",
                ["observed", "auto", "index"],
            )
        return out

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """1 on matched cells, the rest by strength, and the counterexamples."""
        axis = self._axis(cells, field)
        matched = self.matched(cells, field)
        strength = exact(self.strength, f"{field}.strength", 0, 1)
        if self.counterexamples_from not in ("unmatched", "uniform"):
            problem = f"not {self.counterexamples_from!r}"
            raise InputError(f"{field}.counterexamples_from", problem, ["unmatched", "uniform"])
        self._refuse_idle(matched, cells.axes[axis].values, strength < 1, field)
        weights = matched.astype(np.float64)
        if strength < 1:
            unmatched_share = (1 - strength) / matched.shape[1]
            for row, matched_values in zip(weights, matched, strict=True):
                # An unmatched class ("index" with more classes than values) has nothing to follow:
                # it stays uniform.
                row[~matched_values] = (
                    float(
                        unmatched_share / (strength / int(matched_values.sum()) + unmatched_share)
                    )
                    if matched_values.any()
                    else 1.0
                )
        if self.class_shares == "equal":
            of_class = weights.sum(axis=1, keepdims=True)
            weights = np.divide(weights, of_class, out=weights, where=of_class > 0)
        factors = (cells.along([0, axis], weights),)
        form = NormalForm(cells.shape, factors, ())
        extra = exact(self.counterexamples, f"{field}.counterexamples")
        if strength < 1 or extra == 0:
            return form
        if self.counterexamples_from == "uniform":
            region = np.ones_like(matched)
        else:
            region = ~matched
        full_region = np.broadcast_to(cells.along([0, axis], region), cells.shape).copy()
        is_count = isinstance(self.counterexamples, int)
        supplement = Supplement(
            full_region,
            count=int(extra) if is_count else None,
            share=None if is_count else extra,
            content=f"counterexamples of {self.attribute}",
            effect=(
                f": {self.attribute} tells {cells.label.name} in every row of this set; leave it out"
                " of this combination, or write counterexamples: 0 where that is meant"
            ),
        )
        return NormalForm(cells.shape, form.factors, (supplement,))

    def _refuse_idle(
        self, matched: NDArray[np.bool_], values: Sequence[Any], is_weak: bool, field: str
    ) -> None:
        """Refuse a matching that tells no class from another, and counterexamples beside a strength
        below 1, which draws none."""
        with_values = matched[matched.any(axis=1)]
        if len(with_values) > 1 and (with_values == with_values[0]).all():
            named = ", ".join(str(values[int(code)]) for code in np.flatnonzero(with_values[0]))
            is_map = isinstance(self.matching, Mapping)
            problem = (
                f"matches every class with the same values of {self.attribute!r} ({named}), so that"
                " it tells no class from another; "
            )
            remedy = (
                "give classes values of their own" if is_map else "name an attribute of more values"
            )
            raise InputError(f"{field}.{'matching' if is_map else 'attribute'}", problem + remedy)
        if not is_weak:
            return
        unused = {
            "counterexamples": exact(self.counterexamples, f"{field}.counterexamples")
            not in (0, USUAL_SHARE),
            "counterexamples_from": self.counterexamples_from != "unmatched",
        }
        for name in (name for name, is_given in unused.items() if is_given):
            problem = "belongs to strength 1: a weaker tie draws no counterexamples; leave out one"
            raise InputError(f"{field}.{name}", f"{problem} of the two")

    def observed(self, dataset: AttributedDataset, label: str) -> SpuriousCorrelation:
        """With the matching that the rows show, where it is "observed" and they show a tie."""
        if self.matching == "observed":
            pairs = observed_matching(dataset, label, self.attribute)
        else:
            pairs = {}
        if pairs:
            return replace(self, matching=pairs, class_shares="equal")
        return self

    @classmethod
    def observed_settings(
        cls, settings: Mapping[str, Any], dataset: AttributedDataset, label: str
    ) -> dict[str, Any]:
        """The settings with the matching that the rows show, and the strength of this attribute where
        it is a map from attributes to strengths.

        Without a tie, and for "auto", no matching is written: two studies that draw the same rows
        have one key.
        """
        plain = dict(settings)
        attribute = settings.get("attribute")
        if isinstance(plain.get("strength"), Mapping):
            strengths = plain["strength"]
            if attribute not in strengths:
                raise InputError(
                    "shift.strength", f"names no strength of {attribute!r}", list(strengths)
                )
            plain["strength"] = strengths[attribute]
        matching = plain.get("matching", "observed")
        if matching in ("observed", "auto"):
            plain.pop("matching", None)
        if matching == "observed" and isinstance(attribute, str):
            pairs = observed_matching(dataset, label, attribute)
            plain |= {"matching": pairs, "class_shares": "equal"} if pairs else {}
        return plain

    def describe(self) -> dict[str, Any]:
        """As of every shift; without `class_shares` where it is the default, as it was written
        before there was one."""
        described: dict[str, Any] = super().describe()
        if self.class_shares == "matched":
            del described["class_shares"]
        return described

    def attributes(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)

    def notes(self, cells: Cells) -> tuple[str, ...]:
        """The matching in words."""
        values = cells.axes[self._axis(cells, "shift")].values
        pairs = []
        for name, row in zip(cells.label.values, self.matched(cells), strict=True):
            pairs.append(
                f"{name} with"
                f" {' or '.join(values[code] for code in np.flatnonzero(row)) or 'nothing'}"
            )
        return (
            (
                f"spurious-correlation matches {cells.label.name} to {self.attribute}:"
                f" {', '.join(pairs)}"
            ),
        )

    def warnings(self, cells: Cells) -> tuple[str, ...]:
        """A warning that names the classes that are never matched, and so never trained on."""
        never = []
        for name, row in zip(cells.label.values, self.matched(cells), strict=True):
            if not row.any():
                never.append(name)
        if self.strength < 1:
            return ()
        unmatched = (
            [f"spurious-correlation matches no value of {self.attribute!r} to {', '.join(never)}"]
            if never
            else []
        )
        return (*unmatched, *self._doubtful_numbers())

    def _doubtful_numbers(self) -> list[str]:
        """Warnings of counterexamples that may be meant as a share where they are a number, or as a
        number where they are a share."""
        number = exact(self.counterexamples, "shift.counterexamples")
        if isinstance(self.counterexamples, int) and number == 1:
            return ["counterexamples: 1 is a single row; write 1.0 for as many as matched rows"]
        if isinstance(self.counterexamples, int) or number <= 1:
            return []
        rows = f"; write {int(number)} for {int(number)} rows" if number.denominator == 1 else ""
        return [
            f"counterexamples: {self.counterexamples} is a share, {float(number):.0%} of the matched"
            f" rows, so that more rows contradict the tie of {self.attribute} than show it"
            f"{rows}{share_hint(float(number)).replace('; write', ' or' if rows else '; write')}"
        ]

    def _axis(self, cells: Cells, field: str) -> int:
        axis = cells.axis(self.attribute, f"{field}.attribute")
        if axis == 0:
            problem = f"{self.attribute!r} is the label"
            raise InputError(f"{field}.attribute", problem, cells.names[1:])
        return axis

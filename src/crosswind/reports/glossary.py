"""The words of a report and what they mean. The one list is behind the terms that a page explains
on hover, focus and tap, and behind the glossary at its foot.

Words of every study stand in `TERMS`; the names that a study gives its shifts and methods are
explained from what it declares.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from crosswind.core.errors import CrosswindError, plain
from crosswind.reports.claims.shift_words import joined, shift_clause
from crosswind.reports.methods import find_method
from crosswind.reports.tables import short_numbers, shortened, slug

if TYPE_CHECKING:
    from markupsafe import Markup

TERMS: Mapping[str, str] = {
    "accuracy": "The share of rows that a model answers rightly.",
    "points": "Percentage points: from 70% to 75% are 5 points.",
    "shift": "A difference between the rows that a model is trained on and those it is tested on.",
    "spurious correlation": "In training an attribute goes with the label, as an ink with a class;"
    " in testing it does not.",
    "low-data drift": "Some values of an attribute are rare in training and as frequent as others"
    " in testing.",
    "unseen data": "Some values of an attribute are never seen in training, but are in testing.",
    "attribute": "A property of a row besides its label, such as the colour of a background.",
    "label": "What a model is to tell of a row.",
    "worst group": "The group of rows, of one class and one value of an attribute, on which a model"
    " is right least often. Its accuracy is the worst that some users would see.",
    "interval": "The range in brackets: a true difference outside of it is unlikely, as far as the"
    " spread between seeds tells.",
    "seed": "The number that starts a run's random choices. Runs that differ in it alone show how"
    " much is chance.",
    "run": "One network trained and tested once, with one seed.",
    "comparisons": "Differences of two scores, paired by seed. All of a study are judged together.",
    "Holm": "A correction for many comparisons (Holm 1979): the chance that any difference is"
    " called real though it is chance stays below 5%.",
    "Benjamini-Hochberg": "A correction for many comparisons (1995): of the differences that are"
    " called real, at most 5% are expected to be chance.",
    "reference": "The method that all others are compared with.",
    "counterexamples": "The training rows in which the attribute does not go with the label.",
    "best-id": "The step of training is chosen by accuracy on validation rows that are drawn as the"
    " training rows are.",
    "best-ood": "The step of training is chosen by accuracy on validation rows of other"
    " environments.",
    "last": "The model after the last step of training is scored.",
    "ORACLE": "A choice that reads labelled rows of the distribution that is tested on, which"
    " nobody has in practice.",
    "calibration error": "How far the confidence of a model is from the share that it gets right.",
    "environment": "A domain that rows come from, such as a hospital or a camera.",
}
"""What the words of every report mean."""
ORDINARY = frozenset(
    {
        "a",
        "all",
        "and",
        "any",
        "as",
        "both",
        "each",
        "even",
        "few",
        "first",
        "last",
        "many",
        "more",
        "most",
        "no",
        "none",
        "not",
        "one",
        "only",
        "or",
        "other",
        "same",
        "some",
        "the",
    }
)
"""Words of a sentence, which are no term of it though a study calls a shift so: `none` most of all."""
LISTED_VALUES = 6
"""Classes or values that the meaning of a word lists; of more it has the number."""


@dataclass(frozen=True)
class Glossary:
    """Terms with their meanings; `key` begins the ids of their places in a page."""

    key: str
    meanings: Mapping[str, str]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        names = sorted(self.meanings, key=len, reverse=True)
        # A name may hold a plus or an apostrophe may follow it, but it is no part of another word.
        return re.compile(rf"(?<![\w+-])({'|'.join(map(re.escape, names))})(?![\w+-])")

    def address(self, term: str) -> str:
        """The id of a term's place at the foot of the page."""
        return f"{self.key}-term-{slug(term) or 'x'}-{list(self.meanings).index(term)}"

    def marked(self, text: str, before: Collection[str] = ()) -> Markup:
        """`text` as HTML, the first place of each term marked with a link to its meaning. Terms of
        `before` are left as they are, and the marked ones are added where it is a set. A word of
        `ORDINARY` is a term only where it stands alone."""
        from markupsafe import Markup, escape

        text = shortened(text, short_numbers([text]))
        if not self.meanings:
            return escape(text)
        marked_terms = before if isinstance(before, set) else set(before)
        pieces: list[Markup] = []
        end = 0
        for match in self._pattern.finditer(text):
            term = match.group(1)
            if term in marked_terms or (term.lower() in ORDINARY and term != text):
                continue
            marked_terms.add(term)
            pieces.append(escape(text[end : match.start()]))
            place = self.address(term)
            link = '<a class="term" href="#{0}" aria-describedby="{0}-meaning">{1}</a>'
            pieces.append(Markup(link).format(place, term))
            end = match.end()
        pieces.append(escape(text[end:]))
        return Markup("").join(pieces)


def glossary_of(
    key: str,
    resolved: Mapping[str, Any],
    classes: Mapping[str, Sequence[str]] = MappingProxyType({}),
    values: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Glossary:
    """The terms of a study: its shifts and methods first, then those of every report.

    `classes`: label -> its classes, `values`: attribute -> its values, as far as they are known.
    """
    meanings: dict[str, str] = {}
    shifts = resolved.get("shifts") or {}
    for shift in shifts:
        meanings[plain(str(shift))] = plain(_shift_meaning(str(shift), resolved))
    for method in resolved.get("methods") or {}:
        meaning = _method_meaning(str(method), resolved)
        if meaning:
            # Summaries quote settings as code, which is none here.
            meanings[plain(str(method))] = plain(meaning.replace("`", ""))
    for term, columns in (("label", classes), ("attribute", values)):
        if columns:
            named = joined([f"{name} ({_values(columns[name])})" for name in columns])
            meanings.setdefault(term, plain(f"{TERMS[term].removesuffix('.')}; here {named}."))
    for term, meaning in TERMS.items():
        meanings.setdefault(term, meaning)
    return Glossary(key, {term: meaning for term, meaning in meanings.items() if term})


def _values(names: Sequence[str]) -> str:
    """Classes of a label, or values of an attribute, in words."""
    if len(names) > LISTED_VALUES:
        return f"one of {len(names):,}"
    words = joined(names, "or")
    return shortened(words, short_numbers([words]))


def _shift_meaning(shift: str, resolved: Mapping[str, Any]) -> str:
    """The meaning of a shift of a study."""
    declared = resolved.get("shifts", {}).get(shift)
    if declared == []:
        return "No shift: training rows are drawn evenly, as test rows are."
    data = next(iter(resolved.get("data") or {}), "")
    clause = shift_clause(shift, resolved, data)
    kinds = _kinds(declared)
    kind = f"A shift of the kind {', '.join(kinds)}" if kinds else "Several shifts at once"
    return f"{kind}: in training, {clause}." if clause else f"{kind}."


def _kinds(declared: Any) -> list[str]:
    """The kinds of shift that one is made of, where it declares them itself."""
    parts = declared if isinstance(declared, list) else [declared]
    named = [part["type"] for part in parts if isinstance(part, Mapping) and "type" in part]
    return [str(kind).replace("-", " ") for kind in named]


def _method_meaning(method: str, resolved: Mapping[str, Any]) -> str:
    """The meaning of a method of a study, in a sentence; empty for one that is not listed."""
    methods = resolved.get("methods")
    settings = methods.get(method) if isinstance(methods, Mapping) else {}
    settings = settings if isinstance(settings, Mapping) else {}
    name = str(settings.get("method", method))
    try:
        summary = find_method(name).summary
    except CrosswindError:
        return ""
    if name == method:
        return summary
    changed = {key: value for key, value in settings.items() if key not in ("method", "shifts")}
    words = ", ".join(f"{key} {value}" for key, value in changed.items() if value is not None)
    return f"{name} with {words}. {summary}" if words else summary

"""The sections of a page: groups of figures, tables, texts, pictures and rows of a data set."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from crosswind.reports.charts import Figure
from crosswind.reports.claims.answer_picture import AnswerPicture
from crosswind.reports.rows.answers import Example
from crosswind.reports.scores.results import Place
from crosswind.reports.tables import ReportTable

OPEN_PLACES = 3
"""Groups of a section that are unfolded."""


@dataclass
class Group:
    """Figures, tables and texts that are shown together. With a `title` it can be folded; figures
    of the layouts `cards` and `pairs` stand side by side.

    `lists` are headings with sentences. `figures` come with the tables of their numbers. `texts`
    are pairs of title and content to copy, `pictures` are title, caption, address, names of columns
    and names of rows. `shots` are rows of a data set: what they have in common, in two parts, and
    each row with the address of its picture. `chart` is a picture of comparisons, and `chart_words`
    says how to read it.
    """

    title: str = ""
    intro: list[str] = field(default_factory=list)
    figures: list[tuple[Figure, list[ReportTable]]] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    pictures: list[tuple[str, str, str, Sequence[str], Sequence[str]]] = field(default_factory=list)
    open: bool = True
    layout: str = "stack"
    lists: list[tuple[str, Sequence[str]]] = field(default_factory=list)
    shots: list[tuple[str, str, list[tuple[str, Example]]]] = field(default_factory=list)
    chart: AnswerPicture | None = None
    chart_words: str = ""


@dataclass
class Section:
    """A titled part of a study's page. One without groups is left out."""

    title: str
    intro: list[str]
    groups: list[Group]

    @property
    def slug(self) -> str:
        """The title as the end of an element's id."""
        return re.sub("[^a-z]+", "-", self.title.lower())


_FIELD_WORDS = {
    "data": "{}",
    "size": "size {}",
    "model": "network {}",
    "set": "tested on {}",
    "rule": "step chosen by {}",
}
"""How a heading says each part of what a group is about."""


def heading_of(places: Sequence[Place], *first: str, **fields: str) -> str:
    """A heading that says `first` and, of `fields` (data, size, model, set, rule), what tells the
    places of a study apart; without places all of them. Empty where there is nothing to tell."""
    words = list(filter(None, first))
    for name, template in _FIELD_WORDS.items():
        value = fields.get(name, "")
        varies = len({getattr(place, name) for place in places}) != 1
        if value and varies:
            words.append(template.format(value))
    return ", ".join(words)


def address(png: bytes) -> str:
    """A PNG file as an address that holds it; "" for none."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}" if png else ""

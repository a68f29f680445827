"""What a page is made of: sections of groups of figures, tables, texts, pictures and rows of a data
set."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from crosswind.reports.charts import Figure
from crosswind.reports.claims.answer_picture import AnswerPicture
from crosswind.reports.rows.answers import Example
from crosswind.reports.tables import ReportTable

OPEN_PLACES = 3
"""Groups of a section that are unfolded."""


@dataclass
class Group:
    """What is shown together. With a `title` it can be folded; figures of the layouts `cards` and
    `pairs` stand side by side.

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


def heading_of(data: str, size: str, *more_words: str) -> str:
    """The parts that are there, as a heading."""
    return ", ".join(filter(None, (data, size and f"size {size}", *more_words)))


def address(png: bytes) -> str:
    """A PNG file as an address that holds it; "" for none."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}" if png else ""

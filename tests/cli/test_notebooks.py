"""What a notebook shows of a split, a plan, a study's results and a report: HTML with everything
escaped, and no more than fits."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import crosswind as cw
from crosswind.core import html
from crosswind.core.errors import InputError

STUDY = {
    "name": "shown <i>",
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 8},
            "label": "half",
            "attributes": ["ink"],
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.1},
    },
    "sizes": {"small": {"total": 60}},
    "models": {"mlp": {"layers": 1}},
    "methods": ["erm", "groupdro"],
    "training": {"steps": 4, "batch": 16, "validate_every": 4, "patience": None},
    "seeds": 2,
}


class PageWords(HTMLParser):
    """The words of a page, its tags, and whether every tag that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.tags, self.open = "", list[str](), list[str]()
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + "\n"


def test_a_split_shows_the_rows_of_every_cell() -> None:
    digits = cw.load("digits", size=8)
    shift = cw.SpuriousCorrelation("ink", counterexamples=0.1)
    split = cw.split(digits, "half", ["ink"], shift, draw={"total": 60}, groups=["ink"])
    shown = PageWords(split._repr_html_())
    assert shown.tags.count("tr") == 1 + 1 + 6 and "half=0-4, ink=red" in shown.words
    assert f"\nall\n{len(split.train)}\n" in shown.words.replace("\n\n", "\n")


@pytest.mark.slow
def test_a_plan_results_and_a_report_show_what_the_terminal_says(tmp_path: Path) -> None:
    planned = PageWords(cw.plan({**STUDY, "name": "shown"})._repr_html_())
    assert "Study shown: 8 runs" in planned.words and planned.tags.count("tr") == 1 + 2
    study_results = cw.run_study({**STUDY, "name": "shown"}, tmp_path / "out")
    shown = PageWords(study_results._repr_html_())
    assert "What each shift costs" in shown.words and shown.tags.count("table") == 2
    report = cw.report(tmp_path / "out")
    assert report._repr_html_() == study_results._repr_html_() and str(report) == str(study_results)
    assert repr(report).startswith("<report of study shown in ")
    assert repr(report).endswith(" runs; print it>")
    for heading, sentences in report.findings.parts:  # type: ignore[union-attr]
        assert heading in shown.words and all(sentence in shown.words for sentence in sentences)
    cw.run_study({**STUDY, "name": "second"}, tmp_path / "out")
    with pytest.raises(InputError, match="study: .* holds 2 studies; name one .*shown, second"):
        cw.report(tmp_path / "out")
    assert cw.report(str(tmp_path / "out"), "second").name == "second"


def test_names_are_escaped_and_long_tables_are_cut() -> None:
    shown = PageWords(
        html.table("<b>title", ["a & b"], [[f"<script>{i}"] for i in range(100)])
        + html.points("<u>", ["<i>"])
        + html.line("<p>")
    )
    assert set(shown.tags) == {
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "b",
        "ul",
        "li",
    }
    assert (
        shown.tags.count("td") == html.MAX_ROWS
        and "and 60 more rows" in shown.words
        and "<script>39" in shown.words
    )

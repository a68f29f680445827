"""Estimated against true accuracy and the tables beside it: the numbers drawn are those listed, and
those judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import altair
import numpy as np
import pytest

from crosswind.evaluation.points import Number, Point
from crosswind.evaluation.pools import PoolJudgement, by_domain, comparisons, coverage, judge
from crosswind.reports.charts import save
from crosswind.reports.pools import estimate_figures as shown
from crosswind.reports.tables import ReportTable


def pool(
    shifts: int = 3, networks: int = 6, seed: int = 0, noise: float = 0.05, kinds: int = 1
) -> list[Point]:
    random, points = np.random.default_rng(seed), []
    for i in range(networks):
        for j in range(shifts + 1):
            accuracy = float(random.uniform(0.2, 0.8))
            value = float(np.clip(accuracy + random.normal(0, noise), 0, 1))
            low, high = (None, None) if j == 1 else (value - 0.1, value + 0.1)
            test = f"t{j}" if j else "S"
            points.append(
                Point(
                    f"n{i}",
                    "S",
                    test,
                    value,
                    accuracy,
                    f"a{i % kinds}",
                    low,
                    high,
                    0.9,
                    synthetic=j > 1,
                )
            )
    return points


ESTIMATES = {"one": pool(), "other": pool(seed=1)}


@pytest.mark.slow
@pytest.mark.parametrize("shifts", [3, 5, 9, 24])
def test_a_figure_is_valid_and_can_be_drawn(shifts: int, tmp_path: Path) -> None:
    figure, _ = shown.scatter(
        "Pool of digits", {"one": pool(shifts), "other": pool(shifts, seed=1)}
    )
    assert altair.Chart.from_dict(dict(figure.spec), validate=True) is not None
    drawn = save(figure, tmp_path, ("png", "svg"))
    assert [path.name for path in drawn] == ["pool-of-digits.png", "pool-of-digits.svg"]
    assert drawn[0].read_bytes()[:4] == b"\x89PNG"
    assert len(drawn[0].read_bytes()) > 10_000
    svg = drawn[1].read_text(encoding="utf-8")
    assert "estimate" in svg
    assert "NaN" not in svg
    assert (svg.count(">t1<") == 1) == (shifts < 20)
    assert (figure.fit, figure.panels) == ("wrap", 2)


def test_numbers_in_the_chart_are_those_in_the_table() -> None:
    figure, table = shown.scatter("pool", ESTIMATES)
    drawn = [row for row in figure.spec["datasets"]["rows"] if "d" not in row]
    diagonal = [row for row in figure.spec["datasets"]["rows"] if "d" in row]
    assert diagonal == [
        {"m": panel, "a": end, "e": end, "d": 1} for panel in ESTIMATES for end in (0, 1)
    ]
    assert [
        tuple(row.get(key) for key in ("m", "k", "t", "s", "a", "e", "l", "h")) for row in drawn
    ] == list(table.rows)
    points_by_row = {
        (name, p.network, p.test): p for name, points in ESTIMATES.items() for p in points
    }
    assert len(table.rows) == len(points_by_row) == 48
    for name, network, training, test, *numbers in table.rows:
        p = points_by_row[name, network, test]  # type: ignore[index]
        assert training == "S"
        expected = [p.accuracy, p.value, p.low, p.high]
        assert [number is None for number in numbers] == [value is None for value in expected]
        assert [number or 0.0 for number in numbers] == pytest.approx(
            [value or 0.0 for value in expected], abs=1e-6
        )


def test_the_chart_has_the_mean_error_and_lines_for_intervals_alone() -> None:
    figure, _ = shown.scatter("pool", ESTIMATES)
    mean = 100 * np.mean([abs(p.value - p.accuracy) for p in ESTIMATES["one"]])
    assert f"one {mean:.1f}, other" in figure.description
    assert "6 networks on 4 test domains" in figure.description
    # What is drawn as a vertical line is the interval, and only where there is one.
    line, rule, points = figure.spec["spec"]["layer"]
    assert (rule["encoding"]["y"]["field"], rule["encoding"]["y2"]["field"]) == ("l", "h")
    assert rule["transform"] == [{"filter": "isValid(datum.l)"}]
    assert line["transform"] == [{"filter": "isValid(datum.d)"}]
    assert (
        points["encoding"]["x"]["scale"]["domain"]
        == points["encoding"]["y"]["scale"]["domain"]
        == [0, 1]
    )


def test_a_large_pool_is_thinned_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "MOST_POINTS", 10)
    figure, table = shown.scatter("pool", {"one": pool(), "few": pool(networks=2)})
    assert sum(row[0] == "one" for row in table.rows) == 8
    assert sum(row[0] == "few" for row in table.rows) == 8
    assert "Of each 3 points of one one is drawn" in figure.caption
    assert "of few" not in figure.caption


TAUS = {
    "one": {
        "S": Number(0.8, 0.7, 0.9),
        "t1": Number(0.25),
        "t2": Number(None, why="constant"),
        "t3": Number(-0.5, -0.9, -0.1),
    },
    "other": dict.fromkeys(("S", "t1", "t2", "t3"), Number(0.1, 0.0, 0.2)),
}


def test_tau_is_drawn_against_the_domains_in_their_order(tmp_path: Path) -> None:
    """A point a measure and domain that has a tau, and a vertical line where that has an
    interval."""
    figure = shown.domain_figure("Pool tau", "Tau by domain", TAUS)
    assert figure is not None
    assert altair.Chart.from_dict(dict(figure.spec), validate=True) is not None
    rows = figure.spec["datasets"]["rows"]
    assert rows[:3] == [
        {"m": "one", "t": "S", "v": 0.8, "l": 0.7, "h": 0.9},
        {"m": "one", "t": "t1", "v": 0.25},
        {"m": "one", "t": "t3", "v": -0.5, "l": -0.9, "h": -0.1},
    ]
    assert len(rows) == 7 and "one -0.50 to +0.80, other +0.10 to +0.10" in figure.description
    zero, interval, line, point = figure.spec["layer"]
    assert zero["data"] == {"name": "zero"} and figure.spec["datasets"]["zero"] == [{"v": 0}]
    assert interval["transform"] == [{"filter": "isValid(datum.l)"}]
    for mark in (line, point):
        assert mark["encoding"]["x"]["sort"] == ["S", "t1", "t2", "t3"]
        assert mark["encoding"]["y"]["field"] == "v"
    (drawn,) = save(figure, tmp_path, ("svg",))
    svg = drawn.read_text(encoding="utf-8")
    assert svg.count(">t1<") == 1 and "NaN" not in svg


def test_too_few_domains_and_too_many_measures_make_no_curve() -> None:
    three = {"one": {name: TAUS["one"][name] for name in ("S", "t1", "t3")}}
    assert shown.domain_figure("pool", "tau", three) is None
    seven = {f"m{number}": TAUS["other"] for number in range(7)}
    assert shown.domain_figure("pool", "tau", seven) is None
    assert shown.domain_figure("pool", "tau", dict(list(seven.items())[:6])) is not None
    undefined = {"one": dict.fromkeys(TAUS["one"], Number(None))}
    assert shown.domain_figure("pool", "tau", undefined) is None


def test_what_is_no_estimate_is_refused() -> None:
    with pytest.raises(ValueError, match="a value of one is not an accuracy"):
        shown.scatter("pool", {"one": [replace(ESTIMATES["one"][0], value=1.2)]})
    with pytest.raises(ValueError, match="no estimates"):
        shown.scatter("pool", {"one": []})


@pytest.fixture(scope="module")
def judged() -> dict[str, PoolJudgement]:
    return {
        name: judge(points, estimates=True, resamples=200) for name, points in ESTIMATES.items()
    }


def number_words(number: Number, digits: int) -> str:
    return f"{number.value:.{digits}f} [{number.low:.{digits}f}, {number.high:.{digits}f}]"


def all_forms(table: ReportTable) -> bool:
    """Whether a table can be written in every form."""
    return bool(
        table.to_text() and table.to_latex() and table.to_csv() and json.dumps(table.to_json())
    )


def test_the_table_of_measures_has_the_numbers_of_the_judgement(
    judged: dict[str, PoolJudgement],
) -> None:
    table = shown.measure_table("b", "Table 2b", judged, ("test", "in-sample", "estimate"))
    labels = [
        f"{fit_measure}, {fitted_set}"
        for fitted_set in ("test", "in-sample", "estimate")
        for fit_measure in ("1 - SSE/SST", "MAE")
    ]
    assert table.columns == ("measure", "R2", *labels, "macro tau", "ID tau")
    judgement = judged["one"]
    assert table.rows[0][0] == "one"
    assert [row[0] for row in table.rows] == ["one", "other"]
    assert table.rows[0][3] == number_words(judgement.fits["test"].mae, 2)
    assert str(table.rows[0][7]).startswith(f"{judgement.fits['estimate'].mae.value:.2f} [")
    assert table.rows[0][8] == number_words(judgement.macro_tau, 3)
    notes = " ".join(table.notes)
    assert "No micro tau: the networks have one training domain." in notes
    assert "No arch tau: the networks have one arch" in notes
    notes_of_column = {note.split('"')[1]: note for note in table.notes if note.startswith('"')}
    assert "nobody has of a new domain" in notes_of_column["in-sample"]
    assert "It uses none on o" in notes_of_column["test"]
    assert all_forms(table)


def test_tables_of_a_part_and_of_lines_have_the_shapes_of_the_paper(
    judged: dict[str, PoolJudgement],
) -> None:
    judgement = judged["one"]
    tables_by_part = shown.part_table(
        "4", "Table 4", "training regime", {"plain": judged, "augmented": judged}
    )
    assert tables_by_part.columns[:2] == ("training regime", "measure")
    assert tables_by_part.keys == 2
    assert [row[:2] for row in tables_by_part.rows] == [
        (regime, name) for regime in ("plain", "augmented") for name in judged
    ]
    # A number that is undefined is a dash with the reason below.
    gap = shown.part_table(
        "8", "Table 8", "architecture", {"CNN": {"one": judgement}}, ("training",)
    )
    assert gap.rows[0][2] is None
    assert "R2: there is nothing to fit the line on." in gap.notes
    assert "networks trained on domains other than i and o" in gap.notes[0]
    lines = shown.line_table("l", "Lines", judged)
    assert [row[:3] for row in lines.rows[:3]] == [
        ("one", "test", "no"),
        ("one", "in-sample", "yes"),
        ("one", "estimate", "no"),
    ]
    assert str(lines.rows[0][5]) == number_words(judgement.fits["test"].mae, 2)
    assert len(lines.rows) == 6
    assert all(map(all_forms, (tables_by_part, gap, lines)))


def test_tables_across_domains_have_the_taus_of_the_judgement(
    judged: dict[str, PoolJudgement],
) -> None:
    judgement = judged["one"]
    across = shown.across_table("7", "Table 7", judged)
    assert str(across.rows[0][1]).startswith(f"{judgement.across_tau.value:.3f} [")
    assert across.rows[0][2] == 6
    parted = shown.across_table("7", "Table 7", judged, {"cnn": judged})
    assert parted.columns[2] == "of cnn"
    assert parted.rows[0][1] == parted.rows[0][2]
    taus = {
        name: {domain: tau.tau for domain, tau in by_domain(points).items()}
        for name, points in ESTIMATES.items()
    }
    domains = shown.domain_table("17", "Table 17", taus)
    assert domains.columns == ("measure", "S", "t1", "t2", "t3")
    assert str(domains.rows[0][1]).startswith(f"{judgement.id_tau.value:.3f} [")
    assert all(map(all_forms, (across, domains)))


def test_arch_tau_is_a_column_where_it_is_defined() -> None:
    judged = {"one": judge(pool(networks=8, kinds=2), by_architecture=False, resamples=50)}
    table = shown.measure_table("b", "Table 2b", judged, ("architecture",))
    assert table.columns[-1] == "arch tau"
    assert judged["one"].arch_tau.value is not None
    assert str(table.rows[0][-1]).startswith(f"{judged['one'].arch_tau.value:.3f} [")


def test_the_tidy_table_has_every_number() -> None:
    judged = {"one": judge(ESTIMATES["one"], estimates=True, resamples=50)}
    on = by_domain(ESTIMATES["one"])
    table = shown.number_table("all", "Every number", {"": judged, "cnn": judged}, {"one": on})
    rows = {row[:4]: row for row in table.rows}
    assert len(rows) == len(table.rows) == 2 * (5 + 4 * 6) + 3 * len(on)
    fit = judged["one"].fits["test"].mae
    for label in ("one", "one, cnn"):
        assert rows[label, "MAE", None, "test"][4:] == (0, fit.value, fit.low, fit.high, 3, 0, None)
        assert rows[label, "MAE", None, "in-sample"][4] == 1
    assert rows["one", "micro tau", None, ""][5:] == (
        None,
        None,
        None,
        0,
        0,
        "the networks have one training domain",
    )
    tau = on["t1"].tau
    assert rows["one", "macro tau", "t1", ""][4:] == (0, tau.value, tau.low, tau.high, 1, 0, None)


def test_tables_of_comparisons_and_of_coverage() -> None:
    base = ESTIMATES["one"]
    other_measures = {
        "worse": [replace(p, value=min(1.0, p.value + 0.15)) for p in base],
        "same": base,
    }
    compared_measures = comparisons(base, other_measures)
    table = shown.comparison_table("c", "Compared", "one", compared_measures)
    mae = compared_measures["worse"].mae
    assert mae is not None
    assert mae.low is not None
    assert mae.high is not None
    assert table.rows[0][:4] == (
        "worse",
        f"{mae.mean:+.2f} [{mae.low:+.2f}, {mae.high:+.2f}]",
        mae.p,
        compared_measures["worse"].mae_holm,
    )
    assert table.rows[1][2:4] == (None, None)
    assert "Differences to one" in table.notes[0]
    covered = coverage(base)
    cover = shown.coverage_table("v", "Coverage", {"one": covered})
    assert len(cover.rows) == len(covered)
    assert cover.rows[0][:6] == ("one", "all", "all", 12, 6, 6)
    assert str(cover.rows[0][6]).startswith(f"{covered[0].share.value:.3f} [")
    assert cover.rows[0][7] == covered[0].width

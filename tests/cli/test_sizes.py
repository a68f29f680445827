"""`crosswind plan jeon2025/sizes --json` gives every size of tables 6 and 10 of Jeon et al. 2025,
to the row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crosswind.cli.main import _status

SHIFTS = ("SC", "LDD", "UDS", "SC+LDD", "SC+UDS", "LDD+UDS", "SC+LDD+UDS")
TABLE_6 = {
    "dsprites": (1091, (1091, 1080, 1080, 1091, 1091, 1080, 1091), 810),
    "shapes3d": (65, (65, 624, 192, 158, 49, 468, 119), 1280),
    "smallnorb": (127, (127, 1600, 500, 324, 101, 1280, 259), 3125),
    "celeba": (227, (227, 224, 224, 227, 227, 224, 227), 800),
    "deepfashion": (97, (97, 112, 96, 99, 101, 98, 92), 80),
}
TABLE_10 = {
    ("shapes3d", "small"): (65, 624, 192, 158, 49, 468, 119),
    ("shapes3d", "middle"): (130, 1248, 384, 316, 97, 936, 237),
    ("shapes3d", "big"): (194, 1872, 576, 473, 146, 1404, 355),
    ("celeba", "small"): (114, 112, 112, 114, 114, 112, 114),
    ("celeba", "middle"): (227, 224, 224, 227, 227, 224, 227),
    ("celeba", "big"): (340, 336, 336, 340, 340, 336, 340),
}


@pytest.fixture(scope="module")
def draws() -> dict[tuple[str, str, str], dict[str, Any]]:
    import contextlib
    import io

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert _status(["plan", "jeon2025/sizes", "--json"]) == 0
    plan = json.loads(printed.getvalue())
    draw_of = {(draw["source"], draw["size"], draw["shift"]): draw for draw in plan["draws"]}
    assert len(draw_of) == len(plan["draws"]) == 5 * 8 + 6 * 7
    assert plan["runs"] == 82 * 3
    return draw_of


def test_all_87_numbers(draws: dict[tuple[str, str, str], dict[str, Any]]) -> None:
    checked = 0
    for source, (uniform, training, test) in TABLE_6.items():
        assert draws[source, "main", "uniform"]["train_rows"] == uniform
        checked += 1
        for shift, rows in zip(SHIFTS, training, strict=True):
            assert draws[source, "main", shift]["train_rows"] == rows, (source, shift)
            checked += 1
        assert {draws[source, "main", shift]["test_rows"] for shift in ("uniform", *SHIFTS)} == {
            test
        }, source
        checked += 1
    for (source, size), training in TABLE_10.items():
        for shift, rows in zip(SHIFTS, training, strict=True):
            assert draws[source, size, shift]["train_rows"] == rows, (source, size, shift)
            checked += 1
    assert checked == 87


def test_cells_add_up_and_nothing_is_short(
    draws: dict[tuple[str, str, str], dict[str, Any]],
) -> None:
    for key, draw in draws.items():
        assert sum(draw["cells"].values()) == draw["train_rows"], key
        short = [text for text in draw["warnings"] if "single value" not in text]
        assert short == [], key


def test_validation_rows_come_on_top(draws: dict[tuple[str, str, str], dict[str, Any]]) -> None:
    """20% of training and validation together is a quarter of training: 1091 / 4 = 272.75; CelebA
    15%: 227 x 15/85 = 40.06."""
    assert draws["dsprites", "main", "SC"]["validation_rows"] == 273
    assert draws["dsprites", "main", "LDD"]["validation_rows"] == 270
    assert draws["celeba", "main", "SC"]["validation_rows"] == 40


def test_uniform_totals_have_even_marginals(
    draws: dict[tuple[str, str, str], dict[str, Any]],
) -> None:
    for source in TABLE_6:
        cells = draws[source, "main", "uniform"]["cells"]
        marginals: dict[str, int] = {}
        for name, rows in cells.items():
            for pair in name.split(", "):
                marginals[pair] = marginals.get(pair, 0) + rows
        by_attribute: dict[str, list[int]] = {}
        for pair, rows in marginals.items():
            by_attribute.setdefault(pair.split("=")[0], []).append(rows)
        assert len(by_attribute) == 4
        for attribute, counts in by_attribute.items():
            assert max(counts) - min(counts) <= 1, (source, attribute, counts)


def test_spurious_correlation_has_the_counterexamples(
    draws: dict[tuple[str, str, str], dict[str, Any]],
) -> None:
    """dSprites, SC: 27 matched cells of 40 rows, and ceil(10.8) = 11 rows elsewhere."""
    cells = draws["dsprites", "main", "SC"]["cells"]
    matched = {("square", "red"), ("ellipse", "yellow"), ("heart", "blue")}
    inside, outside = [], []
    for name, rows in cells.items():
        values = dict(pair.split("=") for pair in name.split(", "))
        (inside if (values["shape"], values["object_color"]) in matched else outside).append(rows)
    assert inside == [40] * 27
    assert sum(outside) == 11
    assert draws["dsprites", "main", "SC"]["matching"]["object_color"] == {
        "square": ["red"],
        "ellipse": ["yellow"],
        "heart": ["blue"],
    }


@pytest.mark.slow
def test_a_plan_says_which_law_validation_follows(capsys: pytest.CaptureFixture[str]) -> None:
    for study, law, words in [
        ("demo", "train", "as training, supplements among them"),
        (
            "jeon2025/sizes",
            "without-supplements",
            "training without counterexamples and other supplements",
        ),
    ]:
        assert _status(["plan", study]) == 0
        assert f"validation set validation: law {law}, {words}\n" in capsys.readouterr().out
        assert _status(["plan", study, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["validation"] == {"validation": law}

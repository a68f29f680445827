"""The rows behind the numbers: examples, answers and learning curves, computed again from what the
jobs left."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from PIL import Image

import crosswind as cw
from crosswind.core.types import Predictions
from crosswind.reports.gather import StudyRecord, gather
from crosswind.reports.page import study_page
from crosswind.reports.page_head import PICTURES
from crosswind.reports.rows import answers as behind_rows
from crosswind.reports.rows import figures as row_figures
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.predictions_file import run_predictions
from crosswind.storage.store import Store

TRAINING: dict[str, Any] = {
    "steps": 12,
    "batch": 16,
    "lr": 0.01,
    "validate_every": 4,
    "patience": None,
}
DIGITS = {
    "name": "shown",
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 8},
            "label": "half",
            "attributes": ["ink", "background"],
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.1},
    },
    "sizes": {"small": {"total": 90}},
    "groups": ["ink"],
    "models": {"mlp": {"layers": 1}},
    "methods": ["erm", "groupdro"],
    "training": TRAINING,
    "seeds": 3,
}


def read(out: Path, study: str = "shown") -> StudyRecord:
    with Store.open(out) as store:
        return gather(store, study)


def run(study: dict[str, Any], out: Path) -> StudyRecord:
    assert not cw.run_study(study, out).summary.failed
    return read(out, study["name"])


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows") / "out"
    run(DIGITS, folder)
    return folder


@pytest.fixture(scope="module")
def record(out: Path) -> StudyRecord:
    return read(out)


def answered(out: Path, shift: str, method: str) -> list[Predictions]:
    with Store.open(out) as store:
        keys = [
            run["key"]
            for run in store.runs("shown")
            if (run["labels"]["shift"], run["labels"]["method"]) == (shift, method)
        ]
        return [run_predictions(store, key)["best-id"]["test"] for key in keys]


@pytest.mark.slow
def test_answers_are_those_of_the_predictions(out: Path, record: StudyRecord) -> None:
    assert record.behind.left_out == []
    digits = cw.load("digits", size=8)
    base = {int(row): i for i, row in enumerate(digits.row_ids(np.arange(digits.n_rows)))}
    column = {name: digits.attribute(name).values for name in ("half", "ink", "background")}
    assert [(answers.shift, answers.method) for answers in record.behind.answers] == [
        (shift, method) for shift in ("none", "SC") for method in ("erm", "groupdro")
    ]
    for answers in record.behind.answers:
        predictions = answered(out, answers.shift, answers.method)
        assert answers.seeds == len(predictions) == 3
        for truth, true_name in enumerate(("0-4", "5-9")):
            for answer, name in enumerate(("0-4", "5-9")):
                shares = [
                    float((predicted.answer[predicted.label == truth] == answer).mean())
                    for predicted in predictions
                ]
                assert answers.confusion[true_name, name] == pytest.approx(np.mean(shares))
        assert list(answers.cells) == [
            ("half", "ink"),
            ("half", "background"),
            ("ink", "background"),
        ]
        for (first, second), cells in answers.cells.items():
            rights: dict[tuple[str, str], list[float]] = {}
            for predicted in predictions:
                for i, row in enumerate(predicted.ids):
                    codes = [
                        int(digits.table.column(name)[base[int(row)]]) for name in (first, second)
                    ]
                    pair = (column[first][codes[0]], column[second][codes[1]])
                    rights.setdefault(pair, []).append(
                        float(predicted.answer[i] == predicted.label[i])
                    )
            assert {
                pair: (pytest.approx(np.mean(right)), len(right) // 3)
                for pair, right in rights.items()
            } == dict(cells)


def test_the_rows_shown_are_those_wrong_most_often_and_look_as_they_are(
    out: Path, record: StudyRecord
) -> None:
    digits = cw.load("digits", size=8)
    answers = next(
        answer for answer in record.behind.answers if (answer.shift, answer.method) == ("SC", "erm")
    )
    predictions = answered(out, "SC", "erm")
    wrong = np.sum(
        [
            (predicted.answer != predicted.label)[np.argsort(predicted.ids)]
            for predicted in predictions
        ],
        axis=0,
    )
    group, ids = predictions[0].group[np.argsort(predictions[0].ids)], np.sort(predictions[0].ids)
    means = {code: float(wrong[group == code].mean()) for code in np.unique(group)}
    order = sorted(means, key=lambda code: -means[code])
    assert len(answers.wrong) == len(order) == 6
    assert [100 - wrong_group.accuracy for wrong_group in answers.wrong] == pytest.approx(
        [100 * means[code] / 3 for code in order]
    )
    for code, wrong_group in zip(order, answers.wrong, strict=True):
        most_wrong = sorted(wrong[group == code])[::-1][: behind_rows.PER_GROUP]
        assert [
            int(n)
            for example in wrong_group.examples
            for n in re.findall(r"wrong in (\d) of 3", example.words)
        ] == [n for n in most_wrong if n]
    first = answers.wrong[0].examples[0]
    candidates = np.flatnonzero((group == order[0]) & (wrong == wrong[group == order[0]].max()))
    pixels = np.asarray(Image.open(io.BytesIO(first.png)))
    row = int(np.flatnonzero(digits.row_ids(np.arange(digits.n_rows)) == ids[candidates[0]])[0])
    assert np.array_equal(pixels, digits.inputs(np.array([row]))[0])
    assert all(
        f"{name} {digits.attribute(name).values[int(digits.table.column(name)[row])]}"
        in first.words
        for name in ("half", "ink")
    )


def test_examples_are_rows_of_the_sets(record: StudyRecord) -> None:
    digits = cw.load("digits", size=8)
    class_of_pixels = {
        bytes(image): code
        for image, code in zip(
            digits.inputs(np.arange(digits.n_rows)), digits.table.column("half"), strict=True
        )
    }
    assert [strip.shift for strip in record.behind.strips] == ["none", "SC"]
    shown = 0
    for strip in record.behind.strips:
        assert [name for name, _, _ in strip.classes] == ["0-4", "5-9"]
        for code, (_, *sets) in enumerate(strip.classes):
            for examples in sets:
                assert len(examples) == behind_rows.PER_CLASS
                for example in examples:
                    shown += 1
                    assert (
                        class_of_pixels[np.asarray(Image.open(io.BytesIO(example.png))).tobytes()]
                        == code
                    )
    assert shown == 2 * 2 * 2 * behind_rows.PER_CLASS
    inks = [
        example.words.split("ink ")[1].split(",")[0]
        for _, train, _ in record.behind.strips[1].classes
        for example in train
    ]
    assert len(set(inks[:8])) < 3 or len(set(inks[8:])) < 3, "the shift is seen"


def test_curves_are_means_of_the_histories(out: Path, record: StudyRecord) -> None:
    histories: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    chosen: dict[tuple[str, str], list[int]] = {}
    with Store.open(out) as store:
        for listed_run in store.runs("shown"):
            pair = (listed_run["labels"]["shift"], listed_run["labels"]["method"])
            fit = next(
                need
                for need in store.run(listed_run["key"])["needs"]
                if store.run(need)["kind"] == "fit"
            )
            histories.setdefault(pair, []).append(
                json.loads((artifact_folder(store.out, fit) / "history.json").read_text())
            )
        for row in store.results("shown"):
            if (row["rule"], row["set"]) == ("best-id", "test"):
                chosen.setdefault((row["shift"], row["method"]), []).append(
                    row["metrics"]["selected_step"]
                )
    assert len(record.behind.curves) == len(histories) == 4
    for curve in record.behind.curves:
        pair = (curve.shift, curve.method)
        steps = [
            [entry["validation"]["validation"]["accuracy"] for entry in history]
            for history in histories[pair]
        ]
        assert list(curve.accuracy) == [4, 8, 12] and list(
            curve.accuracy.values()
        ) == pytest.approx(np.mean(steps, axis=0))
        assert {step: chosen[pair].count(step) for step in set(chosen[pair])} == curve.chosen[
            "best-id"
        ]
        assert curve.chosen["last"] == {12: 3}


def test_the_page_shows_them(record: StudyRecord) -> None:
    page = study_page([record], "out")
    strips = 2 * 2 * 2 * behind_rows.PER_CLASS
    wrong = sum(
        len(wrong_group.examples)
        for answer in record.behind.answers
        for wrong_group in answer.wrong
    )
    beside_names = 2 * 2 * PICTURES
    assert page.count('src="data:image/png;base64,') == beside_names + strips + wrong
    assert wrong > 20
    assert len(page) < 2_000_000
    for section in ("Examples", "Mistakes", "Learning curves"):
        assert f'-title">{section}<a' in page
    drawn = json.loads(page.split('id="figures">')[1].split("</script>")[0])["figures"]
    assert (
        sum(name.startswith("confusion-") for name in drawn) == 2
        and sum(name.startswith("cells-") for name in drawn) == 6
    )
    assert sum(name.startswith("curves-") for name in drawn) == 1


def test_the_tables_of_the_page_hold_the_same_numbers(record: StudyRecord) -> None:
    compared = 0
    for shift in ("none", "SC"):
        answers = [answer for answer in record.behind.answers if answer.shift == shift]
        _, table = row_figures.confusion(answers)  # type: ignore[misc]
        shares = {
            (method_answers.method, *pair): share
            for method_answers in answers
            for pair, share in method_answers.confusion.items()
        }
        assert {tuple(row[:3]): row[3] for row in table.rows} == pytest.approx(shares, abs=5e-5)
        compared += len(shares)
        for pair in answers[0].cells:
            _, table = row_figures.cells(answers, pair)  # type: ignore[misc]
            cell_shares = {
                (method_answers.method, *cell): share
                for method_answers in answers
                for cell, share in method_answers.cells[pair].items()
            }
            assert {
                tuple(row[:3]): (pytest.approx(row[3], abs=5e-5), row[4]) for row in table.rows
            } == cell_shares
            compared += len(cell_shares)
    figure, table = row_figures.curves(record.behind.curves, ["none", "SC"])
    points = {
        (curve.shift, curve.method, "validation", step): value
        for curve in record.behind.curves
        for step, value in curve.accuracy.items()
    }
    assert {tuple(row[:4]): row[4] for row in table.rows} == pytest.approx(points)
    assert sum(row[5].count("last 3") for row in table.rows) == 4 and figure.panels == 2
    assert compared == 2 * 2 * (4 + 6 + 6 + 9) and len(points) == 2 * 2 * 3


@pytest.mark.parametrize("fault", ["predictions", "job", "history", "split"])
def test_a_damaged_file_leaves_out_what_it_held_and_says_so(
    out: Path, tmp_path: Path, fault: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    name = {
        "predictions": "predictions.npz",
        "job": "job.json",
        "history": "history.json",
        "split": "split.json",
    }[fault]
    paths = sorted(copy.glob(f"artifacts/*/*/{name}"))
    assert len(paths) >= 12
    for path in paths:
        path.write_bytes(path.read_bytes()[:-9] + b"something")
    record = read(copy)
    assert record.behind.left_out and all(
        "is not what the run wrote" in line for line in record.behind.left_out
    )
    assert bool(record.behind.curves) == (fault not in ("job", "history"))
    assert not record.behind.answers or fault == "history"
    assert "is not what the run wrote" in study_page([record], "out") or fault == "history"


@pytest.mark.slow
def test_data_that_changed_since_are_not_shown_as_those_trained_on(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    listed = []
    for i in range(80):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(
            tmp_path / "images" / f"{i}.png"
        )
        listed.append({"path": f"{i}.png", "kind": "ab"[i % 2], "place": "xy"[i // 2 % 2]})
    table = tmp_path / "table.csv"
    polars.DataFrame(listed).write_csv(table)
    data = {"source": "table", "options": {"path": str(table), "images": str(tmp_path / "images")}}
    study = {
        **DIGITS,
        "data": {"own": {**data, "label": "kind", "attributes": ["place"]}},
        "groups": ["place"],
        "seeds": 1,
    }
    study |= {"shifts": {"none": []}, "methods": ["erm"], "sizes": {"all": "all"}}
    assert run(study, tmp_path / "out").behind.strips
    polars.DataFrame(
        [{**row, "place": "x"} if i < 30 else row for i, row in enumerate(listed)]
    ).write_csv(table)
    record = read(tmp_path / "out")
    assert not record.behind.strips and not record.behind.answers and record.behind.curves
    assert any("other rows now" in line or "has" in line for line in record.behind.left_out)
    table.unlink()
    record = read(tmp_path / "out")
    assert any(
        "Rows of own are not shown" in line and "table.csv" in line
        for line in record.behind.left_out
    )


@pytest.mark.slow
def test_texts_are_quoted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["fine <b>", "awful & dull"]
    rows = [
        {
            "text": f"row {i} is {words[i % 2]} {rng.integers(99)}",
            "label": i % 2,
            "domain": "ab"[i // 2 % 2],
        }
        for i in range(160)
    ]
    polars.DataFrame(rows).write_parquet(tmp_path / "texts.parquet")
    entry = {
        "source": "texts",
        "options": {"path": str(tmp_path / "texts.parquet")},
        "label": "label",
        "attributes": ["domain"],
    }
    study = {
        **DIGITS,
        "data": {"texts": entry},
        "models": {"bag-of-words": {"buckets": 64}},
        "groups": ["domain"],
        "seeds": 1,
    }
    record = run(
        {**study, "shifts": {"none": []}, "methods": ["erm"], "sizes": {"all": "all"}},
        tmp_path / "out",
    )
    written_texts = {row["text"] for row in rows}
    shown = [
        example.text
        for strip in record.behind.strips
        for _, *sets in strip.classes
        for examples in sets
        for example in examples
    ]
    assert len(shown) > 20 and set(shown) <= written_texts
    page = study_page([record], "out")
    assert '<q dir="auto"' in page and "fine &lt;b&gt;" in page and "fine <b>" not in page


def test_a_derived_attribute_is_seen_in_the_pictures(tmp_path: Path) -> None:
    turned = {
        "name": "turn",
        "values": {"none": None, "half": {"degrees": 180, "draw": "fixed"}},
        "transform": "rotate",
    }
    entry = {**DIGITS["data"]["digits"], "derive": turned, "attributes": ["turn"]}  # type: ignore[index]
    study = {
        **DIGITS,
        "data": {"digits": entry},
        "groups": ["turn"],
        "shifts": {"none": []},
        "methods": ["erm"],
        "seeds": 1,
    }
    record = run(study, tmp_path / "out")
    assert record.behind.left_out == []
    digits = cw.load("digits", size=8)
    upright = {image.tobytes() for image in digits.inputs(np.arange(digits.n_rows))}
    turned_round = {
        image[::-1, ::-1].tobytes() for image in digits.inputs(np.arange(digits.n_rows))
    }
    for _, *sets in record.behind.strips[0].classes:
        for example in (example for examples in sets for example in examples):
            pixels = np.asarray(Image.open(io.BytesIO(example.png))).tobytes()
            assert pixels in (turned_round if "turn half" in example.words else upright)


def test_of_several_split_seeds_the_first_is_shown(tmp_path: Path) -> None:
    study = {
        **DIGITS,
        "methods": ["erm"],
        "shifts": {"none": []},
        "split_seeds": [0, 1],
        "seeds": 2,
    }
    record = run(study, tmp_path / "out")
    assert record.behind.left_out == []
    assert [answer.seeds for answer in record.behind.answers] == [2] and [
        curve.seeds for curve in record.behind.curves
    ] == [2]

"""Estimates of models of texts on what a program holds: frames, lists, pairs and data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import crosswind as cw
from crosswind.core.errors import InputError

WORDS = ("dull slow broken poor", "great funny moving fine")
FRAME = polars.DataFrame(
    {
        "text": [f"the plot was {WORDS[row % 2].split()[row % 4]} ({row})" for row in range(80)],
        "mood": [("bad", "good")[row % 2] for row in range(80)],
        "kind": [("book", "film")[row % 3 > 0] for row in range(80)],
    }
)
TEXTS, MOODS = FRAME["text"].to_list(), FRAME["mood"].to_list()
DATA = cw.from_frame(FRAME, text="text", label="mood")


@pytest.fixture(scope="module")
def trained() -> Any:
    split = cw.split(DATA, "mood", ["kind"], test=0.25)
    return cw.train("erm", split, DATA, model="bag-of-words", steps=6, validate_every=3)


def of(model: Any, data: Any, source: Any, **settings: Any) -> Any:
    chosen = {"label": "mood", "pool_rows": 4, "near_rows": 0, "estimators": ["atc-mc", "cbpe"]}
    return cw.estimate(model, data, source, **{**chosen, **settings})


def renamed() -> polars.DataFrame:
    return FRAME.rename({"text": "review"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "source", "settings"),
    [
        (lambda: FRAME, lambda: FRAME, {}),
        (lambda: FRAME.drop("mood", "kind"), lambda: FRAME.to_dict(as_series=False), {}),
        (lambda: TEXTS, lambda: DATA, {}),
        (lambda: np.array(TEXTS), lambda: (TEXTS, MOODS), {"label": None}),
        (renamed, renamed, {"text": "review"}),
    ],
)
def test_what_a_program_holds_is_estimated_as_a_data_set_is(
    data: Callable[[], Any], source: Callable[[], Any], settings: Any, trained: Any, tmp_path: Path
) -> None:
    """A frame was handed to the model as it stands, and the model failed on it; a list beside a
    data set was refused, and neither had a pool."""
    expected = of(trained, DATA, DATA)
    right = (trained.predict(TEXTS) == np.array(MOODS)).mean()
    assert expected.source_accuracy == right
    file = str(trained.save(tmp_path / "m.safetensors"))
    for model in (trained, cw.load_model(file), file):
        estimates = of(model, data(), source(), **settings)
        assert estimates.source_accuracy == right
        assert [row.estimate.accuracy for row in estimates.rows] == [
            row.estimate.accuracy for row in expected.rows
        ]


@pytest.mark.slow
def test_parts_of_texts_are_estimated_and_without_labels_the_classes_are_the_models() -> None:
    pairs = FRAME.with_columns(first=polars.lit("it is said:"))
    data = cw.from_frame(pairs, text=["first", "text"], label="mood")
    split = cw.split(data, "mood", ["kind"], test=0.25)
    model = cw.train("erm", split, data, model="bag-of-words", steps=6, validate_every=3)
    of_frame = of(model, pairs, pairs, text=["first", "text"])
    assert of_frame.source_accuracy == (model.predict(data) == np.array(MOODS)).mean()
    assert "mean confidence of these 80 answers" in cw.estimate(model, TEXTS).sentence


@pytest.mark.parametrize(
    ("data", "source", "settings", "sentence"),
    [
        (renamed(), FRAME, {}, r"text: unknown column of data 'text' \(valid: review, mood, kind"),
        (FRAME, FRAME, {"label": None}, "label: is needed: the column of the source's labels"),
        (FRAME, FRAME, {"label": "moods"}, "label: unknown column of the source 'moods', did you"),
        (FRAME, TEXTS, {}, "source: must be a frame with a column of labels, or a pair"),
        (FRAME, (TEXTS, MOODS[1:]), {}, "source: has 80 texts and 79 labels"),
        ([*TEXTS, 3], FRAME, {}, "data: must be texts, and row 81 is 3"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    data: Any, source: Any, settings: Any, sentence: str, trained: Any
) -> None:
    with pytest.raises(InputError, match=sentence):
        of(trained, data, source, **settings)


def test_an_array_of_pictures_stands_beside_a_data_set() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    pictures = cw.from_frame(
        {"mood": ["bad", "good"] * 20, "kind": ["a", "a", "b", "b"] * 10}, pixels
    )
    split = cw.split(pictures, "mood", ["kind"], test=0.25)
    model = cw.train("erm", split, pictures, model="mlp", steps=4, validate_every=2)
    of_array, of_data = (of(model, data, pictures, pool_rows=0) for data in (pixels, pictures))
    assert [row.estimate.accuracy for row in of_array.rows] == [
        row.estimate.accuracy for row in of_data.rows
    ]
    with pytest.raises(InputError, match="data: are uint8 .*put the channels last"):
        of(model, pixels.transpose(0, 3, 1, 2), pictures)


def test_a_file_of_weights_is_asked_about_arrays_of_pictures(tmp_path: Path) -> None:
    """They were taken for frames of numbers, and refused."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    moods = ["bad", "good"] * 20
    pictures = cw.from_frame({"mood": moods, "kind": ["a", "a", "b", "b"] * 10}, pixels)
    split = cw.split(pictures, "mood", ["kind"], test=0.25)
    model = cw.train("erm", split, pictures, model="mlp", steps=4, validate_every=2)
    file = str(model.save(tmp_path / "m.safetensors"))
    estimates = of(file, pixels, (pixels, moods), label=None)
    expected = of(file, pictures, pictures)
    assert estimates.source_accuracy == (model.predict(pixels) == np.array(moods)).mean()
    assert [row.estimate.accuracy for row in estimates.rows] == [
        row.estimate.accuracy for row in expected.rows
    ]
    for data, source, sentence in (
        (pixels, (pixels, moods[1:]), "source: has 40 pictures and 39 labels"),
        (pixels, pixels, "source: must be a pair of pictures and labels, or name a folder"),
        (pixels / 255, pictures, "data: are float64 .* make floats in"),
    ):
        with pytest.raises(InputError, match=sentence):
            of(file, data, source, label=None if source is not pictures else "mood")

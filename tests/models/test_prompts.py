"""What is asked, and which class each answer stands for; answers in words are kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosswind.core.errors import InputError
from crosswind.core.types import Predictions
from crosswind.models.language.prompts import filled, prompts, question_of
from crosswind.storage.predictions_file import (
    read_predictions,
    read_texts,
    write_predictions,
    write_texts,
)


def knobs(prompt: str = "jeon2025-general-1", **other: Any) -> dict[str, Any]:
    return {"prompt": prompt, "answers": {}, "names": {}, **other}


def test_labels_are_listed_as_in_the_paper() -> None:
    assert filled("{labels}", ["a"]) == "a" and filled("{labels}", ["a", "b"]) == "a or b"
    assert filled("into {labels}: {list}.", ["a", "b", "c"]) == "into a, b, or c: a, b, c."
    question = question_of(knobs(names={"0": "square", "1": "{list}"}), ["0", "1", "big_heart"])
    assert question.words == ("square", "{list}", "big heart")
    assert question.text.startswith("Classify the image into square, ")
    assert question.read(["Square.", "the big heart", "0", "a circle"]).tolist() == [0, 2, -1, -1]


def test_every_named_prompt_asks_its_own_data_set() -> None:
    classes = {"jeon2025-dress": ["mini_length", "no_dress"]}
    named = prompts()
    assert len(named) == 11 and {
        name for named_prompt in named.values() for name in named_prompt.get("tailored", [])
    } == {
        *(
            "dsprites",
            "shapes3d",
            "smallnorb",
            "celeba",
            "deepfashion",
            "iwildcam",
            "fmow",
            "camelyon17",
        )
    }
    for name in named:
        own_classes = classes.get(name, ["no", "yes"])
        question = question_of(knobs(name), own_classes)
        assert "{l" not in question.text or name == "jeon2025-clip"
        if named[name].get("answers"):
            assert question.words == ("yes", "no")
            assert question.read(["Yes, it does.", "No, there is none."]).tolist() == [
                own_classes.index(named[name]["answers"][w]) for w in question.words
            ]


def test_answers_stand_for_classes_and_several_may_stand_for_one() -> None:
    question = question_of(
        knobs("Is it a dress?", answers={"yes": "b", "no": "a", "a robe": "b"}), ["a", "b"]
    )
    assert question.text == "Is it a dress?" and question.classes.tolist() == [1, 0, 1]
    assert question.read(["yes", "No.", "It is a robe", "no idea"]).tolist() == [1, 0, 1, -1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            knobs("jeon2025-genral-1"),
            (
                "models.m.prompt: unknown prompt 'jeon2025-genral-1', did you mean"
                " 'jeon2025-general-1'"
            ),
        ),
        (knobs(" "), "models.m.prompt: must be the name of a prompt or its text"),
        (
            knobs("jeon2025-dress"),
            (
                "models.m.answers: must say what an answer to this prompt stands for, as in {yes:"
                " CLASS, no: CLASS}"
            ),
        ),
        (knobs(answers={"yes": "c"}), "models.m.answers"),
        (knobs(answers={"yes": "a"}), "models.m.answers: no answer stands for the class 'b'"),
        (knobs(names={"c": "x"}), "models.m.names"),
        (knobs(names={"a": "B"}), "models.m.names: 'b' is read as another one"),
    ],
)
def test_what_makes_no_question_is_refused_in_one_sentence(
    given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError) as caught:
        question_of(given, ["a", "b"], "models.m")
    assert told in str(caught.value)


def test_texts_are_kept_and_those_without_a_label_are_shown(tmp_path: Path) -> None:
    texts = ["Dress.", "I cannot say", "schräg \n", "I cannot say"]
    predictions = Predictions(
        np.arange(4) + 7, np.zeros(4, int), np.zeros(4, int), np.array([1, -1, -1, -1]), None, texts
    )
    shown = write_texts(tmp_path, {"given": {"test": predictions}}, ["shirt", "dress"])
    assert [
        (text_kept["id"], text_kept["text"], text_kept["label"])
        for text_kept in read_texts(tmp_path)
    ] == [
        *(
            (7, "Dress.", "dress"),
            (8, "I cannot say", None),
            (9, "schräg \n", None),
            (10, "I cannot say", None),
        )
    ]
    grid: Any = shown["unread answers, test"]
    assert grid.caption == "3 of 4 answers (75.0%) could not be read as a label"
    assert grid.rows[0] == (2, "I cannot say", 8) and len(grid.rows) == 2
    write_predictions(tmp_path / "predictions.npz", {"given": {"test": predictions}})
    assert read_predictions(tmp_path / "predictions.npz")["given"]["test"].texts is None
    assert list(read_texts(tmp_path / "nowhere")) == []
    assert (
        write_texts(
            tmp_path / "nowhere", {"given": {"test": Predictions(*[np.zeros(2, int)] * 4)}}, ["a"]
        )
        == {}
    )

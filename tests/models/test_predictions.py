"""Predictions of others in files: no more of them is read than an answer needs, and names are what
was written."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars
import pytest

import crosswind as cw
from crosswind.core.errors import DataError
from crosswind.models.given.predictions import PredictionsFile

ROWS = 4
IDS, LOGITS = np.arange(ROWS), np.array([[2.0, 1.0], [1.0, 2.0], [3.0, 0.0], [0.0, 3.0]])


def asked(path: Path, class_names: tuple[str, ...] = ("no", "yes")) -> list[int]:
    images = np.zeros((ROWS, 4, 4, 3), dtype=np.uint8)
    data = cw.from_frame({"label": [class_names[row % 2] for row in range(ROWS)]}, images)
    row_set: Any = SimpleNamespace(rows=np.arange(ROWS))
    return list(PredictionsFile(path=str(path)).answer(row_set, data, class_names)[0].tolist())


def header(descr: str, shape: tuple[int, ...]) -> bytes:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return head.getvalue()


def member(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


BOMB = header("|u1", (200 << 20,)) + bytes(200 << 20)

UNUSED: dict[str, dict[str, bytes]] = {
    "another array": {"features": BOMB},
    "several": {"a": BOMB, "b": BOMB},
    "no array": {"notes": b"what is this"},
    "objects": {"o": b"\x93NUMPY\x01\x00"},
    "labels beside logits": {"label": BOMB},
    "a header without an end": {"h": header("<f8", (2**60, 2**60))},
    "cut": {"c": header("<f8", (10,)) + bytes(8)},
}


@pytest.mark.parametrize("way", UNUSED)
def test_members_that_no_answer_needs_are_not_unpacked(tmp_path: Path, way: str) -> None:
    """A file of 4.2 MB unpacked to 4.3 GB."""
    path = archive(tmp_path / "p.npz", {"id": member(IDS), **UNUSED[way], "logits": member(LOGITS)})
    asked(path)
    tracemalloc.start()
    try:
        assert asked(path) == [0, 1, 0, 1]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


REFUSED: dict[str, dict[str, bytes]] = {
    "logits for other rows": {"id": member(IDS), "logits": header("<f8", (2**24, 2)) + bytes(16)},
    "logits beyond memory": {"id": member(IDS), "logits": header("<f8", (2**60, 2))},
    "logits of many bytes": {"id": member(IDS), "logits": BOMB},
    "ids beyond memory": {"id": header("<i8", (2**61,)), "logits": member(LOGITS)},
    "ids of two axes": {"id": header("<i8", (2**20, 2**20)), "logits": member(LOGITS)},
    "labels of long words": {
        "id": member(IDS),
        "label": header("<U50000000", (ROWS,)) + bytes(4096),
    },
    "ids that are text": {"id": member(IDS.astype(str)), "logits": member(LOGITS)},
    "ids that are objects": {"id": header("|O", (ROWS,)) + bytes(64), "logits": member(LOGITS)},
    "a negative length": {"id": header("<i8", (-4,)), "logits": member(LOGITS)},
    "cut": {"id": member(IDS), "logits": member(LOGITS)[:-8]},
    "longer": {"id": member(IDS), "logits": member(LOGITS) + bytes(8)},
    "complex": {"id": member(IDS), "logits": member(LOGITS.astype(complex))},
    "no ids": {"logits": member(LOGITS)},
    "a class that is missing": {"id": member(IDS), "no": member(LOGITS[:, 0])},
}


@pytest.mark.parametrize("way", REFUSED)
def test_what_cannot_be_the_predictions_is_refused_before_memory_is_taken(
    tmp_path: Path, way: str
) -> None:
    path = archive(tmp_path / "p.npz", REFUSED[way])
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"^p\.npz") as refused:
            asked(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert str(tmp_path) not in str(refused.value)


def test_arrays_of_every_form_are_read_as_they_were(tmp_path: Path) -> None:
    order = [2, 0, 3, 1]
    forms: list[dict[str, Any]] = [
        {"id": IDS[order], "logits": LOGITS[order].astype(np.float32)},
        {"id": IDS.astype(np.uint16), "logits": np.asfortranarray(LOGITS)},
        {"id": IDS, "logits": LOGITS.astype(int)},
        {"id": IDS, "logits": LOGITS.astype(">f8")},
        {"id": IDS[order], "label": np.array(["no", "yes", "no", "yes"])[order]},
        {"id": IDS, "label": np.array([0, 1, 0, 1], dtype=np.int8)},
        {"id": IDS, "no": LOGITS[:, 0], "yes": LOGITS[:, 1]},
    ]
    for number, arrays in enumerate(forms):
        path = tmp_path / f"{number}.npz"
        write: Callable[..., None] = np.savez_compressed if number % 2 else np.savez
        write(path, **arrays)
        assert asked(path) == [0, 1, 0, 1], arrays


NAMES = [
    ('say "hi"', 'say "no"'),
    ('"', '""'),
    ('a""b', "c"),
    ('x", "y', "z, z"),
    ('"quoted"', "plain"),
    ("comma, semi;colon", 'ends"'),
]


@pytest.mark.parametrize("names", NAMES, ids=ascii)
def test_a_doubled_quote_is_one_in_the_first_line_as_in_cells(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    frame = polars.DataFrame({"id": IDS, names[0]: LOGITS[:, 0], names[1]: LOGITS[:, 1]})
    frame.write_csv(tmp_path / "p.csv")
    assert '""' in (tmp_path / "p.csv").read_text()
    assert asked(tmp_path / "p.csv", names) == [0, 1, 0, 1]
    frame.write_parquet(tmp_path / "p.parquet")
    assert asked(tmp_path / "p.parquet", names) == [0, 1, 0, 1]


PROBABILITIES = np.random.default_rng(0).dirichlet([2, 1], 20)


def answers(path: Path, frame: dict[str, Any], class_names: tuple[str, ...] = ("no", "yes")) -> Any:
    """Answers and logits of a table about twenty rows."""
    polars.DataFrame(frame).write_csv(path / "p.csv")
    images = np.zeros((20, 4, 4, 3), dtype=np.uint8)
    data = cw.from_frame({"label": [class_names[row % 2] for row in range(20)]}, images)
    row_set: Any = SimpleNamespace(rows=np.arange(5, 20))
    return PredictionsFile(path=str(path / "p.csv")).answer(row_set, data, class_names)


def test_probabilities_become_their_logarithms(tmp_path: Path) -> None:
    no, yes = PROBABILITIES.T
    _, logits = answers(tmp_path, {"id": range(20), "no": no, "yes": yes})
    assert logits == pytest.approx(np.log(PROBABILITIES[5:]), rel=1e-5)
    with pytest.raises(DataError, match=r"p\.csv gives percentages"):
        answers(tmp_path, {"id": range(20), "no": 100 * no, "yes": 100 * yes})


def test_a_row_without_any_score_has_no_answer_and_one_without_some_is_refused(
    tmp_path: Path,
) -> None:
    no, yes = (column.tolist() for column in PROBABILITIES.T)
    no[7] = yes[7] = None
    answer, _ = answers(tmp_path, {"id": range(20), "no": no, "yes": yes})
    assert answer[2] == -1 and (answer >= 0).sum() == 14
    no[9] = yes[12] = None
    problem = r"p\.csv, id 9, has no score for the class 'no' \(1 more such row\); give all scores"
    with pytest.raises(DataError, match=problem):
        answers(tmp_path, {"id": range(20), "no": no, "yes": yes})


def test_ids_that_count_from_one_are_refused(tmp_path: Path) -> None:
    labels = ["no", "yes"] * 10
    with pytest.raises(
        DataError, match=r"has the ids 1 to 20, and the rows .* 0 to 19: subtract 1"
    ):
        answers(tmp_path, {"id": range(1, 21), "label": labels})
    assert answers(tmp_path, {"id": range(20), "label": labels})[0].tolist()[:2] == [1, 0]


def test_labels_of_a_table_may_be_places_where_no_class_is_a_number(tmp_path: Path) -> None:
    places = [row % 2 for row in range(20)]
    assert answers(tmp_path, {"id": range(20), "label": places})[0].tolist() == places[5:]
    numbered = answers(tmp_path, {"id": range(20), "label": places}, ("1", "0"))
    assert numbered[0].tolist() == [1 - place for place in places[5:]]
    with pytest.raises(DataError, match="gave the label"):
        answers(tmp_path, {"id": range(20), "label": [7] * 20})

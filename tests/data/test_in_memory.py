"""Data that a program has already: frames with a folder or an array of images, and data sets of
torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import torch
from PIL import Image

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.core.types import InputSpec
from crosswind.data.in_memory import of_inputs

N = 48
PIXELS = np.random.default_rng(0).integers(0, 256, (N, 8, 8, 3), dtype=np.uint8)
COLUMNS = {
    "kind": ["a", "b"] * (N // 2),
    "place": ["x", "x", "y", "y"] * (N // 4),
    "who": [i // 2 for i in range(N)],
}


class Items:
    """A map-style data set, as torch's are."""

    classes = ("cat", "dog")

    def __init__(self, form: str) -> None:
        self.form = form

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> Any:
        image: Any = PIXELS[i]
        if self.form == "pil":
            image = Image.fromarray(PIXELS[i])
        elif self.form != "array":
            image = torch.from_numpy(PIXELS[i]).permute(2, 0, 1)
            image = image.float() / 255 if self.form == "float" else image
        return image, i % 2


def pandas_frame() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(COLUMNS)


@pytest.mark.parametrize(
    "frame",
    [lambda: COLUMNS, lambda: polars.DataFrame(COLUMNS), pandas_frame],
    ids=["mapping", "polars", "pandas"],
)
def test_a_frame_and_an_array_are_split_and_learnt(frame: Any) -> None:
    data = cw.from_frame(frame(), PIXELS, unit="who")
    assert (
        [item.name for item in data.schema] == ["kind", "place"]
        and data.n_rows == N
        and data.units is not None
    )
    assert np.array_equal(data.inputs(np.arange(N)), PIXELS)
    assert data.fingerprint == cw.from_frame(COLUMNS, PIXELS, unit="who").fingerprint
    assert data.fingerprint != cw.from_frame(COLUMNS, 255 - PIXELS, unit="who").fingerprint
    split = cw.split(data, "kind", ["place"], cw.UnseenData("place", ["y"]), test=0.25)
    trained = cw.train("erm", split, data, model="mlp", steps=4, validate_every=2, batch=4)
    assert 0 <= cw.evaluate(trained, split)["test"]["accuracy"] <= 1


def test_a_frame_over_a_folder_is_the_source_table(tmp_path: Path) -> None:
    for i, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    frame = polars.DataFrame({"path": [f"{i}.png" for i in range(N)], **COLUMNS})
    frame.write_csv(tmp_path / "birds.csv")
    data = cw.from_frame(frame, tmp_path, size=8, columns=["kind"])
    table = cw.load(
        "table", path=str(tmp_path / "birds.csv"), images=str(tmp_path), size=8, columns=["kind"]
    )
    assert (
        np.array_equal(data.inputs(np.arange(N)), table.inputs(np.arange(N)))
        and data.fingerprint == table.fingerprint
    )
    with pytest.raises(
        DataError, match=r"the frame 'frame', column 'path', row 1: there is no file 'none\.png'"
    ):
        cw.from_frame(frame.with_columns(path=polars.lit("none.png")), tmp_path)


@pytest.mark.parametrize("form", ["pil", "array", "uint8", "float"])
def test_a_data_set_of_torch(form: str) -> None:
    data = cw.from_torch(Items(form), {"place": COLUMNS["place"]})
    assert np.array_equal(data.inputs(np.arange(N)), PIXELS)
    assert {item.name: item.values for item in data.schema} == {
        "place": ("x", "y"),
        "label": ("cat", "dog"),
    }
    assert data.table.column("label").tolist() == [i % 2 for i in range(N)]
    assert [item.name for item in cw.from_torch(Items(form)).schema] == ["label"]
    own = cw.from_torch(Items(form), {"label": ["one"] * N})
    assert own.attribute("label").values == ("one",)


def test_what_is_no_data_is_one_sentence() -> None:
    with pytest.raises(DataError, match="'frame' has 47 images and 48 rows of attributes"):
        cw.from_frame(COLUMNS, PIXELS[1:])
    with pytest.raises(
        DataError,
        match=(
            r"images: must be uint8 \[h, w\] or uint8 \[h, w, 1\] or \[h, w, 3\] each, not float64"
        ),
    ):
        cw.from_frame(COLUMNS, PIXELS / 255)
    with pytest.raises(
        InputError, match=r"frame: must be a table, not 3 \(valid: a polars, pandas or Arrow frame"
    ):
        cw.from_frame(3, PIXELS)
    with pytest.raises(
        InputError, match=r"frame\.columns: unknown column of frame 'knd', did you mean 'kind'"
    ):
        cw.from_frame(COLUMNS, PIXELS, columns=["knd"])
    with pytest.raises(
        DataError, match="item 0 of 'torch' has values outside 0 to 1: leave a normalisation out"
    ):
        cw.from_torch([torch.full((3, 4, 4), -1.0)], {"a": [1]})
    with pytest.raises(DataError, match="the items of 'torch' have 2 sizes"):
        cw.from_torch([np.zeros((2, 2), np.uint8), np.zeros((3, 2), np.uint8)], {"a": [1, 2]})
    with pytest.raises(
        InputError, match="attributes: is needed: the items of 'torch' have no label"
    ):
        cw.from_torch([np.zeros((2, 2), np.uint8)])


@pytest.mark.slow
def test_results_of_a_study_are_a_frame(tmp_path: Path) -> None:
    results = cw.run_study(
        "demo", tmp_path / "out", scale="tiny", settings=["methods={erm: {}}", "claims=[]"]
    )
    frame = results.frame()
    assert frame.height == len(results.rows) == 20 and {
        "shift",
        "method",
        "seed",
        "set",
        "accuracy",
        "worst_group",
    } <= set(frame.columns)
    assert frame.filter(polars.col("set") == "test")["accuracy"].is_between(0, 1).all()


@pytest.mark.slow
def test_a_study_runs_on_a_data_set_of_the_program(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (160, 8, 8, 3), dtype=np.uint8)
    frame = {
        "kind": ["ab"[i % 2] for i in range(160)],
        "place": ["xy"[i // 2 % 2] for i in range(160)],
    }
    data = cw.from_frame(frame, pixels, name="own")
    study: dict[str, Any] = {
        "name": "held",
        "data": {"own": {"source": data, "label": "kind", "attributes": ["place"]}},
        "shifts": {
            "none": [],
            "SC": {"type": "spurious-correlation", "attribute": "place", "counterexamples": 0.1},
        },
        "models": {"mlp": {"layers": 1}},
        "methods": ["erm"],
        "training": {"steps": 4, "batch": 16, "validate_every": 4, "patience": None},
        "seeds": 1,
    }
    with pytest.raises(
        InputError, match="workers: must be 0: data.own is in the memory of this process"
    ):
        cw.run_study(study, tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()
    found = cw.run_study(study, tmp_path / "out")
    assert (
        found.summary.finished == 2
        and "source" in study["data"]["own"]
        and study["data"]["own"]["source"] is data
    )
    assert cw.run_study(study, tmp_path / "out").summary.executed == 0, (
        "the same pixels, the same runs"
    )
    pixels = pixels.copy()
    pixels[0, 0, 0, 0] ^= 1
    study["data"]["own"]["source"] = cw.from_frame(frame, pixels, name="own")
    assert cw.run_study(study, tmp_path / "out").summary.executed > 0, "other pixels, other runs"
    code = "import crosswind as cw, sys; cw.load('memory', fingerprint=sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, data.fingerprint], capture_output=True, text=True, check=False
    )
    assert "in the memory of the program that runs its study" in done.stderr.splitlines()[-1]


def test_settings_beside_an_array_of_pictures_are_done_or_refused(tmp_path: Path) -> None:
    """All but the pictures' own were ignored: `numbers` became attributes, rows without a value
    were refused whatever `empty` said."""
    ages = {**COLUMNS, "age": list(range(N)), "site": [None, *["s", "t"] * 23, "s"]}
    put = {
        "bins": {"age": [10, 30]},
        "empty": "leave-out",
        "label": "kind",
        "columns": ["age", "site"],
    }
    data = cw.from_frame(ages, PIXELS, **put)
    assert data.attribute("age").values == ("10 to < 30", "< 10", ">= 30")
    assert data.ids.tolist() == list(range(1, N))
    assert np.array_equal(data.inputs(np.arange(N - 1)), PIXELS[1:])
    assert "site: empty in 1 of 48 rows, left out" in dict(data.notes).values()
    filled = cw.from_frame(ages, PIXELS, empty="value", columns=["site"])
    assert "missing" in filled.attribute("site").values and filled.n_rows == N
    with pytest.raises(DataError, match="row 1 has no value; fill it in, or say empty="):
        cw.from_frame(ages, PIXELS)
    for setting in ({"numbers": ["age"]}, {"categories": "site"}, {"text": "kind"}):
        with pytest.raises(InputError, match="names columns that a model reads, and images are"):
            cw.from_frame(ages, PIXELS, **setting)
    with pytest.raises(InputError, match="size: is of pictures in files"):
        cw.from_frame(COLUMNS, PIXELS, size=16)
    alike = cw.from_frame({"kind": ["Red", "red"] * (N // 2)}, PIXELS)
    assert any("may be one value" in note for _, note in alike.notes)


@pytest.mark.parametrize(
    ("array", "remedy"),
    [
        (PIXELS.transpose(0, 3, 1, 2), r"x\.transpose\(0, 2, 3, 1\)"),
        (PIXELS / 255, r"\(255 \* x\)\.round\(\)"),
        (PIXELS.astype(np.int64), r"x\.astype\('uint8'\)"),
        (PIXELS[..., [0, 1, 2, 0]], r"x\[\.\.\., :3\]"),
        (PIXELS[..., 0] > 9, r"255 \* x"),
    ],
)
def test_what_is_nearly_an_array_of_pictures_is_refused_with_what_makes_one(
    array: Any, remedy: str
) -> None:
    with pytest.raises(DataError, match=remedy):
        cw.from_frame(COLUMNS, array)


def test_pil_images_of_more_than_8_bits_are_refused() -> None:
    """They were held as 255 alone, or as 0 alone: PIL cuts them off."""
    for wide in (PIXELS[0, ..., 0].astype(np.uint16) * 257, PIXELS[0, ..., 0] / np.float32(255)):
        image = Image.fromarray(wide)
        with pytest.raises(DataError, match=r"item 0 of 'torch' has pixels of more than 8 bits"):
            cw.from_torch([(image, 0)])
        with pytest.raises(DataError, match=r"image 0 has pixels of more than 8 bits"):
            cw.from_frame({"kind": ["a"]}, [image])
    with pytest.raises(
        DataError, match=r"images: have 2 sizes, such as \[2, 2, 3\] and \[3, 2, 3\]"
    ):
        cw.from_frame({"kind": ["a", "b"]}, [PIXELS[0, :2, :2], PIXELS[0, :3, :2]])


def _labelled(*labels: Any, classes: tuple[str, ...] = ()) -> Any:
    items = Items("array")
    items.classes = classes
    items.__class__ = type(
        "Few",
        (Items,),
        {
            "__len__": lambda self: len(labels),
            "__getitem__": lambda self, i: (PIXELS[i], labels[i]),
        },
    )
    return items


@pytest.mark.parametrize(
    ("labels", "classes", "values"),
    [
        (("cat", "dog"), (), ("cat", "dog")),
        (("cat", "dog"), ("dog", "cat"), ("cat", "dog")),
        ((torch.tensor(1), np.int64(0)), ("cat", "dog"), ("cat", "dog")),
        ((True, 0.0), (), ("0", "1")),
    ],
)
def test_labels_of_items_are_numbers_or_texts(labels: Any, classes: Any, values: Any) -> None:
    data = cw.from_torch(_labelled(*labels, classes=classes))
    assert data.attribute("label").values == values


@pytest.mark.parametrize("label", [0.7, None, [0, 1], torch.eye(2)[0], float("nan")])
def test_a_label_that_is_no_single_class_is_refused(label: Any) -> None:
    """Fractions were cut off: 0.7 was class 0."""
    with pytest.raises(DataError, match="item 1 of 'torch' has the label .*no single class"):
        cw.from_torch(_labelled(0, label))


@pytest.mark.parametrize("label", [-1, 2])
def test_a_label_without_a_class_is_refused(label: int) -> None:
    """-1 was the last class, as Python counts."""
    with pytest.raises(DataError, match=f"item 1 of 'torch' has the label {label}, and the data"):
        cw.from_torch(_labelled(0, label, classes=("cat", "dog")))


def test_what_is_no_map_style_data_set_is_refused() -> None:
    loader = torch.utils.data.DataLoader(_labelled(0, 1), batch_size=2)
    with pytest.raises(InputError, match=r"dataset: must be .* not DataLoader; give its \.dataset"):
        cw.from_torch(loader)
    with pytest.raises(InputError, match="not list_iterator; call list on it first"):
        cw.from_torch(iter([(PIXELS[0], 1)]))
    with pytest.raises(DataError, match="item 0 of 'torch' is a mapping of 'image', 'label'"):
        cw.from_torch([{"image": PIXELS[0], "label": 1}])


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ("great film", r"are a single text, and a list of texts is needed, \[text\]"),
        (
            {"text": ["great"]},
            r"are a table.*give its column of texts, table\[NAME\] \(valid: text",
        ),
        (polars.DataFrame({"review": ["great"]}), r"are a table.*\(valid: review"),
        ([None], "row 1 is null"),
        (["great", float("nan")], "row 2 is nan"),
        ([3, 4], "row 1 is 3"),
        ([b"great"], "row 1 is b'great'"),
        (3, "must be a list of texts, not 3"),
        ([], "have no rows"),
    ],
)
def test_what_are_no_texts_is_refused(inputs: Any, sentence: str) -> None:
    """They were answered: a text letter by letter, a mapping by its names, None as a word."""
    with pytest.raises(InputError, match=sentence):
        of_inputs(inputs, InputSpec.text())


def test_texts_are_lists_of_any_kind_and_parts_of_texts() -> None:
    texts = ["great film", "dull"]
    for inputs in (texts, tuple(texts), iter(texts), np.array(texts), polars.Series(texts)):
        data = of_inputs(inputs, InputSpec.text())
        assert data.inputs(data.ids).tolist() == texts
    pairs = of_inputs([("premise", "hypothesis"), ["a", "b"]], InputSpec.text())
    assert pairs.inputs(pairs.ids).tolist() == ["premise\x1fhypothesis", "a\x1fb"]


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (PIXELS.transpose(0, 3, 1, 2), "put the channels last"),
        (PIXELS / 255, "make floats in .* grey levels"),
        (PIXELS[0], r"a picture alone is a batch of one, x\[None\]"),
        (PIXELS[..., 0], "give them 3 channels"),
        (PIXELS[:, :4], "make them 8 x 8 pixels"),
        ("folder", "must be numbers, images of 8 x 8 x 3 .* not 'folder'"),
        ([PIXELS[0], PIXELS[0, :4]], "have rows of several sizes"),
    ],
)
def test_what_are_no_pictures_of_the_model_is_refused_with_a_remedy(
    inputs: Any, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        of_inputs(inputs, InputSpec.image(8, 8, 3))


def test_rows_without_a_text_are_refused_with_the_setting_that_leaves_them_out() -> None:
    """The sentence named the setting of another function."""
    frame = {"text": ["good film", None], "kind": ["a", "b"]}
    with pytest.raises(DataError, match='row 2 has no text; take it out, or say empty="leave-out"'):
        cw.from_frame(frame, text="text")
    assert cw.from_frame(frame, text="text", empty="leave-out").n_rows == 1

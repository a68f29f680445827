"""Sources of texts and of features: what they hold, and what they refuse in a sentence."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.core.types import PART_MARK

TEXTS = ["good,\nreally", "7", "bad é", "good,\nreally", " spaced "]


@pytest.mark.slow
def test_texts_are_read_as_they_stand(tmp_path: Path) -> None:
    table = polars.DataFrame(
        {"review": TEXTS, "label": [1, 0, 0, 1, 1], "author": ["a", "b", "a", "c", "c"]}
    )
    found = []
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        (table.write_csv if path.suffix == ".csv" else table.write_parquet)(path)
        data = cw.load("texts", path=str(path), text="review", unit="author")
        assert data.inputs(np.array([4, 0, 2])).tolist() == [" spaced ", "good,\nreally", "bad é"]
        assert data.name == "t" and data.table.names == ("label",) and str(data.input) == "texts"
        assert (
            data.units is not None
            and data.units.tolist() == [0, 1, 0, 2, 2]
            and data.image_shape is None
        )
        found.append(data)
    assert found[0].fingerprint == found[1].fingerprint and found[0].contents is not None
    assert found[0].contents[0] == found[0].contents[3] != found[0].contents[1]


def test_rows_of_one_text_have_one_role(tmp_path: Path) -> None:
    texts = [f"text {row % 25}" for row in range(100)]
    polars.DataFrame({"text": texts, "label": np.arange(100) % 5 % 2}).write_csv(tmp_path / "t.csv")
    split = cw.split(
        cw.load("texts", path=str(tmp_path / "t.csv")), "label", [], draw="all", test=10
    )
    tested = {texts[row] for row in split.evaluation["test"].rows}
    assert tested and not tested & {texts[row] for row in split.train.rows}


@pytest.mark.slow
def test_a_column_of_categories_is_read_as_its_texts(tmp_path: Path) -> None:
    table = polars.DataFrame({"text": ["one two", "three", "one two"], "label": [0, 1, 0]})
    table.with_columns(polars.col("text").cast(polars.Categorical)).write_parquet(
        tmp_path / "t.parquet"
    )
    data = cw.load("texts", path=str(tmp_path / "t.parquet"))
    assert data.inputs(np.arange(3)).tolist() == ["one two", "three", "one two"]


@pytest.mark.slow
def test_a_text_of_several_columns_has_parts_and_a_table_of_texts_is_the_same_and_can_be_prepared(
    tmp_path: Path,
) -> None:
    polars.DataFrame(
        {"premise": ["He left.", "a\x1fb"], "hypothesis": ["Gone.", "c"], "label": ["y", "n"]}
    ).write_parquet(tmp_path / "t.parquet")
    settings: dict[str, Any] = {
        "path": str(tmp_path / "t.parquet"),
        "text": ["premise", "hypothesis"],
    }
    data, table = cw.load("texts", **settings), cw.load("table", **settings)
    for found in (data, table):
        assert found.inputs(np.arange(2)).tolist() == [
            f"He left.{PART_MARK}Gone.",
            f"a b{PART_MARK}c",
        ]
        assert found.table.names == ("label",) and found.name == "t"
    alone = cw.load("texts", path=settings["path"], text="premise", columns=["label"])
    assert alone.inputs(np.arange(2)).tolist() == [
        "He left.",
        "a b",
    ]  # a stray mark makes no second part
    assert data.fingerprint == table.fingerprint
    cw.prepare("table", root=str(tmp_path / "root"), **settings)
    copy = cw.load("table", root=str(tmp_path / "root"), **settings)
    assert (
        copy.inputs(np.arange(2)).tolist() == data.inputs(np.arange(2)).tolist()
        and str(copy.input) == "texts"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cad_imdb", "cad_nli", "fdu_mtl_12domains"])
def test_real_texts_are_read(name: str) -> None:
    path = Path(os.environ.get("CROSSWIND_TEST_DATA", "../shared/data")) / f"{name}.parquet"
    if not path.is_file():
        pytest.skip(f"no {path}: set CROSSWIND_TEST_DATA")
    columns = (
        ["domain", "split", "label"] if name.startswith("fdu") else ["split", "version", "label"]
    )
    settings: dict[str, Any] = {
        "path": str(path),
        "columns": columns,
        "text": ["premise", "hypothesis"] if name == "cad_nli" else "text",
    }
    if name.startswith("fdu"):  # one review is empty
        with pytest.raises(
            DataError, match="row 19516 has no text; take it out, or say blank: leave-out"
        ):
            cw.load("texts", **settings)
        settings["blank"] = "leave-out"
    elif name == "cad_imdb":
        settings["unit"] = "batch_id"
    data = cw.load("texts", **settings)
    texts = data.inputs(np.arange(data.n_rows))
    assert len(texts) == {"cad_imdb": 4880, "cad_nli": 11_330, "fdu_mtl_12domains": 23_994}[name]
    assert all(text.count(PART_MARK) == (name == "cad_nli") for text in texts)
    if name.startswith("fdu"):
        assert len(data.attribute("domain")) == 12 and len(data.attribute("label")) == 2
        assert data.ids.max() == 23_994  # the other rows keep their numbers
    if name == "cad_imdb":  # a text and its revision have one role
        assert data.units is not None and (np.bincount(data.units) == 2).all()


@pytest.mark.slow
def test_features_are_of_a_file_or_of_columns(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float64).reshape(4, 3) / 8
    np.save(tmp_path / "x.npy", x)
    table = polars.DataFrame({"class": list("abab"), "one": x[:, 0], "rest": x[:, 1:].tolist()})
    table.write_parquet(tmp_path / "rows.parquet")
    table.drop("rest").write_csv(tmp_path / "rows.csv")
    rows, both = np.array([3, 0]), str(tmp_path / "rows.parquet")
    given = cw.load("features", path=both, numbers=["one", "rest"])
    filed = cw.load("features", path=both, features=str(tmp_path / "x.npy"), columns=["class"])
    single = cw.load("features", path=str(tmp_path / "rows.csv"), numbers=["one"])
    for data, wanted in ((given, x), (filed, x), (single, x[:, :1])):
        assert data.inputs(rows).dtype == np.float32 and np.array_equal(
            data.inputs(rows), wanted[rows]
        )
        assert data.table.names == ("class",)
    assert given.fingerprint == filed.fingerprint != single.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("texts", {"text": "body"}, "texts.text: unknown column .* 'body'"),
        ("texts", {"text": "one"}, "column 'one' holds float64 values, and not texts"),
        ("texts", {"text": "text"}, "column 'text', row 2 has no text; take it out, or say blank"),
        (
            "texts",
            {"text": "blank"},
            "column 'blank', row 2 has a text of white space alone; take it out, or say blank",
        ),
        ("texts", {"text": "empty"}, "column 'empty' holds no text"),
        ("texts", {"text": "unseen"}, "column 'unseen', row 2 has a text of white space alone"),
        ("texts", {"text": "digits"}, "column 'digits' holds numbers, and not texts"),
        (
            "texts",
            {"text": "long"},
            (
                "column 'long', row 1 has a text of 1,000,000 characters, more than the 500,000"
                " allowed; is a "
            ),
        ),
        ("texts", {"text": ["class", "class"]}, "texts.text: names 'class' twice"),
        ("texts", {"text": []}, "texts.text: must be a list of columns"),
        (
            "texts",
            {"text": ["class", "blank"]},
            "column 'blank', row 2 has a text of white space alone",
        ),
        (
            "table",
            {"text": "blank"},
            "column 'blank', row 2 has a text of white space alone; take it out, or say blank",
        ),
        ("table", {"text": "body"}, "table.text: unknown column .* 'body'"),
        (
            "table",
            {"text": "class", "images": "."},
            "table.images: name either the folder of the images here, or 'text'",
        ),
        ("table", {}, "table.images: name either the folder of the images here, or 'text'"),
        (
            "texts",
            {"text": "class", "columns": ["class", "class"]},
            "texts.columns: names 'class' twice",
        ),
        ("features", {}, "features.features: give either an npy file here, or 'numbers'"),
        ("features", {"numbers": ["class"]}, "column 'class' cannot be read as numbers"),
        ("features", {"numbers": ["nan"]}, "row 2, feature 1 is no finite number"),
        ("features", {"numbers": ["ragged"]}, "column 'ragged' cannot be read as numbers"),
        ("features", {"numbers": ["large"]}, "row 1, feature 1 is no finite number in float32"),
        ("features", {"features": "none.npy"}, "features.features: there is no file 'none.npy'"),
        ("features", {"features": "short.npy"}, "has 1 rows, and data set 'rows' has 2"),
        ("features", {"features": "damaged.npy"}, "is not a NumPy array, or is damaged"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    source: str,
    settings: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {
        "class": ["a", "b"],
        "one": [0.5, 1.5],
        "text": ["x", None],
        "nan": [1.0, float("nan")],
        "large": [1e300, 1.0],
    }
    columns |= {
        "blank": ["x", " \n\t"],
        "empty": ["", None],
        "digits": ["1", "2.5"],
        "unseen": ["x", "\u200b\x00"],
        "long": ["x" * 1_000_000, "y"],
    }
    polars.DataFrame({**columns, "ragged": [[1.0], [1.0, 2.0]]}).write_parquet("rows.parquet")
    np.save("short.npy", np.zeros((1, 3)))
    Path("damaged.npy").write_bytes(b"\x93NUMPY\x01\x00")
    kinds: tuple[type[CrosswindError], ...] = (InputError, DataError)
    with pytest.raises(kinds, match=message):
        cw.load(source, path="rows.parquet", **{"columns": ["class"], **settings})

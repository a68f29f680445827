"""Sources of texts and of features: what they hold, and what they refuse in a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError

TEXTS = ["good,\nreally", "", "bad é", "good,\nreally", " spaced "]


def test_texts_are_read_as_they_stand(tmp_path: Path) -> None:
    table = polars.DataFrame({"review": TEXTS, "label": [1, 0, 0, 1, 1], "author": ["a", "b", "a", "c", "c"]})
    found = []
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        (table.write_csv if path.suffix == ".csv" else table.write_parquet)(path)
        data = cw.load("texts", path=str(path), text="review", unit="author")
        assert data.inputs(np.array([4, 0, 2])).tolist() == [" spaced ", "good,\nreally", "bad é"]
        assert data.name == "t" and data.table.names == ("label",) and str(data.input) == "texts"
        assert data.units is not None and data.units.tolist() == [0, 1, 0, 2, 2] and data.image_shape is None
        found.append(data)
    assert found[0].fingerprint == found[1].fingerprint and found[0].contents is not None
    assert found[0].contents[0] == found[0].contents[3] != found[0].contents[1]


def test_rows_of_one_text_have_one_role(tmp_path: Path) -> None:
    texts = [f"text {row % 25}" for row in range(100)]
    polars.DataFrame({"text": texts, "label": np.arange(100) % 5 % 2}).write_csv(tmp_path / "t.csv")
    split = cw.split(cw.load("texts", path=str(tmp_path / "t.csv")), "label", [], draw="all", test=10)
    tested = {texts[row] for row in split.evaluation["test"].rows}
    assert tested and not tested & {texts[row] for row in split.train.rows}


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
        assert data.inputs(rows).dtype == np.float32 and np.array_equal(data.inputs(rows), wanted[rows])
        assert data.table.names == ("class",)
    assert given.fingerprint == filed.fingerprint != single.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("texts", {"text": "body"}, "texts.text: unknown column .* 'body'"),
        ("texts", {"text": "one"}, "column 'one' holds float64 values, and not texts"),
        ("texts", {"text": "text"}, "column 'text', row 2 has no text"),
        ("texts", {"text": "class", "columns": ["class", "class"]}, "texts.columns: names 'class' twice"),
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
    source: str, settings: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {"class": ["a", "b"], "one": [0.5, 1.5], "text": ["x", None], "nan": [1.0, float("nan")], "large": [1e300, 1.0]}
    polars.DataFrame({**columns, "ragged": [[1.0], [1.0, 2.0]]}).write_parquet("rows.parquet")
    np.save("short.npy", np.zeros((1, 3)))
    Path("damaged.npy").write_bytes(b"\x93NUMPY\x01\x00")
    kinds: tuple[type[CrosswindError], ...] = (InputError, DataError)
    with pytest.raises(kinds, match=message):
        cw.load(source, path="rows.parquet", **{"columns": ["class"], **settings})

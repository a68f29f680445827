"""Exports of the library `datasets`, written by itself, in every form that is read; nothing is
fetched."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.picture_files import encoded, written

from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.core.types import PART_MARK
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.huggingface import HuggingFace

datasets = pytest.importorskip("datasets", reason="the extra huggingface is not installed")

TRAIN, TEST = 6, 4


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


def rows(n: int, first: int = 0, **changes: Any) -> Any:
    """`n` rows; image i has the colour (20 i, 7, 9), animals take turns, and no row shows a fox."""
    columns = {
        "image": [
            {"bytes": encoded((20 * i, 7, 9), "x.png"), "path": None}
            for i in range(first, first + n)
        ],
        "animal": [i % 2 for i in range(n)],
        "indoors": [i % 3 == 0 for i in range(n)],
        "site": [["north", "south"][i // 2 % 2] for i in range(n)],
        "visit": [10 - i % 3 for i in range(n)],
    } | changes
    features = {
        "image": datasets.Image(),
        "animal": datasets.ClassLabel(names=["dog", "cat", "fox"]),
        "indoors": datasets.Value("bool"),
        "site": datasets.Value("string"),
        "visit": datasets.Value("int64"),
    }
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def both() -> Any:
    return datasets.DatasetDict({"train": rows(TRAIN), "test": rows(TEST, TRAIN)})


def saved(folder: Path) -> Path:
    both().save_to_disk(folder / "pets")
    return folder / "pets"


def parquet(folder: Path) -> Path:
    (folder / "pets" / "data").mkdir(parents=True)
    for name, split_rows in both().items():
        split_rows.to_parquet(folder / "pets" / "data" / f"{name}-00000-of-00001.parquet")
    return folder / "pets"


def opened(path: Path, /, **settings: Any) -> AttributedDataset:
    return open_source("huggingface", {"path": str(path), "size": 8} | settings)


@pytest.mark.parametrize("export", [saved, parquet])
def test_an_export_of_two_splits(tmp_path: Path, export: Callable[[Path], Path]) -> None:
    exported = export(tmp_path)
    data = opened(exported)
    assert data.name == "pets" and data.from_files and data.image_shape == (8, 8, 3)
    assert [(attribute.name, attribute.values) for attribute in data.schema] == [
        ("animal", ("dog", "cat")),  # in the order of the classes' numbers
        ("indoors", ("false", "true")),
        ("split", ("train", "test")),
    ]
    assert data.table.codes.tolist() == [
        [0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
        [1, 0, 0, 1, 0, 0, 1, 0, 0, 1],
        [0] * TRAIN + [1] * TEST,
    ]
    x = data.inputs(np.array([9, 0, 6]))
    assert [tuple(picture[0, 0].tolist()) for picture in x] == [(180, 7, 9), (0, 7, 9), (120, 7, 9)]
    assert (x == x[:, :1, :1]).all()
    test = opened(exported, splits=["test"], columns=["site", "visit"], unit="visit")
    assert [(attribute.name, attribute.values) for attribute in test.schema] == [
        ("site", ("north", "south")),
        ("visit", ("8", "9", "10")),
    ]
    assert test.units is not None and test.units.tolist() == [
        0,
        2,
        1,
        0,
    ]  # of 10, 9, 8, 10, as texts
    assert (test.inputs(np.array([0]))[0, 0, 0] == (120, 7, 9)).all()
    assert opened(exported, splits=["test", "train"]).attribute("split").values == ("test", "train")
    assert opened(exported, unit="indoors").table.names == ("animal", "split")
    same = opened(exported)
    assert (
        same.fingerprint == data.fingerprint
        and len({data.fingerprint, test.fingerprint, opened(exported, size=9).fingerprint}) == 3
    )


def test_the_forms_of_one_data_set_are_the_same_rows(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    saved_rows = rows(TRAIN)
    saved_rows.save_to_disk(tmp_path / "folder")
    saved_rows.to_parquet(tmp_path / "pets.parquet")
    arrow = next((tmp_path / "folder").glob("*.arrow"))
    assert "examples/s" in capfd.readouterr().err  # the bars of writing; reading shows none
    datasets_read = [
        opened(path) for path in (tmp_path / "folder", tmp_path / "pets.parquet", arrow)
    ]
    assert capfd.readouterr().err == "" and not datasets.are_progress_bars_disabled()
    assert len({data.fingerprint for data in datasets_read}) == 1 and datasets_read[
        0
    ].table.names == (
        "animal",
        "indoors",
    )
    pixels = [data.inputs(np.arange(TRAIN)) for data in datasets_read]
    assert all(np.array_equal(pixels[0], pixel) for pixel in pixels[1:])


def test_a_folder_of_images_and_its_metadata(tmp_path: Path) -> None:
    names = [
        f"{split_name}/{label}/{i}.png"
        for split_name in ("test", "train")
        for label in ("cat", "dog")
        for i in range(2)
    ]
    pictures = written(
        tmp_path / "pets", {name: encoded((30 * k, 1, 2), name) for k, name in enumerate(names)}
    )
    data = opened(pictures)
    assert data.table.names == ("label", "split") and data.attribute("label").values == (
        "cat",
        "dog",
    )
    assert data.attribute("split").values == ("train", "test")
    assert data.inputs(np.arange(8))[:, 0, 0, 0].tolist() == [120, 150, 180, 210, 0, 30, 60, 90]
    with_metadata = tmp_path / "told"
    written(
        with_metadata, {"a.png": encoded((9, 9, 9), "a.png"), "b.png": encoded((99, 9, 9), "b.png")}
    )
    (with_metadata / "metadata.jsonl").write_text(
        '{"file_name": "a.png", "site": "south"}\n{"file_name": "b.png", "site": "north"}\n'
    )
    data = opened(with_metadata, columns=["site"])
    assert data.attribute("site").values == ("north", "south") and data.table.codes.tolist() == [
        [1, 0]
    ]


def test_plain_bytes_are_images_when_they_are_named(tmp_path: Path) -> None:
    datasets.Dataset.from_dict(
        {"jpeg": [encoded((5, 6, 7), "x.png")] * 3, "y": ["a", "b", "a"]}
    ).save_to_disk(tmp_path / "d")
    with pytest.raises(
        InputError, match=r"data.image: name one: there are 0 columns of images \(valid: jpeg, y\)"
    ):
        opened(tmp_path / "d")
    data = opened(tmp_path / "d", image="jpeg", columns=["y"])
    assert (data.inputs(np.arange(3)) == (5, 6, 7)).all()


def comments(**changes: Any) -> Any:
    """Four texts with a title, of two labels and two sites."""
    columns = {
        "title": list("abcd"),
        "body": ["One.", "Two", "Three", "One."],
        "label": [0, 1, 1, 0],
        "site": list("nsns"),
        "length": [1] * 4,
    } | changes
    features = {name: datasets.Value("string") for name in ("title", "body", "site")}
    kinds = datasets.Features(
        {
            **features,
            "length": datasets.Value("int64"),
            "label": datasets.ClassLabel(names=["bad", "good"]),
        }
    )
    return datasets.Dataset.from_dict(columns, features=kinds)


def test_a_data_set_of_texts(tmp_path: Path) -> None:
    datasets.DatasetDict(
        {"train": comments(), "test": comments(body=["Five", "Six", "Seven", "Eight"])}
    ).save_to_disk(tmp_path / "said")
    settings: dict[str, Any] = {"path": str(tmp_path / "said"), "unit": "site"}
    data = open_source("huggingface", {"text": "body", **settings})
    assert data.inputs(np.arange(8)).tolist() == [
        "One.",
        "Two",
        "Three",
        "One.",
        "Five",
        "Six",
        "Seven",
        "Eight",
    ]
    assert (
        str(data.input) == "texts"
        and data.table.names == ("label", "split")
        and data.contents is not None
    )
    assert (
        data.contents[0] == data.contents[3] != data.contents[1]
        and data.units is not None
        and data.units.tolist() == [0, 1] * 4
    )
    pairs = open_source("huggingface", {"text": ["title", "body"], **settings})
    assert (
        pairs.inputs(np.array([5])).tolist() == [f"b{PART_MARK}Six"]
        and pairs.fingerprint != data.fingerprint
    )
    prepare(HuggingFace(text="body", root=str(tmp_path / "root"), **settings))
    copy = open_source("huggingface", {"text": "body", "root": str(tmp_path / "root"), **settings})
    assert copy.inputs(np.array([7, 0])).tolist() == ["Eight", "One."] and np.array_equal(
        copy.contents, data.contents
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"text": "words"}, "data.text: unknown column 'words'"),
        ({"text": "length"}, "data.text: the column 'length' holds no texts"),
        ({"text": []}, "data.text: must be a list of columns"),
        (
            {"text": "body", "image": "title"},
            "data.text: is given instead of 'image', and both are",
        ),
        ({"text": "body", "columns": ["body"]}, "data.columns: name columns of attributes"),
        ({"text": "title"}, "column 'title', row 2 has no text; choose other rows with splits"),
    ],
)
def test_what_is_no_text_is_one_sentence(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    comments(title=["a", " ", "c", "d"]).save_to_disk(tmp_path / "said")
    with pytest.raises(CrosswindError) as caught:
        open_source("huggingface", {"path": str(tmp_path / "said"), **settings})
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_it_is_prepared_and_its_files_are_not_needed_after(tmp_path: Path) -> None:
    exported = saved(tmp_path)
    direct = opened(exported, unit="site")
    pixels = direct.inputs(np.arange(10))
    root = str(tmp_path / "root")
    preparation = prepare(HuggingFace(path=str(exported), size=8, unit="site"), root)
    assert preparation.copy.parts == {"train": TRAIN, "test": TEST}
    exported.rename(tmp_path / "elsewhere")
    copy = opened(exported, unit="site", root=root)
    assert copy.table.digest() == direct.table.digest() and np.array_equal(
        copy.inputs(np.arange(10)), pixels
    )
    assert (
        copy.units is not None
        and direct.units is not None
        and np.array_equal(copy.units, direct.units)
    )


def keep(**changes: Any) -> Callable[[Path], object]:
    return lambda folder: rows(3, **changes).save_to_disk(folder / "pets")


def gone(folder: Path) -> None:
    """An Arrow file that names an image and does not hold it, as those are that the library keeps
    of folders."""
    import pyarrow

    table = rows(3, image=[IMAGE, {"bytes": None, "path": "gone.png"}, IMAGE]).data.table
    (folder / "pets").mkdir()
    with (
        pyarrow.OSFile(str(folder / "pets" / "x.arrow"), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as out,
    ):
        out.write_table(table)


IMAGE = {"bytes": encoded((1, 2, 3), "x.png"), "path": None}
BAD: list[tuple[Callable[[Path], object], dict[str, Any], str]] = [
    (saved, {"path": "none"}, "data.path: 'none' is no folder and no file of this kind"),
    (
        saved,
        {"path": __file__},
        "data.path: .* is no folder and no file of this kind .valid: .parquet, .arrow",
    ),
    (
        saved,
        {"path": None},
        "data.id: give either the id of a data set of the hub or the path of local files",
    ),
    (saved, {"id": "a/b"}, "data.id: give either the id"),
    (
        saved,
        {"revision": "main"},
        "data.path: names local files, and 'config' and 'revision' are of",
    ),
    (saved, {"splits": ["tests"]}, "data.splits: unknown split 'tests', did you mean 'test'"),
    (saved, {"splits": []}, "data.splits: must be a list of splits"),
    (saved, {"splits": ["test", "test"]}, "data.splits: names 'test' twice"),
    (
        saved,
        {"image": "pictures"},
        "data.image: unknown column: 'pictures'|data.image: unknown column 'pictures'",
    ),
    (saved, {"image": "site"}, "data.image: the column 'site' holds no images"),
    (
        saved,
        {"columns": ["animals"]},
        "data.columns: unknown column 'animals', did you mean 'animal'",
    ),
    (saved, {"columns": []}, "data.columns: must be a list of columns"),
    (saved, {"columns": ["site", "site"]}, "data.columns: names 'site' twice"),
    (
        saved,
        {"columns": ["image"]},
        "data.columns: name columns of attributes: at least one, none of images",
    ),
    (saved, {"unit": "visits"}, "data.unit: unknown column 'visits', did you mean 'visit'"),
    (keep(animal=[0, -1, 1]), {}, "column 'animal', row 2 has no class .number -1.; .* use splits"),
    (keep(animal=[0, 1, None]), {}, "column 'animal', row 3 has no class"),
    (keep(site=["a", None, "b"]), {"columns": ["site"]}, "column 'site', row 2 has no value"),
    (keep(image=[IMAGE, None, IMAGE]), {}, "all, row 2: the image is missing"),
    (
        gone,
        {},
        "row 2: the image is not held but lies elsewhere, and there is no file",
    ),
    (
        lambda folder: (folder / "pets").mkdir(),
        {},
        "pets holds no Parquet file, no Arrow file and no image",
    ),
    (
        lambda folder: written(folder / "pets", {"x.pkl": b"x", "load.py": b"x"}),
        {},
        "pets holds no Parquet file, no Arrow file and no image",
    ),
    (
        lambda folder: written(folder / "pets", {"x.parquet": b"PAR1 and nothing else"}),
        {},
        "pets cannot be read as a data set: ",
    ),
    (
        lambda folder: written(folder / "pets", {"state.json": b"{"}),
        {},
        "pets cannot be read as a data set: ",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "settings", "words"), BAD)
def test_what_is_not_right_is_one_sentence(
    tmp_path: Path, change: Callable[[Path], object], settings: dict[str, Any], words: str
) -> None:
    change(tmp_path)
    with pytest.raises(CrosswindError, match=words) as caught:
        opened(tmp_path / "pets", **settings)
    assert "\n" not in str(caught.value)


def test_a_damaged_image_is_named_by_split_and_row(tmp_path: Path) -> None:
    rows(3, image=[IMAGE, {"bytes": IMAGE["bytes"][:50], "path": None}, IMAGE]).save_to_disk(
        tmp_path / "pets"
    )
    data = opened(tmp_path / "pets")
    with pytest.raises(
        DataError,
        match="pets, all, row 2: the image (is not an image|cannot be read as a whole image)",
    ):
        data.inputs(np.arange(3))


def test_a_file_that_is_cut_is_one_sentence_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "pets.parquet"
    rows(8).to_parquet(file)
    file.write_bytes(file.read_bytes()[:-30])
    logger, level = logging.getLogger("datasets"), datasets.logging.get_verbosity()
    logger.addHandler(caplog.handler)  # it passes nothing on to the root
    try:
        with pytest.raises(
            DataError,
            match="pets.parquet cannot be read as a data set: Parquet magic bytes not found",
        ):
            opened(file)
    finally:
        logger.removeHandler(caplog.handler)
    assert caplog.messages == [] and datasets.logging.get_verbosity() == level


def test_splits_of_different_columns_are_not_joined(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": rows(2), "test": rows(2).remove_columns("site")}).save_to_disk(
        tmp_path / "pets"
    )
    with pytest.raises(
        DataError, match="the split 'test' has no rows, or other columns than 'train'; choose"
    ):
        opened(tmp_path / "pets")
    assert opened(tmp_path / "pets", splits=["test"]).n_base == 2


def test_without_the_network_an_id_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    # What HF_HUB_OFFLINE=1 sets when the library is imported; without it the library tries for half
    # a minute.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        DataError,
        match=(
            "the data set 'nobody/pets' of the hub cannot be had: an id needs the network;"
            " export it"
        ),
    ) as caught:
        open_source("huggingface", {"id": "nobody/pets"})
    assert "\n" not in str(caught.value)
    monkeypatch.chdir(saved(tmp_path).parent)
    with pytest.raises(
        InputError, match="data.id: 'pets' is a file or folder here; local files are named by path"
    ):
        open_source("huggingface", {"id": "pets"})


def test_code_of_a_data_set_is_never_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    load_calls: list[dict[str, Any]] = []

    def load(
        path: str, name: str | None, revision: str | None, trust_remote_code: bool | None = None
    ) -> Any:
        load_calls.append(
            {
                "path": path,
                "name": name,
                "revision": revision,
                "trust_remote_code": trust_remote_code,
            }
        )
        return datasets.DatasetDict({"train": rows(2)})

    monkeypatch.setattr(datasets, "load_dataset", load)
    data = open_source("huggingface", {"id": "some/pets", "config": "small", "revision": "v1"})
    assert load_calls == [
        {"path": "some/pets", "name": "small", "revision": "v1", "trust_remote_code": False}
    ]
    assert data.name == "pets" and data.table.names == ("animal", "indoors")


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        DataError,
        match=r"source 'huggingface' needs the extra: pip install 'crosswind\[huggingface\]'",
    ):
        opened(tmp_path)

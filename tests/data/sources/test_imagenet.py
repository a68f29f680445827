"""An ImageNet folder with its list of classes, in both layouts, and what is refused of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.picture_files import encoded, written

from crosswind.core.errors import CrosswindError, DataError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.image_trees import ImageNetFolder

SYNSETS = {
    "n01440764": "tench, Tinca tinca",
    "n02085620": "Chihuahua",
    "n03000134": "chainlink fence",
    "n01530575": "brambling",
}
MAPPING = "\n".join(f"{synset} {words}" for synset, words in SYNSETS.items()).encode() + b"\n"
SOLUTION = (
    b"ImageId,PredictionString\nval_2,n02085620 1 2 3 4 n02085620 5 6 7 8\nval_1,n03000134 1 1 9"
    b" 9 \n"
)


def colour(code: int, place: int) -> tuple[int, int, int]:
    return (60 * code, 30 * place, 90)


def files(flat: bool = False, inside: str = "") -> dict[str, bytes]:
    """Two training images of three of the four classes, two validation images; a class has its own
    red, a file its own green."""
    made = {"LOC_synset_mapping.txt": MAPPING}
    for code, synset in enumerate(list(SYNSETS)[:3]):
        for place in range(2):
            made[f"{inside}train/{synset}/{synset}_{place}.JPEG"] = encoded(
                colour(code, place), "x.jpg"
            )
    for name, synset in (("val_1", "n03000134"), ("val_2", "n02085620")):
        code = list(SYNSETS).index(synset)
        made[f"{inside}val/{name if flat else f'{synset}/{name}'}.JPEG"] = encoded(
            colour(code, 5), "x.jpg"
        )
    return made | ({"LOC_val_solution.csv": SOLUTION} if flat else {})


def opened(folder: Path, **settings: Any) -> AttributedDataset:
    return open_source("imagenet", {"path": str(folder), "size": 8} | settings)


@pytest.mark.parametrize(("flat", "inside"), [(False, ""), (True, "ILSVRC/Data/CLS-LOC/")])
def test_both_layouts_are_the_same_rows_in_the_order_of_the_list(
    tmp_path: Path, flat: bool, inside: str
) -> None:
    data = opened(written(tmp_path / "imagenet", files(flat, inside)))
    assert [(item.name, item.values) for item in data.schema] == [
        ("class", tuple(SYNSETS)[:3]),
        ("split", ("train", "val")),
    ]
    assert data.table.codes.tolist() == [[0, 0, 1, 1, 2, 2, 1, 2], [0, 0, 0, 0, 0, 0, 1, 1]]
    x = data.inputs(np.arange(8)).astype(int)[:, 4, 4, :2]
    wanted = [
        colour(code, place)[:2]
        for code, place in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (1, 5), (2, 5))
    ]
    assert np.abs(x - np.array(wanted)).max() <= 4  # JPEG
    assert (
        data.fingerprint
        == opened(tmp_path / "imagenet").fingerprint
        != opened(tmp_path / "imagenet", size=9).fingerprint
    )


def test_a_part_alone_and_a_prepared_copy(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "imagenet",
        {name: data for name, data in files().items() if not name.startswith("train")},
    )
    assert opened(folder).table.codes.tolist() == [[0, 1], [1, 1]]
    prepare(ImageNetFolder(path=str(folder), size=8, root=str(tmp_path / "root")))
    copy = opened(folder, root=str(tmp_path / "root"))
    assert np.array_equal(copy.inputs(np.arange(2)), opened(folder).inputs(np.arange(2)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"LOC_synset_mapping.txt": None}, "has no file LOC_synset_mapping.txt"),
        ({"LOC_synset_mapping.txt": b""}, "LOC_synset_mapping.txt is empty"),
        (
            {"LOC_synset_mapping.txt": b"tench\n"},
            "line 1, 'tench', should begin with a synset such as n02085620",
        ),
        (
            {"LOC_synset_mapping.txt": b"n01440764 a\nn01440764 b\n"},
            "line 2, 'n01440764 b', lists it for a second time",
        ),
        ({"LOC_synset_mapping.txt": b"\xff\xfe"}, "LOC_synset_mapping.txt is no text in UTF-8"),
        (
            {"train/n09999999/a.JPEG": b"x"},
            "'n09999999/a.JPEG' is empty, no image, or not SYNSET/FILE with a synset of LOC_synset",
        ),
        ({"train/n01440764/a.txt": b"x"}, "'n01440764/a.txt' is empty, no image"),
        ({"train/n01440764/a.JPEG": b""}, "'n01440764/a.JPEG' is empty, no image"),
        ({"val/val_1.JPEG": b"x"}, "has no file LOC_val_solution.csv"),
        (
            {"val/val_3.JPEG": b"x", "LOC_val_solution.csv": SOLUTION},
            "'val_3.JPEG' is empty, no image, or not .* or listed in LOC_val",
        ),
        (
            {"val/val_1.JPEG": b"x", "LOC_val_solution.csv": b"ImageId,P\nval_1,n1 2\n"},
            "line 2 is 'val_1,n1 2', which is not NAME,SYN",
        ),
        (dict.fromkeys(["train", "val"]), "holds no image in train or val"),
    ],
)
def test_what_a_folder_should_not_hold_is_named(
    tmp_path: Path, changes: dict[str, bytes | None], words: str
) -> None:
    gone = tuple(name for name, data in changes.items() if data is None)
    kept = {name: data for name, data in files().items() if not name.startswith(gone or "?")}
    folder = written(
        tmp_path / "imagenet",
        kept | {name: data for name, data in changes.items() if data is not None},
    )
    with pytest.raises(DataError, match=words):
        opened(folder)


def test_a_folder_that_is_not_there_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(
        CrosswindError, match="data.path: '.*nowhere' is a folder that does not exist"
    ):
        opened(tmp_path / "nowhere")

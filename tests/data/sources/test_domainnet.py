"""DomainNet's zips and lists as its authors publish them, at a few rows, whole and damaged."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.data.picture_files import encoded, written, zipped

from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.core.registry import facts
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.image_trees import DomainNet

RENDITIONS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
CLASSES = {0: "aircraft_carrier", 3: "ambulance", 302: "The_Eiffel_Tower", 327: "t-shirt"}
CLEANED = (
    48_129,
    51_605,
    72_266,
    172_500,
    172_947,
    69_128,
)  # on the authors' page, in the order above
Files = dict[str, bytes]


def lists_and_images() -> tuple[Files, Files]:
    """The lists, and the images by their names: 2 training rows and a test row a class, and a
    duplicate that no list has."""
    lists: Files = {}
    images: Files = {}
    for r, rendition in enumerate(RENDITIONS):
        for split_name, numbers in (("train", (1, 2)), ("test", (3,))):
            lines = []
            for number, name in CLASSES.items():
                if (rendition, split_name, name) == ("painting", "train", "t-shirt"):
                    continue  # as in the real list
                for i in numbers:
                    path = f"{rendition}/{name}/{rendition}_{number:03}_{i:06}.{'png' if rendition == 'quickdraw' else 'jpg'}"
                    images[path] = encoded((40 * r, number % 200, 60 * i), path)
                    lines.append(f"{path} {number}")
            lists[f"{rendition}_{split_name}.txt"] = ("\n".join(lines) + "\n").encode()
        images[f"{rendition}/ambulance/duplicate.jpg"] = encoded((1, 1, 1), "x.jpg")
    return lists, images


def zips_of(images: Files) -> dict[str, Files]:
    return {
        f"{name}.zip": {path: data for path, data in images.items() if path.startswith(f"{name}/")}
        for name in RENDITIONS
    }


def published(folder: Path, lists: Files, images: Files) -> Path:
    for name, members in zips_of(images).items():
        zipped(folder / name, members)
    return written(folder, lists)


def test_zips_and_unpacked_folders_are_the_same_rows(tmp_path: Path) -> None:
    lists, images = lists_and_images()
    source = DomainNet(size=8)
    reading = source.read(published(tmp_path / "zips", lists, images))
    data = reading.dataset
    assert dict(reading.parts) == {
        f"{name} {split_name}": (
            6 if (name, split_name) == ("painting", "train") else 8 if split_name == "train" else 4
        )
        for name in RENDITIONS
        for split_name in ("train", "test")
    }
    assert [attribute.values for attribute in data.schema] == [
        tuple(CLASSES.values()),
        RENDITIONS,
        ("train", "test"),
    ]
    assert data.table.names == ("class", "rendition", "split") and data.n_base == 70
    x = data.inputs(np.arange(70)).astype(int)
    label, rendition, split = data.table.codes.astype(int)
    assert np.abs(x[..., 0] - 40 * rendition[:, None, None]).max() <= 3
    assert (
        np.abs(
            x[..., 1] - np.array([number % 200 for number in CLASSES])[label][:, None, None]
        ).max()
        <= 3
    )
    assert ((x[..., 2].mean(axis=(1, 2)) > 150) == (split == 1)).all()
    unpacked = source.read(written(tmp_path / "folders", {**lists, **images})).dataset
    assert unpacked.fingerprint == data.fingerprint
    assert np.array_equal(unpacked.inputs(np.arange(70)), x)


def test_some_renditions_need_only_their_files(tmp_path: Path) -> None:
    lists, images = lists_and_images()
    keep = {name: data for name, data in lists.items() if name.startswith(("real", "sketch"))}
    folder = published(tmp_path / "files", keep, images)
    source = DomainNet(root=str(tmp_path), size=8, renditions=["sketch", "real"])
    assert source.renditions == ["real", "sketch"] and source == DomainNet(
        root=str(tmp_path), size=8, renditions=["real", "sketch"]
    )
    assert DomainNet(renditions=list(RENDITIONS)) == DomainNet()
    assert dict(source.totals()) == {
        "real train": 120_906,
        "real test": 52_041,
        "sketch train": 48_212,
        "sketch test": 20_916,
    }
    with pytest.raises(
        DataError,
        match=(
            "real train 8, real test 4, sketch train 8, sketch test 4 rows, where real train"
            " 120,906"
        ),
    ):
        prepare(source, originals=str(folder))
    prepare(source, originals=str(folder), accept_totals=True)
    data = open_source(
        "domainnet", {"root": str(tmp_path), "size": 8, "renditions": ["sketch", "real"]}
    )
    assert data.attribute("rendition").values == ("real", "sketch") and data.n_base == 24
    with pytest.raises(DataError, match=r"domainnet needs clipart_train.txt, .* in the folder"):
        prepare(DomainNet(root=str(tmp_path)), originals=str(folder))


def test_an_unpacked_folder_serves_for_a_zip(tmp_path: Path) -> None:
    lists, images = lists_and_images()
    folder = published(tmp_path, lists, images)
    source = DomainNet(renditions=["real", "clipart"])
    assert source.missing(folder) == ()
    (folder / "real.zip").unlink()
    (folder / "clipart_test.txt").unlink()
    assert [original.name for original in source.missing(folder)] == [
        "clipart_test.txt",
        "real.zip",
    ]
    (folder / "real").mkdir()
    assert [original.name for original in source.missing(folder)] == ["clipart_test.txt"]


def test_the_card_agrees_with_the_page_and_names_what_can_be_checked() -> None:
    card = facts("sources", "domainnet").card
    assert card is not None and len(card.files) == 18
    for name, rows in zip(RENDITIONS, CLEANED, strict=True):
        assert card.totals[f"{name} train"] + card.totals[f"{name} test"] == rows
        mine = [original for original in card.files if original.variant == name]
        assert [original.name for original in mine] == [
            f"{name}_train.txt",
            f"{name}_test.txt",
            f"{name}.zip",
        ]
        assert all(
            re.fullmatch("[0-9a-f]{64}", original.sha256)
            and original.size
            and original.url.endswith(original.name)
            for original in mine
        )
    assert sum(card.totals.values()) == 586_575
    # 70% of each rendition trains, and the bytes of a list grow with its rows.
    assert all(
        0.69 < card.totals[f"{name} train"] / rows < 0.71
        for name, rows in zip(RENDITIONS, CLEANED, strict=True)
    )


def change(name: str, old: bytes, new: bytes) -> Callable[[Files, Files], None]:
    def changed(lists: Files, images: Files) -> None:
        assert old in lists[name]
        lists[name] = lists[name].replace(old, new, 1)

    return changed


REAL = "real_train.txt"
BAD: list[tuple[Callable[[Files, Files], None], str]] = [
    (
        lambda lists, images: images.pop("real/ambulance/real_003_000001.jpg"),
        "lists 'real/ambulance/real_003_000001.jpg', which real.zip does not hold",
    ),
    (
        lambda lists, images: images.update({"real/ambulance/real_003_000001.jpg": b""}),
        "lists '.*_000001.jpg', which real.zip .* is empty",
    ),
    (
        change(REAL, b"000001.jpg 3\n", b"000001.jpg 4\n"),
        "the lists of 'real' give the class 'ambulance' two numbers",
    ),
    (change(REAL, b"000001.jpg 3\n", b"000001.jpg 302\n"), "the number 302, which is that of '"),
    (
        change(REAL, b"000001.jpg 3\n", b"000001.jpg\n"),
        "real_train.txt, line 3 should be a file and the number of its class",
    ),
    (
        change(REAL, b"real_003_000001.jpg 3\n", b"real_003_000003.jpg 3\n"),
        "lists 'real/.*_000003.jpg', which is in the other list",
    ),
    (change(REAL, b"000002.jpg 3\n", b"000001.jpg 3\n"), "line 4 lists '.*' for a second time"),
    (lambda lists, images: lists.update({REAL: b""}), "real_train.txt is empty"),
]


@pytest.mark.parametrize(("damage", "words"), BAD)
def test_what_is_not_as_published_is_one_sentence(
    tmp_path: Path, damage: Callable[[Files, Files], object], words: str
) -> None:
    lists, images = lists_and_images()
    damage(lists, images)
    folder = written(tmp_path / "files", lists)
    zipped(
        folder / "real.zip",
        {path: data for path, data in images.items() if path.lstrip("./").startswith("real/")},
    )
    with pytest.raises(DataError, match=words) as caught:
        prepare(
            DomainNet(root=str(tmp_path), renditions=["real"]),
            originals=str(folder),
            accept_totals=True,
        )
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == [
        "files"
    ]


@pytest.mark.parametrize(
    ("renditions", "words"),
    [
        (["fotos"], "domainnet.renditions: unknown rendition 'fotos'"),
        (["sketches"], "did you mean 'sketch'"),
        ([], "must be a list of renditions"),
        ("real", "must be a list of renditions, not 'real'"),
        (["real", "real"], "names 'real' twice"),
        ([1], "must be a list of renditions"),
    ],
)
def test_renditions_that_are_none_are_refused(renditions: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        DomainNet(renditions=renditions)  # type: ignore[arg-type]
    with pytest.raises(CrosswindError, match=words.replace("domainnet.", "data.")):
        open_source("domainnet", {"renditions": renditions})

"""CINIC-10: pictures by part, class and origin, from the archive and from its folders, and what is
refused."""

from __future__ import annotations

import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.data.cifar_files import CLASSES, pictures, png, tar_gz, unpacked

from crosswind.core.errors import DataError
from crosswind.data.prepared import prepare
from crosswind.data.sources.cifar import Cinic10

ARCHIVE = "CINIC-10.tar.gz"
SPLITS = ("train", "valid", "test")
NAMES = ("cifar10-train-{}.png", "n02690373_{}.png", "cifar-10-test-{}.png")
IMAGES, _ = pictures(90, 0)


@cache
def files() -> dict[str, bytes]:
    """Three pictures of each class in each part, one of each origin, named as in the archive, and
    the texts beside them."""
    archive_files = {
        "README": b"CINIC-10",
        "imagenet-contributors.csv": b"synset, image_num, cinic_set, class\n",
    }
    for i, image in enumerate(IMAGES):
        archive_files[f"{SPLITS[i // 30]}/{CLASSES[i // 3 % 10]}/{NAMES[i % 3].format(i)}"] = png(
            image
        )
    return archive_files


def shuffled(archive_files: dict[str, bytes]) -> dict[str, bytes]:
    """The same files in another order: an archive is in the order in which a disk gave them."""
    names = list(archive_files)
    return {
        names[i]: archive_files[names[i]] for i in np.random.default_rng(1).permutation(len(names))
    }


def write(way: str, folder: Path, archive_files: dict[str, bytes]) -> Path:
    if way.startswith("archive"):
        return tar_gz(
            folder / ARCHIVE, shuffled(archive_files), "." if way == "archive" else "CINIC-10"
        ).parent
    return unpacked(folder if way == "folder" else folder / "CINIC-10", archive_files) and folder


WAYS = ["archive", "archive with a folder", "folder", "folder in a folder"]


@pytest.mark.parametrize("way", WAYS)
def test_pictures_have_the_attributes_of_their_names(way: str, tmp_path: Path) -> None:
    reading = Cinic10().read(write(way, tmp_path, files()))
    assert dict(reading.parts) == {"train": 30, "valid": 30, "test": 30}
    data = reading.dataset
    assert [(attribute.name, attribute.values) for attribute in data.schema] == [
        ("class", tuple(CLASSES)),
        ("split", SPLITS),
        ("origin", ("cifar10-train", "cifar10-test", "imagenet")),
    ]
    # By the order of names, "cifar-10-test" comes before "cifar10-train", and both before
    # "n02690373".
    order = [i // 3 * 3 + (2, 0, 1)[i % 3] for i in range(90)]
    assert np.array_equal(data.inputs(np.arange(90)), IMAGES[order])
    assert data.table.column("class").tolist() == [i // 3 % 10 for i in range(90)]
    assert data.table.column("split").tolist() == [i // 30 for i in range(90)]
    assert data.table.column("origin").tolist() == [1, 0, 2] * 30
    with ThreadPoolExecutor(4) as pool:
        blocks = list(
            pool.map(lambda start: data.inputs(np.arange(start, start + 9)), range(0, 90, 9))
        )
    assert np.array_equal(np.concatenate(blocks), IMAGES[order])
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []


def test_grey_pictures_become_colour(tmp_path: Path) -> None:
    archive_files = dict(files())
    name = "train/airplane/cifar10-train-0.png"
    archive_files[name] = png(IMAGES[0], "L")
    picture = (
        Cinic10().read(write("archive", tmp_path, archive_files)).dataset.inputs(np.array([1]))[0]
    )
    assert np.array_equal(picture[..., 0], picture[..., 1]) and np.array_equal(
        picture[..., 0], picture[..., 2]
    )


@pytest.mark.parametrize("way", ["archive", "folder"])
def test_wrong_names_are_refused(way: str, tmp_path: Path) -> None:
    wrong = [
        "train/airplane/holiday.png",
        "train/airplane/cifar10-valid-3.png",
        "test/truck/n123_4.png",
    ]
    for i, name in enumerate(wrong):
        folder = write(way, tmp_path / str(i), files() | {name: png(IMAGES[0])})
        with pytest.raises(
            DataError, match="is not CINIC-10: '.*png' is not PART/CLASS/FILE, or not named"
        ):
            Cinic10().read(folder)
    notes = write(
        way,
        tmp_path / "notes",
        files() | {"train/airplane/._cifar10-train-0.png": b"notes", "train/cat/a.txt": b""},
    )
    assert dict(Cinic10().read(notes).parts) == {"train": 30, "valid": 30, "test": 30}


def test_wrong_archives_are_refused(tmp_path: Path) -> None:
    def words(archive_files: dict[str, bytes], sentence: str) -> None:
        with pytest.raises(DataError, match=sentence):
            Cinic10().read(write("archive", tmp_path, archive_files))

    picture_bytes = png(IMAGES[0])
    words(
        files() | {"train/lorry/n02690373_1.png": picture_bytes},
        "'train/lorry/n02690373_1.png' is not PART/CLASS/FILE",
    )
    words(files() | {"extra/truck/n02690373_1.png": picture_bytes}, "is not PART/CLASS/FILE")
    words(files() | {"n02690373_1.png": picture_bytes}, "'n02690373_1.png' is not PART/CLASS/FILE")
    words({"README": b"CINIC-10"}, "is not CINIC-10: it holds no picture of train/airplane")
    words(files() | {"../out.png": picture_bytes}, "out.png' is not PART/CLASS/FILE")
    with tarfile.open(tmp_path / ARCHIVE, "w:gz") as archive:
        link = tarfile.TarInfo("train/airplane/n02690373_1.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(DataError, match="it holds no picture of train/airplane"):
        Cinic10().read(tmp_path)
    (tmp_path / ARCHIVE).unlink()
    with pytest.raises(DataError, match="there is no file .*CINIC-10.tar.gz"):
        Cinic10().read(tmp_path)
    (write("folder", tmp_path / "f", files()) / "valid" / "frog").rename(tmp_path / "frog")
    with pytest.raises(DataError, match="it holds no picture of valid/frog"):
        Cinic10().read(tmp_path / "f")


@pytest.mark.parametrize("way", ["archive", "folder"])
def test_a_picture_that_is_none_leaves_no_copy(way: str, tmp_path: Path) -> None:
    from PIL import Image

    name = "valid/dog/n02690373_46.png"
    jpeg = io.BytesIO()
    Image.fromarray(IMAGES[46]).save(jpeg, "JPEG")
    good = files()[name]
    wrong = [
        (png(np.zeros((64, 64, 3), np.uint8)), "is not a PNG of 32 x 32 pixels"),
        (jpeg.getvalue(), "is not a PNG of 32 x 32 pixels"),
        (b"", "is not a PNG of 32 x 32 pixels"),
        (good[: len(good) // 2], "cannot be read as a whole image"),
    ]
    for i, (data, words) in enumerate(wrong):
        folder = write(way, tmp_path / str(i), files() | {name: data})
        with pytest.raises(DataError, match=f"'{name}' {words}"):
            prepare(Cinic10(root=str(tmp_path / "root")), originals=str(folder), accept_totals=True)
        assert not (tmp_path / "root" / "cinic10").exists()

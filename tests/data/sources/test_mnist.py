"""MNIST and Fashion-MNIST: the original files prepared and read back, real ones where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.data.digit_files import MNIST_FILES, drawn_digits, real_data, write_mnist

from crosswind.core.errors import DataError, InputError
from crosswind.core.registry import facts
from crosswind.data.prepared import prepare
from crosswind.data.sources.mnist import FashionMnist, Mnist

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
ARTICLES = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]


def test_train_and_test_are_one_data_set(tmp_path: Path) -> None:
    train, test = drawn_digits(31, 0), drawn_digits(12, 1)
    reading = Mnist().read(write_mnist(tmp_path, [train, test]))
    assert dict(reading.parts) == {"train": 31, "test": 12}
    data = reading.dataset
    assert [(item.name, item.values) for item in data.schema] == [
        ("digit", tuple("0123456789")),
        ("split", ("train", "test")),
    ]
    assert np.array_equal(data.table.column("digit"), np.concatenate([train[1], test[1]]))
    assert data.table.column("split").tolist() == [0] * 31 + [1] * 12
    assert np.array_equal(data.inputs(np.arange(43))[..., 0], np.concatenate([train[0], test[0]]))


def test_size_is_part_of_what_is_prepared(tmp_path: Path) -> None:
    white = np.full((10, 28, 28), 255, np.uint8)
    white[:, :, 14:] = 0
    folder = write_mnist(tmp_path / "files", [(white, np.arange(10)), (white, np.arange(10))])
    source = Mnist(root=str(tmp_path), size=14)
    prepare(source, originals=str(folder), accept_totals=True)
    picture = source.load().inputs(np.arange(20))
    assert picture.shape == (20, 14, 14, 1)
    # Each pixel is the weighed mean of four by four, so the edge lies between columns 6 and 7 and
    # is even on both sides.
    assert (picture[:, :, :6] == 255).all() and (picture[:, :, 8:] == 0).all()
    assert (picture[:, :, 6].astype(int) + picture[:, :, 7] == 255).all()
    with pytest.raises(DataError, match="there is no prepared copy of mnist"):
        Mnist(root=str(tmp_path)).load()
    with pytest.raises(InputError, match=r"mnist\.size: must be in \[4, 512\], not 2"):
        Mnist(size=2)
    with pytest.raises(InputError, match=r"mnist\.channels: unknown value '2'.*1, 3"):
        Mnist(channels=2)


@pytest.mark.slow
def test_real_digits_written_as_the_originals_are_read_back(tmp_path: Path) -> None:
    with np.load(real_data("mnist.npz"), allow_pickle=False) as arrays:
        parts = [(arrays[f"{part}_images"], arrays[f"{part}_label"]) for part in ("train", "test")]
    folder = write_mnist(tmp_path / "originals" / "mnist", parts, packed=False)
    # The published files, unpacked, have these sizes: 16 + 47,040,000, 8 + 60,000, 16 + 7,840,000
    # and 8 + 10,000 bytes.
    assert [(folder / name).stat().st_size for name in MNIST_FILES] == [
        47_040_016,
        60_008,
        7_840_016,
        10_008,
    ]
    source = Mnist(root=str(tmp_path))
    prepare(source)
    data = source.load()
    assert data.n_base == 70_000
    assert np.array_equal(
        data.inputs(np.arange(70_000))[..., 0], np.concatenate([images for images, _ in parts])
    )
    counts = np.bincount(data.table.column("digit")[:60_000])
    assert counts.tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]  # as published


@pytest.mark.slow
def test_real_articles_of_debians_package() -> None:
    if not (DEBIAN / f"{MNIST_FILES[0]}.gz").is_file():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    reading = FashionMnist(channels=3).read(DEBIAN)
    assert reading.parts == facts("sources", "fashion-mnist").card.totals  # type: ignore[union-attr]
    data = reading.dataset
    for split in (0, 1):
        rows = data.table.column("split") == split
        assert (
            len(set(np.bincount(data.table.column("article")[rows]).tolist())) == 1
        )  # classes are even
    pixels = data.inputs(np.arange(70_000))
    assert pixels.shape == (70_000, 28, 28, 1)
    # The means that the authors' readers report for training data: 72.94 of 255, with a spread of
    # 90.02.
    assert (
        abs(pixels[:60_000].mean() - 72.94) < 0.01
        and abs(float(pixels[:60_000].std()) - 90.02) < 0.01
    )
    assert data.attribute("article").values[data.table.column("article")[0]] == "Ankle boot"


def test_debians_files_differ_from_the_published_ones_in_their_gzip_head_only() -> None:
    """A gzip file that names what it packs is longer by the name and a zero: 22 letters and 1, or
    23 and 1."""
    if not (DEBIAN / f"{MNIST_FILES[0]}.gz").is_file():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    card = facts("sources", "fashion-mnist").card
    assert card is not None and len(card.files) == 4
    for item in card.files:
        data = (DEBIAN / item.name).read_bytes()
        stem = item.name.removesuffix(".gz").encode()
        assert item.size - len(data) == len(stem) + 1

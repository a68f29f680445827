"""SVHN: MATLAB files prepared and read back, and what is refused of them."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from tests.data.digit_files import write_svhn

from crosswind.core.errors import DataError
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.mnist import Svhn

Part = tuple[np.ndarray, np.ndarray]


def drawn(n: int, seed: int) -> Part:
    return (
        np.random.default_rng(seed).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8),
        np.arange(n) % 10,
    )


@pytest.mark.parametrize("packed", [True, False])
def test_pictures_and_digits_of_all_parts(tmp_path: Path, packed: bool) -> None:
    parts = {"train": drawn(13, 0), "test": drawn(11, 1), "extra": drawn(12, 2)}
    folder = write_svhn(tmp_path, parts, packed)
    plain, more = Svhn().read(folder), Svhn(extra=True).read(folder)
    assert dict(plain.parts) == {"train": 13, "test": 11} and dict(more.parts) == {
        "train": 13,
        "test": 11,
        "extra": 12,
    }
    data = more.dataset
    assert [(item.name, item.values) for item in data.schema] == [
        ("digit", tuple("0123456789")),
        ("split", ("train", "test", "extra")),
    ]
    assert data.table.column("digit").tolist() == [
        digit for _, digits in parts.values() for digit in digits
    ]
    pictures = np.concatenate([part for part, _ in parts.values()])
    assert np.array_equal(data.inputs(np.arange(36)), pictures)
    rows = np.array([35, 0, 13, 12, 24, 23])
    assert np.array_equal(data.inputs(rows), pictures[rows])


def test_the_digit_0_is_ten_in_the_file(tmp_path: Path) -> None:
    folder = write_svhn(tmp_path, {"train": drawn(10, 0), "test": drawn(10, 1)})
    y = scipy.io.loadmat(folder / "train_32x32.mat")["y"]
    assert (
        y.dtype == np.uint8
        and y.shape == (10, 1)
        and y[:, 0].tolist() == [10, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    )
    assert Svhn().read(folder).dataset.table.column("digit")[:10].tolist() == list(range(10))


def test_labels_may_be_doubles_and_one_picture_may_be_alone(tmp_path: Path) -> None:
    folder = write_svhn(tmp_path, {"train": drawn(10, 0), "test": drawn(10, 1)})
    pictures, _ = drawn(1, 3)
    content = {"X": pictures.transpose(1, 2, 3, 0)[..., 0], "y": np.array([[10.0]])}
    scipy.io.savemat(folder / "test_32x32.mat", content, do_compression=True)
    data = Svhn().read(folder).dataset
    assert data.n_base == 11 and data.table.column("digit")[10] == 0
    assert np.array_equal(data.inputs(np.array([10])), pictures)


def test_prepared_in_grey_beside_other_digits(tmp_path: Path) -> None:
    parts = {"train": drawn(13, 0), "test": drawn(11, 1)}
    folder = write_svhn(tmp_path / "files", parts)
    source = Svhn(root=str(tmp_path), size=16)
    with pytest.raises(DataError, match="73,257"):
        prepare(source, originals=str(folder))
    prepare(source, originals=str(folder), accept_totals=True)
    data = open_source("svhn", {"root": str(tmp_path), "size": 16, "channels": 1})
    assert data.image_shape == (16, 16, 1)
    grey, colour = (
        data.inputs(np.arange(24))[..., 0],
        source.load().inputs(np.arange(24)).astype(np.float64),
    )
    weighed = colour @ [0.299, 0.587, 0.114]
    assert np.abs(grey - weighed).max() < 0.52  # rounded once, by weights of 16 bits


def test_extra_files_are_needed_only_where_asked_for() -> None:
    assert [original.name for original in Svhn().originals()] == [
        "train_32x32.mat",
        "test_32x32.mat",
    ]
    assert [original.name for original in Svhn(extra=True).originals()][2:] == ["extra_32x32.mat"]
    assert Svhn().totals() == {"train": 73_257, "test": 26_032}
    assert Svhn(extra=True).totals() == {"train": 73_257, "test": 26_032, "extra": 531_131}
    assert (
        sum(Svhn().totals().values()) == 99_289
        and sum(Svhn(extra=True).totals().values()) == 630_420
    )  # as the docstring says


def saved(**content: Any) -> Callable[[Path], None]:
    return lambda path: scipy.io.savemat(path, content, do_compression=True)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2000])


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[5000:5040] = bytes(40)
    path.write_bytes(data)


def bomb(path: Path) -> None:
    """X as it should be with 64 MB of zeros behind it in the same stream, in 64 kB; then y."""
    data = path.read_bytes()
    length = int.from_bytes(data[132:136], "little")
    assert data[128:132] == (15).to_bytes(4, "little")
    stream = zlib.compressobj()
    packed = (
        stream.compress(zlib.decompress(data[136 : 136 + length]))
        + stream.compress(bytes(64 << 20))
        + stream.flush()
    )
    path.write_bytes(data[:132] + len(packed).to_bytes(4, "little") + packed + data[136 + length :])


PICTURES = drawn(10, 5)[0].transpose(1, 2, 3, 0)
LABELS = np.arange(1, 11, dtype=np.uint8)[:, None]
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), r"there is no file test_32x32\.mat in"),
    "empty": (lambda path: path.write_bytes(b""), "is no MATLAB 5 file"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"X": PICTURES})), "is no MATLAB 5 file"),
    "hdf5": (
        lambda path: path.write_bytes(b"MATLAB 7.3 MAT-file, Platform" + bytes(600)),
        "is no MATLAB 5 file",
    ),
    "cut": (cut, "is damaged or cut short"),
    "tag cut": (
        lambda path: path.write_bytes(path.read_bytes() + b"\x0f\0\0"),
        "is damaged or cut short",
    ),
    "damaged": (damaged, "is damaged or cut short"),
    "header alone": (
        lambda path: path.write_bytes(path.read_bytes()[:128]),
        "has not both of the variables 'X' and 'y' but none",
    ),
    "bomb": (bomb, "is damaged or cut short"),
    "no labels": (saved(X=PICTURES), "has not both of the variables 'X' and 'y' but 'X'"),
    "no pictures": (saved(y=LABELS), "has not both of the variables 'X' and 'y' but 'y'"),
    "another order": (
        saved(X=PICTURES.transpose(3, 2, 0, 1), y=LABELS),
        "holds uint8 values of 10 x 3 x 32 x 32 in X, not uint8 of 32 x 32 x 3 x n",
    ),
    "another number": (saved(X=PICTURES, y=LABELS[:9]), "holds 10 pictures in X and 9 labels in y"),
    "floats": (saved(X=PICTURES / 255.0, y=LABELS), "holds double values .* in X, not uint8"),
    "a cell": (
        saved(X=PICTURES, y=np.array([[1, "a"]] * 5, dtype=object)),
        "holds no real numbers in y",
    ),
    "label 0": (saved(X=PICTURES, y=LABELS - 1), "label is 0 in row 1, which is none of 1, 2"),
    "half a label": (saved(X=PICTURES, y=LABELS + 0.5), r"label is 1\.5 in row 1"),
    "no label": (
        saved(X=PICTURES, y=np.where(LABELS == 4, np.nan, LABELS)),
        "label is nan in row 4",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_sentence_that_names_it(tmp_path: Path, name: str) -> None:
    spoil, said = BAD[name]
    folder = write_svhn(tmp_path, {"train": drawn(10, 0), "test": drawn(10, 1)})
    spoil(folder / "test_32x32.mat")
    with pytest.raises(DataError, match=said) as caught:
        Svhn().read(folder).dataset.inputs(np.arange(20))
    assert "test_32x32.mat" in str(caught.value) and "\n" not in str(caught.value)

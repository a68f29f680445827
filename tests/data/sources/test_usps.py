"""USPS: LIBSVM's text files prepared and read back, and what is refused of them."""

from __future__ import annotations

import bz2
from pathlib import Path

import numpy as np
import pytest
from tests.data.digit_files import drawn_digits, real_data, usps_text, write_usps

from crosswind.core.errors import DataError
from crosswind.data.prepared import prepare
from crosswind.data.sources import mnist as usps
from crosswind.data.sources.mnist import Usps


@pytest.mark.parametrize("packed", [True, False])
def test_lines_are_pictures(tmp_path: Path, packed: bool) -> None:
    train, test = drawn_digits(23, 0, 16), drawn_digits(11, 1, 16)
    reading = Usps().read(write_usps(tmp_path, [train, test], packed))
    assert dict(reading.parts) == {"train": 23, "test": 11}
    data = reading.dataset
    assert [(item.name, item.values) for item in data.schema] == [
        ("digit", tuple("0123456789")),
        ("split", ("train", "test")),
    ]
    assert data.table.column("digit").tolist() == [*train[1].tolist(), *test[1].tolist()]
    assert np.array_equal(data.inputs(np.arange(34))[..., 0], np.concatenate([train[0], test[0]]))


def test_greys_are_rounded_to_the_nearest_level(tmp_path: Path) -> None:
    """-1 -> 0, 1 -> 255, 0 -> 127.5 -> 128 (the even one), -0.996 -> 0.51 -> 1, 0.999 -> 254.87 ->
    255, -0.998 -> 0.255 -> 0."""
    text = b"10 1:-1 2:1 3:0 4:-0.996 5:0.999 6:-0.998 256:1\n"
    for name in ("usps", "usps.t"):
        (tmp_path / name).write_bytes(text)
    data = Usps().read(tmp_path).dataset
    picture = data.inputs(np.array([0]))
    assert picture.shape == (1, 16, 16, 1) and data.table.column("digit").tolist() == [9, 9]
    assert picture.reshape(-1)[:6].tolist() == [0, 255, 128, 1, 255, 0]
    assert picture.reshape(-1)[6:255].tolist() == [128] * 249  # what a line leaves out is 0


def bad_files() -> dict[str, tuple[bytes, str]]:
    good = usps_text(*drawn_digits(12, 0, 16))
    packed = bz2.compress(good)
    lines = good.split(b"\n")
    return {
        "empty": (b"", "is empty"),
        "half a line": (good[:-40], "its last line is cut short"),
        "bzip2 cut": (packed[:-20], "is damaged or cut short"),
        "bzip2 damaged": (packed[:50] + bytes(20) + packed[70:], "is damaged or cut short"),
        "label": (
            b"\n".join([*lines[:3], b"11" + lines[3][lines[3].index(b" ") :], b""]),
            "label is 11 in row 4, which is none of 1, 2",
        ),
        "label 0": (b"0 1:1\n", "label is 0 in row 1"),
        "label 1.5": (b"1.5 1:1\n", "label is 1.5 in row 1"),
        "grey": (b"1 1:1\n2 7:1.25\n", "row 2 has 1.25 at index 7, and greys lie between -1 and 1"),
        "nan": (b"1 1:1\n2 7:nan\n", "row 2 has nan at index 7"),
        "inf": (b"1 1:-inf\n", "row 1 has -inf at index 1"),
        "index": (b"1 257:1\n", "is not a text of lines 'label index:value ...'"),
        "words": (b"these are words\n", "is not a text of lines"),
        "pickle": (b"\x80\x04\x95\x05\x00\n", "is not a text of lines"),
        "csv": (b"1,0.5,0.25\n", "is not a text of lines"),
        "lines": (b"1\n" * 100_001, "or 100,000 lines"),
    }


@pytest.mark.parametrize("name", bad_files())
def test_a_bad_file_is_one_sentence_that_names_it(tmp_path: Path, name: str) -> None:
    data, said = bad_files()[name]
    folder = write_usps(tmp_path, [drawn_digits(3, 0, 16), drawn_digits(3, 1, 16)])
    place = folder / "usps.t.bz2"
    place.write_bytes(data)
    with pytest.raises(DataError, match=said) as caught:
        Usps().read(folder)
    assert str(place) in str(caught.value) and "\n" not in str(caught.value)


def test_a_bomb_ends_at_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usps, "MOST_BYTES", 1 << 20)
    folder = write_usps(tmp_path, [drawn_digits(3, 0, 16), drawn_digits(3, 1, 16)])
    (folder / "usps.bz2").write_bytes(bz2.compress(b"1 1:1\n" * 200_000, 1))
    with pytest.raises(DataError, match="unpacks to more than 1,048,576 bytes"):
        Usps().read(folder)


@pytest.mark.slow
def test_real_digits_written_as_the_original_are_read_back(tmp_path: Path) -> None:
    with np.load(real_data("usps_test.npz"), allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["label"]
    folder = write_usps(tmp_path / "files", [(images[:50], labels[:50]), (images, labels)])
    source = Usps(root=str(tmp_path), channels=3)
    prepare(source, originals=str(folder), accept_totals=True)
    data = source.load()
    assert data.image_shape == (16, 16, 3)
    assert np.bincount(data.table.column("digit")[50:]).tolist() == [
        359,
        264,
        198,
        166,
        200,
        160,
        170,
        147,
        166,
        177,
    ]
    assert np.array_equal(data.inputs(np.arange(50, 2057)), np.repeat(images[..., None], 3, axis=3))

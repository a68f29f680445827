"""Contact sheets: rows of strengths, draws side by side, and pictures as they are read and
written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.transforms.pictures import photograph

from crosswind.core.errors import InputError
from crosswind.core.registry import listing, load
from crosswind.transforms.sheet import DRAWS, contact_sheet, draws_of, read_picture, write_png

NAMES = [transform.name for transform in listing("transforms")]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "flower.png"
    photograph().crop((100, 60, 260, 180)).save(path)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_every_transform_has_a_sheet_of_different_strengths(name: str, file: Path) -> None:
    picture = read_picture(file, 32)
    rows = draws_of(name, picture, {}, 0)
    strengths = load("transforms", name).strengths  # type: ignore[attr-defined]
    expected = (
        [name] if strengths is None else [f"{strengths[0]} {value}" for value in strengths[1]]
    )
    assert list(rows) == expected
    random = load("transforms", name).random  # type: ignore[attr-defined]
    for row in rows.values():
        assert len(row) == (DRAWS if random else 1) and all(
            one.shape == (32, 32, 3) and one.dtype == np.uint8 for one in row
        )
    kinds = {b"".join(one.tobytes() for one in row) for row in rows.values()}
    # CIFAR-10-C's motion blur is the same at severities 3 and 4: they differ in places whose weight
    # is nothing.
    assert len(kinds) == len(rows) - (name == "motion-blur") and picture.tobytes() not in kinds
    assert (
        not np.array_equal(rows[expected[-1]][0], draws_of(name, picture, {}, 1)[expected[-1]][0])
        or not random
    )


def test_a_strength_that_is_set_is_the_only_row(file: Path) -> None:
    picture = read_picture(file, 32)
    assert list(draws_of("rotate", picture, {"degrees": 45, "draw": "fixed"}, 0)) == [
        "degrees 45.0"
    ]
    rows = draws_of("rotate", picture, {"draw": "fixed"}, 0)
    assert len(rows) == 5 and all(len(row) == 1 for row in rows.values())
    with pytest.raises(
        InputError,
        match=(
            "--set.degres: unknown setting of transform 'rotate': 'degres', did you mean 'degrees'"
        ),
    ):
        draws_of("rotate", picture, {"degres": 3}, 0)


def test_the_sheet_holds_the_pictures_where_they_belong(file: Path) -> None:
    """Size 16 is shown 8 times as large: the original at the top, then five rows of four; each
    found pixel by pixel."""
    picture = read_picture(file, 16)
    sheet = np.asarray(contact_sheet("cutout", picture, {}))
    original = np.kron(picture, np.ones((8, 8, 1), dtype=np.uint8))
    left = next(
        x
        for x in range(sheet.shape[1] - 128)
        if np.array_equal(sheet[31 : 31 + 128, x : x + 128], original)
    )
    for line, row in enumerate(draws_of("cutout", picture, {}, 0).values(), start=1):
        for column, one in enumerate(row):
            top, beside = 31 + line * 134, left + column * 134
            assert np.array_equal(
                sheet[top : top + 128, beside : beside + 128],
                np.kron(one, np.ones((8, 8, 1), dtype=np.uint8)),
            )
    assert sheet.shape[:2] == (31 + 6 * 134, left + 4 * 134)
    grey = contact_sheet("saturate", picture[:, :, :1], {})
    assert grey.mode == "RGB"


def test_pictures_are_read_as_they_are_seen(tmp_path: Path) -> None:
    """The middle square; grey ones have one channel; a camera's note on which way is up is heeded;
    alpha and palettes go."""
    wide = np.zeros((40, 60, 3), dtype=np.uint8)
    wide[:, 10:50] = (255, 0, 0)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    assert (read_picture(tmp_path / "wide.png", 40) == (255, 0, 0)).all()
    Image.fromarray(wide[:, :, 0]).save(tmp_path / "grey.png")
    assert read_picture(tmp_path / "grey.png", 20).shape == (20, 20, 1)
    for mode in ("P", "RGBA", "CMYK", "1", "LA"):
        path = tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}"
        Image.fromarray(wide).convert(mode).save(path)
        assert read_picture(path, 20).shape == (20, 20, 1 if mode in ("1", "LA") else 3)
    turned = Image.fromarray(
        np.kron(np.array([[0, 0], [1, 0]], dtype=np.uint8), np.full((20, 20), 250, dtype=np.uint8))
    )
    exif = Image.Exif()
    exif[274] = 6  # the camera was turned: the picture is to be turned right
    turned.save(tmp_path / "turned.jpg", exif=exif)
    found = read_picture(tmp_path / "turned.jpg", 40)[:, :, 0]
    assert (
        found[5, 5] > 200 > 60 > max(found[5, 35], found[35, 5], found[35, 35])
    )  # it was the lower left


@pytest.mark.parametrize(
    ("name", "write", "words"),
    [
        ("missing.png", None, "there is no file"),
        ("folder", "folder", "is a folder; name a picture"),
        ("text.png", b"not a picture", "cannot be read as a picture"),
        ("empty.png", b"", "cannot be read as a picture"),
        ("cut.png", "cut", "cannot be read as a picture"),
        ("deep.png", "deep", "does not have 8 bits a channel"),
    ],
)
def test_what_is_no_picture_is_refused(
    name: str, write: Any, words: str, tmp_path: Path, file: Path
) -> None:
    path = tmp_path / name
    if write == "folder":
        path.mkdir()
    elif write == "cut":
        path.write_bytes(file.read_bytes()[:2000])
    elif write == "deep":
        Image.fromarray(np.zeros((9, 9), dtype=np.uint16)).save(path)
    elif write is not None:
        path.write_bytes(write)
    with pytest.raises(InputError, match=words) as refused:
        read_picture(path, 32)
    assert str(refused.value).startswith("--image: ") and "\n" not in str(refused.value)
    for size in (7, 1025, -3):
        with pytest.raises(InputError, match=r"--size: must be in \[8, 1024\]"):
            read_picture(file, size)


def test_a_sheet_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = Image.new("RGB", (9, 9))
    for name, words in (
        (".", "must end in .png"),
        ("a.jpg", "must end in .png"),
        ("no/a.png", "there is no folder"),
    ):
        with pytest.raises(InputError, match=words):
            write_png(sheet, tmp_path / name)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        write_png(sheet, tmp_path / "folder.png")
    (tmp_path / "old.png").write_bytes(b"old")

    def full(self: Image.Image, file: Any, *_: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Image.Image, "save", full)
        with pytest.raises(
            InputError, match=r"--out: cannot write .*old.png: No space left on device"
        ):
            write_png(sheet, tmp_path / "old.png")
    assert (tmp_path / "old.png").read_bytes() == b"old"
    write_png(sheet, tmp_path / "old.png")
    with Image.open(tmp_path / "old.png") as written:
        assert written.size == (9, 9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.png", "old.png"]

"""Folders of pictures: every layout that is read, and every file that should not be where it is."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data.picture_files import encoded, written

from crosswind.cli.main import main
from crosswind.core.errors import CrosswindError, DataError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.image_trees import ImageFolder

RED, GREEN = (250, 10, 10), (10, 250, 10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {"dog/2.png": GREEN, "dog/10.JPG": RED, "cat/a.PnG": RED, "cat/B.jpeg": GREEN}
    return written(
        tmp_path / "pets", {name: encoded(colour, name.lower()) for name, colour in files.items()}
    )


def opened(folder: Path, **settings: Any) -> AttributedDataset:
    return open_source("image-folder", {"path": str(folder), "size": 8} | settings)


def test_a_folder_a_class_in_the_order_of_the_paths(folder: Path) -> None:
    data = opened(folder)
    assert data.name == "pets" and data.from_files
    assert [(item.name, item.values) for item in data.schema] == [("class", ("cat", "dog"))]
    assert data.table.column("class").tolist() == [0, 0, 1, 1]
    x = data.inputs(np.arange(4)).astype(int)  # cat/B.jpeg, cat/a.PnG, dog/10.JPG, dog/2.png
    assert [tuple(int(v) > 127 for v in picture[0, 0, :2]) for picture in x] == [
        (False, True),
        (True, False),
        (True, False),
        (False, True),
    ]
    assert opened(folder).fingerprint == data.fingerprint != opened(folder, size=9).fingerprint
    (folder / "dog/2.png").write_bytes(encoded(GREEN, "2.png") + b"\0")
    assert opened(folder).fingerprint != data.fingerprint


def test_levels_are_named_by_the_user(tmp_path: Path) -> None:
    names = ["photo/dog/1.png", "photo/cat/1.png", "sketch/dog/1.png", "sketch/dog/2.png"]
    folder = written(tmp_path / "pets", {name: encoded(RED, name) for name in names})
    (folder / "sketch" / "cat").mkdir()  # no sketch of a cat: an empty cell, and no error
    data = opened(folder, levels=["rendition", "class"])
    assert [(item.name, item.values) for item in data.schema] == [
        ("rendition", ("photo", "sketch")),
        ("class", ("cat", "dog")),
    ]
    assert data.table.codes.tolist() == [[0, 0, 1, 1], [0, 1, 1, 1]]
    assert opened(folder, levels=["-", "class"]).table.codes.tolist() == [[0, 1, 1, 1]]
    assert opened(folder, levels=["rendition", "-"]).table.names == ("rendition",)


def test_numbers_are_in_numeric_order_and_one_file_is_a_class(tmp_path: Path) -> None:
    folder = written(
        tmp_path, {f"{name}/1.png": encoded(RED, "1.png") for name in ("10", "9", "100")}
    )
    data = opened(folder)
    assert data.attribute("class").values == ("9", "10", "100") and data.table.column(
        "class"
    ).tolist() == [1, 2, 0]


def test_hidden_files_and_what_desktops_leave_are_not_seen(folder: Path) -> None:
    before = opened(folder).fingerprint
    written(
        folder,
        dict.fromkeys(
            [
                ".DS_Store",
                "dog/._2.png",
                "dog/Thumbs.db",
                ".git/x/1.png",
                "__MACOSX/dog/1.png",
                "Desktop.ini",
            ],
            b"x",
        ),
    )
    assert opened(folder).fingerprint == before


def test_other_files_may_be_skipped(folder: Path) -> None:
    before = opened(folder).fingerprint
    written(folder, {"README.md": b"x", "dog/notes.txt": b"x", "dog/more/list.csv": b"x"})
    assert opened(folder, others="skip").fingerprint == before
    with pytest.raises(
        DataError,
        match="'README.md' and 2 more are no images by name; take them away, or set others=skip",
    ):
        opened(folder)


def test_a_picture_is_turned_and_its_palette_and_transparency_resolved(tmp_path: Path) -> None:
    upright = Image.new("RGB", (16, 16), (0, 0, 0))
    upright.paste((255, 255, 255), (0, 0, 16, 8))
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    out = io.BytesIO()
    upright.save(out, "JPEG", exif=exif, quality=95)
    palette = io.BytesIO()
    Image.new("P", (8, 8), 0).save(palette, "GIF")
    alpha = io.BytesIO()
    Image.new("RGBA", (8, 8), (200, 100, 50, 0)).save(alpha, "PNG")
    data = opened(
        written(
            tmp_path,
            {"a/1.jpg": out.getvalue(), "a/2.gif": palette.getvalue(), "b/3.png": alpha.getvalue()},
        ),
        size=16,
    )
    x = data.inputs(np.arange(3))
    assert x[0, :7].max() < 20 and x[0, 9:].min() > 235
    assert (x[1] == x[1, 0, 0]).all() and (x[2] == (200, 100, 50)).all()


def test_it_is_prepared_and_its_files_are_not_needed_after(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = opened(folder)
    monkeypatch.chdir(folder.parent)
    with pytest.raises(
        DataError, match="there is no prepared copy of image-folder in .*--set path="
    ):
        opened(folder, root=str(tmp_path / "root"))
    made = prepare(ImageFolder(path="pets", size=8), str(tmp_path / "root"))
    assert (
        made.made
        and not prepare(ImageFolder(path=str(folder), size=8), str(tmp_path / "root")).made
    )
    folder.rename(tmp_path / "elsewhere")
    copy = opened(folder, root=str(tmp_path / "root"))
    assert copy.name == "pets" and copy.table.digest() == direct.table.digest()
    monkeypatch.undo()
    assert np.array_equal(
        copy.inputs(np.arange(4)), opened(tmp_path / "elsewhere").inputs(np.arange(4))
    )


Change = Callable[[Path], object]


def put(name: str, data: bytes = b"x") -> Change:
    return lambda folder: written(folder, {name: data})


def nothing(folder: Path) -> None:
    pass


def linked(folder: Path) -> None:
    (folder.parent / "secret.png").write_bytes(encoded(RED, "secret.png"))
    (folder / "dog" / "3.png").symlink_to(folder.parent / "secret.png")


def beside(folder: Path) -> None:
    """A folder whose path begins as the first one's does."""
    written(folder.parent / "pets-too", {"1.png": encoded(RED, "1.png")})
    (folder / "dog" / "3.png").symlink_to(folder.parent / "pets-too" / "1.png")


BAD: list[tuple[Change, dict[str, Any], str]] = [
    (nothing, {"path": "none"}, "data.path: 'none' is a folder that does not exist"),
    (nothing, {"path": __file__}, "data.path: .* is not a folder"),
    (nothing, {"size": 1}, r"data.size: must be in \[4, 2048\]"),
    (nothing, {"others": "leave"}, "data.others: unknown value 'leave'.*valid: refuse, skip"),
    (nothing, {"levels": []}, "data.levels: must be a list of levels"),
    (nothing, {"levels": "class"}, "data.levels: must be a list of levels, not 'class'"),
    (nothing, {"levels": ["class", ""]}, "data.levels: must be a list of levels"),
    (nothing, {"levels": ["-"]}, "data.levels: must be a list of levels"),
    (nothing, {"levels": ["class", "class"]}, "data.levels: names 'class' twice"),
    (
        nothing,
        {"levels": ["rendition", "class"]},
        r"'cat/B.jpeg' is not RENDITION/CLASS/FILE; levels has a name .*, here \[class\]",
    ),
    (put("1.png"), {}, "'1.png' is not CLASS/FILE; put it into the folder of its class"),
    (put("dog/brown/1.png"), {}, r"'dog/brown/1.png' is not CLASS/FILE.*, here \[-, class\]$"),
    (put("Train/dog/1.png"), {}, r"'Train/dog/1.png' is not CLASS/FILE.*, here \[split, class\]$"),
    (put("dog/1.png", b""), {}, "'dog/1.png' is empty; fetch it again"),
    (put("dog/1.npy"), {}, "'dog/1.npy' is no image by its name; take it away, or"),
    (put("dog/a\nb.png"), {}, r"'dog/a.*nb.png' has a control character in its name; rename it"),
    (
        lambda folder: (folder / "bird").mkdir(),
        {},
        "the folder 'bird' holds no image, so there is nothing of its 'class'",
    ),
    (put("bird/.hidden.png"), {}, "the folder 'bird' holds no image"),
    (linked, {}, "the link 'dog/3.png' leads out of the folder"),
    (beside, {}, "the link 'dog/3.png' leads out of the folder"),
    (
        lambda folder: (folder / "loop").symlink_to(folder),
        {},
        "'loop' is a link to a folder, which would show its files twice",
    ),
    (
        lambda folder: (folder / "dog" / "gone.png").symlink_to("nowhere"),
        {},
        "'dog/gone.png' cannot be read: No such file",
    ),
    (
        lambda folder: os.mkfifo(folder / "dog" / "pipe.png"),
        {},
        "'dog/pipe.png' is neither a file nor a folder",
    ),
    (
        lambda folder: [path.unlink() for path in folder.rglob("*.*")],
        {},
        "pets holds no image; each should be CLASS/FILE",
    ),
]


@pytest.mark.parametrize(("change", "settings", "words"), BAD)
def test_a_bad_folder_is_one_sentence(
    folder: Path, change: Change, settings: dict[str, Any], words: str
) -> None:
    change(folder)
    with pytest.raises(CrosswindError, match=words) as caught:
        opened(folder, **settings)
    assert "\n" not in str(caught.value)


def test_a_link_to_a_file_inside_is_that_file(folder: Path) -> None:
    (folder / "dog" / "3.png").symlink_to(folder / "cat" / "a.PnG")
    assert opened(folder).n_base == 5


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"not a picture", "'dog/2.png' is not an image"),
        # PIL would hand this to Ghostscript, a program outside.
        (
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n0 0 9 9 rectfill\n",
            "'dog/2.png' is not an image",
        ),
        (
            encoded(RED, "x.png")[:50],
            "'dog/2.png' (is not an image|cannot be read as a whole image)",
        ),
        (
            encoded(
                np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8), "x.jpg"
            )[:1500],
            "cannot be read as a whole image: .*truncated",
        ),
    ],
)
def test_a_file_that_is_no_whole_image_is_named_and_leaves_no_copy(
    folder: Path, tmp_path: Path, data: bytes, words: str
) -> None:
    (folder / "dog" / "2.png").write_bytes(data)
    with pytest.raises(DataError, match=words):
        opened(folder).inputs(np.arange(4))
    with pytest.raises(DataError, match=words):
        prepare(ImageFolder(path=str(folder)), str(tmp_path / "root"))
    assert [
        path.name for path in (tmp_path / "root").iterdir() if not path.name.startswith(".")
    ] == []


@pytest.mark.filterwarnings(
    "ignore::PIL.Image.DecompressionBombWarning"
)  # as a program that shows warnings would go on
def test_an_image_of_absurd_size_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = opened(folder)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 24 * 20 - 1)
    with pytest.raises(
        DataError, match="'cat/B.jpeg' has more pixels than an image of a data set should have"
    ):
        data.inputs(np.array([0]))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 24 * 20)
    assert data.inputs(np.array([0])).shape == (1, 8, 8, 3)


def test_damaged_exif_data_are_no_word_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    # says that it holds 65,535 tags, and ends in the first
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01\x03\0\1\0"
    Image.new("RGB", (24, 20), RED).save(folder / "cat" / "B.jpeg", exif=exif)
    with pytest.raises(SystemExit) as ended:
        main(
            ["prepare", "image-folder", "--set", f"path={folder}", "--root", str(tmp_path / "root")]
        )
    assert ended.value.code == 0

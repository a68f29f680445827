"""Pictures of a table or folder of the user's are decoded once, and never shown where their file
changed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from crosswind.core.errors import DataError, InputError
from crosswind.data import decoding
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoded_files import DecodedPictures, decoded_folder
from crosswind.data.held_pictures import pictures_of
from crosswind.data.sources.base import open_source

N_FILES = 12


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of twelve pictures of several formats; what is kept of them lies beside it."""
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path / "kept"))
    monkeypatch.setenv("CROSSWIND_DECODED_GIB", "1")
    monkeypatch.setattr("crosswind.data.decoded_files.SPARE_BYTES", 0)
    (tmp_path / "pictures").mkdir()
    lines = ["path,kind,colour"]
    for number in range(N_FILES):
        name = f"{number:02}.{('png', 'jpg', 'webp')[number % 3]}"
        draw(tmp_path / "pictures" / name, number)
        lines.append(f"{name},{number % 2},{number % 3}")
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def draw(path: Path, seed: int, side: int = 24) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def opened(table: Path, **settings: Any) -> AttributedDataset:
    folder = str(table.parent / "pictures")
    return open_source("table", {"path": str(table), "images": folder, "size": 16, **settings})


def all_pictures(dataset: AttributedDataset) -> NDArray[Any]:
    return dataset.inputs(np.arange(dataset.n_base))


@pytest.fixture
def decoded_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were decoded, in order."""
    names: list[str] = []
    decode = decoding.decoded

    def counting(file: Path | bytes, size: int, border: int = 0) -> NDArray[np.uint8]:
        names.append(Path(os.fsdecode(file)).name if isinstance(file, Path) else "")
        return decode(file, size, border)

    monkeypatch.setattr(decoding, "decoded", counting)
    return names


def fresh(table: Path, monkeypatch: pytest.MonkeyPatch) -> NDArray[Any]:
    with monkeypatch.context() as patch:
        patch.setenv("CROSSWIND_DECODED_GIB", "0")
        return all_pictures(opened(table))


def test_a_second_opening_decodes_nothing_and_has_the_same_pixels(
    table: Path, decoded_names: list[str]
) -> None:
    first = all_pictures(opened(table))
    assert len(decoded_names) == N_FILES
    decoded_names.clear()
    again = opened(table)
    np.testing.assert_array_equal(again.inputs(np.array([3, 3, 11, 0])), first[[3, 3, 11, 0]])
    np.testing.assert_array_equal(all_pictures(again), first)
    np.testing.assert_array_equal(all_pictures(opened(table, columns=["kind"])), first)
    assert decoded_names == []
    assert oct(decoded_folder().stat().st_mode & 0o777) == "0o700", "nobody else's to read"


def test_another_size_and_another_list_of_files_are_pictures_of_their_own(
    table: Path, decoded_names: list[str]
) -> None:
    first = all_pictures(opened(table))
    decoded_names.clear()
    assert all_pictures(opened(table, size=8)).shape == (N_FILES, 8, 8, 3)
    assert len(decoded_names) == N_FILES
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    np.testing.assert_array_equal(all_pictures(opened(table)), first[::-1])
    assert len(list(decoded_folder().iterdir())) == 3


@pytest.mark.parametrize("change", ["another size", "same size, same time", "touched"])
def test_a_file_that_changed_is_decoded_anew_and_it_alone(
    table: Path, decoded_names: list[str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    all_pictures(opened(table))
    path = table.parent / "pictures" / "03.png"
    before = path.stat()
    if change == "touched":
        os.utime(path)
    else:
        draw(path, 99, side=24 if change.startswith("same") else 30)
    if change.startswith("same"):
        contents = path.read_bytes()[: before.st_size].ljust(before.st_size, b"\0")
        path.write_bytes(contents)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = path.stat()
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    decoded_names.clear()
    changed = all_pictures(opened(table))
    assert decoded_names == ["03.png"]
    np.testing.assert_array_equal(changed, fresh(table, monkeypatch))


def test_what_is_kept_and_damaged_is_decoded_anew(table: Path, decoded_names: list[str]) -> None:
    first = all_pictures(opened(table))
    (path,) = decoded_folder().iterdir()
    stored = bytearray(path.read_bytes())
    row_bytes = 16 * 16 * 3
    for row in (2, 7):  # one pixel of row 2, all of row 7 as a lost write leaves it
        start = N_FILES * 16 + row * row_bytes
        stored[start : start + row_bytes] = (
            bytes([stored[start] ^ 1]) + stored[start + 1 : start + row_bytes]
            if row == 2
            else bytes(row_bytes)
        )
    path.write_bytes(stored)
    decoded_names.clear()
    np.testing.assert_array_equal(all_pictures(opened(table)), first)
    assert decoded_names == ["02.webp", "07.jpg"]
    path.write_bytes(stored[:100])  # cut short
    np.testing.assert_array_equal(all_pictures(opened(table)), first)


def test_a_file_that_is_gone_is_refused_though_its_picture_was_kept(table: Path) -> None:
    all_pictures(opened(table))
    dataset = opened(table)
    (table.parent / "pictures" / "04.jpg").unlink()
    with pytest.raises(DataError, match=r"row 5: '04\.jpg' is no longer there"):
        all_pictures(dataset)


@pytest.mark.parametrize("hindrance", ["limit of 0", "limit too small", "full disk", "no folder"])
def test_where_nothing_can_be_kept_every_reading_decodes(
    table: Path, decoded_names: list[str], monkeypatch: pytest.MonkeyPatch, hindrance: str
) -> None:
    if hindrance.startswith("limit"):
        limit = "0" if hindrance == "limit of 0" else "0.000001"
        monkeypatch.setenv("CROSSWIND_DECODED_GIB", limit)
    elif hindrance == "full disk":
        monkeypatch.setattr("crosswind.data.decoded_files.SPARE_BYTES", 1 << 62)
    else:
        (table.parent / "kept").write_text("a file where the folder would be")
    first = all_pictures(opened(table))
    np.testing.assert_array_equal(all_pictures(opened(table)), first)
    assert len(decoded_names) == 2 * N_FILES
    assert not list(table.parent.glob("kept/*/*.pixels"))


def test_lists_that_were_not_read_for_longest_make_room(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (64, 48):
        all_pictures(opened(table, size=size))
    oldest, newer = sorted(decoded_folder().iterdir(), key=lambda path: -path.stat().st_size)
    os.utime(oldest, (1, 1))
    bytes_of_two = oldest.stat().st_blocks * 512 + newer.stat().st_blocks * 512
    monkeypatch.setenv("CROSSWIND_DECODED_GIB", str(bytes_of_two / 2**30))
    all_pictures(opened(table, size=32))
    assert not oldest.exists()
    assert newer.exists()
    assert len(list(decoded_folder().iterdir())) == 2


@pytest.mark.parametrize("limit", ["many", "-1", "nan"])
def test_a_limit_that_is_no_number_is_refused(
    table: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv("CROSSWIND_DECODED_GIB", limit)
    with pytest.raises(InputError, match="CROSSWIND_DECODED_GIB: must be a number of GiB"):
        opened(table)


READER = """
import sys
from pathlib import Path
import numpy as np
from tests.data.test_decoded_files import all_pictures, opened
np.save(sys.argv[2], all_pictures(opened(Path(sys.argv[1]))))
"""


@pytest.mark.slow
def test_processes_and_threads_at_once_read_the_same_pixels(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fresh(table, monkeypatch)
    outputs = [table.parent / f"{number}.npy" for number in range(3)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(table), str(output)],
            cwd=Path(__file__).parents[2],
        )
        for output in outputs
    ]
    dataset = opened(table)
    pictures: list[NDArray[Any]] = []
    threads = [
        threading.Thread(target=lambda: pictures.append(all_pictures(dataset))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0, 0]
    for array in [*pictures, *map(np.load, outputs)]:
        np.testing.assert_array_equal(array, expected)
    assert len(pictures) == 4


def test_a_folder_of_classes_is_kept_too(table: Path, decoded_names: list[str]) -> None:
    tree = table.parent / "tree"
    for kind in ("cat", "dog"):
        (tree / kind).mkdir(parents=True)
        for number in range(3):
            draw(tree / kind / f"{number}.png", number)
    settings = {"path": str(tree), "size": 16}
    first = all_pictures(open_source("image-folder", settings))
    assert len(decoded_names) == 6
    np.testing.assert_array_equal(all_pictures(open_source("image-folder", settings)), first)
    assert len(decoded_names) == 6


def test_pictures_that_outlive_their_module_end_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python empties modules as it ends: an exception was printed behind what a program said."""
    pictures = DecodedPictures(tmp_path / "a.pixels", 1, (8, 8, 3))
    with monkeypatch.context() as emptied:
        for name in ("os", "contextlib"):
            emptied.setattr(f"crosswind.data.decoded_files.{name}", None, raising=False)
        pictures.__del__()


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_a_picture_that_is_drawn_by_its_transparency_alone_is_refused(
    tmp_path: Path, mode: str
) -> None:
    """Black ink on nothing, as drawing programs write it: without transparency all of it is black."""
    alpha = np.zeros((8, 8), dtype=np.uint8)
    alpha[2:5, 3:6] = 255
    drawn = np.stack([np.zeros_like(alpha)] * (len(mode) - 1) + [alpha], axis=-1)
    Image.fromarray(drawn, mode).save(tmp_path / "ink.png")
    with pytest.raises(decoding.Refused, match="transparency alone.*on a background first"):
        decoding.decoded(tmp_path / "ink.png", 8)
    assert "transparency alone" in decoding.unreadable(tmp_path / "ink.png")
    with pytest.raises(DataError, match="image 0 is drawn by its transparency alone"):
        pictures_of([Image.open(tmp_path / "ink.png")])
    drawn[..., :-1] = 255 - alpha[..., None]
    Image.fromarray(drawn, mode).save(tmp_path / "ink.png")
    assert np.ptp(decoding.decoded(tmp_path / "ink.png", 8)) == 255
    drawn[..., :-1], drawn[..., -1] = 7, 255
    Image.fromarray(drawn, mode).save(tmp_path / "plain.png")
    assert (decoding.decoded(tmp_path / "plain.png", 8) == 7).all()

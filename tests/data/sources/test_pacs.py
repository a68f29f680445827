"""PACS in the layout that its authors publish, whole and damaged, and the real images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.data.digit_files import real_data
from tests.data.picture_files import (
    PACS_CLASSES,
    PACS_RENDITIONS,
    encoded,
    pacs_files,
    written,
    zipped,
)

from crosswind.core.errors import DataError
from crosswind.core.registry import facts
from crosswind.data.prepared import prepare
from crosswind.data.sources.image_trees import Pacs

Files = dict[str, bytes]


def test_the_folder_and_the_lists_are_read(tmp_path: Path) -> None:
    reading = Pacs(size=16).read(written(tmp_path, pacs_files(3)))
    data = reading.dataset
    assert dict(reading.parts) == dict.fromkeys(PACS_RENDITIONS, 21)
    assert [(item.name, item.values) for item in data.schema] == [
        ("class", PACS_CLASSES),
        ("rendition", PACS_RENDITIONS),
        ("split", ("train", "crossval")),
    ]
    r, c, i = (axis.ravel() for axis in np.indices((4, 7, 3)))
    assert np.array_equal(data.table.codes, np.stack([c, r, i == 2]))
    x = data.inputs(np.arange(84))
    expected = np.stack([60 * r, 30 * c, 20 * i], axis=1)[:, None, None, :]
    assert x.shape == (84, 16, 16, 3)
    assert np.abs(x.astype(int) - expected).max() <= 3  # what JPEG does to one colour
    assert np.array_equal(
        x[63:], np.broadcast_to(expected[63:], (21, 16, 16, 3))
    )  # sketches are PNG


@pytest.mark.parametrize("where", ["kfold/", "PACS/", "data/PACS/images/", ""])
def test_a_zip_a_folder_and_any_place_in_it_are_the_same(tmp_path: Path, where: str) -> None:
    files = {
        name.replace("kfold/", where) if name.startswith("kfold/") else f"lists/{name}": data
        for name, data in pacs_files(2).items()
    }
    folder = Pacs(size=8).read(written(tmp_path / "folder", files)).dataset
    leftovers = {
        "__MACOSX/kfold/photo/dog/._pic_001.jpg": b"?",
        f"{where}photo/dog/.DS_Store": b"?",
        f"{where}photo/dog/Thumbs.db": b"?",
    }
    zipped(tmp_path / "zip" / "PACS.zip", {**files, **leftovers})
    archive = Pacs(size=8).read(tmp_path / "zip").dataset
    rows = np.arange(folder.n_base)
    assert folder.n_base == archive.n_base == 56 and folder.fingerprint == archive.fingerprint
    assert np.array_equal(folder.inputs(rows), archive.inputs(rows))
    pictures = {name: data for name, data in files.items() if not name.endswith(".txt")}
    zipped(tmp_path / "both" / "kfold.zip", pictures)
    written(
        tmp_path / "both", {name: data for name, data in files.items() if name.endswith(".txt")}
    )
    assert Pacs(size=8).read(tmp_path / "both").dataset.table.digest() == folder.table.digest()


def test_an_archive_beside_what_was_unpacked_from_it_is_not_read(tmp_path: Path) -> None:
    files = pacs_files(2)
    expected = Pacs(size=8).read(written(tmp_path / "one", files)).dataset.fingerprint
    zipped(written(tmp_path / "two", files) / "PACS.zip", files)
    assert Pacs(size=8).read(tmp_path / "two").dataset.fingerprint == expected


def test_without_lists_there_is_no_split(tmp_path: Path) -> None:
    files = {name: data for name, data in pacs_files(1).items() if not name.endswith(".txt")}
    written(tmp_path, files)
    assert Pacs(lists=False).read(tmp_path).dataset.table.names == ("class", "rendition")
    with pytest.raises(
        DataError,
        match=(
            "has the official list photo_train_kfold.txt nowhere; put it there once, or set"
            " lists=false"
        ),
    ):
        Pacs().read(tmp_path)


def change(name: str, old: bytes, new: bytes) -> Callable[[Files], None]:
    def changed(files: Files) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return changed


def put(name: str, data: bytes) -> Callable[[Files], None]:
    return lambda files: files.update({name: data})


def only(name: str, data: bytes) -> Callable[[Files], None]:
    def changed(files: Files) -> None:
        files.clear()
        files[name] = data

    return changed


def drop(name: str) -> Callable[[Files], None]:
    return lambda files: files.pop(name) and None


FIRST = "photo_train_kfold.txt"
BAD: list[tuple[Callable[[Files], None], str]] = [
    (
        drop("kfold/photo/dog/pic_001.jpg"),
        r"photo_train_kfold.txt lists 'photo/dog/pic_001.jpg', which .* does not hold",
    ),
    (
        change(FIRST, b"pic_001.jpg 1", b"pic_001.jpg 2"),
        "lists 'photo/dog/pic_001.jpg', with the number 2, which is that of 'elephant'",
    ),
    (change(FIRST, b"pic_001.jpg 1", b"pic_001.jpg 0"), "give the class 'dog' two numbers"),
    (
        change(FIRST, b"photo/dog", b"cartoon/dog"),
        "lists 'cartoon/dog/pic_001.jpg', which should be photo/CLASS/FILE",
    ),
    (
        change(FIRST, b"photo/dog/pic_001.jpg 1\n", b""),
        "the official lists leave out 'photo/dog/pic_001.jpg' and 0 more",
    ),
    (
        change(FIRST, b"pic_001.jpg 1", b"pic_002.jpg 1"),
        r"line 2 lists 'photo/dog/pic_002.jpg' for a second time",
    ),
    (
        change("photo_crossval_kfold.txt", b"pic_003", b"pic_002"),
        "lists 'photo/dog/pic_002.jpg', which is in the other list too",
    ),
    (
        change(FIRST, b"pic_001.jpg 1", b"pic_001.jpg"),
        "line 1 should be a file and the number of its class, not 'photo/dog/pic_001.jpg'",
    ),
    (put(FIRST, b"\n"), "photo_train_kfold.txt is empty"),
    (put(FIRST, b"\xff\xfe\x00"), "photo_train_kfold.txt is no text in UTF-8"),
    (put(f"more/{FIRST}", b""), "has the official list photo_train_kfold.txt twice"),
    (
        put("kfold/photo/cat/pic_001.jpg", b"x"),
        "'kfold/photo/cat/pic_001.jpg' is empty, or lies in a folder that is no class",
    ),
    (
        put("copy/photo/dog/pic_001.jpg", b"x"),
        "holds images of PACS in two places: in 'copy/' and in 'kfold/'",
    ),
    (put("kfold/photo/dog/pic_001.jpg", b""), "'kfold/photo/dog/pic_001.jpg' is empty"),
    (lambda files: files.clear(), "holds no images of PACS .PACS.zip."),
    (only("PACS.zip", b"PK\x03\x04 and then nothing"), "PACS.zip is damaged or cut short"),
]


@pytest.mark.parametrize(("damage", "words"), BAD)
def test_what_is_not_as_published_is_one_sentence(
    tmp_path: Path, damage: Callable[[Files], None], words: str
) -> None:
    files = pacs_files(3)
    damage(files)
    folder = written(tmp_path / "files", files)
    folder.mkdir(exist_ok=True)
    with pytest.raises(DataError, match=words) as caught:
        prepare(Pacs(root=str(tmp_path), size=8), originals=str(folder), accept_totals=True)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "pacs-size=8").exists()


def test_what_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "files", pacs_files(1))
    (tmp_path / "secret.jpg").write_bytes(encoded((1, 2, 3), "secret.jpg"))
    (folder / "kfold/photo/dog/link.jpg").symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(
        DataError, match="the link 'kfold/photo/dog/link.jpg' leads out of the folder"
    ):
        Pacs().read(folder)
    (folder / "kfold/photo/dog/link.jpg").unlink()
    (folder / "again").symlink_to(folder / "kfold")
    with pytest.raises(
        DataError, match="'again' is a link to a folder, which would show its files twice"
    ):
        Pacs().read(folder)


def test_the_published_totals_are_those_of_the_real_images() -> None:
    real = np.load(real_data("pacs64.npz"))
    names = [str(name) for name in real["domain_names"]]
    card = facts("sources", "pacs").card
    assert card is not None
    assert dict(card.totals) == {
        names[code]: rows for code, rows in sorted(Counter(real["domain"].tolist()).items())
    }
    assert tuple(real["label_names"].tolist()) == PACS_CLASSES == card.attributes["class"]


@pytest.mark.slow  # the archive of the real images takes 8 s to unpack
def test_real_images_are_prepared_as_they_are(tmp_path: Path) -> None:
    real = np.load(real_data("pacs64.npz"))
    images, label, domain, names = (real[key] for key in ("images", "label", "domain", "names"))
    rows = np.arange(0, len(images), 17)
    for row in rows:
        place = (
            tmp_path
            / "files"
            / "kfold"
            / real["domain_names"][domain[row]]
            / PACS_CLASSES[label[row]]
            / names[row]
        )
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.suffix == ".png":
            Image.fromarray(images[row]).save(place)
        else:
            Image.fromarray(images[row]).save(place, quality=100, subsampling=0)
    source = Pacs(root=str(tmp_path), lists=False)
    prepare(source, originals=str(tmp_path / "files"), accept_totals=True)
    data = source.load()
    assert data.n_base == len(rows) == 588
    order = np.lexsort((names[rows], np.array(PACS_CLASSES)[label[rows]], domain[rows]))
    mine = rows[order]
    assert np.array_equal(data.table.codes, np.stack([label[mine], domain[mine]]))
    difference = np.abs(data.inputs(np.arange(588)).astype(int) - images[mine])
    assert difference[domain[mine] == 3].max() == 0  # sketches are PNG
    assert difference.mean() < 0.6 and difference.max() <= 12  # JPEG at its best quality

"""What holds for every source with original files: totals, the card, the copy, and files that are
missing, cut or damaged.

A new source is one more entry in `CASES`: the files that it reads, few rows of them, in their
original layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract.test_cards import agrees
from tests.data.cifar_files import CLASSES, binary_files, pictures, tar_gz
from tests.data.digit_files import drawn_digits, write_mnist, write_svhn, write_usps
from tests.data.factor_files import (
    DSPRITES,
    dsprites_arrays,
    norb_part,
    shapes3d_arrays,
    write_hdf5,
    write_norb,
)
from tests.data.picture_files import pacs_files, zipped
from tests.data.sources.test_cinic10 import files as cinic_files
from tests.data.sources.test_domainnet import lists_and_images, published
from tests.data.sources.test_text_sources import KNOWN, packed
from tests.data.sources.test_wild import WILD, archived
from tests.data.spoiled import spoiled

from crosswind.core.errors import DataError
from crosswind.core.registry import facts, listing, load
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import PreparedSource
from crosswind.testing import check_source


def npz(folder: Path, name: str, **arrays: Any) -> None:
    np.savez_compressed(folder / name, **arrays)


def cifar101(folder: Path) -> None:
    images, labels = pictures(23, 0)
    np.save(folder / "cifar10.1_v6_data.npy", images)
    np.save(folder / "cifar10.1_v6_labels.npy", labels.astype(np.int32))


def cifar102(folder: Path) -> None:
    for split_name, rows in (("train", 23), ("test", 11)):
        images, labels = pictures(rows, 1)
        npz(
            folder,
            f"cifar102_{split_name}.npz",
            images=images,
            labels=labels.astype(np.int64),
            label_names=np.array(CLASSES),
        )


def svhn(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 32, 32, 3), dtype=np.uint8)
    write_svhn(
        folder, {split_name: (pixels, np.arange(10)) for split_name in ("train", "test", "extra")}
    )


def mpi3d(folder: Path) -> None:
    npz(
        folder,
        "mpi3d_toy.npz",
        images=np.random.default_rng(0).integers(0, 256, (90, 64, 64, 3), dtype=np.uint8),
    )


@dataclass(frozen=True)
class OriginalFiles:
    """How the files of a source are written, with which settings they are read, how often each is
    spoiled, and what is missed.

    `seen`: whether all damage is seen; of a list of names, or of bytes without a checksum, another
    file may be read.
    """

    write: Callable[[Path], object]
    settings: dict[str, Any] = field(default_factory=dict)
    seen: bool = True
    needed: bool = True


CASES = {
    "mnist": OriginalFiles(
        lambda folder: write_mnist(folder, [drawn_digits(25, 0), drawn_digits(10, 1)])
    ),
    "fashion-mnist": OriginalFiles(
        lambda folder: write_mnist(folder, [drawn_digits(25, 0), drawn_digits(10, 1)])
    ),
    "usps": OriginalFiles(
        lambda folder: write_usps(folder, [drawn_digits(12, 0, 16), drawn_digits(10, 1, 16)])
    ),
    "svhn": OriginalFiles(svhn, {"extra": True}),
    "cifar10": OriginalFiles(
        lambda folder: tar_gz(
            folder / "cifar-10-binary.tar.gz", binary_files([pictures(9, i) for i in range(6)]), "a"
        )
    ),
    "cifar10.1": OriginalFiles(cifar101, seen=False),
    "cifar10.2": OriginalFiles(cifar102),
    "cinic10": OriginalFiles(
        lambda folder: tar_gz(folder / "CINIC-10.tar.gz", cinic_files(), "CINIC-10")
    ),
    "smallnorb": OriginalFiles(
        lambda folder: write_norb(
            folder, {split_name: norb_part(split_name, 60) for split_name in ("train", "test")}
        ),
        {"camera": "both"},
    ),
    "shapes3d": OriginalFiles(
        lambda folder: write_hdf5(
            folder / "3dshapes.h5", shapes3d_arrays(np.arange(0, 480_000, 6007))
        ),
        {"original": True},
        seen=False,
    ),
    "dsprites": OriginalFiles(
        lambda folder: npz(folder, DSPRITES, **dsprites_arrays(np.arange(0, 737_280, 9001))),
        {"original": True},
    ),
    "mpi3d": OriginalFiles(mpi3d),
    "pacs": OriginalFiles(
        lambda folder: zipped(folder / "PACS.zip", pacs_files()), seen=False, needed=False
    ),
    "domainnet": OriginalFiles(lambda folder: published(folder, *lists_and_images()), seen=False),
}
# Of a plain tar no byte has a checksum, and a list says what it says.
CASES |= {
    name: OriginalFiles(partial(archived, name), {"size": 8, **case.settings}, seen=False)
    for name, case in WILD.items()
    if name not in ("objectnet", "imagenet-vid", "ytbb")
}

CASES |= {
    name: OriginalFiles(partial(packed, name), case.settings, seen=False)
    for name, case in KNOWN.items()
}
DRAWN: dict[str, dict[str, Any]] = {
    "digits": {},
    "factors": {"grid": {"hue": ["red", "blue"], "size": 3}},
}
"""Sources without files, with their settings."""


def made(name: str, folder: Path) -> tuple[PreparedSource, Path]:
    originals = folder / "files"
    originals.mkdir(exist_ok=True)
    CASES[name].write(originals)
    source = load("sources", name)(root=str(folder / "root"), **CASES[name].settings)
    return source, originals


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def copies(folder: Path) -> list[str]:
    return [
        path.name
        for path in (folder / "root").glob("*")
        if not path.name.startswith(".") and path.name != "originals"
    ]


def test_every_source_with_files_is_here() -> None:
    with_files = {
        source.name
        for source in listing("sources")
        if source.module.startswith("crosswind.") and source.card and source.card.files
    }
    assert with_files <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_it_is_prepared_as_its_card_says_and_opened_as_it_was_read(
    name: str, tmp_path: Path
) -> None:
    source, originals = made(name, tmp_path)
    reading = source.read(originals)
    dataset = reading.dataset
    assert sum(reading.parts.values()) in (dataset.n_rows, dataset.n_rows // 2)
    if totals := source.totals():
        assert set(reading.parts) <= set(totals)
        with pytest.raises(
            DataError, match=f"{max(totals.values()):,}.* are published; --accept-totals"
        ):
            prepare(source, originals=str(originals))
    assert copies(tmp_path) == []
    assert prepare(source, originals=str(originals), accept_totals=True).made
    rows = np.arange(dataset.n_rows)
    assert len(copies(tmp_path)) == 1
    opened = source.load()
    if name != "dsprites":  # it colours its copy
        assert (
            np.array_equal(opened.inputs(rows), dataset.inputs(rows))
            and opened.table.digest() == dataset.table.digest()
        )
    if name not in ("domainnet", "cifar10.1", "amazon-reviews"):
        agrees(facts("sources", name).card, opened)


@pytest.mark.parametrize("name", CASES)
def test_the_contract_holds_for_a_prepared_copy(name: str, tmp_path: Path) -> None:
    source, originals = made(name, tmp_path)
    prepare(source, originals=str(originals), accept_totals=True)
    check_source(type(source), knobs={"root": source.root, **CASES[name].settings})


@pytest.mark.parametrize("name", DRAWN)
def test_the_contract_holds_for_what_is_drawn(name: str) -> None:
    check_source(load("sources", name), knobs=DRAWN[name])


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    source, originals = made(name, tmp_path)
    for file in files_of(originals):
        file.rename(tmp_path / file.name)
        words = file.name if CASES[name].needed else "holds no images of PACS"
        with pytest.raises(DataError, match=words):
            prepare(source, originals=str(originals), accept_totals=True)
        (tmp_path / file.name).rename(file)
    assert copies(tmp_path) == []


@pytest.mark.parametrize("name", CASES)
def test_a_spoiled_file_is_one_sentence_and_no_copy(name: str, tmp_path: Path) -> None:
    source, originals = made(name, tmp_path)
    good = source.read(originals).dataset
    pixels = good.inputs(np.arange(good.n_rows))
    for file in files_of(originals):
        file_bytes = file.read_bytes()
        for data in spoiled(file_bytes, count=3):
            file.write_bytes(data)
            try:
                dataset = source.read(originals).dataset
                same = dataset.n_rows == good.n_rows and np.array_equal(
                    dataset.inputs(np.arange(dataset.n_rows)), pixels
                )
                assert same or not CASES[name].seen, f"{file.name} was damaged and read as another"
            except DataError as error:
                assert "\n" not in str(error)
        file.write_bytes(file_bytes[: len(file_bytes) // 2])
        with pytest.raises(DataError) as caught:
            prepare(source, originals=str(originals), accept_totals=True)
        assert "\n" not in str(caught.value) and copies(tmp_path) == []
        file.write_bytes(b"<!DOCTYPE html><p>Log in")
        with pytest.raises(DataError):
            source.read(originals)
        file.write_bytes(file_bytes)
    assert np.array_equal(source.read(originals).dataset.inputs(np.arange(good.n_rows)), pixels)

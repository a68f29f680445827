"""Pictures whose pixels are equal in files of different bytes: known once they are decoded, and
refused where they would leak."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.types import canonical
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.split import Split, make_split
from crosswind.studies.axes import points_of
from crosswind.studies.build import build_split_plan, split_values
from crosswind.studies.spec import Study

Hashes = NDArray[np.uint64]


def check_pixel_copies(
    study: Study, datasets: Mapping[str, AttributedDataset], pixels: Mapping[str, Hashes]
) -> None:
    """Refuse a study in which a picture that tests has the pixels of one that trains or validates.

    `datasets`: those that its jobs read. `pixels`: a hash of the pixels of every base row, of each
    of them whose files were decoded. Raises `InputError`; nothing where the study says `overlap:
    allowed`.
    """
    if study.overlap == "allowed" or not pixels:
        return
    known = {
        name: hashes
        for name, dataset in datasets.items()
        if (hashes := pixels.get(name, _held(dataset))) is not None
    }
    seen = set()
    for point, split_seed in product(points_of(study), study.split_seed_list):
        split, _ = split_values(study, point, split_seed)
        # Roles depend neither on how many rows are drawn nor on what becomes of their labels.
        split |= {"draw": "all", "dataset_size": None, "label_noise": 0.0}
        key = canonical([point.data, split])
        if point.data in datasets and key not in seen:
            seen.add(key)
            _check(make_split(datasets, point.data, build_split_plan(split), 0), known, datasets)


def _held(dataset: AttributedDataset) -> Hashes | None:
    """The hashes of pixels that a prepared copy or an array comes with."""
    return dataset.contents if dataset.input is not None and dataset.input.kind == "image" else None


def _check(
    split: Split, known: Mapping[str, Hashes], datasets: Mapping[str, AttributedDataset]
) -> None:
    held: dict[bool, dict[str, NDArray[np.int64]]] = {True: {}, False: {}}
    for part in split.parts.values():
        if part.source in known:
            places = held[part.role == "test"]
            places[part.source] = np.union1d(
                places.get(part.source, np.empty(0, np.int64)), part.pool.rows()
            )
    trained = np.concatenate(
        [known[name][rows] for name, rows in held[False].items()] or [np.empty(0, np.uint64)]
    )
    for name, rows in held[True].items():
        leaks = rows[np.isin(known[name][rows], trained)]
        if len(leaks):
            picture = known[name][leaks[0]]
            twins = (
                (other, their[known[other][their] == picture])
                for other, their in held[False].items()
            )
            other, twin = next((other, found[0]) for other, found in twins if len(found))
            pair = (
                f"row {datasets[name].ids[leaks[0]] + 1:,} of {name} and row"
                f" {datasets[other].ids[twin] + 1:,} of {other}"
            )
            number = len(np.unique(known[name][leaks]))
            raise InputError(
                f"data.{name}",
                f"{number:,} pictures that test have the pixels of pictures that train or validate,"
                f" in files of different bytes, such as {pair}; take one of each out, or prepare a"
                " copy (crosswind prepare), which knows a picture by its pixels",
            )

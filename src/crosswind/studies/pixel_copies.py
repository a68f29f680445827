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
from crosswind.studies.observed_ties import match_observed
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
    hashes_by_name = {
        name: hashes
        for name, dataset in datasets.items()
        if (hashes := pixels.get(name, _stored_hashes(dataset))) is not None
    }
    checked_keys = set()
    for point, split_seed in product(points_of(study), study.split_seed_list):
        if point.data not in datasets:
            continue
        split, _ = split_values(study, point, split_seed)
        match_observed(split, datasets[point.data])
        # Roles depend neither on how many rows are drawn nor on what becomes of their labels.
        split |= {"draw": "all", "dataset_size": None, "label_noise": 0.0}
        key = canonical([point.data, split])
        if key not in checked_keys:
            checked_keys.add(key)
            _check(
                make_split(datasets, point.data, build_split_plan(split), 0),
                hashes_by_name,
                datasets,
            )


def _stored_hashes(dataset: AttributedDataset) -> Hashes | None:
    """The hashes of pixels that a prepared copy or an array comes with."""
    if dataset.input is not None and dataset.input.kind == "image":
        return dataset.contents
    return None


def _check(
    split: Split, hashes_by_name: Mapping[str, Hashes], datasets: Mapping[str, AttributedDataset]
) -> None:
    rows_by_test: dict[bool, dict[str, NDArray[np.int64]]] = {True: {}, False: {}}
    for split_part in split.parts.values():
        if split_part.source in hashes_by_name:
            source_rows = rows_by_test[split_part.role == "test"]
            known_rows = source_rows.get(split_part.source, np.empty(0, np.int64))
            source_rows[split_part.source] = np.union1d(known_rows, split_part.pool.rows())
    trained = np.concatenate(
        [hashes_by_name[name][rows] for name, rows in rows_by_test[False].items()]
        or [np.empty(0, np.uint64)]
    )
    for name, rows in rows_by_test[True].items():
        leaks = rows[np.isin(hashes_by_name[name][rows], trained)]
        if len(leaks):
            picture = hashes_by_name[name][leaks[0]]
            twins = (
                (trained_name, trained_rows[hashes_by_name[trained_name][trained_rows] == picture])
                for trained_name, trained_rows in rows_by_test[False].items()
            )
            trained_name, twin = next(
                (trained_name, matching[0]) for trained_name, matching in twins if len(matching)
            )
            own_id = datasets[name].ids[leaks[0]]
            trained_id = datasets[trained_name].ids[twin]
            pair = f"row {own_id + 1:,} of {name} and row {trained_id + 1:,} of {trained_name}"
            number = len(np.unique(hashes_by_name[name][leaks]))
            problem = (
                f"{number:,} pictures that test have the pixels of pictures that train or validate,"
                f" in files of different bytes, such as {pair}; take one of each out, or prepare a"
                " copy (crosswind prepare), which knows a picture by its pixels"
            )
            raise InputError(f"data.{name}", problem)

"""Changed copies of rows, as a data set of their own: every model answers for them on the path on
which it answers for rows.

Estimators of accuracy ask for them: the neighbours of a row, or labelled rows under corruptions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.registry import load
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import digest, digest_arrays
from crosswind.data.attributes import AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import evaluation_inputs
from crosswind.transforms.neighbourhood import ROOMS
from crosswind.transforms.text.changing import changed_texts

Chain: TypeAlias = tuple[tuple[str, Mapping[str, Any]], ...]
"""Registered transforms with values of their knobs, one after the other; an empty one leaves the
row as it is."""


def copies(
    dataset: AttributedDataset,
    rows: NDArray[np.int64],
    changes: Sequence[Chain],
    name: str = "copies",
) -> AttributedDataset:
    """The data set whose row i V + v is row `rows[i]` of `dataset`, a virtual one too, under the
    v-th of V `changes`.

    Its table is that of the rows. The randomness of a transform is a function of the row's id, v,
    and its place in the chain: a copy has the same bits whichever rows stand beside it. Images,
    texts and vectors of numbers. Raises `InputError` where the inputs are none of these, or a
    transform does not take them.
    """
    spec = dataset.check_inputs()
    n_changes = len(changes)
    room = ROOMS.get(spec.kind)
    if room is None and any(changes):
        raise InputError(
            "data",
            f"{spec} cannot be changed by a transform; images, texts and vectors of numbers can",
        )
    transform_of = {}
    for chain in changes:
        for transform_step in chain:
            transform_of[repr(transform_step)] = load(room or "", transform_step[0])(
                **transform_step[1]
            )
    numbers = [
        [list(transform_of).index(repr(transform_step)) for transform_step in chain]
        for chain in changes
    ]
    transforms = list(transform_of.values())
    rows = np.asarray(rows, dtype=np.int64)
    base = rows // dataset.n_derived
    ids = dataset.row_ids(rows)
    changers: dict[str, Any] = {"image": _images, "features": _vectors}
    change = changers.get(spec.kind, changed_texts)

    def read(virtual_rows: NDArray[np.int64]) -> NDArray[Any]:
        whose, change_number = np.divmod(virtual_rows, n_changes)
        # A row is read once, however many of its copies are asked for.
        distinct, back = np.unique(whose, return_inverse=True)
        inputs = evaluation_inputs(dataset, rows[distinct])[back]
        own_keys = hash64(ids[whose], seed_of(0, "copies"))
        for step in range(max(map(len, numbers), default=0)):
            keys, by = np.zeros_like(own_keys), np.full(len(own_keys), -1)
            for change_code in np.unique(change_number):
                if step < len(numbers[change_code]):
                    mine = change_number == change_code
                    keys[mine] = hash64(
                        own_keys[mine], seed_of(0, "copies", int(change_code), step)
                    )
                    by[mine] = numbers[change_code][step]
            # All that one transform changes at this step goes through it at once: a network's
            # batches are full.
            for number in np.unique(by[by >= 0]):
                mine = by == number
                inputs[mine] = change(transforms[number], inputs[mine], keys[mine])
        return inputs

    chains = [[[transform, dict(knobs)] for transform, knobs in chain] for chain in changes]
    rows_digest = digest_arrays({"rows": rows})
    identity = [dataset.fingerprint, rows_digest, chains]
    codes = np.repeat(dataset.table.codes[:, base], n_changes, axis=1)
    table = AttributeTable(dataset.table.attributes, codes)
    fingerprint = digest({"copies": identity})
    return dataclasses.replace(
        dataset,
        name=name,
        table=table,
        read=read,
        ids=np.arange(len(rows) * n_changes),
        units=None,
        derived=None,
        originals=None,
        contents=None,
        files=None,
        origin="",
        fingerprint=fingerprint,
    )


def _images(
    transform: Any, images: NDArray[np.uint8], keys: NDArray[np.uint64]
) -> NDArray[np.uint8]:
    import torch

    x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
    # A row looks the same whoever asks for it first, be it in the middle of a forward pass in half
    # precision.
    with torch.autocast("cpu", enabled=False):
        changed = transform(x, keys)
    return np.ascontiguousarray(changed.permute(0, 2, 3, 1).numpy())


def _vectors(
    transform: Any, vectors: NDArray[np.float32], keys: NDArray[np.uint64]
) -> NDArray[np.float32]:
    import torch

    changed: NDArray[np.float32] = transform(torch.from_numpy(vectors), keys).numpy()
    return changed

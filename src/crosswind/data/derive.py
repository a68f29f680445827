"""Attributes that a transform makes: corruptions, rotations and other changes of images or texts,
as attribute values.

A derived data set has one virtual row for every base row and value; its table stays that of the
base rows. Of several derived attributes all but the last are made rows of the table
(`materialised`). All randomness is counter-based, a function of row id, visit or value, and seed: a row
gets the same bits alone, in any batch and in any worker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.registry import load
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import KINDS_OF_INPUTS, digest
from crosswind.data.attributes import AttributeTable, DerivedAttribute
from crosswind.data.dataset import AttributedDataset
from crosswind.transforms.neighbourhood import kind_changed_by, transforms_of
from crosswind.transforms.text.changing import changed_texts

if TYPE_CHECKING:
    from torch import Tensor


def derive(dataset: AttributedDataset, derived: DerivedAttribute) -> AttributedDataset:
    """The data set whose virtual rows are its rows under every value of `derived`.

    Raises `InputError` if it already has one, and for a transform of images where the inputs are
    texts, or the other way round.
    """
    if not isinstance(derived, DerivedAttribute):
        raise InputError(
            "derived",
            f"must be a DerivedAttribute(name, values, transform, settings), not {shown(derived)}",
        )
    if dataset.derived is not None:
        problem = (
            f"data set {dataset.name!r} already has the derived attribute {dataset.derived.name!r}"
        )
        raise InputError(derived.name, problem)
    if derived.name in dataset.table.names:
        raise InputError(
            derived.name, f"data set {dataset.name!r} already has an attribute of this name"
        )
    _check_kinds(dataset, derived)
    # The order of the values counts: it gives the virtual rows their numbers.
    identity: dict[str, Any] = {
        "of": dataset.fingerprint,
        "derived": derived.describe(),
        "order": derived.values,
    }
    if dataset.input is not None and dataset.input.kind == "text":
        transforms = list(_checked(derived))
        if any(transform.whole for transform in transforms):
            identity["by"] = [transform.identity for transform in transforms]
    return dataclasses.replace(dataset, derived=derived, fingerprint=digest(identity))


def materialised(dataset: AttributedDataset) -> AttributedDataset:
    """The data set whose base rows are the virtual rows of `dataset`, so that a further attribute can
    be derived; itself where it has none.

    Its derived attribute is one of the table. The rows of one base row are one unit and show one
    picture, so they never get different roles. The noise of a row is that of evaluation, at every
    visit. Raises `InputError` for an attribute that is drawn at every visit.
    """
    derived = dataset.derived
    if derived is None:
        return dataset
    if derived.mode != "fixed":
        raise InputError("mode", "must be fixed for all but the last derived attribute", ["fixed"])
    rows = np.arange(dataset.n_rows, dtype=np.int64)
    base, values = split_rows(dataset, rows)
    table_codes = dataset.table.codes
    code_type = np.result_type(table_codes.dtype, np.min_scalar_type(dataset.n_derived))
    codes = np.concatenate([table_codes[:, base], values[None]]).astype(code_type)
    if dataset.originals is None:
        originals = dataset.ids.astype(np.uint64)
    else:
        originals = dataset.originals
    table = AttributeTable(dataset.schema, codes)
    ids = dataset.row_ids(rows)
    fingerprint = digest({"of": dataset.fingerprint, "rows": "virtual"})
    read = None if dataset.read is None else partial(evaluation_inputs, dataset)
    units = dataset.row_units(rows)
    return dataclasses.replace(
        dataset,
        table=table,
        read=read,
        ids=ids,
        units=units,
        fingerprint=fingerprint,
        derived=None,
        originals=originals[base],
        contents=None,
        files=None,
    )


def _checked(derived: DerivedAttribute) -> Iterator[Any]:
    """The transforms of texts of every value, what they need looked for. Raises `InputError` on the
    value's setting."""
    for value, value_options in zip(derived.values, derived.options, strict=True):
        for name, knobs in filter(None, value_options):
            transform = load("text-transforms", name)(**knobs)
            try:
                transform.check()
            except InputError as error:
                setting = error.field.removeprefix(f"{transform.title}.")
                field = f"{derived.name}.settings.{value}.{setting}"
                raise InputError(field, error.problem, error.choices) from None
            yield transform


def split_rows(
    dataset: AttributedDataset, rows: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Base row and value code of (virtual) rows: two int64 [n]; value 0 for all where nothing is
    derived."""
    base, values = np.divmod(np.asarray(rows, dtype=np.int64), dataset.n_derived)
    return base, values


def visit_values(
    law: NDArray[np.float64],
    ids: NDArray[np.integer[Any]],
    visit: NDArray[np.integer[Any]] | int,
    seed: int,
) -> NDArray[np.int64]:
    """The value that each row takes at a visit: int64 [n], drawn by its own probabilities.

    `law`: float64 [n, V], non-negative, each row with a positive sum (it is normalised here).
    `ids`: int64 [n] stable ids. `visit`: int64 [n] or one number for all. A value of probability 0
    is never drawn. Raises `ValueError` for a row without mass.
    """
    law = np.asarray(law, dtype=np.float64)
    total = np.cumsum(law, axis=1)
    if not (total[:, -1] > 0).all() or (law < 0).any():
        raise ValueError(
            "every row of a law of values needs non-negative probabilities with a positive sum"
        )
    total /= total[:, -1:]
    uniform = (_keys(ids, visit, seed_of(seed, "visit values")) >> np.uint64(11)).astype(
        np.float64
    ) * 2.0**-53
    # The first value whose cumulated probability lies above the draw; the last entry is 1 exactly
    # and the draw below 1.
    return np.asarray((uniform[:, None] >= total).sum(axis=1), dtype=np.int64)


def training_keys(
    ids: NDArray[np.integer[Any]], visit: NDArray[np.integer[Any]] | int, seed: int
) -> NDArray[np.uint64]:
    """The noise key of each row at a visit of training: uint64 [n], by row id, visit and seed."""
    return _keys(ids, visit, seed_of(seed, "training noise"))


def evaluation_keys(
    ids: NDArray[np.integer[Any]], values: NDArray[np.integer[Any]]
) -> NDArray[np.uint64]:
    """The noise key of each base row under a value in evaluation: uint64 [n], by row id and value,
    so that evaluation repeats."""
    return _keys(ids, values, seed_of(0, "evaluation noise"))


def render(
    dataset: AttributedDataset,
    x: Tensor,
    values: NDArray[np.integer[Any]],
    keys: NDArray[np.uint64],
) -> Tensor:
    """The images of rows under their values of the derived attribute: uint8 [n, c, h, w], on the
    device of `x`.

    `x`: uint8 [n, c, h, w] base images, never changed. `values`: int64 [n] codes. `keys`: uint64
    [n] noise keys. Where nothing is derived, or every value leaves the image untouched, the answer
    is `x` itself.
    """
    derived = dataset.derived
    codes = np.asarray(values)
    if derived is None or all(derived.settings[int(code)] is None for code in np.unique(codes)):
        return x
    from crosswind.transforms.layout import in_groups  # not at the top: it imports torch

    noise = np.asarray(keys)
    options = [option for value_options in derived.options for option in value_options]
    chosen = _chosen(derived, codes, noise)

    def change(_: int, number: int, images: Tensor, rows: NDArray[np.int64]) -> Tensor:
        option = options[number]
        if option is None:
            return images
        return load("transforms", option[0])(**option[1])(images, noise[rows])

    if (chosen == chosen[0]).all():
        return change(0, int(chosen[0]), x, np.arange(len(codes)))
    # The rows of one value stand together and come back by gathers: to write them where they belong
    # takes many times as long.
    groups = chosen[:, None]
    return in_groups(x, groups, change, none=-1)


def _chosen(
    derived: DerivedAttribute, codes: NDArray[np.integer[Any]], keys: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """The place of each row's option among those of all values: int64 [n], drawn by its key where
    its value has several."""
    n_options = np.array([len(value_options) for value_options in derived.options])
    first = (np.cumsum(n_options) - n_options)[codes]
    options_of_row = n_options[codes]
    drawn = hash64(keys, seed_of(0, "one of several settings")) % options_of_row.astype(np.uint64)
    return np.asarray(first + drawn.astype(np.int64), dtype=np.int64)


def evaluation_inputs(dataset: AttributedDataset, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """The inputs of (virtual) rows with evaluation noise, see `InputSpec`. Imports torch where a
    transform is applied."""
    base, values = split_rows(dataset, rows)
    base_inputs = dataset.inputs(base)
    derived = dataset.derived
    if derived is None or all(derived.settings[int(code)] is None for code in np.unique(values)):
        return base_inputs
    keys = evaluation_keys(dataset.ids[base], values)
    if dataset.check_inputs().kind == "text":
        return _edited(derived, base_inputs, values, keys)
    import torch

    x = torch.from_numpy(base_inputs).permute(0, 3, 1, 2)
    # A row looks the same whoever asks for it first, be it in the middle of a forward pass in half
    # precision.
    with torch.autocast("cpu", enabled=False):
        done = render(dataset, x, values, keys)
    return np.ascontiguousarray(done.permute(0, 2, 3, 1).numpy())


def _edited(
    derived: DerivedAttribute,
    texts: NDArray[Any],
    values: NDArray[np.int64],
    keys: NDArray[np.uint64],
) -> NDArray[Any]:
    out = texts.copy()
    chosen = _chosen(derived, values, keys)
    options = [option for value_options in derived.options for option in value_options]
    for number in np.unique(chosen):
        option = options[number]
        positions = np.flatnonzero(chosen == number)
        if option is not None:
            change = load("text-transforms", option[0])(**option[1])
            out[positions] = changed_texts(change, texts[positions], keys[positions])
    return out


def _check_kinds(dataset: AttributedDataset, derived: DerivedAttribute) -> None:
    spec = dataset.input
    if spec is None:
        return
    for name in derived.transforms or filter(None, [derived.transform]):
        takes = kind_changed_by(name, "derive.transform")
        if takes == "features":
            problem = (
                f"{name!r} makes neighbours of vectors, for the estimator ni; attributes are"
                " derived of images and texts"
            )
            raise InputError("derive.transform", problem)
        if takes != spec.kind:
            fitting = [] if spec.kind == "features" else transforms_of(spec.kind)
            problem = f"{name!r} changes {KINDS_OF_INPUTS[takes]}, and the inputs of {dataset.name!r} are {spec}"
            raise InputError("derive.transform", problem, fitting)
    if spec.kind == "text" and derived.mode != "fixed":
        raise InputError("derive.mode", "texts are changed once and not at every visit", ["fixed"])


def _keys(
    ids: NDArray[np.integer[Any]], step: NDArray[np.integer[Any]] | int, key: int
) -> NDArray[np.uint64]:
    # Both numbers are hashed before they meet: ids and visits are small integers, and a sum of them
    # would collide.
    row = hash64(np.asarray(ids), key)
    turn = hash64(np.asarray(step), seed_of(key, "step"))
    return hash64(row ^ turn, seed_of(key, "both"))

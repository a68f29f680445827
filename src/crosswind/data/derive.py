"""Attributes that a transform makes: corruptions, rotations and other changes of the picture, as attribute values.

A derived data set has one virtual row for every base row and value; its table stays that of the base rows. All randomness is
counter-based, a function of row id, visit or value, and seed: a row gets the same bits alone, in any batch and in any worker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, unknown
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, load
from crosswind.core.seeds import hash64, seed_of
from crosswind.core.types import digest
from crosswind.data.attributes import Attribute, spelled
from crosswind.data.dataset import AttributedDataset

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "MODES",
    "DerivedAttribute",
    "derive",
    "evaluation_images",
    "evaluation_keys",
    "render",
    "split_rows",
    "training_keys",
    "visit_values",
]

MODES = ("fixed", "per-visit")

Settings = Mapping[str, Any] | None


@dataclass(frozen=True)
class DerivedAttribute:
    """An attribute whose values are made by a transform of the image.

    `values`: names of the values. `transform`: a registered transform. `settings`: one entry a value in the order of `values`
    (or a mapping from value to entry): the transform's knobs, or None where the image stays untouched. `mode`: `fixed`, the
    value of a training row is drawn once; `per-visit`, it is drawn again each time that the row is seen.
    Raises `InputError` for an unknown transform, knob or mode, and for values without settings.
    """

    name: str
    values: tuple[str, ...]
    transform: str
    settings: tuple[Settings, ...]
    mode: str = "fixed"

    def __post_init__(self) -> None:
        names = Attribute(self.name, self.values).values
        object.__setattr__(self, "values", names)
        if self.mode not in MODES:
            raise unknown(f"{self.name}.mode", "mode", self.mode, MODES)
        given: Any = self.settings
        if isinstance(given, Mapping):
            by_name = {spelled(value): entry for value, entry in given.items()}
            for value in by_name:
                if value not in names:
                    raise unknown(f"{self.name}.settings", "value", value, names)
            missing = [value for value in names if value not in by_name]
            if missing:
                raise InputError(f"{self.name}.settings", f"value {missing[0]!r} has no settings (null leaves the image untouched)")
            given = [by_name[value] for value in names]
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(names):
            raise InputError(f"{self.name}.settings", f"needs one entry for each of {len(names)} values, not {given!r}")
        known = facts("transforms", self.transform, f"{self.name}.transform")
        checked: list[Settings] = []
        for value, entry in zip(names, given, strict=True):
            if entry is not None and not isinstance(entry, Mapping):
                raise InputError(f"{self.name}.settings.{value}", f"must be settings of {self.transform} or null, not {entry!r}")
            path = f"{self.name}.settings.{value}"
            checked.append(None if entry is None else resolve(known.knobs, entry, path, f"transform {self.transform!r}"))
        object.__setattr__(self, "settings", tuple(checked))

    @cached_property
    def attribute(self) -> Attribute:
        """The attribute as any other."""
        return Attribute(self.name, self.values)

    def keep(self, codes: Sequence[int]) -> DerivedAttribute:
        """The derived attribute with only some of its values, in the order of `codes`."""
        return dataclasses.replace(
            self,
            values=tuple(self.values[code] for code in codes),
            settings=tuple(self.settings[code] for code in codes),
        )

    def describe(self) -> dict[str, Any]:
        """The derived attribute as plain values for JSON."""
        return {
            "name": self.name,
            "transform": self.transform,
            "version": facts("transforms", self.transform).version,
            "values": {
                value: None if entry is None else dict(entry) for value, entry in zip(self.values, self.settings, strict=True)
            },
            "mode": self.mode,
        }


def derive(dataset: AttributedDataset, derived: DerivedAttribute) -> AttributedDataset:
    """The data set whose virtual rows are its rows under every value of `derived`; `InputError` if it already has one."""
    if dataset.derived is not None:
        raise InputError(derived.name, f"data set {dataset.name!r} already has the derived attribute {dataset.derived.name!r}")
    if derived.name in dataset.table.names:
        raise InputError(derived.name, f"data set {dataset.name!r} already has an attribute of this name")
    # The order of the values counts: it gives the virtual rows their numbers.
    told = {"of": dataset.fingerprint, "derived": derived.describe(), "order": derived.values}
    return dataclasses.replace(dataset, derived=derived, fingerprint=digest(told))


def split_rows(dataset: AttributedDataset, rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Base row and value code of (virtual) rows: two int64 [n]; value 0 for all where nothing is derived."""
    base, values = np.divmod(np.asarray(rows, dtype=np.int64), dataset.n_derived)
    return base, values


def visit_values(
    law: NDArray[np.float64], ids: NDArray[np.integer[Any]], visit: NDArray[np.integer[Any]] | int, seed: int
) -> NDArray[np.int64]:
    """The value that each row takes at a visit: int64 [n], drawn by its own probabilities.

    `law`: float64 [n, V], non-negative, each row with a positive sum (it is normalised here). `ids`: int64 [n] stable ids.
    `visit`: int64 [n] or one number for all. A value of probability 0 is never drawn. Raises `ValueError` for a row without mass.
    """
    law = np.asarray(law, dtype=np.float64)
    total = np.cumsum(law, axis=1)
    if not (total[:, -1] > 0).all() or (law < 0).any():
        raise ValueError("every row of a law of values needs non-negative probabilities with a positive sum")
    total /= total[:, -1:]
    uniform = (_keys(ids, visit, seed_of(seed, "visit values")) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    # The first value whose cumulated probability lies above the draw; the last entry is 1 exactly and the draw below 1.
    return np.asarray((uniform[:, None] >= total).sum(axis=1), dtype=np.int64)


def training_keys(ids: NDArray[np.integer[Any]], visit: NDArray[np.integer[Any]] | int, seed: int) -> NDArray[np.uint64]:
    """The noise key of each row at a visit of training: uint64 [n], by row id, visit and seed."""
    return _keys(ids, visit, seed_of(seed, "training noise"))


def evaluation_keys(ids: NDArray[np.integer[Any]], values: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """The noise key of each base row under a value in evaluation: uint64 [n], by row id and value, so that evaluation repeats."""
    return _keys(ids, values, seed_of(0, "evaluation noise"))


def render(dataset: AttributedDataset, x: Tensor, values: NDArray[np.integer[Any]], keys: NDArray[np.uint64]) -> Tensor:
    """The images of rows under their values of the derived attribute: uint8 [n, c, h, w], on the device of `x`.

    `x`: uint8 [n, c, h, w] base images, never changed. `values`: int64 [n] codes. `keys`: uint64 [n] noise keys. Where nothing is
    derived, or every value leaves the image untouched, the answer is `x` itself.
    """
    derived = dataset.derived
    codes = np.asarray(values)
    if derived is None or all(derived.settings[int(code)] is None for code in np.unique(codes)):
        return x
    from crosswind.transforms.layout import in_groups  # not at the top: it imports torch

    settings, noise = derived.settings, np.asarray(keys)

    def change(_: int, code: int, images: Tensor, rows: NDArray[np.int64]) -> Tensor:
        chosen = settings[code]
        return images if chosen is None else load("transforms", derived.transform)(**chosen)(images, noise[rows])

    if (codes == codes[0]).all():
        return change(0, int(codes[0]), x, np.arange(len(codes)))
    # The rows of one value stand together and come back by gathers: to write them where they belong takes many times as long.
    return in_groups(x, codes.astype(np.int64)[:, None], change, none=-1)


def evaluation_images(dataset: AttributedDataset, rows: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
    """The images of (virtual) rows with evaluation noise: uint8 [n, h, w, c]. Imports torch where a transform is applied."""
    base, values = split_rows(dataset, rows)
    pixels = dataset.pixels(base)
    if dataset.derived is None or all(dataset.derived.settings[int(code)] is None for code in np.unique(values)):
        return pixels
    import torch

    x = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    # A row looks the same whoever asks for it first, be it in the middle of a forward pass in half precision.
    with torch.autocast("cpu", enabled=False):
        done = render(dataset, x, values, evaluation_keys(dataset.ids[base], values))
    return np.ascontiguousarray(done.permute(0, 2, 3, 1).numpy())


def _keys(ids: NDArray[np.integer[Any]], step: NDArray[np.integer[Any]] | int, key: int) -> NDArray[np.uint64]:
    # Both numbers are hashed before they meet: ids and visits are small integers, and a sum of them would collide.
    row = hash64(np.asarray(ids), key)
    turn = hash64(np.asarray(step), seed_of(key, "step"))
    return hash64(row ^ turn, seed_of(key, "both"))

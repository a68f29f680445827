"""Label noise: a condition on training rows, fixed by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown, unknown
from crosswind.core.seeds import hash64, seed_of
from crosswind.shifts.base import exact, plain_number

_KINDS = ("uniform", "flip", "matrix")


@final
@dataclass(frozen=True)
class LabelNoise:
    """The labels of a share of the training rows are drawn anew.

    `rate` in [0, 1]: exactly round(rate x n) of n rows are chosen, those of the lowest hash of row
    id and run seed. So the rows of a lower rate are among those of a higher one. `kind`: "uniform",
    a draw over all classes, the true one too; "flip", over the others; "matrix", over row y of
    `matrix` [classes, classes] for a row of class y. Validation rows keep their labels unless
    `validation`. Raises `InputError` on `label_noise`.
    """

    rate: float | str
    kind: str = "uniform"
    matrix: tuple[tuple[float, ...], ...] | None = None
    validation: bool = False

    def __post_init__(self) -> None:
        exact(self.rate, "label_noise.rate", 0, 1)
        object.__setattr__(self, "rate", plain_number(self.rate))
        if self.kind not in _KINDS:
            raise unknown("label_noise.kind", "kind of label noise", self.kind, _KINDS)
        if not isinstance(self.validation, bool):
            raise InputError(
                "label_noise.validation", f"must be true or false, not {shown(self.validation)}"
            )
        if (self.kind == "matrix") != (self.matrix is not None):
            raise InputError(
                "label_noise.matrix", 'a matrix goes with kind "matrix", and only with it'
            )
        if self.matrix is None:
            return
        try:
            table = np.asarray(self.matrix, dtype=np.float64)
        except (TypeError, ValueError):
            table = np.empty(0)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or not (table >= 0).all():
            raise InputError(
                "label_noise.matrix",
                "must be a square table of numbers of at least 0, one row a class",
            )
        sums_to_one = np.isclose(table.sum(axis=1), 1, rtol=0, atol=1e-9)
        if not sums_to_one.all():
            wrong = int(np.argmin(sums_to_one))
            problem = f"row {wrong} sums to {table[wrong].sum():.12g}, not to 1"
            raise InputError("label_noise.matrix", problem)
        object.__setattr__(self, "matrix", tuple(map(tuple, table.tolist())))

    def apply(
        self,
        labels: NDArray[np.int64],
        ids: NDArray[np.int64],
        n_classes: int,
        seed: int,
        field: str,
    ) -> NDArray[np.int64]:
        """The labels after noise: int64 [n], from the true labels int64 [n] and the row ids int64
        [n]."""
        out = labels.copy()
        number = self.number(len(labels))
        if number == 0:
            return out
        self.check(n_classes, field)
        order = np.argsort(hash64(ids, seed_of(seed, "label noise rows")), kind="stable")
        chosen = order[:number]
        uniform = (
            hash64(ids[chosen], seed_of(seed, "label noise values")) >> np.uint64(11)
        ) * 2.0**-53
        if self.kind == "uniform":
            out[chosen] = (uniform * n_classes).astype(np.int64)
        elif self.kind == "flip":
            away = 1 + (uniform * (n_classes - 1)).astype(np.int64)
            out[chosen] = (labels[chosen] + away) % n_classes
        else:
            table = np.asarray(self.matrix)
            bounds = np.cumsum(table, axis=1)[labels[chosen]]
            # The last positive entry takes what rounding leaves of the sum, so that no class of
            # probability 0 is drawn.
            last = n_classes - 1 - np.argmax(table[:, ::-1] > 0, axis=1)[labels[chosen]]
            out[chosen] = np.minimum((uniform[:, None] >= bounds).sum(axis=1), last)
        return out

    def check(self, n_classes: int, field: str = "label_noise") -> None:
        """Refuse noise that does not fit this number of classes."""
        if self.kind == "flip" and n_classes < 2:
            raise InputError(f"{field}.kind", "a single class has no other to flip to", ["uniform"])
        if self.matrix is not None and len(self.matrix) != n_classes:
            n = len(self.matrix)
            problem = (
                f"must have {n_classes} rows of {n_classes} numbers, one for each class, not {n}"
                f" of {n}"
            )
            raise InputError(f"{field}.matrix", problem)

    def number(self, n: int) -> int:
        """How many of n rows are chosen."""
        return round(exact(self.rate, "rate", 0, 1) * n)


def parse_noise(spec: Any, field: str = "label_noise") -> LabelNoise | None:
    """The noise that plain values name: a rate or {"rate", "kind", "matrix", "validation"}; null is
    none. Raises `InputError`."""
    if spec is None or isinstance(spec, LabelNoise):
        return spec
    if isinstance(spec, Mapping):
        values = dict(spec)
    else:
        values = {"rate": spec}
    for name in values:
        if name not in ("rate", "kind", "matrix", "validation"):
            choices = ["rate", "kind", "matrix", "validation"]
            raise unknown(f"{field}.{name}", "setting of label noise", name, choices)
    if values.get("matrix") is not None:
        values = {"kind": "matrix", "rate": 1} | values
    if "rate" not in values:
        raise InputError(f"{field}.rate", "label noise needs its rate, a number in [0, 1]")
    rate = values["rate"]
    exact(rate, f"{field}.rate" if isinstance(spec, Mapping) else field, 0, 1)
    return LabelNoise(**(values | {"rate": float(rate) if isinstance(rate, int) else rate}))

"""What a set's law is where it is named by its relation to training, and which classes of another source are ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.data.attributes import Attribute
from crosswind.shifts.base import NormalForm
from crosswind.shifts.draw import Draw
from crosswind.shifts.split.allot import Allotment
from crosswind.shifts.split.deal import Pool
from crosswind.shifts.split.rows import Drawn

__all__ = ["class_map", "followed", "left_out", "visit_law"]


def followed(training: Allotment, form: NormalForm, pool: Pool, draw: Draw, exactly: bool) -> tuple[NormalForm, bool]:
    """The form of a set of law "train", and whether it differs from the weights of training alone.

    A number of rows in all is shared out as training's rows are (`Allotment.law`). Draws by the cell, and data sets that have other
    cells than training (not `exactly`), take the weights, and each supplement in its share of the rows that training draws by
    weights. `form`: the training shift on the cells of `pool`.
    """
    drawn = training.counts.sum(axis=1)
    if draw.mode == "total" and exactly:
        there = np.repeat(pool.sizes, pool.cells.size // pool.sizes.size).reshape(form.shape) > 0
        law = training.law
        weights = form.weights * (there | (law > 0))  # a cell that has no rows here or there changes nothing
        if np.allclose(law * weights.sum(), weights * law.sum(), rtol=1e-9, atol=0):
            return form.without_supplements(), False
        return NormalForm(form.shape, (training.law,)), True
    if not form.supplements:
        return form, False
    shares = (Fraction(int(rows), int(drawn[0])) if drawn[0] else None for rows in drawn[1:])
    supplements = (
        replace(item, count=int(rows) if share is None else None, share=share)
        for item, rows, share in zip(form.supplements, drawn[1:], shares, strict=True)
    )
    return NormalForm(form.shape, form.factors, tuple(supplements)), True


def left_out(form: NormalForm, field: str) -> NormalForm:
    """Weight 1 on the cells from which neither the weights of a shift nor its supplements draw."""
    drawn = form.support
    for item in form.supplements:
        drawn = drawn | item.region
    if drawn.all():
        raise InputError(field, "finds no unseen cell: training draws from all of them")
    return NormalForm(form.shape, ((~drawn).astype(np.float64),))


def class_map(theirs: Attribute, ours: Attribute, labels: Mapping[str, Any] | None, field: str) -> NDArray[np.int64]:
    """Our class of each class of a source, -1 for those left out."""
    if labels is None and theirs.values == ours.values:
        return np.arange(len(ours.values))
    given = {theirs.code_of(name, field): wanted for name, wanted in (labels or {}).items()}
    out = np.empty(len(theirs.values), dtype=np.int64)
    for code, name in enumerate(theirs.values):
        if code in given:
            wanted = given[code]
            out[code] = -1 if wanted is None else ours.code_of(wanted, f"{field}.{name}")
        elif name in ours.values:
            out[code] = ours.values.index(name)
        else:
            raise InputError(
                field, f"says nothing of class {name!r}, which is not one of ours; map it to one or to null", ours.values
            )
    return out


def visit_law(form: NormalForm, drawn: Drawn, values: int) -> NDArray[np.float64]:
    """The probability of each value of the derived attribute at a visit of each row, float64 [n, values]."""
    laws = [form.weights, *(item.region.astype(np.float64) for item in form.supplements)]
    table = np.stack([law.reshape(-1, values) for law in laws])
    law = table[drawn.origin, drawn.cell]
    return law / law.sum(axis=1, keepdims=True)

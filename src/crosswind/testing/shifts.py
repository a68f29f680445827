"""The checks of shifts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knobs_of
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import Cells, NormalForm, Shift, parse_shift
from crosswind.testing.checks import Check, declaration_checks, require, require_values, run_checks

__all__ = ["CELLS", "check_shift", "shift_checks"]

CELLS = Cells(
    Attribute("shape", ("square", "ellipse", "heart")),
    (
        Attribute("tint", ("red", "green", "blue", "grey")),
        Attribute("size", ("small", "large")),
    ),
)
"""Where nothing else is said: three classes, and attributes of four and of two values."""
ROWS_OF_CELL = 12
"""Rows of every cell in the data set that rows are drawn from."""
_NOWHERE = "no-such-attribute"


def shift_checks(
    cls: type[Shift], *, knobs: Mapping[str, Any] | None = None, cells: Cells = CELLS
) -> list[Check]:
    """The checks of a shift, each to be called, as by `pytest.mark.parametrize`.

    `knobs`: the settings that it cannot do without; a knob `attribute` without a default is the
    first attribute of the cells, here "tint". `cells`: the classes and attributes that it is tried
    on, 12 rows each; default: `CELLS`.
    """
    subject = _ShiftUnderTest(cls, dict(knobs or {}), cells)
    looks: dict[str, Callable[[], None]] = {
        "gives-weights-on-the-cells": subject.gives_weights,
        "names-its-attributes": subject.names_attributes,
        "weighs-by-class-and-its-attributes-alone": subject.weighs_by_its_attributes,
        "changes-the-weights": subject.changes_weights,
        "finds-attributes-by-name": subject.finds_by_name,
        "an-unknown-attribute-is-refused": subject.unknown_attribute_is_refused,
        "a-wrong-setting-is-refused": subject.wrong_setting_is_refused,
        "is-read-back-from-its-description": subject.is_read_back,
        "the-same-again": subject.repeats,
        "rows-are-drawn-where-it-allows": subject.rows_are_drawn,
    }
    return [
        *declaration_checks(cls, ("shift",), Shift),
        *(Check(name, subject.name, look) for name, look in looks.items()),
    ]


def check_shift(cls: type[Shift], *, skip: Mapping[str, str] | None = None, **options: Any) -> None:
    """Check that a shift holds the contract of `crosswind.shifts.base`; under a second.

    `skip`: check -> why it cannot hold. `options`: those of `shift_checks`. Raises `CheckFailed`
    with a line for each check that does not hold.
    """
    run_checks(shift_checks(cls, **options), skip)


@dataclass(frozen=True)
class _ShiftUnderTest:
    cls: type[Shift]
    knobs: dict[str, Any]
    cells: Cells

    @property
    def name(self) -> str:
        return getattr(self.cls, "__name__", str(self.cls))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The knobs, with the attribute that a shift must be told."""
        settings = dict(self.knobs)
        for knob in knobs_of(self.cls):
            if knob.required and knob.name == "attribute":
                settings.setdefault("attribute", self.cells.attributes[0].name)
        require_values(self.cls, settings)
        return settings

    def built(self, **changes: Any) -> Shift:
        """As studies make it: settings are checked by their declarations."""
        name = str(getattr(self.cls, "registered_name", ""))
        return parse_shift({"type": name, **self.settings, **changes}, "shift")

    @cached_property
    def dataset(self) -> AttributedDataset:
        """Rows of all cells alike, in C order; the input of a row is its number."""
        codes = np.indices(self.cells.shape).reshape(len(self.cells.shape), -1)
        codes = np.repeat(codes, ROWS_OF_CELL, axis=1).astype(np.uint8)
        return AttributedDataset(
            "cells",
            AttributeTable(self.cells.axes, codes),
            lambda rows: rows[:, None].astype(np.float32),
            InputSpec.features(1),
        )

    def form(self, cells: Cells | None = None) -> NormalForm:
        cells = self.cells if cells is None else cells
        form = self.built().observed(self.dataset, self.cells.label.name).normal_form(cells)
        require(
            isinstance(form, NormalForm),
            f"its normal_form gives {type(form).__name__}",
            "give a crosswind.shifts.base.NormalForm",
        )
        return form

    # -- the checks --------------------------------------------------------------------------------

    def gives_weights(self) -> None:
        form = self.form()
        require(
            form.shape == self.cells.shape,
            f"its normal form is over cells {form.shape}, not {self.cells.shape}",
            "give cells.shape to NormalForm",
        )
        for factor in form.factors:
            require(
                _broadcasts(factor, self.cells.shape),
                f"a factor of its weights has the shape {factor.shape}, for cells"
                f" {self.cells.shape}",
                "put it on its axis by cells.along([axis], values)",
            )
        weights = form.weights
        require(
            np.isfinite(weights).all() and (weights >= 0).all(),
            f"its weights reach from {weights.min():.3g} to {weights.max():.3g}",
            "give finite weights of at least 0",
        )
        require(
            (weights > 0).any() or form.supplements,
            "it leaves no cell to draw from",
            "refuse such settings in an InputError",
        )

    def names_attributes(self) -> None:
        names = self.built().attributes()
        require(
            isinstance(names, tuple) and all(isinstance(name, str) for name in names),
            f"its attributes() gives {names!r}",
            "give a tuple of names, also of a single one",
        )
        unknown = [name for name in names if name not in self.cells.names]
        require(
            not unknown,
            f"its attributes() names {unknown[:1]}, which the cells do not have",
            "give what the knobs say, as (self.attribute,)",
        )

    def weighs_by_its_attributes(self) -> None:
        form = self.form()
        named = {self.cells.label.name, *self.built().attributes()}
        regions = [supplement.region for supplement in form.supplements]
        for axis, attribute in enumerate(self.cells.axes):
            if attribute.name in named:
                continue
            require(
                all(
                    (array == np.take(array, [0], axis)).all() for array in [form.weights, *regions]
                ),
                f"its weights change with {attribute.name!r}, which attributes() does not name",
                "name it there: reports and audits say what a study shifts by it",
            )

    def changes_weights(self) -> None:
        form = self.form()
        require(
            form.supplements or (form.weights != form.weights.flat[0]).any(),
            "it gives every cell the same weight at these settings",
            "compute the weights from its knobs, or name settings for the checks: knobs={...}",
        )

    def finds_by_name(self) -> None:
        turned = Cells(self.cells.label, self.cells.attributes[::-1])
        axes = [0, *range(len(self.cells.shape) - 1, 0, -1)]
        require(
            np.allclose(
                self.form().weights, self.form(turned).weights.transpose(axes), rtol=1e-12, atol=0
            ),
            "its weights change when the study names its attributes in another order",
            'ask for the axis: cells.axis(self.attribute, f"{field}.attribute")',
        )

    def unknown_attribute_is_refused(self) -> None:
        for name in ("attribute", "environment"):
            if name not in {knob.name for knob in knobs_of(self.cls)}:
                continue
            try:
                self.built(**{name: _NOWHERE}).normal_form(self.cells, "train.shift")
            except InputError as error:
                require(
                    error.field.startswith("train.shift"),
                    f"it refuses an unknown attribute on the field {error.field!r}",
                    "begin the field with that which normal_form is handed",
                )
                continue
            require(
                False,
                f"it takes {name}={_NOWHERE!r}",
                'ask for the axis: cells.axis(self.attribute, f"{field}.attribute")',
            )

    def wrong_setting_is_refused(self) -> None:
        for knob in knobs_of(self.cls):
            if not knob.domain:
                continue
            try:
                self.built(**{knob.name: "no such setting"}).normal_form(self.cells)
            except InputError:
                continue
            require(
                False,
                f"it takes {knob.name}='no such setting'",
                "declare its type and domain in knob(...)",
            )

    def is_read_back(self) -> None:
        shift = self.built()
        try:
            again = parse_shift(json.loads(json.dumps(shift.describe())))
        except (TypeError, ValueError, InputError) as error:
            require(
                False,
                f"its description cannot be read back: {error}",
                "keep plain values in its knobs: numbers, text, lists and maps of these",
            )
        require(
            again.describe() == shift.describe()
            and again.observed(self.dataset, self.cells.label.name).normal_form(self.cells)
            == self.form(),
            "what is read back from its description is another shift",
            "keep all that decides its weights in knobs",
        )

    def repeats(self) -> None:
        shift = self.built().observed(self.dataset, self.cells.label.name)
        first = shift.normal_form(self.cells)
        weights = first.weights.copy()
        require(
            first == shift.normal_form(self.cells) and np.array_equal(weights, self.form().weights),
            "it gives other weights the second time",
            "draw nothing, or by a seed that is a knob",
        )

    def rows_are_drawn(self) -> None:
        """The training rows that a study would get, twice."""
        from crosswind.api import split

        names = [attribute.name for attribute in self.cells.attributes]
        label = self.cells.label.name
        first, second = (
            split(self.dataset, label, names, self.built(), test=2, validation=2) for _ in range(2)
        )
        require(
            np.array_equal(first.train.rows, second.train.rows),
            "one seed draws other training rows the second time",
            "draw nothing in normal_form",
        )
        form = self.form()
        allowed = form.support.copy()
        for supplement in form.supplements:
            allowed |= supplement.region
        drawn: NDArray[np.int64] = first.train.rows // ROWS_OF_CELL
        outside = [cell for cell in drawn.tolist() if not allowed.flat[cell]]
        require(
            not outside,
            f"a training row is drawn from {self.cells.name_of(outside[0]) if outside else ''},"
            " where its weight is 0",
            "leave the drawing to crosswind.shifts.split",
        )


def _broadcasts(factor: NDArray[np.float64], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(factor.shape, shape) == shape
    except ValueError:
        return False

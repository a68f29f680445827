"""Rows of the draws of a study: counts of one draw, and the sizes `equal` and `balanced`, which are
those of the smallest draw under every shift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from crosswind.core.errors import InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.base import NormalForm
from crosswind.shifts.split import SplitCounts, plan_counts
from crosswind.studies.axes import (
    StudyPoint,
)
from crosswind.studies.build import (
    build_split_plan,
    split_values,
)
from crosswind.studies.observed_ties import match_observed
from crosswind.studies.spec import Study
from crosswind.studies.split_counts import DrawCounts

DRAWS = ("equal", "balanced", "all")
"""Values of a size: as many rows under every shift, as many of each cell, or all."""


def sources_of(split: Mapping[str, Any], point: StudyPoint) -> list[str]:
    """The data sets of a point: its own, then those that sets read."""
    return [
        point.data,
        *sorted(
            {set_values["source"] for set_values in split["sets"].values()} - {None, point.data}
        ),
    ]


def counted_draw(
    study: Study, point: StudyPoint, split_seed: int, datasets: Mapping[str, AttributedDataset]
) -> tuple[dict[str, Any], DrawCounts]:
    """The split of a point as plain values, and its counts; errors name fields as the study file
    does."""
    split, fields = split_values(study, point, split_seed)
    with errors_at(fields, point):
        match_observed(split, datasets[point.data])
        return split, DrawCounts(
            plan_counts(
                {name: datasets[name] for name in sources_of(split, point)},
                point.data,
                build_split_plan(split),
            )
        )


def equal_rows(study: Study, point: StudyPoint, datasets: Mapping[str, AttributedDataset]) -> int:
    """The most training rows that every shift and split seed leaves in a data set, so that sizes do
    not differ between them."""

    def counts_of(case: tuple[str, int], draw: Any) -> DrawCounts:
        shift, split_seed = case
        under = replace(point, shift=shift, draw=draw, rows=None)
        return counted_draw(study, under, split_seed, datasets)[1]

    cases = list(product(study.shifts, study.split_seed_list))
    counts = [counts_of(case, "all") for case in cases]
    most_rows = int(min([each.train_rows for each in counts]))
    # Rows on top that are a share of the others, and too few of them there: fewer others need fewer.
    lacking = [case for case, each in zip(cases, counts, strict=True) if each.lacks_share]

    def is_met(total: int) -> bool:
        return all(counts_of(case, {"total": total}).train_rows == total for case in lacking)

    low, high = 0, most_rows + 1
    middle = most_rows
    while high - low > 1:
        if is_met(middle):
            low = middle
        else:
            high = middle
        middle = (low + high) // 2
    return low or most_rows


def draw_that_gives(
    study: Study,
    point: StudyPoint,
    split_seed: int,
    datasets: Mapping[str, AttributedDataset],
    rows: int,
) -> Any:
    """The draw by which a point has `rows` training rows. Where rows on top are lacking, such as
    counterexamples that the data do not have, more are asked for, and the others make up for
    them; as many as there are where even all of them are fewer."""

    def rows_of(total: int) -> int:
        under = replace(point, draw={"total": total}, rows=None)
        try:
            return counted_draw(study, under, split_seed, datasets)[1].train_rows
        except InputError:  # more rows than the law leaves
            return rows + 1

    low, high = rows, 2 * rows
    while (drawn := rows_of(high)) < rows:
        low, high = high, 2 * high
    if drawn == rows:
        return {"total": high}
    while high - low > 1:
        middle = (low + high) // 2
        if rows_of(middle) <= rows:
            low = middle
        else:
            high = middle
    return {"total": low}


def balanced_rows(
    study: Study, point: StudyPoint, datasets: Mapping[str, AttributedDataset]
) -> int:
    """The most training rows of which no cell is short under any shift and split seed, so that each
    training set has the proportions that its shift asks for."""
    full = replace(point, draw="all", rows=None)
    row_counts = []
    for split_seed in study.split_seed_list:
        split, fields = split_values(study, full, split_seed)
        every_cell = {**split, "shift": []}
        with errors_at(fields, full):
            sources = {name: datasets[name] for name in sources_of(split, full)}
            available = plan_counts(sources, full.data, build_split_plan(every_cell))
        for shift in study.shifts:
            under = replace(full, shift=shift)
            split, fields = split_values(study, under, split_seed)
            with errors_at(fields, under):
                match_observed(split, datasets[point.data])
                law = build_split_plan(split).shift.normal_form(available.study_cells)
                row_counts.append(_rows_in_proportion(law, available, under))
    return min(row_counts)


def _rows_in_proportion(law: NormalForm, available: SplitCounts, point: StudyPoint) -> int:
    """The most rows that a law draws, its supplements among them, without asking a cell for more
    training rows than it has."""
    weights, sizes = law.weights, available.train_counts
    if weights.shape != sizes.shape:
        problem = "is for attributes of the table, and a value is drawn here at every visit"
        raise InputError(point.fields["draw"], f"balanced {problem}; say equal", DRAWS)
    drawn = weights > 0
    cell_rows = sizes[drawn] * weights.sum() / weights[drawn]
    scarcest = int(np.flatnonzero(drawn)[int(cell_rows.argmin())])
    by_weights = int(np.floor(cell_rows.min() + 1e-9))
    if by_weights < 1:
        cell = available.study_cells.name_of(scarcest)
        problem = f"leaves no row under {point.shift}: no row of {cell} is left for training"
        raise InputError(point.fields["draw"], f"balanced {problem}", DRAWS)
    return by_weights + sum(supplement.asked(by_weights) for supplement in law.supplements)


@contextmanager
def errors_at(fields: Mapping[str, str], point: StudyPoint) -> Iterator[None]:
    """Name fields as the study file does, and say which of the study's points an error is about."""
    try:
        yield
    except InputError as error:
        words = error.field.split(".")
        heads = (".".join(words[:end]) for end in range(len(words), 0, -1))
        head = next((head for head in heads if head in fields), "")
        named_field = fields[head] + error.field[len(head) :] if head else error.field
        # One set serves all shifts, and may be empty under one of them.
        of_point = (
            head in ("draw", "dataset_size")
            or not head
            and words[0] == "sets"
            and words[-1] == "law"
        )
        raise InputError(
            named_field, error.problem + (f" ({point.title})" if of_point else ""), error.choices
        ) from None

"""The cells of two tables are read as `crosswind init` reads them: decimal commas, NA, signs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from crosswind.shifts.audit.tables import Tables, read_tables

N = 100


def tables(train: Sequence[Any], target: Sequence[Any], name: str = "c", **options: Any) -> Tables:
    """The audit's reading of a column of N rows on each side, beside one that is always there."""
    label = ["a", "b"] * (N // 2)
    keep = [0, 1, 1, 0] * (N // 4)
    return read_tables(
        {"y": label, "keep": keep, name: list(train)},
        {"y": label, "keep": keep, name: list(target)},
        "y",
        **options,
    )


def ages(seed: int) -> list[str]:
    """Numbers with one decimal, most of them different."""
    return [f"{age:.1f}" for age in np.random.default_rng(seed).normal(55, 12, N)]


def german(texts: Sequence[str]) -> list[str]:
    return [text.replace(".", ",") for text in texts]


def codes(read: Tables) -> tuple[list[int], list[int]]:
    column = read.columns[-1]
    return column.train.tolist(), column.target.tolist()


@pytest.mark.parametrize("sides", ["both", "target", "few values"])
def test_decimal_commas_are_numbers(sides: str) -> None:
    """The codes are those of the same numbers with points, whichever table has the commas."""
    train, target = ages(0), ages(1)
    if sides == "few values":
        train, target = ["36.5", "37.0"] * (N // 2), ["37.0", "38.5"] * (N // 2)
    plain = tables(train, target)
    commas = tables(german(train) if sides == "both" else train, german(target))
    assert commas.columns[-1].name == "c"
    assert commas.columns[-1].values == plain.columns[-1].values
    assert codes(commas) == codes(plain)


@pytest.mark.parametrize("word", ["n/a", "NA", "?", "-", "."])
@pytest.mark.parametrize("with_commas", [False, True])
def test_what_stands_for_no_number_is_missing(word: str, with_commas: bool) -> None:
    written: Callable[[Sequence[str]], list[str]] = german if with_commas else list
    target = ages(1)
    read = tables(written(ages(0)), [*written(target[:-1]), word])
    empty = tables(ages(0), [*target[:-1], ""])
    assert read.columns[-1].values == empty.columns[-1].values
    assert codes(read) == codes(empty)
    assert f"c: {word!r} counts as no value among numbers" in read.notes
    as_names = tables(["1", word] * (N // 2), ["2", word] * (N // 2), names=["c"])
    assert as_names.columns[-1].values == tuple(sorted(["1", "2", word]))


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        (
            lambda texts: [*texts[:17], "4o.2", *texts[18:]],
            "in the target table a number in 99 of 100 rows, but row 18 has '4o.2': write numbers"
            " alone, and leave cells without one empty",
        ),
        (
            lambda texts: [f"{text}%" for text in texts],
            "in the target table numbers with signs or units: write the numbers alone (row 1 has"
            " '59.1%')",
        ),
        (
            lambda texts: [f"1,{row + 100}.50" for row in range(N)],
            "in the target table numbers with signs or units: write the numbers alone (row 1 has"
            " '1,100.50')",
        ),
        (
            lambda texts: [f"1,{row + 100}" for row in range(N)],
            "in the target table numbers whose commas may mark decimals or thousands: write 1.5 or"
            " 1500 (row 1 has '1,100')",
        ),
        (
            lambda texts: [f"{1 + row % 28}.{1 + row // 28}.2024" for row in range(N)],
            "in the target table dates, which are not read as numbers (row 1 has '1.1.2024')",
        ),
    ],
)
def test_numbers_that_are_not_read_are_no_identifiers(
    spoiled: Callable[[list[str]], list[str]], reason: str
) -> None:
    assert dict(tables(ages(0), spoiled(ages(1))).skipped) == {"c": reason}


def test_repeated_fractions_with_a_slip_are_not_taken_for_names() -> None:
    """Few enough values for a column of names, but nobody has names such as 4.3 and 4,3."""
    numbers = [f"{row / 10:.1f}" for row in range(30)]
    train = (numbers * 4)[:N]
    read = tables(train, [*train[:-1], "<0.1"])
    assert dict(read.skipped)["c"].endswith(
        "but row 100 has '<0.1': write numbers alone, and leave cells without one empty"
    )
    disease_codes = [*numbers, *(f"V{row}" for row in range(10))] * 4
    assert len(tables(disease_codes[:N], disease_codes[:N]).columns[-1].values) == 40


def test_whole_numbers_are_identifiers_only_where_they_number_the_rows() -> None:
    generator = np.random.default_rng(0)
    incomes = generator.choice(100_000, 2 * N, replace=False)
    read = tables(incomes[:N], incomes[N:], name="income")
    assert len(read.columns[-1].values) == 10
    shuffled = generator.permutation(2 * N)
    for name, train, target in (
        ("case_id", incomes[:N], incomes[N:]),
        ("nr", shuffled[:N], shuffled[N:]),
        ("nr", np.sort(incomes[:N]), np.sort(incomes[N:])),
    ):
        skipped = dict(tables(train, target, name=name).skipped)
        assert skipped == {name: "an identifier: 200 different values in 200 rows"}


def test_an_underscore_is_no_part_of_a_number() -> None:
    """Python reads 1_2 as 12."""
    read = tables(["1_2", "3"] * (N // 2), ["12", "3"] * (N // 2))
    assert set(read.columns[-1].values) == {"1_2", "12", "3"}

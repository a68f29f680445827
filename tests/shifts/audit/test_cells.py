"""The cells of two tables are read as `crosswind init` reads them: decimal commas, NA, signs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from crosswind.core.errors import InputError
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
            lambda texts: [f"1,{row + 100}" for row in range(N)],
            "in the target table '1,100' may be 1100 or 1.100, and nothing in the table says which:"
            " write the column's numbers without the commas, or with points for them",
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


def thousands(step: int) -> list[int]:
    """Whole numbers of four digits, in no order."""
    return [1000 + step * (row * 37 % N) for row in range(N)]


@pytest.mark.parametrize("sign", [",", "."])
@pytest.mark.parametrize("sides", ["both", "target"])
def test_signs_between_thousands_are_no_part_of_the_number(sign: str, sides: str) -> None:
    """Fractions of another column of the same table say what they are."""
    fractions = [f"{row}{'.' if sign == ',' else ','}5" for row in range(N)]

    def frame(numbers: list[int], with_sign: bool) -> dict[str, Any]:
        texts = [
            f"{number:,}".replace(",", sign) if with_sign else f"{number}" for number in numbers
        ]
        return {"y": ["a", "b"] * (N // 2), "beside": fractions, "c": texts}

    train, target = thousands(7), thousands(11)
    plain = read_tables(frame(train, False), frame(target, False), "y")
    signed = read_tables(frame(train, sides == "both"), frame(target, True), "y")
    assert signed.columns[-1].values == plain.columns[-1].values and len(plain.columns) == 3
    assert codes(signed) == codes(plain)
    kind = "commas" if sign == "," else "points"
    assert f"c: {kind} between thousands, '1{sign}000' is 1000" in signed.notes


def test_numbers_of_a_frame_have_points_whatever_its_texts_have() -> None:
    """1.234 as a number is no number of thousands beside decimal commas."""
    numbers = [number / 1000 for number in thousands(7)]
    beside = [f"{row},5" for row in range(N)]
    label = ["a", "b"] * (N // 2)
    read = read_tables(
        {"y": label, "c": numbers, "beside": beside},
        {"y": label, "c": [f"{number} " for number in numbers], "beside": [1.5] * N},
        "y",
    )
    column = next(column for column in read.columns if column.name == "c")
    assert column.train.tolist() == column.target.tolist()


def test_commas_of_the_other_table_tell_and_its_points_do_not() -> None:
    mixed = [f"{number}".replace(".", ",") for number in np.linspace(0.5, 9.125, N)]
    doubtful = german([f"{1 + row / 1000:.3f}" for row in range(1, N)]) + ["1,001"]
    commas = tables(mixed, doubtful)
    assert codes(commas) == codes(
        tables(*([word.replace(",", ".") for word in side] for side in (mixed, doubtful)))
    )
    assert "may be 1001 or 1.001" in dict(tables(ages(0), doubtful).skipped)["c"]


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
        ("sample_id", incomes[:N], incomes[N:]),
        ("nr", shuffled[:N], shuffled[N:]),
        ("nr", np.sort(incomes[:N]), np.sort(incomes[N:])),
    ):
        skipped = dict(tables(train, target, name=name).skipped)
        assert skipped == {name: "an identifier: 200 different values in 200 rows"}


def test_an_underscore_is_no_part_of_a_number() -> None:
    """Python reads 1_2 as 12."""
    read = tables(["1_2", "3"] * (N // 2), ["12", "3"] * (N // 2))
    assert set(read.columns[-1].values) == {"1_2", "12", "3"}


def spread(*values: str) -> list[str]:
    """The values in turn, N in all."""
    return (list(values) * N)[:N]


@pytest.mark.parametrize(
    ("train", "target", "shown"),
    [
        (["A", "B", ""], ["A", "B", "NA"], "'NA' and an empty cell"),
        (["A", "B", "N/A"], ["A", "B", None], "'N/A' and an empty cell"),
        (["A", "B", ""], ["A", "B", "-"], "'-' and an empty cell"),
        (["A", "B", "NA"], ["A", "B", "?"], "'?' and 'NA'"),
    ],
)
def test_no_value_in_two_ways_may_be_one(train: list[Any], target: list[Any], shown: str) -> None:
    sides = spread(*train), spread(*target)
    reason = f"{shown} may be one value: say so by same, or by distinct that they are not"
    assert dict(tables(*sides).skipped) == {"c": reason}
    same = tables(*sides, same=["c"])
    assert same.columns[-1].values == ("A", "B", "(missing)")
    assert f"c: {shown} are taken as one value (same)" in same.notes
    assert len(tables(*sides, distinct=["c"]).columns[-1].values) == 4


@pytest.mark.parametrize(
    ("train", "target"),
    [
        (["A", ""], ["A", "B"]),
        (["A", "none"], ["none", ""]),
        (["A", "NA", ""], ["A", "NA", ""]),
    ],
)
def test_no_value_in_one_way_is_a_value_as_it_was(train: list[str], target: list[str]) -> None:
    assert tables(spread(*train), spread(*target)).columns[-1].name == "c"


def test_labels_of_no_value() -> None:
    """R writes the labels of an unlabelled table as NA."""
    rows = {"x": spread("u", "v", "w")}
    labelled = {"y": spread("benign", "malignant"), **rows}
    read = read_tables(labelled, {"y": ["NA"] * N, **rows}, "y")
    assert not read.labelled
    note = "the label 'y' is 'NA' in all rows of the target, which counts as no label"
    assert note in read.notes
    train, target = ({"y": spread("benign", "malignant", word), **rows} for word in ("", "NA"))
    with pytest.raises(InputError, match="label: 'y': 'NA' and an empty cell may be one value"):
        read_tables(train, target, "y")
    read = read_tables(train, target, "y", same=["y"])
    assert read.columns[0].values == ("benign", "malignant")


@pytest.mark.parametrize(
    ("train", "target"),
    [
        (["True", "False"], ["1.0", "0.0"]),
        (["yes", "no"], ["1", "0"]),
        (["Yes", "No"], [1.0, 0.0]),
        (["True", "False", "NA"], ["1", "0", "NA"]),
        (["m", "f"], ["M", "F"]),
        (["01", "2"], ["1", "2"]),
        (["1", "2", "x"], ["1.0", "2.0", "x"]),
    ],
)
def test_values_that_may_be_one_between_two_tables(train: list[Any], target: list[Any]) -> None:
    assert "may be one value" in dict(tables(spread(*train), spread(*target)).skipped)["c"]


@pytest.mark.parametrize(
    ("train", "target"),
    [
        (["True", "False"], ["TRUE", "FALSE"]),
        (["1", "2", "NA"], ["1.0", "2.0", "NA"]),
        (["A", "B"], ["A ", "B\u00a0"]),
    ],
)
def test_values_that_are_one_in_two_tables(train: list[Any], target: list[Any]) -> None:
    read = tables(spread(*train), spread(*target)).columns[-1]
    assert len(read.values) == len(train)


@pytest.mark.parametrize(
    ("train", "target", "reason"),
    [
        (
            ["m", "f"],
            ["Male", "Female"],
            "only the target has Female, Male, only training has f, m: are they written"
            " differently? If so, say by same that Female is f and Male is m; if not, say so by"
            " distinct",
        ),
        (
            ["bad", "good"],
            ["0", "1"],
            "only the target has 0, 1, only training has bad, good: are they written differently? If"
            " so, write them alike in both tables; if not, say so by distinct",
        ),
        (
            ["True", "False"],
            ["ja", "nein"],
            "only the target has ja, nein, only training has False, True: are they written"
            " differently? If so, write them alike in both tables; if not, say so by distinct",
        ),
        (["A", "B"], ["C", "D"], ""),
        (["A", "B"], ["A", "C"], ""),
        (["north", "south"], ["north-east", "north-west"], ""),
    ],
)
def test_values_that_seem_to_be_written_differently(
    train: list[str], target: list[str], reason: str
) -> None:
    """They are no attribute before somebody says which they are."""
    read = tables(spread(*train), spread(*target))
    assert dict(read.skipped) == ({"c": reason} if reason else {})
    apart = tables(spread(*train), spread(*target), distinct=["c"])
    assert set(apart.columns[-1].values) == {*train, *target} and not apart.skipped


@pytest.mark.parametrize("swapped", [False, True])
def test_words_that_begin_alike_are_one_where_somebody_says_so(swapped: bool) -> None:
    sides = [spread("m", "f", "f"), spread("Male", "Female")]
    train, target = reversed(sides) if swapped else sides
    read = tables(train, target, same=["c"])
    assert read.columns[-1].values == (("Female", "Male") if swapped else ("f", "m"))
    of_training, of_target = codes(read)
    assert sum(of_target) == N // 2 if not swapped else sum(of_training) == N // 2
    (note,) = read.notes
    assert note == (
        "c: 'f' is 'Female', 'm' is 'Male' (same)"
        if swapped
        else "c: 'Female' is 'f', 'Male' is 'm' (same)"
    )


def test_a_label_that_the_tables_do_not_share() -> None:
    rows = {"x": spread("u", "v", "w")}
    train = {"y": spread("benign", "malignant"), **rows}
    target = {"y": spread("0", "1"), **rows}
    with pytest.raises(InputError) as refused:
        read_tables(train, target, "y")
    assert str(refused.value) == (
        "label: 'y': no label of the target occurs in training (0, 1 there, benign, malignant in"
        " training): are they written differently? If so, write them alike in both tables; if not,"
        " say so by distinct"
    )
    assert len(read_tables(train, target, "y", distinct=["y"]).columns[0].values) == 4
    with pytest.raises(InputError, match=r"no label .* \(3, 4 there, 1, 2 in training\)"):
        read_tables({"y": spread("1", "2"), **rows}, {"y": spread("3", "4"), **rows}, "y")
    short = {"y": spread("b", "m"), **rows}
    assert read_tables(train, short, "y", same=["y"]).columns[0].values == ("benign", "malignant")


def test_numbers_of_patients_are_no_attribute() -> None:
    """No value of one table is in the other, and nothing follows from that."""
    train, target = [str(100 + row // 2) for row in range(N)], [f"{row // 2}" for row in range(N)]
    reason = "numbers of patients or the like: 100 different values in 200 rows"
    for name in ("Patient ID", "patientId", "MRN"):
        assert dict(tables(train, target, name=name).skipped) == {name: reason}
    assert tables(train, target, name="Patient Age").columns[-1].name == "Patient Age"
    assert tables(train, target, name="MRN", names=["MRN"]).columns[-1].name == "MRN"


def test_columns_that_the_tables_call_by_other_names() -> None:
    rows = {"u": spread("a", "b"), "v": spread("a", "b", "c")}
    train = {"Diagnosis": spread("x", "y"), "Age": spread("1", "2"), "w": spread("d", "e"), **rows}
    target = {"diagnosis": spread("x", "y"), "age": spread("1", "2"), "U": spread("d", "e"), **rows}
    read = read_tables(train, target, "Diagnosis")
    skipped = dict(read.skipped)
    remedy = "if they are one, give both one name"
    assert skipped["Age"] == f"only the training table has it; the target table has 'age': {remedy}"
    assert skipped["age"] == f"only the target table has it; the training table has 'Age': {remedy}"
    assert skipped["w"] == "only the training table has it"
    assert skipped["U"] == "only the target table has it"
    assert read.notes[0].endswith(f"cannot; the target table has 'diagnosis': {remedy}")
    for name, same_name in (("tumor size", "tumor_size"), ("TumorSize", "tumor-size")):
        half_train, half_target = {"y": spread("x", "y"), name: rows["v"]}, dict(rows)
        half_target |= {"y": spread("x", "y"), same_name: rows["v"]}
        skipped = dict(read_tables(half_train | rows, half_target, "y").skipped)
        assert repr(same_name) in skipped[name] and repr(name) in skipped[same_name]

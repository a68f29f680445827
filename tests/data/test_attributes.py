"""Attributes: what a value is called, and the table of codes."""

from __future__ import annotations

import numpy as np
import pytest

from crosswind.core.errors import DataError, InputError
from crosswind.data.attributes import MOST_VALUES, Attribute, AttributeTable, spelled


def test_numbers_and_their_texts_are_one_value() -> None:
    scale = Attribute("scale", ("0.5", "1.0", "2"))
    for code, values in enumerate(
        (["0.5", 0.5, "0.50", np.float32(0.5)], [1, "1", 1.0, "1.00"], [2, "2.0"])
    ):
        assert {scale.code_of(value) for value in values} == {code}


@pytest.mark.parametrize(
    ("names", "true"),
    [(("no", "yes"), 1), (("False", "True"), 1), (("1", "0"), 0), (("on", "off"), 0)],
)
def test_a_yaml_boolean_means_the_value_named_so(names: tuple[str, str], true: int) -> None:
    attribute = Attribute("smiling", names)
    assert (attribute.code_of(True), attribute.code_of(False)) == (true, 1 - true)
    with pytest.raises(InputError, match="valid: yes, true, no"):  # either could be meant
        Attribute("smiling", ("yes", "true", "no")).code_of(True)


def test_names_that_are_one_number_are_told_apart_by_text_only() -> None:
    patient = Attribute("patient", ("007", "7", "8"))
    assert (
        patient.code_of("007"),
        patient.code_of("7"),
        patient.code_of(7),
        patient.code_of("8.0"),
    ) == (0, 1, 1, 2)
    with pytest.raises(InputError, match="unknown value of attribute 'patient': '7.0'"):
        patient.code_of(7.0)


def test_an_unknown_value_names_field_nearest_and_choices() -> None:
    with pytest.raises(InputError) as caught:
        Attribute("color", ("red", "yellow", "blue")).code_of("yelow", "shift.low")
    assert (
        str(caught.value)
        == "shift.low: unknown value of attribute 'color': 'yelow', did you mean 'yellow'? (valid:"
        " red, yellow, blue)"
    )


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("", ("a",), "needs a name"),
        ("a", (), "at least one value"),
        ("a", ("x", "y", "x"), "'x' is named twice"),
        ("a", (1, "1"), "'1' is named twice"),
        ("a", tuple(range(MOST_VALUES + 1)), "at most 65,535 values, not 65,536"),
    ],
)
def test_bad_attributes_are_refused(name: str, values: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Attribute(name, values)


def test_values_are_spelled_as_json_would() -> None:
    assert [spelled(value) for value in (True, False, 3, 0.1, np.float32(0.1), "x")] == [
        "true",
        "false",
        "3",
        "0.1",
        "0.1",
        "x",
    ]


@pytest.mark.parametrize(
    ("most", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (MOST_VALUES, np.uint16)]
)
def test_codes_take_the_smallest_unsigned_type_and_cannot_be_written(
    most: int, dtype: type
) -> None:
    codes = np.array([[0, most - 1], [0, 0]])
    table = AttributeTable(
        (Attribute("a", tuple(map(str, range(most)))), Attribute("b", ("x",))), codes
    )
    assert table.codes.dtype == dtype and table.rows(np.array([False, True])).codes.tolist() == [
        [most - 1],
        [0],
    ]
    assert table.column("a").flags.c_contiguous
    assert table.column("a").tolist() == [0, most - 1]
    with pytest.raises(ValueError, match="read-only"):
        table.codes[0, 0] = 1
    codes[0, 0] = 1  # the caller's array stays writeable


@pytest.mark.parametrize("code", [2, -1])
def test_codes_outside_the_values_name_the_row(code: int) -> None:
    with pytest.raises(
        DataError, match=f"row 1 has code {code} of attribute 'a', which has 2 values"
    ):
        AttributeTable((Attribute("a", ("x", "y")),), np.array([[0, code]]))


def test_shapes_types_and_repeated_names_are_refused() -> None:
    a = Attribute("a", ("x", "y"))
    with pytest.raises(DataError, match="two attributes have the name 'a'"):
        AttributeTable((a, a), np.zeros((2, 3), dtype=np.uint8))
    for codes in (np.zeros((2, 3), dtype=np.uint8), np.zeros(3, dtype=np.uint8), np.zeros((1, 3))):
        with pytest.raises(DataError, match=r"codes must be integers of shape \(1, rows\)"):
            AttributeTable((a,), codes)  # type: ignore[arg-type]


def test_digest_depends_on_every_name_and_code_and_not_on_the_type() -> None:
    def table(
        name: str = "a",
        values: tuple[str, ...] = ("x", "y"),
        codes: tuple[int, ...] = (0, 1),
        dtype: type = np.int64,
    ) -> str:
        return AttributeTable((Attribute(name, values),), np.array([codes], dtype=dtype)).digest()

    assert table() == table(dtype=np.uint16)
    assert (
        len(
            {
                table(),
                table(name="b"),
                table(values=("x", "z")),
                table(values=("xy", "")),
                table(codes=(1, 0)),
            }
        )
        == 5
    )


def test_an_unknown_attribute_names_the_nearest() -> None:
    table = AttributeTable(
        (Attribute("ink", ("x",)), Attribute("size", ("x",))), np.zeros((2, 1), dtype=np.uint8)
    )
    with pytest.raises(
        InputError, match="data.label: unknown attribute 'sizes', did you mean 'size'"
    ):
        table.column("sizes", "data.label")

"""One number has one spelling in descriptions and keys, however it is written."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosswind.shifts.base import exact, parse_shift, plain_number
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.noise import parse_noise
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from


@pytest.mark.parametrize("text", ["1/5", "0.2", "0.20", "2e-1", " 2/10 ", Fraction(1, 5), 0.2])
def test_a_fifth_is_a_float(text: Any) -> None:
    assert plain_number(text) == 0.2
    assert isinstance(plain_number(text), float)


def test_a_third_is_no_float() -> None:
    assert plain_number("2/6") == plain_number(Fraction(1, 3)) == "1/3"
    assert plain_number(0.3333333333333333) == 0.3333333333333333  # a little less than 1/3
    assert plain_number({"default": "1/3", "y0": "1/2", "y1": 0}) == {
        "default": "1/3",
        "y0": 0.5,
        "y1": 0,
    }


@given(st.fractions(min_value=0, max_value=10), st.integers(1, 50))
def test_spelling_keeps_the_number(number: Fraction, factor: int) -> None:
    longer = f"{number.numerator * factor}/{number.denominator * factor}"
    assert exact(plain_number(longer), "x") == number
    assert plain_number(longer) == plain_number(number) == plain_number(plain_number(longer))


@pytest.mark.parametrize("fifth", [0.2, "1/5", "0.20", "2e-1"])
def test_descriptions_have_one_spelling(fifth: Any) -> None:
    correlation = parse_shift(
        {"type": "spurious-correlation", "attribute": "a", "counterexamples": fifth}
    )
    assert correlation.describe()["counterexamples"] == 0.2
    drift = parse_shift(
        {"type": "low-data-drift", "attribute": "a", "ratio": {"default": fifth, "y0": "1/3"}}
    )
    assert drift.describe()["ratio"] == {"default": 0.2, "y0": "1/3"}
    assert parse_draw({"base": fifth}) == parse_draw({"base": 0.2})
    assert parse_noise({"rate": fifth}).rate == 0.2  # type: ignore[union-attr]


def _keys(
    counterexamples: Any = 0.2,
    ratio: Any = 0.2,
    high: Any = 2,
    base: Any = 0.5,
    rate: Any = 0.2,
    validation: Any = 0.2,
) -> set[str]:
    spec = {
        "data": {
            "d": {
                "source": "factors",
                "options": {"title": "d", "grid": {"y": 2, "a": 2, "b": 2}, "copies": 40},
                "label": "y",
                "attributes": ["a", "b"],
                "roles": {"test": 5, "validation": validation},
            }
        },
        "shifts": {
            "s": [
                {
                    "type": "spurious-correlation",
                    "attribute": "a",
                    "counterexamples": counterexamples,
                },
                {"type": "low-data-drift", "attribute": "b", "ratio": ratio, "high": high},
            ]
        },
        "sizes": {"some": {"base": base}},
        "label_noise": {"rate": rate},
        "models": ["mlp"],
        "methods": ["erm"],
        "seeds": 1,
    }
    return {run.key for run in make_plan(study_from(spec)).runs}


def test_the_same_number_is_the_same_run() -> None:
    once = _keys()
    for fifth in ("1/5", "0.20", "2e-1"):
        assert _keys(counterexamples=fifth, ratio=fifth, rate=fifth) == once
    assert _keys(high=2.0, base="1/2", validation="1/5") == once
    assert _keys(validation="1/3") == _keys(validation="2/6")
    assert len({*_keys(validation="1/3"), *_keys(validation=1 / 3), *once}) == 3
    assert _keys(counterexamples=1) != _keys(
        counterexamples=1.0
    )  # one row, or as many as the matched ones

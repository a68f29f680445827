"""Claims over several cases in a study file: what is wrong with one is said in one sentence, and which
planned runs a side is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.studies.test_claims import STUDY

from crosswind.core.errors import InputError
from crosswind.studies.plan import make_plan
from crosswind.studies.pooled_claims import PlannedCell, planned_cells
from crosswind.studies.spec import PooledClaim, Study, study_from

MEAN = {"text": "mixed images help on average", "test": "mean", "better": "mixed"}
ORDER = {"text": "shifts have an order", "test": "order", "better": "erm"}
METHODS = {
    "erm": {},
    "mixed": {"method": "mixup", "shifts": ["SC"]},
    "irm": {},
    "drawn": {"method": "randaugment"},
}


GAP = {"shift": "SC", "minus": {"shift": "none"}}


def study(*claims: Any, **fields: Any) -> Study:
    return study_from({**STUDY, **fields, "claims": list(claims)}, where="s.yaml")


@pytest.mark.parametrize(
    "claim,says",
    [
        (
            {"text": "none", "test": "median"},
            "claims.0.test: 'median' is not valid, did you mean 'mean'? (valid: mean, share",
        ),
        ({"test": "mean", "better": "erm"}, "claims.0.text: is missing (the claim in words"),
        (
            {**MEAN, "margin": 0.1},
            "claims.0.margin: unknown field 'margin' (valid: text, test, better, than, rows, along,",
        ),
        (
            {**MEAN, "better": {"method": "mixed"}},
            "claims.0.better.method: unknown field 'method', did you mean 'methods'?",
        ),
        (
            {**MEAN, "each": ["model"]},
            "claims.0.each.0: 'model' is not valid (valid: data, shift, size)",
        ),
        ({**MEAN, "share": 1.5}, "claims.0.share: must be below 1"),
    ],
)
def test_the_form_of_a_claim_over_cases(claim: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        study(claim)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "claim,says",
    [
        (
            {**MEAN, "better": "mixd"},
            "claims.0.better: unknown method of this study that is trained 'mixd'",
        ),
        ({**MEAN, "better": None}, "claims.0.better: is missing, and the test mean needs it"),
        ({**MEAN, "share": 0.5}, "claims.0.share: is not for the test mean (valid: share)"),
        (
            {**MEAN, "rows": {}},
            "claims.0.rows: is not for the test mean (valid: agreement, nobody-best",
        ),
        ({**MEAN, "shift": ["none"]}, "claims.0.better: is about no run of this study"),
        (
            {**MEAN, "better": {"methods": "mixed", "shift": "sc"}},
            "claims.0.better.shift: unknown shift 'sc'",
        ),
        (
            {
                **MEAN,
                "shift": ["SC", "none"],
                "better": {"methods": "mixed", "shift": "SC"},
                "than": {"methods": "erm", "shift": "SC"},
            },
            "claims.0.shift: 'none' is not heard, since every side names its own shift",
        ),
        (
            {**ORDER, "data": "digits", "better": {"methods": "erm", "data": "digits"}},
            "claims.0.along: must name three or more conditions",
        ),
        (
            {
                **ORDER,
                "test": "agreement",
                "better": None,
                "rows": {"shift": "SC"},
                "along": {"shift": ["SC", "none"]},
            },
            "claims.0.rows.shift: SC leaves out conditions of along (SC, none), which differ in it",
        ),
        ({**MEAN, "better": {"family": "augmentation"}}, "claims.0.better.family: unknown family"),
        ({**MEAN, "than": {"methods": "mixed", "shift": "SC"}}, "claims.0.than: is the same side"),
        (
            {**MEAN, "better": {**GAP, "methods": "erm"}},
            "claims.0.than: needs a minus too: a gap is compared with another gap",
        ),
        (
            {**MEAN, "better": {**GAP, "methods": "erm"}, "than": {**GAP, "methods": "erm"}},
            "claims.0.than: is the same side",
        ),
        (
            {
                **MEAN,
                "better": {**GAP, "methods": "erm"},
                "than": {"methods": "erm", "shift": "SC", "minus": {"shift": "SC"}},
            },
            "claims.0.than.minus: is the same rows as its side's",
        ),
        (
            {**MEAN, "better": {**GAP, "minus": {"shift": "sC"}}, "than": GAP},
            "claims.0.better.minus.shift: unknown shift 'sC', did you mean 'SC'?",
        ),
        (
            {
                **MEAN,
                "better": {"methods": "erm", "minus": {"methods": "mixed"}, "shift": "none"},
                "than": {**GAP, "methods": "erm"},
            },
            "claims.0.better.minus: is about no run of this study",
        ),
        (
            {"text": "more", "test": "share", "better": {**GAP, "methods": "erm"}},
            "claims.0.better.minus: is not for the test share",
        ),
        ({**MEAN, "rule": "best-target"}, "claims.0.rule: unknown selection rule of this study"),
        ({**ORDER}, "claims.0.along: must name three or more conditions of one kind"),
        ({**ORDER, "along": {"shift": ["none", "SC"]}}, "claims.0.along: must name three or more"),
        (
            {"text": "alike", "test": "agreement", "along": {"shift": ["none", "sC"]}},
            "claims.0.along.shift: unknown shift 'sC', did you mean 'SC'?",
        ),
        (
            {"text": "alike", "test": "agreement", "along": {"shift": ["none", "none"]}},
            "claims.0.along.shift: must name each condition once",
        ),
        (
            {
                "text": "alike",
                "test": "agreement",
                "along": {"shift": ["none", "SC"]},
                "each": ["shift"],
            },
            "claims.0.each: 'shift' is what the conditions differ in",
        ),
        (
            {
                "text": "alike",
                "test": "agreement",
                "along": {"shift": ["none", "SC"]},
                "shift": "SC",
            },
            "claims.0.shift: 'shift' is what the conditions of along differ in",
        ),
        (
            {"text": "rank", "test": "ranks", "rows": {"methods": "mixed"}},
            "claims.0.rows: are 1, and the test ranks needs 3 or more",
        ),
        (
            {**MEAN, "by": 5},
            "claims.0.by: is 5, and no two scores between 0 and 1 differ by that; write 0.05 for 5"
            " points, or relative: true for percent",
        ),
    ],
)
def test_what_a_claim_over_cases_names_must_be_run(claim: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(study(claim))
    assert says in str(caught.value)


def test_claims_by_name_are_a_list_and_an_overlay_takes_one_out() -> None:
    named = {"helps": MEAN, "costs": {**MEAN, "text": "costs"}}
    values = {**STUDY, "claims": named, "scales": {"tiny": {"claims": {"helps": None}}}}
    assert [claim.text for claim in study_from(values).claims] == [MEAN["text"], "costs"]
    (claim,) = study_from(values, scale="tiny").claims
    assert isinstance(claim, PooledClaim) and claim.text == "costs"
    with pytest.raises(InputError, match=r"claims\.helps\.better"):
        study_from({**STUDY, "claims": {"helps": {**MEAN, "better": 3}}}, where="s.yaml")


def test_claims_are_in_no_runs_key() -> None:
    keys = [{job.key for job in make_plan(planned).jobs} for planned in (study(), study(MEAN))]
    assert keys[0] == keys[1]


CELLS = [
    PlannedCell("digits", shift, "few", model, method)
    for shift in ("none", "SC")
    for model, method in (
        ("mlp", "erm"),
        ("mlp", "mixed"),
        ("mlp", "irm"),
        ("mlp", "drawn"),
        ("cnn", "erm"),
        ("cnn", "irm"),
        ("cnn", "asked"),
    )
]
PLANNED = planned_cells(CELLS, METHODS, {"reference": "erm", "methods": METHODS})


@pytest.mark.parametrize(
    "side,rows",
    [
        ({}, ["erm mlp", "mixed mlp", "irm mlp", "drawn mlp", "erm cnn", "irm cnn"]),
        ({"methods": "erm"}, ["erm mlp"]),  # on the model that most methods run on
        ({"methods": ["erm", "drawn"], "model": "cnn"}, ["erm cnn"]),
        ({"family": "heuristic augmentation"}, ["drawn mlp"]),
        ({"methods": "all", "model": "cnn"}, ["erm cnn", "irm cnn"]),
    ],
)
def test_the_rows_of_a_side(side: dict[str, Any], rows: list[str]) -> None:
    assert PLANNED.main_model == "mlp" and PLANNED.baseline == ("erm", "mlp")
    cells = PLANNED.of_side(side, {"shift": "SC"})
    assert [f"{cell.method} {cell.model}" for cell in cells] == rows
    assert {cell.shift for cell in cells} == {"SC"}


def test_a_side_may_name_its_conditions() -> None:
    cells = PLANNED.of_side({"methods": "erm", "shift": ["none"]}, {"shift": "SC"})
    assert [(cell.shift, cell.model) for cell in cells] == [("none", "mlp")]


def test_labels_of_one_method_on_different_data_sets_are_one_row() -> None:
    methods = {"erm": {}, "irm": {}, "irm-squared": {"method": "irm"}}
    cells = [
        PlannedCell(data, "SC", "few", "mlp", method)
        for data, labels in (("digits", ("erm", "irm")), ("faces", ("erm", "irm-squared")))
        for method in labels
    ]
    resolved = {"reference": "erm", "methods": methods}
    apart = planned_cells(cells, methods, resolved)
    assert apart.rows_of({}) == {("erm", "mlp"), ("irm", "mlp")}
    assert [cell.data for cell in apart.of_side({"methods": "irm"}, {})] == ["digits", "faces"]
    both = planned_cells(
        [*cells, PlannedCell("faces", "SC", "few", "mlp", "irm")], methods, resolved
    )
    assert both.rows_of({"methods": "irm"}) == {("irm", "mlp")}
    assert len(both.rows_of({})) == 3

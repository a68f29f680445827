"""Claims of a study file: what is wrong with one is said in one sentence before anything is
trained, and no run knows of them."""

from __future__ import annotations

from typing import Any

import pytest

from crosswind.core.errors import InputError
from crosswind.studies.claims import Side, sides_of
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import Study, study_from

STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"few": {"total": 100}, "more": {"digits": {"none": {"total": 200}}}},
    "models": ["mlp", "small-cnn"],
    "methods": {
        "erm": {},
        "mixed": {"method": "mixup", "shifts": ["SC"]},
        "adapted": {"method": "erm", "models": ["mlp"], "training": {"steps": 1}},
    },
    "training": {"steps": 2, "validate_every": 1},
    "selection": ["last", "best-id"],
    "seeds": 1,
}
GOOD = {"text": "mixed images help", "better": "mixed", "shift": "SC"}


def study(*claims: Any) -> Study:
    return study_from({**STUDY, "claims": list(claims)}, where="s.yaml")


@pytest.mark.parametrize(
    "claim,says",
    [
        ({"text": "no side"}, "s.yaml: claims.0.better: is missing"),
        ({"better": "mixed"}, "s.yaml: claims.0.text: is missing"),
        ({**GOOD, "text": ""}, "s.yaml: claims.0.text: must not be empty"),
        ({**GOOD, "text": " \n"}, "s.yaml: claims.0.text: must not be empty"),
        ({**GOOD, "better": 3}, "claims.0.better: must be text or a mapping, not 3"),
        (
            {**GOOD, "metric": "f1"},
            (
                "claims.0.metric: 'f1' is not valid (valid: accuracy, worst_group,"
                " balanced_accuracy, seen_"
            ),
        ),
        (
            {**GOOD, "methode": "erm"},
            (
                "claims.0.methode: unknown field 'methode', did you mean 'model'? (valid: text,"
                " better, than, data, shift, size,"
            ),
        ),
        (
            {**GOOD, "better": {"method": "erm", "modle": "mlp"}},
            "claims.0.better.modle: unknown field 'modle', did you mean 'model'?",
        ),
        ({**GOOD, "better": {"model": "mlp"}}, "claims.0.better.method: is missing"),
    ],
)
def test_the_form_of_a_claim(claim: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        study(claim)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "claim,says",
    [
        (
            {"better": "mixd"},
            (
                "claims.0.better: unknown method of this study 'mixd', did you mean 'mixed'?"
                " (valid: erm, mixed, adapted)"
            ),
        ),
        ({"than": "irm"}, "claims.0.than: unknown method of this study 'irm'"),
        (
            {"data": "digit"},
            "claims.0.data: unknown data set 'digit', did you mean 'digits'? (valid: digits)",
        ),
        (
            {"shift": "sc"},
            "claims.0.shift: unknown shift 'sc', did you mean 'SC'? (valid: none, SC)",
        ),
        ({"size": "equal"}, "claims.0.size: unknown size 'equal' (valid: few, more)"),
        (
            {"model": "resnet18"},
            "claims.0.model: unknown model of this study 'resnet18' (valid: mlp, small-cnn)",
        ),
        (
            {"set": "validation"},
            "claims.0.set: unknown set of role test 'validation' (valid: test)",
        ),
        (
            {"rule": "best-target"},
            "claims.0.rule: unknown selection rule of this study 'best-target'",
        ),
        (
            {"shift": "none"},
            "claims.0.better: 'mixed' is not run at shift 'none' (valid: erm, adapted)",
        ),
        ({"size": "more"}, "claims.0: the study has no shift 'SC' and size 'more' together"),
        (
            {"size": "more", "shift": None},
            "claims.0.better: 'mixed' is not run at size 'more' (valid: erm, adapted)",
        ),
        (
            {"better": {"method": "adapted", "model": "small-cnn"}},
            (
                "claims.0.better.method: 'adapted' is not run with the model 'small-cnn' (valid:"
                " erm, mixed)"
            ),
        ),
        (
            {"better": {"method": "erm", "model": "vit"}},
            "claims.0.better.model: unknown model of this study 'vit'",
        ),
        (
            {"better": {"method": "erm", "shift": "sc"}},
            "claims.0.better.shift: unknown shift of this study 'sc', did you mean 'SC'?",
        ),
        (
            {"better": {"method": "mixed", "shift": "none"}},
            "claims.0.better.method: 'mixed' is not run under 'none' (valid: erm, adapted)",
        ),
        (
            {"better": {"method": "mixed", "set": "tset"}},
            "claims.0.better.set: unknown set of role test 'tset', did you mean 'test'?",
        ),
        (
            {"better": {"method": "mixed", "minus": {"set": "validation"}}},
            "claims.0.better.minus.set: unknown set of role test 'validation' (valid: test)",
        ),
        (
            {"better": {"method": "mixed", "minus": {"method": "irm"}}},
            "claims.0.better.minus.method: unknown method of this study",
        ),
        (
            {"better": {"method": "mixed", "minus": {"shift": "none"}}},
            "claims.0.better.minus: 'mixed' is not run there",
        ),
        (
            {"better": {"method": "erm", "model": "small-cnn", "minus": {"method": "adapted"}}},
            "claims.0.better.minus: 'adapted' is not run there",
        ),
        (
            {"than": {"method": "erm", "minus": {}}},
            "claims.0.than.minus: is the same score as its side's, so there is no gap",
        ),
        ({"margin": 0}, "claims.0.margin: must be above 0, not 0"),
        ({"margin": 3}, "claims.0.margin: must be at most 1, not 3; write 0.03 for 3%"),
        (
            {"margin": 1},
            "claims.0.margin: is 1, which two scores between 0 and 1 always keep; write 0.01 for 1",
        ),
        (
            {"margin": 0.03, "wins_back": 0.3},
            "claims.0.wins_back: takes no gap (minus) and no margin",
        ),
        ({"wins_back": 0}, "claims.0.wins_back: must be above 0, not 0"),
        (
            {"wins_back": 0.3, "better": "erm", "than": "adapted", "shift": "none"},
            "claims.0.wins_back: 'none' costs nothing: name another shift",
        ),
        (
            {
                "wins_back": 0.3,
                "better": {"method": "erm", "shift": "none"},
                "than": {"method": "erm", "shift": "SC"},
                "shift": None,
            },
            "claims.0.wins_back: compares two sides under one shift",
        ),
        (
            {
                "shift": "none",
                "better": {"method": "erm", "shift": "SC"},
                "than": {"method": "mixed", "shift": "SC"},
            },
            (
                "claims.0.shift: 'none' is not heard, since every side names its own shift ('SC'"
                " and 'SC'): leave it out here, or in a side that is to take it"
            ),
        ),
        (
            {
                "model": "small-cnn",
                "better": {"method": "mixed", "model": "mlp"},
                "than": {"method": "erm", "model": "mlp"},
            },
            "claims.0.model: 'small-cnn' is not heard",
        ),
        (
            {"better": "erm", "than": None},
            "claims.0.than: is the same side as 'better', so there is nothing to compare",
        ),
        (
            {"better": {"method": "adapted", "model": "mlp"}, "than": {"method": "adapted"}},
            "claims.0: 'adapted' and 'adapted' are never run",
        ),
    ],
)
def test_what_the_study_does_not_run(claim: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(study({**GOOD, **claim}))
    assert says in str(caught.value)


def test_the_second_claim_is_named_by_its_place() -> None:
    with pytest.raises(InputError, match=r"claims\.1\.better: unknown method"):
        make_plan(study(GOOD, {**GOOD, "better": "irm"}))
    with pytest.raises(InputError, match="claims: must name each entry once"):
        study(GOOD, GOOD)


def test_a_reference_that_is_not_run_there_is_named_as_one() -> None:
    values = {
        **STUDY,
        "claims": [{"text": "t", "better": "erm", "shift": "none"}],
        "reference": "mixed",
    }
    with pytest.raises(
        InputError, match=r"claims\.0\.than: the reference 'mixed' is not run at shift 'none'"
    ):
        make_plan(study_from(values))


def test_claims_change_no_run() -> None:
    plain = make_plan(study())
    plan_with_claim = make_plan(
        study(
            GOOD,
            {
                "text": "two models",
                "better": {"method": "erm", "model": "small-cnn"},
                "model": "mlp",
            },
        )
    )
    assert [run.key for run in plain.runs] == [run.key for run in plan_with_claim.runs]
    assert [run.spec for run in plain.runs] == [run.spec for run in plan_with_claim.runs]


def test_a_side_without_a_model_takes_the_claim_s() -> None:
    claim = {"better": {"method": "erm", "model": "small-cnn"}, "than": None, "model": "mlp"}
    assert sides_of(claim, "erm") == (Side("erm", "small-cnn"), Side("erm", "mlp"))
    gap = {
        "better": {"method": "erm", "set": "hard", "minus": {"set": None, "shift": "SC"}},
        "shift": "none",
        "set": "test",
    }
    full = Side("erm", None, "none", "hard", Side("erm", None, "SC", "hard"))
    assert sides_of(gap, "irm") == (full, Side("irm", None, "none", "test"))
    assert sides_of({"better": "irm", "than": "erm-two"}, "erm") == (
        Side("irm", None),
        Side("erm-two", None),
    )


def test_a_text_over_several_lines_is_one_sentence() -> None:
    assert (
        study({**GOOD, "text": "images that are\n  mixed help\n"}).claims[0].text
        == "images that are mixed help"
    )


def refused(claim: dict[str, Any], **fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        make_plan(study_from({**STUDY, **fields, "claims": [{"text": "a claim", **claim}]}))
    return str(caught.value)


KEPT_APART = {
    "type": "systematic",
    "environment": "ink",
    "classes": {"red": "all", "green": [0, 1], "blue": [2, 3]},
}


@pytest.mark.parametrize("metric", ["seen_accuracy", "unseen_accuracy", "rho"])
@pytest.mark.parametrize("claim", [{"better": "mixed"}, {"better": "mixed", "test": "mean"}])
def test_a_score_that_only_systematic_shifts_have(metric: str, claim: dict[str, Any]) -> None:
    of_sc = {**claim, "metric": metric, "shift": "SC"}
    says = refused(of_sc)
    assert says.startswith(f"claims.0.metric: {metric} is a score under a systematic shift")
    assert "none of SC, and the study has none (valid: accuracy" in says
    shifts = {"SC": STUDY["shifts"]["SC"], "apart": KEPT_APART, "named": ["apart"]}
    fields = {
        "shifts": shifts,
        "sizes": {"few": {"total": 60}},
        "methods": {"erm": {}, "mixed": {"method": "mixup"}},
    }
    assert "none of SC is; such are apart, named" in refused(of_sc, **fields)
    fine = {"text": "a claim", **of_sc, "shift": "named"}
    assert make_plan(study_from({**STUDY, **fields, "claims": [fine]})).runs


@pytest.mark.parametrize("side", ["better", "than"])
def test_a_gap_is_compared_with_a_gap(side: str) -> None:
    gap = {"method": "mixed", "shift": "SC", "minus": {"method": "erm"}}
    plain = {"method": "erm", "shift": "SC"}
    sides = {"better": plain, "than": plain, side: gap}
    other = "than" if side == "better" else "better"
    says = f"claims.0.{other}: needs a minus too: a gap is compared with another gap"
    assert refused(sides) == says


def test_what_costs_something_is_named_where_a_cost_is_won_back() -> None:
    claim = {"better": "adapted", "model": "mlp", "wins_back": 0.3}
    assert refused({**claim, "shift": "none"}).endswith("name another shift (valid: SC)")
    says = refused({**claim, "shift": "SC", "margin": 0.1})
    assert says == "claims.0.wins_back: takes no gap (minus) and no margin"

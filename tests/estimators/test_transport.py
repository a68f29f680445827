"""COT, COTT and the transport: by hand, against a linear program and an assignment, and few rows of
many."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from tests.estimators.made import drawn, known, of_two

from crosswind.core.errors import InputError
from crosswind.estimators import transport
from crosswind.estimators.base import Answers, Estimate, Labelled
from crosswind.estimators.calibration import fitted_temperature
from crosswind.estimators.estimating import estimated
from crosswind.estimators.transport import Cot, Cott, transport_costs
from crosswind.models.form import check_extra

pytest.importorskip("ot", reason="POT, the extra `transport`, is not installed")


def value(estimator: Cot | Cott, source: Labelled, target: Answers) -> float:
    return estimator.estimate(estimator.fit(source), target).accuracy


def softmax(answers: Answers, temperature: float) -> np.ndarray:
    assert answers.logits is not None
    p = np.exp(answers.logits / temperature)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def test_values_by_hand() -> None:
    """Half of the labels are 0. Rows with .9 and .8 for it: .1 + .8 for one each is less than .9 +
    .2, so the error is .45.

    COTT: the source's .9 .8 go to label 0 for .1 .2, and .3 .6 to label 1 for .3 .6; one answer is
    wrong, the threshold is .45. The target's .9 .58 go to 0 for .1 .42, and .5 .4 to 1 for .5 .4:
    three of four cost less.
    """
    source = known(of_two([0.9, 0.8, 0.3, 0.6]), [0, 0, 1, 1])
    assert value(Cot("none"), source, of_two([0.9, 0.8])) == pytest.approx(0.55, abs=1e-12)
    assert value(Cott("none"), source, of_two([0.9, 0.58, 0.5, 0.4])) == 0.75


@pytest.mark.parametrize("choice", ["none", "fit"])
def test_the_cost_is_that_of_the_linear_program(choice: str) -> None:
    for seed, (n, k) in enumerate([(30, 3), (41, 5), (64, 2)]):
        source, target = (
            drawn(seed, 50, k, shares=None),
            drawn(20 + seed, n, k, strength=1.0).answers,
        )
        p = softmax(target, fitted_temperature(source) if choice == "fit" else 1.0)
        share = np.bincount(source.label, minlength=k) / 50
        cost = np.array(
            [[np.abs(np.eye(k)[code] - row).sum() / 2 for row in p] for code in range(k)]
        )
        rows = [np.kron(np.eye(k)[code], np.ones(n)) for code in range(k)] + [
            np.tile(np.eye(n)[i], k) for i in range(n)
        ]
        solved = linprog(
            cost.ravel(),
            A_eq=np.array(rows),
            b_eq=np.append(share, np.full(n, 1 / n)),
            method="highs",
        )
        assert value(Cot(choice), source, target) == pytest.approx(1 - solved.fun, abs=1e-6)


def test_costs_of_rows_are_those_of_the_assignment_of_n_labels() -> None:
    """With as many labels of each class as the source has, n x n, every row has one label: the
    published form."""
    for seed in range(4):
        source, target = drawn(seed, 60), drawn(30 + seed, 60, strength=1.0).answers
        temperature, costs = fitted_temperature(source), []
        for answers in (source.answers, target):
            table = 1 - softmax(answers, temperature)[:, np.sort(source.label)]
            rows, columns = linear_sum_assignment(table)
            costs.append(table[rows, columns])
        wrong, rising = int((~source.right).sum()), np.sort(costs[0])
        threshold = (rising[-wrong] + rising[-wrong - 1]) / 2
        assert value(Cott(), source, target) == pytest.approx(
            (costs[1] < threshold).mean(), abs=1e-6
        )
        assert value(Cot(), source, target) == pytest.approx(1 - costs[1].mean(), abs=1e-6)


def test_on_the_source_itself_the_thresholded_form_is_the_accuracy() -> None:
    """Also with ties, without an error (where the public code says that almost all is wrong) and
    with errors only."""
    source = drawn(7, 80)
    right = source.answers.answer
    sure = Answers(right, np.eye(4)[right] * 6e4)
    for answers in (source.answers, sure):
        for label in (
            source.label,
            right,
            (right + 1) % 4,
            np.where(np.arange(80) < 9, (right + 1) % 4, right),
        ):
            labelled = known(answers, label)
            for choice in ("none", "fit"):
                assert value(Cott(choice), labelled, answers) == labelled.accuracy


def test_many_rows_are_drawn_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = drawn(8, 300), drawn(9, 500).answers
    of_all_rows = estimated(Cot(), source, drawn(9, 500).answers)
    monkeypatch.setattr(transport, "LARGEST", 4 * 200)
    for estimator, sets in ((Cot(), ["set"]), (Cott(), ["source", "set"])):
        estimate = estimated(estimator, source, target)
        assert isinstance(estimate, Estimate) and isinstance(of_all_rows, Estimate)
        sentences = {
            "source": "of the 300 rows of the source 200",
            "set": "of the 500 rows of the set 200",
        }
        end = " were drawn with a fixed seed, since all would take minutes"
        assert list(estimate.warnings) == [sentences[name] + end for name in sets]
        assert (
            estimate.accuracy == pytest.approx(of_all_rows.accuracy, abs=0.1)
            and estimate.low is None
        )
        order = np.random.default_rng(0).permutation(500)
        assert estimated(estimator, source, target.take(order)) == estimate


def test_both_ask_for_the_same_transport_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = drawn(8, 60), drawn(9, 50).answers
    expected = [value(estimator, drawn(8, 60), target) for estimator in (Cot(), Cott())]
    sizes: list[int] = []

    def counted(answers: Answers, *rest: object) -> np.ndarray:
        sizes.append(len(answers))
        return transport_costs(answers, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(transport, "transport_costs", counted)
    target = drawn(9, 50).answers
    assert [value(estimator, source, target) for estimator in (Cot(), Cott())] == expected
    assert sizes == [50, 60], "the target once, and the source for the threshold"
    value(Cot("none"), source, target)
    value(Cot("none"), drawn(7, 60), target)
    assert sizes == [50, 60, 50, 50], "another temperature, and another source"


def test_without_the_library_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    source = drawn(1, 20)
    monkeypatch.setitem(sys.modules, "ot", None)
    monkeypatch.setattr(
        "crosswind.models.form.find_spec", lambda name: None if name == "ot" else object()
    )
    assert (
        estimated(Cot(), source, source.answers)
        == "it needs the extra: pip install 'crosswind[transport]'"
    )
    with pytest.raises(
        InputError,
        match=(
            r"^estimators\.cot: estimator 'cot' needs the extra: pip install"
            r" 'crosswind\[transport\]'"
        ),
    ):
        check_extra("transport", "estimators.cot", "cot")

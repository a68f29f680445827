"""The questions of a study to models behind endpoints, and what they would cost, without asking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crosswind.core.registry import facts
from crosswind.core.types import Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.studies.job_specs import CopiesSpec, OutsidePredictSpec

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet
    from crosswind.studies.plan import Plan
    from crosswind.training.trajectory import Answer


def foreseen(plan: Plan) -> dict[str, dict[str, Any]]:
    """For every model that is asked by requests: how many there are, how many are answered already,
    and what the others take.

    `input_tokens` and `output_tokens` are as such answers took in the mean once enough are known
    (`measured`), else an estimate of the first and the most of the second. `price` is in the
    currency of the model's prices, None where these are not given. A question that several models
    ask counts for the first. Reads the inputs of all sets that are predicted.
    """
    out: dict[str, dict[str, Any]] = {}
    questions: set[str] = set()
    jobs = {
        job.key: job for job in plan.jobs if job.kind in ("predict", "vary") and "model" in job.spec
    }
    for job in jobs.values():
        spec = OutsidePredictSpec.of(job.spec)
        if "foreseen" not in facts("models", spec.model.name).defines:
            continue
        # With it comes what executes jobs, which plans of other studies do not load.
        from crosswind.execution.jobs import row_set, split_of

        empty = {
            "requests": 0,
            "answered": 0,
            "input_tokens": 0.0,
            "output_tokens": 0.0,
            "measured": False,
            "price": None,
        }
        cost = out.setdefault(job.labels["method"], empty)
        split, datasets = split_of(spec.rows)
        model = spec.model.make("models")
        rows = row_set(split, spec.set_name)
        count = _counting(model, split.class_names, questions, cost)
        if job.kind == "predict":
            count({spec.set_name: rows}, datasets)
        else:
            from crosswind.execution.changed_copies import Neighbours, copy_answers

            copies = CopiesSpec.of(job.spec)
            neighbours = Neighbours(copies.neighbourhood, copies.neighbours)
            copy_answers(count, rows, datasets, neighbours, copies.pool)
        if model.input_price is not None and model.output_price is not None:
            cost["price"] = (
                model.input_price * cost["input_tokens"]
                + model.output_price * cost["output_tokens"]
            ) / 1e6
    return out


def _counting(
    model: Any, class_names: tuple[str, ...], questions: set[str], cost: dict[str, Any]
) -> Answer:
    """The stand-in for a model's answers, which counts into `cost` what they would be asked."""
    from crosswind.execution.jobs import GIVEN

    def count(sets: Mapping[str, RowSet], datasets: Mapping[str, AttributedDataset]) -> Any:
        predictions = {}
        for name, rows in sets.items():
            forecast = model.foreseen(rows, datasets[rows.source], class_names)
            new = forecast.tokens.keys() - questions
            unanswered = new - forecast.known
            questions.update(new)
            read, written = forecast.usual or (0.0, model.max_tokens)
            cost["requests"] += len(new)
            cost["answered"] += len(new) - len(unanswered)
            cost["measured"] = forecast.usual is not None
            cost["input_tokens"] += (
                sum(forecast.tokens[question] for question in unanswered)
                if forecast.usual is None
                else len(unanswered) * read
            )
            cost["output_tokens"] += len(unanswered) * written
            ids = datasets[rows.source].row_ids(rows.rows)
            answer = np.zeros(len(ids), dtype=np.int64)
            predictions[name] = Predictions(ids, rows.label, rows.group, answer)
        return {GIVEN: predictions}, []

    return count


def words(cost: Mapping[str, Any]) -> str:
    """One model's counts as a sentence."""
    bound = "about" if cost["measured"] else "at most"
    tokens = (
        f"about {round(cost['input_tokens']):,} input tokens and {bound}"
        f" {round(cost['output_tokens']):,} output tokens"
    )
    price = "; input_price and output_price tell what that costs"
    if cost["price"] is not None:
        price = f", which cost {cost['price']:,.2f}"
    return (
        f"{cost['requests']:,} requests, {cost['answered']:,} of them answered already; the others"
        f" take {tokens}{price}"
    )

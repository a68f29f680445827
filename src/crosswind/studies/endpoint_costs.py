"""What a study would ask of models behind endpoints, and what that would cost, without asking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crosswind.core.registry import facts, load
from crosswind.core.types import Predictions
from crosswind.data.dataset import AttributedDataset
from crosswind.studies.jobs import GIVEN, row_set, split_of

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet
    from crosswind.studies.plan import Plan
    from crosswind.training.trajectory import Answer


def foreseen(plan: Plan) -> dict[str, dict[str, Any]]:
    """For every model that is asked by requests: how many there are, how many are answered already,
    and what the others take.

    `input_tokens` and `output_tokens` are as such answers took in the mean once enough are known
    (`measured`), else an estimate of the first and the most of the second; `price` is in the
    currency of the model's prices, None where these are not given. A question that several models
    ask counts for the first. Reads the inputs of all sets that are predicted.
    """
    out: dict[str, dict[str, Any]] = {}
    questions: set[str] = set()
    jobs = {
        job.key: job for job in plan.jobs if job.kind in ("predict", "vary") and "model" in job.spec
    }
    for job in jobs.values():
        if "foreseen" not in facts("models", job.spec["model"]["name"]).defines:
            continue
        empty = {
            "requests": 0,
            "answered": 0,
            "input_tokens": 0.0,
            "output_tokens": 0.0,
            "measured": False,
            "price": None,
        }
        told = out.setdefault(job.labels["method"], empty)
        split, datasets = split_of(job.spec)
        model, rows = (
            load("models", job.spec["model"]["name"])(**job.spec["model"]["knobs"]),
            row_set(split, job.spec["set"]),
        )
        count = _counting(model, split.class_names, questions, told)
        if job.kind == "predict":
            count({job.spec["set"]: rows}, datasets)
        else:
            from crosswind.studies.changed_copies import said_of_copies

            said_of_copies(
                count, rows, datasets, job.spec["near"], job.spec["neighbours"], job.spec["pool"]
            )
        if model.input_price is not None and model.output_price is not None:
            told["price"] = (
                model.input_price * told["input_tokens"]
                + model.output_price * told["output_tokens"]
            ) / 1e6
    return out


def _counting(
    model: Any, class_names: tuple[str, ...], questions: set[str], told: dict[str, Any]
) -> Answer:
    """What stands in the place of a model's answers and counts into `told` what they would be
    asked."""

    def count(sets: Mapping[str, RowSet], datasets: Mapping[str, AttributedDataset]) -> Any:
        said = {}
        for name, rows in sets.items():
            found = model.foreseen(rows, datasets[rows.source], class_names)
            new = found.tokens.keys() - questions
            asked = new - found.known
            questions.update(new)
            read, written = found.usual or (0.0, model.max_tokens)
            told["requests"] += len(new)
            told["answered"] += len(new) - len(asked)
            told["measured"] = found.usual is not None
            told["input_tokens"] += (
                sum(found.tokens[one] for one in asked)
                if found.usual is None
                else len(asked) * read
            )
            told["output_tokens"] += len(asked) * written
            ids = datasets[rows.source].row_ids(rows.rows)
            said[name] = Predictions(
                ids, rows.label, rows.group, np.zeros(len(ids), dtype=np.int64)
            )
        return {GIVEN: said}, []

    return count


def words(told: Mapping[str, Any]) -> str:
    """One model's counts as a sentence."""
    most = "about" if told["measured"] else "at most"
    tokens = (
        f"about {round(told['input_tokens']):,} input tokens and {most}"
        f" {round(told['output_tokens']):,} output tokens"
    )
    price = (
        "; input_price and output_price tell what that costs"
        if told["price"] is None
        else f", which cost {told['price']:,.2f}"
    )
    return (
        f"{told['requests']:,} requests, {told['answered']:,} of them answered already; the others"
        f" take {tokens}{price}"
    )

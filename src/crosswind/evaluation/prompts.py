"""One prompt for each model and data set, and what that choice is worth. Plain numbers in, plain
values out.

Scores are by (model, prompt, data set). A prompt that is chosen by the scores that are then
reported is an oracle: it saw the test labels. Jeon et al. 2025 report the best prompt so (table 5;
figures 3, 8 and table 3 follow from it).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

Scores = Mapping[tuple[str, str, str], float]
"""From (model, prompt, data set) to a score, of which more is better."""


class ChosenPrompts(NamedTuple):
    """The prompt that was chosen for a model and data set, and its score."""

    prompt: str
    score: float


Choices = dict[tuple[str, str], ChosenPrompts]
"""From (model, data set) to what was chosen there."""


def best_prompt(scores: Scores, by: Scores | None = None) -> Choices:
    """The prompt of each model and data set that is best by `by`, which is `scores` itself by
    default: an oracle.

    Of equal ones the first. With `by` a pair is left out where any of its prompts has no value
    there: the best of those that have one would be chosen among fewer.
    """
    tried: dict[tuple[str, str], list[str]] = {}
    for model, prompt, data in scores:
        tried.setdefault((model, data), []).append(prompt)
    judge = scores if by is None else by
    out = {}
    for (model, data), prompts in tried.items():
        values = {
            prompt: judge[model, prompt, data]
            for prompt in prompts
            if (model, prompt, data) in judge
        }
        if len(values) == len(prompts):
            prompt = max(values, key=values.__getitem__)
            score = scores[model, prompt, data]
            out[model, data] = ChosenPrompts(prompt, score)
    return out


def fixed_prompt(scores: Scores, prompt: str) -> Choices:
    """The same prompt everywhere; of a model that has one prompt alone, that."""
    several: dict[str, set[str]] = {}
    for model, name, _ in scores:
        several.setdefault(model, set()).add(name)
    return {
        (model, data): ChosenPrompts(name, score)
        for (model, name, data), score in scores.items()
        if name == prompt or several[model] == {name}
    }


def over_data(chosen: Choices, data: Sequence[str]) -> dict[str, float]:
    """Mean score over data sets, each as heavy as another, of every model that has all of them."""
    models = dict.fromkeys(model for model, _ in chosen)
    complete_models = []
    for model in models:
        if data and all((model, name) in chosen for name in data):
            complete_models.append(model)
    return {
        model: math.fsum(chosen[model, name].score for name in data) / len(data)
        for model in complete_models
    }


def spread(scores: Scores) -> dict[tuple[str, str], float]:
    """By (model, data set) the best prompt's score less the worst's, of those that were asked with
    several."""
    scores_of: dict[tuple[str, str], list[float]] = {}
    for (model, _, data), score in scores.items():
        scores_of.setdefault((model, data), []).append(score)
    return {
        pair: max(values) - min(values) for pair, values in scores_of.items() if len(values) > 1
    }


def of_rows(share: float, rows: int, level: float = 0.95) -> tuple[float, float]:
    """The interval of an accuracy over test rows drawn independently: the score interval of Wilson
    1927, "Probable Inference".

    For one model whose answers no seed changes. Raises `ValueError` without rows.
    """
    if rows < 1:
        raise ValueError("there are no rows")
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    middle = (share + z2 / (2 * rows)) / (1 + z2 / rows)
    spread = z2 * share * (1 - share) / rows + z2 * z2 / (4 * rows * rows)
    half = math.sqrt(spread) / (1 + z2 / rows)
    return max(0.0, middle - half), min(1.0, middle + half)

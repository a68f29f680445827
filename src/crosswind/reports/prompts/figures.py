"""Accuracy by model, prompt and data set as a map."""

from __future__ import annotations

from typing import Any

from crosswind.evaluation.metrics import HEADLINE
from crosswind.reports.charts import Figure, chart
from crosswind.reports.prompts.scores import Asked, is_best
from crosswind.reports.scores.figures import method_map
from crosswind.reports.tables import slug


def prompt_map(comparison: Asked) -> Figure:
    """Model and prompt by data set, accuracy by colour; the best prompt is framed."""
    data: list[dict[str, Any]] = []
    for (model, prompt, name), score in comparison.said.items():
        low, high = score.bounds()
        data.append(
            {
                "m": f"{model}, {prompt}",
                "s": name,
                "d": round(score.mean, 6),
                "t": f"{100 * score.mean:.1f}",
                "x": is_best(comparison, model, prompt, name),
                "u": f"{score.unparsed:.1%}",
                "i": f"{low:.1%} to {high:.1%}",
            }
        )
    rows = list(dict.fromkeys(row["m"] for row in data))
    told_tips = [("d", HEADLINE.words, ".1%"), ("i", "95% interval"), ("u", "unread answers")]
    spec = method_map(comparison.data, rows, told_tips, diverging=False, words=("prompt", "data"))
    longest = max(map(len, rows))
    spec["padding"] = {"left": 5 + 7 * max(0, longest - 20), "right": 5, "top": 5, "bottom": 5}
    accuracies = [row["d"] for row in data]
    description = (
        f"Heat map of {len(rows)} models and prompts on {len(comparison.data)} data sets:"
        f" {HEADLINE.words} between {min(accuracies):.1%} and {max(accuracies):.1%}."
    )
    return Figure(
        slug("prompts", *comparison.place),
        f"{HEADLINE.title} in % by model, prompt and data set, on {comparison.place.set}",
        "Framed: the best prompt of a model on a data set, chosen by these very rows.",
        description,
        chart(spec, {"rows": data}, most=1.0),
        "step",
        names=7 * longest,
    )

"""The table of the results of benchmarks/speed/study.py."""

from __future__ import annotations

import statistics
from typing import Any

from crosswind.evaluation.compare import Difference, paired, summary

__all__ = ["GOALS", "OURS", "SIDES", "table"]

OURS = ("fp32", "bf16")
SIDES = ("reference", "fair", *OURS)
GOALS = {
    ("mlp", "fp32"): 3.0,
    ("mlp", "bf16"): 4.0,
    ("small-cnn", "fp32"): 2.5,
    ("small-cnn", "bf16"): 3.8,
    ("resnet18", "fp32"): 1.6,
    ("resnet18", "bf16"): 2.4,
}
"""How many times as fast as the reference way; 85% of a figure counts as reached."""

HEAD = (
    "model",
    "side",
    "runs",
    "wall s a run",
    "CPU s a run",
    "x reference, wall (range)",
    "x reference, CPU (range)",
    "x its loops alone",
    "goal",
    "whole study",
    "x fair, wall (range)",
    "test accuracy",
    "less the reference's",
)


def table(results: dict[str, Any]) -> str:
    """Markdown: a row for each model and side.

    Ratios are reference / side of the same block: median and range. Whole study: all blocks, and
    the start of the pool. Its loops alone: as if the processes of the reference way started in no
    time. Seconds a run: a block's by the number of its runs, the median. Accuracies: mean and 95%
    t-interval over the seeds; differences paired by
    seed, "equal" where the interval holds 0.
    """
    lines = [said(results)]
    lines += ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for model in dict.fromkeys(item["model"] for item in results["blocks"]):
        blocks = {
            side: {
                b["block"]: b for b in results["blocks"] if (b["model"], b["side"]) == (model, side)
            }
            for side in SIDES
        }
        start = results["starts"].get(model, {"wall": 0.0, "cpu": 0.0})
        goals = {} if "device" in results["settings"] else GOALS  # which are for two cores
        for side in SIDES:
            if blocks[side]:
                lines.append(
                    "| "
                    + " | ".join([model, side, *_row(model, side, blocks, start, goals)])
                    + " |"
                )
    for model, start in results["starts"].items():
        lines.append(
            f"\nStart of the pool, once a study of {model}: {start['wall']:.1f} s wall,"
            f" {start['cpu']:.1f} s CPU."
        )
    return "\n".join(lines)


def said(results: dict[str, Any]) -> str:
    """Machine and settings in a paragraph."""
    facts, settings = results["machine"], results["settings"]
    device = f"one {facts['device']} for all, " if "device" in settings else ""
    return (
        f"Runs of {settings['steps']} steps, {settings['at_once']} at once;"
        f" {device}{facts['cores']} cores of {facts['cpu']}, torch {facts['torch']}, torchvision"
        f" {facts['torchvision']}, Python {facts['python']}.\n"
    )


def _row(
    model: str,
    side: str,
    blocks: dict[str, dict[int, Any]],
    start: dict[str, float],
    goals: dict[tuple[str, str], float],
) -> list[str]:
    mine, reference = blocks[side], blocks["reference"]
    out = [str(sum(len(b["runs"]) for b in mine.values()))]
    out += [
        f"{statistics.median(b[kind] / len(b['runs']) for b in mine.values()):.1f}"
        for kind in ("wall", "cpu")
    ]
    same = side == "reference"
    goal = goals.get((model, side))
    out += [
        "" if same else ratios(reference, mine, "wall"),
        "" if same else ratios(reference, mine, "cpu"),
    ]
    loops = {
        number: {"wall": max(run["loop_seconds"] for run in b["runs"])}
        for number, b in reference.items()
    }
    out.append(ratios(loops, mine, "wall") if side in OURS else "")
    out.append("" if goal is None else f"{goal:g}")
    shared = [number for number in mine if number in reference]
    if side in OURS and shared:
        whole = sum(mine[number]["wall"] for number in shared) + start["wall"]
        out.append(f"{sum(reference[number]['wall'] for number in shared) / whole:.2f}")
    else:
        out.append("")
    out.append(ratios(blocks["fair"], mine, "wall") if side in OURS else "")
    scores = {
        name: {run["seed"]: run["accuracy"] for b in blocks[name].values() for run in b["runs"]}
        for name in (side, "reference")
    }
    found = summary(list(scores[side].values()))
    out.append(
        f"{found.mean:.3f}" + ("" if found.low is None else f" [{found.low:.3f}, {found.high:.3f}]")
    )
    out.append("" if same else _difference(paired(scores["reference"], scores[side])))
    return out


def ratios(slow: dict[int, Any], fast: dict[int, Any], kind: str) -> str:
    """Median and range over the blocks that both have."""
    found = [slow[number][kind] / fast[number][kind] for number in fast if number in slow]
    return f"{statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f})" if found else ""


def _difference(found: Difference | None) -> str:
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.mean:+.3f}"
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]" + (
        ", equal" if found.low <= 0 <= found.high else ", differs"
    )

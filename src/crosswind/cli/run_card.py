"""The text of `crosswind show run`: one job of a store in the words of a study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import yaml

from crosswind.cli.options import bytes_text
from crosswind.core.errors import counted
from crosswind.core.printing import duration

_KINDS = {
    "fit": "training",
    "promote": "whether a point of a search goes on",
    "predict": "answers on a set",
    "vary": "answers to changed copies",
    "estimate": "estimates of accuracy",
    "score": "a row of the tables",
}
"""A kind of job in words."""
_FACTS = {
    "n": "rows",
    "unparsed": "answers that were not read",
    "majority": "share of the most frequent class",
    "worst_group_name": "the worst group",
    "worst_group_n": "rows of the worst group",
    "groups_skipped": "groups without a row",
    "nll": "mean negative log likelihood",
    "ece": "expected calibration error",
    "non_finite": "outputs that are no numbers",
    "selected_step": "the step that was chosen",
    "ties": "steps that validated alike",
    "train_shared": "share of the training rows that two seeds have in common",
}
"""What stands beside the metrics of a score, in words."""
_SHARES = ("majority", "train_shared")


def run_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """The lines on a job, as `Store.run` has it; `needs` and `answers` are those of `show run`."""
    kind = str(record["kind"])
    yield f"{record['key']}: {_KINDS.get(kind, kind)}, {record['status']}"
    for entry in record["studies"]:
        labels = {name: value for name, value in entry["labels"].items() if value not in ("", None)}
        words = (f"{name} {value}" for name, value in labels.items() if name != "role")
        yield f"  in the study {entry['study']}: {', '.join(words)}"
    yield from _course(record)
    for name in ("reason", "cause", "detail"):
        if record.get(name):
            yield f"{name}: {record[name]}"
    for warning in record["warnings"] or []:
        yield f"warning: {warning}"
    yield from _scores(record["scores"])
    for job in (record, *record["needs"]):
        if settings := job["spec"]:
            yield f"Settings of the {_KINDS.get(job['kind'], job['kind'])}"
            yield from _indented(
                yaml.safe_dump(_written(settings), sort_keys=False, allow_unicode=True)
            )
    yield from _cost(record["cost"] or {})
    yield from _files(record)


def _files(record: Mapping[str, Any]) -> Iterator[str]:
    """The files that a job left and needed, and the versions that did it."""
    for job in record["needs"]:
        kind = _KINDS.get(job["kind"], job["kind"])
        yield f"Needs {job['key']}: {kind}, {job['status']}; files: {job['artifacts'] or 'none'}"
    if record["files"]:
        yield f"Files in {record['artifacts'] or 'a folder that is gone'}"
        yield from _indented(
            "\n".join(f"{name}  {bytes_text(file[0])}" for name, file in record["files"].items())
        )
    for path in record["answers"]:
        yield f"Answers in words: {path}"
    versions = (record["versions"] or {}).items()
    if versions:
        yield "Versions: " + ", ".join(f"{name} {version}" for name, version in versions)


def _course(record: Mapping[str, Any]) -> Iterator[str]:
    """When, where and in how many tries a job ran."""
    words = []
    if record["started"]:
        begun = datetime.fromtimestamp(record["started"], UTC)
        words.append(f"began {begun:%Y-%m-%d %H:%M:%S} UTC")
    if record["seconds"] is not None:
        words.append(f"took {duration(record['seconds'])}")
    if record["attempts"]:
        words.append(f"tried {counted(record['attempts'], 'time')}")
    if record["worker"]:
        words.append(f"{record['worker']} of {record['driver']}")
    if words:
        yield f"  {', '.join(words)}"


def _scores(scores: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The scores of a job by set and rule."""
    from crosswind.evaluation.metrics import METRICS

    for score in scores:
        rule = f"by {score['rule']}" if score["rule"] else "all rules"
        yield f"Scores on {score['set']}, {rule}"
        for name, value in score["metrics"].items():
            if isinstance(value, int | float | str) and not isinstance(value, bool):
                metric = METRICS.get(name)
                title = _FACTS.get(name) or name.replace("_", " ")
                unit = "fraction" if name in _SHARES else metric.unit if metric else ""
                yield f"  {title}: {_number(value, unit)}"


def _number(value: float | str, unit: str) -> str:
    """A score as tables write it."""
    if isinstance(value, str):
        return value
    if unit == "fraction":
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _cost(cost: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a job's time, and its memory."""
    from crosswind.reports.runs.tables import PARTS

    seconds_of = {words: cost.get(f"{name}_seconds") for name, words in PARTS.items()}
    durations = [f"{words} {duration(seconds)}" for words, seconds in seconds_of.items() if seconds]
    if durations:
        yield f"Time: {', '.join(durations)}"
    if cost.get("steps"):
        yield f"Steps: {cost['steps']:,.0f}, {cost.get('images_per_second') or 0:,.0f} rows a second"
    if cost.get("peak_memory_bytes"):
        yield f"Peak memory: {bytes_text(cost['peak_memory_bytes'])}"


def _written(value: Any) -> Any:
    """Settings without those that have no value."""
    if isinstance(value, Mapping):
        plain = {name: _written(entry) for name, entry in value.items() if name != "format"}
        return {name: entry for name, entry in plain.items() if entry not in (None, {}, [])}
    return [_written(entry) for entry in value] if isinstance(value, list | tuple) else value


def _indented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"  {line}"

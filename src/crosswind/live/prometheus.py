"""The state of a study as Prometheus reads it: text exposition format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Samples = list[tuple[dict[str, str], float]]


def exposition(state: Mapping[str, Any]) -> str:
    """The metrics of a state that `LiveStudy.look` gave; gauges, since a
    store may lose runs, and one summary of seconds."""
    return "".join(f"{line}\n" for line in _lines(state))


def _lines(state: Mapping[str, Any]) -> Iterator[str]:
    study = {"study": str(state["study"])}
    for name, help_text, samples in (
        (
            "crosswind_runs",
            "Runs of the study by status; pending until the network is trained, see crosswind_jobs_running.",
            [({**study, "status": status}, n) for status, n in state["counts"].items()],
        ),
        (
            "crosswind_method_runs",
            "Runs of each method by status.",
            _by_label(study, "method", state["methods"], state["counts"]),
        ),
        (
            "crosswind_shift_runs",
            "Runs under each shift by status.",
            _by_label(study, "shift", state["shifts"], state["counts"]),
        ),
        (
            "crosswind_failed_runs",
            "Failed runs by what of the machine stopped them; empty: the run itself.",
            [
                ({**study, "cause": cause}, number)
                for cause, number in state["failed_by_cause"].items()
            ],
        ),
        (
            "crosswind_jobs_running",
            "Jobs of the study, trainings of networks among them, that living drivers have at work.",
            [(study, state["jobs_running"])],
        ),
        (
            "crosswind_drivers_alive",
            "Drivers of the store that live, whichever study they drive.",
            [(study, sum(worker["alive"] for worker in state["workers"]))],
        ),
        (
            "crosswind_runs_per_hour",
            "Runs finished an hour, over the last minutes.",
            [(study, state["runs_per_hour"])],
        ),
        (
            "crosswind_seconds_left",
            "Time left at that rate; absent where none has finished lately.",
            [] if state["seconds_left"] is None else [(study, state["seconds_left"])],
        ),
    ):
        yield f"# HELP {name} {help_text}"
        yield f"# TYPE {name} gauge"
        for labels, value in samples:
            yield f"{name}{_in_braces(labels)} {float(value)!r}"
    name = "crosswind_job_seconds"
    yield f"# HELP {name} Seconds of the jobs of the study that ended, by kind; jobs done in one go have those of all."
    yield f"# TYPE {name} summary"
    for kind, ended in state["job_seconds"].items():
        of_kind = _in_braces({**study, "kind": kind})
        yield f"{name}_sum{of_kind} {float(ended['seconds'])!r}"
        yield f"{name}_count{of_kind} {float(ended['number'])!r}"


def _by_label(
    study: Mapping[str, str], label: str, rows: Any, statuses: Mapping[str, Any]
) -> Samples:
    return [
        ({**study, label: row["name"], "status": status}, row[status])
        for row in rows
        for status in statuses
    ]


def _in_braces(labels: Mapping[str, str]) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{{{written}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

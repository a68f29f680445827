"""Does each method help where its paper says that it does: studies with claims, run and recorded
with the figures of every seed.

    python -m benchmarks.papers.effects NAME ...              explore: run studies as their files say; no record is written
    python -m benchmarks.papers.effects [NAME ...] --confirm  run studies (default: all) on held-out rows and seeds, and record them
    python -m benchmarks.papers.effects --check               say which records are stale; status 1 if one is
    python -m benchmarks.papers.effects --table               print the tables of the page

A subject is benchmarks/effects/NAME.yaml, an ordinary study with `claims`; its record is
benchmarks/results/effects/NAME.json. The split seed and the seeds in that file are for exploring:
for choosing a task and its settings. A record is made by --confirm alone, on a split seed and seeds
from benchmarks/papers/confirmation.yaml, which nothing else reads. Before a study is confirmed, the hash
of its file and the time go to benchmarks/results/effects-confirmations.json. A study that was
changed after a confirmation is another form of it: it is confirmed on rows and seeds of its own,
and its record says how many forms there were.
Both sides of every claim must search equally many points and have at least eight seeds. A record is
stale once the study, its claims or the file of its method changed. Runs go to a scratch store, or
to DIR/NAME, which goes on after a stop. A record is replaced when its study is whole: a failed run
or a stop leaves the old one. The page's tables are renewed with it.
Up to 6 minutes a study on two quiet cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.papers.effects_table import (
    CONFIRMATIONS,
    PAGE,
    RECORDS,
    STUDIES,
    page,
    records,
    stale,
    study_hashes,
    study_names,
    subject_files,
    table,
    tables,
)

from crosswind.api import run_study
from crosswind.core.errors import CrosswindError
from crosswind.core.files import write_atomically
from crosswind.reports.claims.judgements import JudgedSide, Judgement, judge
from crosswind.reports.scores.notes import at_chance
from crosswind.reports.scores.results import LEVEL, arrange
from crosswind.studies.plan import make_plan
from crosswind.studies.reading import read_study_file
from crosswind.studies.spec import Study, load_study

LEAST_SEEDS = 8
HELD_OUT = Path(__file__).resolve().parent / "confirmation.yaml"


def check_plan(path: Path) -> Study:
    """The study, if it can be recorded: with claims, equal grids and enough seeds. Nothing is
    trained."""
    planned = make_plan(load_study(str(path)), path.parent)
    study = planned.study
    if not study.claims:
        raise SystemExit(f"{path.name}: the study claims nothing")
    if study.name != path.stem:
        raise SystemExit(f"{path.name}: the study is named {study.name!r}; leave its name out")
    if len(study.seed_list) < LEAST_SEEDS:
        raise SystemExit(
            f"{path.name}: {len(study.seed_list)} seeds are too few; give at least {LEAST_SEEDS}"
        )
    pending = {"study": study.name, "status": "pending", "rule": None, "set": None, "metrics": None}
    rows = [{**run.labels, **pending} for run in planned.runs if run.labels.get("role") != "base"]
    found = judge(arrange(rows), study.model_dump())
    for item in found:
        if item.better.tried != item.than.tried:
            raise SystemExit(
                f"{path.name}: claim {item.number} compares {item.better.method} over"
                f" {item.better.tried} points with {item.than.method} over {item.than.tried}; give"
                " both grids the same size"
            )
    return study


def held_out(name: str, form: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The form of a study that is to be confirmed, with the `split_seed` and the `seeds`, so many,
    that are its own.

    `form` has the hashes of what would be confirmed. A new form is written down with the time
    before anything runs, so that every look at held-out rows is counted; a form that is known is
    confirmed on what it was confirmed on before.
    """
    began = json.loads(CONFIRMATIONS.read_text(encoding="utf-8")) if CONFIRMATIONS.exists() else {}
    forms = began.setdefault(name, [])
    known = next(
        (item for item in forms if all(item[key] == value for key, value in form.items())), None
    )
    if known is None:
        known = {
            "form": len(forms) + 1,
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **form,
        }
        forms.append(known)
        write_atomically(
            CONFIRMATIONS, (json.dumps(began, indent=1, sort_keys=True) + "\n").encode()
        )
    base = read_study_file(HELD_OUT)
    first = base["first_seed"] + 1000 * known["form"]
    return {
        **known,
        "split_seed": base["split_seed"] + known["form"],
        "seeds": list(range(first, first + number)),
    }


def recorded(name: str, workers: int, folder: Path, confirm: bool) -> dict[str, Any]:
    """Run a study in `folder` and return its record. Raises `SystemExit` where there can be
    none."""
    path = STUDIES / f"{name}.yaml"
    study = check_plan(path)
    values = read_study_file(path)
    # Of the files as they are when the runs begin: one that is changed meanwhile makes the record
    # stale.
    form = {"study_sha256": study_hashes(values), "files": subject_files(name, values)}
    if confirm:
        looked_at = held_out(name, form, len(study.seed_list))
    else:
        looked_at = {
            **form,
            "form": None,
            "began": None,
            "split_seed": study.split_seed,
            "seeds": study.seed_list,
        }
    settings = [f"{key}={json.dumps(looked_at[key])}" for key in ("split_seed", "seeds")]
    wall, cpu = time.perf_counter(), _cpu_seconds()
    shown = {"at": 0.0}

    def show(progress: Any) -> None:
        if time.monotonic() - shown["at"] > 20:
            shown["at"] = time.monotonic()
            left = "" if progress.left is None else f", about {progress.left / 60:.0f} min left"
            print(f"{name}: {progress.done} of {progress.total} runs{left}", flush=True)

    results = run_study(path, folder, workers=workers, settings=settings, on_event=show)
    seconds, spent = time.perf_counter() - wall, _cpu_seconds() - cpu
    rows = [row for row in results.rows if row.get("role") != "base"]
    if results.summary.failed:
        failed = next(row for row in results.rows if row["status"] == "failed")
        raise SystemExit(
            f"{name}: {results.summary.failed} runs failed, so nothing is recorded; the first:"
            f" {failed['reason']}"
        )
    judged = judge(arrange(rows), study.model_dump())
    done = results.summary.finished + results.summary.diverged
    return {
        "name": name,
        "command": (
            f"python -m benchmarks.papers.effects {name} --workers {workers}"
            + (" --confirm" if confirm else "")
        ),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seconds": round(seconds, 1),
        # Of a store that was there already only a part was done now.
        "cpu_seconds": round(spent, 1) if results.summary.executed == done else None,
        "runs": {
            "finished": results.summary.finished,
            "diverged": results.summary.diverged,
            "failed": results.summary.failed,
        },
        "machine": machine(),
        **looked_at,
        "claims": [_claim(item) for item in judged],
    }


def _claim(item: Judgement) -> dict[str, Any]:
    difference = replace(
        item, level=LEVEL
    ).difference  # records keep the 95% interval of each claim alone, as they always did
    if (
        difference is None
        or difference.low is None
        or difference.high is None
        or difference.n < LEAST_SEEDS
    ):
        raise SystemExit(
            f"{item.place.study}: claim {item.number} under {item.shift} has fewer than"
            f" {LEAST_SEEDS} pairs of seeds"
        )
    sides = {"better": _side(item.better, item.metric), "than": _side(item.than, item.metric)}
    return {
        "number": item.number,
        "text": item.text,
        **{name: value for name, value in item.place._asdict().items() if name != "study"},
        "shift": item.shift,
        "metric": item.metric,
        **{
            name: round(sum(side["values"].values()) / len(side["values"]), 6)
            for name, side in sides.items()
        },
        "difference": round(difference.mean, 6),
        "low": round(difference.low, 6),
        "high": round(difference.high, 6),
        "n": difference.n,
        # None where all seeds differ by the same amount: such a difference says nothing of its
        # uncertainty.
        "p": difference.p,
        "p_adjusted": item.adjusted,
        "family": item.family,
        "verdict": item.verdict,
        "sides": sides,
    }


def _side(side: JudgedSide, metric: str) -> dict[str, Any]:
    entry = side.entry
    return {
        "method": side.method,
        "model": side.model,
        "points": side.tried,
        "values": {
            str(seed): round(value, 6) for seed, value in sorted(entry.values(metric).items())
        },
        "chosen": {str(seed): point for seed, point in sorted(entry.chosen.items())},
        "diverged": sorted(entry.diverged),
        "doubts": {text: sorted(seeds) for text, seeds in entry.doubts.items()},
        "chance": at_chance(entry, metric),
    }


def machine() -> dict[str, Any]:
    """What the figures may depend on."""
    from crosswind.execution.jobs import run_versions

    names = [
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if "model name" in line
    ]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": names[0] if names else platform.machine(), "cores": cores, **run_versions()}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _cpu_seconds() -> float:
    """Of this process and of the workers that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def explore(names: Sequence[str], workers: int, keep: Path | None) -> None:
    """Run studies as their files say and print what comes out; no record is written."""
    for name in names:
        print(table({name: _run(name, workers, keep, False)}), flush=True)


def confirm(names: Sequence[str], workers: int, keep: Path | None) -> None:
    """Run studies on held-out rows and seeds; each record is written when its study is whole."""
    for name in names:
        record = _run(name, workers, keep, True)
        RECORDS.mkdir(parents=True, exist_ok=True)
        write_atomically(
            RECORDS / f"{name}.json",
            (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode(),
        )
        write_atomically(PAGE, page(PAGE.read_text(encoding="utf-8"), records()).encode())
        print(table({name: record}), flush=True)


def _run(name: str, workers: int, keep: Path | None, confirmed: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        return recorded(
            name, workers, Path(scratch, name) if keep is None else keep / name, confirmed
        )


def check() -> int:
    """Say which records are stale; 1 if one is."""
    found = records()
    reasons = {name: stale(name, found.get(name)) for name in sorted({*study_names(), *found})}
    for name, reason in reasons.items():
        if reason:
            print(f"{name}: {reason}")
    fresh = sum(not reason for reason in reasons.values())
    print(f"{fresh} of {len(reasons)} records are fresh")
    return 0 if fresh == len(reasons) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="subjects; with --confirm all by default"
    )
    parser.add_argument(
        "--confirm",
        action="store_true",
        help="run on held-out rows and seeds, and write the records",
    )
    parser.add_argument("--workers", type=int, default=1, help="runs at once")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep the stores in DIR, and go on from what they hold",
    )
    parser.add_argument(
        "--table", action="store_true", help="print the tables of the records and stop"
    )
    parser.add_argument("--check", action="store_true", help="say which records are stale and stop")
    options = parser.parse_args()
    if options.table:
        print(tables(records()), end="")
        return 0
    if options.check:
        return check()
    if options.workers < 1:
        parser.error(f"--workers must be at least 1, not {options.workers}")
    unknown = sorted(set(options.names) - set(study_names()))
    if unknown:
        parser.error(f"unknown subject {unknown[0]!r}; there are {', '.join(study_names())}")
    if not options.names and not options.confirm:
        parser.error(f"name the studies to explore; there are {', '.join(study_names())}")
    try:
        (confirm if options.confirm else explore)(
            options.names or study_names(), options.workers, options.keep
        )
    except CrosswindError as error:
        raise SystemExit(str(error)) from None
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

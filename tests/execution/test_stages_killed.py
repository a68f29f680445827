"""Methods of several stages in one study, each killed in the middle of each of its stages; and the
networks that they share."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.execution.killed import go_on, lines
from tests.execution.test_whole_runs import artifacts
from tests.methods.digits import STUDY

from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

STAGES = {
    "erm": ["main"],
    "ada": ["phase-1", "phase-2", "main"],
    "me-ada": ["phase-1", "phase-2", "main"],
    "beta-vae": ["encoder", "main"],
    "cyclegan": ["translator", "main"],
    "bpa": ["main"],
    "jtt": ["main"],
    "l2d": ["main"],
    "occamnets": ["main"],
    "pnd": ["warm-up", "main"],
    "ubnet": ["main"],
}
SETTINGS: dict[str, dict[str, Any]] = {
    "ada": {"share": 0.34},
    "me-ada": {"share": 0.34},
    "bpa": {"k": [2, 4]},
    "jtt": {"up": [5, 20], "fit_at": None},
    "ubnet": {"weight": [0.1, 1.0]},
    "cyclegan": {"width": 2, "blocks": 1},
    "beta-vae": {"channels": 4, "latents": 8},
}
NINE: dict[str, Any] = {
    **STUDY,
    "methods": {name: SETTINGS.get(name, {}) for name in STAGES},
    "environments": ["size"],
    "groups": ["ink"],
    "training": {
        "steps": 12,
        "batch": 32,
        "validate_every": 2,
        "checkpoint_seconds": 0,
        "lr": 3e-3,
    },
}


def tries(out: Path, log: Path, kills: bool) -> list[int | None]:
    """How each process ended that went on with the study; until one was not killed."""
    context, ends = multiprocessing.get_context("forkserver"), list[int | None]()
    context.set_forkserver_preload(
        ["tests.execution.killed", "crosswind.training.loop", "sklearn.cluster"]
    )
    while not ends or ends[-1] == -signal.SIGKILL:
        process = context.Process(target=go_on, args=(NINE, str(out), str(log), kills))
        process.start()
        process.join()
        ends.append(process.exitcode)
        assert len(ends) < 60
    return ends


def kills_in(log: list[list[str]]) -> list[tuple[str, str, int]]:
    """The run, the stage and the step of each kill."""
    killed = []
    for word, key, *moment in log:
        if word == "killed":
            stage, step = moment
            killed.append((key, stage, int(step)))
    return killed


def counted(log: list[list[str]], word: str) -> Counter[str]:
    """How often each run wrote this word."""
    return Counter(words[1] for words in log if words[0] == word)


@pytest.mark.slow
def test_every_stage_is_killed_and_gone_on_with_and_first_networks_are_trained_once(
    tmp_path: Path,
) -> None:
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    assert tries(calm, tmp_path / "calm.log", False) == [0]
    ends = tries(rough, tmp_path / "rough.log", True)

    plan = make_plan(study_from(NINE, name="killed"))
    fits = {job.key: job for job in plan.jobs if job.kind == "fit"}
    bases = [key for key, job in fits.items() if job.labels.get("role") == "base"]
    # One of bpa and ubnet, and one of jtt, which stops by another rule; of six points that start
    # from them.
    assert len(bases) == 2
    assert sorted(sum(key in job.needs for job in fits.values()) for key in bases) == [2, 4]

    log_lines_read = lines(tmp_path / "rough.log")
    killed = kills_in(log_lines_read)
    stages = {
        key: ["main"] if key in bases else STAGES[job.spec["method"]["name"]]
        for key, job in fits.items()
    }
    assert sorted((key, stage) for key, stage, _ in killed) == sorted(
        (key, stage) for key in fits for stage in stages[key]
    )
    assert ends == [-signal.SIGKILL] * len(killed) + [0]
    for key, stage, step in killed:
        later = [int(words[3]) for words in log_lines_read if words[:3] == ["at", key, stage]]
        assert later and min(later) > step, "it went on behind the kill, in the middle of the stage"

    begun, done = (counted(log_lines_read, word) for word in ("begun", "done"))
    assert done == dict.fromkeys(fits, 1)
    assert begun == {key: 1 + len(stages[key]) for key in fits}, (
        "each kill costs one new beginning, and what is done is not done again"
    )
    calmly_begun = counted(lines(tmp_path / "calm.log"), "begun")
    assert [calmly_begun[key] for key in bases] == [1] * len(bases)
    assert artifacts(rough) == artifacts(calm)
    assert len(artifacts(calm)) >= len(fits)

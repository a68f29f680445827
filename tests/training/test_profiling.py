"""A trace of a run: it changes no number, holds a few steps and one validation, stays small, and
may fail without the run."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from typing import Any

import pytest
import torch
from tests.training.world import run, same_weights

from crosswind.methods.erm import ERM
from crosswind.training import profiling
from crosswind.training.loop import Trajectory
from crosswind.training.profiling import STEPS, WARM_UP, Profile

LONG = {"steps": 16, "validate_every": 16}


def numbers(trajectory: Trajectory) -> Any:
    rows = [
        {key: value for key, value in row.items() if key != "seconds"} for row in trajectory.history
    ]
    logits = {
        rule: {name: set_predictions.logits.tolist() for name, set_predictions in sets.items()}
        for rule, sets in trajectory.predictions.items()
    }  # type: ignore[union-attr]
    return rows, logits


def spans(profile: Profile) -> Counter[str]:
    events = json.loads(gzip.decompress(profile.trace))["traceEvents"]
    return Counter(
        event["name"]
        for event in events
        if event.get("ph") == "X" and event.get("cat") == "user_annotation"
    )


def test_a_traced_run_has_the_same_bits_and_a_silent_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    plain = run(ERM(), **LONG)
    profile = Profile("cpu")
    begun = time.perf_counter()
    traced = run(ERM(), **LONG, profile=profile)
    taken = time.perf_counter() - begun
    assert 0 < profile.seconds <= taken - traced.cost["total_seconds"], (
        "the trace is none of the run's cost"
    )
    assert numbers(plain) == numbers(traced) and same_weights(plain, traced)
    assert profile.trouble == ""
    spans_found = spans(profile)
    assert spans_found["training step"] == STEPS and spans_found["validation"] == 1
    assert (
        "aten::" in profile.table
        and "Training steps" in profile.table
        and "A validation" in profile.table
    )
    assert len(profile.trace) < 2e6
    assert capfd.readouterr().err == ""


def test_a_validation_among_the_steps_is_traced_with_them() -> None:
    profile = Profile("cpu")
    run(ERM(), steps=30, validate_every=5, profile=profile)
    assert spans(profile)["training step"] == STEPS and spans(profile)["validation"] == 1
    assert "A validation" not in profile.table


def test_a_run_that_ends_early_is_traced_as_far_as_it_went() -> None:
    profile = Profile("cpu")
    run(ERM(), steps=2 * WARM_UP - 1, validate_every=100, profile=profile)
    assert (
        spans(profile)["training step"] == WARM_UP and spans(profile)["validation"] == 1
    )  # the first two warm up
    short, none = Profile("cpu"), Profile("cpu")
    run(ERM(), steps=1, profile=short)
    assert spans(short)["training step"] == 1
    run(ERM(), steps=0, profile=none)
    assert none.trace == b"" and none.trouble == "the run had no step left to trace"


def test_the_trace_of_a_large_run_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "MAX_EVENTS", 50)
    profile = Profile("cpu")
    run(ERM(), **LONG, profile=profile)
    events = json.loads(gzip.decompress(profile.trace))["traceEvents"]
    assert sum(event["ph"] != "M" for event in events) == 100
    assert "later events are not in the trace" in profile.table


@pytest.mark.parametrize("broken", ["start", "stop", "export_chrome_trace"])
def test_a_profiler_that_fails_does_not_fail_the_run(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(ERM(), **LONG)

    def fail(*_: Any) -> None:
        raise RuntimeError("no profiler\nhere")

    own_profile = torch.profiler.profile
    broken_class = type("Broken", (own_profile,), {broken: fail})
    monkeypatch.setattr(torch.profiler, "profile", broken_class)
    profile = Profile("cpu")
    assert numbers(run(ERM(), **LONG, profile=profile)) == numbers(plain)
    assert (
        profile.trace == b""
        and profile.trouble.startswith("torch's profiler")
        and profile.trouble.endswith("no profiler here")
    )
    monkeypatch.undo()
    torch.autograd._disable_profiler() if torch.autograd._profiler_enabled() else None


def test_a_run_that_fails_fails_as_without_a_trace() -> None:
    def stop(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    profile = Profile("cpu")
    with pytest.raises(KeyboardInterrupt):
        run(ERM(), **LONG, profile=profile, progress=stop)
    assert profile.trace == b"" and not torch.autograd._profiler_enabled()

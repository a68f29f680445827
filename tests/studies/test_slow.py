"""A study that asks this processor for bfloat16, and the processor has none, is told so by its
plan, its run and by `train`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core import processor

STUDY: dict[str, Any] = {
    "name": "small",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {"none": []},
    "sizes": {"equal": {"total": 100}},
    "models": {"small": {"model": "mlp", "hidden": 16, "layers": 1}},
    "training": {"steps": 2, "batch": 16, "validate_every": 2},
    "seeds": 1,
}
SAID = "training.precision = bf16 asks for bfloat16, and this processor has no instructions for it"


@pytest.fixture(params=["without", "with"])
def has(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the processor computes bfloat16."""
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(processor, "_instructions", lambda: request.param == "with")
    return bool(request.param == "with")


def planned(training: dict[str, Any] | None = None, **changes: Any) -> tuple[str, ...]:
    return cw.plan(
        {**STUDY, "training": {**STUDY["training"], **(training or {})}, **changes}
    ).warnings


@pytest.mark.parametrize(
    ("training", "changes"),
    [
        ({"precision": "bf16"}, {}),
        ({"precision": ["fp32", "bf16"]}, {}),
        ({}, {"methods": {"erm": {}, "low": {"method": "erm", "training": {"precision": "bf16"}}}}),
    ],
)
def test_a_plan_says_it_once(training, changes, has: bool) -> None:
    sentences = [text for text in planned(training, **changes) if "bfloat16" in text]
    assert len(sentences) == (0 if has else 1) and all(text.startswith(SAID) for text in sentences)


@pytest.mark.parametrize(
    "training",
    [{}, {"precision": "fp32"}, {"precision": "fp64"}, {"precision": "bf16", "device": "cuda"}],
)
def test_a_plan_of_other_arithmetic_or_another_device_says_nothing(training, has: bool) -> None:
    assert not [text for text in planned(training) if "bfloat16" in text]


@pytest.mark.usefixtures("in_this_process")
def test_plan_and_run_print_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crosswind.reports import page

    monkeypatch.setattr(page, "runtime", lambda: "var vegaEmbed;")
    study = tmp_path / "small.yaml"
    study.write_text(yaml.safe_dump(STUDY), encoding="utf-8")
    low = ["--set", "training.precision=bf16"]
    for command in (
        ["plan", str(study), *low],
        ["run", str(study), *low, "--workers", "1", "--out", str(tmp_path / "out")],
    ):
        assert _status(command) == 0
        assert (f"warning: {SAID}" in capfd.readouterr().err) is not has


def test_train_says_it(has: bool) -> None:
    digits = cw.load("digits")
    split = cw.split(digits, "digit", ["ink", "size"], draw={"total": 100})
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cw.train("erm", split, digits, model="mlp", steps=1, batch=8, precision="bf16")
        cw.train("erm", split, digits, model="mlp", steps=1, batch=8)
    assert [str(warning.message).partition(",")[0] for warning in warned] == (
        [] if has else ["precision = 'bf16' asks for bfloat16"]
    )
    assert all(warning.filename == __file__ for warning in warned)

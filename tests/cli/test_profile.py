"""`crosswind run --profile`, as a person types it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crosswind.cli.main import _status

STUDY = """
data: {digits: {source: digits, label: digit, attributes: [ink, size], roles: {test: 2, validation: 0.15}}}
shifts: {none: []}
sizes: {equal: {total: 100}}
models: {small: {model: mlp, hidden: 16, layers: 1}}
training: {steps: 12, batch: 16, validate_every: 6}
seeds: 1
"""


@pytest.mark.slow
def test_traces_are_written_once_and_it_is_said_where(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from crosswind.reports import page

    monkeypatch.setattr(page, "runtime", lambda: "var vegaEmbed;")
    study, out = tmp_path / "small.yaml", tmp_path / "out"
    study.write_text(STUDY)
    command: list[Any] = ["run", str(study), "--workers", "1", "--out", str(out), "--profile"]
    assert _status(command) == 0
    first = capfd.readouterr()
    assert f"1 trace in {out / 'profile'}: open a .json.gz at https://ui.perfetto.dev" in first.out
    assert (out / "profile" / "digits-small-erm.json.gz").stat().st_size < 1e6
    assert all(line.startswith("small: ") for line in first.err.splitlines()), first.err
    assert _status([*command, "--json"]) == 0
    again = capfd.readouterr()
    assert "Nothing was profiled: every run is done" in again.err and "profiled" not in again.out

"""A study of real runs whose files are damaged: what each verb says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.cli.test_bad_inputs import GOOD

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.store import Store


@pytest.mark.slow
def test_no_verb_is_silent_about_damaged_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = {**GOOD, "name": "it", "shifts": {"none": []}, "methods": {"erm": {}, "groupdro": {}}}
    (tmp_path / "it.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    out = tmp_path / "out"
    first, other = (
        row["key"]
        for row in cw.run_study(study, out).rows
        if (row["rule"], row["set"]) == ("last", "test")
    )
    with Store.open(out) as store:
        second = store.run(other)["needs"][0]  # its fit
    again = ["run", str(tmp_path / "it.yaml"), "--out", str(out), "--workers", "1"]
    for verb in (["check", str(out)], ["status", str(out)], ["report", str(out), "--no-page"]):
        assert _status(verb) == 0
        printed = capsys.readouterr()
        assert "damaged" not in printed.err and ("0 of them" in printed.out) == (verb[0] == "check")

    report = (
        artifact_folder(out, first) / "split.json"
    )  # one bit of what the page shows of the draw
    report.write_bytes(report.read_bytes().replace(b"train", b"tqain", 1))
    assert _status(["report", str(out)]) == 0
    assert (
        f"warning: study it: files of 1 jobs are gone or damaged ({first[:12]}: split.json is not"
        in capsys.readouterr().err
    )

    (artifact_folder(out, second) / "predictions.npz").unlink()
    for verb in (["status", str(out)], ["report", str(out), "--no-page"], again):
        assert _status(verb) == 0
        assert f"{second[:12]}: predictions.npz is gone" in capsys.readouterr().err
    assert _status(["check", str(out), "--repair"]) == 1
    assert "2 jobs are pending again" in capsys.readouterr().out
    assert cw.run_study(study, out).summary.executed == 2 and _status(["check", str(out)]) == 0

"""What keeps a study from being planned is told at once, and how many runs it has all the same."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any

import pytest
import yaml

import crosswind
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.studies import plan as planning
from crosswind.studies.obstacles import count_runs
from crosswind.studies.plan import make_plan, plan_of
from crosswind.studies.reading import read_study_file, shipped_studies
from crosswind.studies.spec import load_study, study_from

STUDIES = Path(crosswind.__file__).parents[2] / "studies"
STUDY: dict[str, Any] = {
    "data": {"digits": {"source": "digits", "label": "digit", "attributes": ["ink"]}},
    "shifts": {"none": []},
    "models": {"mlp": {}},
    "methods": ["erm", "groupdro"],
    "training": {"steps": 4},
    "seeds": 2,
}


def shipped() -> list[tuple[str, str | None]]:
    """Every shipped study with each of its scales, and as it is."""
    pairs: list[tuple[str, str | None]] = []
    for file in sorted(STUDIES.rglob("*.yaml")):
        name = str(file.relative_to(STUDIES).with_suffix(""))
        fields = read_study_file(file)
        pairs += [(name, scale) for scale in (None, *fields.get("scales", {}))]
    return pairs


def test_all_that_is_missing_is_named_at_once_with_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path))
    lacking = {
        **STUDY,
        "data": {
            **STUDY["data"],
            "tissue": {"source": "camelyon17", "label": "tumor", "attributes": ["hospital"]},
            "faces": {"source": "celeba", "label": "Blond_Hair", "attributes": ["Male"]},
            "faces-again": {"source": "celeba", "label": "Blond_Hair", "attributes": ["Male"]},
        },
        "models": {
            "mlp": {},
            "zero-shot": {"model": "clip", "path": "nowhere-clip"},
            "network": {"model": "onnx", "path": "nowhere.onnx"},
        },
        "estimators": {"atc": {}, "ni-backtranslation": {"forth": "nowhere", "back": "nowhere"}},
    }
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(lacking, sort_keys=False))
    assert _status(["plan", str(file)]) == 2
    printed = capsys.readouterr()
    runs = 4 * 2 * (2 + 2)  # data sets, seeds, methods and models that are not trained
    assert printed.out == f"study {file}: {runs} runs, which cannot be planned here\n"
    assert printed.err.count("\n") == 1
    for words in (
        f"things stand in the way of the {runs} runs of study study: (1) models.zero-shot",
        "models.network.path: ",
        "data.tissue: there is no prepared copy of camelyon17",
        "(10 GB of originals): crosswind prepare camelyon17 --root",
        "data.faces, data.faces-again: there is no prepared copy of celeba",
        "crosswind prepare celeba --root",
    ):
        assert words in printed.err
    assert printed.err.count("crosswind prepare celeba") == 1


def test_one_refusal_is_said_as_it_is() -> None:
    lacking = {**STUDY, "models": {"mlp": {"layers": 0}}}
    with pytest.raises(InputError) as refused:
        make_plan(study_from(lacking))
    assert refused.value.field == "models.mlp.layers"


def test_wrong_settings_are_gathered_as_missing_files_are() -> None:
    wrong = {**STUDY, "models": {"mlp": {"layers": 0}, "small-cnn": {"depth": 2}}}
    with pytest.raises(
        InputError, match=r"^2 things stand in the way of study .*: \(1\) "
    ) as refused:
        make_plan(study_from(wrong))
    assert "models.mlp.layers: " in str(refused.value) and "models.small-cnn.depth: " in str(
        refused.value
    )


WANT_ORIGINALS = {
    "jeon2025/finetuned",
    "jeon2025/prompts",
    "ng2022/ablations",
    "ng2022/cifar",
    "ng2022/cinic10",
    "ng2022/entropy",
    "ng2022/extreme",
    "ng2022/nli",
    "ng2022/numbers",
    "ng2022/sentiment",
    "omran2022/aligned-subsets",
    "omran2022/alignment",
    "omran2022/class-splits",
    "omran2022/corruptions",
    "omran2022/learning-rate",
    "omran2022/renditions",
    "omran2022/rotations",
    "pacs/leave-one-out",
    "wiles2022/camelyon17",
    "wiles2022/wilds-unseen",
}
"""Studies whose `tiny` is not planned where nothing was prepared; every other one is."""


@pytest.mark.parametrize(("name", "scale"), shipped(), ids=str)
def test_every_shipped_study_is_planned_or_says_all_that_it_lacks(
    name: str, scale: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path))
    study = load_study(name, scale)
    runs = count_runs(study)
    assert runs > 0
    try:
        plan = plan_of(name, scale)
    except (InputError, DataError) as error:
        assert scale != "tiny" or name in WANT_ORIGINALS, error
        remedies = r"crosswind prepare|pip install|there is no (file|folder)|does not exist|name "
        assert re.search(remedies, str(error)), error
        labels = [*study.data]
        lacking = [label for label in labels if f"data.{label}" in str(error)]
        assert lacking or "models." in str(error) or "estimators." in str(error)
    else:
        assert len(plan.runs) == runs
        assert scale != "tiny" or name not in WANT_ORIGINALS, "take it off the list"


@pytest.mark.slow
def test_the_head_of_a_study_says_how_many_runs_its_commands_have() -> None:
    """Where a command of the comment is followed by a number of runs, it is that of the plan."""
    stated: dict[tuple[str, str | None], int] = {}
    for file in STUDIES.rglob("*.yaml"):
        comments = [
            line for line in file.read_text(encoding="utf-8").splitlines() if line[:1] == "#"
        ]
        for command in (part for line in comments for part in line.split("crosswind run ")[1:]):
            number = re.search(r"([\d,]+) (?:small )?(?:runs|networks)", command)
            if number:
                scale = re.search(r"--scale (\S+)", command)
                key = (command.split()[0], scale[1] if scale else None)
                stated[key] = int(number[1].replace(",", ""))
    assert len(stated) > 40
    counted = {pair: count_runs(load_study(*pair)) for pair in stated}
    assert counted == stated


def test_there_are_as_many_pairs_of_study_and_scale_as_are_shipped() -> None:
    pairs = shipped()
    assert len(set(pairs)) == len(pairs) >= 150
    assert {name for name, scale in pairs if scale == "tiny"} > WANT_ORIGINALS


def test_a_file_that_is_no_study_is_refused_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("data: {}\nmethod: erm\n")
    assert _status(["plan", str(file)]) == 2
    assert capsys.readouterr().out == ""
    assert issubclass(InputError, CrosswindError)


@pytest.mark.parametrize(
    ("seeds", "split_seeds", "field"), [(70_000, 10, "seeds"), (600, 1_000, "split_seeds")]
)
def test_more_runs_than_a_plan_holds_are_refused_before_any_is_made(
    seeds: int,
    split_seeds: int,
    field: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """70,000 seeds of a few hundred combinations took 22 GiB, and the kernel killed the program."""
    path = tmp_path / "study.yaml"
    path.write_text(
        yaml.safe_dump({"name": "s", **STUDY, "seeds": seeds, "split_seeds": split_seeds})
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert _status(["plan", str(path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {field}: {seeds:,} seeds x {split_seeds:,} split seeds x 2 ")
    assert f"are {2 * seeds * split_seeds:,} runs, and a plan holds 1,000,000; lower" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_plan_holds_as_many_runs_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    n_runs = len(plan_of("demo", "tiny").runs)
    monkeypatch.setattr(planning, "MOST_RUNS", n_runs)
    assert len(plan_of("demo", "tiny").runs) == n_runs
    monkeypatch.setattr(planning, "MOST_RUNS", n_runs - 1)
    with pytest.raises(InputError, match=f"{n_runs:,} runs, and a plan holds"):
        plan_of("demo", "tiny")


def test_the_models_of_changed_copies_are_named_beside_all_else(
    tmp_path: Path, capsys: Any
) -> None:
    pytest.importorskip("transformers")
    translators = {"there": "nowhere-there", "back": "nowhere-back"}
    lacking = {
        **STUDY,
        "data": {
            **STUDY["data"],
            "tissue": {"source": "camelyon17", "label": "tumor", "attributes": ["hospital"]},
        },
        "estimators": {"ni-backtranslation": translators, "ni-ssmba": {"model": "nowhere-bert"}},
    }
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(lacking, sort_keys=False))
    assert _status(["plan", str(file)]) == 2
    printed = capsys.readouterr().err
    for words in (
        "camelyon17",
        "'nowhere-there'",
        "back: there is no folder 'nowhere-back'",
        "'nowhere-bert'",
    ):
        assert words in printed


def test_a_shipped_study_says_where_its_files_come_from_and_one_of_a_users_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lacks = "there is no file 'resnet-8.safetensors' beside the study or in this folder"
    with pytest.raises(InputError) as shipped:
        plan_of("wiles2022/unseen", "transfer")
    assert str(shipped.value) == (
        f"models.resnet-cifar10.weights: {lacks}; crosswind show wiles2022/unseen says where its"
        " files come from"
    )
    text = shipped_studies()["wiles2022/unseen"].read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as of_user:
        plan_of("mine.yaml", "transfer")
    assert str(of_user.value) == f"models.resnet-cifar10.weights: {lacks}"
    with pytest.raises(InputError) as of_setting:
        plan_of("wiles2022/unseen", "small", ["models.resnet.weights=gone.safetensors"])
    assert str(of_setting.value).endswith("'gone.safetensors' beside the study or in this folder")

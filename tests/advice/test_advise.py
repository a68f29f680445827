"""`crosswind advise`: evidence read from a real store equals its report, methods that cannot be used
are named with their reason, and the study that is written can be run."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import polars
import pytest
import yaml

import crosswind as cw
from crosswind.advice.answer import Known, Validation, advise
from crosswind.advice.evidence import COLUMNS, empty_evidence, evidence_of, shipped_evidence
from crosswind.advice.problem import problem_of_counts, simple_counts
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError
from crosswind.storage.store import Store
from crosswind.studies.plan import plan_of

STUDY: dict[str, Any] = {
    "name": "advised",
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 8},
            "label": "half",
            "attributes": ["ink"],
            "keep": {"ink": ["red", "green"]},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.1},
        "UDS": {"type": "unseen-data", "attribute": "ink", "unseen": "last"},
    },
    "sizes": {"small": {"total": 60}},
    "models": {"mlp": {"layers": 1}},
    "methods": {
        "erm": {},
        "groupdro": {},
        "even": {"method": "erm", "sampler": "balanced", "shifts": ["none", "SC"]},
        "searched": {"method": "mixup", "alpha": [0.1, 0.4], "shifts": ["none", "SC"]},
        "noisy": {"method": "jtt", "label_noise": 0.2},
    },
    "training": {"steps": 8, "batch": 16, "lr": 0.01, "validate_every": 4, "patience": None},
    "seeds": 3,
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advice") / "out"
    assert not cw.run_study(STUDY, folder).summary.failed
    return folder


@pytest.fixture(scope="module")
def evidence(out: Path) -> polars.DataFrame:
    with Store.open(out) as store:
        return evidence_of(store, "advised")


@pytest.mark.slow
def test_evidence_of_a_store_is_its_scores_beside_plain_training(
    out: Path, evidence: polars.DataFrame
) -> None:
    assert evidence.schema == empty_evidence().schema and evidence.columns == list(COLUMNS)
    rows = {(row["shift"], row["method"]): row for row in evidence.to_dicts()}
    # What chose among more settings, and what is more than a method, are no evidence.
    assert set(rows) == {
        ("none", "groupdro"),
        ("none", "erm + balanced"),
        ("SC", "groupdro"),
        ("SC", "erm + balanced"),
        ("UDS", "groupdro"),
    }
    with Store.open(out) as store:
        scores = {
            (entry["method"], entry["seed"]): entry["metrics"]["accuracy"]
            for entry in store.results("advised")
            if entry["set"] == "test" and entry["rule"] == "best-id" and entry["shift"] == "SC"
        }
    row = rows["SC", "groupdro"]
    assert math.isclose(row["accuracy"], sum(scores["groupdro", i] for i in range(3)) / 3)
    assert math.isclose(row["plain_accuracy"], sum(scores["erm", i] for i in range(3)) / 3)
    differences = [scores["groupdro", i] - scores["erm", i] for i in range(3)]
    mean = sum(differences) / 3
    variance = sum((value - mean) ** 2 for value in differences) / 2
    assert math.isclose(row["accuracy_error"], math.sqrt(variance / 3))
    assert (row["kind"], row["classes"], row["values"], row["runs"]) == ("pictures", 2, 2, 3)
    assert row["rows"] == 60 and row["tie"] > 0.7 and row["time"] > 0
    assert rows["none", "groupdro"]["tie"] < 0.1
    assert rows["UDS", "groupdro"]["missing"] == 0.5 and rows["UDS", "groupdro"]["rarest"] == 0


def test_the_time_of_a_method_is_without_the_start_up_of_the_worker(
    out: Path, evidence: polars.DataFrame
) -> None:
    """The first run of a worker loads its libraries, and it is one of plain training."""
    costs_by_method: dict[str, list[float]] = {}
    with Store.open(out) as store:
        for run in store.runs("advised"):
            cost = run["cost"]
            worked = cost["total_seconds"] - cost["prepare_seconds"]
            costs_by_method.setdefault(run["labels"]["method"], []).append(worked)
    means = {method: sum(taken) / len(taken) for method, taken in costs_by_method.items()}
    for row in evidence.filter(polars.col("method") == "groupdro").to_dicts():
        assert math.isclose(row["time"], means["groupdro"] / means["erm"], rel_tol=0.01)


def test_methods_that_cannot_be_used_are_named_with_their_reason() -> None:
    problem = problem_of_counts({"a": simple_counts("SC", 300, 2, 2, 0.95)}, "texts")
    evidence = shipped_evidence()
    assert evidence.height > 400
    advice = advise({"mine": problem}, Known(groups=False, model="bag-of-words"), evidence)[0]
    lacks = {entry.method: entry.lacks for entry in advice.unusable}
    assert lacks["groupdro"] == "reads the group of every training row"
    assert lacks["irm"] == "reads the environment of every training row"
    assert lacks["augmix"] == "changes pictures, and these are texts"
    assert not {entry.method for entry in advice.methods} & set(lacks)
    assert {entry.method for entry in advice.methods} >= {"jtt", "bpa"}
    pictures = problem_of_counts({"a": simple_counts("SC", 300, 2, 2, 0.95)}, "pictures")
    with_mlp = advise({"mine": pictures}, Known(model="mlp"), evidence)[0]
    lacks = {entry.method: entry.lacks for entry in with_mlp.unusable}
    assert lacks["bn-adapt"] == "needs batch norm, which mlp has not"
    assert lacks["pnd"] == "reads the feature maps of a convolutional model, which mlp is not"
    times = {entry.method: entry.time for entry in with_mlp.methods}
    assert times["groupdro"] is not None and 0.8 < times["groupdro"] < 1.5
    assert times["me-ada"] is not None and times["me-ada"] > 1
    order = [entry.accuracy.mean for entry in with_mlp.methods if entry.accuracy]
    assert order == sorted(order, reverse=True) and len(order) == len(with_mlp.methods)


def test_a_sure_gain_is_advised_first_a_sure_loss_against_and_else_nothing_is_told() -> None:
    problem = problem_of_counts({"a": simple_counts("SC", 300, 2, 2, 0.95)}, "pictures")
    rows = []
    for number in range(6):
        for method, gain in (("groupdro", 0.2), ("irm", -0.2), ("jtt", 0.0)):
            scores = {"plain_accuracy": 0.6, "accuracy": 0.6 + gain + 0.001 * number}
            place = {
                "study": "s",
                "data": f"d{number}",
                "shift": "SC",
                "size": "all",
                "model": "mlp",
            }
            rows.append(
                {**place, **vars(problem), "method": method, "runs": 5, "points": 1, **scores}
                | {"accuracy_error": 0.005}
            )
    table = polars.DataFrame(rows, schema=empty_evidence().schema)
    advice = advise({"mine": problem}, evidence=table)[0]
    verdicts = {entry.method: entry.verdict for entry in advice.methods}
    assert verdicts == {"groupdro": "try", "jtt": "cannot tell", "irm": "avoid"}
    assert advice.answer.startswith("Try groupdro first: 18 points of accuracy [")
    assert "Avoid irm: it is expected" in advice.answer
    nothing = advise({"mine": problem}, Known(groups=False), table)[0]
    assert nothing.first is None and nothing.answer.startswith("Cannot tell")
    with pytest.raises(CrosswindError, match="no evidence to advise from.*--evidence"):
        advise({"mine": problem}, evidence=empty_evidence())


def test_the_worth_of_the_choice_is_said_as_it_was_measured() -> None:
    sure = Validation(data=9, over_plain=(4.0, 2.0, 6.0), over_groupdro=(3.0, 1.0, 5.0))
    assert sure.beats_plain and sure.beats_groupdro
    assert "gained +4.0 points [+2.0, +6.0]" in sure.in_words
    unsure = Validation(data=9, over_plain=(4.0, 2.0, 6.0), over_groupdro=(1.0, -1.0, 3.0))
    assert "it is better than plain training, but not shown to choose better" in unsure.in_words
    neither = Validation(data=9, over_plain=(4.0, -1.0, 9.0), over_groupdro=(1.0, -1.0, 3.0))
    assert "it is not shown to choose better than a rule of thumb" in neither.in_words
    assert "was not measured" in Validation().in_words


@pytest.mark.slow
def test_a_finished_study_is_advised_on_with_its_own_results_and_a_study_is_written(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "next.yaml"
    assert _status(["advise", str(out), "--to", str(to)]) == 0
    text = capsys.readouterr().out
    assert "digits, SC: pictures, 2 classes, 60 rows" in text and f"wrote {to}" in text
    assert "Cannot be used here" in text
    # Of three problems the evidence and its worth are said once, and the answers together.
    assert text.count("data sets left out in turn") == 1
    assert text.count("The commands that made this evidence:") == 1
    in_short = text.partition("In short:\n")[2].splitlines()[:3]
    titles = ["digits, none", "digits, SC", "digits, UDS"]
    assert [line.strip().partition(":")[0] for line in in_short] == titles
    assert all("try " in line or "cannot tell" in line for line in in_short)
    written = yaml.safe_load(to.read_text(encoding="utf-8"))
    assert "erm" in written["methods"] and 2 <= len(written["methods"]) <= 4
    assert len(plan_of(str(to)).runs) == 3 * 3 * len(written["methods"])
    assert _status(["advise", str(out), "--to", str(to)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert _status(["advise", str(out), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["title"] for entry in entries] == ["digits, none", "digits, SC", "digits, UDS"]
    assert all(entry["methods"] and entry["answer"] for entry in entries)


@pytest.mark.slow
def test_a_table_and_a_study_and_a_description_are_advised_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "patients.csv"
    lines = ["age,pressure,ward,ill"]
    for i in range(240):
        ill = i % 2
        ward = "north" if (i // 2) % 8 < (7 if ill else 1) else "south"
        lines.append(f"{20 + i % 60},{100 + (7 * i) % 41},{ward},{'yes' if ill else 'no'}")
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    to = tmp_path / "patients-study.yaml"
    asked = ["advise", str(table), "--label", "ill", "--attribute"]
    assert _status([*asked, "age"]) == 2
    assert "'age' is no column that may shift beside the label 'ill'" in capsys.readouterr().err
    assert _status([*asked, "ward", "--to", str(to)]) == 0
    text = capsys.readouterr().out
    assert "ill with ward: numbers, 2 classes, 240 rows" in text and "0.75" in text
    assert "changes pictures, and these are numbers" in text
    assert _status(["advise", str(table), "--label", "pressure", "--attribute", "ward"]) == 0
    assert "pressure (< 120, >= 120) with ward: numbers, 2 classes" in capsys.readouterr().out
    assert plan_of(str(to)).runs
    assert _status(["advise", "demo", "--scale", "tiny", "--groups", "unknown"]) == 0
    text = capsys.readouterr().out
    assert "reads the group of every training row" in text
    # CausIRL draws environments in equal shares: of rows of one it is plain training, nearly.
    (line,) = {line for line in text.splitlines() if "the environment of every" in line}
    assert {"causirl-coral", "causirl-mmd", "dann"} <= set(re.findall(r"[\w-]+", line))
    assert "\ncausirl" not in text and "--to FILE.yaml writes it" in text
    assert _status(["advise", "--shift", "UDS", "--kind", "texts", "--rows", "5000"]) == 0
    assert "50% of the groups without a training row" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["texts", "numbers"])
def test_a_method_of_convolutional_models_is_not_advised_where_no_such_model_reads_the_rows(
    kind: str,
) -> None:
    problem = problem_of_counts({"a": simple_counts("SC", 300, 2, 2, 0.95)}, kind)
    advice = advise({"mine": problem}, Known(), shipped_evidence())[0]
    lacks = {entry.method: entry.lacks for entry in advice.unusable}
    assert lacks["ubnet"] == (
        f"reads the feature maps of a convolutional model, and none reads {kind}"
    )
    assert lacks["bn-adapt"] == f"needs batch norm, which no model that reads {kind} has"
    assert not {entry.method for entry in advice.methods} & {"ubnet", "pnd", "occamnets", "sagnet"}
    pictures = problem_of_counts({"a": simple_counts("SC", 300, 2, 2, 0.95)}, "pictures")
    assert "ubnet" in {entry.method for entry in advise({"mine": pictures})[0].methods}


@pytest.mark.slow
def test_two_tables_are_advised_on_by_what_shifts_between_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(name: str, wards: list[str], tied: bool) -> str:
        lines = ["age,pressure,ward,ill"]
        for i in range(400):
            ill = i % 2
            if tied:
                ward = wards[0] if (i // 2) % 8 < (7 if ill else 1) else wards[1]
            else:
                ward = wards[(i // 2) % len(wards)]
            lines.append(f"{20 + i % 60},{100 + (7 * i) % 41},{ward},{'yes' if ill else 'no'}")
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(tmp_path / name)

    train = write("train.csv", ["north", "south"], tied=True)
    target = write("target.csv", ["north", "south", "west"], tied=False)
    assert _status(["advise", train, target, "--label", "ill", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["title"] for entry in entries] == [f"{train} to {target}, ill with ward"]
    problem = entries[0]["problem"]
    # Both groups of the ward west are met in the target alone.
    assert (problem["values"], problem["rows"], problem["kind"]) == (3, 400, "numbers")
    assert problem["missing"] == pytest.approx(2 / 6) and problem["rarest"] == 0
    assert _status(["advise", train, train, "--label", "ill"]) == 2
    assert "by an audit no column shifts" in capsys.readouterr().err
    assert _status(["advise", train, train, "--label", "ill", "--attribute", "ward"]) == 0
    assert "Cramér's V of label and attribute 0.75" in capsys.readouterr().out
    assert _status(["advise", train, target, "--label", "ill", "--attribute", "wards"]) == 2
    assert "unknown column of both tables 'wards', did you mean 'ward'?" in capsys.readouterr().err


def test_an_answer_names_the_sizes_and_commands_of_its_evidence_and_groups_what_cannot_be_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["advise", "--shift", "SC", "--data", "small", "--groups", "known"]
    assert _status([*words, "--model", "mlp"]) == 0
    text = capsys.readouterr().out
    assert "300 rows to train on" in text
    evidence = shipped_evidence()
    lines = {line.split()[0]: line for line in text.splitlines() if " problems of " in line}
    assert len(lines) > 10
    for name, line in lines.items():
        rows = evidence.filter(polars.col("method") == name)["rows"]
        if " + " not in line:
            sizes = f"{min(rows):,} to {max(rows):,} rows"
            assert (sizes if min(rows) < max(rows) else f" {max(rows):,} rows") in line
    commands = text.partition("The commands that made this evidence:\n")[2].splitlines()
    assert "  crosswind run jeon2025/controlled" in commands
    reason = "reads the feature maps of a convolutional model, which mlp is not"
    unusable = [line for line in text.splitlines() if line.endswith(reason)]
    assert len(unusable) == 1 and "pnd" in unusable[0] and "ubnet" in unusable[0]


def test_a_model_may_be_named_by_its_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(["advise", "--shift", "SC", "--model", "resnet", "--json"]) == 0
    by_family = capsys.readouterr()
    assert by_family.err == "--model: resnet is taken as resnet18\n"
    assert _status(["advise", "--shift", "SC", "--model", "resnet18", "--json"]) == 0
    assert capsys.readouterr().out == by_family.out


def test_a_study_in_which_nothing_can_shift_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = {**STUDY, "shifts": {"none": []}, "methods": ["erm"]}
    study["data"] = {"digits": {**STUDY["data"]["digits"], "keep": {"ink": ["red"]}}}
    path = tmp_path / "one-ink.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    assert _status(["advise", str(path)]) == 2
    assert "has no attribute of several values beside its label" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "TABLE: name a table, a study or a store, or describe one by --shift"),
        (
            ["demo", "--shift", "SC"],
            "--shift: describes a shift where nothing is named that has one",
        ),
        (["--shift", "drift"], "--shift: unknown shift 'drift' (valid: none, SC, LDD, UDS)"),
        (["--shift", "SC", "--kind", "sounds"], "--kind: unknown kind of inputs 'sounds'"),
        (["--shift", "SC", "--groups", "maybe"], "--groups: unknown answer 'maybe'"),
        (["--shift", "SC", "--model", "brain"], "--model: unknown model 'brain'"),
        (["--shift", "SC", "--data", "tiny"], "--data: unknown size 'tiny'"),
        (
            ["--shift", "SC", "--data", "small", "--rows", "9"],
            "--data: says 300 rows, and --rows 9",
        ),
        (
            ["--shift", "SC", "--kind", "texts", "--model", "mlp"],
            "--model: no method trains 'mlp' on texts, which these rows are (valid: bag-of-words,",
        ),
        (
            ["--shift", "SC", "--kind", "numbers", "--model", "resnet"],
            "--model: no method trains 'resnet18' on numbers",
        ),
        (["--shift", "SC", "--model", "onnx"], "--model: no method trains 'onnx' on pictures"),
        (["demo", "other.csv"], "TARGET: stands beside a table to train on"),
        (["--shift", "SC", "--to", "x.yaml"], "--to: needs a table, a study or a store"),
        (["nowhere.csv"], "there is no file 'nowhere.csv'"),
        (["nowhere"], "unknown study 'nowhere'"),
    ],
)
def test_bad_questions_are_refused_in_one_sentence(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(["advise", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and not captured.out

"""Models that nobody trains here stand in a study beside trained ones: a table of predictions, an
ONNX file, a Python function."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import polars
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.studies.plans import of_kind

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.execution.jobs import GIVEN
from crosswind.live.state import LiveStudy
from crosswind.models.given.function import load_function
from crosswind.reports.runs.tables import trouble_table
from crosswind.storage.predictions_file import read_predictions, run_predictions
from crosswind.storage.store import Store
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from

STUDY: dict[str, Any] = {
    "name": "outside",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 4},
        }
    },
    "shifts": {
        "none": [],
        "sc": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "models": {"mlp": {}},
    "methods": ["erm"],
    "training": {"steps": 4, "validate_every": 4, "batch": 16},
    "seeds": 2,
}
FUNCTION = """
import numpy as np

def brightness(x):
    with open({log!r}, "a") as file:
        file.write(f"{{len(x)}}\\n")
    assert x.dtype == np.uint8 and x.shape[1:] == (32, 32, 3)
    return x.reshape(len(x), -1).mean(1).astype(np.int64) % 10

def logits(x):
    return np.eye(10)[brightness(x)]

def names(x):
    return np.array([str(code) for code in brightness(x)])

def wrong(x):
    return np.zeros((len(x), 3))

def elsewhere(x):
    return np.full(len(x), 10)

def raises(x):
    raise ValueError("out of order")
"""


@pytest.fixture(scope="module")
def digits() -> cw.AttributedDataset:
    return cw.load("digits")


@pytest.fixture
def theirs(tmp_path: Path, digits: cw.AttributedDataset) -> dict[str, dict[str, Any]]:
    """The three kinds of model: predictions that are wrong in every fifth row, a linear network,
    the brightness of a picture."""
    label = digits.table.column("digit").astype(np.int64)
    answers = np.where(digits.ids % 5 == 0, (label + 1) % 10, label)
    polars.DataFrame({"id": digits.ids, "label": answers, "note": ["a"] * len(answers)}).write_csv(
        tmp_path / "table.csv"
    )
    weight = np.random.default_rng(0).normal(size=(3072, 10)).astype(np.float32)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weight"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 3, 32, 32]), ("y", ["n", 10]))
    ]
    graph = helper.make_graph(
        nodes, "linear", ends[:1], ends[1:], [numpy_helper.from_array(weight, "weight")]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "net.onnx",
    )
    np.save(tmp_path / "weight.npy", weight)
    (tmp_path / "theirs.py").write_text(
        FUNCTION.format(log=str(tmp_path / "log")), encoding="utf-8"
    )
    return {
        "table": {"model": "predictions", "path": str(tmp_path / "table.csv")},
        "net": {"model": "onnx", "path": str(tmp_path / "net.onnx")},
        "function": {"model": "callable", "function": f"{tmp_path / 'theirs.py'}:brightness"},
    }


def planned(models: dict[str, Any], **changes: Any) -> Plan:
    return make_plan(study_from({**STUDY, "models": models, **changes}))


@pytest.mark.slow
def test_they_stand_in_the_same_tables_and_are_asked_once(
    tmp_path: Path, theirs: dict[str, Any], digits: cw.AttributedDataset
) -> None:
    study_results = cw.run_study({**STUDY, "models": {"mlp": {}, **theirs}}, tmp_path / "out")
    assert study_results.summary.finished == 2 * 2 * 4
    text = "\n\n".join(table.to_text() for table in study_results.tables)
    table = next(
        block for block in text.split("\n\n") if block.startswith("method") and "net" in block
    )
    assert [line.split()[0] for line in table.splitlines()[2:]] == [
        "erm",
        "table",
        "net",
        "function",
    ]
    batch_sizes = [int(line) for line in (tmp_path / "log").read_text().splitlines()]
    with Store.open(tmp_path / "out") as store:
        rows = [
            row
            for row in store.results("outside")
            if row["set"] == "test" and row["rule"] == "best-id"
        ]
        predictions_by_method = {
            row["method"]: run_predictions(store, row["key"])[GIVEN]["test"]
            for row in rows
            if row["method"] in theirs
        }
    # The test set once for two shifts and two seeds; validation sets are other rows under each.
    tests = len(predictions_by_method["function"])
    full_batches = [tests] if tests <= 256 else [256] * (tests // 256) + [tests % 256]
    assert all(batch_sizes.count(block) >= 1 for block in full_batches)
    assert batch_sizes.count(256) == tests // 256
    accuracies: dict[str, set[float]] = {}
    for row in rows:
        accuracies.setdefault(row["method"], set()).add(row["metrics"]["accuracy"])
    positions = np.searchsorted(digits.ids, predictions_by_method["net"].ids)
    label = digits.table.column("digit")[positions]
    pixels = digits.inputs(positions)
    x = pixels.transpose(0, 3, 1, 2).reshape(len(positions), -1) * np.float32(2 / 255) - np.float32(
        1
    )
    logits = x @ np.load(tmp_path / "weight.npy")
    np.testing.assert_allclose(predictions_by_method["net"].logits, logits, rtol=1e-3, atol=1e-3)
    assert accuracies["table"] == {float((predictions_by_method["table"].ids % 5 != 0).mean())}
    assert accuracies["net"] == {float((logits.argmax(1) == label).mean())}
    assert accuracies["function"] == {
        float((pixels.reshape(len(positions), -1).mean(1).astype(int) % 10 == label).mean())
    }
    nll = {row["method"]: row["metrics"]["nll"] for row in rows}
    assert nll["table"] is None
    assert nll["function"] is None
    assert nll["net"] > 0
    page = Path(tmp_path / "page.html")
    from crosswind.cli.main import _status

    assert _status(["report", str(tmp_path / "out"), "--page", str(page)]) == 0
    assert all(f">{name}<" in page.read_text(encoding="utf-8") for name in theirs)


def test_without_a_trained_model_nothing_is_trained(tmp_path: Path, theirs: dict[str, Any]) -> None:
    plan = planned({"table": theirs["table"]})
    assert {job.kind for job in plan.jobs} == {"predict", "score"}
    assert len(plan.runs) == 4
    study_results = cw.run_study(
        {**STUDY, "models": {"table": theirs["table"]}, "seeds": 1}, tmp_path / "out"
    )
    assert study_results.summary.finished == 2
    assert {row["model"] for row in study_results.rows} == {"table"}


def test_tables_may_hold_logits_by_class_and_files_may_be_of_three_kinds(
    tmp_path: Path, theirs: dict[str, Any], digits: cw.AttributedDataset
) -> None:
    logits = np.random.default_rng(0).normal(size=(digits.n_base, 10)).astype(np.float32)
    columns = {"id": digits.ids, **{str(code): logits[:, code] for code in range(10)}}
    polars.DataFrame(columns).write_csv(tmp_path / "a.csv")
    polars.DataFrame(columns).sample(fraction=1, shuffle=True, seed=0).write_parquet(
        tmp_path / "b.parquet"
    )
    np.savez(tmp_path / "c.npz", id=digits.ids[::-1], logits=logits[::-1])
    models = {
        name[0]: {"model": "predictions", "path": str(tmp_path / name)}
        for name in ("a.csv", "b.parquet", "c.npz")
    }
    study_results = cw.run_study(
        {**STUDY, "models": models, "shifts": {"none": []}, "seeds": 1}, tmp_path / "out"
    )
    metrics = [row["metrics"] for row in study_results.rows if row["set"] == "test"]
    assert len(metrics) == 3
    assert metrics[0]["nll"] > 0
    assert metrics[1] == metrics[2]
    assert metrics[0]["nll"] == pytest.approx(metrics[1]["nll"])


def test_a_run_that_needs_a_failed_job_says_why_that_failed(
    tmp_path: Path, digits: cw.AttributedDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence stood once on standard error, and in no row, report or status."""
    ids = [*digits.ids, digits.ids[3]]
    polars.DataFrame({"id": ids, "label": [1] * len(ids)}).write_csv(tmp_path / "dup.csv")
    models = {"mlp": {}, "table": {"model": "predictions", "path": str(tmp_path / "dup.csv")}}
    results = cw.run_study({**STUDY, "models": models}, tmp_path / "out")
    failed = [row["reason"] for row in results.rows if row["status"] == "failed"]
    sentence = f"dup.csv has two rows for the id {ids[3]}"
    assert len(set(failed)) == len(failed) == 4
    assert all(re.fullmatch(f"needs [0-9a-f]{{12}}, which failed: {sentence}", at) for at in failed)
    once = f"{failed[0][:18]} or another, which failed: {sentence}"
    assert str(results).endswith(f"4 of 8 runs failed: {once}.")
    assert not any(sentence in warning for warning in results.warnings)
    assert _status(["status", str(tmp_path / "out")]) == 0
    assert f"\n  4 failed: {once}\n" in capsys.readouterr().out
    assert _status(["status", str(tmp_path / "out"), "--json"]) == 0
    (failure,) = json.loads(capsys.readouterr().out)[0]["failures"]
    assert (failure["reason"], failure["runs"], len(failure["keys"])) == (once, 4, 4)
    with Store.open(tmp_path / "out") as store:
        (live_failure,) = LiveStudy(store, "outside").look()["failures"]
    assert (live_failure["reason"], live_failure["runs"]) == (once, 4)
    table = trouble_table(results.report.runs)
    assert table is not None
    cells = [dict(zip(table.columns, row, strict=True)) for row in table.cells]
    assert [row["seeds"] for row in cells] == ["0, 1", "0, 1"]
    assert all(" or another, which failed: " in row["reason"] for row in cells)


@pytest.mark.parametrize("name", ["logits", "names"])
def test_a_function_may_give_logits_or_names(
    name: str, tmp_path: Path, theirs: dict[str, Any]
) -> None:
    numbers, other_entry = (
        theirs["function"],
        {**theirs["function"], "function": f"{tmp_path / 'theirs.py'}:{name}", "batch": 7},
    )
    study = {
        **STUDY,
        "models": {"one": numbers, "two": other_entry},
        "shifts": {"none": []},
        "seeds": 1,
    }
    first_metrics, two = (
        row["metrics"] for row in cw.run_study(study, tmp_path / "out").rows if row["set"] == "test"
    )
    assert first_metrics["accuracy"] == two["accuracy"]
    assert first_metrics["groups"] == two["groups"]


def test_keys_know_what_is_in_the_files_and_not_where_they_lie(
    tmp_path: Path, theirs: dict[str, Any]
) -> None:
    def keys() -> set[str]:
        return {
            job.key
            for job in of_kind(
                planned({"table": theirs["table"], "function": theirs["function"]}), "predict"
            )
        }

    before = keys()
    for file, model, name in (
        ("table.csv", "table", "path"),
        ("theirs.py", "function", "function"),
    ):
        (tmp_path / file).rename(tmp_path / f"moved-{file}")
        theirs[model][name] = theirs[model][name].replace(file, f"moved-{file}")
    assert keys() == before
    with (tmp_path / "moved-table.csv").open("a") as file:
        file.write("99999999,1,a\n")
    assert len(keys() & before) == len(before) // 2
    assert keys() != {
        job.key
        for job in of_kind(
            planned({"table": theirs["table"], "function": {**theirs["function"], "version": 2}}),
            "predict",
        )
    }


def test_a_set_is_asked_for_once_and_validation_sets_by_shift_and_seed(
    theirs: dict[str, Any],
) -> None:
    plan = planned({"table": theirs["table"]})
    counts = {}
    for job in of_kind(plan, "predict"):
        counts.setdefault(job.labels["set"], set()).add(job.key)
    assert {name: len(keys) for name, keys in counts.items()} == {"validation": 4, "test": 1}
    unseen = planned(
        {"table": theirs["table"]},
        sets={"test": {"role": "test", "law": "train"}},
        selection=["last"],
    )
    assert len({job.key for job in of_kind(unseen, "predict")}) == 2, "as training: one a shift"


BAD = {
    "rows": (
        "table",
        lambda path: path.write_text("id,label\n0,1\n"),
        "table.csv has no prediction for",
    ),
    "twice": (
        "table",
        lambda path: path.write_text(path.read_text() + "0,1,a\n"),
        "two rows for the id 0",
    ),
    "class": (
        "table",
        lambda path: path.write_text(path.read_text().replace(",3,", ",three,")),
        "label 'three', which is no class",
    ),
    "no id": (
        "table",
        lambda path: path.write_text(path.read_text().replace("id,", "row,", 1)),
        "needs a column 'id'",
    ),
    "bytes": ("table", lambda path: path.write_bytes(b"\xff\xfe\x00"), "table.csv"),
    "onnx": (
        "net",
        lambda path: path.write_bytes(b"not a network"),
        "net.onnx cannot be read as ONNX",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_end_in_one_sentence(name: str, tmp_path: Path, theirs: dict[str, Any]) -> None:
    model, spoil, sentence = BAD[name]
    spoil(Path(theirs[model]["path"]))
    study_results = cw.run_study(
        {**STUDY, "models": {model: theirs[model]}, "shifts": {"none": []}, "seeds": 1},
        tmp_path / "out",
    )
    (row,) = study_results.rows
    assert row["status"] == "failed"
    assert "\n" not in row["reason"]
    with Store.open(tmp_path / "out") as store:
        reasons = {store.run(need)["reason"] for need in store.run(row["key"])["needs"]}
    assert any(sentence in str(reason) for reason in reasons), reasons


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("wrong", "must give logits"),
        ("elsewhere", "label 10, which is no class"),
        ("raises", "out of order"),
        ("missing", "no function 'missing'"),
    ],
)
def test_bad_functions_end_in_one_sentence(
    function: str, sentence: str, tmp_path: Path, theirs: dict[str, Any]
) -> None:
    models = {"function": {"model": "callable", "function": f"{tmp_path / 'theirs.py'}:{function}"}}
    study_results = cw.run_study(
        {**STUDY, "models": models, "shifts": {"none": []}, "seeds": 1}, tmp_path / "out"
    )
    with Store.open(tmp_path / "out") as store:
        reasons = {
            str(store.run(need)["reason"])
            for need in store.run(study_results.rows[0]["key"])["needs"]
        }
    assert all(sentence in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        (
            "t",
            {"model": "predictions", "path": "nowhere.csv"},
            "models.t.path: there is no file 'nowhere.csv'",
        ),
        (
            "f",
            {"model": "callable", "function": "no_such_module:f"},
            (
                "models.f.function: there is no file 'no_such_module.py' and no module"
                " 'no_such_module'"
            ),
        ),
        (
            "f",
            {"model": "callable", "function": "just_a_word"},
            "models.f.function: must name a file; a function is written module:",
        ),
        ("erm", None, "models.erm: has the name of a method of this study"),
        ("table", {"model": "predictions"}, "models.table.path"),
    ],
)
def test_what_is_not_there_is_refused_by_the_plan(
    name: str, settings: dict[str, Any] | None, sentence: str, theirs: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        planned({name: settings or theirs["table"]})


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["selected", "none"])
def test_a_set_that_is_added_is_predicted_by_what_was_trained(keep: str, tmp_path: Path) -> None:
    study = {**STUDY, "methods": ["erm", "jtt"], "keep": keep, "shifts": {"none": []}, "seeds": 1}
    before = cw.run_study(study, tmp_path / "out")
    folders = sorted((tmp_path / "out" / "artifacts").rglob("history.json"))
    changed = {path: path.stat().st_mtime_ns for path in folders}
    train = {"law": "train"}
    sets = {
        "validation": {"role": "validation", **train},
        "test": {"role": "test"},
        "more": {"role": "test", **train},
    }
    after = cw.run_study({**study, "sets": sets}, tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in folders} == changed or keep == "none"
    assert after.summary.executed == 2
    assert {row["set"] for row in after.rows} == set(sets)

    def told(rows: list[dict[str, Any]], names: set[str]) -> list[Any]:
        return [
            (row["method"], row["rule"], row["set"], row["metrics"])
            for row in rows
            if row["set"] in names
        ]

    assert told(before.rows, {"validation", "test"}) == told(after.rows, {"validation", "test"})
    fresh_results = cw.run_study({**study, "sets": sets}, tmp_path / "fresh")
    assert told(fresh_results.rows, {"more"}) == told(after.rows, {"more"})


def test_a_new_metric_trains_nothing(tmp_path: Path) -> None:
    from crosswind.evaluation import metrics

    study = {**STUDY, "shifts": {"none": []}, "seeds": 1}
    cw.run_study(study, tmp_path / "out")
    try:

        @metrics.metric("share_of_zero", better=None)
        def share_of_zero(predictions: Any, groups: Any, classes: Any) -> float:
            return float((predictions.answer == 0).mean())

        study_results = cw.run_study(study, tmp_path / "out")
        titles = [table.title for table in study_results.tables]
    finally:
        metrics.METRICS.pop("share_of_zero")
    assert study_results.summary.executed == 1
    assert all(0 <= row["metrics"]["share_of_zero"] <= 1 for row in study_results.rows)
    assert any("Share of zero on test" in title for title in titles), (
        "it has a table of its own, and nobody told the report"
    )
    with Store.open(tmp_path / "out") as store:
        assert store.counts()["total"] == 2, "the old score and the new one, of one fit"
    folders = sorted((tmp_path / "out" / "artifacts").rglob("predictions.npz"))
    assert len(folders) == 2
    assert all(read_predictions(path) for path in folders)


def test_a_program_by_a_relative_path_leaves_no_relative_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are started with the folders of this process, wherever it has gone since."""
    (tmp_path / "constants.py").write_text("SHIFT = 2\n", encoding="utf-8")
    (tmp_path / "shifting.py").write_text(
        "from constants import SHIFT\n\ndef shift(x):\n    return x + SHIFT\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_function("shifting.py:shift")(1) == 3
    assert [entry for entry in sys.path if entry and not Path(entry).is_absolute()] == []
    assert str(tmp_path.resolve()) in sys.path

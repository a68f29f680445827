"""The studies of prompts of Jeon et al. 2025: what they ask, and that they run through on tiny
models and a server on loopback."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.models.chat_server import MODEL, SECRET, ChatServer
from tests.studies.test_concurrent_shifts import GRIDS, TABLE_6, TEST

import crosswind as cw
from crosswind.reports.gather import StudyRecord
from crosswind.reports.prompts.scores import ORACLE, prompt_table, tuned_table
from crosswind.studies.axes import data_of
from crosswind.studies.plan import make_plan
from crosswind.studies.prompts import entries_of
from crosswind.studies.reading import find_study
from crosswind.studies.spec import load_study

ROOT = Path(__file__).parents[2]
GENERAL = {("CLIP-base", "General"), ("CLIP-large", "General")}
ASKED = ("InstructBLIP", "LLaVA-1.5", "Phi-3.5-vision", "GPT-4o mini", "GPT-4o")
TABLE_5 = GENERAL | {
    (model, prompt) for model in ASKED for prompt in ("General 1", "General 2", "Tailored")
}
# The prompts that table 12 tailors to a data set.
TAILORED = {
    "dsprites": "object",
    "shapes3d": "object",
    "smallnorb": "object",
    "celeba": "person",
    "deepfashion": "dress",
    "iwildcam": "species",
    "fmow": "land-use",
    "camelyon17": "tumor",
}


@pytest.mark.parametrize(
    "name,data", [("prompts", list(TAILORED)[:5]), ("finetuned", list(TAILORED)[5:])]
)
def test_every_row_and_column_of_table_5_is_asked_once_with_the_prompt_of_table_12(
    name: str, data: list[str]
) -> None:
    study = load_study(f"jeon2025/{name}")
    assert study.prompts is not None and isinstance(study.models, dict) and list(study.data) == data
    of_data, asked_prompts = data_of(study.models), {}
    for (model, prompt), labels in entries_of(study.prompts.model_dump()).items():
        for label in labels:
            for data_name in of_data.get(label, data):
                assert (model, prompt, data_name) not in asked_prompts
                asked_prompts[model, prompt, data_name] = study.models[label]
    assert set(asked_prompts) == {(*row, data_name) for row in TABLE_5 for data_name in data}
    for (model, prompt, data_name), settings in asked_prompts.items():
        assert settings
        if model.startswith("CLIP"):
            assert settings["prompts"] == ["a photo of a {label}"]
        else:
            number = prompt[-1]
            general = f"tumor-{number}" if data_name == "camelyon17" else f"general-{number}"
            assert (
                settings["prompt"]
                == f"jeon2025-{TAILORED[data_name] if prompt == 'Tailored' else general}"
            )
        if model == "LLaVA-1.5":  # the published files have a template, which differs from table 13
            assert settings["format"] == "USER:{image}\n{prompt} \nASSISTANT:"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tiny random models in the folders that the studies name, with the caches of this test beside
    them."""
    spec = importlib.util.spec_from_file_location(
        "tiny_models", ROOT / "examples" / "tiny_foundation_models.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    models_folder = tmp_path_factory.mktemp("models")
    module.write_all(models_folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("CROSSWIND_FEATURES", str(models_folder / "features"))
        patch.setenv("CROSSWIND_ANSWERS", str(models_folder / "answers"))
        patch.chdir(models_folder)
        yield models_folder


@pytest.mark.slow
def test_the_paper_is_planned_to_the_row(folders: Path) -> None:
    """Stand-ins without pictures for what has to be prepared. A data set is predicted once by an
    entry, whatever its shifts."""
    stand_ins = [
        setting
        for name, grid in GRIDS.items()
        for setting in (f"data.{name}.source=factors", f"data.{name}.options={grid}")
    ]
    study = load_study("jeon2025/prompts", None, stand_ins)
    assert isinstance(study.models, dict)
    # Weights in 4 bits want a package that is made for GPUs.
    settings = [
        f"models.{label}.four_bit=false"
        for label, entry in study.models.items()
        if entry and "four_bit" in entry
    ]
    plan = make_plan(load_study("jeon2025/prompts", None, [*stand_ins, *settings]))
    shifts = list(plan.study.shifts)
    for draw in plan.draws:
        assert (
            draw.train_rows == TABLE_6[draw.source][shifts.index(draw.shift)]
            and draw.test_rows == TEST[draw.source]
        )
    assert len(plan.draws) == 5 * 8
    tests = Counter(
        (job.labels["method"], job.labels["data"])
        for job in {
            job.key: job for job in plan.jobs
        }.values()  # each of those that shifts and seeds share, once
        if job.kind == "predict" and job.spec["set"] == "test" and "model" in job.spec
    )
    assert len(tests) == 17 * 5 and set(tests.values()) == {1}


def _with_servers(
    name: str, labels: dict[str, dict[str, Any]], models: dict[str, Any]
) -> dict[str, Any]:
    """A study at scale tiny, with models behind endpoints: entries and rows of `prompts.models`
    that the scale leaves out."""
    values = yaml.safe_load(find_study(f"jeon2025/{name}")[1].read_text(encoding="utf-8"))
    tiny = values["scales"]["tiny"]
    tiny["models"] |= labels
    tiny["prompts"]["models"] |= models
    return {key: value for key, value in values.items() if key != "scales"} | {
        "scales": {"tiny": tiny}
    }


def _ran(values: dict[str, Any], out: Path) -> StudyRecord:
    path = out.parent / f"{out.name}.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")  # which is YAML too
    record = cw.run_study(path, out, scale="tiny").report
    assert {status for status, _ in record.found.runs.values()} == {"finished"}
    return record


@pytest.mark.slow
def test_prompts_run_through_and_a_server_is_asked_each_question_once(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two shifts and two seeds: every test row is asked about once with each prompt. The server
    says square, or sphere."""
    server = ChatServer(
        lambda content: "square" if "square" in json.dumps(content) else "The object is a sphere."
    )
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    short: dict[str, Any] = {"name": MODEL, "image_tokens": 20}
    labels = {
        "gpt-4o-1": short,
        "gpt-4o-2": short,
        "gpt-4o-object": {**short, "data": ["dsprites", "shapes3d"]},
    }
    rows = {"GPT-4o": {"Tailored": "gpt-4o-object"}}
    record = _ran(_with_servers("prompts", labels, rows), tmp_path / "out")
    (comparison,) = record.prompts
    table = prompt_table(comparison)
    assert table.columns == ("model", "prompt", "dsprites", "shapes3d")
    rows_told = {(row[0], row[1]) for row in table.rows}
    assert rows_told == {row for row in TABLE_5 if row[0] not in ("Phi-3.5-vision", "GPT-4o mini")}
    # A third of the shapes of dSprites are squares, half of the kept ones of Shapes3D are spheres.
    assert {
        comparison.said["GPT-4o", prompt, "dsprites"].mean
        for prompt in ("General 1", "General 2", "Tailored")
    } == {27 / 81}
    assert comparison.said["GPT-4o", "Tailored", "shapes3d"].mean == 0.5
    assert comparison.choices[ORACLE]["GPT-4o", "dsprites"].prompt == "General 1"
    assert record.claims and any(
        section["columns"][0] == "model" for section in record.to_json()["tables"]
    )
    bodies = Counter(json.dumps(body, sort_keys=True) for body in server.asked)
    assert len(bodies) > 3 * (81 + 32) and set(bodies.values()) == {1}


@pytest.mark.slow
def test_finetuned_runs_through_and_the_report_shows_table_14(
    folders: Path, tmp_path: Path
) -> None:
    record = _ran(_with_servers("finetuned", {}, {}), tmp_path / "out")
    (comparison,) = record.prompts
    table = tuned_table(comparison)
    assert table is not None and {(row[0], row[1]) for row in table.rows} == {
        (model, data)
        for model in ("LLaVA-1.5", "InstructBLIP")
        for data in ("iwildcam", "fmow", "camelyon17")
    }
    assert all(row[-1] == 2 for row in table.rows)
    assert comparison.averages == {"real-world": ["iwildcam", "fmow", "camelyon17"]}
    assert len(prompt_table(comparison).rows) == len({row for row in TABLE_5 if row[0][0] in "CIL"})


def test_every_model_of_the_real_sets_is_tuned_over_the_rates_of_table_8() -> None:
    """Real sets have five learning rates; the baseline of six claims must not search others than
    what it is compared with."""
    study = load_study("jeon2025/finetuned")
    rates = [1e-3, 5e-4, 1e-4, 5e-5, 1e-5]
    assert study.training["lr"] == rates
    assert isinstance(study.methods, dict)
    tuned = [
        entry["training"]["lr"] for entry in study.methods.values() if entry and "training" in entry
    ]
    assert tuned == [rates] * 3


def test_real_sets_are_validated_on_the_default_set_of_wilds() -> None:
    study = load_study("jeon2025/finetuned")
    assert [
        data.roles.official.validation for data in study.data.values() if data.roles.official
    ] == [["val"]] * 3
    assert study.sets["validation"].law == {"type": "official", "values": "val"}


@pytest.mark.parametrize("name", ["prompts", "finetuned"])
def test_files_and_bits_of_models_are_those_of_table_9(name: str) -> None:
    study = load_study(f"jeon2025/{name}")
    assert isinstance(study.models, dict)
    asked_entries = [
        entry
        for entry in study.models.values()
        if entry and str(entry.get("path", "")).startswith("instructblip")
    ]
    in_words = [entry for entry in asked_entries if not entry.get("tuned")]
    assert in_words and all(entry["four_bit"] is True and entry["beams"] == 5 for entry in in_words)
    paths = {
        entry["path"]
        for label, entry in study.models.items()
        if entry and label.startswith("clip-") and not entry.get("tuned")
    }
    assert paths == {"clip-vit-base-patch32", "clip-vit-large-patch14"}

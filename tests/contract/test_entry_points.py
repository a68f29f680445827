"""Things from other packages: found by entry point, without importing them; used in studies,
workers and reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.plugins import METHOD, crosswind, install

from crosswind.storage.store import Store

STUDY = {
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
    "methods": {"erm": {}, "smoothed": {"amount": [0.0, 0.5]}},
    "training": {"steps": 6, "batch": 32, "validate_every": 3},
    "seeds": 1,
}


def study_in(folder: Path, **changes: object) -> Path:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**STUDY, **changes}), encoding="utf-8")
    return path


@pytest.mark.slow
def test_plug_ins_are_found_in_modules_packages_and_folders_without_init(tmp_path: Path) -> None:
    for number, (file, module) in enumerate(
        {"a.py": "a", "b/__init__.py": "b", "c/d/e.py": "c.d.e", "f/__init__.py": "f.g"}.items()
    ):
        files = {file: METHOD.replace("smoothed", f"m{number}")}
        files |= {"f/g.py": METHOD.replace("smoothed", "m9")} if module == "f.g" else {}
        install(tmp_path, files, {"point": module}, name=f"plug{number}")
    listed_names = {
        row["name"]
        for row in json.loads(crosswind("list", "methods", "--json", path=tmp_path).stdout)
    }
    assert (
        {
            "m0",
            "m1",
            "m2",
            "m9",
        }
        <= listed_names
        and "m3" not in listed_names
    )  # an entry point names one module, not its package


@pytest.mark.slow
def test_a_method_of_another_package_is_listed_run_by_workers_and_reported(tmp_path: Path) -> None:
    # Its package prints when it is imported: what lists and plans must not import it.
    path = install(
        tmp_path / "site",
        {"acme/__init__.py": "print('imported')", "acme/smooth.py": METHOD},
        {"acme": "acme.smooth"},
    )
    listed = crosswind("list", "methods", "--json", path=path)
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert (
        rows["smoothed"]["summary"] == "Cross-entropy with smoothed labels, from another package."
    )
    assert rows["smoothed"]["knobs"][0]["name"] == "amount" and rows["smoothed"]["hooks"] == [
        "loss"
    ]
    assert "share of the label" in crosswind("show", "method", "smoothed", path=path).stdout
    study, out = study_in(tmp_path), tmp_path / "out"
    assert crosswind("plan", study, path=path).stdout.startswith("study mine: 3 runs")
    done = crosswind("run", study, "--workers", "1", "--out", out, path=path)
    assert (done.returncode, "imported" in done.stdout) == (0, False), done.stderr
    with Store.open(out) as store:
        assert store.counts("mine")["finished"] == 3
        rows = [
            row for row in store.results("mine") if row["rule"] == "last" and row["set"] == "test"
        ]
    losses = {row["point"]: row["metrics"]["nll"] for row in rows}
    assert losses["amount=0"] == losses[""] != losses["amount=0.5"], (
        "ERM is its limit, and its knob counts"
    )
    reported = crosswind("report", out, path=path)
    assert reported.returncode == 0 and "smoothed" in reported.stdout
    # A store is read where the method is not installed.
    assert crosswind("report", out).stdout == reported.stdout
    missing = crosswind("run", study, "--out", out)
    assert missing.returncode == 2 and "unknown method 'smoothed'" in missing.stderr


BROKEN = {
    "no module": (
        {"acme/__init__.py": ""},
        "acme.nowhere",
        "the plug-in 'point' of acme: its module 'acme.nowhere' cannot be found",
    ),
    "no package": (
        {},
        "acme.nowhere",
        "its module 'acme.nowhere' cannot be found; install it again, or uninstall it",
    ),
    "no file": ({"acme/data/x.txt": ""}, "acme.data", "its module 'acme.data' cannot be found"),
    "no value": ({}, " ", "cannot be found"),
    "no Python": (
        {"acme.py": "@register(\nclass"},
        "acme",
        "acme: acme.py cannot be read as Python: ",
    ),
    "no text": ({"acme.py": "@register(\0"}, "acme", "acme: acme.py cannot be read as Python: "),
    "no name": (
        {"acme.py": '@register(NAME, kind="method")\nclass A:\n    pass'},
        "acme",
        "acme: line 2: A must be registered as",
    ),
    "no kind": (
        {"acme.py": '@register("a", kind="methd")\nclass A:\n    pass'},
        "acme",
        "unknown kind 'methd', did you mean 'method'?",
    ),
    "no word": (
        {"acme.py": '@register("a", kind="method")\nclass A:\n    needs = Neds()'},
        "acme",
        "may use only",
    ),
    "wrong word": (
        {"acme.py": '@register("a", kind="method")\nclass A:\n    needs = Needs(grops=1)'},
        "acme",
        "acme: line 3: TypeError",
    ),
    "name taken": (
        {"acme.py": METHOD.replace('"smoothed"', '"erm"')},
        "acme",
        "'erm' is registered in methods by",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plug_in_is_one_sentence(case: str, tmp_path: Path) -> None:
    files, module, sentence = BROKEN[case]
    completed = crosswind("list", "methods", path=install(tmp_path, files, {"point": module}))
    assert completed.returncode == 2 and completed.stdout == ""
    assert sentence in completed.stderr and len(completed.stderr.splitlines()) == 1, (
        completed.stderr
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", ["acme/__init__.py", "acme/smooth.py"])
def test_what_breaks_when_imported_is_listed_and_fails_its_runs_with_one_sentence(
    where: str, tmp_path: Path
) -> None:
    files = {"acme/__init__.py": "", "acme/smooth.py": METHOD}
    files[where] = "import no_such_library\n" + files[where].replace(
        "from __future__ import annotations\n", ""
    )
    path = install(tmp_path / "site", files, {"acme": "acme.smooth"})
    assert "smoothed" in crosswind("list", "methods", path=path).stdout
    out = tmp_path / "out"
    done = crosswind(
        "run",
        study_in(tmp_path, methods={"erm": {}, "smoothed": {}}),
        "--workers",
        "1",
        "--out",
        out,
        path=path,
    )
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    words = (
        "its module 'acme.smooth' cannot be imported: ModuleNotFoundError: No module named"
        " 'no_such_library'"
    )
    if done.returncode == 2:
        assert words in done.stderr
        return
    with Store.open(out) as store:
        reasons = {run["labels"]["method"]: run["reason"] for run in store.runs("mine")}
    assert reasons == {"erm": None, "smoothed": f"method 'smoothed': {words}"}


PROGRAM = """
import sys

import crosswind as cw
from crosswind.evaluation.metrics import metric


@metric("answered_first")
def answered_first(predictions, group_names, class_names):
    return float((predictions.label == 0).mean())


if __name__ == "__main__":
    import json
    found = cw.run_study(json.load(open("study.json")), "out", workers=int(sys.argv[1]))
    print([row["metrics"].get("answered_first") for row in found.rows])
"""


@pytest.mark.slow
def test_a_metric_of_a_program_is_computed_by_its_workers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "study.json").write_text(
        json.dumps({**STUDY, "methods": ["erm"]}), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "mine.py", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    values = json.loads(done.stdout.splitlines()[-1].replace("None", "null"))
    assert len(values) >= 2 and all(isinstance(value, float) for value in values)

"""Files of finished runs that are gone or are not what was written are noticed, named, and done
again when asked."""

import json
import os
import random
import shutil

import pytest
from tests.execution.test_scheduler import done
from tests.execution.toys import planned
from tests.storage.test_store import plan

from crosswind.cli.main import _status
from crosswind.storage.artifacts import artifact_folder
from crosswind.storage.store import Store


def delete(path, other_path):
    path.unlink()


def delete_the_folder(path, other_path):
    shutil.rmtree(path.parent)


def truncate(path, other_path):
    os.truncate(path, path.stat().st_size - 1)


def flip_a_bit(path, other_path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def append(path, other_path):
    path.write_bytes(path.read_bytes() + b" ")


def swap(path, other_path):
    mine = path.read_bytes()
    path.write_bytes(other_path.read_bytes())
    other_path.write_bytes(mine)


def link(path, other_path):
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def folder(path, other_path):
    path.unlink()
    path.mkdir()


def pipe(path, other_path):
    path.unlink()
    os.mkfifo(path)


DAMAGE = {
    damage_kind.__name__: damage_kind
    for damage_kind in (
        delete,
        delete_the_folder,
        truncate,
        flip_a_bit,
        append,
        swap,
        link,
        folder,
        pipe,
    )
}
SAME_SIZE = ("flip_a_bit",)  # what status cannot see; swapped files may have one size too


def found_by(verb, out, capsys, *options):
    status = _status([verb, str(out), "--json", *options])
    return status, json.loads(capsys.readouterr().out)


@pytest.fixture
def study(tmp_path):
    """Twelve runs with a file each, and where these lie."""
    runs = [planned(f"run{i}") for i in range(12)]
    done(tmp_path / "out", runs)
    return (
        tmp_path / "out",
        runs,
        {run.key: artifact_folder(tmp_path / "out", run.key) / "score.json" for run in runs},
    )


@pytest.mark.parametrize("kind", DAMAGE)
def test_every_kind_of_damage_is_noticed(kind, study, capsys):
    chance = random.Random(kind)
    out, runs, files = study
    assert found_by("check", out, capsys) == (
        0,
        {"jobs": 12, "damaged": [], "undone": 0, "changed": []},
    )
    struck, other_key = chance.sample([run.key for run in runs], 2)
    DAMAGE[kind](files[struck], files[other_key])
    expected = {struck, other_key} if kind == "swap" else {struck}

    status, report = found_by("check", out, capsys)
    assert status == 1 and {damaged["key"] for damaged in report["damaged"]} == expected, report
    assert all(
        damaged["faults"][0].startswith("score.json ") and damaged["labels"]
        for damaged in report["damaged"]
    )
    _, (row,) = found_by("status", out, capsys)
    assert set(row["damaged"]) <= expected and (
        kind in (*SAME_SIZE, "swap") or set(row["damaged"]) == expected
    )

    summary, _ = done(out, runs)
    assert summary.executed == 0, "nobody has asked for it"
    status, report = found_by("check", out, capsys, "--repair")
    assert (status, report["undone"]) == (1, len(expected))
    with Store.open(out) as store:
        assert store.counts("toys")["pending"] == len(expected)
        assert len(store.results("toys", unscored=False)) == 2 * (12 - len(expected)), (
            "a pending run has no scores"
        )
    summary, _ = done(out, runs)
    assert summary.executed == len(expected)
    assert found_by("check", out, capsys)[0] == 0


def test_a_check_of_one_job_speaks_of_one(tmp_path, capsys):
    done(tmp_path, [planned("alone")])
    assert _status(["check", str(tmp_path)]) == 0
    words = "1 job is done, 0 of them with files that are gone or damaged"
    assert capsys.readouterr().out == f"{words}\n"
    shutil.rmtree(tmp_path / "artifacts")
    (tmp_path / "artifacts").mkdir()
    assert _status(["check", str(tmp_path), "--repair"]) == 1
    assert "1 job is pending again; the next crosswind run does it" in capsys.readouterr().out


def test_a_check_in_words(study, capsys):
    out, runs, files = study
    assert _status(["check", str(out), "--study", "toys"]) == 0
    assert (
        capsys.readouterr().out
        == "12 jobs are done, 0 of them with files that are gone or damaged\n"
    )
    truncate(files[runs[3].key], None)
    size = files[runs[3].key].stat().st_size
    assert _status(["check", str(out)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"  {runs[3].key[:12]} (run3 0): score.json has {size} bytes, not {size + 1}"
    assert lines[2] == "--repair has them done again by the next crosswind run"
    assert _status(["status", str(out)]) == 0
    assert (
        f"files of 1 jobs are gone or damaged ({runs[3].key[:12]}: score.json has"
        in capsys.readouterr().err
    )
    for arguments in (
        ["check", str(out / "nowhere")],
        ["check", str(out), "--study", "toy"],
        ["check", str(out / "x"), "--repair"],
    ):
        assert _status(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (out / "x").exists() and not (out / "nowhere").exists()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_does_not_start_from_a_damaged_one(workers, tmp_path, capsys):
    base = planned("base")
    top = planned("top", (base.key,))
    later = planned("later", (top.key,))
    out = tmp_path / "out"
    done(out, [base], study="bases")
    flip_a_bit(artifact_folder(out, base.key) / "score.json", None)
    summary, runs = done(out, [base, top, later], workers)
    assert (summary.finished, summary.failed, summary.executed) == (1, 2, 0)
    sentence = (
        f"needs {base.key[:12]}, of whose files score.json is not what the run wrote; `crosswind"
        " check --repair` has it done again"
    )
    assert runs["top"]["reason"] == sentence
    assert _status(["check", str(out), "--repair"]) == 1
    summary, _ = done(out, [base, top, later], workers)
    assert (summary.finished, summary.executed) == (3, 3)


def test_what_was_written_after_the_end_of_a_run_is_no_part_of_it(study, capsys):
    out, _, files = study
    for path in files.values():
        (path.parent / "notes.txt").write_text("mine")
    assert found_by("check", out, capsys)[0] == 0


def test_an_entry_that_lists_no_files_is_a_damaged_store(study, capsys):
    out, _, _ = study
    with Store.open(out, create=True) as store, store.transaction() as connection:
        connection.exec_driver_sql("""UPDATE runs SET files = '{"score.json": 3}'""")
    assert _status(["check", str(out)]) == 2
    assert "is damaged: the files of a run are" in capsys.readouterr().err


def test_a_run_that_leaves_nothing_is_whole(tmp_path, capsys):
    with Store.open(tmp_path, create=True) as store:
        store.add_plan("study", {}, {}, plan(2))
        assert store.undo(run.key for run in plan(2)) == 0, "only what is done is undone"
    assert found_by("check", tmp_path, capsys)[1]["jobs"] == 0

"""Every method has a study of the effect that its paper claims, a fresh record of it and its rows
on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.papers import effects_table
from benchmarks.papers.effects_table import (
    CONFIRMATIONS,
    FIRST,
    MARK,
    NOTES,
    PAGE,
    STUDIES,
    page,
    records,
    stale,
    study_hashes,
    study_names,
    subject_files,
    table,
    tables,
    unexplained,
)
from tools.method_checklist import checklist

from crosswind.core.registry import listing
from crosswind.evaluation.compare import paired
from crosswind.studies.reading import read_study_file

OTHERS = (
    "reweight",
    "randaugment-parts",
    "architectures",
    "pretraining",
    "bpa-released",
    "ubnet-parts",
)
"""Subjects that are no method."""
MISSING: tuple[str, ...] = ()
"""Subjects without a record yet; one whose record is there must not stand here."""
FOUND = records()


def subjects() -> set[str]:
    methods = {
        method.name for method in listing("methods") if method.module.startswith("crosswind.")
    } - {"erm"}
    return methods | set(OTHERS)


def test_every_method_has_a_study_and_a_record() -> None:
    assert len(subjects()) >= 16 + len(OTHERS) - 1
    assert set(MISSING) <= subjects() and not set(MISSING) & set(FOUND), (
        "what has a record is missing no longer"
    )
    assert set(FOUND) | set(MISSING) == subjects(), checklist()
    assert set(FOUND) <= set(study_names())


@pytest.mark.parametrize("name", sorted(FOUND))
def test_records_are_fresh_and_whole(name: str) -> None:
    record = FOUND[name]
    assert stale(name, record) == ""
    assert record["name"] == name
    assert record["claims"]
    assert record["files"]
    assert record["runs"]["failed"] == 0


@pytest.mark.parametrize("name", sorted(FOUND))
def test_claims_of_records_compare_as_many_points_over_the_same_seeds(name: str) -> None:
    for claim in FOUND[name]["claims"]:
        better, than = (claim["sides"][side] for side in ("better", "than"))
        assert better["points"] == than["points"], (
            "the best of more points is higher by chance alone"
        )
        values = [
            {int(seed): value for seed, value in side["values"].items()} for side in (better, than)
        ]
        assert len(set(values[0]) & set(values[1])) >= 8
        assert set(better["chosen"]) == set(better["values"])
        difference = paired(values[1], values[0])
        assert difference is not None
        expected = [difference.mean, difference.low, difference.high, difference.n]
        assert None not in expected
        claimed_numbers = [claim[number] for number in ("difference", "low", "high", "n")]
        assert claimed_numbers == pytest.approx(expected, abs=2e-6)


def _verdict(claim: dict[str, Any]) -> str:
    if claim["p_adjusted"] is None or claim["p_adjusted"] >= 0.05:
        return "cannot tell"
    return "holds" if claim["difference"] > 0 else "the opposite holds"


@pytest.mark.parametrize("name", sorted(FOUND))
def test_verdicts_of_records_are_those_of_adjusted_p(name: str) -> None:
    claims = FOUND[name]["claims"]
    adjusted = _holm([1.0 if claim["p"] is None else claim["p"] for claim in claims])
    for claim, p in zip(claims, adjusted, strict=True):
        assert claim["p_adjusted"] in (None, pytest.approx(p))
        assert claim["family"] == len(adjusted)
        assert claim["verdict"] == _verdict(claim)


def _holm(p_values: list[float]) -> list[float]:
    """By the definition of Holm (1979): the largest of (m - j) p_(j) over the j-th smallest up to
    it, at most 1."""
    ordered = sorted(p_values)
    return [
        min(1.0, max((len(ordered) - j) * q for j, q in enumerate(ordered) if q <= p))
        for p in p_values
    ]


@pytest.mark.parametrize("name", sorted(FOUND))
def test_records_come_from_rows_and_seeds_that_nobody_explored(name: str) -> None:
    record, values = FOUND[name], read_study_file(STUDIES / f"{name}.yaml")
    forms = json.loads(CONFIRMATIONS.read_text(encoding="utf-8"))[name]
    form = forms[record["form"] - 1]
    assert [known_form["form"] for known_form in forms] == list(range(1, len(forms) + 1))
    assert record["form"] == len(forms)
    assert all(record[key] == form[key] for key in ("study_sha256", "files", "began"))
    assert form["began"][:10] <= record["date"]
    assert record["split_seed"] == 40000 + record["form"] != values.get("split_seed", 0)
    explored = values["seeds"] if isinstance(values["seeds"], list) else range(values["seeds"])
    first = 500000 + 1000 * record["form"]
    assert record["seeds"] == list(range(first, first + len(explored)))
    assert not set(record["seeds"]) & set(explored)
    for claim in record["claims"]:
        assert set(map(int, claim["sides"]["better"]["values"])) <= set(record["seeds"])


def test_every_changed_verdict_is_explained_and_every_note_is_about_something() -> None:
    first = json.loads(FIRST.read_text(encoding="utf-8"))
    assert sum(map(len, first.values())) == 71
    assert set(first) < subjects()
    assert unexplained(FOUND) == []
    notes = read_study_file(NOTES)
    assert set(notes) <= subjects()
    assert sum(len(about.get("tried", [])) for about in notes.values()) >= 22
    for name, about in notes.items():
        for change in about.get("changed", []):
            assert change["claim"] in [claim["text"] for claim in FOUND[name]["claims"]]


@pytest.mark.parametrize("name", sorted(FOUND))
def test_every_study_says_what_is_claimed_where(name: str) -> None:
    text = (STUDIES / f"{name}.yaml").read_text(encoding="utf-8")
    comment = [line for line in text.splitlines() if line.startswith("#")]
    assert text.startswith("#") and sum(map(len, comment)) > 300, (
        "the head comment says what the paper claims and what was found"
    )


def test_the_page_has_the_tables_of_the_records() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, FOUND) == text, "run: python -m benchmarks.papers.effects --table"
    assert text.count(MARK) == 1
    assert text.endswith(tables(FOUND))


def side(values: dict[str, float]) -> dict[str, Any]:
    return {
        "method": "m",
        "model": "mlp",
        "points": 4,
        "values": values,
        "chosen": dict.fromkeys(values, ""),
        "diverged": [],
    } | {
        "doubts": {},
        "chance": "",
    }


def test_a_row_by_hand() -> None:
    claim = {
        "data": "digits",
        "shift": "SC",
        "size": "few",
        "model": "mlp",
        "set": "test",
        "rule": "last",
        "text": "a | b\nc",
    }
    claim |= {
        "metric": "worst_group",
        "better": 0.7,
        "than": 0.65,
        "difference": 0.05,
        "low": 0.01,
        "high": 0.09,
        "n": 8,
    }
    claim |= {
        "p_adjusted": 0.0123,
        "family": 4,
        "verdict": "holds",
        "sides": {"better": side({}), "than": {**side({}), "method": "erm"}},
    }
    record = {
        "claims": [claim],
        "form": 2,
        "cpu_seconds": 90.0,
        "files": {"a.py": "0123456789abcdef", "b.py": "fedcba9876543210"},
    }
    assert (
        table({"irm": record}).splitlines()[2]
        == "| [irm](irm.yaml) | digits, SC, mlp, test, last | a \\| b c | erm 0.650 | m 0.700"
        " (worst group) | +0.050 [+0.010, +0.090] | 0.012 of 4 | 8 | 4 | holds |  | 2 | 1.5 |"
        " 0123456789ab, fedcba987654 |"
    )
    models = {
        **claim,
        "metric": "accuracy",
        "sides": {"better": {**side({}), "model": "resnet18"}, "than": side({})},
    }
    row = table({"irm": {**record, "claims": [models], "cpu_seconds": None}}).splitlines()[2]
    assert "| mlp 0.650 | resnet18 0.700 |" in row
    assert "| holds |  | 2 |  |" in row


STUDY = """# what is claimed
data: {digits: {source: digits, label: digit, attributes: [ink], roles: {test: 2}}}
shifts: {SC: {type: spurious-correlation, attribute: ink, counterexamples: 0.2}}
sizes: {few: {total: 100}}
models: [mlp]
methods: {erm: {training: {lr: [0.001, 0.003]}}, strong: {method: groupdro, eta: [0.01, 0.1]}}
training: {steps: 2, validate_every: 1}
seeds: 8
claims: [{text: it helps, better: strong}]
"""


@pytest.fixture
def scratch(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program on a folder with one study, groupdro."""
    from benchmarks.papers import effects
    from benchmarks.papers import effects_table as own

    (tmp_path / "records").mkdir()
    (tmp_path / "groupdro.yaml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "README.md").write_text(f"words\n{MARK}\nold", encoding="utf-8")
    (tmp_path / "notes.yml").write_text("{}", encoding="utf-8")
    (tmp_path / "first.json").write_text("{}", encoding="utf-8")
    paths = {
        "STUDIES": "",
        "RECORDS": "records",
        "PAGE": "README.md",
        "NOTES": "notes.yml",
        "FIRST": "first.json",
    }
    for module in (effects, own, effects_table):
        for name, path in {**paths, "CONFIRMATIONS": "confirmations.json"}.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, tmp_path / path)
    return effects


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "groupdro.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_what_makes_a_record_stale(scratch: Any, tmp_path: Path) -> None:
    values = read_study_file(tmp_path / "groupdro.yaml")
    record: dict[str, Any] = {
        "study_sha256": study_hashes(values),
        "files": subject_files("groupdro", values),
    }
    assert list(record["files"]) == ["src/crosswind/methods/groupdro.py"]
    assert stale("groupdro", None) == "has no record"
    assert stale("irm", record) == "has no study file"
    assert stale("groupdro", record) == ""
    change(tmp_path, "what is claimed", "what is claimed, and what was found")
    assert stale("groupdro", record) == ""  # a comment changes no number
    change(tmp_path, "it helps", "it helps much")
    assert stale("groupdro", record) == "its claims changed"
    change(tmp_path, "seeds: 8", "seeds: 9")
    assert stale("groupdro", record) == "its study changed"
    changed = {**record, "study_sha256": study_hashes(read_study_file(tmp_path / "groupdro.yaml"))}
    changed["files"] = {"src/crosswind/methods/groupdro.py": "0" * 64}
    assert stale("groupdro", changed) == "src/crosswind/methods/groupdro.py changed"


@pytest.mark.parametrize(
    "old,new,says",
    [
        ("seeds: 8", "seeds: 7", "7 seeds are too few; give at least 8"),
        (
            "lr: [0.001, 0.003]",
            "lr: 0.001",
            "compares strong over 2 points with erm over 1; give both grids the same size",
        ),
        ("claims: [{text: it helps, better: strong}]", "", "the study claims nothing"),
        ("# what", "name: other\n# what", "the study is named 'other'; leave its name out"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_it_runs(
    scratch: Any, tmp_path: Path, old: str, new: str, says: str
) -> None:
    change(tmp_path, old, new)
    with pytest.raises(SystemExit, match=says):
        scratch.recorded("groupdro", 1, tmp_path / "store", True)
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "confirmations.json").exists()


def test_a_failed_run_leaves_the_old_record(
    scratch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended:
        failed, finished, diverged, executed = 2, 30, 0, 32

    class Results:
        rows = [{"status": "finished"}, {"status": "failed", "reason": "no memory"}]
        summary = Ended()

    (tmp_path / "records" / "groupdro.json").write_text("old", encoding="utf-8")
    monkeypatch.setattr(scratch, "run_study", lambda *_, **__: Results())
    with pytest.raises(
        SystemExit, match="groupdro: 2 runs failed, so nothing is recorded; the first: no memory"
    ):
        scratch.confirm(["groupdro"], 1, None)
    assert (tmp_path / "records" / "groupdro.json").read_text(encoding="utf-8") == "old"
    assert (tmp_path / "README.md").read_text(encoding="utf-8").endswith("old")


def test_held_out_rows_are_read_by_a_confirmation_alone_and_each_form_has_its_own(
    scratch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run_study(*_: Any, settings: list[str], **__: Any) -> Any:
        ran.append(settings)
        raise SystemExit("enough")

    monkeypatch.setattr(scratch, "run_study", run_study)

    def look(confirmed: bool) -> list[str]:
        with pytest.raises(SystemExit, match="enough"):
            (scratch.confirm if confirmed else scratch.explore)(["groupdro"], 1, None)
        return ran[-1]

    assert look(True) == look(True) == ["split_seed=40001", f"seeds={[*range(501000, 501008)]}"]
    (form,) = json.loads((tmp_path / "confirmations.json").read_text())["groupdro"]
    assert form["form"] == 1
    assert form["began"].endswith("Z")
    assert set(form) == {"form", "began", "study_sha256", "files"}
    change(
        tmp_path, "it helps", "it helps a little"
    )  # another claim: what was seen must not judge it
    assert look(True) == ["split_seed=40002", f"seeds={[*range(502000, 502008)]}"]
    monkeypatch.setattr(scratch, "HELD_OUT", tmp_path / "gone.yaml")
    assert look(False) == ["split_seed=0", f"seeds={[*range(8)]}"]
    assert len(json.loads((tmp_path / "confirmations.json").read_text())["groupdro"]) == 2


@pytest.mark.slow
def test_a_whole_study_is_confirmed_and_goes_on(scratch: Any, tmp_path: Path) -> None:
    scratch.confirm(["groupdro"], 1, tmp_path / "stores")
    record = json.loads((tmp_path / "records" / "groupdro.json").read_text(encoding="utf-8"))
    assert stale("groupdro", record) == ""
    assert record["runs"] == {
        "finished": 32,
        "diverged": 0,
        "failed": 0,
    }
    assert record["form"] == 1
    assert record["split_seed"] == 40001
    assert record["seeds"] == [*range(501000, 501008)]
    (claim,) = record["claims"]
    assert claim["n"] == 8
    assert claim["sides"]["than"]["points"] == 2
    assert record["cpu_seconds"] > 0
    assert set(claim["sides"]["better"]["chosen"].values()) <= {"eta=0.01", "eta=0.1"}
    assert (tmp_path / "README.md").read_text(
        encoding="utf-8"
    ) == f"words\n{MARK}\n\n{tables({'groupdro': record})}"
    scratch.confirm(["groupdro"], 1, tmp_path / "stores")
    again = json.loads((tmp_path / "records" / "groupdro.json").read_text(encoding="utf-8"))
    assert again["claims"] == record["claims"]
    assert again["cpu_seconds"] is None


def test_the_program_says_what_is_stale(
    scratch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scratch.check() == 1
    assert capsys.readouterr().out == "groupdro: has no record\n0 of 1 records are fresh\n"
    values = read_study_file(tmp_path / "groupdro.yaml")
    record = {"study_sha256": study_hashes(values), "files": subject_files("groupdro", values)}
    (tmp_path / "records" / "groupdro.json").write_text(json.dumps(record), encoding="utf-8")
    assert scratch.check() == 0
    assert capsys.readouterr().out == "1 of 1 records are fresh\n"

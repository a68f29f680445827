"""The golden record compares every digit, and no record is carried over to a file that gives other
figures."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def carry(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command, which finds its parts as it does when it is run."""
    return importlib.import_module("tools.carry")


def test_a_figure_that_differs_in_its_last_digit_is_found(carry: ModuleType) -> None:
    old = {
        "a": {"accuracy": 0.1 + 0.2, "loss": float("nan"), "words": ["one"], "n": 1},
        "b": [1, 2],
        "c": {"x": [[1], [2]]},
    }
    differing, reworded, added = carry.golden.differences("part", old, {**old, "d": 4})
    assert (differing, reworded, added) == ([], 0, 1)
    new = {
        "a": {"accuracy": 0.3, "loss": float("nan"), "words": ["two"], "n": 1.0},
        "b": [1, 2],
        "c": {"x": [[1], [3]]},
    }
    differing, reworded, added = carry.golden.differences("part", old, new)
    assert [
        (difference.subject, difference.figure, difference.new) for difference in differing
    ] == [
        ("part/a", "accuracy", 0.3),
        ("part/a", "n", 1.0),
        ("part/c", "x.1", [3]),
    ]
    assert (reworded, added) == (1, 0)
    assert [difference.new for difference in carry.golden.differences("part", old, {})[0]].count(
        carry.golden.GONE
    ) == 6
    changes = {"part/a": {"reason": "a test", "figures": {"accuracy": [0.1 + 0.2, 0.3]}}}
    assert [carry.golden.listed(changes, difference) for difference in differing] == [
        True,
        False,
        False,
    ]
    changes["part/a"]["figures"]["accuracy"] = [
        0.1 + 0.2,
        0.31,
    ]  # what is listed is one new figure, not any
    assert not carry.golden.listed(changes, differing[0])


def test_costs_are_carried_only_where_every_figure_is_equal(
    carry: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    costs = tmp_path / "costs.json"
    record: dict[str, Any] = {
        "files": {"erm": "1" * 64, "irm": "2" * 64},
        "results": {"erm": {"mlp": {"time": 1.5}}},
    }
    costs.write_text(json.dumps(record))
    monkeypatch.setattr(carry, "COSTS", costs)
    golden_record = {
        "files": {"methods/erm.py": "1" * 64},
        "parts": {"method-erm": {"a": 1}, "method-irm": {"a": 2}},
    }
    monkeypatch.setattr(carry.golden, "read_record", lambda: golden_record)
    stale = carry.stale_costs()
    assert set(stale) == {"erm", "irm"}
    assert (
        carry.carry(
            stale,
            carry.carry_cost,
            "costs of",
            "",
            carry.GoldenJudge(lambda part_name: pytest.fail("computed without a reason")),
        )
        == 2
    )
    assert (
        carry.carry(
            stale,
            carry.carry_cost,
            "costs of",
            "a test",
            carry.GoldenJudge(lambda part_name: f"{part_name} differs"),
        )
        == 2
    )
    assert json.loads(costs.read_text()) == record
    # The figures of irm are equal too, but to those of a file that its record is not of.
    judge = carry.GoldenJudge(lambda part_name: "")
    assert carry.carry(stale, carry.carry_cost, "costs of", "a test", judge) == 1
    now = json.loads(costs.read_text())
    (carried_note,) = now.pop("carried")
    assert now == {**record, "files": {"erm": stale["erm"].new["erm"], "irm": "2" * 64}}
    assert (
        carried_note["why"] == "a test"
        and carried_note["old"] == {"erm": "1" * 64}
        and carried_note["new"] == stale["erm"].new
    )
    # Carried once, it may be carried again, as long as the golden figures are those that it was
    # compared with.
    again = stale["erm"]._replace(old=stale["erm"].new, carried=[carried_note])
    assert carry.of_golden_code("erm", again)
    monkeypatch.setitem(golden_record["parts"], "method-erm", {"a": 3})
    assert not carry.of_golden_code("erm", again)


def test_a_new_sentence_is_no_other_figure(
    carry: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_record = {"parts": {"method-a": {"x": 1}, "method-b": {"x": 1}, "method-c": {"x": 1}}}
    monkeypatch.setattr(carry.golden, "read_record", lambda: golden_record)
    monkeypatch.setattr(carry, "_COMPARED", {})
    difference = carry.golden.Difference
    differences = [
        difference("method-a/a: one", "doubts", 0, 1),
        difference("method-a/a: warnings", "count", 0, 2),
    ]
    measured = {
        "method-a": differences,
        "method-b": [*differences, difference("method-b/b: one", "accuracy", 0.5, 0.6)],
    }
    measured["method-c"] = [difference("method-c/c: one", "count", 3, 4)]
    monkeypatch.setattr(
        carry.golden,
        "compare",
        lambda part_name, old: (measured[part_name], f"{len(measured[part_name])} differences"),
    )
    assert carry.golden_is_equal("method-a") == ""
    assert "1 figures differ" in carry.golden_is_equal(
        "method-b"
    ) and "1 figures differ" in carry.golden_is_equal("method-c")


@pytest.mark.slow
def test_breaks_are_complete_stand_once_and_their_tests_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = importlib.import_module("tools.breaks").broken
    breaks = yaml.safe_load((ROOT / "tools" / "breaks.yaml").read_text(encoding="utf-8"))
    assert len(breaks) >= 60
    for deliberate_break in breaks:
        assert (
            set(deliberate_break) == {"room", "what", "file", "old", "new", "test", "within"}
            and deliberate_break["old"] != deliberate_break["new"]
        )
        assert (ROOT / deliberate_break["test"].partition("::")[0]).is_file(), deliberate_break[
            "what"
        ]
        source = (ROOT / "src" / "crosswind" / deliberate_break["file"]).read_text(encoding="utf-8")
        assert broken(source, deliberate_break) is not None, (
            f"{deliberate_break['file']}: not there once: {deliberate_break['old']}"
        )


def test_a_file_that_methods_share_is_asked_of_each_of_them(
    carry: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = "src/crosswind/methods"
    old = {f"{methods}/ada.py": "1", f"{methods}/adversarial.py": "2"}
    golden_record = {"files": {"ada": "1", "adversarial": "2"}, "parts": {"method-ada": {"x": 1}}}
    monkeypatch.setattr(carry.golden, "read_record", lambda: golden_record)
    asked: list[str] = []
    judge = carry.GoldenJudge(lambda part: asked.append(part) or "")
    record = carry.Stale("changed", old, [], {**old, f"{methods}/adversarial.py": "3"})
    assert judge("ada", record)[0] == "" and asked == ["method-ada"]
    # Of a method of which only the one compared with changed, its own part is not asked.
    old = {f"{methods}/ada.py": "1", f"{methods}/erm.py": "2"}
    record = carry.Stale("changed", old, [], {**old, f"{methods}/erm.py": "3"})
    assert judge("ada", record)[0] == "" and asked == ["method-ada", "method-erm"]


def stale_record(carry: ModuleType, old: str, new: str) -> Any:
    path = "src/crosswind/methods/erm.py"
    return carry.Stale("its file changed", {path: old}, [], {path: new})


class Answering:
    """Stands for a `Beside`, which runs studies: the tree of a commit, and what it says of any
    subject."""

    commit = "c" * 40

    def __init__(self, tree: Path, reason: str = "") -> None:
        self.tree = tree
        self.reason = reason

    def compare(self, subject: str) -> tuple[str, dict[str, Any]]:
        return self.reason, {"study": f"{subject}.yaml"}


def test_a_record_is_carried_beside_the_very_code_that_it_is_of(
    carry: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "src" / "crosswind" / "methods" / "erm.py"
    path.parent.mkdir(parents=True)
    path.write_text("x = 1\n", encoding="utf-8")
    record = stale_record(carry, carry.code_hash(path), "2" * 64)
    judge = carry.BesideJudge(Answering(tmp_path))
    assert judge("erm", record) == ("", {"beside": {"study": "erm.yaml"}})
    # The commit has other code: what both sides share would say nothing of the record.
    path.write_text("x = 2\n", encoding="utf-8")
    refused, evidence = judge("erm", record)
    assert "is of another src/crosswind/methods/erm.py than commit cccccccccccc" in refused
    assert evidence == {}
    # One other bit.
    record = stale_record(carry, carry.code_hash(path), "2" * 64)
    judge = carry.BesideJudge(Answering(tmp_path, "1 of 9 figures differ, first row 0"))
    assert judge("erm", record)[0] == "1 of 9 figures differ, first row 0"


def test_what_is_carried_beside_a_commit_is_not_taken_for_golden_code(
    carry: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_record = {"files": {}, "parts": {}}
    monkeypatch.setattr(carry.golden, "read_record", lambda: golden_record)
    note = carry.note({"a": "1"}, {"a": "2"}, "a test", {"beside": {"rows": 2}})
    record = stale_record(carry, "2", "3")._replace(old={"a": "2"}, carried=[note])
    assert not carry.of_golden_code("erm", record)


@pytest.mark.slow
def test_old_and_new_code_are_compared_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("the checkout is no repository")
    beside = importlib.import_module("tools.beside")
    monkeypatch.setattr(beside, "STUDIES", tmp_path)
    study = {
        "data": {
            "digits": {
                "source": "digits",
                "label": "digit",
                "attributes": ["ink"],
                "roles": {"test": 4, "validation": 0.2},
            }
        },
        "shifts": {"none": []},
        "sizes": {"few": {"total": 60}},
        "models": {"mlp": {"hidden": 8, "layers": 1}},
        "methods": ["erm"],
        "training": {"steps": 40, "batch": 16, "validate_every": 2, "patience": None},
        "seeds": [3, 4],
    }
    (tmp_path / "small.yaml").write_text(json.dumps(study), encoding="utf-8")
    present: dict[str, str] = {}
    run_side = beside.Beside._side

    def side(comparing: Any, source: Path, *arguments: Any) -> dict[str, str]:
        """What the present package leaves is computed once for both comparisons."""
        if source != ROOT / "src":
            return run_side(comparing, source, *arguments)
        present.update(present or run_side(comparing, source, *arguments))
        return dict(present)

    monkeypatch.setattr(beside.Beside, "_side", side)
    with beside.Beside("HEAD", steps=2) as compared:
        reason, evidence = compared.compare("small")
    assert reason == ""
    assert evidence["settings"] == ["seeds=[3]", "keep=selected", "training.steps=2"]
    assert evidence["rows"] >= 1 and evidence["arrays"] >= 4
    # Old code that computes a thousandth more is found out, by scores or by weights.
    losses = 'cross_entropy(wide(logits), y, reduction="none")'
    with beside.Beside("HEAD", steps=2) as altered:
        path = altered.tree / "src" / "crosswind" / "methods" / "functional.py"
        text = path.read_text(encoding="utf-8")
        changed = text.replace(losses, f"{losses} * 1.001")
        assert changed != text
        path.write_text(changed, encoding="utf-8")
        assert "figures differ" in altered.compare("small")[0]

"""The kernels that the loop asks for keep to their memory and their values; torch's own fault is
where it is known to be."""

import importlib.util
import json
import platform
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch import nn

from crosswind.models.networks.convolution import overruns

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks/results/kernel-safety.json"


def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_safety", ROOT / "tools/kernel_safety.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def known(kind: str, case: list[Any]) -> bool:
    """Whether a case is one of torch's own convolutions that the loop computes in another way."""
    if kind == "odd":
        form, channels, kernel, stride, side, _ = case
        if form == "bfloat16" and kernel > 1 and side < stride:
            return True
        return form in ("rectangle", "valid", "bfloat16") and overruns(
            nn.Conv2d(channels, 8, kernel, stride)
        )
    channels, kernel, stride, _, _, _, n_outputs = case
    return kind == "conv" and overruns(nn.Conv2d(channels, n_outputs, kernel, stride, kernel // 2))


def check(rows: list[dict[str, Any]]) -> None:
    """No case died or was wrong but those that are known."""
    for row in rows:
        assert len(row["of"]) == row["died"] + row["wrong"]
        assert row["refused"] == 0 or row["kind"] in (
            "conv",
            "ours",
            "low",
            "odd",
        ), "these may have a kernel larger than their input"
        for text in row["of"]:
            case = json.loads(text)
            suspects = case if isinstance(case[0], list) else [case]
            assert any(known(row["kind"], suspect) for suspect in suspects), (text, row)


@pytest.mark.slow
def test_the_grid_is_that_of_the_record_s_words() -> None:
    drill = program()
    assert len(drill.cases_of("conv")) == 17 * 7 * 3 * 33 * 2
    assert all(drill.sampled(kind, 0.05, 0) for kind in drill.KINDS) and drill.sampled(
        "conv", 1, 0
    ) == drill.cases_of("conv")
    assert (
        drill.is_wrong("conv", [], float("nan"))
        and drill.is_wrong("conv", [], 1e-3)
        and not drill.is_wrong("conv", [], 1e-6)
    )


def test_a_death_that_no_case_has_by_itself_is_one_of_the_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The heap is damaged by one case and found out at a later one, or never."""
    drill = program()
    cases = [[2, 1, 3, 18, "last", 2, 4], [2, 3, 2, 9, "last", 1, 8], [2, 5, 2, 22, "last", 1, 8]]

    def through_a_child(kind: str, cases: list[Any], level: str) -> list[tuple[Any, float | str]]:
        if all(case == cases[0] for case in cases):
            return [(case, 0.0) for case in cases]
        return [*((case, 0.0) for case in cases[:2]), (cases[2], "died of signal 6")]

    monkeypatch.setattr(drill, "_through_a_child", through_a_child)
    outcomes = {
        json.dumps(case): outcome for case, outcome in drill.outcomes("conv", cases, "avx2")
    }
    row = drill.table({"avx2/conv": outcomes})[0]
    assert row["died"] == 1 and [json.loads(text) for text in row["of"]] == [cases[::-1]]
    check([row])
    with pytest.raises(AssertionError):  # of our own convolutions none is known to do it
        check([{**row, "kind": "ours"}])
    of_right_ones = drill.table({"avx2/conv": {json.dumps(cases[1]): "died of signal 6"}})
    with pytest.raises(AssertionError):
        check(of_right_ones)


@pytest.mark.skipif(not RECORD.exists(), reason="not recorded yet")
def test_the_recorded_table_has_no_other_fault() -> None:
    check(json.loads(RECORD.read_text(encoding="utf-8"))["rows"])


@pytest.mark.verify
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap is watched by glibc")
def test_a_share_of_the_sweep_has_no_other_fault(tmp_path: Path) -> None:
    drill = program()
    drill.main(
        [
            "--share",
            "0.02",
            "--seed",
            "1",
            "--levels",
            "default,avx2",
            "--table",
            str(tmp_path / "table.json"),
        ]
    )
    check(json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))["rows"])

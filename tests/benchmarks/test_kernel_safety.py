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
        assert all(known(row["kind"], json.loads(case)) for case in row["of"]), row


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

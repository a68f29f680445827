"""A study proposed for a frame: its files, and what stands there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import crosswind as cw
from crosswind.core.errors import CrosswindError, InputError

N = 240


def patients(**more: Any) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    ill = draw.integers(0, 2, N)
    site = np.where(draw.random(N) < 0.8, ill, 1 - ill)
    return {
        "ill": ["yes" if value else "no" for value in ill],
        "site": ["A" if value else "B" for value in site],
        "dose": draw.normal(ill, 1).tolist(),
        **more,
    }


@pytest.mark.slow
def test_the_same_call_again_is_no_harm_and_a_changed_study_is_not_written_over(
    tmp_path: Path,
) -> None:
    out = tmp_path / "ill.yaml"
    first = cw.init(patients(), label="ill", out=out)
    assert cw.init(patients(), label="ill", out=out).proposal.text == first.proposal.text
    out.write_text(out.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"^out: .*ill\.yaml is there already and holds something"):
        cw.init(patients(), label="ill", out=out)
    assert out.read_text(encoding="utf-8").endswith("# mine\n")
    cw.init(patients(), label="ill", out=out, force=True)
    assert "# mine" not in out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_table_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    mine = tmp_path / "ill.parquet"
    polars.DataFrame({"a": [1, 2]}).write_parquet(mine)
    before = mine.read_bytes()
    with pytest.raises(InputError, match=r"ill\.parquet, where the frame would lie, is there"):
        cw.init(patients(), label="ill", out=tmp_path / "ill.yaml")
    with pytest.raises(CrosswindError):  # refused after the frame was written
        cw.init(patients(), label="no", out=tmp_path / "ill.yaml", force=True)
    assert mine.read_bytes() == before and [*tmp_path.iterdir()] == [mine]
    with pytest.raises(CrosswindError):
        cw.init(patients(), label="no", out=tmp_path / "other.yaml")
    assert [*tmp_path.iterdir()] == [mine]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ([[1, 2]] * N, "odd: lists or other nested values"),
        ([{1, 2}] * N, "odd: lists or other nested values"),
        ([object()] * N, None),
        ([np.timedelta64(hours, "h") for hours in range(N)], "odd: times"),
        (list(range(N)), "odd: 240 values in 240 rows, an identifier"),
        (
            [f"{day:02} Jan {year}" for year in range(1990, 2002) for day in range(1, 21)],
            "odd: dates",
        ),
    ],
)
def test_a_column_that_no_study_reads_is_left_out_with_the_reason(
    column: Any, reason: str | None, tmp_path: Path
) -> None:
    study = cw.init(patients(odd=column), label="ill", out=tmp_path / "ill.yaml")
    assert reason is None or any(reason in note for note in study.notes), study.notes
    assert "columns 'site', 'dose' are what a model reads" in " ".join(study.notes)
    assert cw.plan(tmp_path / "ill.yaml").runs


def test_a_folder_is_no_file_of_a_study(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"out: .* is a folder; name a file in it, such as .*study\.yaml"
    ):
        cw.init(patients(), label="ill", out=tmp_path)
    assert not [*tmp_path.iterdir()]

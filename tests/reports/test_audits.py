"""The picture of an audit: valid Vega-Lite that shows every verdict with its numbers, and a page
that escapes what it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair
import numpy as np
import pytest

from crosswind.core.errors import InputError
from crosswind.reports.audits import MOST_SHOWN, audit_figure, audit_page, write_audit
from crosswind.shifts.audit import Audit, audit


def made(columns: int = 3, names: str = "a", last: bool = False) -> Audit:
    def table(seed: int, tie: float) -> dict[str, Any]:
        generator = np.random.default_rng(seed)
        y = generator.integers(0, 2, 300)
        rest = {f"{names}{place}": generator.integers(0, 2, 300) for place in range(1, columns)}
        tied = {
            f"{names}0": np.where(generator.random(300) < tie, y, generator.integers(0, 2, 300))
        }
        return {"y": y, **rest, **tied} if last else {"y": y, **tied, **rest}

    return audit(table(0, 0.9), table(1, 0.0), "y")


@pytest.mark.slow
def test_the_chart_is_valid_vega_lite() -> None:
    assert altair.Chart.from_dict(dict(audit_figure(made()).spec), validate=True) is not None


def test_the_picture_holds_every_verdict() -> None:
    found = made()
    figure = audit_figure(found)
    data = figure.spec["datasets"]
    assert [len(data[f"d{place}"]) for place in range(3)] == [3, 4, 4]
    tied = data["d0"][0]
    verdict = found.column("a0").verdict("spurious correlation")
    assert verdict.effect is not None and found.column("a0").v_difference is not None
    assert (tied["c"], tied["s"], tied["e"]) == (
        "a0",
        "shift",
        pytest.approx(verdict.effect.value, rel=1e-5),
    )
    assert tied["r"] == pytest.approx(found.column("a0").v_difference.value, rel=1e-5)
    assert data["d1"][-1]["c"] == "y (label)"
    sizes = {param["name"]: param["value"] for param in figure.spec["params"]}
    assert (sizes["size0"], sizes["size1"], sizes["size2"]) == (0.2, 0.15, 0.02)
    assert "a0: spurious correlation" in figure.description


@pytest.mark.slow
def test_columns_with_something_to_say_come_first_where_there_are_too_many() -> None:
    found = made(MOST_SHOWN + 20, last=True)
    shown = {row["c"] for row in audit_figure(found).spec["datasets"]["d1"]}
    assert len(shown) == MOST_SHOWN and "a0" in shown


def test_the_page_escapes_names() -> None:
    page = audit_page(made(2, names="<script>alert(1)</script>&"), "<svg></svg>")
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert page.count("<details>") == 3


def test_a_picture_with_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"is no picture by its name \(valid: .svg, .pdf, .png, .html\)"
    ):
        write_audit(made(2), tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []

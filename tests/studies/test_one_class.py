"""Rows of a single class are refused or told: every model is right on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crosswind as cw
from crosswind.core.errors import DataError, InputError, NeedsError
from crosswind.data.dataset import AttributedDataset
from crosswind.proposals.study_file import propose
from crosswind.shifts.base import parse_shift
from crosswind.shifts.split import SetPlan, default_sets


def pictures(labels: list[Any], sites: list[str] | None = None) -> AttributedDataset:
    x = np.zeros((len(labels), 8, 8, 3), dtype=np.uint8)
    x[:, 0, 0, 0] = np.arange(len(labels))  # no two rows are one picture
    return cw.from_frame({"label": labels, "site": sites or ["s", "t"] * (len(labels) // 2)}, x)


def two_classes() -> AttributedDataset:
    return pictures(["c", "d"] * 20, ["s", "s", "t", "t"] * 10)


def train(split: Any, dataset: AttributedDataset, method: str = "erm") -> Any:
    return cw.train(method, split, dataset, model="mlp", steps=2, batch=4, validate_every=2)


@pytest.mark.parametrize("value", ["c", 1, 2.5, True, "日本", " padded "])
def test_a_label_with_one_value_is_refused_by_a_split(value: Any) -> None:
    with pytest.raises(
        InputError, match="has one value, .* in all 40 rows, so there is nothing to classify"
    ) as caught:
        cw.split(pictures([value] * 40), "label", ["site"], test=2)
    assert caught.value.field == "label"


HIDING: dict[str, tuple[AttributedDataset, list[Any]]] = {
    "the class is unseen": (
        two_classes(),
        [{"type": "unseen-data", "attribute": "label", "unseen": "d"}],
    ),
    "only a class": (two_classes(), [{"type": "only", "attribute": "label", "values": ["c"]}]),
    "the attribute is the label": (
        pictures(["c", "d"] * 20, ["s", "t"] * 20),
        [{"type": "unseen-data", "attribute": "site", "unseen": "t"}],
    ),
    "only a site": (
        pictures(["c", "d"] * 20, ["s", "t"] * 20),
        [{"type": "only", "attribute": "site", "values": ["s"]}],
    ),
    "two of three classes": (
        pictures(["c", "d", "e"] * 20, ["s", "t"] * 30),
        [{"type": "unseen-data", "attribute": "label", "unseen": ["d", "e"]}],
    ),
}


@pytest.mark.parametrize("case", HIDING)
@pytest.mark.parametrize("method", ["erm", "jtt", "mixup"])
def test_training_on_one_class_is_told_by_the_split_and_refused(case: str, method: str) -> None:
    dataset, shift = HIDING[case]
    split = cw.split(dataset, "label", ["site"], shift, test=2)
    assert any(
        text.startswith("train: all ") and "of the class c" in text for text in split.warnings
    )
    with pytest.raises(
        NeedsError, match="trains on rows of a single class, so there is nothing to tell apart"
    ):
        train(split, dataset, method)


@pytest.mark.parametrize("role", ["test", "validation"])
def test_a_set_of_one_class_is_told_and_the_others_are_not(role: str) -> None:
    dataset = two_classes()
    alone = parse_shift([{"type": "only", "attribute": "label", "values": ["d"]}])
    sets = {**default_sets(), "alone": SetPlan(role=role, law=alone)}
    split = cw.split(dataset, "label", ["site"], test=4, validation=0.3, sets=sets)
    warnings = [text for text in split.warnings if "of the class" in text]
    assert len(warnings) == 1
    assert warnings[0].startswith("alone: all ")
    assert "its accuracy says how often a model answers with that class" in warnings[0]


def test_ordinary_sets_are_not_doubted() -> None:
    dataset = two_classes()
    for shift in (None, [{"type": "unseen-data", "attribute": "site", "unseen": "t"}]):
        split = cw.split(dataset, "label", ["site"], shift, test=2)
        assert not any("of the class" in text for text in split.warnings)
        train(split, dataset)


def study(shift: list[Any]) -> dict[str, Any]:
    data = {"source": "digits", "label": "below5", "attributes": ["ink"], "roles": {"test": 2}}
    return {
        "data": {"digits": {**data, "label": "digit"}},
        "shifts": {"hard": shift},
        "methods": ["erm"],
        "models": ["mlp"],
        "seeds": 1,
    }


def test_a_study_that_trains_on_one_class_is_refused_by_its_plan() -> None:
    with pytest.raises(
        NeedsError, match=r"methods\.erm \(digits, hard, .*\): trains on rows of a single class"
    ):
        cw.plan(study([{"type": "only", "attribute": "digit", "values": ["3"]}]))
    cw.plan(study([{"type": "only", "attribute": "digit", "values": ["3", "4"]}]))


def test_a_table_with_one_class_gets_no_study(tmp_path: Path) -> None:
    rows = [
        "text,label,site",
        *(f"this is text number {i},yes,{'here' if i % 3 else 'there'}" for i in range(60)),
    ]
    (tmp_path / "table.csv").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises((InputError, DataError), match="one value"):
        propose(str(tmp_path / "table.csv"), label="label")


def test_an_audit_says_that_one_class_tells_no_correlation() -> None:
    table = {"label": ["c"] * 40, "site": ["s", "t"] * 20}
    assert (
        "the label 'label' has one value on both sides, 'c': correlations with it cannot be told"
        in str(cw.audit(table, table, "label"))
    )
    target_table = {"label": ["c", "d"] * 20, "site": ["s", "s", "t", "t"] * 10}
    assert "has one value on both sides" not in str(cw.audit(target_table, target_table, "label"))

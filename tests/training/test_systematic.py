"""What training is shown under a systematic shift, counted over every batch of an epoch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from crosswind.data.attributes import DerivedAttribute
from crosswind.data.derive import derive
from crosswind.data.sources.digits import Digits
from crosswind.shifts.base import parse_shift
from crosswind.shifts.draw import parse_draw
from crosswind.shifts.split import Roles, SplitPlan, make_split
from crosswind.training.loader import TrainingRows
from crosswind.training.settings import TrainingSettings

VALUES = {
    "clean": None,
    "noise": {"transform": "gaussian-noise", "severity": [3, 5]},
    "turned": {"transform": "rotate", "draw": "fixed"},
}
SHARES = {
    "type": "systematic",
    "environment": "e",
    "classes": {"clean": "all", "noise": ["3", "7"]},
    "shares": {"turned": 0.4},
}


@pytest.mark.parametrize("mode", ["per-visit", "fixed"])
@pytest.mark.parametrize(
    ("sampler", "needed"),
    [
        ("uniform", "epoch"),
        ({"environment": 0.75}, "epoch"),
        ({"image": 0.5}, "epoch"),
        ("balanced", "epoch"),
        ("uniform", "balanced"),
        ("uniform", "per-environment"),
    ],
)
def test_no_excluded_pair_of_class_and_environment_is_ever_drawn(
    mode: str, sampler: Any, needed: str
) -> None:
    """Told by the pictures, not by the labels of environments alone: what is not clean differs from
    the row's own picture."""
    data = derive(
        Digits().load(), DerivedAttribute("e", tuple(VALUES), "", tuple(VALUES.values()), mode)
    )
    shift = parse_shift(SHARES)
    plan = SplitPlan("digit", ("e",), shift, parse_draw("all"), Roles(20, 0.1), sampler=sampler)
    split = make_split({"d": data}, "d", plan, 0)
    rows = TrainingRows(split.train, data, TrainingSettings(batch=64), 0, needed)
    base = split.train.rows if mode == "per-visit" else split.train.rows // 3
    plain = torch.from_numpy(data.inputs(base)).permute(0, 3, 1, 2) / 127.5 - 1
    table = np.zeros((10, 3), dtype=np.int64)
    batches = -(-rows.n // 64)
    for step in range(batches):
        batch = rows.batch(step, batches)
        assert batch.environment is not None and batch.group is not None
        shown, y = batch.environment.numpy(), batch.y.numpy()
        assert (batch.group.numpy() == y * 3 + shown).all()
        assert np.array_equal(
            ((batch.x - plain[batch.ids]).abs().flatten(1).amax(1) < 1e-5).numpy(), shown == 0
        )
        np.add.at(table, (y, shown), 1)
    is_seen = shift.table(split.parts["train"].pool.cells)[1]  # type: ignore[attr-defined]
    assert is_seen.sum() == 10 + 2 + 4
    assert (
        table.sum() == batches * 64 and (table[~is_seen] == 0).all() and (table[is_seen] > 0).all()
    )
    if isinstance(sampler, dict) and "environment" in sampler:
        assert abs(table[:, 0].sum() / table.sum() - 0.75) < 4 * (0.75 * 0.25 / table.sum()) ** 0.5


EVERYTHING = """
import hashlib, sys
import numpy as np
import torch
from crosswind.core.registry import listing
from crosswind.data.attributes import DerivedAttribute
from crosswind.data.derive import derive
from crosswind.data.sources.digits import Digits
from crosswind.shifts.split import SplitPlan, make_split
from crosswind.training.loader import EvaluationRows
from crosswind.training.settings import TrainingSettings

batch, threads = map(int, sys.argv[1:])
torch.set_num_threads(threads)
names = [item.name for item in listing("transforms") if ".corruptions." in item.module]
assert len(names) == 19
every = {"transform": names, "severity": [1, 2, 3, 4, 5]}
data = derive(Digits(size=24).load(), DerivedAttribute("e", ("clean", "any"), "", (None, every), "per-visit"))
split = make_split({"d": data}, "d", SplitPlan("digit", ("e",)), 0)
rows = EvaluationRows(split.evaluation["test"], data, TrainingSettings(evaluation_batch=batch), resident=batch == 64)
places = np.flatnonzero(split.evaluation["test"].rows % 2 == 1)[:330][:: 1 if batch != 7 else -1]
x = torch.cat([part[:n] for part, n in rows.batches(places, padded=batch == 64)])
x = x if batch != 7 else x.flip(0)
print(len(x), hashlib.sha256(x.contiguous().numpy().tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_corrupted_evaluation_inputs_repeat_to_the_bit_between_processes_batch_sizes_threads_and_orders() -> (
    None
):
    """330 pictures, each under one of 19 corruptions x 5 severities: in processes of their own, all
    the same bytes."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", EVERYTHING, *how], capture_output=True, text=True, check=True
        ).stdout
        for how in (("64", "1"), ("7", "1"), ("500", "2"))
    }
    assert len(digests) == 1 and next(iter(digests)).startswith("330 "), digests

"""Batches are the same bits, whether pixels are held, held in part, or read ahead; and say how long
they waited."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.training.world import DATA, rows_of, run, same_weights, split

from crosswind.core.errors import DataError
from crosswind.data import resident
from crosswind.data.budget import bounded
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import DerivedAttribute, derive
from crosswind.methods.base import Stage
from crosswind.methods.erm import ERM
from crosswind.training.loader import AHEAD, EvaluationRows, TrainingRows
from crosswind.training.settings import TrainingSettings


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what data sets of other tests hold in this process."""
    monkeypatch.setattr(resident, "_private", weakref.WeakSet())


class CountedRendering:
    """The tiny world with a count of the rows that were rendered."""

    def __init__(self, mode: str | None = None) -> None:
        self.rows: Counter[int] = Counter()
        self.calls: list[tuple[str, list[int]]] = []

        def images(rows: np.ndarray) -> np.ndarray:
            self.rows.update(rows.tolist())
            self.calls.append((threading.current_thread().name, rows.tolist()))
            return DATA.inputs(rows)

        self.data = replace(DATA, read=images)
        if mode is not None:
            levels = (None, {"severity": 1}, {"severity": 5})
            self.data = derive(
                self.data,
                DerivedAttribute(
                    "noise", ("clean", "some", "much"), "gaussian-noise", levels, mode
                ),
            )


def batches(data: AttributedDataset, steps: int = 9) -> list[torch.Tensor]:
    rows = split().train
    if data.derived is not None:
        rows = replace(rows, rows=rows.rows * 3 + rows.rows % 3)
    rows_made = TrainingRows(rows, data, TrainingSettings(batch=16), 0, "epoch")  # type: ignore[arg-type]
    return [rows_made.batch(step, steps).x for step in range(steps)]


def predicted(data: AttributedDataset, resident: bool) -> list[torch.Tensor]:
    rows = rows_of(DATA, np.arange(100, 180))
    if data.derived is not None:
        rows = replace(rows, rows=rows.rows * 3 + rows.rows % 3)
    settings = TrainingSettings(evaluation_batch=32)
    rows_made = EvaluationRows(rows, data, settings, resident=resident)  # type: ignore[arg-type]
    some_positions = np.arange(5, 70, 3)
    full_batches = [x for x, _ in rows_made.batches(padded=True)]
    return [
        *full_batches,
        *(x for x, _ in rows_made.batches(some_positions, padded=False)),
        *(x for x, _ in rows_made.batches(padded=False)),
    ]


@pytest.mark.parametrize("mode", [None, "fixed"])
@pytest.mark.parametrize("rows", [0, 33, 100])
def test_held_and_streamed_batches_are_the_same_bits(
    mode: str | None, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_rows = batches(CountedRendering(mode=mode).data)
    shown = [predicted(CountedRendering(mode=mode).data, resident) for resident in (True, False)]
    monkeypatch.setattr(resident.Arena, "_room", lambda arena: max(0, rows - int(arena.held.sum())))
    world = CountedRendering(mode=mode)
    streamed = batches(world.data)
    assert world.data.cache["resident", "base"].held.sum() == min(rows, 60)
    later = [predicted(CountedRendering(mode=mode).data, whole) for whole in (True, False)]
    assert all(torch.equal(a, b) for a, b in zip(held_rows, streamed, strict=True))
    for other_batches in (shown[1], *later):
        assert len(other_batches) == len(shown[0]) and all(
            torch.equal(a, b) for a, b in zip(shown[0], other_batches, strict=True)
        )
    assert len(shown[0]) == 3 + 1 + 3 and len(shown[0][2]) == 32 and len(shown[0][6]) == 16


def test_a_held_row_is_rendered_once_for_all_runs_and_sets() -> None:
    world = CountedRendering()
    for seed in range(2):
        run(ERM(), data=world.data, seed=seed)
    rows_wanted = {*range(60), *range(90, 195)}
    assert world.rows == dict.fromkeys(rows_wanted, 1)


@pytest.mark.slow
def test_a_streamed_run_is_the_same_run() -> None:
    held_rows = run(ERM(), data=CountedRendering().data)
    gc.collect()
    with bounded(20 << 10):
        world = CountedRendering()
        streamed = run(ERM(), data=world.data)
    assert (
        same_weights(held_rows, streamed)
        and held_rows.history[-1]["validation"] == streamed.history[-1]["validation"]
    )
    assert max(world.rows.values()) > 1
    logits = (trajectory.predictions["last"]["test"].logits for trajectory in (held_rows, streamed))
    assert np.array_equal(*logits)


def test_the_next_batches_are_read_in_a_thread_and_no_more_of_them() -> None:
    world = CountedRendering()
    with bounded(0):
        rows = TrainingRows(split().train, world.data, TrainingSettings(batch=16), 0, "epoch")  # type: ignore[arg-type]
        first = rows.batch(0, 4).ids.tolist()
        deadline = time.monotonic() + 20
        while len(world.calls) < 1 + AHEAD and time.monotonic() < deadline:
            time.sleep(0.002)
        assert [name.startswith("inputs") for name, _ in world.calls] == [True] * (1 + AHEAD)
        assert world.calls[0][1] == first
        ids = [first, *(rows.batch(step, 4).ids.tolist() for step in (1, 2, 3))]
        assert [rows_asked for _, rows_asked in world.calls] == ids, "four steps, four readings"
        # Another order, and a step out of turn: nothing that was read ahead is taken for it.
        rows.batch(0, 9)
        rows.begin(Stage("other"))
        for step in (1, 2, 7, 5):
            batch = rows.batch(step, 9)
            shown = torch.from_numpy(DATA.inputs(batch.ids.numpy())).permute(0, 3, 1, 2)
            assert torch.equal(batch.x, shown.float() * (2 / 255) - 1), step


def test_what_was_waited_for_is_told() -> None:
    world = CountedRendering()
    with bounded(0):
        rows = TrainingRows(split().train, world.data, TrainingSettings(batch=16), 0, "epoch")  # type: ignore[arg-type]
        assert rows.waited == 0.0
        rows.batch(0, 1)
        assert rows.waited > 0.0
        shown = EvaluationRows(
            split().train, world.data, TrainingSettings(evaluation_batch=20), resident=True
        )  # type: ignore[arg-type]
        list(shown.batches(padded=True))
        assert shown.waited > 0.0
    held_rows = TrainingRows(split().train, world.data, TrainingSettings(batch=16), 0, "epoch")  # type: ignore[arg-type]
    held_rows.batch(0, 1)
    assert held_rows.waited == 0.0


def test_an_image_that_is_damaged_later_fails_the_run_with_its_sentence() -> None:
    def images(rows: np.ndarray) -> np.ndarray:
        if (rows == 7).any():
            raise DataError("row 7: 'a.png' is no whole image")
        return DATA.inputs(rows)

    data = replace(DATA, read=images)
    for size in (None, 0, 1 << 10):
        with bounded(size), pytest.raises(DataError, match="row 7: 'a.png'"):
            run(ERM(), data=data)


@pytest.mark.slow
def test_threads_that_read_end_with_their_rows() -> None:
    with bounded(0):
        rows = TrainingRows(
            split().train, CountedRendering().data, TrainingSettings(batch=16), 0, "epoch"
        )  # type: ignore[arg-type]
        rows.batch(0, 9)
        readers = [thread for thread in threading.enumerate() if thread.name.startswith("inputs")]
        assert readers
        del rows
        gc.collect()
        for thread in readers:
            thread.join(timeout=20)
            assert not thread.is_alive()

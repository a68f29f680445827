from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.methods.digits import STUDY, finished
from tests.training.world import GROUPS, run, same_weights, split
from torch import Tensor

from crosswind.core.exhibits import Bars, Grid
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info, State
from crosswind.methods.bpa import BPA, UNSEEN, clusters
from crosswind.methods.erm import ERM
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.training.settings import TrainingSettings, base_settings


class IdentityNetwork(torch.nn.Module):
    """Answers x itself, so that losses are chosen by the test."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def logits_of(losses: list[float]) -> Tensor:
    """Two logits a row whose cross-entropy with class 0 is the given one."""
    return torch.tensor([[0.0, float(np.log(np.expm1(loss)))] for loss in losses])


def info(n: int, k: int = 2) -> Info:
    return Info(
        InputSpec.image(8, 8, 3),
        2,
        n,
        ("a", "b"),
        (n - 1, 1),
        class_names=("dark", "bright"),
        steps=20,
        batch=4,
    )


def state(method: BPA, cluster: list[int], losses: list[float] | None = None) -> State:
    bpa_state = method.state(info(len(cluster)))
    bpa_state["cluster"] = torch.tensor(cluster)
    bpa_state["rows"] = torch.bincount(
        bpa_state["cluster"], minlength=len(bpa_state["level"])
    ).float()
    if losses is not None:
        bpa_state["loss"] = torch.tensor(losses)
        for code in range(len(bpa_state["level"])):
            inside = [
                loss
                for loss, cluster_code in zip(losses, cluster, strict=True)
                if cluster_code == code and loss != UNSEEN
            ]
            bpa_state["level"][code] = sum(inside) / len(inside) if inside else 0.0
    return bpa_state


def batch(losses: list[float], ids: list[int], step: int = 0) -> Batch:
    y = torch.zeros(len(ids), dtype=torch.int64)
    return Batch(logits_of(losses), y, torch.tensor(ids), y, y, step=step)


MODULES = {"model": IdentityNetwork()}


def test_before_every_row_was_drawn_weights_go_by_sizes_alone() -> None:
    """Clusters of 3 rows and of 1: N / N_c is 4/3 and 4. Rows 0 and 3: mean 8/3, so raw 0.5 and
    1.5; of momentum 0.3 0.85, 1.15."""
    method = BPA(k=2)
    loss = method.loss(MODULES, batch([1.0, 2.0], [0, 3]), state(method, [0, 0, 0, 1]))
    assert loss.state["weight"].tolist() == pytest.approx([0.85, 1.0, 1.0, 1.15])
    assert float(loss.total) == pytest.approx((0.85 * 1.0 + 1.15 * 2.0) / 2)
    assert loss.state["loss"].tolist() == pytest.approx([1.0, UNSEEN, UNSEEN, 2.0])
    assert loss.state["level"].tolist() == [0.0] * 4, "not at the tenth step yet"


def test_then_they_go_by_the_clusters_losses_too() -> None:
    """Levels 0.5 and 1.5 of 2: raw 4/3 x 1/4 = 1/3 and 4 x 3/4 = 3, over their mean 5/3 0.2 and
    1.8; of momentum 0.5 0.6, 1.4."""
    method = BPA(k=2, momentum=0.5)
    running_state = state(method, [0, 0, 0, 1], [0.25, 0.5, 0.75, 1.5])
    loss = method.loss(MODULES, batch([1.0, 2.0], [0, 3], step=9), running_state)
    assert loss.state["weight"].tolist() == pytest.approx([0.6, 1.0, 1.0, 1.4])
    assert loss.state["level"].tolist() == pytest.approx([(1.0 + 0.5 + 0.75) / 3, 2.0, 0, 0]), (
        "the tenth step looks anew"
    )
    exponential = replace(method, average="exponential").loss(
        MODULES, batch([1.0, 2.0], [0, 3]), running_state
    )
    grown = np.exp([0.5 * 0.2, 0.5 * 1.8])
    assert exponential.state["weight"][[0, 3]].tolist() == pytest.approx(
        (grown / grown.mean()).tolist()
    )


def plain(method: BPA, running_state: State, losses: list[float], ids: list[int]) -> list[float]:
    """The weights of a batch, by loops over rows and clusters."""
    cluster, n = running_state["cluster"].tolist(), len(running_state["cluster"])
    level = {}
    for code in set(cluster):
        drawn_losses = [
            float(running_state["loss"][row])
            for row in range(n)
            if cluster[row] == code and float(running_state["loss"][row]) != UNSEEN
        ]
        level[code] = sum(drawn_losses) / len(drawn_losses) if drawn_losses else 0.0
    all_drawn = all(float(loss) != UNSEEN for loss in running_state["loss"])
    raw = [
        n
        / cluster.count(cluster[row])
        * (level[cluster[row]] / sum(level.values()) if all_drawn else 1.0)
        for row in ids
    ]
    raw = [value / (sum(raw) / len(raw)) for value in raw]
    new = [
        (1 - method.momentum) * float(running_state["weight"][row]) + method.momentum * value
        for row, value in zip(ids, raw, strict=True)
    ]
    return [value / (sum(new) / len(new)) for value in new]


@pytest.mark.parametrize("seen", [True, False])
def test_random_clusters_as_a_plain_loop_over_rows(seen: bool) -> None:
    chance, method = np.random.default_rng(5), BPA(k=3, momentum=0.4)
    for _ in range(20):
        cluster = chance.integers(0, 6, 30).tolist()
        losses_known = chance.uniform(0.1, 3, 30)
        if not seen:
            losses_known[chance.integers(30)] = UNSEEN
        running_state = state(method, cluster, losses_known.tolist())
        running_state["weight"] = torch.from_numpy(chance.uniform(0.5, 2, 30)).float()
        ids, losses = chance.permutation(30)[:8].tolist(), chance.uniform(0.1, 3, 8).tolist()
        found = method.loss(MODULES, batch(losses, ids), running_state)
        expected = plain(method, running_state, losses, ids)
        assert found.state["weight"][ids].tolist() == pytest.approx(expected, rel=1e-5)
        total = sum(weight * loss for weight, loss in zip(expected, losses, strict=True)) / 8
        assert float(found.total) == pytest.approx(total, rel=1e-4)
        left = [row for row in range(30) if row not in ids]
        assert torch.equal(found.state["weight"][left], running_state["weight"][left])


@pytest.mark.parametrize("step", [0.05, 0.01, 0.3])
@pytest.mark.parametrize("seen", [True, False])
def test_as_released_a_rows_weight_holds_nothing_of_its_past(step: float, seen: bool) -> None:
    """Raw 1/3 and 3, over their mean 0.2 and 1.8, or 0.5 and 1.5 by sizes alone; then r exp(step
    r), over its mean."""
    method = BPA(k=2, momentum=step, average="released")
    running_state = state(method, [0, 0, 0, 1], [0.25, 0.5, 0.75, 1.5] if seen else None)
    raw = np.array([0.2, 1.8] if seen else [0.5, 1.5])
    expected = raw * np.exp(step * raw)
    expected /= expected.mean()
    for before in ([1.0, 1.0, 1.0, 1.0], [0.1, 7.0, 7.0, 9.0]):
        running_state["weight"] = torch.tensor(before)
        loss = method.loss(MODULES, batch([1.0, 2.0], [0, 3]), running_state)
        assert loss.state["weight"][[0, 3]].tolist() == pytest.approx(expected.tolist(), rel=1e-5)
        assert float(loss.total) == pytest.approx(float((expected * [1.0, 2.0]).mean()), rel=1e-4)


@pytest.mark.slow
def test_as_released_no_step_is_its_limit() -> None:
    released, plainly = run(BPA(momentum=0.0, average="released"), steps=6), run(ERM(), steps=6)
    assert not any(" is erm at " in text for text in released.warnings)
    assert any(
        not torch.equal(value, released.weights("last")[key])
        for key, value in plainly.weights("last").items()
    )
    assert released.action["share_of_gradient"] > 0.01
    for average in ("mean", "exponential"):
        assert any(
            " is erm at " in text
            for text in run(BPA(momentum=0.0, average=average), steps=6).warnings
        )


def test_a_row_that_stands_twice_counts_with_its_mean_loss() -> None:
    method = BPA(k=2)
    loss = method.loss(MODULES, batch([1.0, 3.0, 2.0], [1, 1, 2]), state(method, [0, 0, 0, 1]))
    assert loss.state["loss"].tolist() == pytest.approx([UNSEEN, 2.0, 2.0, UNSEEN])


def test_clusters_are_within_classes_by_the_cosine_and_none_is_invented() -> None:
    """Class 0: two directions of any length. Class 1: three equal rows, so one cluster, though k is
    2."""
    features = np.array(
        [[1, 0], [9, 0], [0, 2], [0, 0.1], [5, 5], [5, 5], [5, 5]], dtype=np.float32
    )
    cluster_codes = clusters(features, np.array([0, 0, 0, 0, 1, 1, 1]), 2, 7)
    assert cluster_codes[0] == cluster_codes[1] != cluster_codes[2] == cluster_codes[3] and set(
        cluster_codes[:4].tolist()
    ) == {0, 1}
    assert set(cluster_codes[4:].tolist()) == {2}
    single_row = clusters(features[:1], np.array([1]), 8, 7)
    assert single_row.tolist() == [8], "a class of one row"
    assert clusters(np.zeros((4, 2), np.float32), np.array([0, 0, 0, 0]), 2, 7).tolist() == [0] * 4


def test_the_first_network_is_erm_of_its_own_length_and_the_second_starts_fresh() -> None:
    settings = TrainingSettings.of({"steps": 100, "patience": 3, "stop_at": 0.5})
    first = base_settings(settings, BPA.needs, vars(BPA()))
    assert (first.patience, first.epochs, first.stop_at, first.steps) == (10, 50.0, None, 100)
    base = run(ERM(), seed=4, steps=6).weights("last")
    fresh = run(BPA(), steps=0, base=base).weights("last")
    alone = run(ERM(), steps=0).weights("last")
    assert all(torch.equal(value, fresh[key]) for key, value in alone.items())
    assert fresh["state/cluster"].max() > 1 and not same_weights(
        run(BPA(), base=base), run(BPA(), base=run(ERM(), seed=5).weights("last"))
    )


@pytest.mark.slow
def test_defaults_differ_from_erm_in_30_steps_and_without_momentum_it_is_erm() -> None:
    plainly = run(ERM(), steps=30)
    apart = run(BPA(), steps=30).weights("last")
    assert any(
        not torch.allclose(value, apart[key], atol=1e-3)
        for key, value in plainly.weights("last").items()
    )
    for method in (BPA(momentum=0.0), BPA(momentum=0.0, average="exponential")):
        trained_weights = run(method, steps=30).weights("last")
        assert all(
            torch.equal(value, trained_weights[key])
            for key, value in plainly.weights("last").items()
        )


def test_weights_and_clusters_are_shown_beside_the_true_groups() -> None:
    trajectory = run(BPA(k=2), steps=12)
    shown = trajectory.exhibits
    groups, cluster_table = shown["weights by group"], shown["clusters"]
    assert isinstance(groups, Bars) and isinstance(cluster_table, Grid)
    assert set(groups.values) == {f"{name} (15)" for name in GROUPS}
    assert list(groups.values.values()) == sorted(groups.values.values(), reverse=True)
    trained_weights, group = trajectory.weights("last"), split().train.group
    for name, mean in groups.values.items():
        in_group = group == GROUPS.index(name.removesuffix(" (15)"))
        assert mean == pytest.approx(
            float(trained_weights["state/weight"][in_group].mean()), abs=1e-4
        )
    assert sum(row[1] for row in cluster_table.rows) == 60 and 2 <= len(cluster_table.rows) <= 4  # type: ignore[misc]


def test_what_it_cannot_do_is_said() -> None:
    assert any("follow the clusters' sizes alone" in text for text in run(BPA(), steps=2).warnings)
    assert not run(BPA(), steps=12).warnings
    assert any(
        "the first network diverged" in text for text in run(BPA(), steps=6, lr=1e30).warnings
    )


def test_the_first_network_is_one_job_for_all_points_and_for_ubnet(tmp_path: Path) -> None:
    methods = {"erm": {}, "bpa": {"k": [2, 4]}, "ubnet": {}}
    plan = make_plan(study_from({**STUDY, "methods": methods}, name="digits"))
    bases = [job for job in plan.jobs if job.labels.get("role") == "base"]
    assert len(bases) == 1
    assert sum(bases[0].key in job.needs for job in plan.jobs if job.kind == "fit") == 3


@pytest.mark.slow
def test_a_study_of_points_runs_through(tmp_path: Path) -> None:
    rows = finished(tmp_path, {"bpa": {"k": [2, 4]}, "ubnet": {}})
    scored = {
        (row["method"], row["point"]): row["metrics"]["nll"]
        for row in rows
        if (row["rule"], row["set"]) == ("last", "test")
    }
    assert (
        set(scored) == {("erm", ""), ("bpa", "k=2"), ("bpa", "k=4"), ("ubnet", "")}
        and len(set(scored.values())) == 4
    )

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, GROUPS, dataset, run, split, with_train
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.exhibits import Grid, Picture
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Examples, Info
from crosswind.methods.cyclegan import CycleGAN, _evenly
from crosswind.methods.erm import ERM
from crosswind.methods.translation import Discriminator, Generator, pooled
from crosswind.models.build import build_model, unnamed

INFO = Info(
    InputSpec.image(8, 8, 3),
    2,
    12,
    GROUPS,
    (3, 3, 3, 3),
    ("red", "blue"),
    (6, 6),
    (6, 6),
    (),
    100,
    6,
)
SMALL = CycleGAN(width=4, blocks=1)


def made(method: CycleGAN, info: Info = INFO) -> tuple[Any, Any]:
    torch.manual_seed(0)
    modules = method.modules(
        info,
        lambda **changes: build_model("mlp", {"hidden": 8, "layers": 1}, info.input, unnamed(2), 0),
    )
    state = method.state(info)
    state["cells"] = torch.full((2, 2), 3)
    return modules, state


def given(n: int = 12) -> Batch:
    x = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(3)) * 1.6 - 0.8
    return Batch(
        x,
        torch.arange(n) % 2,
        torch.arange(n),
        torch.arange(n) % 4,
        torch.arange(n) // 2 % 2,
        stage="translator",
    )


def told(y: int, value: int) -> Tensor:
    out = torch.zeros(1, 4)
    out[0, value] = out[0, 2 + y] = 1.0
    return out


def test_both_losses_are_those_of_a_loop() -> None:
    method = replace(SMALL, cycle=3.0, identity=2.0)
    modules, state = made(method)
    batch, kept = given(), []  # type: ignore[var-annotated]
    make, tell = modules["generator"], modules["discriminator"]
    with torch.no_grad():
        torch.manual_seed(2)
        generator_loss = method._generator_loss(modules, batch, state, kept)
        discriminator_loss = method._discriminator_loss(modules, batch, state, kept)
        x, y, s, t, translated = kept
        assert torch.equal(x, batch.x) and 0 < float(t.float().mean()) < 1
        loss_parts, judged = [], []
        for i in range(12):
            picture, c, a, b = x[i : i + 1], int(y[i]), int(s[i]), int(t[i])
            out = make(picture, told(c, b))
            assert torch.allclose(out[0], translated[i], atol=1e-5)
            adversarial = float((tell(out, torch.tensor([2 * c + b])) - 1).square().mean())
            back = float((make(out, told(c, a)) - picture).abs().mean())
            same = float((make(picture, told(c, a)) - picture).abs().mean())
            loss_parts.append(adversarial + 3.0 * back + 2.0 * same)
            real = float((tell(picture, torch.tensor([2 * c + a])) - 1).square().mean())
            judged.append((real + float(tell(out, torch.tensor([2 * c + b])).square().mean())) / 2)
    assert float(generator_loss.total) == pytest.approx(np.mean(loss_parts), rel=1e-4)
    assert float(discriminator_loss.total) == pytest.approx(np.mean(judged), rel=1e-4), (
        "the pool was empty, so this step's are shown"
    )
    assert (discriminator_loss.state["pool_cell"] >= 0).sum() == 12


def test_targets_are_values_that_the_class_is_seen_with() -> None:
    """Class 0 with both values and class 1 with blue alone: the latter's pictures stay blue, unless
    classes are not told apart."""
    for by_class, expected in ((True, {1}), (False, {0, 1})):
        method = replace(SMALL, by_class=by_class)
        modules, state = made(method)
        state["cells"] = torch.tensor([[3, 2], [0, 4]])
        targets_seen: set[int] = set()
        for seed in range(5):
            translated: list[Tensor] = []
            torch.manual_seed(seed)
            with torch.no_grad():
                method._generator_loss(modules, given(), state, translated)
            targets_seen |= set(translated[3][translated[1] == 1].tolist())
        assert targets_seen == expected


def test_the_pool_shows_half_of_what_it_holds() -> None:
    state = {
        "pool": torch.zeros(50, 1, 2, 2, dtype=torch.uint8),
        "pool_cell": torch.full((50,), -1),
    }
    torch.manual_seed(0)
    first = torch.full((50, 1, 2, 2), 1.0)
    shown, cells, changes = pooled(first, torch.arange(50), state)
    assert (
        torch.equal(shown, first)
        and cells.tolist() == list(range(50))
        and sorted(changes["pool_cell"].tolist()) == list(range(50))
    )
    assert (changes["pool"] == 255).all()
    shares = []
    for _ in range(40):
        shown, cells, after = pooled(-first, torch.full((50,), 99), changes)
        old = (shown == 1).flatten(1).all(1)
        assert torch.equal(old, cells != 99) and len(set(cells[old].tolist())) == int(old.sum()), (
            "each at most once"
        )
        assert int((after["pool_cell"] == 99).sum()) == int(old.sum()), (
            "what is shown again is replaced"
        )
        shares.append(float(old.float().mean()))
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)
    shown, cells, after = pooled(-first.repeat(2, 1, 1, 1), torch.full((100,), 99), changes)
    assert len(shown) == 100 and int((cells != 99).sum()) <= 50


@pytest.mark.slow
def test_networks_are_the_published_ones() -> None:
    """Parameters of the ResNet generator of 9 blocks and of the 70 x 70 PatchGAN: their code prints
    11.378 M and 2.765 M."""
    assert sum(p.numel() for p in Generator(3, 0, 64, 9).parameters()) == 11_378_179
    assert sum(p.numel() for p in Discriminator((3, 256, 256), 1, 64).parameters()) == 2_764_737
    networks = CycleGAN().modules(
        replace(INFO, input=InputSpec.image(256, 256, 3)), lambda **changes: nn.Linear(1, 1)
    )  # type: ignore[arg-type, return-value]
    assert (
        sum(
            type(submodule).__name__ == "_TranslationBlock"
            for submodule in networks["generator"].modules()
        )
        == 9
    )
    assert networks["discriminator"](torch.zeros(1, 3, 256, 256), torch.tensor([0])).shape == (
        1,
        30,
        30,
    )


@pytest.mark.parametrize(("side", "channels"), [(8, 3), (16, 1), (28, 1), (30, 3), (64, 3)])
def test_networks_fit_the_pictures(side: int, channels: int) -> None:
    x = torch.zeros(2, channels, side, side)
    out = Generator(channels, 3, 2, 1)(x, torch.eye(3)[:2])
    assert out.shape == x.shape and out.abs().max() <= 1
    patches = Discriminator((channels, side, side), 3, 2)(x, torch.tensor([0, 2]))
    assert patches.ndim == 3 and patches.shape[1] >= 2


def test_what_the_generator_is_told_reaches_every_picture() -> None:
    """A constant plane beside the picture does not: instance norm takes it away."""
    x = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1
    torch.manual_seed(1)
    generator = Generator(3, 2, 8, 1)
    first_value, two = (generator(x, torch.eye(2)[value].expand(3, 2)) for value in (0, 1))
    assert (first_value - two).abs().flatten(1).amax(1).min() > 1e-3


def test_smaller_pictures_are_refused() -> None:
    with pytest.raises(NeedsError, match="at least 8 pixels"):
        made(SMALL, replace(INFO, input=InputSpec.image(4, 4, 3)))


def test_each_stage_trains_its_own_networks_and_nothing_else() -> None:
    fresh, trained_weights = (run(SMALL, steps=steps).weights("last") for steps in (0, 6))
    moved = {
        key.split(".")[0]
        for key in fresh
        if not key.startswith("state") and not torch.equal(fresh[key], trained_weights[key])
    }
    assert moved == {"model", "generator", "discriminator"}
    modules, _ = made(SMALL)
    names = {stage: set(SMALL.optimisers(INFO, modules, stage)) for stage in ("translator", "main")}
    assert names == {"translator": {"generator", "discriminator"}, "main": {"main"}}
    spec = SMALL.optimisers(INFO, modules, "translator")["generator"]
    assert spec.lr == 2e-4 and spec.betas == (0.5, 0.999) and spec.schedule is not None
    assert [spec.schedule(step, 0) for step in (0, 50, 75)] == [1.0, 1.0, 0.5]


@pytest.mark.slow
def test_rows_are_joined_by_their_translations() -> None:
    """60 rows of two values: 60 translations, each with its row's label; a share of them; of a
    class with one value none."""
    contexts: list[Any] = []

    class RecordedCycleGAN(CycleGAN):
        registered_name = "seen"

        def stage(self, index: int, context: Any) -> Any:
            stage = super().stage(index, context)
            contexts.append(stage)
            return stage

    sets = split()
    run(RecordedCycleGAN(width=4, blocks=1), sets, steps=4)
    extra = contexts[1].extra
    assert extra.x.dtype == torch.uint8 and sorted(extra.parents.tolist()) == list(range(60))
    assert extra.y.tolist() == sets.train.label[extra.parents.numpy()].tolist()
    weights = contexts[0].weights
    group = torch.from_numpy(sets.train.group)
    assert [float(weights[group == code].sum()) for code in range(4)] == pytest.approx([1.0] * 4), (
        "cells come equally often"
    )
    contexts.clear()
    run(RecordedCycleGAN(width=4, blocks=1, share=0.5), sets, steps=4)
    assert 15 <= len(contexts[1].extra.y) <= 45
    contexts.clear()
    keep = sets.train.group != 2
    changes = {
        name: getattr(sets.train, name)[keep]
        for name in ("rows", "label", "true_label", "group", "environment", "weight", "origin")
    }
    run(RecordedCycleGAN(width=4, blocks=1), with_train(sets, **changes), steps=4)
    assert len(contexts[1].extra.y) == 30 and set(contexts[1].extra.y.tolist()) == {0}


def test_classes_with_one_environment_each_are_doubted() -> None:
    sets = split()
    keep = (sets.train.group == 0) | (sets.train.group == 3)
    changes = {
        name: getattr(sets.train, name)[keep]
        for name in ("rows", "label", "true_label", "group", "environment", "weight", "origin")
    }
    trajectory = run(SMALL, with_train(sets, **changes), steps=4)
    assert [text for text in trajectory.warnings if "no picture could be translated" in text]
    assert trajectory.exhibits == {}


@pytest.mark.slow
def test_a_translator_learns_to_change_the_tint_and_keeps_the_class() -> None:
    """Tints 80 grey levels apart: red pictures told to be blue have more blue than red, and the
    other way round."""
    data = dataset(tint=80)
    trajectory = run(
        replace(SMALL, width=8, translator_lr=2e-3),
        split(60, data),
        data=data,
        steps=200,
        validate_every=100,
        lr=1e-3,
    )
    modules, _ = made(replace(SMALL, width=8))
    trained_weights = trajectory.weights("last").items()
    make = modules["generator"]
    make.load_state_dict(
        {k.removeprefix("generator."): v for k, v in trained_weights if k.startswith("generator.")}
    )
    rows = np.arange(60)
    x = torch.from_numpy(data.inputs(rows)).permute(0, 3, 1, 2).float() / 127.5 - 1
    tint, y = torch.from_numpy(rows // 2 % 2), torch.from_numpy(rows % 2)
    with torch.no_grad():
        out = [
            make(x, torch.cat([torch.eye(2)[value].expand(60, 2), torch.eye(2)[y]], 1))
            for value in (0, 1)
        ]
    bluer = [
        float((pictures[:, 2] - pictures[:, 0]).mean())
        for pictures in (*out, x[tint == 0], x[tint == 1])
    ]
    assert bluer[1] - bluer[0] > 0.5 * (bluer[3] - bluer[2]) > 0.3
    grid = trajectory.exhibits["taken for"]
    assert isinstance(grid, Grid) and grid.columns == ["what", "pictures", "translations"]
    assert grid.rows[0][2] > 0.7  # type: ignore[operator]
    (warning,) = [text for text in trajectory.warnings if "translat" in text]
    assert warning.startswith("cyclegan has 200 steps, and below 1000 "), (
        "and no doubt of what it learned"
    )


def test_as_many_of_every_cell_are_taken_spread_over_its_rows() -> None:
    cell = torch.tensor([1, 0, 0, 1, 0, 0, 3, 0, 0])
    assert _evenly(cell, 2).tolist() == [1, 5, 0, 3, 6]
    assert sorted(_evenly(cell, 9).tolist()) == list(range(9)) and _evenly(cell, 1).tolist() == [
        1,
        0,
        6,
    ]


def test_quality_is_that_of_a_loop_and_the_same_for_a_large_cell_and_a_small_one() -> None:
    """40 rows, most of two cells. Perfect translations of the rarer kind are taken for what they
    are, however few such rows are."""
    y = torch.tensor([0] * 17 + [1] * 17 + [0] * 3 + [1] * 3)
    s = torch.tensor([0] * 17 + [1] * 17 + [1] * 3 + [0] * 3)
    generator = torch.Generator().manual_seed(4)
    noise = torch.rand(40, 3, 8, 8, generator=generator) * 0.3
    x = -0.6 + noise
    x[:, 0] += 0.7 * y.float()[:, None, None]
    x[:, 2] += 0.7 * s.float()[:, None, None]
    translated = x.clone()
    translated[:, 2] += (0.7 - 1.4 * s.float())[:, None, None]
    translated[::5] = x[::5]  # some are not changed
    extra = Examples(((translated + 1) * 127.5).round().to(torch.uint8), y, torch.arange(40))
    context: Any = SimpleNamespace(
        y=y,
        environment=s,
        state={"cells": torch.tensor([[17, 3], [3, 17]])},
        inputs=lambda rows: x[rows],
    )
    quality = SMALL._quality(context, extra, 1 - s)
    reference_rows = _evenly(2 * y + s, 8).tolist()
    assert len(reference_rows) == 8 + 3 + 3 + 8
    pixels = ((x + 1) * 127.5).round().clamp(0, 255).double()
    hits: dict[tuple[str, int], list[tuple[bool, bool]]] = {}
    for what, rows in (("real", reference_rows), ("made", range(40))):
        for row in rows:
            pixels_of_row, value = (
                (pixels[row], int(s[row]))
                if what == "real"
                else (extra.x[row].double(), 1 - int(s[row]))
            )
            best = min(
                (j for j in reference_rows if j != row),
                key=lambda j: float((pixels[j] - pixels_of_row).square().sum()),
            )
            hits.setdefault((what, 2 * int(y[row]) + value), []).append(
                (int(s[best]) == value, int(y[best]) == int(y[row]))
            )
    expected = [
        np.mean(
            [
                np.mean([hit[fold] for hit in cells])
                for (kind, _), cells in hits.items()
                if kind == what
            ]
        )
        for fold in (0, 1)
        for what in ("real", "made")
    ]
    assert (
        quality.tolist() == pytest.approx(expected)
        and 0.6 < expected[1] < 0.9
        and expected[0] > 0.95
    )


def test_a_translator_that_changes_nothing_is_doubted() -> None:
    data = dataset(tint=120)
    trajectory = run(
        replace(SMALL, first=0.1, translator_lr=1e-6), split(60, data), data=data, steps=10
    )
    assert isinstance(trajectory.exhibits["taken for"], Grid)
    state = {"cells": torch.full((2, 2), 3), "quality": torch.tensor([0.9, 0.2, 0.5, 0.5])}
    (text,) = SMALL.doubts(state)
    assert (
        "in 20% of them" in text
        and "in 90%" in text
        and SMALL.doubts({**state, "quality": torch.full((4,), 0.9)}) == []
    )


def test_pictures_are_shown_under_every_value() -> None:
    trajectory = run(SMALL, steps=4)
    sheet = trajectory.exhibits["translations"]
    assert isinstance(sheet, Picture) and list(sheet.columns) == ["picture", "as red", "as blue"]
    # Six pictures, of every class and environment one at least, with what each is.
    assert len(sheet.rows) == 6 and set(sheet.rows) == set(GROUPS)
    assert (
        CycleGAN(share=0.0).exhibits(INFO, {}) == {}
        and SMALL.exhibits(INFO, SMALL.state(INFO)) == {}
    )


def test_without_translations_it_is_erm_and_with_them_it_is_not() -> None:
    plain, none, with_translations = (
        run(each, steps=12) for each in (ERM(), CycleGAN(share=0.0), SMALL)
    )
    logits = [
        trajectory.predictions["last"]["test"].logits
        for trajectory in (plain, none, with_translations)
    ]
    assert np.array_equal(logits[0], logits[1]) and abs(logits[0] - logits[2]).max() > 1e-3  # type: ignore[arg-type, operator]
    assert DATA.input.kind == "image"

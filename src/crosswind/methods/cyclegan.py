"""Learned augmentation: a cycle-consistent translator shows every training picture under the other
values of an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from crosswind.core.errors import NeedsError
from crosswind.core.exhibits import Exhibit, Grid, Picture
from crosswind.core.knobs import Limit, Needs, knob, log
from crosswind.core.registry import register
from crosswind.methods.base import (
    Batch,
    Examples,
    Info,
    Loss,
    MakeModel,
    Method,
    Modules,
    OptimiserSpec,
    RunContext,
    Stage,
    State,
)
from crosswind.methods.functional import group_means, levels, membership, wide, without_autocast
from crosswind.methods.translation import KEPT, Discriminator, Generator, pooled

__all__ = ["CycleGAN"]

TRANSLATOR = "translator"
SHOWN, COLUMNS = 6, 6  # pictures of the exhibit, and values that each is translated to at most
ASKED, NEAR = (
    256,
    1024,
)  # translations that are judged, and training pictures among which their nearest is looked for
FEWEST = 8  # of a cell of class and environment among these, where it has so many
LEAST = 8  # pixels of a side that are still more than one when they are halved twice
LARGE = 256  # side from which the published generator has 9 blocks and not 6


@final
@register("cyclegan", kind="method")
@dataclass(frozen=True)
class CycleGAN(Method):
    """CycleGAN: a translator learns to change the environment of a picture and nothing else; its
    pictures join the training rows.

    Objective: first a generator G(x, t, y), which gives a picture x of environment s and class y
        the environment t, and a discriminator D, which tells real pictures of environment and class
        by patches. t is drawn evenly from the environments that the class is seen with. G descends,
        in means over rows and pixels or patches,
            (D(G(x, t, y), t, y) - 1)^2 + cycle |G(G(x, t, y), s, y) - x|
            + identity |G(x, s, y) - x|,
        D descends ((D(x, s, y) - 1)^2 + D(G, t, y)^2) / 2, with G from the last 50 translations or
        this step's (Zhu et al. 2017, equations 1 to 3 and section 4). Then the model descends the
        mean cross-entropy of the rows and of their translations to all other values, so that the
        values of a row are seen evenly. That is Goel et al. 2020 without their group objective, as
        Wiles et al. 2022.
    Assumes: each class is seen with at least two environments, a few rows each; an environment is a
        change of the picture that convolutions can make. Pictures that the translator cannot
        change, and ones whose class it changes, are noise.
    Knobs: cycle 10, identity 5, translator_lr 0.0002 with betas 0.5 and 0.999, falling to 0 in the
        second half: Zhu et al. 2017, and so are width 64 and blocks, null: 6, and 9 from 256 pixels
        on. first 1: the translator has as many steps as the model. by_class false tells neither
        network the class.
    Limits: at share = 0 it is "erm", without a translator.
    Deviations: one translator that is told what to make, by scales and shifts after its norms
        (Dumoulin et al. 2017), where the papers train two for each pair of values, within each
        class.
        The translator sees every cell of class and environment equally often. The discriminator
        halves a picture
        three times from 128 pixels on, twice at 64, else once; theirs three times, at 256.
        Translations are made once and kept as 8 bits, so augmentations at a visit do not change
        them. Rows of a batch beyond 50 are not kept for the discriminator.
    Reference:
        @inproceedings{zhu2017unpaired, title={Unpaired Image-to-Image Translation using
        Cycle-Consistent Adversarial Networks}, author={Zhu, Jun-Yan and Park, Taesung and Isola,
        Phillip and Efros, Alexei A.}, booktitle={ICCV}, year={2017}} @inproceedings{goel2021model,
        title={Model Patching: Closing the Subgroup Performance Gap with Data Augmentation},
        author={Goel, Karan and Gu, Albert and Li, Yixuan and R{\\'e}, Christopher},
        booktitle={ICLR}, year={2021}}
    Checked against: losses by loops over rows; what each stage trains; a translator between two
    shades.
    """

    share: float = knob(
        1.0,
        domain="[0, 1]",
        source="Wiles et al. 2022",
        doc="share of the translations that join the rows",
    )
    cycle: float = knob(
        10.0,
        domain="[0, inf)",
        search=log(1.0, 100.0),
        source="Zhu et al. 2017",
        doc="weight of the way back",
    )
    identity: float = knob(
        5.0,
        domain="[0, inf)",
        source="Zhu et al. 2017",
        doc="weight of leaving a picture under its own value",
    )
    width: int = knob(
        64,
        domain="[1, inf)",
        source="Zhu et al. 2017",
        doc="channels of both networks' first layers",
    )
    blocks: int | None = knob(
        None,
        domain="[1, inf)",
        source="Zhu et al. 2017",
        doc="residual blocks of the generator; null: by size",
    )
    translator_lr: float = knob(
        2e-4,
        domain="(0, inf)",
        search=log(5e-5, 2e-3),
        source="Zhu et al. 2017",
        doc="learning rate of both networks at first",
    )
    first: float = knob(
        1.0,
        domain="(0, inf)",
        source="ours",
        doc="length of the translator's training, in the study's steps",
    )
    by_class: bool = knob(
        True, source="Goel et al. 2020", doc="whether the translator is told the class"
    )

    needs = Needs(environments=True, channels=(1, 3))
    limit = Limit({"share": 0.0}, equals="erm")
    version = 1
    family = {"wiles2022": "learned augmentation"}

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The model; with a translator its two networks."""
        model = make_model()
        if not self.share:
            return {"model": model}
        if min(info.input_shape[1:]) < LEAST:
            raise NeedsError(
                f"method 'cyclegan' needs pictures of at least {LEAST} pixels a side, and these are"
                f" {info.input}"
            )
        n_environments = len(info.environment_names)
        classes = info.n_classes if self.by_class else 0
        blocks = self.blocks
        if blocks is None:
            blocks = 6
            if min(info.input_shape[1:]) >= LARGE:
                blocks = 9
        generator = Generator(info.input_shape[0], n_environments + classes, self.width, blocks)
        cells = n_environments * max(1, classes)
        discriminator = Discriminator(info.input_shape, cells, self.width)
        return {"model": model, "generator": generator, "discriminator": discriminator}

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """Adam of Zhu et al. for each network of the translator; the study's for the model."""
        if stage != TRANSLATOR:
            main = OptimiserSpec([p for p in modules["model"].parameters() if p.requires_grad])
            return {"main": main}
        length = max(1, self._length(info))

        def falling(step: int, epoch: int) -> float:
            return min(1.0, 2.0 * (1.0 - step / length))

        return {
            name: OptimiserSpec(
                list(modules[name].parameters()),
                "adam",
                self.translator_lr,
                weight_decay=0.0,
                betas=(0.5, 0.999),
                schedule=falling,
            )
            for name in ("generator", "discriminator")
        }

    def state(self, info: Info) -> State:
        """`cells` int64 [k, e]: training rows of each class and environment. `pool` uint8 [50, c,
        h, w], `pool_cell` int64 [50].

        A cell is e x a class + a value, -1 where there is no picture yet. `shown` uint8 [6, 1 + e,
        c, h, w], six values at most, and `shown_cell` int64 [6]. `quality` [4], -1 before it is
        known, is how often the nearest training picture has the value that it should have, of a
        real picture and of a translation. The same of the class follows. Means over cells.
        """
        if not self.share:
            return {}
        n_environments = len(info.environment_names)
        shape = info.input_shape
        out = {"cells": torch.zeros(info.n_classes, n_environments, dtype=torch.int64)}
        out["quality"] = torch.full((4,), -1.0)
        out["pool"] = torch.zeros(KEPT, *shape, dtype=torch.uint8)
        out["pool_cell"] = torch.full((KEPT,), -1, dtype=torch.int64)
        out["shown_cell"] = torch.full((SHOWN,), -1, dtype=torch.int64)
        shown = torch.zeros(SHOWN, 1 + min(n_environments, COLUMNS), *shape, dtype=torch.uint8)
        return {**out, "shown": shown}

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """The translator's training, and the model's on rows and translations."""
        if not self.share:
            return Stage() if index == 0 else None
        assert context.environment is not None
        k, e = context.state["cells"].shape
        if index == 0:
            cell = context.y * e + context.environment
            counts = torch.bincount(cell, minlength=k * e).view(k, e)
            context.state["cells"] = counts
            if self.by_class:
                alike = counts
            else:
                alike = counts.sum(0).expand(k, e)
            weights = 1.0 / alike[context.y, context.environment].float()
            steps = self._length(context.info)
            return Stage(TRANSLATOR, steps=steps, weights=weights, stop=False, validate=False)
        if index > 1:
            return None
        extra, values = self._translations(context)
        if not len(values):
            return Stage()
        self._judge(context, extra, values)
        return Stage(extra=extra)

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """A step of the model; while the translator is trained, one of the generator and one of the
        discriminator."""
        if batch.stage != TRANSLATOR:
            return super().update(context, batch)
        translated: list[Tensor] = []
        generator_loss = context.descend(
            "generator",
            lambda: self._generator_loss(context.modules, batch, context.state, translated),
        )
        discriminator_loss = context.descend(
            "discriminator",
            lambda: self._discriminator_loss(context.modules, batch, context.state, translated),
        )
        return Loss(generator_loss.total, {**generator_loss.terms, **discriminator_loss.terms})

    def doubts(self, state: State) -> list[str]:
        """Nothing to translate to, and translations that are not taken for what they should be."""
        if "cells" not in state or not bool(state["cells"].any()):
            return []
        if not bool(self._targets(state).sum(1).max() > 1):
            return [
                "every class is seen with one environment, so no picture could be translated and"
                " this run is ERM"
            ]
        real, translated_quality = (float(value) for value in state["quality"][:2])
        if 0 <= translated_quality < real / 2:
            return [
                "the nearest training picture of a translation has the value meant in"
                f" {translated_quality:.0%} of them, of a real picture in {real:.0%}: the"
                " translator hardly changes pictures; train it longer (`first`) or raise"
                " `translator_lr`"
            ]
        return []

    def exhibits(self, info: Info, state: State) -> Mapping[str, Exhibit]:
        """Pictures under each value, and how often translations are taken for what they should
        be."""
        if "quality" not in state or bool((state["quality"] < 0).any()):
            return {}
        images = state["shown"].cpu().permute(0, 1, 3, 4, 2).numpy()
        columns = [
            "picture",
            *(f"as {name}" for name in info.environment_names[: images.shape[1] - 1]),
        ]
        e = state["cells"].shape[1]
        classes = info.class_names or tuple(map(str, range(info.n_classes)))
        rows = []
        for cell in state["shown_cell"].tolist():
            rows.append(
                "" if cell < 0 else f"{classes[cell // e]}, {info.environment_names[cell % e]}"
            )
        caption = (
            "Training pictures, beside each what it is, and what the translator makes of them."
            " Black: its class is not seen so."
        )
        quality = [round(float(value), 4) for value in state["quality"]]
        grid: list[list[str | float | int | None]] = [
            ["environment", quality[0], quality[1]],
            ["class", quality[2], quality[3]],
        ]
        quality_note = (
            "How often the nearest training picture, by squared difference of pixels among as many"
            " of every class and environment, has the environment that was meant, and the class: of"
            " training pictures and of their translations, means over class and environment. Never"
            " asked is the picture itself, nor that which one was made of; the translator learned"
            " from all."
        )
        translations = Picture.sheet(images, caption, columns=columns, rows=rows)
        return {
            "translations": translations,
            "taken for": Grid(["what", "pictures", "translations"], grid, quality_note),
        }

    def _length(self, info: Info) -> int:
        return round(self.first * info.steps)

    def _targets(self, state: State) -> Tensor:
        """Which values a picture of each class may get, bool [k, e]."""
        has_rows = state["cells"] > 0
        if self.by_class:
            return has_rows
        return has_rows.any(0).expand(len(has_rows), -1)

    def _condition(self, y: Tensor, value: Tensor, state: State) -> Tensor:
        """The generator's condition: one-hot values, and classes, float [n, e (+ k)]."""
        k, e = state["cells"].shape
        if self.by_class:
            conditions = [membership(value, e), membership(y, k)]
        else:
            conditions = [membership(value, e)]
        return torch.cat(conditions, 1).float()

    def _cell(self, y: Tensor, value: Tensor, state: State) -> Tensor:
        if self.by_class:
            return y * state["cells"].shape[1] + value
        return value

    def _generator_loss(
        self, modules: Modules, batch: Batch, state: State, translated: list[Tensor]
    ) -> Loss:
        """The generator's objective; leaves rows, targets and translations in `translated`."""
        x, y, s = _ordered(batch)
        t = torch.multinomial(self._targets(state)[y].float(), 1)[:, 0]
        make = modules["generator"]
        tell = modules["discriminator"]
        translation = make(x, self._condition(y, t, state))
        back, same = (make(pictures, self._condition(y, s, state)) for pictures in (translation, x))
        patches = tell(translation, self._cell(y, t, state))
        with without_autocast(x):
            fooled = (wide(patches) - 1.0).square().mean()
            cycle, identity = (wide(pictures - x).abs().mean() for pictures in (back, same))
        translated.extend([x, y, s, t, translation.detach()])
        terms = {"fooled": fooled.detach(), "cycle": cycle.detach(), "identity": identity.detach()}
        total = fooled + self.cycle * cycle + self.identity * identity
        return Loss(total, terms)

    def _discriminator_loss(
        self, modules: Modules, batch: Batch, state: State, translated: list[Tensor]
    ) -> Loss:
        """The discriminator's objective."""
        x, y, s, t, translation = translated
        shown, cell, changes = pooled(translation, self._cell(y, t, state), state)
        tell = modules["discriminator"]
        real = wide(tell(x, self._cell(y, s, state)))
        false = wide(tell(shown, cell))
        total = ((real - 1.0).square().mean() + false.square().mean()) / 2.0
        return Loss(total, {"discriminator": total.detach()}, changes)

    def _translations(self, context: RunContext) -> tuple[Examples, Tensor]:
        """Every row under each other value of its class, or the share of these that is wanted; and
        the values, int64 [m]."""
        assert context.environment is not None
        y = context.y
        s = context.environment
        n_values = context.state["cells"].shape[1]
        to_make = self._targets(context.state)[y] & ~membership(s, n_values)
        if self.share < 1.0:
            to_make = to_make & (torch.rand(to_make.shape) < self.share).to(to_make.device)
        rows, values = to_make.nonzero(as_tuple=True)
        chunks = []
        for start in range(0, len(rows), context.info.batch):
            chunk = rows[start : start + context.info.batch]
            value = values[start : start + context.info.batch]
            with torch.no_grad():
                translation = context.modules["generator"](
                    context.inputs(chunk), self._condition(y[chunk], value, context.state)
                )
            chunks.append(levels(translation).cpu())
        if chunks:
            all_translations = torch.cat(chunks)
        else:
            all_translations = torch.zeros(0, *context.info.input_shape, dtype=torch.uint8)
        return Examples(all_translations, y[rows], rows), values

    def _judge(self, context: RunContext, extra: Examples, values: Tensor) -> None:
        """Keep what a few pictures became, and how often translations have the right neighbours."""
        assert context.environment is not None
        y = context.y
        state = context.state
        shown = state["shown"].clone()
        cells = state["shown_cell"].clone()
        targets = self._targets(state)
        cell = y * targets.shape[1] + context.environment
        each = -(-SHOWN // int((state["cells"] > 0).sum()))
        rows = _evenly(cell, each)
        n_shown = min(SHOWN, len(rows))
        chosen = torch.linspace(0, len(rows) - 1, n_shown, device=y.device).long()
        rows = rows[chosen]
        cells[: len(rows)] = cell[rows]
        x = context.inputs(rows)
        shown[: len(rows), 0] = levels(x)
        with torch.no_grad():
            for value in range(shown.shape[1] - 1):
                condition = self._condition(y[rows], torch.full_like(rows, value), state)
                translated = levels(context.modules["generator"](x, condition))
                is_target = targets[y[rows], value].view(-1, 1, 1, 1)
                shown[: len(rows), 1 + value] = torch.where(is_target, translated, 0)
        state["shown"], state["shown_cell"] = shown, cells
        state["quality"] = self._quality(context, extra, values)

    def _quality(self, context: RunContext, extra: Examples, values: Tensor) -> Tensor:
        """The values of the state's `quality`: by nearest neighbours among as many rows of every
        class and environment."""
        assert context.environment is not None
        y = context.y
        s = context.environment
        e = context.state["cells"].shape[1]
        cell = y * e + s
        counts = torch.bincount(cell)
        # A cell that is much larger than another would be nearest for its number alone.
        n_cells = int((counts > 0).sum())
        each = max(1, min(max(int(counts[counts > 0].min()), FEWEST), NEAR // n_cells))
        reference_rows = _evenly(cell, each)
        reference_pictures = levels(context.inputs(reference_rows)).float().flatten(1)
        parents = extra.parents.to(y.device)
        to = y[parents] * e + values.to(y.device)
        real, translated_rows = (
            _evenly(codes, max(1, ASKED // n_cells)) for codes in (cell[reference_rows], to)
        )
        quality_numbers = []
        for pictures, rows, cells in (
            (reference_pictures[real], reference_rows[real], cell[reference_rows[real]]),
            (
                extra.x[translated_rows.cpu()].to(reference_pictures).flatten(1),
                parents[translated_rows],
                to[translated_rows],
            ),
        ):
            apart = torch.cdist(pictures, reference_pictures)
            apart[rows[:, None] == reference_rows] = (
                torch.inf
            )  # never the picture itself, nor that which one was made of
            like = cell[reference_rows][apart.argmin(1)]
            for right in (like % e == cells % e, like // e == cells // e):
                n_groups = context.state["cells"].numel()
                means, counted = group_means(right.float(), cells, n_groups)
                quality_numbers.append(means[counted > 0].mean())
        return torch.stack([quality_numbers[index] for index in (0, 2, 1, 3)])


def _evenly(cell: Tensor, each: int) -> Tensor:
    """Places of `each` members of every cell, int64 codes [n], spread over its members in order; of
    all where it has fewer."""
    order = cell.argsort(stable=True)
    counts = torch.bincount(cell)
    first_of_cell = (counts.cumsum(0) - counts)[cell[order]]
    rank = torch.arange(len(cell), device=cell.device) - first_of_cell
    return order[rank * each % counts[cell[order]] < each]


def _ordered(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, labels and environments in the order of the rows' ids: what is drawn for places is
    that of a set of rows."""
    assert batch.environment is not None
    order = batch.ids.argsort(stable=True)
    return batch.x[order], batch.y[order], batch.environment[order]

"""Learned augmentation: a cycle-consistent translator shows every training picture under the other values of an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

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
from crosswind.methods.functional import membership, without_autocast

__all__ = ["CycleGAN", "Discriminator", "Generator", "pooled"]

TRANSLATOR = "translator"
KEPT = 50  # earlier translations that the discriminator may be shown again (Zhu et al. 2017)
SHOWN, COLUMNS = 6, 6  # pictures of the exhibit, and values that each is translated to at most
ASKED, NEAR = 256, 2048  # translations that are judged, and training pictures among which their nearest is looked for
LEAST = 8  # pixels of a side that are still more than one when they are halved twice
LARGE = 256  # side from which the published generator has 9 blocks and not 6
SPREAD = 0.02  # of initial weights, the authors'


@final
@register("cyclegan", kind="method")
@dataclass(frozen=True)
class CycleGAN(Method):
    """CycleGAN: a translator learns to change the environment of a picture and nothing else; its pictures join the training rows.

    Objective: first a generator G(x, t, y), which gives a picture x of environment s and class y the environment t, and a
        discriminator D, which tells real pictures of environment and class by patches. t is drawn evenly from the environments that
        the class is seen with. G descends, in means over rows and pixels or patches,
            (D(G(x, t, y), t, y) - 1)^2 + cycle |G(G(x, t, y), s, y) - x| + identity |G(x, s, y) - x|,
        D descends ((D(x, s, y) - 1)^2 + D(G, t, y)^2) / 2, with G from the last 50 translations or this step's (Zhu et al. 2017,
        equations 1 to 3 and section 4). Then the model descends the mean cross-entropy of the rows and of their translations to
        all other values, so that the values of a row are seen evenly (Goel et al. 2020, without their group objective, as Wiles et
        al. 2022).
    Assumes: each class is seen with at least two environments, a few rows each; an environment is a change of the picture that
        convolutions can make. Pictures that the translator cannot change, and ones whose class it changes, are noise.
    Knobs: cycle 10, identity 5, translator_lr 0.0002 with betas 0.5 and 0.999, falling to 0 in the second half: Zhu et al. 2017,
        and so are width 64 and blocks, null: 6, and 9 from 256 pixels on. first 1: the translator has as many steps as the model.
        by_class false tells neither network the class.
    Limits: at share = 0 it is "erm", without a translator.
    Deviations: one translator that is told what to make, by scales and shifts after its norms (Dumoulin et al. 2017), where the
        papers train two for each pair of values, within each class.
        The translator sees every cell of class and environment equally often. The discriminator halves a picture
        three times from 128 pixels on, twice at 64, else once; theirs three times, at 256. Translations are made once and kept as 8
        bits, so augmentations at a visit do not change them. Rows of a batch beyond 50 are not kept for the discriminator.
    Reference:
        @inproceedings{zhu2017unpaired, title={Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial Networks},
        author={Zhu, Jun-Yan and Park, Taesung and Isola, Phillip and Efros, Alexei A.}, booktitle={ICCV}, year={2017}}
        @inproceedings{goel2021model, title={Model Patching: Closing the Subgroup Performance Gap with Data Augmentation},
        author={Goel, Karan and Gu, Albert and Li, Yixuan and R{\\'e}, Christopher}, booktitle={ICLR}, year={2021}}
    Checked against: losses by loops over rows; what each stage trains; a translator between two shades.
    """

    share: float = knob(1.0, domain="[0, 1]", source="Wiles et al. 2022", doc="share of the translations that join the rows")
    cycle: float = knob(10.0, domain="[0, inf)", search=log(1.0, 100.0), source="Zhu et al. 2017", doc="weight of the way back")
    identity: float = knob(5.0, domain="[0, inf)", source="Zhu et al. 2017", doc="weight of leaving a picture under its own value")
    width: int = knob(64, domain="[1, inf)", source="Zhu et al. 2017", doc="channels of both networks' first layers")
    blocks: int | None = knob(
        None, domain="[1, inf)", source="Zhu et al. 2017", doc="residual blocks of the generator; null: by size"
    )
    translator_lr: float = knob(
        2e-4, domain="(0, inf)", search=log(5e-5, 2e-3), source="Zhu et al. 2017", doc="learning rate of both networks at first"
    )
    first: float = knob(1.0, domain="(0, inf)", source="ours", doc="length of the translator's training, in the study's steps")
    by_class: bool = knob(True, source="Goel et al. 2020", doc="whether the translator is told the class")

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
            raise NeedsError(f"method 'cyclegan' needs pictures of at least {LEAST} pixels a side, and these are {info.input}")
        many, classes = len(info.environment_names), info.n_classes if self.by_class else 0
        blocks = (9 if min(info.input_shape[1:]) >= LARGE else 6) if self.blocks is None else self.blocks
        generator = Generator(info.input_shape[0], many + classes, self.width, blocks)
        discriminator = Discriminator(info.input_shape, many * max(1, classes), self.width)
        return {"model": model, "generator": generator, "discriminator": discriminator}

    def optimisers(self, info: Info, modules: Modules, stage: str) -> dict[str, OptimiserSpec]:
        """Adam of Zhu et al. for each network of the translator; the study's for the model."""
        if stage != TRANSLATOR:
            return {"main": OptimiserSpec([p for p in modules["model"].parameters() if p.requires_grad])}
        length = max(1, self._length(info))

        def falling(step: int, epoch: int) -> float:
            return min(1.0, 2.0 * (1.0 - step / length))

        return {
            name: OptimiserSpec(
                list(modules[name].parameters()), "adam", self.translator_lr, weight_decay=0.0, betas=(0.5, 0.999), schedule=falling
            )
            for name in ("generator", "discriminator")
        }

    def state(self, info: Info) -> State:
        """`cells` int64 [k, e]: training rows of each class and environment. `pool` uint8 [50, c, h, w], `pool_cell` int64 [50].

        The cell of an earlier translation is e x its class + its value, -1 where there is none yet. `shown` uint8 [6, 1 + e, c, h,
        w], six values at most. `quality` [4], -1 before it is known: how often the nearest training picture of a real picture and
        of a translation has the value that it should have; and the same of the class.
        """
        if not self.share:
            return {}
        many, shape = len(info.environment_names), info.input_shape
        out = {"cells": torch.zeros(info.n_classes, many, dtype=torch.int64), "quality": torch.full((4,), -1.0)}
        out |= {"pool": torch.zeros(KEPT, *shape, dtype=torch.uint8), "pool_cell": torch.full((KEPT,), -1, dtype=torch.int64)}
        return {**out, "shown": torch.zeros(SHOWN, 1 + min(many, COLUMNS), *shape, dtype=torch.uint8)}

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
            alike = counts if self.by_class else counts.sum(0).expand(k, e)
            weights = 1.0 / alike[context.y, context.environment].float()
            return Stage(TRANSLATOR, steps=self._length(context.info), weights=weights, stop=False, validate=False)
        if index > 1:
            return None
        extra, values = self._translations(context)
        if not len(values):
            return Stage()
        self._judge(context, extra, values)
        return Stage(extra=extra)

    def update(self, context: RunContext, batch: Batch) -> Loss:
        """A step of the model; while the translator is trained, one of the generator and one of the discriminator."""
        if batch.stage != TRANSLATOR:
            return super().update(context, batch)
        kept: list[Tensor] = []
        found = context.descend("generator", lambda: self._translated(context.modules, batch, context.state, kept))
        other = context.descend("discriminator", lambda: self._told(context.modules, batch, context.state, kept))
        return Loss(found.total, {**found.terms, **other.terms})

    def doubts(self, state: State) -> list[str]:
        """Nothing to translate to, and translations that are not taken for what they should be."""
        if "cells" not in state or not bool(state["cells"].any()):
            return []
        if not bool(self._targets(state).sum(1).max() > 1):
            return ["every class is seen with one environment, so no picture could be translated and this run is ERM"]
        real, made = (float(value) for value in state["quality"][:2])
        if 0 <= made < real / 2:
            return [
                f"the nearest training picture of a translation has the value meant in {made:.0%} of them, of a real picture in "
                f"{real:.0%}: the translator hardly changes pictures; train it longer (`first`) or raise `translator_lr`"
            ]
        return []

    def exhibits(self, info: Info, state: State) -> Mapping[str, Exhibit]:
        """Pictures under each value, and how often translations are taken for what they should be."""
        if "quality" not in state or bool((state["quality"] < 0).any()):
            return {}
        names = info.environment_names[: state["shown"].shape[1] - 1]
        images = state["shown"].cpu().permute(0, 1, 3, 4, 2).numpy()
        caption = f"From left to right: the picture, and it as {', '.join(names)}. Black: a value that its class is not seen with."
        told = [round(float(value), 4) for value in state["quality"]]
        rows: list[list[str | float | int | None]] = [["environment", told[0], told[1]], ["class", told[2], told[3]]]
        asked = (
            "How often the nearest other training picture, by squared difference of pixels, has the environment that was meant, "
            "and the class: of real pictures and of translations to another environment."
        )
        return {
            "translations": Picture.sheet(images, caption),
            "taken for": Grid(["what", "pictures", "translations"], rows, asked),
        }

    def _length(self, info: Info) -> int:
        return round(self.first * info.steps)

    def _targets(self, state: State) -> Tensor:
        """Which values a picture of each class may get, bool [k, e]."""
        seen = state["cells"] > 0
        return seen if self.by_class else seen.any(0).expand(len(seen), -1)

    def _told_of(self, y: Tensor, value: Tensor, state: State) -> Tensor:
        """What the generator is told: one-hot values, and classes, float [n, e (+ k)]."""
        k, e = state["cells"].shape
        parts = [membership(value, e), membership(y, k)] if self.by_class else [membership(value, e)]
        return torch.cat(parts, 1).float()

    def _cell(self, y: Tensor, value: Tensor, state: State) -> Tensor:
        return y * state["cells"].shape[1] + value if self.by_class else value

    def _translated(self, modules: Modules, batch: Batch, state: State, kept: list[Tensor]) -> Loss:
        """The generator's objective; leaves rows, targets and translations in `kept`."""
        x, y, s = _ordered(batch)
        t = torch.multinomial(self._targets(state)[y].float(), 1)[:, 0]
        make, tell = modules["generator"], modules["discriminator"]
        made = make(x, self._told_of(y, t, state))
        back, same = (make(one, self._told_of(y, s, state)) for one in (made, x))
        patches = tell(made, self._cell(y, t, state))
        with without_autocast(x):
            fooled = (_wide(patches) - 1.0).square().mean()
            cycle, identity = (_wide(one - x).abs().mean() for one in (back, same))
        kept.extend([x, y, s, t, made.detach()])
        terms = {"fooled": fooled.detach(), "cycle": cycle.detach(), "identity": identity.detach()}
        return Loss(fooled + self.cycle * cycle + self.identity * identity, terms)

    def _told(self, modules: Modules, batch: Batch, state: State, kept: list[Tensor]) -> Loss:
        """The discriminator's objective."""
        x, y, s, t, made = kept
        shown, cell, changes = pooled(made, self._cell(y, t, state), state)
        tell = modules["discriminator"]
        real, false = _wide(tell(x, self._cell(y, s, state))), _wide(tell(shown, cell))
        total = ((real - 1.0).square().mean() + false.square().mean()) / 2.0
        return Loss(total, {"discriminator": total.detach()}, changes)

    def _translations(self, context: RunContext) -> tuple[Examples, Tensor]:
        """Every row under each other value of its class, or the share of these that is wanted; and the values, int64 [m]."""
        assert context.environment is not None
        y, s = context.y, context.environment
        wanted = self._targets(context.state)[y] & ~membership(s, context.state["cells"].shape[1])
        if self.share < 1.0:
            wanted = wanted & (torch.rand(wanted.shape) < self.share).to(wanted.device)
        rows, values = wanted.nonzero(as_tuple=True)
        parts = []
        for start in range(0, len(rows), context.info.batch):
            chunk, value = rows[start : start + context.info.batch], values[start : start + context.info.batch]
            with torch.no_grad():
                made = context.modules["generator"](context.inputs(chunk), self._told_of(y[chunk], value, context.state))
            parts.append(_levels(made).cpu())
        whole = torch.cat(parts) if parts else torch.zeros(0, *context.info.input_shape, dtype=torch.uint8)
        return Examples(whole, y[rows], rows), values

    def _judge(self, context: RunContext, extra: Examples, values: Tensor) -> None:
        """Keep what a few pictures became, and how often translations have the right neighbours."""
        assert context.environment is not None
        y, s, state = context.y, context.environment, context.state
        shown = state["shown"].clone()
        targets = self._targets(state)
        rows = torch.linspace(0, len(y) - 1, min(SHOWN, len(y))).long().to(y.device)
        x = context.inputs(rows)
        shown[: len(rows), 0] = _levels(x)
        with torch.no_grad():
            for value in range(shown.shape[1] - 1):
                made = _levels(context.modules["generator"](x, self._told_of(y[rows], torch.full_like(rows, value), state)))
                shown[: len(rows), 1 + value] = torch.where(targets[y[rows], value].view(-1, 1, 1, 1), made, 0)
        state["shown"] = shown
        near = torch.linspace(0, len(y) - 1, min(NEAR, len(y))).long().to(y.device)
        there = _levels(context.inputs(near)).float().flatten(1)
        asked = torch.linspace(0, len(near) - 1, min(ASKED, len(near))).long().to(y.device)
        apart = torch.cdist(there[asked], there)
        apart[torch.arange(len(asked), device=y.device), asked] = torch.inf
        real = near[apart.argmin(1)]
        places = torch.linspace(0, len(extra.y) - 1, min(ASKED, len(extra.y))).long()
        made = extra.x[places].to(there).flatten(1)
        apart = torch.cdist(made, there)
        parents = extra.parents.to(y.device)[places.to(y.device)]
        apart[parents[:, None] == near] = torch.inf  # not the picture it was made of
        found = near[apart.argmin(1)]
        meant = values[places.to(y.device)]
        told = [s[real] == s[near[asked]], s[found] == meant, y[real] == y[near[asked]], y[found] == y[parents]]
        state["quality"] = torch.stack([one.float().mean() for one in told])


class Generator(nn.Module):
    """Pictures [n, c, h, w] and what to make of them, [n, told] -> pictures like them, values in (-1, 1) (Johnson et al. 2016)."""

    def __init__(self, channels: int, told: int, width: int, blocks: int) -> None:
        super().__init__()
        parts: list[nn.Module] = [_padded(channels, width, 7), Told(width, told), nn.ReLU()]
        for before in (width, 2 * width):
            parts += [nn.Conv2d(before, 2 * before, 3, 2, 1), Told(2 * before, told), nn.ReLU()]
        parts += [_Block(4 * width, told) for _ in range(blocks)]
        for before in (4 * width, 2 * width):
            parts += [nn.ConvTranspose2d(before, before // 2, 3, 2, 1, 1), Told(before // 2, told), nn.ReLU()]
        self.parts = nn.ModuleList([*parts, _padded(width, channels, 7), nn.Tanh()])
        _begin(self)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        """See the class."""
        made = _through(self.parts, x, told)
        return made if made.shape == x.shape else nn.functional.interpolate(made, x.shape[2:])


class Told(nn.Module):
    """Instance norm with a scale and a shift by what the generator is told (Dumoulin et al. 2017).

    Told by planes beside the picture it would learn nothing: the norm takes away whatever is the same everywhere.
    """

    def __init__(self, channels: int, told: int) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels)
        self.by = nn.Linear(told, 2 * channels) if told else None

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        """Like x."""
        found: Tensor = self.norm(x)
        if self.by is None:
            return found
        scale, shift = self.by(told.to(x.dtype))[:, :, None, None].chunk(2, 1)
        return found * (1.0 + scale) + shift


class _Block(nn.Module):
    def __init__(self, width: int, told: int) -> None:
        super().__init__()
        first = [_padded(width, width, 3), Told(width, told), nn.ReLU()]
        self.parts = nn.ModuleList([*first, _padded(width, width, 3), Told(width, told)])

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        return x + _through(self.parts, x, told)


def _through(parts: nn.ModuleList, x: Tensor, told: Tensor) -> Tensor:
    for part in parts:
        x = part(x, told) if isinstance(part, Told | _Block) else part(x)
    return x


class Discriminator(nn.Module):
    """Pictures [n, c, h, w] and the cell that each is to be of, int64 [n] -> how real each patch is of it, [n, h', w']."""

    def __init__(self, shape: tuple[int, ...], cells: int, width: int) -> None:
        super().__init__()
        side = min(shape[1:])
        halved = max(1, min(3, (side // 16).bit_length() - 1))
        parts: list[nn.Module] = [nn.Conv2d(shape[0], width, 4, 2, 1), nn.LeakyReLU(0.2)]
        for place in range(halved):
            before, after = width * 2**place, width * 2 ** (place + 1)
            parts += [nn.Conv2d(before, after, 4, 1 if place == halved - 1 else 2, 1), nn.InstanceNorm2d(after), nn.LeakyReLU(0.2)]
        self.net = nn.Sequential(*parts, nn.Conv2d(width * 2**halved, cells, 4, 1, 1))
        _begin(self)

    def forward(self, x: Tensor, cell: Tensor) -> Tensor:
        """See the class."""
        return self.net(x)[torch.arange(len(x), device=x.device), cell]


def pooled(made: Tensor, cell: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
    """Translations to show the discriminator, their cells, and the pool after that (Zhu et al. 2017, section 4).

    A row meets a place of the pool of its own. An empty place takes its translation, which is shown; a full one is shown with
    chance 1/2 and then takes it.
    """
    pool, known = state["pool"], state["pool_cell"]
    n = min(len(made), len(pool))
    rows = torch.rand(len(made), device=made.device).argsort()[:n]
    places = torch.rand(len(pool), device=made.device).argsort()[:n]
    empty = known[places] < 0
    old = (torch.rand(n, device=made.device) < 0.5) & ~empty
    shown, cells = made.clone(), cell.clone()
    wide = old.view(-1, 1, 1, 1)
    before = (pool[places].to(made.dtype) / 127.5 - 1.0).to(made.dtype)
    shown[rows] = torch.where(wide, before, made[rows])
    cells[rows] = torch.where(old, known[places], cell[rows])
    takes = old | empty
    changed, cells_after = pool.clone(), known.clone()
    changed[places] = torch.where(takes.view(-1, 1, 1, 1), _levels(made[rows]), pool[places])
    cells_after[places] = torch.where(takes, cell[rows], known[places])
    return shown, cells, {"pool": changed, "pool_cell": cells_after}


def _padded(before: int, after: int, size: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, padding=size // 2, padding_mode="reflect")


def _begin(network: nn.Module) -> None:
    for part in network.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(part.weight, 0.0, SPREAD)
            assert part.bias is not None
            nn.init.zeros_(part.bias)


def _ordered(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, labels and environments in the order of the rows' ids: what is drawn for places is that of a set of rows."""
    assert batch.environment is not None
    order = batch.ids.argsort(stable=True)
    return batch.x[order], batch.y[order], batch.environment[order]


def _wide(values: Tensor) -> Tensor:
    """At least float32."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _levels(x: Tensor) -> Tensor:
    """Inputs in (-1, 1) as uint8."""
    return ((x.detach().float() + 1.0) * 127.5).round().clamp(0, 255).to(torch.uint8)

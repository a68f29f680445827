"""OccamNets: exits at every depth, so that what a shallow one gets right is answered there, from
few places of the picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.exhibits import Bars, Exhibit, Grid, Picture
from crosswind.core.knobs import Limit, Needs, choose, knob, log
from crosswind.core.registry import register
from crosswind.methods.base import (
    Batch,
    Info,
    Loss,
    MakeModel,
    Method,
    Modules,
    Output,
    RunContext,
    Stage,
    State,
)
from crosswind.methods.functional import membership, row_losses
from crosswind.models.build import Model

__all__ = ["Exit", "OccamNets", "gate_losses", "suppression"]

EXITS = 4  # stages that get an exit, the authors'
GATE = 16  # hidden units of a gate, the authors'
PARTS = 4  # hidden channels of an exit are a quarter of the stage's, the authors'
RISE = 0.1  # how much higher the accuracy threshold of each later exit is, the authors'
TINY = 1e-5
SHOWN = 6  # pictures of the exhibit
LOOK = 25  # steps after which the exhibit's pictures are taken anew


@final
@register("occamnets", kind="method")
@dataclass(frozen=True)
class OccamNets(Method):
    """OccamNets: an exit at every depth answers from class activation maps, and a row leaves at the
    first that is sure.

    Objective: after stage j = 1 to E of the trunk an exit makes maps h_j by two convolutions, class
        activation maps c_j = W_j h_j, their means over places, the logits f_j, and a gate g_j in
        (0, 1) by two layers from the means of [h_j]; what is in brackets gives no gradient. Exit 1
        reads [the stage], the others the stage. A step descends the sum over exits of
            mean_i (w_ji + offset) CE(f_j(x_i), y_i)  +  suppression S_j  +  gate_weight G_j
        w_1i = p_y(f_1(x_i))^gamma0 and w_ji = (1 - g_j-1(x_i))^gamma, each over the largest since
        the epoch began, without gradient (Shrestha et al. 2022, section 3). S_j is the mean over
        rows and places of KL(even || softmax over classes of c_j) where the map of the row's class
        is below its mean, else 0. G_j is the mean of v_i BCE(g_j(x_i), t_ji): t_ji
        tells whether exit j is right on row i, v_i = (rows with this t over those with the commoner
        one)^-balance in the batch. t is as last remembered once the accuracy since the epoch began,
        a mean over classes, is above the threshold of the exit, threshold + 0.1 (j - 1), and the
        first `least_epochs` are over. The answer is f_j of the first exit from the
        second on with g_j >= 1/2, else that of the last.
    Assumes: what is simple is not the bias, or the bias is in few places: rows that the first exit
        gets right weigh less for the later ones. No group or environment is read.
    Knobs: suppression 0.1, gate_weight 1, gamma0 3, gamma 1, threshold 0.5, 0.2 for fMoW: Jeon et
        al. 2025, table 9. balance 0.5, offset 0.1, least_epochs 1: the authors' code. answer
        "sure", as above; "last", the last exit's, is what Jeon et al. did.
    Limits: none: exits answer, and no setting makes them the model's head.
    Deviations: exits are after the last four stages past the stem, fewer where there are fewer; on
        the study's model, where the authors take a ResNet18 of width 58 and weights drawn by He et
        al.'s law. The last exit has no gate, for nothing would read it. A map of one place is not
        suppressed; theirs is, as no place is above the mean. A row that was not remembered has the
        present t.
    Reference:
        @inproceedings{shrestha2022occamnets, title={{OccamNets}: Mitigating Dataset Bias by
        Favoring Simpler Hypotheses}, author={Shrestha, Robik and Kafle, Kushal and Kanan,
        Christopher}, booktitle={ECCV}, year={2022}}
    Checked against: hand-worked numbers; loops over rows, exits and places.
    """

    suppression: float = knob(
        0.1,
        domain="[0, inf)",
        search=log(1e-2, 1.0),
        grid={"jeon2025": [0.1]},
        source="Shrestha et al. 2022; Jeon et al. 2025, table 9",
        doc="weight of the suppression of places",
    )
    gate_weight: float = knob(
        1.0,
        domain="[0, inf)",
        grid={"jeon2025": [1.0]},
        source="Shrestha et al. 2022; Jeon et al. 2025, table 9",
        doc="weight of the gates' loss",
    )
    gamma0: float = knob(
        3.0,
        domain="[0, inf)",
        search=choose(1.0, 3.0, 5.0),
        grid={"jeon2025": [3.0]},
        source="Shrestha et al. 2022; Jeon et al. 2025, table 9",
        doc="exponent of the first exit's weights",
    )
    gamma: float = knob(
        1.0,
        domain="[0, inf)",
        grid={"jeon2025": [1.0]},
        source="Shrestha et al. 2022; Jeon et al. 2025, table 9",
        doc="exponent of the later exits' weights",
    )
    threshold: float = knob(
        0.5,
        domain="[0, 1]",
        grid={"jeon2025": [0.5, 0.2]},
        source="Shrestha et al. 2022; Jeon et al. 2025, table 9",
        doc="accuracy of the first exit above which its gate learns from what is remembered",
    )
    balance: float = knob(
        0.5,
        domain="[0, 1]",
        source="the authors' code",
        doc="exponent by which leaving and staying are balanced",
    )
    offset: float = knob(
        0.1, domain="[0, inf)", source="the authors' code", doc="what is added to every weight"
    )
    least_epochs: int = knob(
        1,
        domain="[0, inf)",
        source="the authors' code",
        doc="epochs in which every answer is remembered",
    )
    answer: str = knob(
        "sure",
        domain="{sure, last}",
        source="Shrestha et al. 2022; last: Jeon et al. 2025",
        doc="the exit whose answer counts",
    )

    needs = Needs(maps=True, rows=2)
    limit = Limit.none("exits answer, and no setting makes them the model's head")
    version = 1
    family = {"jeon2025": "de-biasing"}

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The trunk and the exits."""
        model = make_model()
        widths = _widths(model, info.input_shape)
        exits = nn.ModuleList(
            Exit(width, info.n_classes, gated=number < len(widths) - 1)
            for number, width in enumerate(widths)
        )
        return {"model": model, "exits": exits}

    def state(self, info: Info) -> State:
        """`right` [4, n_rows]: whether an exit was right on a row as last remembered, -1 where it
        is not yet.

        Of the epoch `epoch` []: `hits` [4, k] and `seen` [k], rows of each class; `largest` [4],
        the largest weights. `left` int64 [n_rows]: the exit at which a row left when it was last
        seen, -1 before. `label`, `group` int64 [n_rows]. `shown` uint8 [6, 5, c, h, w]: pictures
        and where each exit looked.
        """
        n = info.n_rows
        k = info.n_classes
        zeros = torch.zeros(info.n_rows, dtype=torch.int64)
        right = torch.full((EXITS, n), -1.0)
        hits = torch.zeros(EXITS, k)
        out = {"right": right, "hits": hits, "seen": torch.zeros(k)}
        epoch = torch.tensor(-1)
        largest = torch.zeros(EXITS)
        out |= {"largest": largest, "epoch": epoch, "left": zeros - 1, "group": zeros.clone()}
        shown = torch.zeros(SHOWN, EXITS + 1, *info.input_shape, dtype=torch.uint8)
        return {**out, "shown": shown}

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """One; groups are kept for the exhibit alone."""
        context.state["group"] = context.group.clone()
        return Stage() if index == 0 else None

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        maps, logits, gates = _answers(modules, batch.x)
        n_exits = len(logits)
        changes = self._remembered([exit_logits.detach() for exit_logits in logits], batch, state)
        sums: dict[str, Tensor] = {}
        terms: list[tuple[str, Tensor]] = []
        largest = list(torch.where(state["epoch"] == batch.epoch, state["largest"], 0.0))
        for exit_number, exit_logits_now in enumerate(logits):
            losses = row_losses(exit_logits_now, batch.y)
            with torch.no_grad():
                if exit_number == 0:
                    weights = torch.exp(-self.gamma0 * losses)
                else:
                    weights = (1.0 - gates[exit_number - 1].sigmoid()) ** self.gamma
                weights = weights.to(losses.dtype)
                largest[exit_number] = torch.maximum(largest[exit_number], weights.max().float())
                weights = weights / (largest[exit_number] + TINY)
            terms.append(("classification", ((weights + self.offset) * losses).mean()))
            terms.append(
                ("suppression", self.suppression * suppression(maps[exit_number], batch.y))
            )
            if exit_number < n_exits - 1:
                targets = changes["right"][exit_number, batch.ids]
                terms.append(
                    (
                        "gates",
                        self.gate_weight
                        * gate_losses(gates[exit_number], targets, self.balance).mean(),
                    )
                )
        for name, term in terms:
            sums[name] = sums[name] + term if name in sums else term
        changes["largest"] = torch.stack(largest)
        with torch.no_grad():
            left = _left([gate.detach() for gate in gates], len(batch.y))
            changes["left"] = state["left"].index_copy(0, batch.ids, left)
            if batch.step % LOOK == 0 or batch.step == batch.steps - 1:
                changes["shown"] = _looked(batch, maps, state["shown"])
        total = torch.stack(list(sums.values())).sum()
        return Loss(total, {name: term.detach() for name, term in sums.items()}, changes)

    def predict(self, modules: Modules, x: Tensor, state: State) -> Output:
        """The logits of the exit at which a row leaves."""
        _, logits, gates = _answers(modules, x)
        if self.answer == "last":
            return Output(logits=logits[-1])
        left = _left(gates, len(x))
        chosen = torch.stack(logits)[left, torch.arange(len(x), device=x.device)]
        return Output(logits=chosen)

    def exhibits(self, info: Info, state: State) -> Mapping[str, Exhibit]:
        """The exits that answered by true group, which training did not read; and where each exit
        looked."""
        state_on_cpu = {name: value.cpu() for name, value in state.items()}
        has_answer = state_on_cpu["left"] >= 0
        if not bool(has_answer.any()):
            return {}
        exits = int((state_on_cpu["largest"] > 0).sum())
        by_group = membership(state_on_cpu["group"][has_answer], info.n_groups).double()
        codes = state_on_cpu["left"][has_answer]
        rows_by_exit = by_group.T @ membership(codes, exits).double()
        shares = rows_by_exit / by_group.sum(0).clamp(min=1.0)[:, None]
        rows: list[list[str | float | int | None]] = []
        for code in range(info.n_groups):
            if by_group[:, code].any():
                rows.append(
                    [
                        info.group_names[code],
                        int(by_group[:, code].sum()),
                        *(round(float(share), 4) for share in shares[code, 1:]),
                    ]
                )
        columns = [
            "group",
            "training rows",
            *(f"exit {exit_number + 1}" for exit_number in range(1, exits)),
        ]
        caption = (
            "Where rows left when they were last seen in training. The first exit never answers."
        )
        counts = torch.bincount(state_on_cpu["left"][has_answer], minlength=exits)
        names = [f"exit {exit_number + 1}" for exit_number in range(exits)]
        bars = {name: int(count) for name, count in zip(names, counts, strict=True)}
        out: dict[str, Exhibit] = {"exits that answered": Bars(bars, "training rows", caption)}
        out["exits by group"] = Grid(
            columns, rows, "Share of the rows of each group. No group was read in training."
        )
        images = state_on_cpu["shown"][:, : exits + 1].permute(0, 1, 3, 4, 2).numpy()
        maps_caption = (
            "Pictures of training, and where each exit looked: the map of their class, from black,"
            " its least, to white."
        )
        if images.shape[4] in (1, 3):
            out["where exits looked"] = Picture.sheet(
                images, maps_caption, columns=["picture", *names]
            )
        return out

    def _remembered(self, logits: list[Tensor], batch: Batch, state: State) -> State:
        """The state after these answers, the largest weights left out."""
        with torch.no_grad():
            fresh = state["epoch"] != batch.epoch
            n_values = state["seen"].shape[0]
            classes = membership(batch.y, n_values).float()
            rows_of_class = torch.where(fresh, 0.0, state["seen"]) + classes.sum(0)
            same = (batch.ids[:, None] == batch.ids).float()
            hits = torch.where(fresh, 0.0, state["hits"])
            right = state["right"]
            for exit_number, exit_logits in enumerate(logits):
                now = (exit_logits.argmax(1) == batch.y).float()
                hits_now = (now[:, None] * classes).sum(0)[None]
                exit_index = torch.full_like(batch.ids[:1], exit_number)
                hits = hits.index_add(0, exit_index, hits_now)
                accuracy = (hits[exit_number] / rows_of_class.clamp(min=1.0)).sum() / (
                    rows_of_class > 0
                ).sum()
                # A row that stands in the batch twice, in two views, is right where most of them
                # are.
                now = ((same * now).sum(1) / same.sum(1) >= 0.5).float()
                before = right[exit_number, batch.ids]
                is_below = accuracy <= self.threshold + RISE * exit_number
                learns = is_below | (batch.epoch < self.least_epochs) | (before < 0)
                line = right[exit_number].index_copy(0, batch.ids, torch.where(learns, now, before))
                right = torch.cat([right[:exit_number], line[None], right[exit_number + 1 :]])
            epoch = torch.full_like(state["epoch"], batch.epoch)
            return {"right": right, "hits": hits, "seen": rows_of_class, "epoch": epoch}


class Exit(nn.Module):
    """Maps [n, c, h, w] of a stage -> class activation maps [n, k, h, w], and the gate's logit [n]
    where there is one."""

    def __init__(self, channels: int, n_classes: int, gated: bool) -> None:
        super().__init__()
        hidden = max(1, channels // PARTS)
        first = nn.Conv2d(channels, hidden, 3, padding=1)
        second = nn.Conv2d(hidden, channels, 3, padding=1)
        self.read = nn.Sequential(first, nn.BatchNorm2d(hidden), nn.ReLU(), second, nn.ReLU())
        self.classes = nn.Conv2d(channels, n_classes, 1)
        if gated:
            self.gate = nn.Sequential(
                nn.Linear(channels, GATE), nn.BatchNorm1d(GATE), nn.ReLU(), nn.Linear(GATE, 1)
            )
        self.gated = gated

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """See the class."""
        read_features = self.read(x)
        gate_logit: Tensor | None = None
        if self.gated:
            gate_logit = self.gate(read_features.detach().mean((2, 3)))[:, 0]
        return self.classes(read_features), gate_logit


def suppression(maps: Tensor, y: Tensor) -> Tensor:
    """The mean over rows and places of KL(even || softmax over classes) where a row's map of its
    class y [n] is below its mean.

    `maps` [n, k, h, w]. In nats, at least float32.
    """
    wide = maps.flatten(2).to(torch.promote_types(maps.dtype, torch.float32))
    own_class = y[:, None, None].expand(-1, 1, wide.shape[2])
    own_map = wide.detach().gather(1, own_class)[:, 0]
    below = own_map < own_map.mean(1, keepdim=True)
    apart = -wide.log_softmax(1).mean(1) - math.log(wide.shape[1])
    return (apart * below).mean()


def gate_losses(gates: Tensor, targets: Tensor, balance: float) -> Tensor:
    """The cross-entropy of each row's gate, a logit [n], with its target 0 or 1, weighed so that
    the two are nearer in number."""
    wide = gates.to(torch.promote_types(gates.dtype, torch.float32))
    leave = targets.sum()
    counts = torch.stack([len(targets) - leave, leave])
    weights = (1.0 / (counts / counts.max() + TINY)) ** balance
    each = nn.functional.binary_cross_entropy_with_logits(
        wide, targets.to(wide.dtype), reduction="none"
    )
    return torch.where(targets > 0, weights[1], weights[0]) * each


def _left(gates: list[Tensor], n: int) -> Tensor:
    """The place of the exit at which each of n rows leaves, int64 [n]: the first past the first
    that is sure, else the last."""
    if len(gates) < 2:
        return torch.full((n,), len(gates), dtype=torch.int64, device=gates[0].device)
    sure = torch.stack([*gates[1:], torch.full_like(gates[0], torch.inf)]) >= 0
    return sure.int().argmax(0) + 1


def _answers(modules: Modules, x: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Of every exit the class activation maps and the logits [n, k]; of all but the last the gate's
    logit [n]."""
    model = cast(Model, modules["model"])
    exits = [cast(Exit, exit_maps) for exit_maps in cast(nn.ModuleList, modules["exits"])]
    maps = []
    gates = []
    for exit_number, (exit_maps, exit_) in enumerate(zip(_maps(model, x), exits, strict=True)):
        class_maps, gate = exit_(exit_maps if exit_number else exit_maps.detach())
        maps.append(class_maps)
        if gate is not None:
            gates.append(gate)
    return maps, [exit_maps.mean((2, 3)) for exit_maps in maps], gates


def _looked(batch: Batch, maps: list[Tensor], shown: Tensor) -> Tensor:
    """A few pictures of the batch and, at their size, each exit's map of their class, from its
    least value to its largest."""
    x = batch.x[:SHOWN]
    y = batch.y[:SHOWN]
    out = torch.zeros_like(shown)
    grey_levels = ((x.float() + 1.0) * 127.5).round()
    out[: len(x), 0] = grey_levels.clamp(0, 255).to(torch.uint8)
    for exit_number, exit_map in enumerate(maps):
        own_map = exit_map.detach().float()[torch.arange(len(x), device=x.device), y]
        low = own_map.amin((1, 2), keepdim=True)
        high = own_map.amax((1, 2), keepdim=True)
        scaled = (own_map - low) / (high - low).clamp(min=TINY)
        grey = nn.functional.interpolate(scaled[:, None], x.shape[2:])
        out[: len(x), exit_number + 1] = (255.0 * grey).round().to(torch.uint8)
    return out


def _maps(model: Model, x: Tensor) -> list[Tensor]:
    """The outputs of the stages that have an exit."""
    names = [name for name in model.stages if name != "stem"][-EXITS:]
    taps = model.taps(x, names)
    return [taps[name] for name in names]


def _widths(model: Model, shape: tuple[int, ...]) -> list[int]:
    """The channels of these maps; `NeedsError` where an output is no map, or there is one alone.
    The model stays as it is."""
    training = model.training
    like = next(model.parameters())
    with torch.no_grad():
        stage_maps = _maps(
            model.eval(), torch.zeros(1, *shape, dtype=like.dtype, device=like.device)
        )
    model.train(training)
    if len(stage_maps) < 2 or any(stage_map.ndim != 4 for stage_map in stage_maps):
        raise NeedsError(
            "method 'occamnets' needs maps [channels, height, width] after two stages of the model"
            " at least, and this model gives none"
        )
    return [stage_map.shape[1] for stage_map in stage_maps]

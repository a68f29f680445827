"""Partition and debias: experts at every depth, each with an intrinsic and a biased half."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import Tensor, nn

from crosswind.core.errors import NeedsError
from crosswind.core.exhibits import Bars, Exhibit, Grid
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

__all__ = ["Expert", "PnD", "apart", "generalised"]

DEPTHS = 4  # stages that get an expert, the authors'
GATE = 16  # hidden units of an expert's heads, the authors'
PARTS = 4  # hidden channels of an expert are a quarter of its outgoing ones, the authors'
TINY = 1e-8
WARM_UP = "warm-up"


@final
@register("pnd", kind="method")
@dataclass(frozen=True)
class PnD(Method):
    """PnD: at every depth an expert splits what is biased from what is not, and a gate chooses
    among the unbiased halves.

    Objective: two trunks, intrinsic and biased, are models of the study's kind. The expert e of a
        stage takes the stage's maps in both trunks, each through convolution, batch norm, ReLU,
        convolution, ReLU and the mean over places, to vectors u_e and v_e. Two heads (linear to 16,
        batch norm, ReLU, linear) answer d_e = D_e(u_e, [v_e]) and b_e = B_e([u_e], v_e); what is in
        brackets gives no gradient. With CE the cross-entropy and GCE_q = (1 - p_y^q) / q the
        generalised one, a step descends
            sum over e of  alpha mean_i w_ei CE(d_ei) + mean_i GCE_q(b_ei)
            + beta mean over e of the contrast
            + sum over e > 1 of the mean of exp(-[p_e-1] log([p_e-1] / p_e)) over rows and classes
            + CE of the gate's answer,  sum over e of softmax(G [d_1, d_2, ...])_e [d_e].
        with p_e the softmax of b_e, and w_ei = b' / (b' + d'): of row i the running means of
        CE(b_ei) and CE(d_ei), its old value times `ema` + the new one times 1 - ema, each over the
        largest of its class. The contrast is the cross-entropy of telling, for `anchors` rows i of
        the batch, D_e(u_i, [v_j]) from `negatives` answers B_e([u_k], v_i) by -temperature times
        the mean squared distance to d_ei. J is an anchor, k any row. In the warm-up alpha is alpha1
        and there is no contrast, then it is alpha2 (their section 3.3, equation 4). An answer is
        the gate's.
    Assumes: rows with the bias are learnt first and by the biased halves; biases are of several
        kinds, at several depths. No group is read. Mislabelled rows are hard for both halves and
        keep a middle weight.
    Knobs: alpha1 0.2, alpha2 2, beta 4, q 0.7, ema 0.7, temperature 0.1, anchors 16, negatives 8:
        the authors'. The warm-up lasts at most warm_up_epochs 50 passes and ends warm_up_patience
        10 validations after the best, whose networks go on: Jeon et al. 2025. probabilities false:
        true puts a sigmoid behind each head as in the authors' code, which then reads its output as
        logits.
    Limits: none: two trunks and experts answer, and no setting makes them one network.
    Deviations: experts are at the last four stages past the stem, fewer where there are fewer, and
        their outgoing channels are as many as the last stage's, 512 of a ResNet18 as in the paper.
        The gate's input gives no gradient to the experts. The authors' code multiplies GCE's
        gradient by q, gives its first stage 70 passes at 1e-3 and the second 100 at 5e-4; here both
        have the study's rate, as Jeon et al. have it. Patience counts the study's validations, not
        passes.
    Reference:
        @inproceedings{li2023partition, title={Partition-and-Debias: Agnostic Biases Mitigation via
        a Mixture of Biases-Specific Experts}, author={Li, Jiaxuan and Vo, Duc Minh and Nakayama,
        Hideki}, booktitle={ICCV}, pages={4924--4934}, year={2023}}
    Checked against: hand-worked numbers; loops over rows and experts.
    """

    alpha1: float = knob(
        0.2,
        domain="[0, inf)",
        search=log(0.05, 1.0),
        source="Li et al. 2023",
        doc="weight of the intrinsic halves in the warm-up",
    )
    alpha2: float = knob(
        2.0,
        domain="[0, inf)",
        search=log(0.5, 8.0),
        source="Li et al. 2023",
        doc="their weight after it",
    )
    beta: float = knob(
        4.0,
        domain="[0, inf)",
        search=log(0.5, 16.0),
        source="Li et al. 2023",
        doc="weight of the contrast",
    )
    q: float = knob(
        0.7,
        domain="(0, 1]",
        search=choose(0.5, 0.7, 0.9),
        source="Li et al. 2023",
        doc="exponent of the biased halves' loss",
    )
    ema: float = knob(
        0.7,
        domain="[0, 1)",
        source="Li et al. 2023",
        doc="share of the old value in the running losses of a row",
    )
    temperature: float = knob(
        0.1, domain="(0, inf)", source="Li et al. 2023", doc="factor of distances in the contrast"
    )
    anchors: int = knob(
        16,
        domain="[1, inf)",
        source="Li et al. 2023",
        doc="rows of a batch that are contrasted; all of a smaller batch",
    )
    negatives: int = knob(
        8,
        domain="[1, inf)",
        source="Li et al. 2023",
        doc="answers that each of them is told apart from",
    )
    probabilities: bool = knob(
        False, source="true: the authors' code", doc="whether a sigmoid stands behind the heads"
    )
    warm_up_patience: int | None = knob(
        10,
        domain="[1, inf)",
        source="Jeon et al. 2025, table 9",
        doc="validations without a new best that end the warm-up",
    )
    warm_up_epochs: float = knob(
        50.0,
        domain="(0, inf)",
        source="Jeon et al. 2025, table 9",
        doc="passes over the rows of the warm-up, at most",
    )

    needs = Needs(maps=True, rows=2)
    limit = Limit.none(
        "two trunks and an expert at each depth answer, and no setting makes them one network"
    )
    version = 1
    family = {"jeon2025": "de-biasing"}

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """Both trunks, the experts and the gate."""
        model = make_model()
        biased = make_model()
        widths = _widths(model, info.input_shape)
        experts = nn.ModuleList(
            Expert(width, widths[-1], info.n_classes, self.probabilities) for width in widths
        )
        gate = nn.Linear(info.n_classes * len(widths), len(widths))
        return {"model": model, "biased": biased, "experts": experts, "gate": gate}

    def state(self, info: Info) -> State:
        """Running losses [DEPTHS, n_rows] of the `intrinsic` and the `biased` halves; `seen` bool,
        `label`, `group` int64 [n_rows].

        `peak` [2, DEPTHS, k]: the largest running losses of each class, of the intrinsic halves
        first.
        """
        n = info.n_rows
        zeros = torch.zeros(n, dtype=torch.int64)
        out = {name: torch.zeros(DEPTHS, n) for name in ("intrinsic", "biased")}
        peak = torch.zeros(2, DEPTHS, info.n_classes)
        out |= {"seen": torch.zeros(n, dtype=torch.bool), "peak": peak}
        return {**out, "label": zeros, "group": zeros.clone()}

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """The warm-up, and from its best networks the main stage."""
        context.state["label"], context.state["group"] = context.y.clone(), context.group.clone()
        if index == 0:
            steps = min(
                context.info.steps, math.ceil(self.warm_up_epochs * context.info.steps_per_epoch)
            )
            return Stage(WARM_UP, end="best", steps=steps, patience=self.warm_up_patience)
        return Stage() if index == 1 else None

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        warm = batch.stage == WARM_UP
        ours, theirs = _vectors(modules, batch.x)
        experts = [cast(Expert, expert) for expert in cast(nn.ModuleList, modules["experts"])]
        d = []
        for expert, u, v in zip(experts, ours, theirs, strict=True):
            d.append(expert.intrinsic(torch.cat([u, v.detach()], 1)))
        b = [
            expert.biased(torch.cat([u.detach(), v], 1))
            for expert, u, v in zip(experts, ours, theirs, strict=True)
        ]
        right, wrong = (
            [row_losses(expert_answers, batch.y) for expert_answers in half] for half in (d, b)
        )
        changes = self._running(right, wrong, batch, state)
        shares = _shares(changes, batch.y, batch.ids)
        alpha = self.alpha1 if warm else self.alpha2
        weighed = torch.stack(
            [
                (share.to(expert_answers.dtype) * expert_answers).mean()
                for share, expert_answers in zip(shares, right, strict=False)
            ]
        ).sum()
        followed = torch.stack(
            [generalised(expert_answers, self.q).mean() for expert_answers in wrong]
        ).sum()
        total = alpha * weighed + followed
        for before, after in zip(b, b[1:], strict=False):
            total = total + apart(before.detach(), after)
        gate_loss = row_losses(_gated(modules, d), batch.y).mean()
        total = total + gate_loss
        terms = {"intrinsic": weighed, "biased": followed, "gate": gate_loss}
        if not warm and self.beta:
            contrasts = [
                self._contrast(expert, u, v, expert_answers, batch.ids)
                for expert, u, v, expert_answers in zip(experts, ours, theirs, d, strict=True)
            ]
            terms["contrast"] = torch.stack(contrasts).mean()
            total = total + self.beta * terms["contrast"]
        return Loss(total, {name: term.detach() for name, term in terms.items()}, changes)

    def predict(self, modules: Modules, x: Tensor, state: State) -> Output:
        """The gate's mixture of the intrinsic halves' logits."""
        ours, theirs = _vectors(modules, x)
        experts = [cast(Expert, expert) for expert in cast(nn.ModuleList, modules["experts"])]
        d = []
        for expert, u, v in zip(experts, ours, theirs, strict=True):
            d.append(expert.intrinsic(torch.cat([u, v], 1)))
        return Output(logits=_gated(modules, d))

    def exhibits(self, info: Info, state: State) -> dict[str, Exhibit]:
        """The weights of the intrinsic halves beside the true groups, which training did not
        read."""
        state_on_cpu = {name: value.cpu() for name, value in state.items()}
        n_experts = int((state_on_cpu["biased"].abs().sum(1) > 0).sum())
        rows = torch.arange(len(state_on_cpu["label"]))[state_on_cpu["seen"]]
        if not n_experts or not len(rows):
            return {}
        shares = _shares(state_on_cpu, state_on_cpu["label"][rows], rows)[:n_experts].double()
        codes = state_on_cpu["group"][rows]
        by_group = membership(codes, info.n_groups).double()
        counts = by_group.sum(0)
        means = shares @ by_group / counts.clamp(min=1.0)
        order = sorted(
            (code for code in range(info.n_groups) if counts[code] > 0),
            key=lambda code: -float(means[:, code].mean()),
        )
        table_rows: list[list[str | float | int | None]] = [
            [
                info.group_names[code],
                int(counts[code]),
                round(float(means[:, code].mean()), 4),
                *(round(float(mean), 4) for mean in means[:, code]),
            ]
            for code in order
        ]
        columns = [
            "group",
            "training rows",
            "mean weight",
            *(f"expert {expert_number + 1}" for expert_number in range(n_experts)),
        ]
        caption = (
            "Weight of the rows in the intrinsic halves at the end of training, in [0, 1]. No group"
            " was read in training."
        )
        bars = {
            f"{info.group_names[code]} ({int(counts[code])})": float(means[:, code].mean())
            for code in order
        }
        drawn = Bars(bars, "mean weight", f"{caption} In brackets: training rows.")
        return {"weights by group": drawn, "weights by expert": Grid(columns, table_rows, caption)}

    def _running(
        self, right: Sequence[Tensor], wrong: Sequence[Tensor], batch: Batch, state: State
    ) -> State:
        """The state after these losses; a row that stands in the batch twice counts with its
        mean."""
        with torch.no_grad():
            same = (batch.ids[:, None] == batch.ids).float()
            same = same / same.sum(1, keepdim=True)
            share = torch.where(state["seen"][batch.ids], self.ema, 0.0)
            out = {"seen": state["seen"].index_fill(0, batch.ids, True)}
            for name, losses in (("intrinsic", right), ("biased", wrong)):
                new = torch.stack([same @ half_losses.detach().float() for half_losses in losses])
                before = state[name][: len(losses), batch.ids]
                mixed = share * before + (1.0 - share) * new
                mixed = torch.cat([mixed, mixed.new_zeros(DEPTHS - len(losses), len(batch.ids))])
                out[name] = state[name].index_copy(1, batch.ids, mixed)
            halves = [
                _largest(out[name], state["label"], state["peak"].shape[2])
                for name in ("intrinsic", "biased")
            ]
            return {**out, "peak": torch.stack(halves)}

    def _contrast(
        self, expert: Expert, u: Tensor, v: Tensor, answers: Tensor, ids: Tensor
    ) -> Tensor:
        """How hard the answers with another anchor's biased half are told from those with another
        row's intrinsic half."""
        anchors, other_anchors, rows = _drawn(ids, self.anchors, self.negatives)
        alike = expert.intrinsic(torch.cat([u[anchors], v[other_anchors].detach()], 1))
        anchor_features = v[anchors].repeat_interleave(self.negatives, 0)
        unlike = expert.biased(torch.cat([u[rows].detach(), anchor_features], 1))
        offered = torch.cat([alike[:, None], unlike.view(len(anchors), self.negatives, -1)], 1)
        logits = -self.temperature * (answers[anchors][:, None] - offered).square().mean(2)
        return row_losses(logits, torch.zeros_like(anchors)).mean()


class Expert(nn.Module):
    """Maps of a stage in both trunks -> a vector of each, and the two heads that answer by both.

    `before`: the maps' channels, `after`: the vectors' length. `squashed`: whether answers end in a
    sigmoid.
    """

    def __init__(self, before: int, after: int, n_classes: int, squashed: bool) -> None:
        super().__init__()
        self.ours, self.theirs = (_reader(before, max(1, after // PARTS), after) for _ in range(2))
        self.intrinsic, self.biased = (_head(2 * after, n_classes, squashed) for _ in range(2))


def _reader(before: int, hidden: int, after: int) -> nn.Sequential:
    first = nn.Conv2d(before, hidden, 3, padding=1)
    second = nn.Conv2d(hidden, after, 3, padding=1)
    return nn.Sequential(
        first,
        nn.BatchNorm2d(hidden),
        nn.ReLU(),
        second,
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def _head(before: int, n_classes: int, squashed: bool) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Linear(before, GATE),
        nn.BatchNorm1d(GATE),
        nn.ReLU(),
        nn.Linear(GATE, n_classes),
    ]
    return nn.Sequential(*layers, *([nn.Sigmoid()] if squashed else []))


def generalised(losses: Tensor, q: float) -> Tensor:
    """The generalised cross-entropy (1 - p^q) / q of rows whose cross-entropies -log p are given
    (Zhang and Sabuncu 2018)."""
    return -torch.expm1(-q * losses) / q


def apart(before: Tensor, after: Tensor) -> Tensor:
    """The mean over rows and classes of exp(-p log(p / r)), p and r the softmax of `before` and
    `after` [n, k]; small if unlike."""
    wide = torch.promote_types(after.dtype, torch.float32)
    p = before.to(wide).log_softmax(1)
    r = after.to(wide).log_softmax(1)
    return torch.exp(-p.exp() * (p - r)).mean()


def _shares(state: State, y: Tensor, ids: Tensor) -> Tensor:
    """The weights [DEPTHS, n] of rows `ids` with labels `y`, by the state's running losses over the
    largest of their class."""
    theirs, ours = (
        state[name][:, ids] / state["peak"][half][:, y].clamp(min=TINY)
        for half, name in ((1, "biased"), (0, "intrinsic"))
    )
    return theirs / (theirs + ours + TINY)


def _largest(values: Tensor, label: Tensor, n_classes: int) -> Tensor:
    """The largest of `values` [depths, n_rows], at least 0, among the rows of each class, [depths,
    n_classes]."""
    return values.new_zeros(len(values), n_classes).scatter_reduce(
        1, label.expand_as(values), values, "amax"
    )


def _drawn(ids: Tensor, anchors: int, negatives: int) -> tuple[Tensor, Tensor, Tensor]:
    """Places in the batch: of anchors [a], of an anchor for each [a], and of `negatives` rows for
    each [a * negatives].

    They go by the order of the ids, so that the loss is one of a set of rows.
    """
    n = len(ids)
    device = ids.device
    order = ids.argsort(stable=True)
    chosen = order[torch.rand(n, device=device).argsort()][:anchors]
    other_anchors = chosen[torch.rand(len(chosen), device=device).argsort()]
    rounds = math.ceil(len(chosen) * negatives / n)
    rows = torch.cat([order[torch.rand(n, device=device).argsort()] for _ in range(rounds)])
    return chosen, other_anchors, rows[: len(chosen) * negatives]


def _vectors(modules: Modules, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """u and v [n, c] of every expert."""
    experts = [cast(Expert, expert) for expert in cast(nn.ModuleList, modules["experts"])]
    model = cast(Model, modules["model"])
    biased = cast(Model, modules["biased"])
    ours = []
    for expert, stage_map in zip(experts, _maps(model, x), strict=True):
        ours.append(expert.ours(stage_map))
    return ours, [
        expert.theirs(stage_map)
        for expert, stage_map in zip(experts, _maps(biased, x), strict=True)
    ]


def _gated(modules: Modules, answers: Sequence[Tensor]) -> Tensor:
    """The gate's mixture [n, k] of the experts' answers, which gives them no gradient."""
    detached = [expert_answers.detach() for expert_answers in answers]
    shares = modules["gate"](torch.cat(detached, 1)).softmax(1)
    return (torch.stack(detached, 2) * shares[:, None]).sum(2)


def _maps(model: Model, x: Tensor) -> list[Tensor]:
    """The outputs of the stages that have an expert."""
    names = [name for name in model.stages if name != "stem"][-DEPTHS:]
    taps = model.taps(x, names)
    return [taps[name] for name in names]


def _widths(model: Model, shape: tuple[int, ...]) -> list[int]:
    """The channels of these maps; `NeedsError` where an output is no map. The model stays as it
    is."""
    training = model.training
    like = next(model.parameters())
    with torch.no_grad():
        stage_maps = _maps(
            model.eval(), torch.zeros(1, *shape, dtype=like.dtype, device=like.device)
        )
    model.train(training)
    if any(stage_map.ndim != 4 for stage_map in stage_maps):
        raise NeedsError(
            "method 'pnd' needs maps [channels, height, width] after the model's stages, and this"
            " model gives none"
        )
    return [stage_map.shape[1] for stage_map in stage_maps]

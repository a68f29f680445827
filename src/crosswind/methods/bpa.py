"""Bias-aware weighting by pseudo-attributes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.exhibits import Bars, Exhibit, Grid
from crosswind.core.knobs import Base, Limit, Needs, choose, knob, linear
from crosswind.core.registry import register
from crosswind.core.seeds import seed_of
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, RunContext, Stage, State
from crosswind.methods.functional import membership, row_losses

__all__ = ["BPA", "clusters"]

UNSEEN = -1.0  # no cross-entropy is negative


@final
@register("bpa", kind="method")
@dataclass(frozen=True)
class BPA(Method):
    """BPA: rows are weighted by the size and the loss of clusters of an ERM network's features,
    which stand for groups.

    Objective: the features of a first network, trained by ERM, are clustered within each class, `k`
        clusters a class. With N_c the rows of cluster c, N those of all, l_i the cross-entropy of
        row i when it was last drawn and L_c the mean l_i over the rows of c, a row of cluster c has
        in a batch B the raw weight
            r_i = (N / N_c) L_c / sum over c' of L_c',        before every row was drawn once: r_i = N / N_c,
        divided by its mean over B. Every row keeps a running weight w_i, 1 at first:
            w_i <- (1 - momentum) w_i + momentum r_i          (average "mean", their section 4.3)
            w_i <- w_i exp(momentum r_i)                      (average "exponential")
            w_i <- r_i exp(momentum r_i)                      (average "released": nothing of a row's past is in it)
        divided by its mean over B, and a step descends the mean over B of w_i l_i. L_c is taken
        anew each `refresh` steps. The model starts from the seed's own weights, not from the first
        network's.
    Assumes: the first network's features tell the groups apart within a class, so that rows against
        the bias fall in clusters of their own, small or with a large loss. No group or environment
        is read. Mislabelled rows have large losses too.
    Knobs: k 8 and momentum 0.3, those of Jeon et al. 2025 (12 clusters for iWildCam). refresh 10:
        Jeon et al.'s code. The first network is ERM for at most base_epochs 50 passes, stopped
        after base_patience 10 validations without a new best, and that of the best validation is
        taken: Jeon et al. 2025.
    Limits: at momentum = 0 all weights stay 1, and it is "erm" on the same batches, but for average
        "released". One cluster a class is not the limit: it weighs classes.
    Deviations: the authors weigh in their released code the rows of a batch by weights of the rows,
        as here; their text has running weights of clusters. That code has no running average:
        whichever is asked for, it first puts the raw weight where the running one was. So its "avg"
        is r_i whatever the momentum, and its default, "expavg" with a step of 0.05 (0.01 in its
        last version), is r_i exp(0.05 r_i): average "released" with momentum 0.05 here. The default
        here is the text's. Clusters are k-means of features scaled to length 1 (scikit-learn),
        theirs by the cosine to unscaled centres. A class with fewer different rows than k has fewer
        clusters; Jeon et al.'s code repeats its rows. A weight above 10 is cut in their settings,
        which their code never reads; here none is. Patience counts the study's validations, not
        passes. A row that stands in a batch twice counts with its mean loss.
    Reference:
        @inproceedings{seo2022unsupervised, title={Unsupervised Learning of Debiased Representations
        with Pseudo-Attributes}, author={Seo, Seonguk and Lee, Joon-Young and Han, Bohyung},
        booktitle={CVPR}, pages={16742--16751}, year={2022}}
    Checked against: hand-worked weights; a plain loop over rows and clusters.
    """

    k: int = knob(
        8,
        domain="[1, inf)",
        search=choose(4, 8, 12),
        grid={"jeon2025": [8]},
        source="Jeon et al. 2025, table 9",
        doc="clusters a class",
    )
    momentum: float = knob(
        0.3,
        domain="[0, 1]",
        search=linear(0.05, 0.5),
        grid={"jeon2025": [0.3]},
        source="Jeon et al. 2025, table 9",
        doc=(
            "share of the raw weight in the running one, or the factor in the exponent (0.05 as"
            " released)"
        ),
    )
    average: str = knob(
        "mean",
        domain="{mean, exponential, released}",
        source=(
            "Seo et al. 2022, section 4.3; exponential: as the authors' code names it; released: as"
            " that code computes it"
        ),
        doc="how raw weights become running ones",
    )
    refresh: int = knob(
        10,
        domain="[1, inf)",
        source="Jeon et al. 2025, their code",
        doc="steps between two looks at the clusters' losses",
    )
    base_patience: int | None = knob(
        10,
        domain="[1, inf)",
        source="Jeon et al. 2025, table 9",
        doc="validations without a new best that end the first training",
    )
    base_epochs: float | None = knob(
        50.0,
        domain="(0, inf)",
        source="Jeon et al. 2025, table 9",
        doc="passes over the rows of the first training, at most",
    )

    needs = Needs(
        base=Base(
            "erm",
            settings={"stop_at": None},
            from_knobs={"patience": "base_patience", "epochs": "base_epochs"},
        ),
        rows=2,
    )
    limit = Limit(
        {"momentum": 0.0, "average": "mean"},
        equals="erm",
        also=[{"momentum": [0.0], "average": ["exponential"]}],
    )
    version = 1
    family = {"jeon2025": "worst case"}

    def state(self, info: Info) -> State:
        """By row: `cluster` int64, `weight`, `loss` (`UNSEEN` before it was drawn), `group` int64;
        `rows`, `level` [c] of clusters.

        `level` is a cluster's mean loss. `found` bool []: whether the first network's features were
        numbers.
        """
        n_rows = info.n_rows
        n_clusters = info.n_classes * self.k
        return {
            "cluster": torch.zeros(n_rows, dtype=torch.int64),
            "group": torch.zeros(n_rows, dtype=torch.int64),
            "weight": torch.ones(n_rows),
            "loss": torch.full((n_rows,), UNSEEN),
            "rows": torch.ones(n_clusters),
            "level": torch.zeros(n_clusters),
            "found": torch.ones((), dtype=torch.bool),
        }

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """The second training; the first is the base run's."""
        if index:
            return None
        features = context.features(base=True).float()
        are_numbers = bool(torch.isfinite(features).all())
        device = context.y.device
        if are_numbers:
            seed = seed_of(context.seed, "pseudo-attributes")
            labels = context.y.cpu().numpy()
            cluster = torch.from_numpy(clusters(features.numpy(), labels, self.k, seed))
            counts = torch.bincount(cluster, minlength=context.info.n_classes * self.k)
            context.state["cluster"] = cluster.to(device)
            context.state["rows"] = counts.to(device, torch.float32)
        context.state["group"] = context.group.clone()
        context.state["found"] = torch.tensor(are_numbers, device=device)
        return Stage()

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        """See the class."""
        losses = row_losses(modules["model"](batch.x), batch.y)
        raw = self._raw_weights(batch.ids, state)
        running = self._running(state["weight"][batch.ids], raw)
        running = running / running.mean()
        with torch.no_grad():
            last_losses = _noted(state["loss"], batch.ids, losses)
            cluster_losses = state["level"]
            if (batch.step + 1) % self.refresh == 0:
                cluster_losses = _means(last_losses, state["cluster"], len(cluster_losses))
        new_state = {
            "weight": state["weight"].index_copy(0, batch.ids, running),
            "loss": last_losses,
            "level": cluster_losses,
        }
        total = (running.to(losses.dtype) * losses).mean()
        return Loss(total, {"largest_weight": running.max()}, new_state)

    def _raw_weights(self, ids: Tensor, state: State) -> Tensor:
        """r_i of the class by its mean over the batch, [n], of the rows `ids` int64 [n]."""
        cluster = state["cluster"][ids]
        cluster_losses = state["level"]
        raw = len(state["cluster"]) / state["rows"][cluster]
        losses_are_known = (state["loss"] != UNSEEN).all() & (cluster_losses.sum() > 0)
        by_loss = raw * cluster_losses[cluster] / cluster_losses.sum().clamp(min=1e-30)
        raw = torch.where(losses_are_known, by_loss, raw)
        return raw / raw.mean().clamp(min=1e-30)

    def _running(self, before: Tensor, raw: Tensor) -> Tensor:
        """The running weights w_i of rows, [n], by those before the step and the raw ones, [n]
        each; not yet divided by their mean."""
        if self.average == "mean":
            return torch.lerp(before, raw, self.momentum)
        base = before if self.average == "exponential" else raw
        return base * torch.exp(self.momentum * raw)

    def doubts(self, state: State) -> list[str]:
        """Weights that follow nothing, or the clusters' sizes alone."""
        if self.momentum == 0 and self.average != "released":
            return []
        if not bool(state["found"]):
            return [
                "the first network diverged, so its features are no clusters and all rows weigh the"
                " same; lower the learning rate"
            ]
        some_undrawn = bool((state["loss"] == UNSEEN).any())
        if some_undrawn or not bool(state["level"].any()):
            return [
                "the run ended before every row was drawn and the clusters' losses were looked at,"
                " so weights follow the clusters' sizes alone; take more steps"
            ]
        return []

    def exhibits(self, info: Info, state: State) -> dict[str, Exhibit]:
        """The weights beside the true groups, which training did not read; and the clusters."""
        by_group = membership(state["group"].cpu(), info.n_groups).double()
        weight = state["weight"].cpu().double()
        bars = Bars(
            _mean_weights(by_group, weight, info.group_names),
            "mean weight",
            "Weight of the rows at the end of training, 1 on average over batches. No group was"
            " read in training. In brackets: training rows.",
        )
        cluster = state["cluster"].cpu()
        table_rows = [
            self._cluster_row(code, cluster == code, by_group, weight, info)
            for code in range(info.n_classes * self.k)
            if bool((cluster == code).any())
        ]
        grid = Grid(
            ["cluster", "training rows", "mean weight", "largest group", "its share"],
            table_rows,
            "Clusters of the first network's features within each class, and the group that"
            " most of their rows are of.",
        )
        return {"weights by group": bars, "clusters": grid}

    def _cluster_row(
        self, code: int, inside: Tensor, by_group: Tensor, weight: Tensor, info: Info
    ) -> list[str | float | int | None]:
        """A row of the table of clusters: of the cluster `code`, whose rows are `inside` bool [n];
        `by_group` float64 [n, g] has a 1 in the column of a row's group."""
        class_code, number = divmod(code, self.k)
        class_name = info.class_names[class_code] if info.class_names else class_code
        n_inside = inside.sum()
        rows_of_group = by_group[inside].sum(0)
        largest_group = int(rows_of_group.argmax())
        return [
            f"{class_name} {number + 1}",
            int(n_inside),
            round(float(weight[inside].mean()), 4),
            info.group_names[largest_group],
            round(float(rows_of_group[largest_group] / n_inside), 4),
        ]


def _mean_weights(by_group: Tensor, weight: Tensor, names: Sequence[str]) -> dict[str, float]:
    """The mean weight of every group that has rows, largest first, by its name and its number of
    rows; `by_group` float64 [n, g], weight float64 [n]."""
    counts = by_group.sum(0)
    means = (weight @ by_group) / counts.clamp(min=1.0)
    codes = [code for code in range(len(names)) if counts[code] > 0]
    codes.sort(key=lambda code: -float(means[code]))
    return {f"{names[code]} ({int(counts[code])})": float(means[code]) for code in codes}


def clusters(
    features: NDArray[np.float32], y: NDArray[np.int64], k: int, seed: int
) -> NDArray[np.int64]:
    """The cluster of each row, int64 [n]: k times its class + a number below k, by k-means of
    features [n, d] in each class.

    Features are scaled to length 1, so that distances go by the cosine. A class of fewer different
    rows has fewer clusters.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    cluster = y.astype(np.int64) * k
    length = np.linalg.norm(features, axis=1, keepdims=True)
    points = features / np.where(length > 0, length, 1)
    for code in np.unique(y).tolist():
        rows = np.flatnonzero(y == code)
        # Several threads add up in no fixed order. Warned of are fewer different rows than
        # clusters, which is said above.
        with threadpool_limits(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            k_means = KMeans(min(k, len(rows)), n_init=1, random_state=seed % 2**32)
            k_means.fit(points[rows])
        cluster[rows] += k_means.labels_
    return cluster


def _noted(last_losses: Tensor, ids: Tensor, losses: Tensor) -> Tensor:
    """`last_losses` float32 [rows] with the losses [n] of the rows `ids` int64 [n] of a batch; a
    row that stands in it several times has their mean."""
    is_same_row = (ids[:, None] == ids).float()
    means = (is_same_row @ losses.detach().float()) / is_same_row.sum(1)
    return last_losses.index_copy(0, ids, means)


def _means(losses: Tensor, cluster: Tensor, n_clusters: int) -> Tensor:
    """The mean loss of the rows of every cluster that were drawn, [n_clusters]; 0 where none
    was."""
    is_drawn = (losses != UNSEEN).to(losses.dtype)
    zeros = torch.zeros(n_clusters, dtype=losses.dtype, device=losses.device)
    loss_sums = zeros.index_add(0, cluster, losses * is_drawn)
    counts = zeros.index_add(0, cluster, is_drawn)
    return loss_sums / counts.clamp(min=1.0)

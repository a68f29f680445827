"""Just train twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from crosswind.core.knobs import Base, Limit, Needs, choose, knob, linear
from crosswind.core.registry import register
from crosswind.methods.base import Info, Method, RunContext, Stage, State

__all__ = ["JTT"]


@final
@register("jtt", kind="method")
@dataclass(frozen=True)
class JTT(Method):
    """JTT: train once, then train a fresh model on a set that holds the rows which the first got
    wrong `up` times.

    Objective: with f the network of T steps of ERM and the error set E = {i : argmax f(x_i) !=
        y_i}, minimise over a fresh theta sum_{i in E} up L_i(theta) + sum_{i not in E} L_i(theta)
    (their algorithm 1, equation 2), by epochs in which a row of E stands `up` times and each other
    one once. The first network is an ERM run of its own (`needs.base`), done once for all values of
    `up`. E is found at its last step, in evaluation mode, from un-augmented inputs, against the
    labels that training sees, noise included.
    Assumes: rows that ERM gets wrong early are those of the groups that it fails. No group or
        environment is read. Label noise breaks the assumption: mislabelled rows are wrong too, and
        their false labels are multiplied.
    Knobs: up 20, that of Wiles et al. 2022; the authors' search is over {20, 50, 100}. T is the end
        of the first pass over the training rows after which the share `fit_at` of them is right,
        and at most the share `first` of the study's steps. fit_at 0.9 is ours. A fixed T fits one
        task: the authors tune it on validation groups (60 of 300 epochs on Waterbirds, 1 of 50 on
        CelebA), Wiles et al. take half the steps (`fit_at: null, first: 0.5`). On small data half
        can be beyond the step at which no row is wrong any more, and JTT is then ERM. Measured,
        with perceptrons and small networks on 300 to 2,000 rows: 0.9 of the rows are right after
        0.5 to 40 passes, so no number of epochs fits. An example is colour that tells the size of a
        shape in 95% of the rows (dSprites at 16 pixels). The rows then wrong hold 0.7 to 1.0 of the
        other 5%, and the worst group is right on 0.07, 0.34, 0.52 with 300, 1,000, 2,000 rows. With
        half the steps it is right on 0.00, 0.38, 0.55, with ERM on 0, with 0.8 or 0.95 the same
        within what 3 seeds tell. On digits whose ink tells them in 80% of 300 rows 23 to 30 rows
        are wrong and hold 0.2 of the rest, and JTT does not beat ERM. So 0.9 is there for an error
        set to exist, not for its accuracy.
    Limits: at up = 1, and where no row is wrong, it is "erm", whose initial weights and batches the
        second training shares. Where values are drawn at every visit, other values of `up` change
        also what is drawn for the rows that are right.
    Deviations: T follows from training accuracy, or is a share of the steps, and is no tuned number
        of epochs. The authors choose T and up on validation groups; here the study's selection rule
        does. The first training takes the study's optimiser; neither patience, validation
        accuracy nor a loss stops it. An estimator that is fitted at once is fitted twice: the
        first time alike, the second with weight `up` for the rows of E (`fit_at` and `first` say
        nothing of it). One that is right on all its training rows, as forests are, has no E.
    Reference:
        @inproceedings{liu2021just, title={Just Train Twice: Improving Group Robustness without
        Training Group Information}, author={Liu, Evan Z. and Haghgoo, Behzad and Chen, Annie S. and
        Raghunathan, Aditi and Koh, Pang Wei and Sagawa, Shiori and Liang, Percy and Finn, Chelsea},
        booktitle={ICML}, year={2021}}
    Checked against: hand-worked error sets and how often a row is then seen.
    """

    up: int = knob(
        20,
        domain="[1, inf)",
        search=choose(20, 50, 100),
        grid={"liu2021": [20, 50, 100], "wiles2022": [20]},
        source="Wiles et al. 2022",
        doc="how often a row that the first network got wrong stands in an epoch (lambda)",
    )
    fit_at: float | None = knob(
        0.9,
        domain="(0, 1]",
        search=linear(0.7, 0.99),
        grid={"wiles2022": [None]},
        source="ours, measured: see Knobs",
        doc=(
            "share of right training rows at which the first training stops, asked after every"
            " pass; null: `first` alone ends it"
        ),
    )
    first: float = knob(
        0.5,
        domain="(0, 1]",
        search=linear(0.1, 1.0),
        grid={"wiles2022": [0.5]},
        source="Wiles et al. 2022",
        doc="steps of the first training as a share of the study's, at most",
    )

    needs = Needs(
        base=Base(
            "erm",
            settings={"patience": None, "stop_at": None, "loss_at": None},
            from_knobs={"fit_at": "fit_at"},
            scaled={"steps": "first", "epochs": "first"},
            rule="last",
        ),
        gradient=False,
    )
    limit = Limit({"up": 1}, equals="erm")
    version = 1
    family = {"wiles2022": "adaptive"}

    def state(self, info: Info) -> State:
        """`wrong` bool [n_rows]: the error set; `answered` bool []: whether the first network's
        answers were numbers."""
        return {
            "wrong": torch.zeros(info.n_rows, dtype=torch.bool),
            "answered": torch.ones((), dtype=torch.bool),
        }

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """The second training; the first is the base run's."""
        if index:
            return None
        logits = context.predict(base=True).logits
        assert logits is not None
        wrong = logits.argmax(1) != context.y.cpu()
        context.state["wrong"] = wrong.to(context.y.device)
        context.state["answered"] = torch.isfinite(logits).all().to(context.y.device)
        # Without a row that stands twice the stage is ERM's own, down to what is drawn at a row's
        # visits.
        repeats_rows = self.up > 1 and bool(wrong.any())
        copies = torch.where(wrong, self.up, 1) if repeats_rows else None
        return Stage("main", copies=copies)

    def doubts(self, state: State) -> list[str]:
        """An empty error set, or one of all rows, makes it ERM; that of a network that diverged
        says nothing."""
        n_rows = len(state["wrong"])
        n_wrong = int(state["wrong"].sum())
        if not bool(state["answered"]):
            return [
                "the first network diverged, so the rows that it got wrong are no error set; lower"
                " the learning rate"
            ]
        if 0 < n_wrong < n_rows:
            return []
        if n_wrong:
            which, remedy = "every", "raise `fit_at` or `first`, or have an estimator fit closer"
        else:
            which, remedy = "no", "lower `fit_at` or `first`, or have an estimator fit less closely"
        return [f"the first network got {which} training row wrong, so this run is ERM; {remedy}"]

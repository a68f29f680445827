"""Just train twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from crosswind.core.knobs import Base, Limit, Needs, choose, knob, linear
from crosswind.core.registry import register
from crosswind.methods.base import Info, Method, Stage, State, Tools

__all__ = ["JTT"]


@final
@register("jtt", kind="method")
@dataclass(frozen=True)
class JTT(Method):
    """JTT: train once, then train a fresh model on a set that holds the rows which the first got wrong `up` times.

    Objective: with f the network of T steps of ERM and the error set E = {i : argmax f(x_i) != y_i}, minimise over a fresh theta
        sum_{i in E} up L_i(theta) + sum_{i not in E} L_i(theta)
    (their algorithm 1, equation 2), by epochs in which a row of E stands `up` times and each other one once. The first network is
    an ERM run of its own (`needs.base`), done once for all values of `up`; E is found at its last step, in evaluation mode,
    from un-augmented inputs, against the labels that training sees, noise included.
    Assumes: rows that ERM gets wrong early are those of the groups that it fails. No group or environment is read. Label noise
        breaks the assumption: mislabelled rows are wrong too, and their false labels are multiplied.
    Knobs: up 20, that of Wiles et al. 2022; their and the authors' search is over {20, 50, 100}. first 1/2, the share of the
        study's steps that the first training takes, Wiles et al.'s; the authors tune T in epochs (1 to 60).
    Limits: at up = 1, and where no row is wrong, it is "erm", whose initial weights and batches the second training shares. Where
        values are drawn at every visit, other values of `up` change also what is drawn for the rows that are right.
    Deviations: T is a share of the steps and not a number of epochs. The authors choose T and up on validation groups; here the
        study's selection rule does. The first training takes the study's optimiser; no rule stops it early.
    Reference:
        @inproceedings{liu2021just, title={Just Train Twice: Improving Group Robustness without Training Group Information},
        author={Liu, Evan Z. and Haghgoo, Behzad and Chen, Annie S. and Raghunathan, Aditi and Koh, Pang Wei and Sagawa, Shiori
        and Liang, Percy and Finn, Chelsea}, booktitle={ICML}, year={2021}}
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
    first: float = knob(
        0.5,
        domain="(0, 1]",
        search=linear(0.1, 1.0),
        grid={"wiles2022": [0.5]},
        source="Wiles et al. 2022",
        doc="steps of the first training as a share of the study's (T)",
    )

    needs = Needs(
        base=Base("erm", settings={"patience": None, "stop_at": None}, scaled={"steps": "first", "epochs": "first"}, rule="last")
    )
    limit = Limit({"up": 1}, equals="erm")
    version = 1
    family = {"wiles2022": "adaptive"}

    def state(self, info: Info) -> State:
        """`wrong` bool [n_rows]: the error set; `answered` bool []: whether the first network's answers were numbers."""
        return {"wrong": torch.zeros(info.n_rows, dtype=torch.bool), "answered": torch.ones((), dtype=torch.bool)}

    def stage(self, index: int, tools: Tools) -> Stage | None:
        """The second training; the first is the base run's."""
        if index:
            return None
        logits = tools.predict(base=True).logits
        assert logits is not None
        wrong = logits.argmax(1) != tools.y.cpu()
        tools.state["wrong"] = wrong.to(tools.y.device)
        tools.state["answered"] = torch.isfinite(logits).all().to(tools.y.device)
        # Without a row that stands twice the stage is ERM's own, down to what is drawn at a row's visits.
        return Stage("main", copies=torch.where(wrong, self.up, 1) if self.up > 1 and bool(wrong.any()) else None)

    def doubts(self, state: State) -> list[str]:
        """An empty error set, or one of all rows, makes it ERM; that of a network that diverged says nothing."""
        wrong, n = int(state["wrong"].sum()), len(state["wrong"])
        if not bool(state["answered"]):
            return ["the first network diverged, so the rows that it got wrong are no error set; lower the learning rate"]
        if 0 < wrong < n:
            return []
        return [f"the first network got {'every' if wrong else 'no'} training row wrong, so this run is ERM; change `first`"]

"""Adversarial data augmentation: training rows are joined by copies that the network finds hard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from crosswind.core.knobs import Limit, Needs
from crosswind.core.registry import register
from crosswind.methods.adversarial import Adversarial

__all__ = ["ADA"]


@final
@register("ada", kind="method")
@dataclass(frozen=True)
class ADA(Adversarial):
    """ADA: pictures are moved to where the network errs while its features stay near, and the
    copies join the training rows.

    Objective: the mean cross-entropy of the training rows and of all copies made so far (Volpi et
        al. 2018, algorithm 1). After each of `phases` minimisation phases every row and every copy
        (x, y) gets a copy: from x_0 = x, `ascent_steps` times,
            x_t+1 = x_t + rate / B grad_x [ CE(f(x_t), y) - gamma mean_j (z_j(x_t) - z_j(x))^2 ]
        with z the d features before the head, B the study's batch, and f in evaluation mode on
        un-augmented inputs. So rows are N, then 2N, then 4N. Copies of pictures end in [-1, 1], the
        range of inputs. They have the label of x, noise
        included, and are neither augmented nor changed again.
    Assumes: unseen data are near the training rows in the features of a network that was trained on
        them. No group or environment is read. A shift that moves features far, and one of which
        classes are seen with which attribute, are not what it is for.
    Knobs: phases 2, ascent_steps 15, gamma 1: Jeon et al. 2025, table 9. rate 20, on inputs in (-1,
        1) as there, and each phase a tenth of the run: the code of Zhao et al. 2020 for CIFAR-10.
        On MNIST they have 3 phases of a hundredth each, and 20 on inputs in [0, 1], which is 80
        here. A phase is at most an even part of the steps.
    Limits: at phases = 0 it is "erm".
    Deviations: the rate is that of a batch's mean in the code of Zhao et al. 2020, so a row moves
        by rate / B of its own slope, in batches of any size. The distance is their mean over
        features; Volpi et al. write half a sum. In the paper each phase copies N rows, drawn from
        all; here all are copied, as in that code. Optimisers start anew after each phase. Copies
        are kept in 32 bits: with 2 phases 12 times the bytes of the pictures in memory.
    Reference:
        @inproceedings{volpi2018generalizing, title={Generalizing to Unseen Domains via Adversarial
        Data Augmentation}, author={Volpi, Riccardo and Namkoong, Hongseok and Sener, Ozan and
        Duchi, John C. and Murino, Vittorio and Savarese, Silvio}, booktitle={NeurIPS}, year={2018}}
    Checked against: a hand-worked step; a loop over rows; what the loop trains on.
    """

    needs = Needs(numbers="phases")
    limit = Limit({"phases": 0}, equals="erm")
    version = 1
    family = {"jeon2025": "single-domain generalisation"}

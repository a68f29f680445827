"""The conditions under which methods are worth it, beyond what they need to work at all. A plan and
a run that give less say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["WANTED", "Want"]


@dataclass(frozen=True)
class Want:
    """`steps`: those of a run below which the method, at its defaults, was seen far behind plain
    training; `because`: why, and what to raise. `weights`: what it does with the initial weights,
    where it is worth it only from given ones.
    """

    steps: int = 0
    because: str = ""
    weights: str = ""


WANTED: Mapping[str, Want] = {
    # On scikit-learn's digits, 16 pixels, a small network: 0.43 after 300 steps, where erm has
    # 0.85, and 0.84 after 1,000 (0.94).
    "beta-vae": Want(
        1000,
        "its encoder first learns for as long without labels; raise training.steps, or `share`",
    ),
    # Zhu et al. 2017 train for 200 passes at this rate.
    "cyclegan": Want(
        1000, "its translator begins at noise; raise training.steps, `first` or `translator_lr`"
    ),
    "lora": Want(weights="learns a change of low rank of the initial weights"),
    # On the same digits: 0.70 after 100 steps, where erm has 0.83, and 0.86 after 300 (0.85); the
    # study of its effect has 160.
    "vicreg": Want(
        150,
        "at first the alignment is nine tenths of the loss; raise training.steps, or lower"
        " `weight`",
    ),
}
"""By name. Beside the loop and not in the files of the methods, since it is what was seen of them
and no part of what they do."""

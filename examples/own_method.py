"""Your own method, in 30 lines, in a study beside ERM.

The method is the class below and nothing more: from its declarations come its place in lists, its
checked settings and its grid. `run_study` finds it because this program defines it; with workers,
they import this file, hence the `if` at its end.
Takes about 10 seconds.

    python examples/own_method.py [FOLDER [WORKERS]]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch

import crosswind as cw
from crosswind.core.knobs import Limit, Needs, knob, linear
from crosswind.core.registry import register
from crosswind.methods.base import Batch, Loss, Method, Modules, State


@register("top-loss", kind="method")
@dataclass(frozen=True)
class TopLoss(Method):
    """The mean loss of the hardest share of a batch (conditional value at risk).

    Objective: min over theta of the mean of the largest share x n of the n losses of a batch.
    Reference: Rockafellar & Uryasev 2000; as a training loss, Levy et al. 2020, equation 2.
    """

    share: float = knob(
        0.5, domain="(0, 1]", search=linear(0.1, 1.0), doc="share of the batch that counts"
    )
    needs = Needs()  # no groups, no environments: labels are enough
    limit = Limit({"share": 1.0})  # at share 1 it is ERM
    version = 1  # raise it when the numbers change: results of before are then not reused

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        losses = torch.nn.functional.cross_entropy(
            modules["model"](batch.x), batch.y, reduction="none"
        )
        k = max(1, round(self.share * len(losses)))
        hardest = losses.topk(k).values
        return Loss(hardest.mean(), {"hardest": hardest.max().detach()})


STUDY = {
    "name": "top-loss",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 8, "validation": 0.15},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"equal": {"total": 240}},
    "models": ["mlp"],
    "methods": {"erm": {}, "top-loss": {"share": 0.5}},
    "training": {"steps": 60, "validate_every": 10},
    "seeds": 2,
}


def main(folder: Path = Path("top-loss-out"), workers: int = 0) -> cw.StudyResults:
    results = cw.run_study(STUDY, folder, workers=workers)
    print(results)
    return results


if __name__ == "__main__":
    words = sys.argv[1:]
    main(Path(words[0]) if words else Path("top-loss-out"), int(words[1]) if len(words) > 1 else 0)

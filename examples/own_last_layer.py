"""Your own method that reads held-out rows: the last layer retrained, in a study beside ERM.

Deep feature reweighting needs an ordinary network (`Needs(base=...)`, which a study trains once) and
validation rows whose groups are known (`Needs(holdout=...)`). No selection rule and no score reads
the rows that it holds out.
Takes about 15 seconds.

    python examples/own_last_layer.py [FOLDER [WORKERS]]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import crosswind as cw
from crosswind.core.errors import NeedsError
from crosswind.core.knobs import Base, Holdout, Limit, Needs, knob, linear, log
from crosswind.core.registry import register
from crosswind.core.seeds import stream
from crosswind.methods.base import HeldOut, Info, MakeModel, Method, Modules, RunContext, Stage


@register("dfr", kind="method")
@dataclass(frozen=True)
class DeepFeatureReweighting(Method):
    """Deep feature reweighting: train as ERM, then fit the last layer anew to held-out rows of
    which every group counts the same.

    Objective: with f the features of the ERM network, min over W, b of the mean over rows i of
    cross-entropy(W f(x_i) + b, y_i) + penalty |W|_1, on features of mean 0 and deviation 1. The rows
    are drawn from the held-out ones, as many of each group as the smallest has. W and b are the mean
    over `repeats` such draws (their section 4, DFR^Val_Tr).
    Deviation: the penalty is a knob for the study's search, not tuned on half of the held-out rows.
    Reference: Kirichenko, Izmailov & Wilson 2023, Last layer re-training is sufficient for robustness
    to spurious correlations.
    """

    share: float = knob(
        0.5, domain="(0, 1)", search=linear(0.3, 0.7), doc="share of the validation rows held out"
    )
    penalty: float = knob(0.001, domain="[0, inf)", search=log(1e-4, 0.1), doc="weight of |W|_1")
    repeats: int = knob(10, domain="[1, 100]", doc="draws of rows whose layers are averaged")
    needs = Needs(base=Base("erm"), holdout=Holdout(share="share"))
    limit = Limit.none("at no setting does it keep the head of ERM")
    version = 1

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The network of the ERM run."""
        model = make_model(base=True)
        if not isinstance(model.head, nn.Linear):
            raise NeedsError("method 'dfr' needs a model whose head is one linear layer")
        return {"model": model}

    def stage(self, index: int, context: RunContext) -> Stage | None:
        """One of no steps, before which the last layer is fitted."""
        if index:
            return None
        held_out = context.holdout
        assert held_out is not None
        features = held_out.features().double()
        scale, mean = features.std(0).clamp_min(1e-6), features.mean(0)
        layers = []
        for repeat in range(self.repeats):
            rows = even_groups(held_out, context.seed, repeat)
            labels = held_out.y.cpu()[rows]
            inputs = (features[rows] - mean) / scale
            layers.append(fit_layer(inputs, labels, context.info.n_classes, self.penalty))
        weight = torch.stack([weight for weight, _ in layers]).mean(0) / scale
        bias = torch.stack([bias for _, bias in layers]).mean(0) - weight @ mean
        head = context.modules["model"].head
        with torch.no_grad():
            head.weight.copy_(weight)
            head.bias.copy_(bias)
        return Stage("last layer", steps=0, stop=False)


def even_groups(held_out: HeldOut, seed: int, repeat: int) -> Tensor:
    """Rows drawn without replacement, as many of each group as the smallest has, int64."""
    group = held_out.group.cpu()
    draw = stream(seed, "dfr", repeat)
    smallest = int(group.bincount()[group.unique()].min())
    members = [(group == code).nonzero()[:, 0].numpy() for code in group.unique()]
    return torch.cat([torch.from_numpy(draw.permutation(rows)[:smallest]) for rows in members])


def fit_layer(
    inputs: Tensor, labels: Tensor, n_classes: int, penalty: float, steps: int = 500
) -> tuple[Tensor, Tensor]:
    """Weight [k, d] and bias [k] of softmax regression with an L1 penalty on the weight, by
    accelerated proximal gradient (Beck & Teboulle 2009)."""
    target = nn.functional.one_hot(labels, n_classes).double()
    extended = torch.cat([inputs, torch.ones(len(inputs), 1).double()], dim=1)
    rate = 2 * len(inputs) / torch.linalg.matrix_norm(extended, 2) ** 2
    layer = ahead = torch.zeros(n_classes, extended.shape[1]).double()
    for step in range(steps):
        error = (extended @ ahead.T).softmax(1) - target
        before, layer = layer, ahead - rate * error.T @ extended / len(inputs)
        layer[:, :-1] = nn.functional.softshrink(layer[:, :-1], float(rate * penalty))
        ahead = layer + step / (step + 3) * (layer - before)
    return layer[:, :-1], layer[:, -1]


STUDY = {
    "name": "last-layer",
    "data": {
        "sizes": {
            "source": "dsprites",
            "options": {"size": 16},
            "label": "scale",
            "keep": {"scale": [0.6, 0.8], "x": [14, 15, 16, 17], "y": [14, 15, 16, 17]},
            "attributes": ["object_color"],
            "roles": {"test": 100, "validation": 0.3},
        }
    },
    "shifts": {
        "SC": {
            "type": "spurious-correlation",
            "attribute": "object_color",
            "counterexamples": 0.05,
        }
    },
    "sizes": {"equal": {"total": 600}},
    "sets": {
        "validation": {"role": "validation", "law": "train", "draw": {"total": 600}},
        "test": {"role": "test", "law": "uniform"},
    },
    "models": ["mlp"],
    "methods": {"erm": {}, "dfr": {}},
    "training": {"steps": 100, "batch": 64, "validate_every": 20},
    "seeds": 3,
}


def main(folder: Path = Path("last-layer-out"), workers: int = 0) -> cw.StudyResults:
    results = cw.run_study(STUDY, folder, workers=workers)
    print(results)
    return results


if __name__ == "__main__":
    words = sys.argv[1:]
    main(
        Path(words[0]) if words else Path("last-layer-out"), int(words[1]) if len(words) > 1 else 0
    )
